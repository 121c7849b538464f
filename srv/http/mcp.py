"""`/mcp`: the Model Context Protocol over streamable HTTP, in the daemon.

The official library is an ASGI application. This is the bridge between it and the HTTP server: the
request is handed over whole, its answer is passed on as it comes, and ends with the client or with
the daemon. Token, Host and Origin were judged before (front.py).

The library is imported at the first request, on a thread: nobody else shall wait for it.

Bounds: a body has a size, few large ones are held at a time, sessions of the protocol are counted
and end when they are idle; streams are connections, which are counted, too.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from aiohttp import web

from srv.http.front import Counted
from srv.rpc.service import Service

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"
BODY_BYTES_MAX = 16 << 20
"""More than a record can have."""
DROPPED_BYTES_MAX = 32 << 20
"""So much of a body is read that is too large; after that the client is cut off."""
SMALL_BYTES_MAX = 64 << 10
LARGE_MAX = 8
"""Bodies that are not small, at a time; the others wait."""
BODY_S_MAX = 60.0

log = logging.getLogger("zoned.mcp")

Message = MutableMapping[str, Any]


class Door:
    """Where MCP requests come in. `run` is one of the daemon's tasks."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._wanted = asyncio.Event()
        self._ready: asyncio.Future[StreamableHTTPSessionManager] = asyncio.Future()
        self._large = asyncio.Semaphore(LARGE_MAX)
        self._streams: set[asyncio.Task[Any]] = set()

    async def run(self) -> None:
        """Serve from the first request on, until cancelled. If it fails, the daemon does not: who
        waits hears of it, and the next request begins anew.
        """
        while True:
            await self._wanted.wait()
            try:
                async with _manager(self._service) as manager:
                    self._ready.set_result(manager)
                    await asyncio.Event().wait()
            except Exception:  # whatever it is in there, panes are served all the same
                log.exception("MCP over HTTP has failed")
            self._wanted.clear()
            failed, self._ready = self._ready, asyncio.Future()
            failed.cancel()

    async def _opened(self) -> "StreamableHTTPSessionManager":
        self._wanted.set()
        ready = self._ready
        await asyncio.wait([ready])
        if ready.cancelled():
            raise web.HTTPServiceUnavailable
        return ready.result()

    def cut(self) -> None:
        """Let nobody in any more who came by the old token: end what is streamed."""
        for task in self._streams:
            task.cancel()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        manager = await self._opened()
        length = request.content_length
        is_small = not request.can_read_body or (length is not None and length <= SMALL_BYTES_MAX)
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            if is_small:
                return await _answer(request, manager)
            async with self._large:
                return await _answer(request, manager)
        finally:
            self._streams.discard(task)


@asynccontextmanager
async def _manager(service: Service) -> AsyncIterator["StreamableHTTPSessionManager"]:
    """The library, imported and running."""
    make = await asyncio.to_thread(_import)
    async with make(service) as manager:
        yield manager


def _import() -> Callable[[Service], Any]:
    from srv.mcp.streamable import streamable

    return streamable


async def _answer(
    request: web.Request, manager: "StreamableHTTPSessionManager"
) -> web.StreamResponse:
    exchange = _Exchange(request, await _body(request))
    await manager.asgi_app(_scope(request), exchange.receive, exchange.send)
    # Without one the client has gone, and nobody hears this.
    return exchange.response or web.Response(status=503)


async def _body(request: web.Request) -> bytes:
    """The body, if it is not too large. One that is a little so is read, and dropped, before that
    is said: a client that is cut off while it sends hears nothing.
    """
    found = bytearray()
    size = 0
    try:
        async with asyncio.timeout(BODY_S_MAX):
            async for part in request.content.iter_any():
                size += len(part)
                if size <= BODY_BYTES_MAX:
                    found += part
                elif size > DROPPED_BYTES_MAX:
                    break
    except TimeoutError as error:
        raise web.HTTPRequestTimeout from error
    if size > BODY_BYTES_MAX:
        raise web.HTTPRequestEntityTooLarge(BODY_BYTES_MAX, size)
    return bytes(found)


def _scope(request: web.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": request.path,
        "raw_path": request.rel_url.raw_path.encode(),
        "query_string": request.rel_url.raw_query_string.encode(),
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
        "client": None,
        "server": None,
        "state": {},
    }


class _Exchange:
    """What the library calls of us: one request, and its answer."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self._request = request
        self._body: bytes | None = body
        self._lost = _lost(request)
        self.response: web.StreamResponse | None = None

    async def receive(self) -> Message:
        """The body at once; after that, that the client has gone, when it has."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._lost.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Pass on a piece of the answer; waits while the client does not read."""
        with suppress(ConnectionError):  # it has gone, which `receive` tells
            await self._pass_on(message)

    async def _pass_on(self, message: Message) -> None:
        match message["type"]:
            case "http.response.start":
                self.response = _response(message)
                await self.response.prepare(self._request)
            case "http.response.body":
                assert self.response is not None
                if body := message.get("body"):
                    await self.response.write(body)
                if not message.get("more_body"):
                    await self.response.write_eof()


def _lost(request: web.Request) -> asyncio.Event:
    """Set when the client has gone."""
    counted = request.transport and request.transport.get_protocol()
    if isinstance(counted, Counted):
        return counted.lost
    gone = asyncio.Event()
    gone.set()
    return gone


def _response(start: Message) -> web.StreamResponse:
    from srv.http.app import HEADERS  # late: it has the route that leads here

    response = web.StreamResponse(status=start["status"])
    for name, value in start.get("headers", ()):
        response.headers[name.decode("latin-1").title()] = value.decode("latin-1")
    response.headers.update(HEADERS)
    response.force_close()
    return response
