"""Damage to what is known of sessions: who reads it is told, the check tells, neighbours are as
they were; and no flipped bit ever gives another answer."""

import asyncio
import random
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from filestore import CorruptionError, FileStore, Limits, StoreError
from filestore.check import check
from filestore.engine.schema import row_check
from filestore.journal.bodies import dump
from filestore.journal.model import SEQ_BITS
from filestore.records import Filter, NewSession, Records
from filestore.sessions import Sessions
from tests.conftest import FakeClock, StoreOpener
from tests.contract.tools import query, run_sql
from tests.records.conftest import records_of

PAGE = 4096
FLIPS = 400
SEED = 11


async def fill(folder: Path) -> None:
    """Sessions of all kinds: `a` with a zone, an archive `b`, `c` ended, `d` with a repo."""
    clock = FakeClock()
    async with await FileStore.open(folder, clock=clock) as store, Sessions(store) as panes:
        records = records_of(store, clock)
        repo = await records.add_repo(str(folder), "r", folder.parent)
        for name, repo_id in (("a", None), ("b", None), ("c", None), ("d", repo.id)):
            await records.create(NewSession("cli", name, name, "coder", repo_id=repo_id))
            await records.prompt(name, f"prompt of {name}")
            await records.add_message(name, "agent", f"answer of {name}", message_id="m")
            await records.add_record(name, "checkpoint", {"state": {"x_id": name}}, ref="c")
            await records.update(name, metadata={"k": name}, error="e")
        await panes.append_output("b", "x")
        await panes.archive("b")
        await panes.append_output("a", "x")
        await records.finish("c", "failed", summary="over")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage") / "data"
    asyncio.run(fill(folder))
    return folder


@pytest.fixture
def damaged(original: Path, data_dir: Path) -> Path:
    """A copy, to be damaged."""
    shutil.copytree(original, data_dir)
    return data_dir / "zoned.db"


def record_row(journal: int, seq: int, kind: str, body: dict[str, Any]) -> tuple[str, Any]:
    """A record that is sound in itself."""
    values = (journal << SEQ_BITS | seq, 5, kind, None, dump(body))
    return (
        "INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?, ?, ?)", (*values, row_check(*values)),
    )  # fmt: skip


def checked(table: str, *values: Any) -> tuple[str, Any]:
    """A row of another table that is sound in itself."""
    marks = ", ".join("?" * (len(values) + 1))
    return f"INSERT OR REPLACE INTO {table} VALUES ({marks})", (*values, row_check(*values))


SECOND = f"id = {2 << SEQ_BITS | 1}"
"""A record of `b`."""

DAMAGE: list[tuple[Any, str, set[str]]] = [
    ("UPDATE journal SET status = 'active' WHERE id = 2", "fails its check", {"row"}),
    ("UPDATE journal SET session_id = 'x' WHERE id = 2", "fails its check", {"gone", "lists"}),
    ("UPDATE journal SET more = x'00' WHERE id = 2", "fails its check", {"row"}),
    ("UPDATE journal SET updated_ms = 1 WHERE id = 2", "fails its check", {"row"}),
    (f"UPDATE record SET body = '{{}}' WHERE {SECOND}", "fails its check", {"records"}),
    (f"UPDATE record SET kind = 'note' WHERE {SECOND}", "fails its check", {"records"}),
    (f"UPDATE record SET ref = 'm' WHERE {SECOND}", "fails its check", {"records"}),
    (f"UPDATE record SET id = {2 << SEQ_BITS | 77} WHERE {SECOND}", "fails its", {"records"}),
    (f"DELETE FROM record WHERE {SECOND}", "record 1 of journal 2 is missing", {"records"}),
    (
        f"DELETE FROM record WHERE id = {2 << SEQ_BITS}",
        "record 0 of journal 2 is missing",
        {"records"},
    ),
    (record_row(2, 99, "note", {}), "record 7 of journal 2 is missing", {"records"}),
    (record_row(2, 2, "note", {}), "not what its records say", set()),
    (record_row(9, 0, "note", {}), "records of journal 9 belong to nothing", set()),
    ("DELETE FROM journal WHERE id = 2", "session 'b' has no journal", {"gone"}),
    ("UPDATE tally SET count = 3", "fails its check", {"lists"}),
    (checked("tally", "all", "", "active", 77), "77 sessions are counted", set()),
    (checked("tally", "agent", "ghost", "error", 1), "1 sessions are counted", set()),
    ("DELETE FROM tally WHERE scope = 'all'", "is missing", set()),
    ("UPDATE repo SET path = '/'", "row of repo 'id-1' fails its check", {"repo"}),
    ("DELETE FROM repo", "which is missing", {"repo gone"}),
    ("UPDATE related SET row_check = x'00' WHERE journal_id = 2", "fails its check", set()),
    ("DELETE FROM related WHERE journal_id = 2", "can be found by", set()),
    (checked("related", "x", 2), "can be found by", set()),
    (checked("related", "x", 99), "ids of journal 99 lead to nothing", set()),
]


