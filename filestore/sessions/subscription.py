"""What happens to the sessions of one definition, as a stream of changes for each subscriber.

The hub is called by the store's change feed with each group of changes, and puts each change into
the queues of those who follow that definition; it listens only while there are any. A queue is
bounded: a consumer that is too slow finds `gap` in place of what it missed, and whatever comes
after. All of this runs on the event loop's thread, so there is no moment between looking back
(`since`) and being told, in which a change could be lost or doubled.

The appended bytes themselves are fetched when a change is delivered, so that a queue holds none.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace

from filestore.errors import ClosedError, InvalidArgumentError, StoreError
from filestore.model import Change
from filestore.sessions.model import SessionChange
from filestore.sessions.names import OUTPUT, STATE, current_zone
from filestore.store import FileStore

DATA_BYTES_MAX = 64 << 10
"""Appended lines come with the change up to this size."""
EVENTS_MAX = 1000

log = logging.getLogger("zoned.sessions")

_Event = tuple[SessionChange, int | None]
"""A change, and the id of the file whose bytes go with it."""


class _Queue:
    """What one subscriber has not taken yet. The hub's side of a subscription."""

    __slots__ = ("current", "events", "events_max", "is_over", "waiter")

    def __init__(self, current: str, events_max: int) -> None:
        self.current = current
        self.events: deque[_Event] = deque()
        self.events_max = events_max
        self.is_over = False
        self.waiter: asyncio.Future[None] | None = None

    def put(self, event: _Event) -> None:
        """Add a change, or put a gap in place of all if there is no room."""
        if len(self.events) >= self.events_max:
            self.events.clear()
            event = (SessionChange(event[0].position, "gap"), None)
        self.events.append(event)
        self.wake()

    def end(self) -> None:
        """There will be no more than what is here."""
        self.is_over = True
        self.wake()

    def wake(self) -> None:
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Subscription(AsyncIterator[SessionChange]):
    """An iterator over the changes of one definition's sessions, for one task.

    It counts from when it was made. It ends with the store, or by `close`, or when the task that
    waits for it is cancelled. One that is dropped is forgotten at the event loop's next turn.
    """

    def __init__(
        self, hub: "Hub", queue: _Queue, loop: asyncio.AbstractEventLoop, start: int
    ) -> None:
        self.start = start
        """What happens after this position is told."""
        self._hub = hub
        self._queue = queue
        self._loop = loop

    def close(self) -> None:
        """End it at once, with all that waits in it. Safe to call twice."""
        self._hub.remove(self._queue)
        self._queue.events.clear()
        self._queue.end()

    async def aclose(self) -> None:
        """`close`, for `contextlib.aclosing`."""
        self.close()

    async def __anext__(self) -> SessionChange:
        queue = self._queue
        try:
            while not queue.events:
                if queue.is_over:
                    raise StopAsyncIteration
                if queue.waiter is not None:
                    raise RuntimeError("another task waits for this subscription already")
                queue.waiter = self._loop.create_future()
                await queue.waiter
            change, file_id = queue.events.popleft()
            if file_id is None:
                return change
            return replace(change, data=await self._hub.read(change, file_id))
        except asyncio.CancelledError:
            self.close()
            raise

    def __del__(self) -> None:
        if not self._queue.is_over:
            # Perhaps by the garbage collector, on any thread, in the middle of anything.
            with suppress(RuntimeError):  # the event loop has ended, and all with it
                self._loop.call_soon_threadsafe(self._hub.remove, self._queue)


