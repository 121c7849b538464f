"""Waiting for the records of a session: those there are, then those that come, each once.

The store's change feed only wakes; what is told is read from the records themselves, by seq. So who
comes back after a cut, or a restart of the daemon, goes on exactly where it was.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from filestore.errors import ClosedError, NotFoundError
from filestore.journal.model import JournalRow, Record
from filestore.journal.rows import load_page
from filestore.journal.writing import FEED_PREFIX
from filestore.model import Change
from filestore.reading import ReadTransaction
from filestore.records.info import find
from filestore.store import FileStore


class Followers:
    """Who waits for which session. Listens to the store's feed only while there are any."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._events: dict[str, set[asyncio.Event]] = {}
        self._is_closed = False

    def count(self, session_id: str) -> int:
        """How many follow a session."""
        return len(self._events.get(FEED_PREFIX + session_id, ()))

    async def follow(self, session_id: str, after_seq: int) -> AsyncGenerator[list[Record], None]:
        """Records after `after_seq`, in order, for ever. NotFoundError when there is no such
        session, or no more. Ends when the store is closed.
        """
        key, event = FEED_PREFIX + session_id, asyncio.Event()
        if not self._events:
            self._store.feed.listen(self)
        self._events.setdefault(key, set()).add(event)
        begun: JournalRow | None = None
        try:
            while True:
                event.clear()
                try:
                    row, found = await self._load(session_id, after_seq)
                except ClosedError:
                    return
                # Another of that id has records of its own, which are not told as if they followed.
                if begun is not None and _beginning(row) != _beginning(begun):
                    raise NotFoundError("the session was deleted", operation="follow")
                begun = row
                if found:
                    after_seq = found[-1].seq
                    yield found
                elif self._is_closed:
                    return
                else:
                    await event.wait()
        finally:
            left = self._events[key] - {event}
            if left:
                self._events[key] = left
            else:
                del self._events[key]
                if not self._events:
                    self._store.feed.unlisten(self)

    async def _load(self, session_id: str, after_seq: int) -> tuple[JournalRow, list[Record]]:
        async def unit(tx: ReadTransaction) -> tuple[JournalRow, list[Record]]:
            row = await find(tx, session_id, "follow")
            return row, await load_page(tx.rows, row.id, after_seq + 1)

        return await self._store.view(unit)

    # -- what the feed calls

    def on_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.kind == "record":
                for event in self._events.get(change.zone, ()):
                    event.set()

    def on_loss(self, _: int) -> None:
        self._wake_all()

    def on_close(self) -> None:
        self._is_closed = True
        self._wake_all()

    def _wake_all(self) -> None:
        for events in self._events.values():
            for event in events:
                event.set()


def _beginning(row: JournalRow) -> tuple[int, int]:
    return row.id, row.created_ms
