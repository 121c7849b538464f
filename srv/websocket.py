"""WebSocket (RFC 6455), the parts that do no I/O: frames, the decoder of a stream of them, and the
key of the opening handshake. Used by the daemon and by its clients.

The decoder is ours because of memory: it knows how long a message will be as soon as its header is
there, so the daemon can wait for room before it reads on. No extension is spoken: a compressed
message could not be bounded by its header.

    byte 0   FIN 0x80, reserved 0x70 (must be 0), opcode 0x0f
    byte 1   MASK 0x80 (set by clients only), length 0-125, 126: 2 more bytes, 127: 8 more bytes
    then     the mask's key (4 bytes, if masked), the payload
"""

import base64
import hashlib
from functools import cache
from typing import NamedTuple

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10

NORMAL = 1000
GOING_AWAY = 1001
PROTOCOL_ERROR = 1002
POLICY = 1008
TOO_BIG = 1009
INTERNAL = 1011

CONTROL_BYTES_MAX = 125
HEADER_BYTES_MAX = 14
FRAGMENTS_MAX = 65536
NO_MASK = bytes(4)
LONG_BYTES_MIN = 1024
_ACCEPT_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class FrameError(Exception):
    """The peer broke the protocol or a limit: the connection is closed with `code`."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Message(NamedTuple):
    """A whole message, or a control frame: opcode and payload, unmasked."""

    opcode: int
    payload: bytes


class Decoder:
    """Bytes as they come from a peer in, messages out. Keeps at most one message.

    After a FrameError it must not be fed again.
    """

    def __init__(self, message_bytes_max: int, *, is_server: bool) -> None:
        self._bytes_max = message_bytes_max
        self._is_server = is_server
        self._rest = b""
        """The beginning of a header."""
        self._frame: _Frame | None = None
        """A frame whose payload has not all come."""
        self._opcode = 0
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def pending_bytes(self) -> int:
        """How large the message under way will be, as far as its headers tell; 0 between two."""
        return self._size + (self._frame.size if self._frame else 0)

    @property
    def pending_bytes_max(self) -> int:
        """How large it may become. One in fragments tells only at its end: whoever sets room aside
        for it bit by bit may wait for others that do the same, and they for it.
        """
        is_whole = self._frame is not None and self._frame.is_final and not self._opcode
        return self.pending_bytes if is_whole else self._bytes_max

    def feed(self, data: bytes) -> list[Message]:
        """Take in what was received. Raises FrameError."""
        if self._is_server and not (self._frame or self._rest or self._opcode):
            short = _short_message(data)
            if short is not None:
                return [short]
        messages: list[Message] = []
        position = 0
        if self._frame is not None:
            position = self._frame.fill(data, 0)
            if self._frame.left:
                return messages
            self._end_frame(self._frame, messages)
        elif self._rest:
            data = self._rest + data
        self._rest = b""
        end = len(data)
        while end - position >= 2:
            frame = self._header(data, position)
            if frame is None:
                break
            position = frame.fill(data, frame.start)
            if frame.left:
                self._frame = frame
                return messages
            self._end_frame(frame, messages)
        self._rest = data[position:]
        return messages

    def _header(self, data: bytes, position: int) -> "_Frame | None":
        """The frame whose header stands at `position`; None if the header has not all come."""
        first, second = data[position], data[position + 1]
        start, size = position + 2, second & 0x7F
        is_masked = second >= 0x80
        if first & 0x70:
            raise FrameError(PROTOCOL_ERROR, "reserved bits are set; no extension was agreed on")
        if is_masked is not self._is_server:
            raise FrameError(PROTOCOL_ERROR, "a client masks its frames, a server does not")
        if size > CONTROL_BYTES_MAX:
            length = 2 if size == 126 else 8
            if len(data) < start + length:
                return None
            size = int.from_bytes(data[start : start + length], "big")
            start += length
        key = NO_MASK
        if is_masked:
            key = data[start : start + 4]
            start += 4
            if len(data) < start:
                return None
        opcode = first & 0x0F
        self._check(opcode, size, is_final=first >= 0x80)
        return _Frame(opcode, first >= 0x80, size, key, start)

    def _check(self, opcode: int, size: int, *, is_final: bool) -> None:
        if opcode >= CLOSE:
            if opcode > PONG or not is_final or size > CONTROL_BYTES_MAX:
                raise FrameError(PROTOCOL_ERROR, "that is no control frame")
            return
        if opcode > BINARY:
            raise FrameError(PROTOCOL_ERROR, f"opcode {opcode} is not known")
        if (opcode == CONTINUATION) is not bool(self._opcode):
            raise FrameError(PROTOCOL_ERROR, "a message goes on that has not begun, or the reverse")
        if self._size + size > self._bytes_max or len(self._parts) >= FRAGMENTS_MAX:
            raise FrameError(TOO_BIG, f"a message may have {self._bytes_max} bytes")

    def _end_frame(self, frame: "_Frame", messages: list[Message]) -> None:
        self._frame = None
        payload = frame.payload()
        if frame.opcode >= CLOSE or (frame.is_final and not self._opcode):
            messages.append(Message(frame.opcode, payload))
        else:
            self._parts.append(payload)
            self._size += frame.size
            self._opcode = self._opcode or frame.opcode
            if frame.is_final:
                messages.append(Message(self._opcode, b"".join(self._parts)))
                self._opcode, self._size, self._parts = 0, 0, []


class _Frame:
    """A frame whose header is known, and what has come of its payload."""

    __slots__ = ("_key", "_parts", "is_final", "left", "opcode", "size", "start")

    def __init__(self, opcode: int, is_final: bool, size: int, key: bytes, start: int) -> None:
        self.opcode = opcode
        self.is_final = is_final
        self.size = self.left = size
        self.start = start
        self._key = key
        self._parts: list[bytes] = []

    def fill(self, data: bytes, position: int) -> int:
        """Take what belongs to the payload from `position` on. Returns where it ends."""
        stop = min(len(data), position + self.left)
        # Unmasked as it comes: a large message is never gone through in one go.
        part = mask(data[position:stop], self._key)
        self.left -= len(part)
        self._parts.append(part)
        turn = len(part) % 4
        self._key = self._key[turn:] + self._key[:turn]
        return stop

    def payload(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


def _short_message(data: bytes) -> Message | None:
    """The usual case by the shortest way: one whole masked message of less than 64 KiB."""
    if len(data) < 8 or data[0] not in (0x80 | TEXT, 0x80 | BINARY):
        return None
    size, start = data[1] - 0x80, 6
    if size == 126:
        size, start = data[2] << 8 | data[3], 8
    if not 0 <= size == len(data) - start or size == 127:
        return None
    return Message(data[0] & 0x0F, mask(data[start:], data[start - 4 : start]))


def mask(data: bytes, key: bytes) -> bytes:
    """Mask or unmask. A key of zeros changes nothing, and costs nothing."""
    if key == NO_MASK:
        return data
    size = len(data)
    if size > LONG_BYTES_MIN:
        # Twice as fast as arithmetic when there is much of it.
        found = bytearray(data)
        for turn in range(4):
            found[turn::4] = data[turn::4].translate(_table(key[turn]))
        return bytes(found)
    whole = key * (size // 4) + key[: size % 4]
    return (int.from_bytes(data, "little") ^ int.from_bytes(whole, "little")).to_bytes(
        size, "little"
    )


@cache
def _table(byte: int) -> bytes:
    """Every byte combined with this one."""
    return bytes(each ^ byte for each in range(256))


def encode(opcode: int, payload: bytes, *, is_masked: bool = False) -> bytes:
    """A whole message as one frame. Masked means with a key of zeros: there is no proxy to fool."""
    size, bit = len(payload), 0x80 if is_masked else 0
    if size <= CONTROL_BYTES_MAX:
        head = bytes((0x80 | opcode, bit | size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, bit | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, bit | 127)) + size.to_bytes(8, "big")
    return head + NO_MASK + payload if is_masked else head + payload


def encode_close(code: int, reason: str, *, is_masked: bool = False) -> bytes:
    """The frame that ends a connection and says why."""
    text = reason.encode()[: CONTROL_BYTES_MAX - 2].decode(errors="ignore").encode()
    return encode(CLOSE, code.to_bytes(2, "big") + text, is_masked=is_masked)


def close_reason(payload: bytes) -> tuple[int, str]:
    """Code and reason in a close frame; 1005 if it has none."""
    if len(payload) < 2:
        return 1005, ""
    return int.from_bytes(payload[:2], "big"), payload[2:].decode(errors="replace")


def accept_key(key: bytes) -> bytes:
    """What the server answers to the client's key, which proves that it speaks WebSocket."""
    digest = hashlib.sha1(key + _ACCEPT_SUFFIX, usedforsecurity=False).digest()
    return base64.b64encode(digest)
