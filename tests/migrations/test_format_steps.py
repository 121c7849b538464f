"""Format steps: applied once each, noted in the same transaction, taken back without loss."""

import re
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from filestore import (
    CorruptionError,
    FileStore,
    FormatError,
    InvalidArgumentError,
    NewerFormatError,
    Transaction,
)
from filestore import ledger as ledger_rows
from filestore.engine import schema
from filestore.engine.driver import Connection
from filestore.ledger import LedgerRow
from filestore.sessions import Sessions
from migrations.format import (
    changing,
    down,
    f0001_first_tables,
    f0002_ledger,
    f0003_journal,
    status,
    up,
)
from tests.conftest import StoreOpener
from tests.contract.tools import footprint, noise, query, run_sql

ROWS = [
    LedgerRow("filestore.db", "block", "output", 5, 7, "imported", "block", 9, 5),
    LedgerRow("filestore.db", "Zone é", "ä\u2028", 1 << 40, -1, "damaged", "", 0, 0),
]


@pytest.fixture
async def closed(open_store: StoreOpener, data_dir: Path) -> Path:
    """The folder of a store at rest, with files, a session, ledger rows and an unfinished build."""
    store = await open_store()
    await store.write("z", "f", noise(200_000))
    await store.append("z", "log", b"tail\n")
    await Sessions(store).append_output("ada", "hello")

    async def unit(tx: Transaction) -> None:
        for row in ROWS:
            await ledger_rows.save(tx.rows, row)

    await store.transact(unit)
    await store.close()
    return data_dir


async def content(folder: Path, **options: Callable[[Path], object]) -> tuple[object, ...]:
    """What must come through: bytes, a session, the ledger."""
    async with await FileStore.open(folder, upgrade=options.get("upgrade")) as store:
        kept = await store.read_unit(lambda tx: ledger_rows.load(tx, "filestore.db", "block"))
        odd = await store.read_unit(lambda tx: ledger_rows.load(tx, "filestore.db", "Zone é"))
        return (
            await store.read("z", "f"),
            await store.read("z", "log"),
            (await Sessions(store).read_state("ada")).session_id,
            kept,
            odd,
        )