class Hub:
    """Passes the changes of a store on to those who follow their definition."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._queues: dict[str, tuple[_Queue, ...]] = {}
        """By the name of the definition's current zone: most changes are found by it as it is."""

    @property
    def subscribers(self) -> int:
        """How many there are."""
        return sum(map(len, self._queues.values()))

    def subscribe(self, definition_id: str, since: int | None, events_max: int) -> Subscription:
        """Follow a definition's sessions after position `since`, or from this moment on."""
        if events_max < 1:
            raise InvalidArgumentError(f"events_max must be at least 1, not {events_max}")
        loop, feed = asyncio.get_running_loop(), self._store.feed
        if feed.is_closed:
            raise ClosedError("the store is closed")
        queue = _Queue(current_zone(definition_id), events_max)
        start = feed.position if since is None else since
        past = feed.after(start)
        if past is None:
            start = feed.position
            queue.put((SessionChange(feed.position, "gap"), None))
        for change in past or ():
            if queue.current in _zones_told(change):
                _put(change, (queue,))
        if not self._queues:
            feed.listen(self)
        self._queues[queue.current] = (*self._queues.get(queue.current, ()), queue)
        return Subscription(self, queue, loop, start)

    def remove(self, queue: _Queue) -> None:
        """Forget a subscriber. Nothing happens if it is forgotten already."""
        present = self._queues.get(queue.current, ())
        left = tuple(each for each in present if each is not queue)
        if left:
            self._queues[queue.current] = left
        elif present:
            del self._queues[queue.current]
            if not self._queues:
                self._store.feed.unlisten(self)

    async def read(self, change: SessionChange, file_id: int) -> bytes | None:
        """The bytes of appended lines; None if they are gone."""
        offset, size = change.offset or 0, change.size or 0
        try:
            # By its id, because the session may have been archived meanwhile.
            return await self._store.view(lambda tx: tx.read_by_id(file_id, offset, size))
        except ClosedError:
            pass  # this is one of the last changes, and ends without a word
        except StoreError as error:
            # The change is true all the same. Who wants its lines reads them, and is told then; one
            # that were refused here would come again with every subscription that resumes.
            log.warning("a change is told without its lines: %s", error)
        return None

    # -- what the feed calls

    def on_changes(self, changes: Sequence[Change]) -> None:
        queues = self._queues
        for change in changes:
            # Nearly all are appends and writes, and are found or passed over by one look.
            if change.source is None and change.kind != "delete_zone":
                found = queues.get(change.zone)
                if found:
                    _put(change, found)
            else:
                for zone in _zones_told(change):
                    _put(change, queues.get(zone, ()))

    def on_loss(self, position: int) -> None:
        for queue in self._all():
            queue.put((SessionChange(position, "gap"), None))

    def on_close(self) -> None:
        for queue in self._all():
            queue.end()
        self._queues = {}

    def _all(self) -> list[_Queue]:
        return [queue for queues in self._queues.values() for queue in queues]


def _zones_told(change: Change) -> set[str]:
    """The current zones whose followers may be told of a change."""
    if change.kind == "delete_zone":
        agent, is_archive, _ = change.zone.rpartition(":archive:")
        return {f"{agent}:current" if is_archive else change.zone}
    return {change.zone, change.source or ""}


def _put(change: Change, queues: tuple[_Queue, ...]) -> None:
    """Put a change into the queues of those who follow one definition, if it means something."""
    if queues:
        event = _translate(change, queues[0].current)
        if event is not None:
            for queue in queues:
                queue.put(event)


def _translate(change: Change, current: str) -> _Event | None:
    """What a change of the store means for the sessions; None if nothing."""
    position, kind = change.position, change.kind
    if kind == "append":
        return _output(change) if change.name == OUTPUT else None
    found: SessionChange | None = None
    if kind == "write" and change.name == STATE:
        found = SessionChange(position, "state", version=change.version)
    elif kind == "move_zone" and change.source == current:
        # Into an archive, or else by a migration, to another agent.
        is_archived = ":archive:" in change.zone
        found = SessionChange(position, "archived", zone=change.zone) if is_archived else None
        found = found or SessionChange(position, "deleted", zone=current)
    elif kind in ("move_zone", "copy_zone") and change.zone == current:
        found = SessionChange(position, "restored", zone=change.source or "")
    elif kind == "delete_zone":
        found = SessionChange(position, "deleted", zone=change.zone)
    return (found, None) if found else None


def _output(change: Change) -> _Event:
    size = change.size or 0
    found = SessionChange(
        change.position,
        "output",
        version=change.version,
        offset=change.offset or 0,
        size=size,
        first_line=change.first_line,
        lines=change.lines,
    )
    return found, change.file_id if size <= DATA_BYTES_MAX else None
