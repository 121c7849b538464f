"""The tables of format 3, and how a database is recognised as ours. See
docs/specs/0001-store-format.md.

`file` and `zone` rows, and `list` pages, carry a check (XXH3-64) of their own content; chunks are
verified by their hash. A `list` row's id packs its file and page number, so one file's pages lie
side by side in one b-tree.
"""

from collections.abc import Callable
from struct import Struct
from typing import LiteralString

import msgpack
from xxhash import xxh3_64_digest

APPLICATION_ID = 0x7A6F6E64
"""ASCII `zond`, in the header of every database we make."""
STEPS = ("f0001_first_tables", "f0002_ledger", "f0003_journal")
"""How the tables came about; each step has its row in `format_step`."""
FORMAT_VERSION = len(STEPS)
PAGE_BYTES = 4096

LIST_PAGE_BITS = 20
"""16 TiB of sealed stream in one file; 43 bits are left for ids, which is 8 · 10¹² writes."""
ENTRIES_PER_PAGE = 64
REFERENCE = 65537
"""`chunk.refs` counts in steps of this prime, so that a flipped bit shows (the count is not a
multiple any more) and can never make a chunk look unused."""
ENTRY = Struct("<32sII")
"""One list entry: chunk hash, size, lines that end in it."""

HEADER_MAGIC = b"SQLite format 3\0"
HEADER_PAGES_AT = 28
HEADER_USER_VERSION_AT = 60
HEADER_APPLICATION_ID_AT = 68

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
    """CREATE TABLE format_step (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_ms INTEGER NOT NULL)""",
    """CREATE TABLE building (
        file_id INTEGER PRIMARY KEY, pages INTEGER NOT NULL, row_check BLOB NOT NULL)""",
    """CREATE TABLE ledger (
        source TEXT NOT NULL, zone TEXT NOT NULL, name TEXT NOT NULL, size INTEGER NOT NULL,
        modified_ms INTEGER NOT NULL, outcome TEXT NOT NULL, target TEXT NOT NULL, version INTEGER
        NOT NULL, stored INTEGER NOT NULL, row_check BLOB NOT NULL,
        PRIMARY KEY (source, zone, name))""",
    """CREATE TABLE journal (
        id INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE, definition_id TEXT NOT NULL,
        status TEXT NOT NULL, phase TEXT NOT NULL, origin TEXT NOT NULL, created_ms INTEGER NOT
        NULL, updated_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL, agent_name TEXT, repo_id
        TEXT, is_busy INTEGER NOT NULL, records INTEGER NOT NULL, more BLOB NOT NULL, row_check
        BLOB NOT NULL)""",
    "CREATE INDEX journal_status ON journal (status, id)",
    "CREATE INDEX journal_repo ON journal (repo_id, status, id) WHERE repo_id IS NOT NULL",
    "CREATE INDEX journal_agent ON journal (agent_name, status, id) WHERE agent_name IS NOT NULL",
    "CREATE INDEX journal_updated ON journal (updated_ms, id)",
    "CREATE INDEX journal_started ON journal (started_ms, id)",
    "CREATE INDEX journal_origin ON journal (origin, updated_ms)",
    "CREATE INDEX journal_definition ON journal (definition_id, status, id)",
    "CREATE INDEX journal_busy ON journal (id) WHERE is_busy = 1",
    "CREATE INDEX journal_idle ON journal (status, updated_ms) WHERE repo_id IS NOT NULL",
    """CREATE TABLE record (
        id INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, kind TEXT NOT NULL, ref TEXT,
        body BLOB NOT NULL, row_check BLOB NOT NULL)""",
    "CREATE INDEX record_kind ON record (kind, at_ms)",
    "CREATE INDEX record_ref ON record (ref, id) WHERE ref IS NOT NULL",
    """CREATE TABLE related (
        ref TEXT NOT NULL, journal_id INTEGER NOT NULL, row_check BLOB NOT NULL,
        PRIMARY KEY (ref, journal_id))""",
    "CREATE INDEX related_journal ON related (journal_id)",
    """CREATE TABLE tally (
        scope TEXT NOT NULL, key TEXT NOT NULL, status TEXT NOT NULL, count INTEGER NOT NULL,
        row_check BLOB NOT NULL, PRIMARY KEY (scope, key, status))""",
    """CREATE TABLE repo (
        id TEXT PRIMARY KEY, path TEXT NOT NULL UNIQUE, name TEXT NOT NULL, created_ms INTEGER NOT
        NULL, row_check BLOB NOT NULL)""",
)


_PACK: Callable[[tuple[int | str | bytes | None, ...]], bytes] = msgpack.Packer().pack
"""One packer for all: it keeps nothing from call to call, and no call gives up the GIL."""


def row_check(*values: int | str | bytes | None) -> bytes:
    """The check of a row: XXH3-64 over its values, in order."""
    return values_check(values)


def values_check(values: tuple[int | str | bytes | None, ...]) -> bytes:
    """The same for values that are a tuple already."""
    return xxh3_64_digest(_PACK(values))


def list_id(file_id: int, page: int) -> int:
    """The id of a list page."""
    assert page < 1 << LIST_PAGE_BITS, page
    return file_id << LIST_PAGE_BITS | page
