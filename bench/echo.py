"""`python -m bench.echo PATH`: a server that sends every message back, on the same event loop and
with the same WebSocket code as the daemon. What the daemon adds to that is what it costs.
"""

import asyncio
import sys
from typing import cast

import uvloop

from srv import websocket
from srv.http.front import _accepted, _parse

MESSAGE_BYTES_MAX = 64 << 20


class Echo(asyncio.Protocol):
    """One client."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._decoder = websocket.Decoder(MESSAGE_BYTES_MAX, is_server=True)
        self._is_up = False

    def data_received(self, data: bytes) -> None:
        if not self._is_up:
            parsed = _parse(data.removesuffix(b"\r\n\r\n"))
            assert parsed is not None
            self._transport.write(_accepted(parsed[2]))
            self._is_up = True
            return
        for opcode, payload in self._decoder.feed(data):
            self._transport.write(websocket.encode(opcode, payload))


async def serve(path: str) -> None:
    """Serve until killed."""
    await asyncio.get_running_loop().create_unix_server(Echo, path)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
