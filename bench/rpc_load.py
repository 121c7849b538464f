"""`python -m bench.rpc_load`: many clients on one event loop, each with one request at a time.

A process of its own, so that it takes its share of the cores as clients do, and lean: frames are
made once and answers are only measured, not looked into. Prints one JSON object.
"""

import asyncio
import json
import sys
import time
from functools import partial

import uvloop

from srv import websocket

HANDSHAKE = (
    b"GET /rpc HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
MASK = bytes.fromhex("8f3a51c7")
WARM_UP_S = 0.3
"""At most so long; no longer than what is measured."""


class Load:
    """What all clients of a run share."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.is_counting = False
        self.is_over = False


class Client(asyncio.Protocol):
    """Sends its frame again as soon as the answer is whole."""

    def __init__(self, load: Load, frame: bytes) -> None:
        self._load = load
        self._frame = frame
        self._wanted = 0
        self._got = b""
        self.is_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's own
        self._transport.write(HANDSHAKE)

    def begin(self) -> None:
        self._started = time.perf_counter()
        self._transport.write(self._frame)

    def data_received(self, data: bytes) -> None:
        if not self.is_up.done():
            self._got += data
            if b"\r\n\r\n" in self._got:
                assert self._got.startswith(b"HTTP/1.1 101"), self._got
                self._got = b""
                self.is_up.set_result(None)
            return
        if not self._wanted:
            data = self._got + data
            self._wanted = _size(data)
            self._got = b"" if self._wanted else data
        self._wanted -= len(data) if self._wanted else 0
        if self._wanted or self._got:
            return
        now = time.perf_counter()
        load = self._load
        if load.is_counting:
            load.latencies.append(now - self._started)
        if not load.is_over:
            self._started = now
            self._transport.write(self._frame)


def _size(data: bytes) -> int:
    """The size of the frame that begins here; 0 if that cannot be told yet."""
    if len(data) < 10:
        return 0
    size = data[1] & 127
    if size < 126:
        return 2 + size
    if size == 126:
        return 4 + int.from_bytes(data[2:4], "big")
    return 10 + int.from_bytes(data[2:10], "big")


def frame(kind: str, number: int, size: int) -> bytes:
    """The request of client `number`."""
    params: dict[str, object] = {}
    method = {"info": "srv:info", "read": "agent:session:read"}.get(kind, "")
    if kind == "append":
        method = "agent:session:append_output"
        params = {"definition_id": f"bench-{number}", "line": "x" * size}
    elif kind == "read":
        params = {"definition_id": "bench-0"}
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    payload = json.dumps(request).encode() if method else b"x" * size
    # Masked as browsers do: with a key that the server has to undo.
    plain = websocket.encode(websocket.TEXT, payload, is_masked=True)
    head = plain[: len(plain) - len(payload) - 4]
    return head + MASK + websocket.mask(payload, MASK)


async def run(path: str, kind: str, clients: int, seconds: float, size: int) -> dict[str, float]:
    """Rate, and the median and 99th percentile of the latency in µs."""
    loop, load = asyncio.get_running_loop(), Load()
    made = []
    for number in range(clients):
        make = partial(Client, load, frame(kind, number, size))
        _, client = await loop.create_unix_connection(make, path)
        made.append(client)
    for client in made:
        await client.is_up
    for client in made:
        client.begin()
    await asyncio.sleep(min(WARM_UP_S, seconds))
    load.is_counting, started = True, time.perf_counter()
    await asyncio.sleep(seconds)
    # On a busy machine nothing may have been answered yet.
    while not load.latencies:  # noqa: ASYNC110 - an event would slow down what is measured
        await asyncio.sleep(seconds)
    load.is_counting, load.is_over = False, True
    taken = time.perf_counter() - started
    found = sorted(load.latencies)
    return {
        "rate": len(found) / taken,
        "p50_us": found[len(found) // 2] * 1e6,
        "p99_us": found[len(found) * 99 // 100] * 1e6,
    }


if __name__ == "__main__":
    path, kind, clients, seconds, size = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(run(path, kind, int(clients), float(seconds), int(size)))))
