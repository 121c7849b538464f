"""Sessions: what panes and stream readers do, on a FileStore. The public face of this package.

Every change is one transaction of the store (units.py). What is slow, looking into a snapshot, is
done before, off the event loop when the snapshot is large; above SUMMARISE_BYTES_MAX it is left to
a background task that does it at most once a second, and is always done before an archive.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from filestore.appending import append_lines_at_once
from filestore.arguments import join_lines
from filestore.clock import Clock, system_clock
from filestore.engine.base import Tx
from filestore.errors import InvalidArgumentError, StoreError, VersionConflictError
from filestore.model import FileInfo
from filestore.reading import ReadTransaction
from filestore.sessions import rows, units
from filestore.sessions.looking import load_agents, page_rows
from filestore.sessions.model import (
    AgentInfo,
    Archived,
    ArchiveInfo,
    OutputAppended,
    OutputPage,
    Restored,
    SessionState,
    StateWritten,
)
from filestore.sessions.names import (
    AFTER_ALL_MS,
    OUTPUT,
    STATE,
    check_definition_id,
    check_guard_id,
    check_session_id,
    current_zone,
    missing,
    parse_archive,
    parse_session,
    zone_of,
)
from filestore.sessions.output import check_guard, find_repeat, holds_at_once
from filestore.sessions.preview import Summary, snapshot_bytes, summarise
from filestore.sessions.rows import SessionRow
from filestore.sessions.subscription import EVENTS_MAX, Hub, Subscription
from filestore.sessions.units import Looked, StaleSummaryError
from filestore.store import ROWS_BYTES, FileStore, T
from filestore.transaction import Transaction

if TYPE_CHECKING:
    from filestore.sessions.replays import Replays

SUMMARISE_BYTES_MAX = 256 << 10
INLINE_BYTES_MAX = 16 << 10
REFRESH_S = 1.0
OUTPUT_LINES_MAX = 10_000
OUTPUT_BYTES_MAX = 8 << 20
STREAMS_KNOWN_MAX = 100_000
TOUCH_MS = 60_000
"""So old may the time be by which sessions are listed, while their files change."""
LOOKS_MAX = 8

log = logging.getLogger("zoned.sessions")


class Sessions:
    """The sessions in a store. Belongs to the store's event loop; close it before the store.

    `new_id` makes ids of sessions, on any thread. `events_max`: so many changes wait for a
    subscriber before it is told of a gap. `clock` dates the snapshots that `replays` rebuilds.
    """

    def __init__(
        self,
        store: FileStore,
        *,
        new_id: Callable[[], str] = lambda: str(uuid4()),
        events_max: int = EVENTS_MAX,
        clock: Clock = system_clock,
    ) -> None:
        self._store = store
        self._new_id = new_id
        self._events_max = events_max
        self._hub = Hub(store)
        self._streams: dict[str, str] = {}
        self._at_start: dict[int, int] = {}
        """Lines that a stream had before the first append since this was made, by zone id. Changed
        by units only, so by the writer thread."""
        self._touched: dict[int, int] = {}
        """When a session was last noted as changed, by zone id. Changed by units only."""
        self._stale: set[str] = set()
        """Definitions whose large snapshot has not been looked into yet."""
        self._refreshing: asyncio.Task[None] | None = None
        self._clock = clock
        self._replays: Replays | None = None

    async def close(self) -> None:
        """End the background work. What it left undone is done before an archive."""
        self.stop_replays()
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait([self._refreshing])
            self._refreshing = None

    @property
    def replays(self) -> "Replays":
        """Replay on these sessions."""
        if self._replays is None:
            # Not at the top: a command that only lists must not wait for its import.
            from filestore.sessions.replays import Replays

            self._replays = Replays(self._store, self._new_id, self._clock, self._lines_at_start)
        return self._replays

    def stop_replays(self) -> None:
        """End replays that are under way: they may take long, and nobody loses by it."""
        if self._replays is not None:
            self._replays.stop()

    async def __aenter__(self) -> "Sessions":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- the current session

    async def read_state(self, definition_id: str) -> SessionState:
        """The current session; no snapshot and no session are no errors."""
        zone = current_zone(check_definition_id(definition_id))
        state, row = await self._store.view(lambda tx: self._read(tx, zone))
        if row is None or row.state_version == state.version:
            return state
        # Not looked into yet, perhaps because the daemon was killed: then this is the one who asks
        # what it has missed.
        self._refresh_soon(definition_id)
        row = row._replace(covered=(await self._summarise(state.content or b"")).covered)
        return replace(state, recovered=self._recovered(row, state.output_lines))

    async def write_state(
        self,
        definition_id: str,
        content: str | bytes,
        *,
        if_version: int | None = None,
        session_id: str | None = None,
    ) -> StateWritten:
        """Save the snapshot. Durable on return; equal bytes change nothing.

        Raises VersionConflictError if `session_id` is not the current session, or `if_version` not
        the snapshot's version. The latter not when it has these very bytes already: then the answer
        is `unchanged` with its version, so that a save whose answer was lost can be repeated.
        """
        zone = current_zone(check_definition_id(definition_id))
        data = snapshot_bytes(content)
        prepared = await self._store.prepare(data, like=(zone, STATE))
        is_small = len(data) <= SUMMARISE_BYTES_MAX
        summary = await self._summarise(data) if is_small else None
        new_id, looked = self._new_id(), self._looked({})

        async def write(tx: Transaction) -> FileInfo:
            try:
                return await tx.write(zone, STATE, prepared, if_version=if_version)
            except VersionConflictError as conflict:
                if await units.is_stored(tx, zone, prepared.digest):
                    return await tx.write(zone, STATE, prepared)
                conflict.session_id = await units.current_id(tx, definition_id)
                raise

        async def unit(tx: Transaction) -> StateWritten:
            await units.refuse_other_session(tx, definition_id, session_id)
            info = await write(tx)
            row = await units.ensure(tx, definition_id, new_id)
            if not info.unchanged and self._is_touch_due(row.zone_id, tx.rows.now_ms()):
                await self._touch(tx, row.zone_id, row.session_id)
            if summary is not None and row.state_version != info.version:
                await units.note_summary(tx, row, info.version, summary, looked)
            return StateWritten(
                prepared.size, info.version, info.modified_ms, row.session_id, info.unchanged
            )

        written = await self._store.transact(unit, cost_bytes=prepared.size)
        if not is_small and not written.unchanged:
            self._refresh_soon(definition_id)
        return written

    def append_output(
        self,
        definition_id: str,
        lines: str | bytes | Iterable[str | bytes],
        *,
        at_line: int | None = None,
        session_id: str | None = None,
    ) -> Awaitable[OutputAppended]:
        """Add one line or several to the stream. Durable when the result is there, all or nothing.

        Queued by the call itself: appends land in the order of their calls, and what refuses one
        (a wrong argument, BusyError) is raised by the call. Text with line breaks in it is several
        lines; blank lines are dropped.

        Guards, so that it can be repeated: with `at_line`, only if the stream has so many lines; if
        these very lines stand there already, the answer is that of the first time, as `duplicate`.
        With `session_id`, only to that session; if it is finished, its lines are looked up there.
        Otherwise VersionConflictError.
        """
        zone = current_zone(check_definition_id(definition_id))
        given = (lines,) if isinstance(lines, (str, bytes)) else lines
        data, count = join_lines(given, self._store.limits)
        guard = None
        if at_line is not None or session_id is not None:
            guard = check_guard(at_line, session_id)
        key, starts, is_touch_due = (zone, OUTPUT), self._at_start, self._is_touch_due

        def at_once(tx: Tx) -> OutputAppended | None:
            head = tx.heads.get(key)
            if head is None or head.row.zone_id not in starts:
                return None
            if is_touch_due(head.row.zone_id, tx.now_ms()):
                return None
            if guard is not None and not holds_at_once(tx, zone, head, guard):
                return None
            done = append_lines_at_once(tx, key, data, count)
            if done is None:
                return None
            return OutputAppended(done.bytes_written, done.offset, done.first_line, count)

        async def unit(tx: Transaction) -> OutputAppended:
            heads = tx.rows.heads
            # A stream that was there before has had its session since its first line.
            is_known = key in heads
            if guard is not None:
                repeat = await find_repeat(tx, definition_id, data, count, guard)
                if repeat is not None:
                    return repeat
            offset, first_line, _, size, _ = await tx.append_kept_lines(zone, OUTPUT, data, count)
            if count:
                if not is_known:
                    await units.ensure(tx, definition_id, self._new_id())
                zone_id = heads[key].row.zone_id
                if zone_id not in starts:
                    self._note_start(zone_id, first_line)
                if is_touch_due(zone_id, tx.rows.now_ms()):
                    session_id = await units.current_id(tx, definition_id)
                    await self._touch(tx, zone_id, session_id)
            return OutputAppended(size, offset, first_line, count)

        return self._store.transact(unit, cost_bytes=len(data), shortcut=at_once)

    async def archive(
        self, definition_id: str, *, session_id: str | None = None
    ) -> Archived | None:
        """Finish the current session. None, and nothing changes, if it has no bytes.

        With `session_id`, only that one: if it is finished already, the answer is its archive, and
        nothing changes; if it is none of this definition's, VersionConflictError.
        """
        check_definition_id(definition_id)
        check_guard_id(session_id)
        new_id = self._new_id()
        return await self._with_summary(
            definition_id,
            lambda looked, tx: units.archive_session(tx, definition_id, looked, new_id, session_id),
        )

    # -- finished sessions

    async def list_archives(
        self, definition_id: str, limit: int = 0, *, before: int | None = None
    ) -> list[ArchiveInfo]:
        """Finished sessions, newest first; `before` is the time of the last one of a page."""
        check_definition_id(definition_id)
        count = page_rows(limit)
        before_ms = AFTER_ALL_MS if before is None else max(-1, min(before, AFTER_ALL_MS))
        return await self._store.view(
            lambda tx: rows.load_archives(tx.rows, definition_id, before_ms, count)
        )

    async def read_archive(self, zone: str) -> SessionState:
        """A finished session, as `read_state` gives the current one."""
        parse_archive(zone)

        async def unit(tx: ReadTransaction) -> SessionState:
            if await rows.load(tx.rows, zone) is None:
                raise missing(zone, "read_archive")
            return (await self._read(tx, zone))[0]

        return await self._store.view(unit)

    async def restore(self, zone: str) -> Restored:
        """Make a finished session the current one again; what was current is archived first."""
        definition_id, _ = parse_archive(zone)
        new_id = self._new_id()
        return await self._with_summary(
            definition_id, lambda looked, tx: units.restore(tx, zone, looked, new_id)
        )

    async def fork(
        self,
        place: str,
        to_definition_id: str,
        *,
        archive_first: bool = False,
        new_session_id: str | None = None,
    ) -> str:
        """Copy a session (an archive's zone, or a definition's current one). Returns the new id."""
        zone_of(place)
        to = check_definition_id(to_definition_id)
        first = self._new_id() if new_session_id is None else check_session_id(new_session_id)
        ids = (first, self._new_id())

        async def unit(looked: Looked, tx: Transaction) -> str:
            forked = await units.fork(
                tx, place, to, is_archiving=archive_first, looked=looked, ids=ids
            )
            start = self._at_start.get(forked.source_id)
            if start is not None:
                self._note_start(forked.zone_id, start)
            return forked.session_id

        return await self._with_summary(to, unit, cost_bytes=ROWS_BYTES)

    async def delete_archive(self, zone: str) -> bool:
        """Delete a finished session. False if there was none."""
        parse_archive(zone)
        return await self._store.transact(lambda tx: units.delete_archive(tx, zone))

    # -- looking

    async def list_agents(self, limit: int = 0, *, after: str = "") -> list[AgentInfo]:
        """Agents by definition id; `after` is the last one of a page."""
        count = page_rows(limit)
        if after != "":
            check_definition_id(after)

        found = await self._store.view(partial(load_agents, after=after, count=count))
        for agent, is_stale in found:
            if is_stale:
                self._refresh_soon(agent.definition_id)
        return [agent for agent, _ in found]

    async def read_output(
        self,
        place: str,
        *,
        from_line: int | None = None,
        tail: int | None = None,
        limit: int = OUTPUT_LINES_MAX,
    ) -> OutputPage:
        """A page of a stream: from a line on, or the last `tail` lines."""
        zone = zone_of(place)
        if from_line is not None and tail is not None:
            raise InvalidArgumentError("give from_line or tail, not both", operation="read_output")
        if limit < 0 or (tail or 0) < 0 or (from_line or 0) < 0:
            raise InvalidArgumentError("must not be negative", operation="read_output")
        count = min(limit, OUTPUT_LINES_MAX)

        async def unit(tx: ReadTransaction) -> OutputPage:
            info = await tx.stat(zone, OUTPUT)
            if info is None:
                if ":archive:" in zone and await tx.zone(zone) is None:
                    raise missing(zone, "read_output")
                return OutputPage([], 0, 0, 0)
            first = from_line or 0
            if tail is not None:
                first = max(0, info.lines - min(tail, count))
            page = await tx.read_lines(zone, OUTPUT, first, count, bytes_max=OUTPUT_BYTES_MAX)
            return OutputPage(page.lines, first, page.total, first + len(page.lines))

        return await self._store.view(unit)

    def subscribe(
        self, definition_id: str, *, since: int | None = None, events_max: int | None = None
    ) -> Subscription:
        """What happens to a definition's sessions, in order, after position `since` or from now.

        Begins with the call; end it with `close`. A `since` that is not known any more, and what a
        slow consumer misses (more than `events_max` waiting), is told as a gap. Raises ClosedError.
        """
        check_definition_id(definition_id)
        limit = self._events_max if events_max is None else events_max
        return self._hub.subscribe(definition_id, since, limit)

    # -- parts

    async def _read(self, tx: ReadTransaction, zone: str) -> tuple[SessionState, SessionRow | None]:
        """A session, and its row."""
        row = await rows.load(tx.rows, zone)
        state, output = await tx.stat(zone, STATE), await tx.stat(zone, OUTPUT)
        lines = output.lines if output else 0
        version = state.version if state else 0
        found = SessionState(
            await tx.read(zone, STATE) if state else None,
            state.modified_ms if state else None,
            version,
            row.session_id if row else await self._waiting_id(tx, zone),
            output.size if output else 0,
            lines,
            self._recovered(row, lines) if row and row.state_version == version else None,
        )
        return found, row

    async def _waiting_id(self, tx: ReadTransaction, zone: str) -> str:
        """The id of the session whose first file would be written here, empty if there is none."""
        found = parse_session(zone)
        assert found is not None, zone
        return await units.waiting_id(tx, found[0])

    def _note_start(self, zone_id: int, lines: int) -> None:
        """Remember how many lines a stream had, unless that is known; forget the oldest instead."""
        _remember(self._at_start, zone_id, self._at_start.get(zone_id, lines))

    def _is_touch_due(self, zone_id: int, now_ms: int) -> bool:
        return abs(now_ms - self._touched.get(zone_id, 0)) >= TOUCH_MS

    async def _touch(self, tx: Transaction, zone_id: int, session_id: str) -> None:
        """Note that a session's files change, once in a while."""
        _remember(self._touched, zone_id, tx.rows.now_ms())
        await units.touch(tx, session_id)

    def _recovered(self, row: SessionRow, lines: int) -> int | None:
        """Lines behind the snapshot's mark that were there at start; None where nobody knows."""
        if not row.covered:
            return None
        return max(0, self._lines_at_start(row.zone_id, lines) - row.covered)

    def _lines_at_start(self, zone_id: int, lines: int) -> int:
        """How many of a stream's lines were there at start."""
        return min(lines, self._at_start.get(zone_id, lines))

    async def _summarise(self, snapshot: bytes) -> Summary:
        if len(snapshot) <= INLINE_BYTES_MAX:
            return summarise(snapshot)
        return await asyncio.to_thread(summarise, snapshot)

    def _looked(self, snapshots: dict[int, Summary], *, is_last: bool = False) -> Looked:
        if len(self._streams) > STREAMS_KNOWN_MAX:
            self._streams.clear()
        return Looked(snapshots, self._streams, is_last)

    async def _with_summary(
        self,
        definition_id: str,
        unit: Callable[[Looked, Transaction], Coroutine[Any, Any, T]],
        cost_bytes: int = 0,
    ) -> T:
        """Run a unit that may archive the current session, with its snapshot looked into.

        A pane that saves again and again can outrun the look; then the unit looks itself.
        """
        snapshots: dict[int, Summary] = {}
        for number in range(LOOKS_MAX + 1):
            looked = self._looked(snapshots, is_last=number == LOOKS_MAX)
            try:
                return await self._store.transact(partial(unit, looked), cost_bytes=cost_bytes)
            except StaleSummaryError:
                snapshots |= await self._look(definition_id)
        raise AssertionError("a unit that looks itself does not ask for more")

    async def _look(self, definition_id: str) -> dict[int, Summary]:
        """Look into the snapshot as it is now."""
        zone = current_zone(definition_id)
        version, snapshot = await self._store.view(partial(units.read_snapshot, zone=zone))
        return {version: await self._summarise(snapshot)}

    # -- large snapshots

    def _refresh_soon(self, definition_id: str) -> None:
        self._stale.add(definition_id)
        if self._refreshing is None or self._refreshing.done():
            # Sessions come and go with calls, not in a block; `close` ends the task.
            self._refreshing = asyncio.create_task(self._refresh(), name="zoned-summaries")

    async def _refresh(self) -> None:
        """Look into large snapshots, all that were written in the last second at once."""
        while self._stale:
            await asyncio.sleep(REFRESH_S)
            stale, self._stale = self._stale, set()
            for definition_id in sorted(stale):
                try:
                    looked = self._looked(await self._look(definition_id))
                    await self._store.transact(
                        partial(units.refresh, definition_id=definition_id, looked=looked)
                    )
                except StoreError as error:
                    # Not lost: an archive looks again. The pane that saved has its own answer.
                    log.warning("no preview for %s yet: %s", definition_id, error)


def _remember(known: dict[int, int], zone_id: int, value: int) -> None:
    known[zone_id] = value
    while len(known) > STREAMS_KNOWN_MAX:
        del known[next(iter(known))]
