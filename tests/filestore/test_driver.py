"""Errors of the database become ours, each by what it means."""

import sqlite3
from pathlib import Path

import pytest

from filestore import (
    BackendError,
    BusyError,
    CorruptionError,
    ForeignDatabaseError,
    StorageFullError,
    StoreError,
)
from filestore.engine import driver
from filestore.engine.driver import IoFailure, connect, translate, translated


def error_with(code: int | None, text: str = "text of the driver") -> driver.Error:
    error = driver.Error(text)
    if code is not None:
        error.sqlite_errorcode = code
        error.sqlite_errorname = f"CODE_{code}"
    return error


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (5, BusyError),
        (5 | (1 << 8), BusyError),
        (10, IoFailure),
        (10 | (3 << 8), IoFailure),
        (11, CorruptionError),
        (11 | (1 << 8), CorruptionError),
        (13, StorageFullError),
        (26, CorruptionError),
        (1, BackendError),
        (8, BackendError),
        (None, BackendError),
    ],
)
def test_error_code_with_or_without_detail_becomes_the_right_error(
    code: int | None, kind: type[StoreError]
) -> None:
    ours = translate(error_with(code), "write")
    assert type(ours) is kind
    assert ours.operation == "write"


def test_error_at_opening_of_a_stranger_is_no_damage() -> None:
    assert type(translate(error_with(26), "open")) is ForeignDatabaseError


def test_error_keeps_the_driver_s_own_words() -> None:
    for code in (1, 5, 10, 11, None):
        assert "text of the driver" in translate(error_with(code), "read").message


def test_text_that_is_not_utf8_is_damage() -> None:
    connection = driver.Connection(":memory:")
    with pytest.raises(CorruptionError), translated("read"):
        connection.execute("SELECT CAST(x'ff' AS TEXT)").fetchone()
    connection.close()


def test_full_database_says_full(tmp_path: Path) -> None:
    path = tmp_path / "small.db"
    sqlite3.connect(path).close()
    connection = connect(path, read_only=False)
    connection.execute("CREATE TABLE t (x)")
    connection.execute("PRAGMA max_page_count = 3")
    with pytest.raises(StorageFullError) as caught, translated("write"):
        connection.execute("INSERT INTO t VALUES (zeroblob(100000))")
    assert isinstance(caught.value.__cause__, driver.Error)
    connection.close()


def test_full_copy_says_full(tmp_path: Path) -> None:
    """The driver tells no code with what fails while it copies."""
    origin, copy = driver.Connection(":memory:"), driver.Connection(tmp_path / "copy.db")
    origin.execute("CREATE TABLE t AS SELECT zeroblob(100000)")
    copy.execute("PRAGMA max_page_count = 3")
    with pytest.raises(StorageFullError), translated("backup"):
        origin.backup(copy)
    for connection in (origin, copy):
        connection.close()


def test_missing_database_is_not_made(tmp_path: Path) -> None:
    for read_only in (False, True):
        with pytest.raises(BackendError):
            connect(tmp_path / "missing.db", read_only=read_only)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b.db", "a?mode=rw.db", "a#b.db", "a%20b.db", "ä.db"])
def test_database_with_odd_name_is_that_file(tmp_path: Path, name: str) -> None:
    """The name goes through a URI, where some characters have a meaning."""
    path = tmp_path / name
    sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.close()
    connection = connect(path, read_only=True)
    assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("t",)]
    connection.close()
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_read_only_connection_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.close()
    connection = connect(path, read_only=True)
    with pytest.raises(BackendError), translated("write"):
        connection.execute("INSERT INTO t VALUES (1)")
    connection.close()


@pytest.mark.parametrize(("sync", "level"), [("full", 2), ("normal", 1)])
def test_writing_connection_has_the_sync_asked_for_and_no_autocheckpoint(
    tmp_path: Path, sync: str, level: int
) -> None:
    path = tmp_path / "x.db"
    sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.close()
    connection = connect(path, read_only=False, sync="full" if sync == "full" else "normal")
    assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
    assert connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    connection.close()
