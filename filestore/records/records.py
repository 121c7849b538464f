"""Records: what REST, commands, hooks and MCP do with sessions. The face of this package.

Every change is one transaction: what it does to repos, zones and the session's row, together with
its record. Calls that may be repeated after a lost answer carry `call_id`: a name for the call,
kept with its record, by which a repeat is recognised and answered as the first time.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from filestore.clock import Clock, system_clock
from filestore.engine.base import Tx
from filestore.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidArgumentError,
    LimitReachedError,
)
from filestore.journal import rows
from filestore.journal import writing as journal
from filestore.journal.model import (
    OPEN_PHASES,
    OUTCOMES,
    JournalRow,
    Origin,
    Outcome,
    Record,
    RecordKind,
    SessionInfo,
)
from filestore.reading import ReadTransaction
from filestore.records import lists, repos, upkeep
from filestore.records.follow import Followers
from filestore.records.info import find, info
from filestore.records.lists import Filter, SessionPage
from filestore.records.messages import (
    ROLES,
    Message,
    check_content,
    is_message_id,
    load_chunks,
    load_messages,
    message_of,
    take_partial,
)
from filestore.records.repos import Repo
from filestore.sessions.names import check_definition_id, is_definition_id
from filestore.store import ROWS_BYTES, FileStore, T, Unit
from filestore.transaction import Transaction

LIMIT_RETRY_MS = 60_000
RECORDS_PER_PAGE = 1000


class NewSession(NamedTuple):
    """What a session begins with. No `id`: a new UUID. No `definition_id`: one made of the id."""

    origin: Origin
    id: str | None = None
    definition_id: str | None = None
    agent_name: str | None = None
    purpose: str | None = None
    title: str | None = None
    repo_id: str | None = None
    context: Any = None
    metadata: Mapping[str, Any] = {}


class Records:
    """The sessions of a store by their records. Belongs to the store's event loop.

    `turns_max`: so many messages of the user does a session with a transcript take; 0: as usual.
    """

    def __init__(
        self,
        store: FileStore,
        *,
        clock: Clock = system_clock,
        new_id: Callable[[], str] = lambda: str(uuid4()),
        turns_max: int = 0,
    ) -> None:
        self._store = store
        self._clock = clock
        self._new_id = new_id
        self._turns_max = turns_max
        self._followers = Followers(store)

    # -- sessions

    async def create(
        self, new: NewSession, *, active_max: int | None = None, call_id: str | None = None
    ) -> SessionInfo:
        """Begin a session. Durable on return, like every change here.

        AlreadyExistsError if there is one of that id (but for a repeat of this very call),
        NotFoundError without that repo, LimitReachedError when `active_max` sessions with a repo
        are active.
        """
        session_id = journal.check_id(new.id) if new.id is not None else self._new_id()
        definition_id = new.definition_id
        if definition_id is None:
            definition_id = definition_of(session_id)
        body = {
            "agent_name": new.agent_name,
            "purpose": new.purpose,
            "title": new.title,
            "repo_id": new.repo_id,
            "context": new.context,
            "metadata": dict(new.metadata) or None,
        }
        _check_call(call_id)
        wanted = check_definition_id(definition_id)

        async def unit(tx: Transaction) -> SessionInfo:
            before = await rows.find(tx.rows, session_id)
            if before is not None:
                await _refuse_unless_repeat(tx.rows, before, call_id)
                return await info(tx, before)
            if new.repo_id is not None:
                await repos.find_repo(tx.rows, new.repo_id, "create")
                await _refuse_above(tx.rows, active_max)
            row = await journal.begin(tx.rows, session_id, wanted, new.origin, body, ref=call_id)
            return await info(tx, row)

        return await self._store.transact(unit, cost_bytes=ROWS_BYTES)

    async def get(self, session_id: str) -> SessionInfo:
        """A session. NotFoundError."""

        async def unit(tx: ReadTransaction) -> SessionInfo:
            return await info(tx, await find(tx, session_id, "get"))

        return await self._store.view(unit)

    async def view(self, unit: Unit[ReadTransaction, T]) -> T:
        """Run a unit that looks at sessions, on one committed state."""
        return await self._store.view(unit)

    async def page(self, wanted: Filter, *, limit: int = 20, offset: int = 0) -> SessionPage:
        """Sessions, newest created first, and how many there are."""
        return await self._store.view(lambda tx: lists.list_sessions(tx, wanted, limit, offset))

    async def recent(
        self, limit: int, *, agent_name: str | None = None, active_only: bool = False
    ) -> list[SessionInfo]:
        """Sessions by last activity, the latest first."""
        return await self._store.view(
            lambda tx: lists.recent(tx, limit, agent_name=agent_name, active_only=active_only)
        )

    async def update(
        self,
        session_id: str,
        *,
        phase: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        error: str | None = None,
        call_id: str | None = None,
    ) -> SessionInfo:
        """Change the phase, merge metadata one level deep, count an error; what is given, all in
        one. ConflictError when the session has ended.
        """
        if phase is not None and phase not in OPEN_PHASES:
            hint = "finalise the session instead" if phase in OUTCOMES else ""
            raise InvalidArgumentError(
                f"the phase must be one of {', '.join(OPEN_PHASES)}, not {ascii(phase)[:80]}",
                operation="update",
                hint=hint,
            )

        async def unit(tx: Transaction) -> SessionInfo:
            row = await find(tx, session_id, "update")
            if await _is_repeat(tx.rows, row, call_id, "phase", "meta", "error"):
                return await info(tx, row)
            if row.is_final:
                raise journal.final(row)
            if phase is not None:
                step = {"from": row.phase, "to": phase}
                row, _ = await journal.add(tx.rows, row, "phase", step, ref=call_id)
            if metadata:
                more = {"metadata": dict(metadata)}
                row, _ = await journal.add(tx.rows, row, "meta", more, ref=call_id)
            if error is not None:
                row, _ = await journal.add(tx.rows, row, "error", {"message": error}, ref=call_id)
            return await info(tx, row)

        return await self._store.transact(unit, cost_bytes=ROWS_BYTES)

    async def finish(
        self,
        session_id: str,
        outcome: Outcome,
        *,
        summary: str | None = None,
        reason: str | None = None,
        error: str | None = None,
        say: Mapping[str, Any] | None = None,
        note: Mapping[str, Any] | None = None,
        call_id: str | None = None,
    ) -> SessionInfo:
        """End a session. ConflictError when it has ended (but for a repeat of this very call).

        Before the end, if given: an `error` that is counted, a system message with the content
        `say`, a `note`.
        """

        async def unit(tx: Transaction) -> SessionInfo:
            row = await find(tx, session_id, "finish")
            if await _is_repeat(tx.rows, row, call_id, "end"):
                return await info(tx, row)
            if row.is_final:
                raise journal.final(row)
            if error is not None:
                row, _ = await journal.add(tx.rows, row, "error", {"message": error})
            if say is not None:
                row, _ = await _add_message(tx.rows, row, self._new_id(), "system", dict(say))
            if note is not None:
                row, _ = await journal.add(tx.rows, row, "note", dict(note))
            row = await journal.end(
                tx.rows, row, outcome, summary=summary, reason=reason, ref=call_id
            )
            return await info(tx, row)

        return await self._store.transact(unit, cost_bytes=ROWS_BYTES)

    async def add_record(
        self, session_id: str, kind: RecordKind, body: Mapping[str, Any], *, ref: str | None = None
    ) -> Record:
        """Add a checkpoint, an observation or a note. ConflictError when the session has ended,
        unless it is an observation.
        """
        assert kind in ("checkpoint", "observation", "note"), kind

        async def unit(tx: Transaction) -> Record:
            row = await find(tx, session_id, "add_record")
            return (await journal.add(tx.rows, row, kind, dict(body), ref=ref))[1]

        return await self._store.transact(unit, cost_bytes=ROWS_BYTES)

    async def records(
        self,
        session_id: str,
        *,
        after_seq: int = -1,
        limit: int = RECORDS_PER_PAGE,
        kind: RecordKind | None = None,
    ) -> list[Record]:
        """Records of a session in order, after a seq; of one kind, if given."""

        async def unit(tx: ReadTransaction) -> list[Record]:
            row = await find(tx, session_id, "records")
            if kind is not None:
                return await rows.load_kind(tx.rows, row, after_seq + 1, limit, kind)
            return await rows.load_records(tx.rows, row.id, after_seq + 1, limit, upto=row.records)

        return await self._store.view(unit)

    def follow(self, session_id: str, *, after_seq: int = -1) -> AsyncGenerator[list[Record], None]:
        """Records after a seq, in order, each once, those to come too. NotFoundError when there is
        no such session, or no more. Ends with the store.
        """
        return self._followers.follow(session_id, after_seq)

    def followers(self, session_id: str) -> int:
        """How many follow a session now."""
        return self._followers.count(session_id)

    # -- messages

    async def prompt(self, session_id: str, text: str) -> Message:
        """Add a message of the user that wants an answer. ConflictError when the session has ended,
        or while a prompt is unanswered.
        """

        async def unit(tx: Transaction) -> Message:
            row = await find(tx, session_id, "prompt")
            if row.is_final:
                raise journal.final(row)
            if row.is_busy:
                raise ConflictError(
                    "a prompt is unanswered", status=row.status, hint="wait for its answer"
                )
            self._refuse_past_cap(row)
            content = {"type": "text", "text": text}
            _, record = await _add_message(
                tx.rows, row, self._new_id(), "user", content, is_prompt=True
            )
            return message_of(session_id, [record])

        return await self._store.transact(unit, cost_bytes=len(text) + ROWS_BYTES)

    async def add_message(
        self,
        session_id: str,
        role: str,
        content: object,
        *,
        partial: bool = False,
        message_id: str | None = None,
    ) -> Message:
        """Add a message, or a chunk of an answer: chunks have the same `message_id`, and all but
        the last are `partial`. The answer to one that is not the last is that chunk alone. The
        answer to a repeated last chunk is that of the first time.
        """
        if role not in ROLES:
            raise InvalidArgumentError(f"role must be one of {', '.join(ROLES)}")
        if partial and role != "agent":
            raise InvalidArgumentError("only an agent's message comes in chunks")
        given = dict(check_content(content))
        if role == "agent":
            partial = take_partial(given) or partial
        if message_id is not None and not is_message_id(message_id):
            raise InvalidArgumentError("messageId must have 1 to 128 printable characters")

        async def unit(tx: Transaction) -> Message:
            row = await find(tx, session_id, "add_message")
            last: Record | None = None
            if message_id is not None:
                last = await rows.find_last(tx.rows, row.id, message_id, "message")
                if last is not None and not last.body.get("partial"):
                    chunks = await load_chunks(tx.rows, row, message_id)
                    return _repeated(session_id, chunks, role, given)
            if row.is_final:
                raise journal.final(row)
            if last is not None and last.body["role"] != role:
                raise InvalidArgumentError(f"that message is the {last.body['role']}'s")
            if role == "user":
                self._refuse_past_cap(row)
            _, record = await _add_message(
                tx.rows,
                row,
                message_id or self._new_id(),
                role,
                given,
                partial=partial,
                part=0 if last is None else last.body.get("part", 0) + 1,
            )
            if last is not None and not partial:
                chunks = await load_chunks(tx.rows, row, record.body["id"], record.seq)
                return message_of(session_id, chunks)
            return message_of(session_id, [record])

        return await self._store.transact(unit, cost_bytes=ROWS_BYTES)

    async def messages(
        self,
        session_id: str,
        *,
        after_seq: int = -1,
        after_ms: int | None = None,
        limit: int | None = None,
    ) -> list[Message]:
        """Messages in order, the chunks of one as one; those after a seq, or after a time."""

        async def unit(tx: ReadTransaction) -> list[Message]:
            row = await find(tx, session_id, "messages")
            return await load_messages(
                tx.rows, row, after_seq=after_seq, after_ms=after_ms, limit=limit
            )

        return await self._store.view(unit)

    # -- repos

    async def add_repo(self, path: str, name: str | None, root: Path | None) -> Repo:
        """Make a folder inside `root` a repo. ForbiddenError, AlreadyExistsError."""
        real = await asyncio.to_thread(repos.confined, path, root)
        repo = Repo(self._new_id(), real, name or Path(real).name, self._clock())
        return await self._store.transact(
            lambda tx: repos.add_repo(tx.rows, repo), cost_bytes=ROWS_BYTES
        )

    async def repo(self, repo_id: str) -> Repo:
        """A repo. NotFoundError."""
        return await self._store.view(lambda tx: repos.find_repo(tx.rows, repo_id, "repo"))

    async def check_repo(self, repo_id: str, root: Path | None) -> Repo:
        """A repo, if its folder is still inside `root`. NotFoundError, ForbiddenError."""
        repo = await self.repo(repo_id)
        await asyncio.to_thread(repos.confined, repo.path, root)
        return repo

    async def list_repos(self) -> list[Repo]:
        """All repos, by name."""
        return await self._store.view(lambda tx: repos.load_repos(tx.rows))

    async def delete_repo(self, repo_id: str) -> None:
        """Forget a repo; its folder stays. NotFoundError, ConflictError while sessions have it."""
        await self._store.transact(lambda tx: repos.remove_repo(tx.rows, repo_id))

    # -- upkeep

    async def recover(self) -> int:
        """After a start: tell sessions whose prompt had no answer yet that it will not come from
        before. Returns how many there were.
        """
        return await upkeep.recover(self._store, self._new_id)

    async def sweep(self, idle_ms: int) -> list[str]:
        """End sessions with a repo in which nothing has happened for `idle_ms`. Their ids."""
        return await upkeep.sweep(self._store, self._clock() - idle_ms)

    async def cleanup(
        self, before_ms: int, *, force: bool = False, dry_run: bool = False
    ) -> list[str]:
        """Delete sessions begun by the command line that were last active before a time, with all
        that belongs to them; resumable ones only by `force`. Returns their ids.
        """
        return await upkeep.cleanup(self._store, before_ms, force=force, dry_run=dry_run)

    def _refuse_past_cap(self, row: JournalRow) -> None:
        """Raise TurnLimitError if a transcript has had all the messages of the user it takes."""
        if row.transcript_seq is not None:
            # Not at the top: hooks must not wait for its import.
            from filestore.transcript.turns import check_turn_limit

            check_turn_limit(row.user_messages, self._turns_max)


async def _add_message(
    tx: Tx,
    row: JournalRow,
    message_id: str,
    role: str,
    content: dict[str, Any],
    *,
    part: int = 0,
    **marks: bool,
) -> tuple[JournalRow, Record]:
    """Add the record of a message, or of one more chunk of it, `part`; `marks` are those of the
    spec, left out where not so.
    """
    body: dict[str, Any] = {"id": message_id, "role": role, "content": content}
    if part:
        body |= {"is_chunk": True, "part": part}
    told = {name: True for name, is_so in marks.items() if is_so}
    return await journal.add(tx, row, "message", body | told, ref=message_id)


def definition_of(session_id: str) -> str:
    """The definition of a session that no surface has named one for."""
    if is_definition_id(session_id):
        return session_id
    return "x-" + hashlib.sha256(session_id.encode()).hexdigest()[:32]


def _check_call(call_id: str | None) -> None:
    if call_id is not None:
        journal.check_ref(call_id)


async def _is_repeat(tx: Tx, row: JournalRow, call_id: str | None, *kinds: RecordKind) -> bool:
    """True if a call of that name has left a record of one of these kinds: others have names of
    their own, and a caller may choose the same.
    """
    _check_call(call_id)
    return call_id is not None and await rows.last_seq(tx, row.id, call_id, *kinds) >= 0


async def _refuse_unless_repeat(tx: Tx, row: JournalRow, call_id: str | None) -> None:
    if not await _is_repeat(tx, row, call_id, "open"):
        raise AlreadyExistsError(f"session {row.session_id!a} exists already", operation="create")


async def _refuse_above(tx: Tx, active_max: int | None) -> None:
    if active_max is None:
        return
    active = await rows.tally(tx, "repos", "", "active")
    if active >= active_max:
        raise LimitReachedError(
            f"{active} sessions are active, and there may be {active_max}",
            limit=active_max,
            retry_after_ms=LIMIT_RETRY_MS,
            operation="create",
            hint="end one of them, or try again later",
        )


def _repeated(
    session_id: str, chunks: list[Record], role: str, content: Mapping[str, Any]
) -> Message:
    """The answer to a message that is complete already; AlreadyExistsError if this is another."""
    last = chunks[-1].body
    if last["role"] != role or last["content"] != content:
        raise AlreadyExistsError(f"message {last['id']!a} exists already")
    return message_of(session_id, chunks)
