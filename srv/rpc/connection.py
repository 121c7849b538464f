"""One RPC connection: messages in, calls started in the right order, answers out, nothing without
a bound.

Order. Calls are served side by side and answered as they finish. Writes to one agent keep the order
in which they came: an append queues its write before the next message is looked at; any other write
prepares first, so whatever changes the same agent after it waits until it is done.

A call that was accepted runs to its end whatever becomes of the connection: what the client learns
may be lost with it, what it wrote is not.

Bounds. Large messages take their share of the daemon's budget before they are read. Who does not
read its answers is not read from; who does not read for long is cut off. Changes for a subscriber
wait in a bounded queue, which ends in a gap. `sweep` is called every few seconds for all that is
about time.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable
from functools import partial
from typing import NamedTuple
from uuid import uuid4

from filestore.sessions.subscription import Subscription
from srv import websocket
from srv.errors import ZonedError, told
from srv.rpc import protocol
from srv.rpc.budget import SMALL_BYTES_MAX
from srv.rpc.exchange import Batch, Exchange
from srv.rpc.goodbye import Goodbye
from srv.rpc.methods import Method, change_shape
from srv.rpc.params import Spec
from srv.rpc.protocol import Call, Item, Refused
from srv.rpc.service import Service
from srv.rpc.table import all_methods

WRITE_BUFFER_BYTES = 256 << 10
READS_PER_CONNECTION = 4
READS_MAX = 16
BUSY_RETRY_MS = 100
PING_S = 30.0
SILENT_S_MAX = 90.0
"""A peer that says nothing for so long, pings notwithstanding, is gone."""
STUCK_S_MAX = 30.0
"""A peer that reads none of its answers for so long is cut off."""
STUCK_SHORT_S_MAX, READ_BYTES_MIN = 3.0, 1 << 20
"""The same while others wait for the memory; to read less than so much of it is to read none."""
MESSAGE_S_MAX = 60.0
MESSAGE_BYTES_S_MIN = 64 << 10
"""A message comes in so fast, and a minute late at most: it holds a share of the budget."""

log = logging.getLogger("zoned.rpc")

_new = tuple.__new__
_UNKNOWN = Method(Spec({}), lambda _: None, "now")
METHOD_CHARS_MAX = 80


class Shared:
    """What all connections of a daemon share."""

    def __init__(self, service: Service, group: asyncio.TaskGroup) -> None:
        self.service = service
        self.group = group
        self.methods = all_methods(service.config)
        self.budget = service.budget
        self.reads = asyncio.Semaphore(READS_MAX)
        self.connections: set[Connection] = set()
        self._is_empty = asyncio.Event()
        self.array_max = max(service.config.lines_per_append_max, service.config.batch_max)

    def joined(self, connection: "Connection") -> None:
        """A client has come."""
        self.connections.add(connection)
        self.service.metrics.connections += 1
        self._is_empty.clear()

    def left(self, connection: "Connection") -> None:
        """A client has gone."""
        self.connections.discard(connection)
        self.service.metrics.connections -= 1
        if not self.connections:
            self._is_empty.set()

    async def wait_empty(self) -> None:
        """Wait until all clients have gone."""
        if self.connections:
            await self._is_empty.wait()


class _Open(NamedTuple):
    """A call that has not been answered yet, and its place in its exchange."""

    call: Call
    exchange: Exchange
    place: int
    started: float
    method: Method


class Connection(asyncio.Protocol):
    """A client, from its upgrade to WebSocket to its end. Serves as the `Caller` of its calls."""

    def __init__(self, shared: Shared, transport: asyncio.Transport, peer: str) -> None:
        config = shared.service.config
        self.service = shared.service
        self.peer = peer
        self._shared = shared
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._decoder = websocket.Decoder(config.message_bytes_max, is_server=True)
        self._in_flight_max = config.requests_in_flight_max
        self._in_flight = 0
        self._barriers: dict[str, asyncio.Future[None]] = {}
        """For each agent, the last write under way that what follows must wait for."""
        self._reads = asyncio.Semaphore(READS_PER_CONNECTION)
        self._subscriptions: dict[int, asyncio.Task[None]] = {}
        self._subscribed = 0
        self._is_binary = False
        # What every small request is owed: nothing that tells it from others.
        self._exchanges = Exchange(False, 0), Exchange(True, 0)
        self._reserved = 0
        """Bytes of the budget that the message under way has."""
        self._reservation: asyncio.Future[None] | None = None
        self._unsent = 0
        self._pauses: set[str] = set()
        """Why nothing is read from the client now."""
        self._is_closing = False
        self._goodbye = Goodbye(transport)
        self._drain_reason = ""
        """Why nothing more is read; empty while it is."""
        self._unclogged = asyncio.Event()
        self._unclogged.set()
        self._heard = self._clogged = self._begun = self._loop.time()
        self._clogged_bytes = 0
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        shared.joined(self)

    # -- what comes in

    def data_received(self, data: bytes) -> None:
        if self._is_closing or self._drain_reason:
            # Read all the same: closing on bytes unread would reset a TCP connection, and take what
            # the client has not read yet, the goodbye with it.
            self._goodbye.heard()
            return
        self._heard = self._loop.time()
        try:
            messages = self._decoder.feed(data)
        except websocket.FrameError as error:
            log.info("closed a connection that broke the protocol", extra={"reason": error.reason})
            self._close(error.code, error.reason)
            return
        for opcode, payload in messages:
            if opcode in (websocket.TEXT, websocket.BINARY):
                self._message(payload, opcode == websocket.BINARY)
            elif opcode == websocket.PING:
                self._write(websocket.encode(websocket.PONG, payload))
            elif opcode == websocket.CLOSE:
                self._close(websocket.NORMAL, "")
                return
        pending = self._decoder.pending_bytes
        if pending > SMALL_BYTES_MAX and pending > self._reserved:
            self._reserve(self._decoder.pending_bytes_max - self._reserved)

    def _reserve(self, size: int) -> None:
        """Take a share of the budget for the message under way, or stop reading until there is."""
        if self._shared.budget.take_nowait(size):
            self._reserved += size
        elif self._reservation is None:
            self._pause("budget")
            self._reservation = self._shared.budget.take_later(size)
            self._reservation.add_done_callback(partial(self._reserve_done, size))

    def _reserve_done(self, size: int, future: "asyncio.Future[None]") -> None:
        self._reservation = None
        if future.cancelled():
            return
        self._reserved += size
        if self._transport.is_closing():
            self._give_reserved()
        self._heard = self._loop.time()
        self._resume("budget")

    def _give_reserved(self) -> None:
        size, self._reserved = self._reserved, 0
        self._shared.budget.give(size)

    def _message(self, payload: bytes, is_binary: bool) -> None:
        self._is_binary = is_binary
        self._begun = self._heard
        size = len(payload)
        cost = size if size > SMALL_BYTES_MAX else 0
        if cost or self._reserved:
            self._shared.budget.add(cost)
            self._give_reserved()
        config = self.service.config
        try:
            value = protocol.decode(payload, is_binary=is_binary, array_max=self._shared.array_max)
            items = protocol.read_batch(value, config.batch_max) if type(value) is list else None
        except ZonedError as error:
            self._start(Refused(None, error), Exchange(is_binary, cost), 0)
            return
        if items is None:
            exchange = Exchange(is_binary, cost) if cost else self._exchanges[is_binary]
            self._start(protocol.read(value), exchange, 0)
            return
        batch = Batch(is_binary, cost, len(items), config.message_bytes_max)
        for place, item in enumerate(items):
            self._start(item, batch, place)

    # -- calls

    def _start(self, item: Item, exchange: Exchange, place: int) -> None:
        if isinstance(item, Refused):
            self.service.metrics.answered("", 0.0, item.error.kind)
            self._reply(exchange, place, protocol.error_of(item.id, "", item.error))
            self._let_go(exchange)
            return
        method = self._shared.methods.get(item.method, _UNKNOWN)
        opened = _new(_Open, (item, exchange, place, time.perf_counter(), method))
        if method.lane == "read":
            # It holds next to nothing, and waits for room: it would wait for itself.
            self._let_go(exchange)
        self._in_flight += 1
        try:
            self._run(opened)
        except Exception as error:  # whatever it is, it is answered and, if ours, logged
            self._fail(opened, error)

    def _run(self, opened: _Open) -> None:
        call, method = opened.call, opened.method
        if method is _UNKNOWN:
            raise ZonedError("UNKNOWN_METHOD", f"there is no method {_shown(call.method)}")
        if self._in_flight > self._in_flight_max:
            message = f"{self._in_flight_max} requests of this connection wait for their answers"
            raise ZonedError("BUSY", message, retry_after_ms=BUSY_RETRY_MS)
        values = method.checked(call.params, self.peer)
        group = self._shared.group
        match method.lane:
            case "now":
                self._succeed(opened, method.run(self, **values))
            case "read":
                group.create_task(self._read(opened, values))
            case "append" if not self._barriers:
                future = method.run(self, **values)
                assert isinstance(future, asyncio.Future)
                future.add_done_callback(partial(self._appended, opened))
            case "append" | "write":
                agents = method.agents(values)
                before = {self._barriers[agent] for agent in agents if agent in self._barriers}
                barrier = self._loop.create_future()
                self._barriers.update(dict.fromkeys(agents, barrier))
                group.create_task(self._write_in_turn(opened, values, agents, before, barrier))

    def _appended(self, opened: _Open, future: "asyncio.Future[object]") -> None:
        try:
            self._succeed(opened, future.result())
        except Exception as error:  # as above
            self._fail(opened, error)

    async def _read(self, opened: _Open, values: dict[str, object]) -> None:
        try:
            # Whoever has not read its answers gets no more of them made.
            async with self._reads:
                await self._unclogged.wait()
                async with self._shared.reads:
                    await self._shared.budget.room()
                    result = await self._result(opened, values)
                self._succeed(opened, result)
        except Exception as error:  # as above
            self._fail(opened, error)

    async def _write_in_turn(
        self,
        opened: _Open,
        values: dict[str, object],
        agents: set[str],
        before: set["asyncio.Future[None]"],
        barrier: "asyncio.Future[None]",
    ) -> None:
        try:
            if before:
                await asyncio.wait(before)
            result = await self._result(opened, values)
            self._succeed(opened, result)
        except Exception as error:  # as above
            self._fail(opened, error)
        finally:
            barrier.set_result(None)
            for agent in agents:
                if self._barriers.get(agent) is barrier:
                    del self._barriers[agent]

    def _result(self, opened: _Open, values: dict[str, object]) -> Awaitable[object]:
        found = opened.method.run(self, **values)
        assert isinstance(found, Awaitable)
        return found

    def _succeed(self, opened: _Open, result: object) -> None:
        shape = opened.method.shape
        answer = result if shape is None else shape(result)
        self._finish(opened, protocol.result_of(opened.call.id, answer), None)

    def _fail(self, opened: _Open, error: Exception) -> None:
        known = told(error)
        if known is None:
            number = uuid4().hex[:12]
            log.error(
                "a call failed by a fault of ours", exc_info=error, extra={"error_id": number}
            )
            hint = f"look for {number} in the daemon's log"
            known = ZonedError("INTERNAL", "the daemon failed", error_id=number, hint=hint)
        method = _shown(opened.call.method)
        self._finish(opened, protocol.error_of(opened.call.id, method, known), known.kind)

    def _finish(self, opened: _Open, reply: dict[str, object], kind: str | None) -> None:
        # Before anything is counted: if the answer cannot be sent, an error is finished instead.
        wanted = None if opened.call.is_notification else reply
        self._reply(opened.exchange, opened.place, wanted)
        if opened.method.lane != "read":
            self._let_go(opened.exchange)
        name = opened.call.method if opened.method is not _UNKNOWN else ""
        self.service.metrics.answered(name, time.perf_counter() - opened.started, kind)
        self._in_flight -= 1
        if self._drain_reason and not self._in_flight:
            self._close(websocket.GOING_AWAY, self._drain_reason)

    def _reply(self, exchange: Exchange, place: int, reply: dict[str, object] | None) -> None:
        if isinstance(exchange, Batch):
            exchange.put(place, reply)
            if not exchange.is_whole:
                return
            if payload := exchange.payload():
                self._send_payload(payload, exchange.is_binary)
        elif reply is not None:
            self._send(reply, exchange.is_binary)

    def _let_go(self, exchange: Exchange) -> None:
        if exchange.cost_bytes:
            self._shared.budget.give(exchange.let_go())

    # -- subscriptions

    def subscribe(self, definition_id: str, since: int | None) -> tuple[int, int]:
        """Begin to notify of an agent's changes. Returns the subscription's number, and the
        position after which they are told.
        """
        config = self.service.config
        if len(self._subscriptions) >= config.subscriptions_max:
            message = f"this connection has {config.subscriptions_max} subscriptions already"
            limit = config.subscriptions_max
            raise ZonedError("TOO_LARGE", message, limit=limit, hint="end one of them first")
        changes = self.service.sessions.subscribe(
            definition_id, since=since, events_max=config.subscriber_events_max
        )
        self._subscribed += 1
        number = self._subscribed
        follow = self._follow(number, changes, self._is_binary)
        task = self._shared.group.create_task(follow)
        # Not a `finally` in the task: one that is ended before it has begun never gets there.
        task.add_done_callback(partial(self._followed, number, changes))
        self._subscriptions[number] = task
        self.service.metrics.subscriptions += 1
        return number, changes.start

    def _followed(self, number: int, changes: Subscription, _: "asyncio.Task[None]") -> None:
        changes.close()
        if self._subscriptions.pop(number, None) is not None:
            self.service.metrics.subscriptions -= 1

    def unsubscribe(self, subscription: int) -> None:
        """End a subscription. NOT_FOUND if there is no such."""
        task = self._subscriptions.pop(subscription, None)
        if task is None:
            raise ZonedError("NOT_FOUND", f"there is no subscription {subscription}")
        self.service.metrics.subscriptions -= 1
        task.cancel()

    async def _follow(self, number: int, changes: Subscription, is_binary: bool) -> None:
        try:
            async for change in changes:
                await self._unclogged.wait()
                params = {"subscription": number, **change_shape(change)}
                self._send(protocol.notification("agent:session:changed", params), is_binary)
        except Exception as error:  # a subscriber that would hear nothing more must notice
            log.error("a subscription failed", exc_info=error)
            self._close(websocket.INTERNAL, "a subscription failed")

    # -- what goes out

    def _send(self, value: object, is_binary: bool) -> None:
        if not self._is_closing:
            self._send_payload(protocol.encode(value, is_binary=is_binary), is_binary)

    def _send_payload(self, payload: bytes, is_binary: bool) -> None:
        if self._is_closing:
            return
        opcode = websocket.BINARY if is_binary else websocket.TEXT
        self._write(websocket.encode(opcode, payload))
        if not self._unclogged.is_set():
            self._unsent += len(payload)
            self._shared.budget.add(len(payload))

    def _write(self, frame: bytes) -> None:
        self._transport.write(frame)

    def pause_writing(self) -> None:
        self._unclogged.clear()
        self._clogged = self._loop.time()
        self._clogged_bytes = 0
        self._pause("clogged")

    def resume_writing(self) -> None:
        self._give_unsent()
        self._unclogged.set()
        self._resume("clogged")

    def _give_unsent(self) -> None:
        size, self._unsent = self._unsent, 0
        self._shared.budget.give(size)

    def _pause(self, why: str) -> None:
        if not (self._pauses or self._is_closing or self._transport.is_closing()):
            self._transport.pause_reading()
        self._pauses.add(why)

    def _resume(self, why: str) -> None:
        self._pauses.discard(why)
        if not (self._pauses or self._is_closing or self._transport.is_closing()):
            self._transport.resume_reading()

    # -- the end

    def sweep(self, now: float) -> None:
        """Look whether the peer is still there and does its part."""
        is_clogged, is_short = not self._unclogged.is_set(), self._shared.budget.is_short
        silent = now - self._heard
        if is_clogged:
            left = self._transport.get_write_buffer_size()
            if self._clogged_bytes - left >= (READ_BYTES_MIN if is_short else 1):
                self._clogged = now  # slow is not stuck
            self._clogged_bytes = left
        stuck_s_max = STUCK_SHORT_S_MAX if is_short else STUCK_S_MAX
        if is_clogged and now - self._clogged > stuck_s_max:
            self._cut("reads none of its answers")
        elif "budget" in self._pauses or is_clogged:
            return
        elif self._is_dripping(now):
            self._cut("takes too long to send a message")
        elif silent > SILENT_S_MAX:
            self._cut("does not answer")
        elif silent > PING_S and not self._is_closing:
            self._write(websocket.encode(websocket.PING, b""))

    def _is_dripping(self, now: float) -> bool:
        pending = self._decoder.pending_bytes
        if not pending:
            self._begun = now
        return now - self._begun > MESSAGE_S_MAX + pending / MESSAGE_BYTES_S_MIN

    def drain(self, reason: str) -> None:
        """Accept no more; close when everything that was accepted is answered."""
        self._drain_reason = reason
        if not self._in_flight:
            self._close(websocket.GOING_AWAY, reason)

    def abort(self) -> None:
        """End at once; what is not sent is lost to the client, and nothing else is."""
        self._is_closing = True
        self._transport.abort()

    def _cut(self, why: str) -> None:
        log.warning("cut off a client that %s", why, extra={"peer": self.peer})
        self.abort()

    def _close(self, code: int, reason: str) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._write(websocket.encode_close(code, reason))
            self._goodbye.said(was_paused=bool(self._pauses))

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closing = True
        self._shared.left(self)
        for task in self._subscriptions.values():
            task.cancel()
        if self._reservation is not None:
            self._reservation.cancel()
        self._give_reserved()
        self._give_unsent()
        self._unclogged.set()


def _shown(method: str) -> str:
    """The name of a method, safe and short enough for a message."""
    shown = method if method.isprintable() else ascii(method)
    return shown if len(shown) <= METHOD_CHARS_MAX else shown[:METHOD_CHARS_MAX] + "…"
