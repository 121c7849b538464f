"""The database file: how it is made, recognised, refused, and looked at before anyone trusts it.

Made beside and renamed into place, so a crash leaves either nothing or a whole empty store. What is
not ours, newer, or older is refused without being touched; to bring an older one up to this format
is the business of the migrations.
"""

import os
import stat
from pathlib import Path
from typing import Any

from filestore.engine import driver, schema
from filestore.engine.log import encode
from filestore.errors import (
    CorruptionError,
    ForeignDatabaseError,
    FormatError,
    NewerFormatError,
    NotFoundError,
    StoreError,
)
from filestore.files import FILE_MODE, sync_folder, translated_os_errors

RESTORED_SUFFIX = ".restored"
"""What stands beside the place of a database while it is being restored (restoring.py)."""


def connect_read_only(
    path: Path, *, is_immutable: bool, may_be_older: bool = False, is_shm_read_only: bool = False
) -> driver.Connection:
    """Connect without writing; refuses what is not ours, and an older format unless told."""
    if not os.path.lexists(path):
        raise NotFoundError(
            f"there is no store at {str(path)!r}",
            operation="open",
            hint="start `zoned serve` once to make one",
        )
    _refuse_unless_plain(path)
    connection = driver.connect(
        path, read_only=True, immutable=is_immutable, is_shm_read_only=is_shm_read_only
    )
    try:
        version = _check_identity(path, connection)
        if not may_be_older:
            refuse_older(path, version)
    except StoreError:
        connection.close()
        raise
    return connection


