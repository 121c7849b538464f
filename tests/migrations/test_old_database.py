"""How an old database is opened: with others beside it, with a WAL, with a hot journal; never with
a trace."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrations import import_legacy_v1
from migrations.legacy import layout
from migrations.legacy.database import OldDatabase, UnreadableError
from migrations.legacy.in_use import is_in_use
from migrations.legacy.layout import PART_BYTES, Part, Span, lay_out
from tests.conftest import StoreOpener
from tests.support.old_folder import OUTPUT, OldFolder, bytes_of
from tests.support.processes import ROOT

HOLDER = """
import sqlite3, sys
connections = [sqlite3.connect(path, isolation_level=None) for path in sys.argv[2:]]
for connection in connections:
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
if sys.argv[1] == "write":
    connections[0].execute("INSERT INTO db_wave_file VALUES ('late', 'f', 0, 1, 2, '', '')")
print("ready", flush=True)
sys.stdin.read()
"""


APPENDER = """
import select, sqlite3, sys
connection = sqlite3.connect(sys.argv[2], isolation_level=None, timeout=30)
connection.execute("SELECT count(*) FROM db_wave_file").fetchall()  # only now is the file open
print("ready", flush=True)
# It rests between commits: one that never does can keep every reader out for ever.
while not select.select([sys.stdin], [], [], 0.01)[0]:
    connection.execute("BEGIN IMMEDIATE")
    for zone in ("small", "large"):
        sql = "SELECT max(partidx) FROM db_file_data WHERE zoneid = ?"
        ((last,),) = connection.execute(sql, (zone,)).fetchall()
        part = (zone, "output", last + 1, b"x" * 65536)
        connection.execute("INSERT INTO db_file_data VALUES (?, ?, ?, ?)", part)
        connection.execute("UPDATE db_wave_file SET size = size + 65536 WHERE zoneid = ?", (zone,))
    connection.execute("COMMIT")
"""


@contextmanager
def held_open(what: str, *paths: Path, program: str = HOLDER) -> Iterator[subprocess.Popen[str]]:
    """Another program has these databases open, and has written a row if `what` is write."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, what, *map(str, paths)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def names(database: OldDatabase) -> list[bytes]:
    return database.read(
        lambda found: [
            zone for (zone,) in found.execute("SELECT zoneid FROM db_wave_file ORDER BY zoneid")
        ]
    )


def make(folder: Path, **options: object) -> Path:
    with OldFolder(folder, **options) as old:  # type: ignore[arg-type]  # passed through
        old.file("z", OUTPUT, b"abc")
    return folder / "filestore.db"


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_database_that_nobody_has_is_read_as_it_lies(tmp_path: Path, journal: str) -> None:
    path = make(tmp_path / "old", journal=journal)
    before = bytes_of(tmp_path)
    with closing(OldDatabase(path, tmp_path / "scratch")) as database:
        assert database.access == "as it lies"
        assert names(database) == [b"z"]
    assert bytes_of(tmp_path) == before
    assert not (tmp_path / "scratch").exists()


def test_database_with_a_wal_is_read_from_a_copy(tmp_path: Path) -> None:
    path = make(tmp_path / "old", has_wal=True)
    before = bytes_of(tmp_path / "old")
    with closing(OldDatabase(path, tmp_path / "scratch")) as database:
        assert database.access == "copy"
        assert names(database) == [b"z"]
        assert bytes_of(tmp_path / "old") == before
    assert bytes_of(tmp_path / "old") == before
    assert not (tmp_path / "scratch").exists()


