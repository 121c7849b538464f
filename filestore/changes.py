"""The change feed: every committed change once, in commit order, from a bounded ring in memory.

Positions are the store-wide counter, so they stay valid over restarts; the history itself does not
survive one. A consumer that is too slow, or asks for a position that the ring no longer (or not
yet) reaches back to, is told `gap` and goes on from the present. Writers never wait. All of this
runs on the event loop's thread.

There are two ways to follow: to wait (`Subscription`), or to be called (`Listener`), which is for
whoever passes changes on to many.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from filestore.errors import ClosedError
from filestore.model import Change


class Listener(Protocol):
    """Who is called with what happens, before the writers themselves have their answer.

    None of these may raise or take long: every caller whose unit was committed waits behind them.
    """

    def on_changes(self, changes: Sequence[Change]) -> None:
        """A group was committed with these changes."""

    def on_loss(self, position: int) -> None:
        """What happened up to `position` cannot be told."""

    def on_close(self) -> None:
        """There will be no more."""


class Feed:
    """The ring, and whoever waits for it to move on."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._ring: list[Change] = []
        self._floor = 0
        """All changes after this position are in the ring."""
        self.position = 0
        self._moved: asyncio.Event | None = None
        """Made by whoever waits first."""
        self.is_closed = False
        self.losses = 0
        """How often history was lost; who has not heard of the last time is told of a gap."""
        # Replaced, never changed: a listener may come or go while they are being called.
        self._listeners: tuple[Listener, ...] = ()

    def listen(self, listener: Listener) -> None:
        """Call `listener` from now on. Raises ClosedError if the store is closed."""
        if self.is_closed:
            raise ClosedError("the store is closed")
        self._listeners = (*self._listeners, listener)

    def unlisten(self, listener: Listener) -> None:
        """Call `listener` no more. Nothing happens if it was not called anyway."""
        self._listeners = tuple(each for each in self._listeners if each is not listener)

    def start(self, position: int) -> None:
        """Begin at `position`: nothing before it is known."""
        self._floor = self.position = position

    def add(self, changes: Sequence[Change], position: int) -> None:
        """Take in what a group committed."""
        self.position = max(self.position, position)
        if not changes:
            return
        self._ring += changes
        # Cut in large steps, so that the cost per change stays constant.
        if len(self._ring) > 2 * self._kept:
            cut = len(self._ring) - self._kept
            self._floor = self._ring[cut - 1].position
            del self._ring[:cut]
        for listener in self._listeners:
            listener.on_changes(changes)
        self._wake()

    def lose(self, position: int) -> None:
        """What happened up to `position` cannot be told; everyone gets a gap."""
        self._ring.clear()
        self._floor = self.position = max(self.position, position)
        self.losses += 1
        for listener in self._listeners:
            listener.on_loss(self.position)
        self._wake()

    def close(self) -> None:
        """End all iterators once they have seen what is there."""
        self.is_closed = True
        for listener in self._listeners:
            listener.on_close()
        self._wake()

    def after(self, position: int) -> Sequence[Change] | None:
        """The changes after `position`, or None if some of them are not known any more."""
        if position < self._floor or position > self.position:
            return None
        return self._ring[bisect_right(self._ring, position, key=_position) :]

    async def moved(self) -> None:
        """Wait for something new."""
        if self._moved is None:
            self._moved = asyncio.Event()
        await self._moved.wait()

    def _wake(self) -> None:
        if self._moved is not None:
            self._moved.set()
            self._moved = None


class Subscription(AsyncIterator[Change]):
    """An iterator over the changes of zones with one prefix. Counts from when it was made."""

    def __init__(self, feed: Feed, prefix: str, since: int | None) -> None:
        self._feed = feed
        self._prefix = prefix
        self._position = feed.position if since is None else since
        self._losses = feed.losses
        self._ready: list[Change] = []

    async def __anext__(self) -> Change:
        while not self._ready and not self._collect():
            if self._feed.is_closed:
                raise StopAsyncIteration
            await self._feed.moved()
        return self._ready.pop()

    def _collect(self) -> bool:
        """Fill `_ready` (last first). True if anything was found."""
        found = self._feed.after(self._position)
        if found is None or self._losses != self._feed.losses:
            self._position, self._losses = self._feed.position, self._feed.losses
            self._ready = [Change(self._position, "gap")]
            return True
        if found:
            self._position = found[-1].position
        self._ready = [change for change in reversed(found) if self._matches(change)]
        return bool(self._ready)

    def _matches(self, change: Change) -> bool:
        return change.zone.startswith(self._prefix) or (
            change.source is not None and change.source.startswith(self._prefix)
        )


def subscribe(feed: Feed, prefix: str, since: int | None) -> Subscription:
    """Follow `feed`. Raises ClosedError if the store is closed."""
    if feed.is_closed:
        raise ClosedError("the store is closed")
    return Subscription(feed, prefix, since)


def _position(change: Change) -> int:
    return change.position
