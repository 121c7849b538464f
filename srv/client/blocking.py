"""A client for commands: one plain socket, one call at a time, nothing that is slow to import.

It connects to the daemon's unix socket and speaks JSON, or MessagePack where much is sent. There is
no retry here: a command that fails says so. After any error that is not the daemon's own answer the
connection is closed, for it is not known where in the conversation it stands.

Not for several threads. Follow changes on a connection of their own: who calls does not read
notifications meanwhile, and the daemon does not read from who does not read.
"""

import base64
import json
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING

from srv import websocket
from srv.client import handshake

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from srv.errors import ZonedError

TIMEOUT_S = 60.0
RECEIVE_BYTES = 256 << 10
LARGE_BYTES_MIN = 1 << 20


class BlockingClient:
    """A connection to the daemon. Use it as a context manager, or `close` it.

    Raises ZonedError. UNAVAILABLE has in its data as `daemon` what is wrong with it: "absent" (no
    one listens), "silent" (no answer in time), "gone" (it hung up; whether it did what it was
    asked is not known), "other" (something else answers).
    """

    def __init__(self, path: "str | PathLike[str]", *, timeout_s: float = TIMEOUT_S) -> None:
        self._path = fspath(path)
        self._timeout_s = timeout_s
        self._decoder = websocket.Decoder(handshake.MESSAGE_BYTES_MAX, is_server=False)
        self._messages: deque[websocket.Message] = deque()
        self._notifications: deque[dict[str, object]] = deque()
        self._calls = 0
        self._deadline: float | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._is_open = True
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def call(
        self, method: str, params: Mapping[str, object], *, timeout_s: float | None = None
    ) -> object:
        """Call a method and wait for its result.

        Bytes in `params` may be any; bytes that are no UTF-8 come back as bytes, all else as text.
        Raises ZonedError with the daemon's kind, message and data.
        """
        self._set_deadline(self._timeout_s if timeout_s is None else timeout_s)
        self._calls += 1
        number = self._calls
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        frame = _frame(request)
        try:
            self._send(frame)
            while True:
                message = self._next_message()
                if "id" not in message:
                    self._notifications.append(_params(message))
                # Without an id it is about a request that could not be read: the only one there is.
                elif message["id"] in (number, None):
                    break
        except BaseException:
            # Also when interrupted: half a frame may be out, and the answer is still to come.
            self.close()
            raise
        if "error" in message:
            raise handshake.error_of(message["error"])
        return message.get("result")

    def notifications(self, *, timeout_s: float | None = None) -> Iterator[dict[str, object]]:
        """The params of each notification, as they come; ends only by an error.

        `timeout_s` is how long to wait for each one, by default for ever; then UNAVAILABLE.
        """
        while True:
            if self._notifications:
                yield self._notifications.popleft()
                continue
            self._set_deadline(timeout_s)
            try:
                message = self._next_message()
            except BaseException:
                self.close()
                raise
            if "id" not in message:
                self._notifications.append(_params(message))

    def close(self) -> None:
        """Hang up. Safe to call twice."""
        if self._is_open:
            self._is_open = False
            self._socket.close()

    def __enter__(self) -> "Self":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: "TracebackType | None",
    ) -> None:
        self.close()

    # -- the connection

    def _connect(self) -> None:
        self._set_deadline(self._timeout_s)
        self._socket.settimeout(self._timeout_s)
        try:
            self._socket.connect(self._path)
        except TimeoutError as error:
            raise self._unavailable("silent", "the daemon does not answer") from error
        except OSError as error:
            why = error.strerror or str(error)
            raise self._unavailable("absent", f"no daemon listens there: {why}") from error
        key = handshake.new_key()
        self._send(handshake.request_head("localhost", key))
        head = b""
        while handshake.HEAD_END not in head:
            if len(head) > handshake.HEAD_BYTES_MAX:
                raise self._unavailable("other", "who answers there is no daemon")
            head += self._receive()
        answer, _, rest = head.partition(handshake.HEAD_END)
        handshake.check_answer(answer, key)
        self._feed(rest)

    def _next_message(self) -> dict[str, object]:
        """The next object from the daemon. Pings are answered on the way."""
        while True:
            while not self._messages:
                self._feed(self._receive())
            opcode, payload = self._messages.popleft()
            if opcode == websocket.PING:
                self._send(websocket.encode(websocket.PONG, payload, is_masked=True))
            elif opcode == websocket.CLOSE:
                _, reason = websocket.close_reason(payload)
                raise self._unavailable("gone", f"the daemon hung up: {reason or 'no reason'}")
            elif opcode != websocket.PONG:
                return self._decode(payload, opcode == websocket.BINARY)

    def _decode(self, payload: bytes, is_binary: bool) -> dict[str, object]:
        try:
            message = _unpack(payload) if is_binary else _load(payload)
        except ValueError as error:
            raise self._unavailable("other", "the daemon sent what cannot be read") from error
        if not isinstance(message, dict):
            raise self._unavailable("other", "the daemon sent what is no reply")
        return message

    def _feed(self, data: bytes) -> None:
        try:
            self._messages.extend(self._decoder.feed(data))
        except websocket.FrameError as error:
            raise self._unavailable("other", f"the daemon sent nonsense: {error}") from error

    def _set_deadline(self, timeout_s: float | None) -> None:
        if not self._is_open:
            raise self._unavailable("gone", "the connection to the daemon is closed")
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s

    def _left_s(self) -> float | None:
        if self._deadline is None:
            return None
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self._unavailable("silent", "the daemon does not answer in time")
        return left

    def _send(self, data: bytes) -> None:
        self._socket.settimeout(self._left_s())
        try:
            self._socket.sendall(data)
        except TimeoutError as error:
            raise self._unavailable("silent", "the daemon does not answer in time") from error
        except OSError as error:
            raise self._unavailable("gone", f"the daemon is gone: {error.strerror}") from error

    def _receive(self) -> bytes:
        self._socket.settimeout(self._left_s())
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError as error:
            raise self._unavailable("silent", "the daemon does not answer in time") from error
        except OSError as error:
            raise self._unavailable("gone", f"the daemon is gone: {error.strerror}") from error
        if not data:
            raise self._unavailable("gone", "the daemon is gone")
        return data

    def _unavailable(self, daemon: str, message: str) -> "ZonedError":
        hint = "start it with: zoned serve" if daemon == "absent" else ""
        return handshake.error("UNAVAILABLE", message, daemon=daemon, socket=self._path, hint=hint)


def _frame(request: dict[str, object]) -> bytes:
    """A request as it is sent: as JSON, or, if that would make much of it larger, as MessagePack,
    which leaves bytes as they are but takes time to import.
    """
    params = request["params"]
    assert isinstance(params, Mapping)
    if any(isinstance(each, bytes) and len(each) > LARGE_BYTES_MIN for each in params.values()):
        import msgpack

        return websocket.encode(websocket.BINARY, msgpack.packb(request), is_masked=True)
    payload = json.dumps(request, default=_text_or_base64, separators=(",", ":"))
    return websocket.encode(websocket.TEXT, payload.encode(), is_masked=True)


def _load(payload: bytes) -> object:
    # The hook costs time on every object, and hardly any answer needs it.
    hook = _bytes_from_base64 if b'"base64"' in payload else None
    return json.loads(payload, object_hook=hook)


def _unpack(payload: bytes) -> object:
    import msgpack

    found: object = msgpack.unpackb(payload)
    return found


def _params(message: Mapping[str, object]) -> dict[str, object]:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _text_or_base64(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(data).decode()}
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _bytes_from_base64(value: dict[str, object]) -> object:
    text = value.get("base64")
    if len(value) == 1 and isinstance(text, str):
        return base64.b64decode(text)
    return value
