"""The check on rows that are sound one by one but do not fit together: only a bug makes those.

Each is written with its own check renewed, so nothing but the comparison of rows can notice it.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from filestore import FileStore, Limits
from filestore.check import Problem, Report, check
from filestore.engine.base import TailRecord
from filestore.engine.log import encode
from filestore.engine.schema import ENTRY, list_id, row_check
from filestore.errors import CorruptionError, StoreError
from filestore.lines import Open
from tests.conftest import StoreOpener
from tests.contract.tools import content_of, noise, overwrite, query, run_sql

LIMITS = Limits(seal_bytes=4096)
FILE = "id, zone_id, name, version, size, ended, open, created_ms, modified_ms, pages, digest, meta"


@pytest.fixture
async def database_at_rest(open_store: StoreOpener, database: Path) -> Path:
    """A closed store; `big` has a list of more than one page."""
    store = await open_store(limits=LIMITS)
    await store.write("z", "big", noise(2 << 20))
    await store.write("z", "text", b"one\ntwo\n" * 100)
    await store.append("z", "tail", b"one\ntwo\n")
    await store.append("z", "tail", b"three\n")
    await store.tidy()
    await store.close()
    return database


async def report_of(open_store: StoreOpener, *, deep: bool = False) -> Report:
    store = await open_store(limits=LIMITS, read_only=True)
    report = await check(store, deep=deep)
    await store.close()
    return report


def places(report: Report) -> list[tuple[str | None, str | None, int | None]]:
    return [(problem.zone, problem.name, problem.offset) for problem in report.problems]


def change_file(database: Path, name: str, **changes: int) -> None:
    """Change columns of a file's row and renew its check."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.row_factory = sqlite3.Row
        row = connection.execute(f"SELECT {FILE} FROM file WHERE name = ?", (name,)).fetchone()
        values = {**dict(row), **changes}
        for column, value in changes.items():
            connection.execute(f"UPDATE file SET {column} = ? WHERE name = ?", (value, name))
        connection.execute(
            "UPDATE file SET row_check = ? WHERE name = ?", (row_check(*values.values()), name)
        )


def change_page(
    database: Path, name: str, number: int, *, offset: int = 0, line: int = 0, ended: int = 0
) -> None:
    """Add to the fields of a list page (`ended`: of its first entry) and renew its check."""
    with closing(sqlite3.connect(database)) as connection, connection:
        (file_id,) = connection.execute("SELECT id FROM file WHERE name = ?", (name,)).fetchone()
        page_id = list_id(file_id, number)
        start, first, blob = connection.execute(
            "SELECT start_offset, start_line, entries FROM list WHERE id = ?", (page_id,)
        ).fetchone()
        digest, size, count = ENTRY.unpack_from(blob)
        blob = ENTRY.pack(digest, size, count + ended) + blob[ENTRY.size :]
        values = (start + offset, first + line, blob)
        connection.execute(
            "UPDATE list SET start_offset = ?, start_line = ?, entries = ?, row_check = ? "
            "WHERE id = ?",
            (*values, row_check(page_id, *values), page_id),
        )


async def test_list_shorter_than_its_file_is_told(
    database_at_rest: Path, open_store: StoreOpener
) -> None:
    change_file(database_at_rest, "text", size=801)
    report = await report_of(open_store)
    assert places(report) == [("z", "text", None)]
    assert "the list has 800 bytes and 200 lines, the file 801 and 200" in str(report.problems[0])


async def test_list_with_other_lines_than_its_file_is_told(
    database_at_rest: Path, open_store: StoreOpener
) -> None:
    change_file(database_at_rest, "text", ended=199)
    report = await report_of(open_store)
    assert places(report) == [("z", "text", None)]


@pytest.mark.parametrize("change", [{"offset": 1}, {"line": 1}], ids=str)
async def test_list_page_out_of_place_is_told(
    database_at_rest: Path, open_store: StoreOpener, change: dict[str, int]
) -> None:
    change_page(database_at_rest, "big", 1, **change)
    report = await report_of(open_store)
    assert not report.is_clean
    assert "page 1 of the list is out of place" in str(report.problems[0])
    assert report.problems[0].offset is not None
    assert report.problems[0].offset > 0


async def test_lines_that_do_not_end_where_the_list_says_are_told_when_deep(
    database_at_rest: Path, open_store: StoreOpener
) -> None:
    change_page(database_at_rest, "text", 0, ended=1)
    change_file(database_at_rest, "text", ended=201)
    assert (await report_of(open_store)).is_clean
    report = await report_of(open_store, deep=True)
    assert places(report) == [("z", "text", 0)]
    assert "200 lines end here, the list says 201" in report.problems[0].message


async def test_file_that_is_there_and_released_is_told(
    database_at_rest: Path, open_store: StoreOpener
) -> None:
    ((file_id, pages),) = query(database_at_rest, "SELECT id, pages FROM file WHERE name = 'text'")
    assert isinstance(file_id, int)
    assert isinstance(pages, int)
    run_sql(
        database_at_rest,
        ("INSERT INTO released VALUES (?, ?, ?)", (file_id, pages, row_check(file_id, pages))),
    )
    report = await report_of(open_store)
    assert f"file {file_id} is both there and released" in str(report.problems[0])


