"""What is not ours, newer than us, or not whole is refused by name, and nothing is touched."""

import asyncio
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from filestore import (
    CorruptionError,
    FileStore,
    ForeignDatabaseError,
    FormatError,
    Limits,
    NewerFormatError,
    StoreError,
)
from filestore.engine.schema import FORMAT_VERSION
from tests.conftest import StoreOpener
from tests.contract.tools import (
    content_of,
    exists,
    footprint,
    make_folder,
    names_in,
    noise,
    overwrite,
    put,
    query,
    run_sql,
)

OPEN_S_MAX = 10.0
USER_VERSION_AT = 60
APPLICATION_ID_AT = 68


@pytest.fixture
async def closed(open_store: StoreOpener, database: Path) -> Path:
    """The database file of a store at rest."""
    store = await open_store(limits=Limits(seal_bytes=4096))
    await store.write("z", "f", noise(200_000))
    await store.append("z", "log", noise(10_000))
    await store.tidy()
    await store.append("z", "log", b"tail\n")
    await store.close()
    return database


async def assert_refused(folder: Path, error: type[StoreError]) -> StoreError:
    """Refused alike for writing and for reading, twice, with every file as it was."""
    before = footprint(folder)
    caught: list[StoreError] = []
    for read_only in (False, True, False):
        # The error is kept, as a log or a caller would: what it holds must not keep files open.
        try:
            async with asyncio.timeout(OPEN_S_MAX):
                store = await FileStore.open(folder, read_only=read_only)
        except error as raised:
            caught.append(raised)
        else:
            await store.close()
            raise AssertionError(f"opened, read_only={read_only}")
        assert footprint(folder) == before
    return caught[0]


def test_database_made_by_us_carries_our_marks(closed: Path) -> None:
    assert query(closed, "PRAGMA application_id") == [(0x7A6F6E64,)]
    assert query(closed, "PRAGMA user_version") == [(FORMAT_VERSION,)]
    assert query(closed, "PRAGMA journal_mode") == [("wal",)]
    assert query(closed, "PRAGMA auto_vacuum") == [(2,)], "incremental"


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 1000, 0x7FFFFFFF])
async def test_newer_format_is_refused_untouched(closed: Path, version: int) -> None:
    overwrite(closed, USER_VERSION_AT, version.to_bytes(4, "big"))
    error = await assert_refused(closed.parent, NewerFormatError)
    assert isinstance(error, FormatError)
    assert str(version) in error.message
    assert "upgrade" in error.hint


async def test_newer_format_that_is_only_in_the_wal_is_refused_untouched(
    closed: Path, tmp_path: Path
) -> None:
    """A newer release was killed right after its upgrade: the file's header is still the old."""
    folder = make_folder(tmp_path / "killed")
    with closing(sqlite3.connect(closed)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA user_version = {FORMAT_VERSION + 1}")
        for name in ("zoned.db", "zoned.db-wal"):
            shutil.copyfile(closed.with_name(name), folder / name)
    before = footprint(folder)
    with pytest.raises(NewerFormatError):
        await FileStore.open(folder)
    after = footprint(folder)
    after.pop("zoned.db-shm", None)
    assert after == before


async def test_newer_format_put_back_opens_again(closed: Path, open_store: StoreOpener) -> None:
    """The control: nothing but the version number kept it shut."""
    overwrite(closed, USER_VERSION_AT, (FORMAT_VERSION + 1).to_bytes(4, "big"))
    await assert_refused(closed.parent, NewerFormatError)
    overwrite(closed, USER_VERSION_AT, FORMAT_VERSION.to_bytes(4, "big"))
    store = await open_store()
    assert await store.read("z", "f") == noise(200_000)


@pytest.mark.parametrize("version", [0, 1])
async def test_older_format_is_refused_untouched(closed: Path, version: int) -> None:
    overwrite(closed, USER_VERSION_AT, version.to_bytes(4, "big"))
    error = await assert_refused(closed.parent, FormatError)
    assert f"format {version}" in error.message
    assert "zoned migrate up" in error.hint


async def test_step_that_nobody_knows_is_refused(closed: Path) -> None:
    """A newer release has noted it; only that tells, if the number of the format is the same."""
    row = (FORMAT_VERSION + 1, "f0099_from_the_future", 1)
    run_sql(closed, ("INSERT INTO format_step VALUES (?, ?, ?)", row))
    before = footprint(closed.parent)
    with pytest.raises(NewerFormatError, match="f0099_from_the_future"):
        await FileStore.open(closed.parent)
    assert footprint(closed.parent) == before


@pytest.mark.parametrize("application_id", [0, 1, 0x7A6F6E65, 0xFFFFFFFF])
async def test_database_of_another_program_is_refused_untouched(
    closed: Path, application_id: int
) -> None:
    overwrite(closed, APPLICATION_ID_AT, application_id.to_bytes(4, "big"))
    error = await assert_refused(closed.parent, ForeignDatabaseError)
    assert f"{application_id:#x}" in error.message


@pytest.mark.parametrize("journal", ["wal", "delete"])
async def test_plain_sqlite_database_is_refused_untouched(database: Path, journal: str) -> None:
    make_folder(database.parent)
    run_sql(
        database,
        "CREATE TABLE theirs (x)",
        "INSERT INTO theirs VALUES ('precious')",
    )
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
    await assert_refused(database.parent, ForeignDatabaseError)
    assert query(database, "SELECT x FROM theirs") == [("precious",)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"SQLite format 3\0",
        b"SQLite format 3\0" + bytes(84),
        b"SQLite format 3\0" + bytes(83),
        bytes(8192),
        b"just some text of a user\n" * 100,
        noise(100_000),
    ],
    ids=["empty", "one NUL", "magic", "magic and zeros", "short", "zeros", "text", "noise"],
)
async def test_file_that_is_no_database_is_refused_untouched(
    database: Path, content: bytes
) -> None:
    make_folder(database.parent)
    put(database, content)
    await assert_refused(database.parent, ForeignDatabaseError)
    assert content_of(database) == content


