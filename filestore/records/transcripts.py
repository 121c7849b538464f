"""Transcripts in the store: conversations kept as messages of a session, row by row.

A transcript is started by one record and is then the session's messages, whichever surface they
came by: rows that were appended here as they came, messages of other surfaces as rows of the same
form. What a row may be, turns and the export are filestore.transcript, which knows no store.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast
from uuid import uuid4

from filestore.engine.base import ReadTx
from filestore.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptionError,
    InvalidArgumentError,
    NotFoundError,
)
from filestore.journal import rows
from filestore.journal import writing as journal
from filestore.journal.model import JournalRow, Record, SessionInfo
from filestore.reading import ReadTransaction
from filestore.records.info import find, info
from filestore.records.messages import message_of, refuse_missing
from filestore.records.records import definition_of
from filestore.sessions.names import check_definition_id
from filestore.store import ROWS_BYTES, FileStore
from filestore.times import iso
from filestore.transaction import Transaction
from filestore.transcript import (
    Row,
    Said,
    Transcript,
    check_new_message,
    check_row,
    check_start,
    check_turn_limit,
    export,
    numbered,
    resume,
    row_of_message,
    workflow_id,
)

RECORDS_PER_STEP = 500
UNKNOWN_SLUG = "agent"


class Loaded(NamedTuple):
    """A transcript as of one moment. `start` is None for a session that never started one."""

    session: SessionInfo
    start: dict[str, Any] | None
    rows: list[Row]


class Transcripts:
    """The transcripts of a store. `turns_max`: messages of the user that one takes, 0 as usual."""

    def __init__(
        self,
        store: FileStore,
        *,
        turns_max: int = 0,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self._store = store
        self._turns_max = turns_max
        self._new_id = new_id

    async def start(
        self, session_id: str, given: object, *, call_id: str | None = None
    ) -> SessionInfo:
        """Start a transcript, and the session if there is none. ConflictError if it was started
        (but for a repeat of this very call), or the session has ended; SecretRefusedError,
        InvalidFieldError.
        """
        start = check_start(given)
        body: dict[str, Any] = {"transcript": given}
        if start.title is not None:
            body["title"] = start.title
        new_id = journal.check_id(session_id)
        definition_id = check_definition_id(definition_of(new_id))

        async def unit(tx: Transaction) -> SessionInfo:
            row = await rows.find(tx.rows, new_id)
            if row is None:
                about = {"agent_name": start.agent_slug}
                row = await journal.begin(tx.rows, new_id, definition_id, "transcript", about)
            if row.transcript_seq is not None:
                (first,) = await rows.load_records(tx.rows, row.id, row.transcript_seq, 1)
                if call_id is None or first.ref != call_id:
                    raise ConflictError("the transcript was started already", status=row.status)
                return await info(tx, row)
            row, _ = await journal.add(tx.rows, row, "meta", body, ref=call_id)
            return await info(tx, row)

        return await self._store.transact(unit, cost_bytes=ROWS_BYTES)

    async def append(self, session_id: str, given: object) -> Row:
        """Append a message; its id and number are given to it if it has none. Durable on return.

        ConflictError for a number that is not the next, TurnLimitError past the cap. A message with
        an id that is there is answered as the first time if it is the same.
        """
        message = check_new_message(given, session_id)

        async def unit(tx: Transaction) -> Row:
            row = await _started(tx, session_id, "append")
            if "id" in message:
                before = await rows.find_records(tx.rows, row.id, message["id"], "message")
                if before:
                    return _repeated(session_id, before, cast("dict[str, Any]", message))
            if row.is_final:
                raise journal.final(row)
            if message["role"] == "user":
                check_turn_limit(row.user_messages, self._turns_max)
            number = _number(row, message.get("sequenceNumber"))
            whole = numbered(message, self._new_id(), number)
            kept = {name: value for name, value in whole.items() if name not in _DERIVED}
            await journal.add(tx.rows, row, "message", kept | {"number": number}, ref=whole["id"])
            return whole

        return await self._store.transact(unit, cost_bytes=ROWS_BYTES)

    async def load(self, session_id: str) -> Loaded:
        """A transcript with all its rows, in one consistent read. NotFoundError."""
        return await self._store.view(lambda tx: _load(tx, session_id, must_be_started=True))

    async def resume(self, session_id: str) -> list[Said]:
        """What an agent is told that goes on with the conversation: completed turns only."""
        return resume((await self.load(session_id)).rows)

    async def export(self, session_id: str) -> tuple[str, bytes]:
        """A session as a workflow: its name, and the document. Changes nothing."""
        found = await self._store.view(lambda tx: _load(tx, session_id, must_be_started=False))
        session, start = found.session, found.start or {}
        slug = start.get("agentSlug") or _slug(session.agent_name)
        title = start.get("title") or session.title
        document = export(
            Transcript(
                session.id,
                slug,
                title,
                iso(session.created_ms),
                iso(session.updated_ms),
                start.get("agentSnapshot"),
                found.rows,
            )
        )
        return workflow_id(title), document


_DERIVED = frozenset(("sessionId", "sequenceNumber"))


async def _started(tx: ReadTransaction, session_id: str, operation: str) -> JournalRow:
    row = await find(tx, session_id, operation)
    if row.transcript_seq is None:
        raise NotFoundError(
            "the session has no transcript", operation=operation, hint="start one first"
        )
    return row


async def _load(tx: ReadTransaction, session_id: str, *, must_be_started: bool) -> Loaded:
    row = await (_started if must_be_started else find)(tx, session_id, "transcript")
    start = None
    if row.transcript_seq is not None:
        (record,) = await rows.load_records(tx.rows, row.id, row.transcript_seq, 1)
        start = record.body["transcript"]
    return Loaded(await info(tx, row), start, await load_rows(tx.rows, row))


async def load_rows(tx: ReadTx, row: JournalRow) -> list[Row]:
    """All messages of a session as rows of a transcript, in order."""
    chunks: dict[str, list[Record]] = {}
    numbers: dict[str, int] = {}
    seq = number = 0
    while found := await rows.load_kind(tx, row, seq, RECORDS_PER_STEP, "message"):
        for record in found:
            key = record.body["id"]
            if not record.body.get("is_chunk"):
                numbers[key] = record.body.get("number", number)
                number = numbers[key] + 1
            chunks.setdefault(key, []).append(record)
        seq = found[-1].seq + 1
    for found in chunks.values():
        refuse_missing(row.session_id, found)
    return [row_of(row.session_id, chunks[key], numbers[key]) for key in chunks]


def row_of(session_id: str, chunks: list[Record], number: int) -> Row:
    """The row that the records of one message are. CorruptionError if it may not be one."""
    body = chunks[-1].body
    if isinstance(body["content"], list):
        fields = {name: value for name, value in body.items() if name != "number"}
        try:
            return check_row(fields | {"sessionId": session_id, "sequenceNumber": number})
        except InvalidArgumentError as error:
            message = f"row {number} of session {session_id!a} is damaged: {error.message}"
            raise CorruptionError(message) from error
    told = message_of(session_id, chunks)
    shown: dict[str, object] = {
        "id": told.id,
        "sessionId": session_id,
        "role": told.role,
        "content": told.content,
        "timestamp": iso(told.at_ms),
    }
    return row_of_message(shown, number)


def _number(row: JournalRow, wanted: int | None) -> int:
    """The number of the next row. The first one may be 1 as well as 0."""
    if wanted is None or wanted == row.messages or (wanted == 1 and not row.messages):
        return row.messages if wanted is None else wanted
    raise ConflictError(
        f"the next sequenceNumber is {row.messages}, not {wanted}",
        status=row.status,
        hint="leave it out, and it is assigned",
    )


def _repeated(session_id: str, before: list[Record], message: dict[str, Any]) -> Row:
    found = row_of(session_id, before, before[-1].body.get("number", 0))
    if any(found.get(name) != value for name, value in message.items()):
        raise AlreadyExistsError(f"message {message['id']!a} exists already")
    return found


def _slug(name: str | None) -> str:
    """A slug for a session that was begun without one."""
    return workflow_id(name) if name and workflow_id(name) != workflow_id(None) else UNKNOWN_SLUG
