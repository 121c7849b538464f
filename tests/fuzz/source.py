"""Bytes as the values that a target needs."""

import struct
from typing import Any

WORDS = (b"z", b"f", b"output", b"output.state.json", b"{}", b'{"circular":true,"maxsize":9}')


class Text(bytes):
    """To be stored as text, whether it is UTF-8 or not."""


class Source:
    """Bytes as what they are taken for."""

    def __init__(self, data: bytes) -> None:
        self.left = data

    def take(self, size: int) -> bytes:
        part, self.left = self.left[:size], self.left[size:]
        return part

    def byte(self) -> int:
        return (self.take(1) or b"\0")[0]

    def value(self) -> Any:
        """A value of any type that a column can have."""
        kind, rest = divmod(self.byte(), 8)
        match rest:
            case 0:
                return None
            case 1:
                return kind
            case 2:
                return struct.unpack("<q", self.take(8).ljust(8, b"\0"))[0]
            case 3:
                return struct.unpack("<d", self.take(8).ljust(8, b"\0"))[0]
            case 4:
                return self.take(self.byte())
            case 5:
                return Text(WORDS[kind % len(WORDS)])
            case _:
                return Text(self.take(self.byte()))
