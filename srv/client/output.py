"""The stream of one agent, written line by line: for the process that reads an agent's output.

Lines go out in batches, one at a time, each with the place where it belongs: the session, and the
number of its first line (`at_line`). So a batch of which it is not known whether it was appended is
sent again as it was, and the daemon answers as the first time if it stands there already. Every
line is in the stream once and in order, whatever becomes of connection and daemon meanwhile.

The session may be archived while lines are under way. The daemon looks for them there; if they are
not there, they belong to the session that is current now.

One writer. Several, of this kind or another, lose nothing and double nothing as long as their lines
differ: one that finds its place taken goes on behind. But lines of another that are equal, and
stand just where a repeated batch belongs, are taken for its own.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from filestore.lines import is_blank
from filestore.sessions.model import ArchiveInfo, OutputAppended, SessionState
from srv.client.backoff import MAYBE_DONE, Backoff
from srv.client.caller import FOREVER, Repeat
from srv.errors import ZonedError

BUFFER_BYTES_MAX = 8 << 20
BATCH_BYTES_MAX = 1 << 20
BATCH_LINES_MAX = 1000
LINE_BYTES_MAX = 8 << 20
CLOSE_S_MAX = 10.0
LINE_COST_BYTES = 64
"""What a line takes in memory besides its bytes."""
ARCHIVES_SEARCHED = 20

Append = Callable[["Place", list[bytes], Repeat], Awaitable[OutputAppended]]


class Place(NamedTuple):
    """Where a batch belongs. No session id: before the first line of a session."""

    session_id: str
    at_line: int


class Stream(Protocol):
    """What a writer needs of its client."""

    async def read_session(
        self, definition_id: str, *, timeout_s: float | None = None
    ) -> SessionState: ...

    async def list_archives(
        self,
        definition_id: str,
        limit: int = 0,
        *,
        before: int | None = None,
        timeout_s: float | None = None,
    ) -> list[ArchiveInfo]: ...


class OutputWriter:
    """Appends lines to an agent's stream. Use it as `async with client.output(…) as writer`.

    `append` returns as soon as the line is taken, and waits while `buffer_bytes_max` bytes are
    not acknowledged: whoever reads the agent's output reads no faster than it is stored. At the end
    of the block all is acknowledged, or its error raised.

    An error that waiting does not cure (STORAGE_FULL, say) ends the writer: it is raised by every
    later call, and `unacknowledged` tells which lines are not known to be stored.
    """

    def __init__(
        self,
        stream: Stream,
        append: Append,
        definition_id: str,
        backoff: Backoff,
        *,
        buffer_bytes_max: int = BUFFER_BYTES_MAX,
        line_bytes_max: int = LINE_BYTES_MAX,
    ) -> None:
        self._stream = stream
        self._append = append
        self._definition_id = definition_id
        self._backoff = backoff
        self._buffer_bytes_max = buffer_bytes_max
        self._line_bytes_max = line_bytes_max
        self._lines: deque[bytes] = deque()
        """Not acknowledged yet; a batch under way is its beginning."""
        self._taken = 0
        """How many lines were taken, ever."""
        self._place: Place | None = None
        self._newest_ms = -1
        """The last archive that there was before the session whose id is not known yet."""
        self._is_unsure = False
        """The batch under way may have been appended to that session."""
        self._entry = asyncio.Lock()
        self._moved = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._sender: asyncio.Task[None] | None = None
        self._failure: ZonedError | None = None
        self.buffered_bytes = 0
        """Memory that lines which are not acknowledged take."""

    @property
    def unacknowledged(self) -> list[bytes]:
        """The lines that are not known to be stored, in order."""
        return list(self._lines)

    async def append(self, line: str | bytes) -> None:
        """Take a line, or text with line breaks, which is several. Blank lines are dropped.

        Waits while the buffer is full. Cancelled while it waits, nothing of it was taken. Raises
        TOO_LARGE for a line that the daemon would refuse; nothing of it was taken, others can be.
        """
        data = line.encode() if isinstance(line, str) else line
        parts = [part for part in data.split(b"\n") if not is_blank(part)]
        for part in parts:
            if len(part) > self._line_bytes_max:
                message = f"a line of {len(part)} bytes; at most {self._line_bytes_max} are taken"
                raise ZonedError("TOO_LARGE", message, limit=self._line_bytes_max)
        cost = sum(len(part) + LINE_COST_BYTES for part in parts)
        # In line: who came first is taken first, also if there is room for a smaller one.
        async with self._entry:
            await self._until(
                lambda: not self._lines or self.buffered_bytes + cost <= self._buffer_bytes_max
            )
            self._lines += parts
            self._taken += len(parts)
            self.buffered_bytes += cost
            self._move()

    async def flush(self, *, timeout_s: float | None = None) -> None:
        """Wait until all that was taken before is stored. By default for as long as it takes;
        else UNAVAILABLE, and it is still being tried.
        """
        goal = self._taken
        try:
            async with asyncio.timeout(timeout_s):
                await self._until(lambda: self._taken - len(self._lines) >= goal)
        except TimeoutError as error:
            message = f"{len(self._lines)} lines are not acknowledged after {timeout_s} s"
            raise ZonedError("UNAVAILABLE", message, daemon="silent") from error

    async def close(self, *, timeout_s: float = CLOSE_S_MAX) -> None:
        """Flush and end. Raises ZonedError if not all is known to be stored, and ends all the same.
        Safe to call twice.
        """
        if self._group is None:
            return
        try:
            await self.flush(timeout_s=timeout_s)
        finally:
            group, self._group = self._group, None
            assert self._sender is not None
            self._sender.cancel()
            await group.__aexit__(None, None, None)
            if self._failure is None:
                self._failure = ZonedError("UNAVAILABLE", "this writer is closed", daemon="closed")
            self._move()

    async def __aenter__(self) -> Self:
        self._group = await asyncio.TaskGroup().__aenter__()
        self._sender = self._group.create_task(self._send_all())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except ZonedError:
            if error is None:
                raise

    # -- waiting

    async def _until(self, is_so: Callable[[], bool]) -> None:
        assert self._sender is not None, "use it as `async with`"
        while self._failure is None and not is_so():
            await self._moved.wait()
        if self._failure is not None:
            raise self._failure

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    # -- sending

    async def _send_all(self) -> None:
        try:
            while True:
                while not self._lines:
                    await self._moved.wait()
                await self._send(self._batch())
        except ZonedError as error:
            self._failure = error
            self._move()

    def _batch(self) -> list[bytes]:
        batch: list[bytes] = []
        size = 0
        for line in islice(self._lines, BATCH_LINES_MAX):
            size += len(line)
            if batch and size > BATCH_BYTES_MAX:
                break
            batch.append(line)
        return batch

    async def _send(self, batch: list[bytes]) -> None:
        """Append a batch, wherever its place is by then."""
        done: OutputAppended | None = None
        self._is_unsure = False
        while done is None:
            if self._place is None:
                self._place = await self._locate()
            done = await self._try(self._place, batch)
        self._backoff.reset()
        assert self._place is not None
        is_new = not self._place.session_id
        # The daemon has given the session its id; the next batch asks for it.
        next_place = Place(self._place.session_id, done.first_line + done.lines)
        self._place = None if is_new else next_place
        for line in batch:
            self._lines.popleft()
            self.buffered_bytes -= len(line) + LINE_COST_BYTES
        self._move()

    async def _try(self, place: Place, batch: list[bytes]) -> OutputAppended | None:
        """Append a batch at its place. None: it certainly was not, and its place has changed."""
        try:
            # Without an id a repeat could come into the next session but one: see `_search`.
            return await self._append(place, batch, "guarded" if place.session_id else "never")
        except ZonedError as error:
            if error.kind == "VERSION_CONFLICT" and (place.session_id or not self._is_unsure):
                # The daemon has looked whether they stand there, or in the archived session.
                self._place = _place_told(error)
                return None
            if error.kind in MAYBE_DONE and not place.session_id:
                self._is_unsure = True
                await asyncio.sleep(self._backoff.next_s(error.data))
            elif error.kind != "VERSION_CONFLICT":
                raise
        return await self._search(batch)

    async def _locate(self) -> Place:
        """The end of the stream as it is now."""
        state = await self._stream.read_session(self._definition_id, timeout_s=FOREVER)
        if not state.session_id:
            newest = await self._stream.list_archives(self._definition_id, 1, timeout_s=FOREVER)
            self._newest_ms = newest[0].archived_at_ms if newest else -1
        return Place(state.session_id, state.output_lines)

    async def _search(self, batch: list[bytes]) -> OutputAppended | None:
        """Whether the first lines of a session were appended is not known, nor the session: look
        into the current one, and into those that were archived since.
        """
        since = self._newest_ms
        self._place = await self._locate()
        found = await self._stream.list_archives(
            self._definition_id, ARCHIVES_SEARCHED, timeout_s=FOREVER
        )
        sessions = [each.session_id for each in found if each.archived_at_ms > since]
        if self._place.session_id:
            sessions.append(self._place.session_id)
        for session_id in sessions:
            try:
                done = await self._append(Place(session_id, 0), batch, "guarded")
            except ZonedError as error:
                if error.kind != "VERSION_CONFLICT":
                    raise
            else:
                self._place = Place(session_id, done.first_line + done.lines)
                return done
        return None


def _place_told(error: ZonedError) -> Place | None:
    """The place that a conflict tells; None if there is no session, and more must be known."""
    session_id, lines = error.data.get("session_id"), error.data.get("current_lines")
    if isinstance(session_id, str) and session_id and isinstance(lines, int):
        return Place(session_id, lines)
    return None
