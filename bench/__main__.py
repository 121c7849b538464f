"""`python -m bench`: run benchmarks, print one table.

Exit 0 whatever the figures: they inform, tests decide.
"""

import argparse
import asyncio
import gc
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import uvloop

from bench import (
    follow,
    hooks,
    mcp,
    migrations,
    replay,
    report,
    rest,
    rpc,
    sessions,
    snapshots,
    streams,
    transcripts,
    writers,
    zones,
)
from bench.measure import Context, Row, Scale
from filestore.engine.driver import LIBRARY, SQLITE_VERSION
from srv.cli.start import COLLECTOR

DATA_FOLDER = Path("build", "bench")
"""Not the system's temporary folder: where that is in memory, nothing there is ever synced."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark and the event loop it runs on. It may yield more rows than one."""

    run: Callable[[Context], Coroutine[Any, Any, list[Row]]]
    uses_uvloop: bool = True


BENCHMARKS = {
    "writers_64": Benchmark(writers.writers_64),
    "writers_64_asyncio": Benchmark(writers.writers_64_asyncio, uses_uvloop=False),
    "writers_1": Benchmark(writers.writers_1),
    "snapshot_time": Benchmark(snapshots.snapshot_time),
    "snapshot_bytes": Benchmark(snapshots.snapshot_bytes),
    "snapshot_equal": Benchmark(snapshots.snapshot_equal, uses_uvloop=False),
    "write_amplification": Benchmark(writers.write_amplification),
    "append_flat": Benchmark(streams.append_flat),
    "stream_size": Benchmark(streams.stream_size),
    "stream_read": Benchmark(streams.stream_read),
    "move_zone": Benchmark(zones.move_zone),
    "copy_zone": Benchmark(zones.copy_zone),
    "zone_pages": Benchmark(zones.zone_pages),
    "store_open": Benchmark(zones.store_open),
    "archive_pages": Benchmark(sessions.archive_pages),
    "archive_list": Benchmark(sessions.archive_list),
    "archive_time": Benchmark(sessions.archive_time),
    "save_growth": Benchmark(sessions.save_growth),
    "migrate_blocks": Benchmark(migrations.migrate_blocks),
    "migrate_stream": Benchmark(migrations.migrate_stream),
    "migrate_nothing": Benchmark(migrations.migrate_nothing),
    "rpc_info": Benchmark(rpc.rpc_info, uses_uvloop=False),
    "rpc_append": Benchmark(rpc.rpc_append, uses_uvloop=False),
    "rpc_read": Benchmark(rpc.rpc_read, uses_uvloop=False),
    "rpc_memory": Benchmark(rpc.rpc_memory, uses_uvloop=False),
    "serve_ready": Benchmark(rpc.serve_ready, uses_uvloop=False),
    "cli_start": Benchmark(rpc.cli_start, uses_uvloop=False),
    "hooks": Benchmark(hooks.hooks, uses_uvloop=False),
    "replay_fold": Benchmark(replay.replay_fold),
    "replay_scan": Benchmark(replay.replay_scan),
    "replay_memory": Benchmark(replay.replay_memory),
    "transcript_export": Benchmark(transcripts.transcript_export),
    "mcp_calls": Benchmark(mcp.mcp_calls, uses_uvloop=False),
    "rest_calls": Benchmark(rest.rest_calls, uses_uvloop=False),
    "rest_pages": Benchmark(rest.rest_pages),
    "rest_list": Benchmark(rest.rest_list),
    "rest_cleanup": Benchmark(rest.cleanup),
    "follow_latency": Benchmark(follow.follow_latency, uses_uvloop=False),
}


def run(name: str, context: Context) -> list[Row]:
    """Run one benchmark on an event loop of its own, collecting garbage as the daemon does."""
    benchmark = BENCHMARKS[name]
    gc.set_threshold(*COLLECTOR)
    factory = uvloop.new_event_loop if benchmark.uses_uvloop else None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(benchmark.run(context))


def environment() -> dict[str, object]:
    """What the figures depend on besides the code."""
    return {
        "python": platform.python_version(),
        "sqlite": f"{LIBRARY} {SQLITE_VERSION}",
        "uvloop": version("uvloop"),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "started_ms": int(time.time() * 1000),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="default: all")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and end")
    parser.add_argument("--scale", choices=get_args(Scale), default="full")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument(
        "--dir", type=Path, default=DATA_FOLDER, help="where to make the data folder (%(default)s)"
    )
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(BENCHMARKS))
        return 0
    names: list[str] = options.names or list(BENCHMARKS)
    if unknown := [name for name in names if name not in BENCHMARKS]:
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    about = environment()
    rows: list[Row] = []
    print(report.heading(), flush=True)
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.dir) as folder:
        context = Context(Path(folder), options.scale)
        for name in names:
            for row in run(name, context):
                print(report.line(row), flush=True)
                rows.append(row)
    print(f"scale {options.scale}; " + ", ".join(f"{k} {v}" for k, v in about.items()))
    if options.json is not None:
        options.json.write_bytes(report.to_json(rows, options.scale, about))
    return 0


if __name__ == "__main__":
    sys.exit(main())
