"""Leases: how a streaming read keeps the chunks it may still need.

A read that goes through a file in many short transactions notes a lease. Chunks that nobody
references any more are released only when every lease that was held when they were found unused has
ended or grown too old, so a read that began before a replace sees the old content to its end, and a
reader that forgot to go on cannot hold space for ever. Nobody waits for a lease: whoever releases
looks again later. Event loop thread only.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Lease:
    """The promise to one read. After its end the promise is off, but the read may still go on."""

    def __init__(self, ends: float) -> None:
        self._ends = ends

    @property
    def left_s(self) -> float:
        """How long it holds yet; 0 or less when it is over."""
        return self._ends - time.monotonic()


class Leases:
    """All reads under way, numbered as they began."""

    def __init__(self, max_s: float) -> None:
        self._max_s = max_s
        self._held: dict[int, Lease] = {}
        self.on_end: Callable[[], None] = lambda: None
        """Called when a read has ended."""
        self.next_number = 0
        """The number that the next lease will get."""

    @contextmanager
    def hold(self) -> Iterator[Lease]:
        """Keep chunks from being released."""
        number = self.next_number
        self.next_number += 1
        lease = self._held[number] = Lease(time.monotonic() + self._max_s)
        try:
            yield lease
        finally:
            del self._held[number]
            self.on_end()

    def left_s(self, number: int) -> float:
        """How long leases before `number` can hold yet; 0 or less when all are over."""
        return max((lease.left_s for key, lease in self._held.items() if key < number), default=0)
