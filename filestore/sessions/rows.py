"""The rows that tell what sessions there are: `session`, one for each zone of a session, and
`agent`, one for each definition that has any.

A session's row goes with its zone by the zone's id, so it stays valid when the zone is renamed.
Its journal goes with it: what begins, ends or goes on again here is recorded there.
What it says of a finished session (preview, counts, sizes) is final; of a current one, preview,
node_count and covered are as of the snapshot with version `state_version`, the rest is not kept.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgpack

from filestore.engine.base import ReadTx, Tx
from filestore.engine.schema import row_check, values_check
from filestore.errors import AlreadyExistsError, CorruptionError
from filestore.journal import rows as journals
from filestore.journal import writing as journal
from filestore.journal.model import JournalRow
from filestore.sessions.model import ArchiveInfo
from filestore.sessions.names import OUTPUT, STATE, archive_zone, current_zone, parse_session

ARCHIVED = "archived"
"""Why a session has ended that a pane archived."""

_COLUMNS = (
    "s.zone_id, s.session_id, s.definition_id, s.archived_ms, s.started_ms, s.preview, "
    "s.node_count, s.state_bytes, s.output_bytes, s.output_lines, s.more, s.row_check"
)
_BY_ZONE = f"SELECT {_COLUMNS} FROM zone z JOIN session s ON s.zone_id = z.id WHERE z.name = ?"
_BY_ID = f"SELECT {_COLUMNS} FROM session s WHERE s.session_id = ?"
_ARCHIVE_COLUMNS = (
    "zone_id, session_id, archived_ms, started_ms, preview, node_count, state_bytes, "
    "output_bytes, output_lines, more, row_check"
)
_ARCHIVES = (
    f"SELECT {_ARCHIVE_COLUMNS} FROM session "
    "WHERE definition_id = ? AND archived_ms < ? ORDER BY archived_ms DESC LIMIT ?"
)
_OLDEST = (
    f"SELECT {_ARCHIVE_COLUMNS} FROM session "
    "WHERE definition_id = ? AND archived_ms > ? AND archived_ms < ? ORDER BY archived_ms LIMIT ?"
)


class SessionRow(NamedTuple):
    """One session. `archived_ms` None: it is the current one of its definition."""

    zone_id: int
    session_id: str
    definition_id: str
    archived_ms: int | None
    started_ms: int
    preview: str = ""
    node_count: int = 0
    state_bytes: int = 0
    output_bytes: int = 0
    output_lines: int = 0
    # From here on, what no list shows: one column, `more`, a MessagePack array.
    has_nodes: int = 0
    """1: preview and node_count come from the snapshot's nodes. 0: the preview is the stream's."""
    covered: int | None = None
    state_version: int = 0
    restored_from_ms: int | None = None
    """The archive that this current session was restored from, so that a repeat is recognised."""
    displaced_ms: int | None = None
    """The archive that the restore made of what was current before."""

    def stored(self) -> tuple[int | str | bytes | None, ...]:
        """The row as it is stored, with its check."""
        values = (*self[:_SHOWN], _pack(self[_SHOWN:]))
        return (*values, values_check(values))


_CHANGED = "SELECT max(modified_ms) FROM file WHERE zone_id = ? AND name IN (?, ?)"
_SHOWN = 10
_pack: Callable[[tuple[int | str | None, ...]], bytes] = msgpack.packb
_new_tuple = tuple.__new__


async def load(tx: ReadTx, zone: str) -> SessionRow | None:
    """The session in `zone`."""
    row = _row(await tx.fetch_one(_BY_ZONE, (zone,)))
    # A damaged index finds others, too.
    if row is not None and parse_session(zone) != (row.definition_id, row.archived_ms):
        raise CorruptionError("another session is found for it", zone=zone)
    return row


async def load_current(tx: ReadTx, definition_id: str) -> SessionRow | None:
    """The session that goes on."""
    return await load(tx, current_zone(definition_id))


async def load_by_id(tx: ReadTx, session_id: str) -> SessionRow | None:
    """A session wherever it is now."""
    row = _row(await tx.fetch_one(_BY_ID, (session_id,)))
    if row is not None and row.session_id != session_id:
        raise CorruptionError(f"another session is found for {session_id!a}")
    return row


async def load_archives(
    tx: ReadTx, definition_id: str, before_ms: int, limit: int
) -> list[ArchiveInfo]:
    """Finished sessions of one definition, newest first."""
    return _archives_in(definition_id, await tx.fetch(_ARCHIVES, (definition_id, before_ms, limit)))


async def load_oldest(
    tx: ReadTx, definition_id: str, after_ms: int, before_ms: int, limit: int
) -> list[ArchiveInfo]:
    """Finished sessions of one definition, archived between two times, oldest first."""
    found = await tx.fetch(_OLDEST, (definition_id, after_ms, before_ms, limit))
    return _archives_in(definition_id, found)


async def nth_archive_ms(tx: ReadTx, definition_id: str, number: int) -> int | None:
    """The time of the newest archive (1), of the one before (2), ...; None if there are fewer."""
    row = await tx.fetch_one(
        "SELECT archived_ms FROM session WHERE definition_id = ? AND archived_ms IS NOT NULL "
        "ORDER BY archived_ms DESC LIMIT 1 OFFSET ?",
        (definition_id, number - 1),
    )
    return None if row is None else int(row[0])


def _archives_in(definition_id: str, rows: Sequence[tuple[Any, ...]]) -> list[ArchiveInfo]:
    prefix = archive_zone(definition_id, 0)[:-1]
    found = []
    # Lists are long: no call that a row can do without. So no SessionRow, and `tuple` itself makes
    # the result, because a NamedTuple's own ways to are functions in Python. The definition is not
    # fetched: that the row is of the one asked for, as the index says, is what its check confirms.
    for row in rows:
        zone_id, session, at, started, preview, nodes, state, output, lines, more, check = row
        if check != values_check(
            (
                zone_id,
                session,
                definition_id,
                at,
                started,
                preview,
                nodes,
                state,
                output,
                lines,
                more,
            )
        ):
            raise _failed(session)
        shown = (f"{prefix}{at}", at, preview, nodes, session, started, state, output, lines)
        found.append(_new_tuple(ArchiveInfo, shown))
    return found


async def newest_archive_ms(tx: ReadTx, definition_id: str) -> int:
    """The time of the newest archive; -1 if there is none."""
    row = await tx.fetch_one(
        "SELECT max(archived_ms) FROM session WHERE definition_id = ?", (definition_id,)
    )
    return -1 if row is None or row[0] is None else int(row[0])


async def insert(tx: Tx, row: SessionRow, *, joins: bool = False, reason: str = "") -> None:
    """Add a session with its journal, and its agent if it is the first. `joins`: the journal may be
    there already. `reason`: why the session begins, if not by its first write.
    """
    await _begin(tx, row, reason, joins=joins)
    await tx.execute(
        "INSERT INTO session (zone_id, session_id, definition_id, archived_ms, started_ms, "
        "preview, node_count, state_bytes, output_bytes, output_lines, more, row_check) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row.stored(),
    )
    await _count_archives(tx, row.definition_id, int(row.archived_ms is not None))


async def save(tx: Tx, before: SessionRow, row: SessionRow) -> None:
    """Replace a session's row; being archived or restored counts for its agent, and is recorded."""
    await tx.execute(
        "UPDATE session SET archived_ms = ?, preview = ?, node_count = ?, state_bytes = ?, "
        "output_bytes = ?, output_lines = ?, more = ?, row_check = ? WHERE zone_id = ?",
        (row.archived_ms, *row.stored()[5:], row.zone_id),
    )
    more = (row.archived_ms is not None) - (before.archived_ms is not None)
    if more:
        await _count_archives(tx, row.definition_id, more)
        found = await _journal(tx, row.session_id)
        if row.archived_ms is None:
            if found.is_final:
                await journal.add(tx, found, "open", {"reason": "restored"})
        elif not found.is_final:
            await journal.end(tx, found, "completed", reason=ARCHIVED, at_ms=row.archived_ms)


