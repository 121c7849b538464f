"""Connections without a network: a transport that a test plays the peer of."""

import asyncio
import socket

from srv.rpc.connection import Connection, Shared

MIB = 1 << 20


class Transport(asyncio.Transport):
    """A peer that reads nothing: everything stays in the buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.unread = 1000
        self.is_aborted = False
        self.is_paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_aborted = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return _Tcp() if name == "socket" else default


class _Tcp:
    family = socket.AF_INET


def is_gone(transport: Transport) -> bool:
    """A call, so that the type checker expects it to change."""
    return transport.is_aborted


def joined(shared: Shared) -> tuple[Connection, Transport]:
    transport = Transport()
    return Connection(shared, transport, "tcp"), transport
