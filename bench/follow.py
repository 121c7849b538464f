"""`zoned replay --follow`: how long after its acknowledgement a line is shown."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from queue import SimpleQueue
from statistics import median

from bench.measure import Context, Row, Target, quantity
from bench.rpc import END_S, daemon
from srv.client.blocking import BlockingClient

EDGES_MS = (1, 2, 5, 10, 20, 50)
"""The histogram's bounds."""
TARGET = Target("≤", 50)
AT_ONCE_MS = 0.001
"""A line that is shown before its writer has the answer."""


async def follow_latency(context: Context) -> list[Row]:
    """Lines one after the other, each appended when the last one was shown. The note is the
    histogram.
    """
    count = context.pick(20, 200, 1000)
    folder = context.fresh("follow")
    with daemon(folder) as ours:
        found = await asyncio.to_thread(_measure, ours.socket, folder, count)
    context.drop(folder)
    sides = quantity(median(found), "ms"), ""
    return [Row("follow_latency", *sides, found, "ms", TARGET, _histogram(found))]


def _measure(socket: str, folder: Path, count: int) -> list[float]:
    command = [sys.executable, "-m", "srv.cli.main", "replay", "ada", "--follow", "--json"]
    shown: SimpleQueue[float] = SimpleQueue()
    with (
        BlockingClient(socket) as client,
        subprocess.Popen([*command, "--data-dir", str(folder)], stdout=subprocess.PIPE) as process,
    ):
        assert process.stdout is not None
        reader = threading.Thread(target=_read, args=(process.stdout.fileno(), shown))
        reader.start()
        try:
            found = [_one(client, shown, number) for number in range(count + 1)]
        finally:
            process.terminate()
            reader.join()
    return found[1:]


def _one(client: BlockingClient, shown: "SimpleQueue[float]", number: int) -> float:
    """Append a line; milliseconds from its acknowledgement until it stands on the other side."""
    line = json.dumps({"text": f"line {number}"})
    client.call("agent:session:append_output", {"definition_id": "ada", "line": line})
    acknowledged = time.perf_counter()
    return max((shown.get(timeout=END_S) - acknowledged) * 1e3, AT_ONCE_MS)


def _read(descriptor: int, shown: "SimpleQueue[float]") -> None:
    while data := os.read(descriptor, 65536):
        now = time.perf_counter()
        for _ in range(data.count(b"\n")):
            shown.put(now)


def _histogram(found: list[float]) -> str:
    """How many lines fell between two edges, as `<1 ms: 12, …`."""
    counts = Counter(next((edge for edge in EDGES_MS if each < edge), None) for each in found)
    parts = [f"<{edge} ms: {counts[edge]}" for edge in EDGES_MS if counts[edge]]
    if counts[None]:
        parts.append(f"more: {counts[None]}")
    return ", ".join(parts)
