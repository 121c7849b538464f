"""The first bytes of every connection, TCP or unix socket: who it is and what it wants.

One request head is read here, with a bound on its size and its time, and judged: nothing gets past
that may not. An upgrade to WebSocket at `/rpc` becomes an RPC connection; anything else is handed,
with the bytes read so far, to the HTTP server (app.py), which answers one request a connection, so
that every request is judged here. Refusals say little and come late; whoever has the token is never
delayed.
"""

import asyncio
import json
import logging
import re
import secrets
import socket
import struct
from collections.abc import Callable, Mapping
from typing import cast

from srv.http.access import SUBPROTOCOL, Access, Refusal, subprotocols
from srv.rpc.connection import Connection, Shared
from srv.websocket import accept_key

HEAD_BYTES_MAX = 16 << 10
REFUSAL_S_MAX = 0.25
RPC_PATH = "/rpc"
REST_PREFIX = "/api/"
REST_KINDS = {401: "UNAUTHORIZED", 403: "FORBIDDEN"}
_KEY = re.compile(r"[A-Za-z0-9+/]{22}==")
_LENGTH = re.compile(r"[0-9]{1,18}")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_ONCE = ("host", "origin", "authorization", "upgrade", "sec-websocket-key", "sec-websocket-version",
         "content-length", "transfer-encoding")  # fmt: skip
_REASONS = {400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 426: "Upgrade Required",
            431: "Request Header Fields Too Large", 503: "Service Unavailable"}  # fmt: skip

log = logging.getLogger("zoned.access")


class Doors:
    """What all fronts share: the rules, the bound on connections, and where they lead."""

    def __init__(
        self, shared: Shared, access: Access, http: Callable[[], asyncio.Protocol], uid: int
    ) -> None:
        self.shared = shared
        self.access = access
        self.http = http
        self.uid = uid
        self.waiting: set[Front] = set()
        """Connections that have not said what they want yet."""
        self.handed_over = 0
        """Connections that the HTTP server has."""

    @property
    def is_full(self) -> bool:
        config = self.shared.service.config
        in_use = len(self.shared.connections) + len(self.waiting) + self.handed_over
        return in_use > config.connections_max

    def sweep(self, now: float) -> None:
        """Close connections that take too long to say what they want."""
        deadline = now - self.shared.service.config.header_timeout_s
        for front in [each for each in self.waiting if each.since < deadline]:
            front.abort()