def check_header(path: Path) -> int:
    """Refuse, untouched, a file that is not ours or is of a newer format. Returns its format.

    Reads the file's first bytes itself: letting SQLite open a stranger's database could change it.
    A process that has the database open must not do this (closing any descriptor drops its POSIX
    locks), hence only before.
    """
    _refuse_unless_plain(path)
    with path.open("rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(schema.HEADER_MAGIC):
        raise ForeignDatabaseError(f"{str(path)!r} is not an SQLite database", operation="open")
    application_id, version, pages = (
        int.from_bytes(head[at : at + 4], "big")
        for at in (
            schema.HEADER_APPLICATION_ID_AT,
            schema.HEADER_USER_VERSION_AT,
            schema.HEADER_PAGES_AT,
        )
    )
    _refuse_unless_ours(path, application_id, version)
    stored, wanted = path.stat().st_size, pages * schema.PAGE_BYTES
    # With a WAL it may be short: a checkpoint that was cut off writes the header first.
    if stored < wanted and not wal_bytes(path):
        raise CorruptionError(
            f"the database file was cut short: {stored} of {wanted} bytes", operation="open"
        )
    return version


def _refuse_unless_plain(path: Path) -> None:
    """The file, and what SQLite would put beside it and follows without a look."""
    for suffix in ("", "-wal", "-shm"):
        each = path.with_name(path.name + suffix)
        try:
            mode = each.lstat().st_mode
        except FileNotFoundError:
            # Never there, or gone this moment: who closes the database takes its log away.
            continue
        if not stat.S_ISREG(mode):
            raise ForeignDatabaseError(f"{str(each)!r} is not a plain file", operation="open")


def untouched(path: Path) -> tuple[int, int, int] | None:
    """What tells that nobody has written to a database without a WAL; None if there is one."""
    if wal_bytes(path) or not path.exists():
        return None
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def wal_bytes(path: Path) -> int:
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except FileNotFoundError:
        return 0


def _check_identity(path: Path, connection: driver.Connection) -> int:
    with driver.translated("open"):
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    _refuse_unless_ours(path, application_id, version)
    return int(version)


def _refuse_unless_ours(path: Path, application_id: int, version: int) -> None:
    if application_id != schema.APPLICATION_ID:
        raise ForeignDatabaseError(
            f"{str(path)!r} is a database of another program (application id {application_id:#x})",
            operation="open",
        )
    if version > schema.FORMAT_VERSION:
        raise NewerFormatError(
            f"the database has format {version}, this release knows up to {schema.FORMAT_VERSION}",
            operation="open",
        )


def refuse_older(path: Path, version: int) -> None:
    """Raise if the database is of an older format than this release works with."""
    if version < schema.FORMAT_VERSION:
        raise FormatError(
            f"{str(path)!r} has format {version}, this release works with {schema.FORMAT_VERSION}",
            operation="open",
            hint="run `zoned migrate up`",
        )


def check_steps(connection: driver.Connection) -> None:
    """Raise unless exactly the steps of this format are noted as applied."""
    refuse_unknown_steps(connection)
    rows = connection.execute("SELECT number, name FROM format_step ORDER BY number").fetchall()
    if rows != list(enumerate(schema.STEPS, 1)):
        raise CorruptionError("the notes of applied steps are not those of this format")


def refuse_unknown_steps(connection: driver.Connection) -> None:
    """Raise if a newer release has noted a step, whatever the number of the format says."""
    row = connection.execute(
        "SELECT name FROM format_step WHERE number > ? ORDER BY number DESC LIMIT 1",
        (schema.FORMAT_VERSION,),
    ).fetchone()
    if row is not None:
        raise NewerFormatError(
            f"step {row[0]!a} was applied to the database, which this release does not know",
            operation="open",
        )


def check_start(connection: driver.Connection, path: Path) -> None:
    """The check at start: bounded, whatever the size of the store. Raises on the first problem."""
    refuse_older(path, _check_identity(path, connection))
    tables = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    if sorted(sql for (sql,) in tables) != sorted(schema.TABLES):
        raise CorruptionError("the tables are not those of this format", operation="open")
    check_steps(connection)
    # A damaged page could hide rows without a trace. The log is small, and nothing else tells which
    # appends there were.
    (found,) = connection.execute("PRAGMA quick_check(log)").fetchone()
    if found != "ok":
        raise CorruptionError(f"the log is damaged: {found}", operation="open")


def create(path: Path, now_ms: int, counter: int = 1) -> None:
    """Make an empty store beside `path` and rename it into place. `counter`: where its store-wide
    counter begins."""
    if os.path.lexists(path.with_name(path.name + RESTORED_SUFFIX)):
        # In the middle of being restored; an empty store would pass for the one that was there.
        raise FormatError(
            f"{str(path)!r} is missing: a restore was not finished",
            operation="open",
            hint="run `zoned restore-backup` again; what was there is in the folder `backups`",
        )
    if wal_bytes(path):
        # SQLite would apply it to whatever database stands beside it.
        raise FormatError(
            f"{str(path)!r} is missing, but its write-ahead log is there",
            operation="open",
            hint="put the database back, or move the `-wal` file away to start anew",
        )
    beside = path.with_name(path.name + ".new")
    with translated_os_errors("create"):
        for left in ("", "-journal", "-wal", "-shm"):
            beside.with_name(beside.name + left).unlink(missing_ok=True)
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE_MODE))
    connection = driver.connect(beside, read_only=False)
    with driver.translated("create"):
        statements: list[tuple[str, tuple[Any, ...]]] = [
            (f"PRAGMA page_size = {schema.PAGE_BYTES}", ()),
            ("PRAGMA auto_vacuum = INCREMENTAL", ()),
            ("BEGIN IMMEDIATE", ()),
            *((sql, ()) for sql in schema.TABLES),
            ("INSERT INTO log VALUES (?, ?)", (counter, encode(counter, ()))),
            *(
                ("INSERT INTO format_step VALUES (?, ?, ?)", (number, name, now_ms))
                for number, name in enumerate(schema.STEPS, 1)
            ),
            (f"PRAGMA application_id = {schema.APPLICATION_ID}", ()),
            (f"PRAGMA user_version = {schema.FORMAT_VERSION}", ()),
            ("COMMIT", ()),
            ("PRAGMA journal_mode = WAL", ()),
        ]
        for sql, params in statements:
            connection.execute(sql, params).fetchall()
        connection.close()
    with translated_os_errors("create"):
        os.rename(beside, path)
        sync_folder(path.parent)