async def remove(tx: Tx, row: SessionRow, *, with_journal: bool) -> None:
    """Delete a session's row, and its agent's if it was the last. Its journal stays if the session
    goes on in another zone, or without files.
    """
    if with_journal:
        await journal.remove(tx, await _journal(tx, row.session_id))
    await tx.execute("DELETE FROM session WHERE zone_id = ?", (row.zone_id,))
    await _count_archives(tx, row.definition_id, -int(row.archived_ms is not None))
    left = await tx.fetch_one(
        "SELECT zone_id FROM session WHERE definition_id = ? LIMIT 1", (row.definition_id,)
    )
    if left is None:
        await tx.execute("DELETE FROM agent WHERE definition_id = ?", (row.definition_id,))


async def _begin(tx: Tx, row: SessionRow, reason: str, *, joins: bool) -> None:
    found = await journals.find(tx, row.session_id)
    if found is None:
        why = {"reason": reason or None}
        found = await journal.begin(
            tx, row.session_id, row.definition_id, "pane", why, at_ms=row.started_ms
        )
    elif not joins:
        raise AlreadyExistsError(f"session {row.session_id!a} exists already")
    elif found.definition_id != row.definition_id:
        body = {"definition_id": row.definition_id}
        found, _ = await journal.add(tx, found, "meta", body, is_own=True)
    if row.archived_ms is not None and not found.is_final:
        found = await journal.end(tx, found, "completed", reason=ARCHIVED, at_ms=row.archived_ms)
    # Files that came from elsewhere have a past, and lists by activity go by it.
    changed = await tx.fetch_one(_CHANGED, (row.zone_id, STATE, OUTPUT))
    if changed is not None and isinstance(changed[0], int):
        await journal.touch(tx, found, changed[0])