def test_database_with_a_hot_journal_is_rolled_back_in_a_copy(tmp_path: Path) -> None:
    """A crash in the middle of a transaction: as it lies, half of it would be seen."""
    path = make(tmp_path / "work", journal="delete")
    folder = tmp_path / "old"
    folder.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN")
        connection.execute("UPDATE db_wave_file SET zoneid = 'half done'")
        for number in range(2000):
            row = (f"more {number}", "f" * 100)
            connection.execute("INSERT INTO db_wave_file VALUES (?, ?, 0, 0, 0, '', '')", row)
        for end in ("", "-journal"):
            name = path.name + end
            shutil.copyfile(path.with_name(name), folder / name)
        connection.execute("ROLLBACK")
    before = bytes_of(folder)
    with closing(OldDatabase(folder / path.name, tmp_path / "scratch")) as database:
        assert database.access == "copy"
        assert names(database) == [b"z"]
    assert bytes_of(folder) == before


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize("what", ["read", "write"])
def test_database_that_another_program_has_open_is_read_beside_it(
    tmp_path: Path, journal: str, what: str
) -> None:
    path = make(tmp_path / "old", journal=journal)
    with held_open(what, path):
        before = bytes_of(tmp_path)
        with closing(OldDatabase(path, tmp_path / "scratch")) as database:
            assert database.access == "beside others"
            assert names(database) == ([b"late", b"z"] if what == "write" else [b"z"])
        assert bytes_of(tmp_path) == before


@pytest.mark.parametrize(("has_wal", "access"), [(False, "as it lies"), (True, "copy")])
def test_open_file_that_nobody_uses_as_a_database_gets_no_wal(
    tmp_path: Path, has_wal: bool, access: str
) -> None:
    """A backup program, say: read beside it, SQLite would make a -wal and a -shm."""
    path = make(tmp_path / "old", has_wal=has_wal)
    before = bytes_of(tmp_path)
    with path.open("rb"), closing(OldDatabase(path, tmp_path / "scratch")) as database:
        assert database.access == access
        assert names(database) == [b"z"]
    assert bytes_of(tmp_path) == before


def test_link_to_a_database_elsewhere_is_read_with_its_wal(tmp_path: Path) -> None:
    path = make(tmp_path / "old", has_wal=True)
    link = tmp_path / "filestore.db"
    link.symlink_to(path)
    before = bytes_of(tmp_path)
    with closing(OldDatabase(link, tmp_path / "scratch")) as database:
        assert database.access == "copy"
        assert names(database) == [b"z"]
    assert bytes_of(tmp_path) == before


def test_program_that_comes_later_is_noticed(tmp_path: Path) -> None:
    path = make(tmp_path / "old")
    with closing(OldDatabase(path, tmp_path / "scratch")) as database:
        assert names(database) == [b"z"]
        with held_open("write", path):
            assert names(database) == [b"late", b"z"]
            assert database.access == "beside others"


def test_program_that_was_killed_leaves_its_rows_to_be_read(tmp_path: Path) -> None:
    path = make(tmp_path / "old")
    with held_open("write", path) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        shm = path.with_name(path.name + "-shm")
        before = bytes_of(tmp_path)
        with closing(OldDatabase(path, tmp_path / "scratch")) as database:
            assert database.access == "copy"
            assert names(database) == [b"late", b"z"]
        assert bytes_of(tmp_path) == before
        assert shm.exists(), "what was there stays there too"


def test_own_process_counts_as_somebody(tmp_path: Path) -> None:
    path = make(tmp_path / "old")
    assert not is_in_use(path)
    with path.open("rb"):
        assert is_in_use(path)
    assert not is_in_use(path, tmp_path / "missing")