class Front(asyncio.Protocol):
    """A connection until it is known what it is."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._head = b""
        self._is_answered = False
        self.since = asyncio.get_running_loop().time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are none by class
        peer = transport.get_extra_info("socket")
        self._is_unix = peer.family == socket.AF_UNIX
        self._doors.waiting.add(self)
        if self._is_unix and _peer_uid(peer) not in (self._doors.uid, 0):
            log.warning("refused another user on the socket", extra={"uid": _peer_uid(peer)})
            self._count_refusal()
            self.abort()
        elif self._doors.is_full:
            log.warning("refused a connection: there are too many")
            self._count_refusal()
            self._answer(Refusal(503, "too many connections; try again later"))

    def data_received(self, data: bytes) -> None:
        if self._is_answered:
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end > HEAD_BYTES_MAX or (end < 0 and len(self._head) > HEAD_BYTES_MAX):
            self._answer(Refusal(431, f"headers may have {HEAD_BYTES_MAX} bytes"))
        elif end >= 0:
            self._decide(self._head[:end], self._head[end + 4 :])
        elif not _may_be_http(self._head):
            self._answer(Refusal(400, "this port speaks HTTP and WebSocket"))

    def connection_lost(self, error: Exception | None) -> None:
        self._is_answered = True
        self._doors.waiting.discard(self)

    def abort(self) -> None:
        """End at once."""
        self._is_answered = True
        self._transport.abort()

    def _decide(self, head: bytes, rest: bytes) -> None:
        parsed = _parse(head)
        if parsed is None:
            self._answer(Refusal(400, "that is no valid request"))
            return
        method, target, headers = parsed
        if not self._is_unix:
            refusal = self._doors.access.refusal(target, headers)
            if refusal is not None:
                self._refuse(refusal, is_json=target.startswith(REST_PREFIX))
                return
        if headers.get("upgrade", "").lower() != "websocket":
            # Said here, not left to the HTTP server: it has answers of its own after which it goes
            # on, and the next request would be judged by nobody.
            first, _, lines = self._head.partition(b"\r\n")
            self._hand_over(self._doors.http(), b"%b\r\nConnection: close\r\n%b" % (first, lines))
            return
        refusal = _upgrade_refusal(method, target, headers)
        if refusal is not None:
            self._answer(refusal)
            return
        self._transport.write(_accepted(headers))
        peer = "unix" if self._is_unix else "tcp"
        self._hand_over(Connection(self._doors.shared, self._transport, peer), rest)

    def _hand_over(self, protocol: asyncio.Protocol, data: bytes) -> None:
        self._is_answered = True
        self._doors.waiting.discard(self)
        if not isinstance(protocol, Connection):
            protocol = Counted(protocol, self._doors)
            protocol.connection_made(self._transport)
        self._transport.set_protocol(protocol)
        if data:
            protocol.data_received(data)

    def _refuse(self, refusal: Refusal, *, is_json: bool) -> None:
        """Answer a wrong or missing token, host or origin: late, so that guessing is slow."""
        self._count_refusal()
        self._is_answered = True
        log.warning("refused a request", extra={"status": refusal.status})
        delay = secrets.SystemRandom().uniform(REFUSAL_S_MAX / 2, REFUSAL_S_MAX)
        asyncio.get_running_loop().call_later(delay, self._answer, refusal, is_json)

    def _answer(self, refusal: Refusal, is_json: bool = False) -> None:
        self._is_answered = True
        if self._transport.is_closing():
            return
        body, kind = f"{refusal.text}\n", "text/plain"
        if is_json:
            # In the words of REST; no other answer of ours has a target that is known by now.
            told = {"error": REST_KINDS[refusal.status], "message": refusal.text}
            body, kind = json.dumps(told), "application/json"
        head = (
            f"HTTP/1.1 {refusal.status} {_REASONS[refusal.status]}\r\n"
            f"Content-Type: {kind}; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        self._transport.write((head + body).encode())
        self._transport.close()

    def _count_refusal(self) -> None:
        self._doors.shared.service.metrics.connections_refused += 1


class Counted(asyncio.Protocol):
    """The HTTP server's protocol, counted among the connections while it lasts. `lost` is set when
    it has ended: nobody reads what is still answered.
    """

    def __init__(self, inner: asyncio.Protocol, doors: Doors) -> None:
        self._inner = inner
        self._doors = doors
        doors.handed_over += 1
        self.lost = asyncio.Event()
        self.connection_made = inner.connection_made  # type: ignore[method-assign]  # one hop less
        self.data_received = inner.data_received  # type: ignore[method-assign]  # the same
        self.eof_received = inner.eof_received  # type: ignore[method-assign]  # the same
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]  # the same
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]  # the same

    def connection_lost(self, error: Exception | None) -> None:
        self._doors.handed_over -= 1
        self.lost.set()
        self._inner.connection_lost(error)


def _parse(head: bytes) -> tuple[str, str, Mapping[str, str]] | None:
    """Method, target and headers of a request; None if it is not one, or ambiguous."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[0] not in _METHODS or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
        return None
    if not words[1].startswith("/"):
        return None  # nobody comes by way of a proxy
    if any(map(_CONTROL.search, (first, *lines))):
        return None  # a line break for others, perhaps
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        key = name.lower()
        if not colon or not _NAME.fullmatch(name) or (key in headers and key in _ONCE):
            return None
        value = value.strip(" \t")
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    if "content-length" in headers and (
        "transfer-encoding" in headers or not _LENGTH.fullmatch(headers["content-length"])
    ):
        return None
    if headers.get("expect", "100-continue").lower() != "100-continue":
        return None
    return words[0], words[1], headers


def _upgrade_refusal(method: str, target: str, headers: Mapping[str, str]) -> Refusal | None:
    if target.partition("?")[0] != RPC_PATH:
        return Refusal(400, f"WebSocket is spoken at {RPC_PATH}")
    connection = {word.strip() for word in headers.get("connection", "").lower().split(",")}
    if method != "GET" or "upgrade" not in connection:
        return Refusal(400, "that is no valid upgrade to WebSocket")
    if headers.get("sec-websocket-version") != "13":
        return Refusal(426, "WebSocket version 13 is spoken")
    if not _KEY.fullmatch(headers.get("sec-websocket-key", "")):
        return Refusal(400, "that is no valid upgrade to WebSocket")
    return None


def _accepted(headers: Mapping[str, str]) -> bytes:
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accept_key(headers['sec-websocket-key'].encode()).decode()}",
    ]
    if offered := subprotocols(headers):
        # A browser hangs up unless one of those it offered is chosen.
        chosen = SUBPROTOCOL if SUBPROTOCOL in offered else offered[0]
        lines.append(f"Sec-WebSocket-Protocol: {chosen}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _may_be_http(head: bytes) -> bool:
    """False once it is sure that this is no request: TLS, or whatever somebody typed."""
    return re.match(rb"[A-Za-z!#$%&'*+.^_`|~0-9-]{0,32}( |$)", head) is not None


def _peer_uid(peer: socket.socket) -> int:
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)
