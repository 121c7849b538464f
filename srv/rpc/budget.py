"""How many bytes of large messages the daemon may hold at one time.

Whoever wants to hold more than a little takes its share first and waits in line for it; whoever
waits does not read from its socket. What is small is not counted: requests in flight and
connections have bounds of their own.
"""

import asyncio
from collections import deque

SMALL_BYTES_MAX = 64 << 10


class Budget:
    """A number of bytes to share. Belongs to one event loop."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.held_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def is_short(self) -> bool:
        """Whether somebody waits for a share."""
        return bool(self._waiting)

    def take_nowait(self, size: int) -> bool:
        """Take `size` bytes if they are free and nobody waits. False: they were not taken."""
        if self._waiting or not self._fits(size):
            return False
        self.held_bytes += size
        return True

    def take_later(self, size: int) -> "asyncio.Future[None]":
        """Wait in line for `size` bytes; they are taken when the future is done. Cancel it to
        leave the line.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, future))
        self._serve()
        return future

    async def room(self) -> None:
        """Wait until not more than allowed is held."""
        if self.held_bytes > self._bytes_max:
            await self.take_later(0)

    def add(self, size: int) -> None:
        """Count bytes that are there already, allowed or not."""
        self.held_bytes += size

    def give(self, size: int) -> None:
        """Give back what was taken or added."""
        self.held_bytes -= size
        assert self.held_bytes >= 0
        self._serve()

    def _fits(self, size: int) -> bool:
        # One alone is always let through, so that a limit below it is no standstill.
        return self.held_bytes + size <= self._bytes_max or not self.held_bytes

    def _serve(self) -> None:
        while self._waiting and (self._waiting[0][1].done() or self._fits(self._waiting[0][0])):
            size, future = self._waiting.popleft()
            if not future.done():
                self.held_bytes += size
                future.set_result(None)