@pytest.mark.parametrize("content", [b"", b"just text" * 1000, b"SQLite format 3\0" + bytes(4080)])
def test_file_that_is_no_database_is_unreadable(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "filestore.db"
    path.write_bytes(content)
    if not content:
        with closing(OldDatabase(path, tmp_path / "scratch")) as database:
            assert database.read(lambda found: found.execute("PRAGMA table_list").fetchall())
        return
    with pytest.raises(UnreadableError, match="put a whole copy in its place") as caught:
        OldDatabase(path, tmp_path / "scratch")
    assert "zoned" not in str(caught.value)  # nothing about our own store
    assert path.read_bytes() == content


async def test_import_beside_a_running_program_finds_everything(
    open_store: StoreOpener, data_dir: Path
) -> None:
    store = await open_store()
    with OldFolder(data_dir / "db") as old:
        old.block("b", agent="ada")
        old.session("b", "hi")
        old.file("large", OUTPUT, b"x" * (9 << 20))
    databases = data_dir / "db" / "filestore.db", data_dir / "db" / "objects.db"
    with held_open("write", *databases):
        before = bytes_of(data_dir)
        stats = await import_legacy_v1(store, data_dir)
        after = bytes_of(data_dir)
        for found in (before, after):
            for name in [name for name in found if name.endswith("-shm")]:
                del found[name]
        assert after == before
    assert (stats.failures, stats.zones_imported, stats.blocks_imported) == (0, 3, 1)
    assert await store.zone("late") is not None


@pytest.mark.parametrize("journal", ["wal", "delete"])
async def test_import_beside_a_program_that_writes_sees_each_file_as_it_was_at_one_moment(
    open_store: StoreOpener, data_dir: Path, journal: str
) -> None:
    store = await open_store()
    with OldFolder(data_dir, journal=journal) as old:
        old.file("large", OUTPUT, b"x" * (160 * PART_BYTES))
        old.file("small", OUTPUT, b"x" * PART_BYTES)
    with held_open("append", data_dir / "filestore.db", program=APPENDER):
        stats = await import_legacy_v1(store, data_dir)
    assert stats.failed == []
    for zone, least in (("large", 160), ("small", 1)):
        info = await store.stat(zone, OUTPUT)
        assert info is not None
        assert info.size % PART_BYTES == 0
        assert info.size >= least * PART_BYTES


@pytest.mark.parametrize(
    ("size", "parts", "circular", "spans", "is_flawed"),
    [
        (0, [], 0, [], False),
        (5, [(0, 5)], 0, [(0, 0, 5)], False),
        (None, [(0, 5)], 0, [(0, 0, 5)], False),
        (5, [], 0, [], True),
        (9, [(0, 5)], 0, [(0, 0, 5)], True),
        (3, [(0, 5)], 0, [(0, 0, 5)], True),
        (10, [(0, 5), (1, 5)], 0, [(0, 0, 5), (1, 0, 5)], True),
        (5, [(1, 5)], 0, [(1, 0, 5)], True),
        (5, [(0, 5)], 9, [(0, 0, 5)], False),
        (9, [(0, 9)], 4, [(0, 5, 9)], False),
        (PART_BYTES + 2, [(0, PART_BYTES)], PART_BYTES, [(0, 2, PART_BYTES), (0, 0, 2)], False),
        (2 * PART_BYTES, [(0, PART_BYTES)], PART_BYTES, [(0, 0, PART_BYTES)], False),
        (3 * PART_BYTES, [(0, PART_BYTES)], 2 * PART_BYTES, [(0, 0, PART_BYTES)], True),
        (3 * PART_BYTES, [], 2 * PART_BYTES, [], True),
        ((1 << 62) + PART_BYTES, [(0, 9)], 1 << 62, [(0, 0, 9)], True),
    ],
)
def test_layout_of_parts(
    size: int | None,
    parts: list[tuple[int, int]],
    circular: int,
    spans: list[tuple[int, int, int]],
    is_flawed: bool,
) -> None:
    found = lay_out(size, [Part(*part) for part in parts], circular)
    assert found.spans == [Span(*span) for span in spans]
    assert found.size == sum(stop - start for _, start, stop in spans)
    assert bool(found.flaw) == is_flawed


@given(st.binary(min_size=1, max_size=80), st.integers(1, 20))
def test_ring_gives_the_last_bytes_whatever_its_size(data: bytes, maxsize: int) -> None:
    """Parts of 4 bytes, written as an old program did."""
    ring: dict[int, bytearray] = {}
    for at, byte in enumerate(data):
        number, offset = at // 4 % -(-maxsize // 4), at % 4
        part = ring.setdefault(number, bytearray())
        part[offset : offset + 1] = [byte]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "PART_BYTES", 4)
        parts = [Part(number, len(part)) for number, part in ring.items()]
        found = lay_out(len(data), parts, maxsize)
    read = b"".join(bytes(ring[span.number][span.start : span.stop]) for span in found.spans)
    assert read == (data[-maxsize:] if len(data) > maxsize else data)
    assert not found.flaw
