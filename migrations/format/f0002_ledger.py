"""f0002: the ledger of migrations, lists that are being built, and the notes of steps themselves.

Precondition: format 1. Effect: tables `format_step`, `building`, `ledger`. Check after: the number
of the format, and a row in `format_step` for this step and the one before.

Down drops the three tables. Two of them hold what a later `up` needs, so that going down and up
again loses nothing: the ledger is written beside the database first, as JSON lines, and read back
by `up`. Lists that were being built become deleted files, which format 1 knows how to release. A
crash between that file and the commit leaves the file behind: the next `down` replaces it, and only
an `up` reads it, after which it is removed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import orjson

from filestore.engine.driver import Connection
from filestore.files import replace_file_with, translated_os_errors
from migrations.format.step import Step

SAVED_NAME = "zoned.f0002_ledger.saved"
COLUMNS: LiteralString = (
    "source, zone, name, size, modified_ms, outcome, target, version, stored, row_check"
)
TABLES: tuple[LiteralString, ...] = (
    """CREATE TABLE format_step (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_ms INTEGER NOT NULL)""",
    """CREATE TABLE building (
        file_id INTEGER PRIMARY KEY, pages INTEGER NOT NULL, row_check BLOB NOT NULL)""",
    """CREATE TABLE ledger (
        source TEXT NOT NULL, zone TEXT NOT NULL, name TEXT NOT NULL, size INTEGER NOT NULL,
        modified_ms INTEGER NOT NULL, outcome TEXT NOT NULL, target TEXT NOT NULL, version INTEGER
        NOT NULL, stored INTEGER NOT NULL, row_check BLOB NOT NULL,
        PRIMARY KEY (source, zone, name))""",
)


def up(connection: Connection, folder: Path, now_ms: int) -> None:
    """Make the tables; fill the ledger with what an earlier `down` has saved."""
    for sql in TABLES:
        connection.execute(sql)
    connection.execute("INSERT INTO format_step VALUES (1, 'f0001_first_tables', ?)", (now_ms,))
    saved = folder / SAVED_NAME
    with translated_os_errors("up"):
        if saved.exists():
            with saved.open("rb") as lines:
                connection.executemany(
                    f"INSERT INTO ledger ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    map(_row, lines),
                )


def down(connection: Connection, folder: Path, _: int) -> None:
    """Save the ledger beside the database, give up what is being built, drop the tables."""
    with translated_os_errors("down"):
        replace_file_with(folder / SAVED_NAME, _lines(connection))
    connection.execute("INSERT INTO released SELECT * FROM building WHERE pages > 0")
    for table in ("format_step", "building", "ledger"):
        connection.execute(f"DROP TABLE {table}")


def forget_saved(connection: Connection, folder: Path, _: int) -> None:
    """The rows are in the ledger again."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= 2:
        with translated_os_errors("up"):
            (folder / SAVED_NAME).unlink(missing_ok=True)


def _lines(connection: Connection) -> Iterator[bytes]:
    for *values, check in connection.execute(f"SELECT {COLUMNS} FROM ledger"):
        yield orjson.dumps([*values, check.hex()]) + b"\n"


def _row(line: bytes) -> tuple[str | int | bytes, ...]:
    *values, check = orjson.loads(line)
    return (*values, bytes.fromhex(check))


STEP = Step("f0002_ledger", up, down, forget_saved)
