"""One WebSocket connection to the daemon: requests out, answers matched by id, notifications handed
on. It ends once and is not mended; caller.py makes the next one.

Cancelling whoever waits for an answer changes nothing here: a frame is handed to the transport
whole or not at all, and an answer that nobody waits for is let go. Its place in the window is kept
until then, for the daemon counts it, too.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

import msgpack

from srv import websocket
from srv.client import handshake
from srv.errors import ZonedError

WINDOW = 128
"""Requests in flight on one connection; the daemon's own default limit is twice that."""
WRITE_BUFFER_BYTES = 256 << 10

MESSAGE_BYTES_MAX = 64 << 20
"""What a daemon takes by default. It hangs up on more, so it is better not sent."""

Result = Callable[[object], None]
Notified = Callable[[Mapping[str, object]], None]


class LinkLostError(Exception):
    """The connection ended before the answer came, and perhaps before the request was sent."""


class Address(NamedTuple):
    """Where a daemon listens: the path of its unix socket, or a URL and the token for it."""

    path: str = ""
    url: str = ""
    token: str = ""


class _Asked(NamedTuple):
    """A request that is out. `on_result` is called before anything that came after the answer."""

    future: "asyncio.Future[object]"
    size: int
    on_result: Result | None


class Link(asyncio.Protocol):
    """A connection, made by `open`. Belongs to one event loop."""

    def __init__(self, host: str, token: str, window: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._key = handshake.new_key()
        self._request = handshake.request_head(host, self._key, token)
        self._head = b""
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._decoder = websocket.Decoder(handshake.MESSAGE_BYTES_MAX, is_server=False)
        self._window = window
        self._asked: dict[int, _Asked] = {}
        self._numbers = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        """Who waits for a place in the window, or for the transport."""
        self._is_clogged = False
        self._transport: asyncio.Transport | None = None
        self._reason = "the daemon is gone"
        self.is_lost = False
        self.subscribers: dict[int, Notified] = {}
        """Who is told of notifications, by number of the subscription."""
        self.on_lost: set[Callable[[], None]] = set()

    @classmethod
    async def open(cls, address: Address, *, window: int = WINDOW) -> "Link":
        """Connect. Raises ZonedError: UNAVAILABLE, BUSY or UNAUTHORIZED."""
        loop = asyncio.get_running_loop()
        parts = urlsplit(address.url)
        host = parts.netloc if address.url else "localhost"
        link = cls(host, address.token, window)
        try:
            if address.url:
                await loop.create_connection(lambda: link, parts.hostname or "", parts.port or 80)
            else:
                await loop.create_unix_connection(lambda: link, address.path)
        except OSError as error:
            hint = "start it with: zoned serve"
            message = f"no daemon listens there: {error.strerror or error}"
            raise ZonedError("UNAVAILABLE", message, daemon="absent", hint=hint) from error
        try:
            await link._opened
        except BaseException:
            link.abort()
            raise
        return link

    async def call(
        self,
        method: str,
        params: Mapping[str, object],
        *,
        on_sent: Callable[[], None] | None = None,
        on_result: Result | None = None,
    ) -> object:
        """Call a method. Raises ZonedError as the daemon answers, or LinkLostError.

        `on_sent` is called when there is no way back; `on_result` also if nobody waits any more.
        """
        number = self._numbers = self._numbers + 1
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        frame = websocket.encode(websocket.BINARY, msgpack.packb(request), is_masked=True)
        if len(frame) > MESSAGE_BYTES_MAX:
            raise _too_large(len(frame))
        await self._turn()
        future: asyncio.Future[object] = self._loop.create_future()
        self._asked[number] = _Asked(future, len(frame), on_result)
        assert self._transport is not None
        if on_sent is not None:
            on_sent()
        self._transport.write(frame)
        return await future

    def send(self, method: str, params: Mapping[str, object]) -> None:
        """Tell the daemon something without waiting, neither for room nor for an answer."""
        if not self.is_lost and self._transport is not None:
            payload = msgpack.packb({"jsonrpc": "2.0", "method": method, "params": params})
            self._transport.write(websocket.encode(websocket.BINARY, payload, is_masked=True))

    def abort(self) -> None:
        """End at once."""
        if self._transport is not None:
            self._transport.abort()

    # -- turns

    async def _turn(self) -> None:
        """Wait, in line, until a request may be written."""
        while True:
            if self.is_lost:
                raise LinkLostError(self._reason)
            if self._may_write() and not self._waiting:
                return
            place: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                if place in self._waiting:
                    self._waiting.remove(place)
                # Its turn may have come already: the next one must not wait for ever.
                self._next_turn()
                raise
            if not self.is_lost:
                return

    def _may_write(self) -> bool:
        return not self._is_clogged and len(self._asked) < self._window

    def _next_turn(self) -> None:
        """Let one of those who wait go on; it has written before the next one is asked."""
        while self._waiting and (self.is_lost or self._may_write()):
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                if not self.is_lost:
                    self._loop.call_soon(self._next_turn)
                    return

    # -- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        try:
            if not self._opened.done():
                self._open(data)
                return
            messages = self._decoder.feed(data)
            for opcode, payload in messages:
                self._message(opcode, payload)
        except (websocket.FrameError, ZonedError, ValueError, msgpack.UnpackException) as error:
            self._reason = f"the daemon sent nonsense: {error}"
            self.abort()

    def _open(self, data: bytes) -> None:
        self._head += data
        head, end, rest = self._head.partition(handshake.HEAD_END)
        if not end:
            if len(head) > handshake.HEAD_BYTES_MAX:
                self.abort()
            return
        try:
            handshake.check_answer(head, self._key)
        except ZonedError as error:
            self._opened.set_exception(error)
            return
        self._opened.set_result(None)
        if rest:
            self.data_received(rest)

    def _message(self, opcode: int, payload: bytes) -> None:
        assert self._transport is not None
        if opcode == websocket.PING:
            self._transport.write(websocket.encode(websocket.PONG, payload, is_masked=True))
        elif opcode == websocket.CLOSE:
            code, reason = websocket.close_reason(payload)
            self._reason = reason or self._reason
            if code == websocket.TOO_BIG and self._asked:
                largest = max(self._asked, key=lambda number: self._asked[number].size)
                asked = self._asked.pop(largest)
                if not asked.future.done():
                    asked.future.set_exception(_too_large(asked.size))
            self._transport.close()
        elif opcode == websocket.BINARY:
            self._take(msgpack.unpackb(payload))

    def _take(self, message: object) -> None:
        if not isinstance(message, dict):
            raise ValueError("that is no reply")
        if "id" not in message:
            params = message.get("params", {})
            subscriber = self.subscribers.get(params.get("subscription"))
            if subscriber is not None:
                subscriber(params)
            return
        number = message["id"]
        if number is None and len(self._asked) == 1:
            # About a request that could not be read: the only one there is.
            number = next(iter(self._asked))
        asked = self._asked.pop(number, None)
        if asked is None:
            raise ValueError(f"an answer to nothing: {str(message.get('error'))[:200]}")
        self._answer(asked, message)
        self._next_turn()

    def _answer(self, asked: _Asked, message: Mapping[str, object]) -> None:
        if "error" in message:
            if not asked.future.done():
                asked.future.set_exception(handshake.error_of(message["error"]))
            return
        result = message.get("result")
        if asked.on_result is not None:
            asked.on_result(result)
        if not asked.future.done():
            asked.future.set_result(result)

    def pause_writing(self) -> None:
        self._is_clogged = True

    def resume_writing(self) -> None:
        self._is_clogged = False
        self._next_turn()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        if not self._opened.done():
            message = "the daemon hung up at once"
            self._opened.set_exception(ZonedError("UNAVAILABLE", message, daemon="gone"))
            self._opened.exception()  # whoever opened it may have been cancelled
        asked, self._asked = self._asked, {}
        for each in asked.values():
            if not each.future.done():
                each.future.set_exception(LinkLostError(self._reason))
        self._next_turn()
        self.subscribers.clear()
        for told in list(self.on_lost):
            told()
        self.on_lost.clear()


def _too_large(size: int) -> ZonedError:
    message = f"a request of {size} bytes; the daemon takes less"
    return ZonedError("TOO_LARGE", message, limit=MESSAGE_BYTES_MAX, hint="send it in parts")
