"""f0001: the first tables: zones, files, lists, chunks, the log, sessions, agents.

Precondition: none; stores are made whole, so nothing is ever brought up to this step alone.
Effect: the tables of format 1. Check after: as for every step, the number of the format.
"""

from pathlib import Path
from typing import LiteralString

from filestore.engine.driver import Connection
from filestore.engine.log import encode
from migrations.format.step import Step, nothing_after

TABLES: tuple[LiteralString, ...] = (
    """CREATE TABLE zone (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, version INTEGER NOT NULL,
        created_ms INTEGER NOT NULL, meta BLOB NOT NULL, row_check BLOB NOT NULL)""",
    """CREATE TABLE file (
        id INTEGER PRIMARY KEY, zone_id INTEGER NOT NULL, name TEXT NOT NULL, version INTEGER NOT
        NULL, size INTEGER NOT NULL, ended INTEGER NOT NULL, open INTEGER NOT NULL, created_ms
        INTEGER NOT NULL, modified_ms INTEGER NOT NULL, pages INTEGER NOT NULL, digest BLOB, meta
        BLOB NOT NULL, row_check BLOB NOT NULL, UNIQUE (zone_id, name))""",
    """CREATE TABLE list (
        id INTEGER PRIMARY KEY, start_offset INTEGER NOT NULL, start_line INTEGER NOT NULL,
        entries BLOB NOT NULL, row_check BLOB NOT NULL)""",
    """CREATE TABLE chunk (
        id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, size INTEGER NOT NULL,
        codec INTEGER NOT NULL, refs INTEGER NOT NULL)""",
    "CREATE TABLE chunk_data (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    "CREATE INDEX chunk_unused ON chunk (id) WHERE refs = 0",
    """CREATE TABLE released (
        file_id INTEGER PRIMARY KEY, pages INTEGER NOT NULL, row_check BLOB NOT NULL)""",
    "CREATE TABLE log (seq INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    """CREATE TABLE session (
        zone_id INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE, definition_id TEXT NOT NULL,
        archived_ms INTEGER, started_ms INTEGER NOT NULL, preview TEXT NOT NULL, node_count INTEGER
        NOT NULL, state_bytes INTEGER NOT NULL, output_bytes INTEGER NOT NULL, output_lines INTEGER
        NOT NULL, more BLOB NOT NULL, row_check BLOB NOT NULL)""",
    "CREATE UNIQUE INDEX session_archived ON session (definition_id, archived_ms)",
    """CREATE TABLE agent (
        definition_id TEXT PRIMARY KEY, archives INTEGER NOT NULL, row_check BLOB NOT NULL)""",
)


def up(connection: Connection, _: Path, __: int) -> None:
    """Make the tables and the first row of the log, which holds the counter."""
    for sql in TABLES:
        connection.execute(sql)
    connection.execute("INSERT INTO log VALUES (1, ?)", (encode(1, ()),))


STEP = Step("f0001_first_tables", up, None, nothing_after)