@pytest.mark.parametrize("is_checked", [True, False], ids=["sound row", "damaged row"])
async def test_release_of_a_list_that_is_not_there_is_told(
    database_at_rest: Path, open_store: StoreOpener, is_checked: bool
) -> None:
    proof = row_check(999, 2) if is_checked else b"nonsense"
    run_sql(database_at_rest, ("INSERT INTO released VALUES (?, ?, ?)", (999, 2, proof)))
    report = await report_of(open_store)
    assert "deleted or unfinished file 999" in str(report.problems[0])


async def test_appends_whose_line_numbers_do_not_add_up_are_told(
    database_at_rest: Path, open_store: StoreOpener
) -> None:
    """A log row as an erring writer would have made it: bytes in place, numbers not."""
    ((file_id,),) = query(database_at_rest, "SELECT id FROM file WHERE name = 'tail'")
    ((last,),) = query(database_at_rest, "SELECT max(seq) FROM log")
    assert isinstance(file_id, int)
    assert isinstance(last, int)
    wrong = TailRecord(last + 1, 14, 7, 1, Open.NOTHING, 0, b"four\n")
    row = encode(last + 1, [(file_id, wrong)])
    run_sql(database_at_rest, ("INSERT INTO log VALUES (?, ?)", (last + 1, row)))
    report = await report_of(open_store)
    assert places(report) == [("z", "tail", 14)]
    assert "line numbers" in report.problems[0].message


async def test_damaged_log_row_is_told_with_file_and_offset(
    database_at_rest: Path, open_store: StoreOpener
) -> None:
    ((seq, row),) = [
        (seq, row)
        for seq, row in query(database_at_rest, "SELECT seq, data FROM log")
        if isinstance(row, bytes) and b"three" in row
    ]
    assert isinstance(row, bytes)
    damaged = row.replace(b"three", b"thre!")
    run_sql(database_at_rest, ("UPDATE log SET data = ? WHERE seq = ?", (damaged, seq)))
    report = await report_of(open_store)
    assert places(report) == [("z", "tail", 8)]
    assert "appended bytes are damaged" in report.problems[0].message


async def test_damaged_tree_ends_the_walk_but_not_the_check(
    database_at_rest: Path, open_store: StoreOpener
) -> None:
    """The page of SQLite that holds the chunks' rows becomes unreadable: told, not raised."""
    ((root,),) = query(database_at_rest, "SELECT rootpage FROM sqlite_schema WHERE name = 'chunk'")
    assert isinstance(root, int)
    overwrite(database_at_rest, (root - 1) * 4096, b"\xff" * 12)
    for deep in (False, True):
        report = await report_of(open_store, deep=deep)
        assert not report.is_clean
        assert any("SQLite" in p.message or "damaged" in p.message for p in report.problems)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM session; END", "trigger 't'"),
        ("CREATE VIEW v AS SELECT 1", "view 'v'"),
        ("CREATE TABLE more (x)", "table 'more'"),
        ("DROP INDEX session_archived", "is missing"),
    ],
)
async def test_tables_that_are_not_ours_are_told_by_every_check(
    database_at_rest: Path, open_store: StoreOpener, sql: str, told: str
) -> None:
    """Such a store does not open to be written, so the check may not call it well."""
    run_sql(database_at_rest, sql)
    for deep in (False, True):
        report = await report_of(open_store, deep=deep)
        assert told in report.problems[0].message


async def test_whole_store_after_these_changes_undone_is_clean(
    database_at_rest: Path, open_store: StoreOpener
) -> None:
    """The control: renewing the checks is not what is noticed."""
    change_file(database_at_rest, "text", size=800)
    change_page(database_at_rest, "big", 1, offset=0)
    report = await report_of(open_store, deep=True)
    assert report.is_clean, [str(problem) for problem in report.problems]


async def test_check_of_damaged_store_changes_nothing(
    database_at_rest: Path, open_store: StoreOpener
) -> None:
    change_file(database_at_rest, "text", size=801)
    before = content_of(database_at_rest)
    await report_of(open_store, deep=True)
    assert content_of(database_at_rest) == before


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("bad"), "bad"),
        (Problem("bad", "z"), "'z': bad"),
        (Problem("bad", "z", "f"), "'z'/'f': bad"),
        (Problem("bad", "z", "f", 7), "'z'/'f' at offset 7: bad"),
        (Problem("bad", "a\nb"), r"'a\nb': bad"),
    ],
    ids=str,
)
def test_problem_as_text_is_one_line_with_its_place(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_report_takes_errors_with_their_place_or_the_one_given() -> None:
    report = Report()
    report.add_error(CorruptionError("bad", zone="z", name="f", offset=3))
    report.add_error(StoreError("worse"), "y", "g")
    assert places(report) == [("z", "f", 3), ("y", "g", None)]
    assert [problem.message for problem in report.problems] == ["bad", "worse"]


async def test_store_written_by_the_test_itself_is_what_the_check_counts(
    store: FileStore,
) -> None:
    await store.write("z", "f", b"12345")
    await store.append("z", "g", b"123")
    report = await check(store)
    assert (report.zones, report.files, report.chunks, report.bytes) == (1, 2, 1, 8)