@pytest.mark.parametrize("kind", ["symlink", "dangling symlink", "FIFO", "directory"])
async def test_thing_that_is_no_plain_file_is_refused_untouched(
    closed: Path, tmp_path: Path, kind: str
) -> None:
    folder = make_folder(tmp_path / "odd")
    path = folder / "zoned.db"
    make_odd(path, kind, closed)
    before = footprint(closed.parent)
    for _ in range(2):
        async with asyncio.timeout(OPEN_S_MAX):
            with pytest.raises(ForeignDatabaseError):
                await FileStore.open(folder)
        assert {*names_in(folder)} <= {"zoned.db", "zoned.lock"}
    assert footprint(closed.parent) == before
    assert kind_of(path) == kind.removeprefix("dangling ")


@pytest.mark.parametrize("kind", ["FIFO", "directory"])
async def test_thing_that_is_no_plain_file_is_refused_for_reading(
    closed: Path, tmp_path: Path, kind: str
) -> None:
    """Opening a FIFO for reading would wait for ever for someone to write into it."""
    folder = make_folder(tmp_path / "odd")
    make_odd(folder / "zoned.db", kind, closed)
    async with asyncio.timeout(OPEN_S_MAX):
        with pytest.raises(StoreError):
            await FileStore.open(folder, read_only=True)


def kind_of(path: Path) -> str:
    if path.is_symlink():
        return "symlink"
    return "FIFO" if path.is_fifo() else "directory" if path.is_dir() else "file"


def make_odd(path: Path, kind: str, target: Path) -> None:
    if kind == "symlink":
        path.symlink_to(target)
    elif kind == "dangling symlink":
        path.symlink_to(target.parent / "nothing")
    elif kind == "FIFO":
        os.mkfifo(path)
    else:
        path.mkdir()


async def test_wal_without_its_database_is_refused_untouched(database: Path) -> None:
    """SQLite would apply it to the empty database that we would make beside it."""
    make_folder(database.parent)
    put(database.with_name("zoned.db-wal"), noise(5000))
    before = footprint(database.parent)
    with pytest.raises(FormatError) as caught:
        await FileStore.open(database.parent)
    assert caught.value.hint
    assert footprint(database.parent) == before
    assert not exists(database)


async def test_empty_wal_without_its_database_is_no_obstacle(
    database: Path, open_store: StoreOpener
) -> None:
    make_folder(database.parent)
    put(database.with_name("zoned.db-wal"), b"")
    store = await open_store()
    await store.write("z", "f", b"x")


@pytest.mark.parametrize("left", [0.5, 0.9, 0.02])
async def test_truncated_database_is_refused_untouched(closed: Path, left: float) -> None:
    cut_off(closed, int(pages_of(closed) * (1 - left)) * 4096)
    await assert_refused(closed.parent, CorruptionError)


async def test_database_cut_inside_its_last_page_is_refused_untouched(closed: Path) -> None:
    """For writing; tools may look at what is left."""
    cut_off(closed, 1)
    before = footprint(closed.parent)
    with pytest.raises(CorruptionError):
        await FileStore.open(closed.parent)
    assert footprint(closed.parent) == before


async def test_database_with_other_tables_is_refused(closed: Path) -> None:
    """Ours by its marks, but somebody has worked on the tables: nothing can be relied on."""
    run_sql(closed, "CREATE TABLE extra (x)")
    before = footprint(closed.parent)
    with pytest.raises(CorruptionError):
        await FileStore.open(closed.parent)
    assert footprint(closed.parent) == before


def pages_of(database: Path) -> int:
    return database.stat().st_size // 4096


def cut_off(database: Path, size: int) -> None:
    os.truncate(database, database.stat().st_size - size)
