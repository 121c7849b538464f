"""An agent's changes as they happen, through lost connections.

Each change is told once and in order. After a lost connection the subscription asks for what came
after the last one that it heard of (`seq`); what the daemon cannot tell any more is a `gap`.
Whoever iterates drives: the connection is made again when it is waited for.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from filestore.sessions.model import SessionChange
from srv.client import records
from srv.client.backoff import MAYBE_DONE, NOTHING_DONE, Backoff
from srv.client.link import Link, LinkLostError
from srv.errors import ZonedError

EVENTS_MAX = 1000


class Connected(Protocol):
    """What a subscription needs of its client."""

    async def link(self) -> Link:
        """The connection; made if there is none. One try: raises ZonedError."""

    def went_well(self) -> None:
        """A connection has proved its worth."""


class Subscription(AsyncIterator[SessionChange]):
    """An iterator for one task. End it with `close`, or `async with contextlib.aclosing(it)`.

    A consumer that lets more than `events_max` changes wait finds a `gap` in their place.
    """

    def __init__(
        self,
        caller: Connected,
        definition_id: str,
        backoff: Backoff,
        *,
        since: int | None = None,
        events_max: int = EVENTS_MAX,
    ) -> None:
        self._caller = caller
        self._definition_id = definition_id
        self._backoff = backoff
        self._seq = since
        """The last position heard of; None until it is known where to begin."""
        self._events_max = events_max
        self._events: deque[SessionChange] = deque()
        self._link: Link | None = None
        self._number = 0
        self._waiter: asyncio.Future[None] | None = None
        self._is_closed = False

    @property
    def position(self) -> int | None:
        """From where another subscription would go on behind all that this one has heard of."""
        return self._seq

    async def begin(self) -> None:
        """Wait until it is settled from where on changes are told. Raises ZonedError."""
        while not self._is_closed and (self._seq is None or not self._is_attached):
            await self._wait()

    async def __anext__(self) -> SessionChange:
        """The next change. Waits through lost connections; raises ZonedError for what waiting does
        not cure."""
        while not self._events:
            if self._is_closed:
                raise StopAsyncIteration
            await self._wait()
        return self._events.popleft()

    def close(self) -> None:
        """End it, with all that waits in it. Safe to call twice."""
        self._is_closed = True
        self._events.clear()
        if self._link is not None and not self._link.is_lost:
            self._detach(self._link, self._number)
        self._link = None
        self._wake()

    async def aclose(self) -> None:
        """`close`, for `contextlib.aclosing`."""
        self.close()

    # -- the connection

    @property
    def _is_attached(self) -> bool:
        return self._link is not None and not self._link.is_lost

    async def _wait(self) -> None:
        """Wait for something to happen, or make the connection again."""
        if not self._is_attached:
            await self._attach()
            return
        if self._waiter is not None:
            raise RuntimeError("another task waits for this subscription already")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def _attach(self) -> None:
        try:
            link = await self._caller.link()
            await link.call(
                "agent:session:subscribe",
                {"definition_id": self._definition_id, "since": self._seq},
                # Changes may come in the same breath as the answer.
                on_result=lambda result: self._attached(link, result),
            )
        except LinkLostError:
            pass  # the next turn makes another connection
        except ZonedError as error:
            is_passing = error.kind in NOTHING_DONE | MAYBE_DONE
            if not is_passing or error.data.get("daemon") == "closed":
                raise
            await asyncio.sleep(self._backoff.next_s(error.data))
        else:
            self._backoff.reset()
            self._caller.went_well()

    def _attached(self, link: Link, result: object) -> None:
        answer = result if isinstance(result, Mapping) else {}
        number, seq = answer.get("subscription"), answer.get("seq")
        if not (isinstance(number, int) and isinstance(seq, int)):
            link.abort()
        elif self._is_closed or (self._is_attached and self._link is link):
            # Nobody wants it any more: it was closed, or tried twice, while this was under way.
            self._detach(link, number)
        else:
            self._link, self._number = link, number
            if self._seq is None:
                self._seq = seq
            link.subscribers[number] = self._on_change
            link.on_lost.add(self._wake)

    def _detach(self, link: Link, number: int) -> None:
        link.subscribers.pop(number, None)
        link.on_lost.discard(self._wake)
        link.send("agent:session:unsubscribe", {"subscription": number})

    def _on_change(self, params: Mapping[str, object]) -> None:
        change = records.decode(records.session_change, params)
        if change.position > (self._seq or 0) or change.kind == "gap":
            self._seq = change.position
            self._put(change)
        self._wake()

    def _put(self, change: SessionChange) -> None:
        if len(self._events) >= self._events_max:
            self._events.clear()
            change = SessionChange(change.position, "gap")
        self._events.append(change)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
