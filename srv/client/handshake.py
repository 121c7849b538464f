"""The opening of a WebSocket from the client's side, and what an RPC error becomes. No I/O.

Used by both clients, so it imports nothing that a command would wait for.
"""

import base64
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from srv.websocket import accept_key

if TYPE_CHECKING:
    from srv.errors import ZonedError

RPC_PATH = "/rpc"
HEAD_BYTES_MAX = 16 << 10
HEAD_END = b"\r\n\r\n"
MESSAGE_BYTES_MAX = 1 << 30
"""What a client takes; how large an answer may be is the daemon's business."""


def new_key() -> bytes:
    """The client's part of the handshake."""
    return base64.b64encode(os.urandom(16))


def request_head(host: str, key: bytes, token: str = "") -> bytes:
    """The request that asks for an upgrade."""
    lines = [
        f"GET {RPC_PATH} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key.decode()}",
    ]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def check_answer(head: bytes, key: bytes) -> None:
    """Raise ZonedError unless this is the answer of a daemon that lets us in."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    status = words[1] if len(words) > 1 and words[0].startswith("HTTP/1.") else ""
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if status in ("401", "403"):
        hint = "give the token of this data folder; it is in its file `token`"
        raise error("UNAUTHORIZED", "the daemon does not let this client in", hint=hint)
    if status == "503":
        raise error("BUSY", "the daemon has too many connections", hint="try again later")
    if status != "101" or headers.get("sec-websocket-accept") != accept_key(key).decode():
        raise error("UNAVAILABLE", "who answers there is no daemon of this kind", daemon="other")


def error(kind: str, message: str, **data: object) -> "ZonedError":
    """A ZonedError. Made here because importing its class imports the store, which a command that
    meets no error need not wait for.
    """
    from srv.errors import ZonedError

    return ZonedError(kind, message, **data)


def error_of(body: object) -> "ZonedError":
    """The ZonedError for the `error` of an RPC reply; `data` has all that the daemon said."""
    from srv.errors import KINDS

    found = body if isinstance(body, Mapping) else {}
    told = found.get("data")
    data = dict(told) if isinstance(told, Mapping) else {}
    kind = str(data.pop("kind", ""))
    data.pop("message", None)
    if kind not in KINDS:
        # A daemon newer than this client: better an error of a wrong kind than none.
        kind, data = "INTERNAL", {**data, "unknown_kind": kind}
    text = str(found.get("message", "the daemon gave no reason"))
    # On the wire the message begins with the method and the kind, for those who only print it.
    message = text.partition(f"{kind}: ")[2] or text
    return error(kind, message, **data)
