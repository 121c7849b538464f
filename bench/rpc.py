"""What the daemon costs: round trips, durable appends, reads, memory, start. Clients are processes
of their own on the same cores.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from bench.baseline import Raw
from bench.data import fixed_lines
from bench.measure import Context, Row, Target, compare, in_turn
from bench.rpc_load import HANDSHAKE
from bench.stores import archives_store, zones_store
from filestore import FileStore
from filestore.sessions import Sessions

LINE_BYTES = 500
STATE_BYTES = 64 << 10
IDLE_CONNECTIONS = 1000
END_S = 20
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


class Running(NamedTuple):
    """A server under measurement."""

    socket: str
    pid: int
    ready_s: float


@contextmanager
def daemon(folder: Path) -> Iterator[Running]:
    """A daemon on `folder`."""
    command = [sys.executable, "-m", "srv.cli.main", "serve"]
    with _server([*command, "--data-dir", str(folder), "--port", "0"]) as (line, pid, ready_s):
        yield Running(json.loads(line)["socket"], pid, ready_s)


@contextmanager
def echo() -> Iterator[Running]:
    """A bare echo."""
    path = str(Path(mkdtemp(prefix="zoned-echo-")) / "echo.sock")
    with _server([sys.executable, "-m", "bench.echo", path]) as (_, pid, ready_s):
        yield Running(path, pid, ready_s)


@contextmanager
def _server(command: list[str]) -> Iterator[tuple[str, int, float]]:
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, f"{command} did not start"
        yield line, process.pid, time.perf_counter() - started
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=END_S)


async def load(path: str, kind: str, clients: int, seconds: float, size: int) -> dict[str, float]:
    """Have clients work on a server from another process."""
    arguments = [path, kind, str(clients), str(seconds), str(size)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.rpc_load", *arguments, stdout=subprocess.PIPE
    )
    out, _ = await process.communicate()
    found: dict[str, float] = json.loads(out)
    return found


async def rpc_info(context: Context) -> list[Row]:
    """`srv:info` against an echo of 200 bytes."""
    rows = []
    with daemon(context.fresh("info")) as ours_at, echo() as echo_at:
        for clients in (1, 8, 64):
            seconds = context.pick(1, 5, 10) / 10

            async def ours(clients: int = clients, seconds: float = seconds) -> float:
                return (await load(ours_at.socket, "info", clients, seconds, 0))["rate"]

            async def baseline(clients: int = clients, seconds: float = seconds) -> float:
                return (await load(echo_at.socket, "echo", clients, seconds, 200))["rate"]

            pairs = await in_turn(ours, baseline, context.rounds)
            rows.append(compare(f"rpc_info_{clients}", pairs, "/s", Target("≥", 0.5)))
    return rows


async def rpc_append(context: Context) -> list[Row]:
    """Durable lines, one a request, against raw SQLite with one commit a line."""
    lines = fixed_lines(1, context.pick(20, 500, 2500), LINE_BYTES)
    folder = context.fresh("append")
    raw = Raw(folder / "raw.db")
    rows, tails = [], []
    with daemon(folder / "ours") as ours_at:
        for clients, bound in ((1, None), (64, 4), (512, 7)):
            seconds = context.pick(1, 8, 20) / 10

            async def ours(clients: int = clients, seconds: float = seconds) -> float:
                found = await load(ours_at.socket, "append", clients, seconds, LINE_BYTES)
                if clients == 64:
                    tails.append((found["p99_us"], found["p50_us"]))
                return found["rate"]

            async def baseline() -> float:
                return len(lines) / raw.insert_each(lines)

            pairs = await in_turn(ours, baseline, context.rounds)
            target = Target("≥", bound) if bound else None
            rows.append(compare(f"rpc_append_{clients}", pairs, "/s", target))
    raw.close()
    context.drop(folder)
    note = "baseline is the p50"
    rows.append(compare("rpc_append_64_p99", tails[1:], "µs", Target("≤", 10), note))
    return rows


async def rpc_read(context: Context) -> list[Row]:
    """Reading a state of 64 KiB against an echo of as much, one client, p50."""
    folder = context.fresh("read")
    async with await FileStore.open(folder) as store, Sessions(store) as sessions:
        await sessions.write_state("bench-0", b"x" * STATE_BYTES)
    with daemon(folder) as ours_at, echo() as echo_at:
        seconds = context.pick(1, 5, 10) / 10

        async def ours() -> float:
            return (await load(ours_at.socket, "read", 1, seconds, 0))["p50_us"]

        async def baseline() -> float:
            return (await load(echo_at.socket, "echo", 1, seconds, STATE_BYTES))["p50_us"]

        pairs = await in_turn(ours, baseline, context.rounds)
    return [compare("rpc_read_64k", pairs, "µs", Target("≤", 3))]


async def rpc_memory(context: Context) -> list[Row]:
    """Resident memory with many idle connections and zones."""
    folder = await zones_store(context, context.pick(100, 1000, 10_000))
    count = context.pick(50, 200, IDLE_CONNECTIONS)
    with daemon(folder) as at:
        before = _resident_mb(at.pid)
        streams = [await asyncio.open_unix_connection(at.socket) for _ in range(count)]
        for reader, writer in streams:
            writer.write(HANDSHAKE)
            await reader.readuntil(b"\r\n\r\n")
        after = _resident_mb(at.pid)
        for _, writer in streams:
            writer.close()
            await writer.wait_closed()
    note = f"{count} idle connections"
    sizes = (f"{after:.0f} MB", f"{before:.0f} MB")
    return [Row("rpc_memory", *sizes, [after], "MB", Target("≤", 150), note)]


async def serve_ready(context: Context) -> list[Row]:
    """From the start of the process to its ready line, with many zones, each an archive."""
    zones = context.pick(100, 10_000, 100_000)
    folder = await archives_store(context, zones)
    found = []
    for _ in range(context.rounds):
        with daemon(folder) as at:
            found.append(at.ready_s)
    shown = f"{sorted(found)[len(found) // 2]:.2f} s"
    return [Row("serve_ready", shown, "", found, "s", Target("≤", 2), f"{zones} zones")]


async def cli_start(context: Context) -> list[Row]:
    """`zoned agents` from start to end, with and without a daemon, against `python -c pass`."""
    folder = context.fresh("cli")
    async with await FileStore.open(folder) as store, Sessions(store) as sessions:
        for name in ("ada", "bob", "eve"):
            await sessions.append_output(name, ["hello"])
    command = [sys.executable, "-m", "srv.cli.main", "agents", "--data-dir", str(folder)]

    async def ours() -> float:
        return run_ms(command)

    async def baseline() -> float:
        return run_ms([sys.executable, "-c", "pass"])

    alone = await in_turn(ours, baseline, context.rounds)
    with daemon(folder):
        beside = await in_turn(ours, baseline, context.rounds)
    return [
        compare("cli_agents", alone, "ms", Target("≤", 12)),
        compare("cli_agents_daemon", beside, "ms", Target("≤", 12)),
    ]


def run_ms(command: list[str], given: bytes = b"") -> float:
    """How long a command takes from its start to its end, with this on stdin."""
    # With its bytecode at hand, as where it is installed; the first run, which is not counted,
    # makes it.
    environ = {name: value for name, value in os.environ.items() if name != NO_BYTECODE}
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environ, input=given)
    return (time.perf_counter() - started) * 1000


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
