"""f0003: the journals of sessions: their records, their folded rows, tallies, and repos.

Precondition: format 2. Effect: tables `journal`, `record`, `related`, `tally`, `repo`; every
session that is there gets a journal: begun when it was started, ended when it was archived. Check
after: as for every step, and one journal for each session.

Down writes all journals and repos beside the database first, as JSON lines, and drops the tables.
A later `up` reads them back, so that going down and up again loses nothing. What format 2 did to
sessions meanwhile is brought in then: a session that is gone has no journal, one that was archived
has ended, one that was restored goes on. A crash between that file and the commit leaves the file
behind: the next `down` replaces it, and only an `up` reads it, after which it is removed.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, LiteralString

import msgpack
import orjson
from xxhash import xxh3_64_digest

from filestore.engine.driver import Connection
from filestore.errors import CorruptionError
from filestore.files import replace_file_with, translated_os_errors
from migrations.format.step import Step

SAVED_NAME = "zoned.f0003_journal.saved"
SEQ_BITS = 24
SHOWN = 13
_INSERT: LiteralString = "INSERT INTO journal VALUES (" + ", ".join(["?"] * (SHOWN + 2)) + ")"
TABLES: tuple[LiteralString, ...] = (
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
SAVED_TABLES: tuple[LiteralString, ...] = ("journal", "record", "related", "repo")
_SESSIONS: LiteralString = (
    "SELECT session_id, definition_id, archived_ms, started_ms, (SELECT max(f.modified_ms) "
    "FROM file f WHERE f.zone_id = s.zone_id AND f.name IN ('output', 'output.state.json')) "
    "FROM session s ORDER BY zone_id"
)


def up(connection: Connection, folder: Path, now_ms: int) -> None:
    """Make the tables; fill them with what an earlier `down` has saved, and with the sessions."""
    for sql in TABLES:
        connection.execute(sql)
    saved = folder / SAVED_NAME
    with translated_os_errors("up"):
        was_archived = _read_saved(connection, saved) if saved.exists() else {}
    for row in connection.execute(_SESSIONS).fetchall():
        _bring_up(connection, row, now_ms, was_archived=was_archived.pop(row[0], False))
    for session_id in was_archived:
        _forget(connection, session_id)
    _tally(connection)
    sessions, journals = (
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("session", "journal WHERE session_id IN (SELECT session_id FROM session)")
    )
    if sessions != journals:
        raise CorruptionError(f"{sessions} sessions have {journals} journals", operation="up")


def down(connection: Connection, folder: Path, _: int) -> None:
    """Save what the tables hold beside the database, and drop them."""
    with translated_os_errors("down"):
        replace_file_with(folder / SAVED_NAME, _lines(connection))
    for table in ("journal", "record", "related", "tally", "repo"):
        connection.execute(f"DROP TABLE {table}")


def forget_saved(connection: Connection, folder: Path, _: int) -> None:
    """The rows are in the tables again."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= 3:
        with translated_os_errors("up"):
            (folder / SAVED_NAME).unlink(missing_ok=True)


def _bring_up(
    connection: Connection, session: tuple[Any, ...], now_ms: int, *, was_archived: bool
) -> None:
    """The journal of one session: made, or brought to where the session is."""
    session_id, definition_id, archived_ms, started_ms, changed_ms = session
    found = connection.execute(
        "SELECT * FROM journal WHERE session_id = ?", (session_id,)
    ).fetchone()
    if found is None:
        (newest,) = connection.execute("SELECT max(id) FROM journal").fetchone()
        found = _begin(connection, (newest or 0) + 1, session_id, definition_id, started_ms)
    if _checked(list(found[:-1])) != tuple(found):
        return  # with a new check nobody would ever see that it is damaged
    row, more = list(found[:SHOWN]), msgpack.unpackb(found[SHOWN])
    if row[2] != definition_id:
        _add(connection, row, now_ms, "meta", {"definition_id": definition_id})
        row[2] = definition_id
    if archived_ms is not None and row[3] == "active":
        body = {"status": "completed", "phase": "completed", "reason": "archived"}
        _add(connection, row, archived_ms, "end", body)
        row[3], row[4], row[11] = "completed", "completed", 0
        more[0], more[6], more[10], more[11] = archived_ms, "archived", None, None
    elif archived_ms is None and row[3] != "active" and was_archived:
        _add(connection, row, now_ms, "open", {"reason": "restored"})
        row[3], row[4] = "active", more[9]
        more[0], more[6] = None, "restored"
    if isinstance(changed_ms, int):
        row[7] = max(row[7], changed_ms)
    if row != list(found[:SHOWN]):
        connection.execute("DELETE FROM journal WHERE id = ?", (row[0],))
        connection.execute(_INSERT, _checked([*row, msgpack.packb(more)]))


