"""`python -m bench.rest_load`: many clients of REST on one event loop, each with one request at a
time, each request on a connection of its own, as the daemon wants it.

A process of its own, so that it takes its share of the cores as clients do. Reads what to ask from
stdin as JSON: `path` of the socket, `clients`, `seconds`, `requests`: `[method, target, body]`,
taken in turn, each once if `is_once`. Prints one JSON object.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import cycle
from typing import Any, cast

import uvloop


def head_of(method: str, target: str, body: str) -> bytes:
    """A request whole."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body.encode())}"]
    return ("\r\n".join([*lines, "", ""]) + body).encode()


class Exchange(asyncio.Protocol):
    """One request and its answer, which ends with the connection."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.answer = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self.answer += data

    def connection_lost(self, error: Exception | None) -> None:
        self.done.set_result(None)


async def client(path: str, requests: Iterator[bytes], until: float, found: list[float]) -> None:
    """Ask one after the other until the time is over, or nothing is left to ask."""
    loop = asyncio.get_running_loop()
    for request in requests:
        started = time.perf_counter()
        _, exchange = await loop.create_unix_connection(partial(Exchange, request), path)
        await exchange.done
        assert exchange.answer.startswith(b"HTTP/1.1 20"), exchange.answer
        found.append(time.perf_counter() - started)
        if time.perf_counter() > until:
            return


async def run(asked: dict[str, Any]) -> dict[str, float]:
    """The rate, and the median of the latency."""
    whole = [head_of(*each) for each in asked["requests"]]
    requests = iter(whole) if asked["is_once"] else cycle(whole)
    found: list[float] = []
    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(asked["clients"]):
            until = started + asked["seconds"]
            group.create_task(client(asked["path"], requests, until, found))
    taken = time.perf_counter() - started
    return {"rate": len(found) / taken, "p50_us": sorted(found)[len(found) // 2] * 1e6}


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(run(json.load(sys.stdin)))))
