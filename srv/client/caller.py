"""Calls that outlive connections: the connection is made when it is needed, made again when it is
lost, and what can be repeated without harm is repeated until its deadline.

What was certainly not done (no connection, BUSY) is always repeated. What may have been done (the
connection was lost before the answer, COMMIT_UNKNOWN, UNAVAILABLE) is repeated only if the caller
says how (`Repeat`); otherwise that is COMMIT_UNKNOWN. There is no task here: whoever calls drives.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal
from weakref import WeakValueDictionary

from srv.client.backoff import MAYBE_DONE, NOTHING_DONE, Backoff
from srv.client.link import Address, Link, LinkLostError
from srv.errors import ZonedError

CONNECT_S_MAX = 10.0
TIMEOUT_S = 30.0
FOREVER = float("inf")

Repeat = Literal["read", "guarded", "never"]
"""May a call be made again of which it is not known whether it was done? It changes nothing; or a
guard sees to it that it is not done twice; or never.
"""


class Caller:
    """A daemon, as long as it is wanted, over as many connections as that takes."""

    def __init__(
        self, address: Address, *, timeout_s: float, window: int, rng: random.Random
    ) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._window = window
        self._rng = rng
        self._link: Link | None = None
        self._connecting = asyncio.Lock()
        self._pace = Backoff(rng)
        self._not_before = 0.0
        """When the next connection may be tried."""
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._is_closed = False

    async def call(
        self,
        method: str,
        params: Mapping[str, object],
        *,
        repeat: Repeat,
        agents: Iterable[str] = (),
        timeout_s: float | None = None,
    ) -> object:
        """Call a method within its deadline, the client's own if none is given.

        `agents` are those that a write changes. Writes of one agent are done one after the other: a
        repeated one must not come behind one that was called after it. Raises ZonedError: what the
        daemon answers, or UNAVAILABLE, or COMMIT_UNKNOWN if a request was sent of which nobody
        knows what became.
        """
        attempts = _Attempts(method, repeat)
        given = {key: value for key, value in params.items() if value is not None}
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            async with (
                asyncio.timeout(None if limit_s == FOREVER else limit_s),
                self._turn(agents),
            ):
                return await self._repeat(method, given, attempts)
        except TimeoutError as error:
            raise attempts.too_late(limit_s) from error

    async def within(
        self, method: str, work: Coroutine[object, object, None], timeout_s: float | None
    ) -> None:
        """Do something else under the same deadline as a call. Raises ZonedError."""
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(None if limit_s == FOREVER else limit_s):
                await work
        except TimeoutError as error:
            raise _Attempts(method, "read").too_late(limit_s) from error

    async def link(self) -> Link:
        """The connection; made if there is none. One try: raises ZonedError."""
        async with self._connecting:
            if self._link is not None and not self._link.is_lost:
                return self._link
            self._check_open()
            loop = asyncio.get_running_loop()
            await asyncio.sleep(max(0.0, self._not_before - loop.time()))
            self._check_open()
            # Set before the try: one that is cancelled counts as well.
            self._not_before = loop.time() + self._pace.next_s()
            try:
                async with asyncio.timeout(CONNECT_S_MAX):
                    link = await Link.open(self._address, window=self._window)
            except TimeoutError as error:
                message = "the daemon does not answer"
                raise ZonedError("UNAVAILABLE", message, daemon="silent") from error
            if self._is_closed:
                link.abort()
                self._check_open()
            self._link = link
            return link

    def hang_up(self) -> None:
        """End the connection and make no other."""
        self._is_closed = True
        if self._link is not None:
            self._link.abort()

    def went_well(self) -> None:
        """A connection has proved its worth: the next one need not wait."""
        self._pace.reset()
        self._not_before = 0.0

    @asynccontextmanager
    async def _turn(self, agents: Iterable[str]) -> AsyncIterator[None]:
        async with AsyncExitStack() as held:
            # Sorted, so that two writes that change the same two agents do not wait for each other.
            for agent in sorted(set(agents)):
                await held.enter_async_context(self._turns.setdefault(agent, asyncio.Lock()))
            yield

    async def _repeat(
        self, method: str, params: Mapping[str, object], attempts: "_Attempts"
    ) -> object:
        backoff = Backoff(self._rng)
        while True:
            try:
                link = await self.link()
            except ZonedError as error:
                attempts.not_sent(error)
                continue  # `link` itself sees to the pace
            try:
                result = await link.call(method, params, on_sent=attempts.sent)
            except LinkLostError as error:
                attempts.lost(error)
            except ZonedError as error:
                self.went_well()
                attempts.refused(error)
                await asyncio.sleep(backoff.next_s(error.data))
            else:
                self.went_well()
                return result

    def _check_open(self) -> None:
        if self._is_closed:
            raise ZonedError("UNAVAILABLE", "this client is closed", daemon="closed")


class _Attempts:
    """What is known of the attempts at one call. Each method raises if there is to be no other."""

    def __init__(self, method: str, repeat: Repeat) -> None:
        self._method = method
        self._repeat = repeat
        self._is_out = False
        """A request is out and has not been answered."""
        self._may_be_done = False
        self._last = ""

    def sent(self) -> None:
        """From here on it may be done."""
        self._is_out = True

    def not_sent(self, error: ZonedError) -> None:
        """There was no connection."""
        self._last = error.message
        is_closed = error.data.get("daemon") == "closed"
        if is_closed and self._may_be_done and self._repeat != "read":
            raise self._unknown(error.message) from error
        if is_closed or error.kind not in NOTHING_DONE | MAYBE_DONE:
            raise error

    def lost(self, error: LinkLostError) -> None:
        """The connection ended before the answer."""
        self._last = str(error)
        self._may_be_done = self._may_be_done or self._is_out
        if self._is_out and self._repeat == "never":
            raise self._unknown(str(error)) from error
        self._is_out = False

    def refused(self, error: ZonedError) -> None:
        """The daemon answered that it did not do it, or does not know."""
        self._last = error.message
        self._is_out = False
        is_unsure = error.kind in MAYBE_DONE
        if error.kind not in NOTHING_DONE and not (is_unsure and self._repeat != "never"):
            raise error
        self._may_be_done = self._may_be_done or is_unsure

    def too_late(self, limit_s: float) -> ZonedError:
        """What the caller is told at its deadline."""
        why = f"no answer within {limit_s} s" + (f"; last: {self._last}" if self._last else "")
        if self._repeat != "read" and (self._may_be_done or self._is_out):
            return self._unknown(why)
        return ZonedError("UNAVAILABLE", f"{self._method}: {why}", daemon="silent")

    def _unknown(self, why: str) -> ZonedError:
        hint = "repeat it with the same guard, or read what is there"
        message = f"{self._method}: it is not known whether it was done: {why}"
        return ZonedError("COMMIT_UNKNOWN", message, hint=hint)
