"""Server-sent events: what is said in a session and how it stands, as it happens.

Each event is one record of the session, and its `id` is the record's seq: who comes back with it as
`Last-Event-ID`, after a cut or a restart of the daemon, misses nothing and gets nothing twice.
Records are read when there is room to send them, so a slow client costs a page of memory and nobody
else anything. It is cut off if it reads nothing at all for long, or has gone; all end when the
daemon stops.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from aiohttp import web

from filestore.errors import NotFoundError
from filestore.journal.model import RECORDS_MAX
from filestore.records.messages import message_of
from filestore.times import iso
from srv.http.rest.answers import dump, known
from srv.http.rest.route import EVENT_STREAM, Call, Route
from srv.http.rest.schema import Text, Whole, wrong
from srv.http.rest.shapes import message_shape

if TYPE_CHECKING:
    from filestore.records import Record

LOOK_S = 1.0
"""How often it is looked whether the client is still there."""
STUCK_S_MAX = 30.0
RETRY_MS = 1000
"""What browsers wait before they come back."""

log = logging.getLogger("zoned.rest")


class Streams:
    """All streams of a daemon, so that they can be ended; those of a time share `is_over`."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()

    def end(self) -> None:
        """End all that there are."""
        self.is_over.set()
        self.is_over = asyncio.Event()


class Stream:
    """One client that follows one session."""

    def __init__(self, request: web.Request, response: web.StreamResponse, session_id: str) -> None:
        self._request = request
        self._response = response
        self._session_id = session_id
        self._loop = asyncio.get_running_loop()
        self._told = self._loop.time()
        """When something was last sent, or a part of it was read."""
        self._unsent = 0
        self._is_sending = False

    async def run(
        self, pages: AsyncGenerator[list["Record"], None], over: asyncio.Event, heartbeat_s: float
    ) -> None:
        """Tell what there is and what comes, until the client has gone or `over` is set."""
        async with asyncio.TaskGroup() as group:
            telling = group.create_task(self._tell(pages))
            watching = group.create_task(self._watch(over, heartbeat_s))
            await asyncio.wait((telling, watching), return_when=asyncio.FIRST_COMPLETED)
            telling.cancel()
            watching.cancel()

    async def _tell(self, pages: AsyncGenerator[list["Record"], None]) -> None:
        try:
            async with contextlib.aclosing(pages):
                async for page in pages:
                    for record in page:
                        if event := event_of(self._session_id, record):
                            await self._send(event)
        except NotFoundError:
            await self._send(
                b"event: deleted\ndata: %b\n\n" % dump({"sessionId": self._session_id})
            )
        except ConnectionError:
            return  # the client has gone
        except Exception as error:  # the rim: the status is sent already, so it is told as an event
            found = known(error)
            told = {"error": found.kind, "message": found.message}
            await self._send(b"event: failed\ndata: %b\n\n" % dump(told))

    async def _watch(self, over: asyncio.Event, heartbeat_s: float) -> None:
        """Return when the stream is over for any reason but its own end."""
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(LOOK_S, heartbeat_s)):
                    await over.wait()
            transport = self._request.transport
            if transport is None or transport.is_closing():
                return
            now, unsent = self._loop.time(), transport.get_write_buffer_size()
            if not self._is_sending:
                if now - self._told >= heartbeat_s:
                    with contextlib.suppress(ConnectionError):
                        await self._send(b":\n\n")
            elif unsent < self._unsent:
                self._told = now
            elif now - self._told > STUCK_S_MAX:
                log.info("cut off a client that does not read its events")
                transport.abort()
                return
            self._unsent = unsent

    async def _send(self, data: bytes) -> None:
        self._is_sending = True
        try:
            await self._response.write(data)
        finally:
            self._is_sending = False
        self._told = self._loop.time()


def event_of(session_id: str, record: "Record") -> bytes | None:
    """A record as an event; None if it is not for followers."""
    found = _shape(session_id, record)
    if found is None:
        return None
    name, data = found
    # JSON of one line: a line break in a text is escaped there.
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (record.seq, name.encode(), dump(data))


def _shape(session_id: str, record: "Record") -> tuple[str, dict[str, object]] | None:
    body: dict[str, Any] = record.body
    if record.kind == "message":
        is_chunk = bool(body.get("partial") or body.get("is_chunk"))
        return "chunk" if is_chunk else "message", message_shape(message_of(session_id, [record]))
    match record.kind:
        case "open":
            told = {"status": "active", "reason": body.get("reason")}
        case "phase":
            told = {"status": "active", "phase": body["to"]}
        case "end":
            told = {name: body.get(name) for name in ("status", "phase", "reason", "summary")}
        case _:
            return None
    given = {name: value for name, value in told.items() if value is not None}
    return "status", {"sessionId": session_id, "timestamp": iso(record.at_ms), **given}


async def _events(call: Call) -> object:
    session_id, after_seq = call.path["id"], call.query.get("Last-Event-ID", -1)
    session = await call.records.get(session_id)
    if after_seq >= session.records:
        what = f"must be the id of an event; the last one may be {session.records - 1}"
        raise wrong("Last-Event-ID", what)
    response = web.StreamResponse(headers={"Content-Type": EVENT_STREAM})
    await response.prepare(call.request)
    stream = Stream(call.request, response, session_id)
    await response.write(b"retry: %d\n\n" % RETRY_MS)
    pages = call.records.follow(session_id, after_seq=after_seq)
    await stream.run(pages, call.streams.is_over, call.config.event_heartbeat_s)
    return response


ROUTES = (
    Route(
        "GET", "/api/sessions/{id}/events", "followSession", "messages",
        "What is said and how it stands, from the beginning and as it happens: server-sent events "
        "`message`, `chunk` (of an answer), `status`, `deleted`, `failed`",
        _events, 200, Text(about="a stream of events"),
        {404: "there is no such session"},
        header={"Last-Event-ID": Whole(0, RECORDS_MAX, "go on behind the event with this id")},
        media_type=EVENT_STREAM,
    ),
)  # fmt: skip