def tables(database: Path) -> list[str]:
    found = query(database, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return sorted(str(sql) for (sql,) in found)


def test_step_names_are_well_formed_and_those_of_the_store() -> None:
    names = [step.name for step in changing.STEPS]
    assert tuple(names) == schema.STEPS
    for number, name in enumerate(names, 1):
        assert re.fullmatch(rf"f{number:04}_[a-z0-9]+(_[a-z0-9]+)*", name)
    assert all(step.down is not None for step in changing.STEPS[1:])


def test_fresh_tables_are_those_of_all_steps() -> None:
    steps = (*f0001_first_tables.TABLES, *f0002_ledger.TABLES, *f0003_journal.TABLES)
    assert sorted(steps) == sorted(schema.TABLES)


def test_fresh_store_is_what_all_steps_make(closed: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.db"
    with closing(sqlite3.connect(made, isolation_level=None)) as connection:
        for number in range(1, len(changing.STEPS) + 1):
            changing._apply(connection, tmp_path, number, 5)
    assert tables(made) == tables(closed / "zoned.db")
    noted = query(closed / "zoned.db", "SELECT number, name FROM format_step")
    assert query(made, "SELECT number, name FROM format_step") == noted
    assert query(made, "PRAGMA user_version") == query(closed / "zoned.db", "PRAGMA user_version")


async def test_down_then_up_keeps_all_data(closed: Path) -> None:
    before = await content(closed)
    assert down(closed, 1) == ["f0003_journal", "f0002_ledger"]
    assert tables(closed / "zoned.db") == sorted(f0001_first_tables.TABLES)
    assert query(closed / "zoned.db", "PRAGMA user_version") == [(1,)]
    with pytest.raises(FormatError, match="format 1"):
        await FileStore.open(closed)
    assert up(closed) == ["f0002_ledger", "f0003_journal"]
    assert await content(closed) == before
    assert not (closed / f0002_ledger.SAVED_NAME).exists()
    assert not (closed / f0003_journal.SAVED_NAME).exists()
    assert up(closed) == []


async def test_saved_ledger_that_a_crash_left_behind_does_no_harm(closed: Path) -> None:
    """Killed after the commit of `up` and before it was removed; then down and up again."""
    before = await content(closed)
    down(closed, 1)
    saved = (closed / f0002_ledger.SAVED_NAME).read_bytes()
    up(closed)
    (closed / f0002_ledger.SAVED_NAME).write_bytes(saved)
    down(closed, 1)
    up(closed)
    assert await content(closed) == before


async def test_older_store_is_brought_up_when_it_is_opened_so(closed: Path) -> None:
    before = await content(closed)
    down(closed, 1)
    assert await content(closed, upgrade=up) == before
    assert await content(closed, upgrade=up) == before


async def test_build_that_was_under_way_is_released_after_down_and_up(
    open_store: StoreOpener, data_dir: Path
) -> None:
    async def data() -> AsyncIterator[bytes]:
        yield noise(300_000)

    store = await open_store()
    await store.build(data())
    await store.close()
    down(data_dir, 1)
    up(data_dir)
    store = await open_store()
    await store.tidy()
    assert not await store.read_unit(lambda tx: tx.fetch("SELECT 1 FROM chunk"))


async def test_status_tells_and_never_writes(closed: Path, tmp_path: Path) -> None:
    before = footprint(closed)
    found = status(closed)
    assert [(step.number, step.name, step.is_applied) for step in found] == [
        (1, "f0001_first_tables", True),
        (2, "f0002_ledger", True),
        (3, "f0003_journal", True),
    ]
    assert all(step.applied_ms > 0 for step in found)
    assert footprint(closed) == before
    down(closed, 1)
    assert [step.is_applied for step in status(closed)] == [True, False, False]
    assert [step.is_applied for step in status(tmp_path / "nothing")] == [False] * 3


async def test_status_works_beside_an_open_store(open_store: StoreOpener, data_dir: Path) -> None:
    store = await open_store()
    await store.write("z", "f", b"x")
    assert all(step.is_applied for step in status(data_dir))


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_step_that_fails_midway_leaves_nothing_and_is_applied_once_later(
    closed: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    before = await content(closed)
    down(closed, 1)
    tables_before = tables(closed / "zoned.db")

    def fails(connection: Connection, folder: Path, now_ms: int) -> None:
        if moment == "after":
            f0002_ledger.up(connection, folder, now_ms)
        raise RuntimeError("midway")

    broken = f0002_ledger.STEP._replace(up=fails)
    with monkeypatch.context() as patch:
        patch.setattr(changing, "STEPS", (changing.STEPS[0], broken))
        with pytest.raises(RuntimeError, match="midway"):
            up(closed)
    assert tables(closed / "zoned.db") == tables_before
    assert up(closed) == ["f0002_ledger", "f0003_journal"]
    assert await content(closed) == before


async def test_down_that_fails_midway_leaves_the_store_as_it_was(
    closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await content(closed)
    down(closed, 2)

    def fails(connection: Connection, folder: Path, now_ms: int) -> None:
        f0002_ledger.down(connection, folder, now_ms)
        raise RuntimeError("midway")

    first, second, third = changing.STEPS
    with monkeypatch.context() as patch:
        patch.setattr(changing, "STEPS", (first, second._replace(down=fails), third))
        with pytest.raises(RuntimeError, match="midway"):
            down(closed, 1)
    assert up(closed) == ["f0003_journal"]
    assert await content(closed) == before


@pytest.mark.parametrize("to", [0, -1, schema.FORMAT_VERSION + 1])
def test_down_to_a_format_that_is_none_is_refused(closed: Path, to: int) -> None:
    with pytest.raises(InvalidArgumentError):
        down(closed, to)


def test_newer_format_is_refused_by_all_three(closed: Path) -> None:
    run_sql(closed / "zoned.db", f"PRAGMA user_version = {schema.FORMAT_VERSION + 1}")
    before = footprint(closed)
    for call in (up, status, lambda folder: down(folder, 1)):
        with pytest.raises(NewerFormatError):
            call(closed)
    assert footprint(closed) == before


def test_step_that_nobody_knows_is_refused_before_anything_is_done(closed: Path) -> None:
    """The number of the format is one that is known: only the note tells of a newer release."""
    down(closed, schema.FORMAT_VERSION - 1)
    run_sql(closed / "zoned.db", "INSERT INTO format_step VALUES (99, 'f0099_future', 1)")
    before = footprint(closed)
    for call in (up, status, lambda folder: down(folder, 1)):
        with pytest.raises(NewerFormatError, match="f0099_future"):
            call(closed)
    assert footprint(closed) == before


def test_step_whose_notes_are_wrong_is_not_applied(closed: Path) -> None:
    """Looked at before the commit: then it is as if it had not been tried."""
    run_sql(closed / "zoned.db", "DELETE FROM format_step WHERE number = 1")
    with pytest.raises(CorruptionError, match="not noted"):
        down(closed, schema.FORMAT_VERSION - 1)
    assert query(closed / "zoned.db", "PRAGMA user_version") == [(schema.FORMAT_VERSION,)]
    assert query(closed / "zoned.db", "SELECT count(*) FROM journal")


def test_up_without_a_store_does_nothing(tmp_path: Path) -> None:
    assert up(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