@pytest.mark.parametrize(
    ("sql", "told", "touched"), DAMAGE, ids=lambda v: None if isinstance(v, set) else str(v)[:40]
)
async def test_damage_is_told_by_reads_and_check_and_leaves_neighbours(
    open_store: StoreOpener, damaged: Path, clock: FakeClock, sql: Any, told: str, touched: set[str]
) -> None:
    run_sql(damaged, sql)
    open_store.is_checked = False
    store = await open_store(clock=clock)
    records = records_of(store, clock)
    problems = [str(each) for each in (await check(store, deep=True)).problems]
    assert any(told in each for each in problems), problems
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "row": lambda: records.get("b"),
        "records": lambda: records.records("b"),
        "lists": lambda: records.page(Filter()),
        "repo": records.list_repos,
    }
    for name, call in calls.items():
        if name in touched:
            with pytest.raises(CorruptionError, match=r"fails its check|is missing"):
                await call()
        elif not touched & {"row", "gone"} or name == "repo":
            await call()
    for name in ("a", "c", "d"):
        assert (await records.get(name)).metadata == {"k": name}
        assert len(await records.records(name)) >= 6
    await records.update("a", phase="planning")
    assert (await records.get("a")).phase == "planning"


def table_pages(database: Path) -> list[int]:
    """The pages of the tables of journals and their indexes."""
    found = query(
        database,
        "SELECT rootpage FROM sqlite_schema WHERE tbl_name IN "
        "('journal', 'record', 'tally', 'repo', 'related')",
    )
    return [int(str(page)) for (page,) in found]


def questions(records: Records) -> dict[str, Awaitable[Any]]:
    asked: dict[str, Awaitable[Any]] = {"repos": records.list_repos()}
    for name in "abcd":
        asked[f"get {name}"] = records.get(name)
        asked[f"records {name}"] = records.records(name)
        asked[f"messages {name}"] = records.messages(name)
    for wanted in (Filter(), Filter(("active",)), Filter(agent_name="coder")):
        asked[f"page {wanted}"] = records.page(wanted)
    asked["recent"] = records.recent(10)
    return asked


async def answers(store: FileStore, clock: FakeClock) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, question in questions(records_of(store, clock)).items():
        try:
            found[key] = await question
        except StoreError as error:
            found[key] = error
    return found


def is_part(truth: Any, found: Any) -> bool:
    """Some of it is hidden, and the rest right: a damaged index or tree can lose rows."""
    if isinstance(truth, tuple) and isinstance(truth[0], list):
        return is_part(truth[0], found[0])
    if isinstance(truth, list):
        return all(each in truth for each in found)
    # A session whose zone is looked for by another damaged way looks as if it had none.
    return bool(found._replace(zone=truth.zone, updated_ms=truth.updated_ms) == truth)


async def test_flipped_bit_never_gives_another_answer(
    original: Path, tmp_path: Path, clock: FakeClock
) -> None:
    async with await FileStore.open(original, read_only=True) as store:
        truth = await answers(store, clock)
    assert not any(isinstance(each, StoreError) for each in truth.values())
    rng = random.Random(SEED)
    pages = table_pages(original / "zoned.db")
    content = (original / "zoned.db").read_bytes()
    # Most of a page is free: what is flipped is where something stands.
    places = [at for page in pages for at in range((page - 1) * PAGE, page * PAGE) if content[at]]
    seen = {"right": 0, "told": 0, "hidden": 0, "refused": 0}
    for number in range(FLIPS):
        at, bit = rng.choice(places), 1 << rng.randrange(8)
        folder = tmp_path / str(number)
        shutil.copytree(original, folder)
        data = bytearray(content)
        data[at] ^= bit
        (folder / "zoned.db").write_bytes(data)
        place = f"seed {SEED}, flip {number}: byte {at}, bit {bit}"
        try:
            store = await FileStore.open(folder, limits=Limits(readers=1), clock=clock)
        except StoreError:
            seen["refused"] += 1
            continue
        async with store:
            found = await answers(store, clock)
            report = await check(store, deep=True)
        wrong = {key for key in truth if found[key] != truth[key]}
        told = {key for key in wrong if isinstance(found[key], StoreError)}
        for key in wrong - told:
            assert not report.is_clean, f"{place}: {key} is hidden, and the check is clean"
            assert is_part(truth[key], found[key]), f"{place}: {key} is {found[key]}"
        seen["told" if told else "hidden" if wrong else "right"] += 1
        shutil.rmtree(folder)
    print(seen)
    assert seen["told"] > FLIPS // 8