async def _journal(tx: Tx, session_id: str) -> JournalRow:
    found = await journals.find(tx, session_id)
    if found is None:
        raise CorruptionError(f"session {session_id!a} has lost its journal")
    return found


async def load_agents(tx: ReadTx, after: str, limit: int) -> list[tuple[str, int]]:
    """Definition ids in order, and how many archives each has."""
    rows = await tx.fetch(
        "SELECT definition_id, archives, row_check FROM agent WHERE definition_id > ? "
        "ORDER BY definition_id LIMIT ?",
        (after, limit),
    )
    return [(str(row[0]), _archives(row)) for row in rows]


async def _count_archives(tx: Tx, definition_id: str, more: int) -> None:
    row = await tx.fetch_one(
        "SELECT definition_id, archives, row_check FROM agent WHERE definition_id = ?",
        (definition_id,),
    )
    archives = (_archives(row) if row else 0) + more
    assert archives >= 0, definition_id
    await tx.execute(
        "INSERT INTO agent (definition_id, archives, row_check) VALUES (?, ?, ?) "
        "ON CONFLICT (definition_id) DO UPDATE "
        "SET archives = excluded.archives, row_check = excluded.row_check",
        (definition_id, archives, row_check(definition_id, archives)),
    )


def _archives(row: tuple[Any, ...]) -> int:
    definition_id, archives, check = row
    if check != row_check(definition_id, archives):
        raise CorruptionError(f"the row of agent {definition_id!a} fails its check")
    return int(archives)


def _row(row: tuple[Any, ...] | None) -> SessionRow | None:
    if row is None:
        return None
    *values, check = row
    if check != row_check(*values):
        raise _failed(row[1])
    *shown, more = values
    return SessionRow(*shown, *msgpack.unpackb(more))


def _failed(session_id: str) -> CorruptionError:
    return CorruptionError(f"the row of session {session_id!a} fails its check")