def _begin(
    connection: Connection, number: int, session_id: str, definition_id: str, started_ms: int
) -> tuple[Any, ...]:
    """A journal with its first record. Returns its row."""
    body = {"id": session_id, "definition_id": definition_id, "origin": "pane"}
    _add_record(connection, number, 0, started_ms, "open", body)
    entity = hashlib.sha256(f"agent_session:{session_id}".encode()).hexdigest()[:24]
    connection.execute("INSERT INTO related VALUES (?, ?, ?)", _checked([f"ent_{entity}", number]))
    more = [None, None, None, b'{"":null}', b"{}", None, None, 0, None, "initializing", None, None,
            0, 0, 0, None]  # fmt: skip
    row = [number, session_id, definition_id, "active", "initializing", "pane", started_ms,
           started_ms, started_ms, None, None, 0, 1, msgpack.packb(more)]  # fmt: skip
    connection.execute(_INSERT, _checked(row))
    return _checked(row)


def _add(
    connection: Connection, row: list[Any], at_ms: int, kind: str, body: dict[str, Any]
) -> None:
    """Add a record, and count it in the row."""
    _add_record(connection, row[0], row[12], at_ms, kind, body)
    row[7], row[12] = max(row[7], at_ms), row[12] + 1


def _add_record(
    connection: Connection, number: int, seq: int, at_ms: int, kind: str, body: dict[str, Any]
) -> None:
    values = [number << SEQ_BITS | seq, at_ms, kind, None, orjson.dumps(body)]
    connection.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?)", _checked(values))


def _forget(connection: Connection, session_id: str) -> None:
    found = connection.execute(
        "SELECT id FROM journal WHERE session_id = ?", (session_id,)
    ).fetchone()
    if found is None:
        return  # it was lost before
    (number,) = found
    connection.execute("DELETE FROM journal WHERE id = ?", (number,))
    connection.execute("DELETE FROM related WHERE journal_id = ?", (number,))
    connection.execute(
        "DELETE FROM record WHERE id >= ? AND id < ?",
        (number << SEQ_BITS, (number + 1) << SEQ_BITS),
    )


def _tally(connection: Connection) -> None:
    counts: Counter[tuple[str, str, str]] = Counter()
    for status, repo_id, agent in connection.execute(
        "SELECT status, repo_id, agent_name FROM journal"
    ):
        counts["all", "", status] += 1
        if repo_id is not None:
            counts["repos", "", status] += 1
            counts["repo", repo_id, status] += 1
        if agent is not None:
            counts["agent", agent, status] += 1
    connection.executemany(
        "INSERT INTO tally VALUES (?, ?, ?, ?, ?)",
        [_checked([*key, count]) for key, count in counts.items()],
    )


def _checked(values: list[Any]) -> tuple[Any, ...]:
    return (*values, xxh3_64_digest(msgpack.packb(values)))


def _lines(connection: Connection) -> Iterator[bytes]:
    """One line a row: the table, then its values, bytes as hex; first, which journals had files,
    and whether those were archives.
    """
    had = connection.execute("SELECT session_id, archived_ms IS NOT NULL FROM session").fetchall()
    yield orjson.dumps([[session_id, bool(is_archive)] for session_id, is_archive in had]) + b"\n"
    for table in SAVED_TABLES:
        for row in connection.execute(f"SELECT * FROM {table}"):
            values = [["x", each.hex()] if isinstance(each, bytes) else each for each in row]
            yield orjson.dumps([table, *values]) + b"\n"


def _read_saved(connection: Connection, saved: Path) -> dict[str, bool]:
    """Bring back what was saved. Returns which sessions had files then, and whether as archives."""
    with saved.open("rb") as lines:
        was_archived = dict(orjson.loads(next(lines)))
        for line in lines:
            table, *row = orjson.loads(line)
            values = [bytes.fromhex(each[1]) if isinstance(each, list) else each for each in row]
            marks = ", ".join("?" * len(values))
            assert table in SAVED_TABLES, table
            connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)
    return was_archived


STEP = Step("f0003_journal", up, down, forget_saved)
