"""Observations: what agents submit of their sessions, and what they ask about the past.

Every submit is one transaction and one record that is never changed. Every answer is made of the
records at the time of the question, so nothing has to be kept in step. All sessions answer,
whichever surface began them. Laws: docs/specs/0008-session-records.md, 0012-mcp.md.
"""

from collections.abc import Awaitable, Mapping
from typing import Any, Literal, LiteralString, NamedTuple

from filestore.engine.base import ReadTx
from filestore.errors import InvalidArgumentError, NotFoundError, TooLargeError
from filestore.journal import rows
from filestore.journal import writing as journal
from filestore.journal.bodies import is_text, to_json
from filestore.journal.fold import entity_id
from filestore.journal.model import JournalRow, Status
from filestore.reading import ReadTransaction
from filestore.records.entities import SHALLOW, Depth, checkpoints_in, entity, records_of
from filestore.records.info import find, info
from filestore.records.lists import ROWS_MAX
from filestore.records.records import definition_of
from filestore.records.slices import Said, newest
from filestore.records.submission import body_of, check_submission
from filestore.records.timeline import (
    EVENTS_BYTES_MAX,
    EVENTS_MAX,
    SESSIONS_MAX,
    TimedEvent,
    Window,
    events_of,
    too_many,
)
from filestore.sessions.names import check_definition_id
from filestore.store import ROWS_BYTES, FileStore
from filestore.times import iso, parse
from filestore.transaction import Transaction

LIST_BYTES_MAX = 16 << 20
ENDED_BY_SUBMIT = "submitted"
OrderBy = Literal["started_at", "updated_at"]
Order = Literal["asc", "desc"]
_COLUMNS: Mapping[OrderBy, LiteralString] = {
    "started_at": "j.started_ms", "updated_at": "j.updated_ms",
}  # fmt: skip


class Submitted(NamedTuple):
    """What became of a submit."""

    entity_id: str
    observation_count: int
    warnings: list[str]


class Wanted(NamedTuple):
    """Which sessions, and in which order."""

    limit: int = 20
    order_by: OrderBy = "started_at"
    order: Order = "desc"
    status: Status | None = None
    agent_name: str | None = None


