"""The SQLite library: which one, how a connection is set up, and its errors turned into ours.

One SQLite library serves the whole process. `pysqlite3` carries a current one; where it has no
wheel the standard module is used, which is safe because one connection alone writes and
checkpoints.
"""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from filestore.errors import (
    BackendError,
    BusyError,
    CorruptionError,
    ForeignDatabaseError,
    StorageFullError,
    StoreError,
)
from filestore.model import Sync

if TYPE_CHECKING:
    import sqlite3 as driver
else:
    try:
        import pysqlite3.dbapi2 as driver
    except ImportError:
        import sqlite3 as driver

Connection = driver.Connection
Cursor = driver.Cursor
Error = driver.Error
SQLITE_VERSION = driver.sqlite_version
LIBRARY = driver.__name__.partition(".")[0]

BUSY_TIMEOUT_MS = 5000
INTEGRITY_CHECK = "PRAGMA integrity_check(100)"
_PRIMARY = 0xFF
_BUSY, _IOERR, _CORRUPT, _FULL, _NOTADB = 5, 10, 11, 13, 26
_SAID = {"database is locked": _BUSY, "disk I/O error": _IOERR,
         "database disk image is malformed": _CORRUPT, "database or disk is full": _FULL,
         "file is not a database": _NOTADB}  # fmt: skip
"""SQLite's own words for its codes: the driver gives no code with what fails while it copies."""


class IoFailure(BackendError):
    """The disk failed below the database: what was being written is in an unknown state."""


def connect(
    path: Path,
    *,
    read_only: bool,
    sync: Sync = "full",
    immutable: bool = False,
    is_shm_read_only: bool = False,
) -> Connection:
    """Open `path`, which must exist. For one thread at a time.

    `is_shm_read_only`: neither make nor change the `-shm`, where others keep theirs.
    """
    flags = "mode=ro" if read_only else "mode=rw"
    if immutable:
        flags += "&immutable=1"
    if is_shm_read_only:
        flags += "&readonly_shm=1"
    with translated("open"):
        connection = driver.connect(
            f"file:{quote(str(path))}?{flags}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            timeout=BUSY_TIMEOUT_MS / 1000,
        )
        try:
            _set_up(connection, read_only=read_only, sync=sync)
        except BaseException:
            # Not left to the garbage collector, which may run on any thread.
            connection.close()
            raise
    return connection


def _set_up(connection: Connection, *, read_only: bool, sync: Sync) -> None:
    connection.execute(f"PRAGMA cache_size = {-4096 if read_only else -16384}")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA mmap_size = 0")
    if not read_only:
        connection.execute(f"PRAGMA synchronous = {sync.upper()}")
        # The writer itself checkpoints, after it has acknowledged.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("PRAGMA secure_delete = OFF")


class translated:  # read like a function
    """Turn the driver's errors into ours; the only place that does.

    A class, since it is entered for every commit: a generator takes four times as long.
    """

    __slots__ = ("_operation",)

    def __init__(self, operation: str) -> None:
        self._operation = operation

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Error):
            raise translate(error, self._operation) from error
        if isinstance(error, UnicodeDecodeError):
            # A message of SQLite's that quotes damaged bytes; the driver fails on it before it
            # raises.
            message = "the database is damaged: it has names that are no text"
            raise CorruptionError(message, operation=self._operation) from error


def translate(error: Error, operation: str) -> StoreError:
    """The error of ours that says what `error` means."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & _PRIMARY if code is not None else _SAID.get(str(error))
    text = f"{error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})"
    if primary == _FULL:
        return StorageFullError("the disk is full", operation=operation)
    if primary == _IOERR:
        return IoFailure(f"input/output error: {text}", operation=operation)
    if primary == _NOTADB and operation == "open":
        return ForeignDatabaseError("the file is not an SQLite database", operation=operation)
    # The driver itself, without a code, refuses a text column that is not UTF-8.
    if primary in (_CORRUPT, _NOTADB) or (code is None and "decode to UTF-8" in text):
        return CorruptionError(f"the database is damaged: {text}", operation=operation)
    if primary == _BUSY:
        return BusyError(f"the database is busy: {text}", retry_after_ms=100, operation=operation)
    return BackendError(f"database error: {text}", operation=operation)