class Observations:
    """What agents said of the sessions of a store. Belongs to the store's event loop."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    async def submit(self, document: object, *, call_id: str | None = None) -> Submitted:
        """Keep what an agent says of its session, begun if it is not known. Durable on return.

        RejectedError for a document that breaks a rule; nothing is stored then. A repeat of this
        very call is answered as the first time.
        """
        given = check_submission(document)
        session_id = journal.check_id(given.session_id)
        definition_id = check_definition_id(definition_of(session_id))
        if call_id is not None:
            journal.check_ref(call_id)

        async def unit(tx: Transaction) -> Submitted:
            row = await rows.find(tx.rows, session_id)
            if row is None:
                row = await journal.begin(tx.rows, session_id, definition_id, "mcp", {})
            elif call_id is not None:
                seq = await rows.last_seq(tx.rows, row.id, call_id, "observation")
                if seq >= 0:
                    count = await rows.count_of_kind(tx.rows, row.id, "observation", seq)
                    return Submitted(entity_id(session_id), count, given.warnings)
            row, _ = await journal.add(tx.rows, row, "observation", body_of(given), ref=call_id)
            if given.ended_ms is not None and not row.is_final:
                row = await journal.end(tx.rows, row, "completed", reason=ENDED_BY_SUBMIT)
            return Submitted(entity_id(session_id), row.observations, given.warnings)

        return await self._store.transact(unit, cost_bytes=ROWS_BYTES)

    async def entity(self, session_id: str) -> dict[str, Any] | None:
        """What is known of a session; None if there is none."""

        async def unit(tx: ReadTransaction) -> dict[str, Any] | None:
            row = await _known(tx.rows, session_id)
            return None if row is None else await entity(tx.rows, row, Depth())

        return await self._store.view(unit)

    async def entities(self, wanted: Wanted) -> list[dict[str, Any]]:
        """What is known of many, each with its newest observations. TooLargeError if that is more
        than can be told at once.
        """
        found: list[dict[str, Any]] = []
        size = 0
        for row in await self._rows(wanted):
            one = await self._in_short(row)
            size += len(to_json(one))
            if size > LIST_BYTES_MAX:
                raise TooLargeError(
                    f"{len(found)} of them are {LIST_BYTES_MAX} bytes already",
                    limit=LIST_BYTES_MAX,
                    hint="ask for fewer with limit, or for one with session_id",
                )
            found.append(one)
        return found

    async def timeline(self, ref: str, window: Window) -> list[dict[str, Any]]:
        """What happened, in order: in a session, by its id or that of its entity, or in all that
        have to do with something, by an id that they have named.
        """
        if window.first_ms > window.last_ms or not is_text(ref):
            return []
        found: list[TimedEvent] = []
        left = EVENTS_BYTES_MAX
        for row in await self._store.view(lambda tx: _meant(tx.rows, ref)):
            # One after another: no long list shall pin the database.
            events, size = await self._events(row, window, left)
            found += events
            left -= size
            if len(found) > EVENTS_MAX:
                raise too_many()
        found.sort(key=lambda each: each[0])
        return [shown for _, shown in found]

    async def checkpoint(self, session_id: str, name: str) -> dict[str, Any]:
        """The latest checkpoint of that name: of the newest record that has one, the latest.
        NotFoundError.
        """

        async def unit(tx: ReadTransaction) -> dict[str, Any]:
            row = await find(tx, session_id, "restore_checkpoint")
            async for record in records_of(
                tx.rows, row, "checkpoint", "observation", is_latest_first=True
            ):
                named = [each for each in checkpoints_in(record) if each["name"] == name]
                if named:
                    last = max(enumerate(named), key=lambda each: (_at(each[1]), each[0]))[1]
                    return {
                        "session_id": session_id,
                        "name": name,
                        "timestamp": last.get("timestamp"),
                        "state": last.get("state"),
                    }
            raise NotFoundError(
                f"session {session_id!a} has no checkpoint {ascii(name)[:200]}",
                operation="restore_checkpoint",
                hint="query_entity_timeline tells all checkpoints of a session",
            )

        return await self._store.view(unit)

    async def sessions(self, wanted: Wanted) -> list[dict[str, Any]]:
        """Sessions in short."""
        found = await self._rows(wanted)

        async def unit(tx: ReadTransaction) -> list[dict[str, Any]]:
            return [await _short(tx, row) for row in found]

        return await self._store.view(unit)

    async def page(self, limit: int, before: int | None) -> tuple[list[dict[str, Any]], int | None]:
        """All sessions, newest first, a page at a time; and where the next page begins."""

        async def unit(tx: ReadTransaction) -> tuple[list[dict[str, Any]], int | None]:
            found = await tx.rows.fetch(
                f"SELECT {rows.COLUMNS} FROM journal j WHERE j.id < ? ORDER BY j.id DESC LIMIT ?",
                (1 << 62 if before is None else before, limit + 1),
            )
            shown = [rows.unpack(row) for row in found[:limit]]
            more = shown[-1].id if len(found) > limit else None
            return [await _short(tx, row) for row in shown], more

        return await self._store.view(unit)

    async def short(self, session_id: str) -> dict[str, Any]:
        """One session in short. NotFoundError."""

        async def unit(tx: ReadTransaction) -> dict[str, Any]:
            return await _short(tx, await find(tx, session_id, "read_session"))

        return await self._store.view(unit)

    async def messages(
        self, session_id: str, *, before_seq: int | None, chars_max: int
    ) -> list[Said]:
        """The newest messages before a seq: as many as fill a budget, and one. NotFoundError."""

        async def unit(tx: ReadTransaction) -> list[Said]:
            row = await find(tx, session_id, "read_session")
            return await newest(tx.rows, row, before_seq=before_seq, chars_max=chars_max)

        return await self._store.view(unit)

    def _in_short(self, row: JournalRow) -> Awaitable[dict[str, Any]]:
        return self._store.view(lambda tx: entity(tx.rows, row, SHALLOW))

    def _events(
        self, row: JournalRow, window: Window, bytes_max: int
    ) -> Awaitable[tuple[list[TimedEvent], int]]:
        return self._store.view(lambda tx: events_of(tx.rows, row, window, bytes_max))

    async def _rows(self, wanted: Wanted) -> list[JournalRow]:
        if not 1 <= wanted.limit <= ROWS_MAX:
            raise InvalidArgumentError(f"limit must be 1 to {ROWS_MAX}, not {wanted.limit}")
        if wanted.agent_name is not None and not is_text(wanted.agent_name):
            return []
        sql, params = query_of(wanted)

        async def unit(tx: ReadTransaction) -> list[JournalRow]:
            return [rows.unpack(row) for row in await tx.rows.fetch(sql, params)]

        return await self._store.view(unit)


def query_of(wanted: Wanted) -> tuple[LiteralString, tuple[str | int, ...]]:
    """The query of a list: one scan of an index in its order, until the page is full."""
    column = _COLUMNS[wanted.order_by]
    order: LiteralString = "ASC" if wanted.order == "asc" else "DESC"
    sql: LiteralString = f"SELECT {rows.COLUMNS} FROM journal j WHERE 1 = 1"
    params: list[str | int] = []
    # The plus keeps to that index.
    if wanted.status is not None:
        sql += " AND +j.status = ?"
        params.append(wanted.status)
    if wanted.agent_name is not None:
        sql += " AND +j.agent_name = ?"
        params.append(wanted.agent_name)
    sql += f" ORDER BY {column} {order}, j.id {order} LIMIT ?"
    return sql, (*params, wanted.limit)


async def _known(tx: ReadTx, session_id: str) -> JournalRow | None:
    return await rows.find(tx, session_id) if is_text(session_id) else None


async def _meant(tx: ReadTx, ref: str) -> list[JournalRow]:
    """The sessions that an id means, in the order in which they began."""
    found = await rows.find_related(tx, ref, SESSIONS_MAX + 1)
    if len(found) > SESSIONS_MAX:
        raise TooLargeError(f"more than {SESSIONS_MAX} sessions have it", limit=SESSIONS_MAX)
    own = await rows.find(tx, ref)
    by_id = {row.id: row for row in found} | ({own.id: own} if own else {})
    return [by_id[key] for key in sorted(by_id)]


def _at(checkpoint: Mapping[str, Any]) -> int:
    try:
        return parse(str(checkpoint.get("timestamp")))
    except InvalidArgumentError:
        return 0


async def _short(tx: ReadTransaction, row: JournalRow) -> dict[str, Any]:
    """A session in one row; what is not known of it is left out."""
    found = await info(tx, row)
    shown = {
        "session_id": row.session_id,
        "entity_id": entity_id(row.session_id),
        "status": row.status,
        "phase": row.phase,
        "origin": row.origin,
        "agent_name": row.agent_name,
        "title": row.title,
        "purpose": row.purpose,
        "started_at": iso(row.started_ms),
        "updated_at": iso(found.updated_ms),
        "ended_at": None if row.ended_ms is None else iso(row.ended_ms),
        "summary": row.summary,
        "zone": found.zone or None,
        "messages": row.messages,
        "observations": row.observations,
    }
    return {name: value for name, value in shown.items() if value is not None}
