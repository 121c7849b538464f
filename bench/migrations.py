"""Migrating an old folder: speed against copying its two files, memory, and a start with nothing to
do."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import orjson

from bench.data import Ndjson, Snapshots
from bench.measure import Context, Row, Target, compare, in_turn
from filestore import FileStore
from migrations import migrate
from tests.support.old_folder import OUTPUT, STATE, OldFolder

STATE_BYTES = 256 << 10
OUTPUT_BYTES = 1 << 20
MEMORY_BYTES_MAX = 200_000_000
START_MS_MAX = 20.0
ROUNDS = 3
ROOT = Path(__file__).resolve().parents[1]


async def migrate_blocks(context: Context) -> list[Row]:
    """All steps over agent blocks of 256 KiB state and 1 MiB stream, in MB/s, against `cp` of the
    two old files and a sync of the copies; and the memory it takes, in a process of its own.

    Both write to one file system, with the old files in memory and nothing else left to write.
    """
    blocks = context.pick(8, 100, 1000)
    old = context.fresh("old_blocks")
    size = make_old_blocks(old, blocks)

    async def ours() -> float:
        folder = context.fresh("migrate_blocks")
        settle(old)
        found = run_child(folder, old)
        context.drop(folder)
        peaks.append(found["peak_bytes"])
        return size / found["seconds"] / 1e6

    async def baseline() -> float:
        folder = context.fresh("copy_blocks")
        settle(old)
        started = time.perf_counter()
        for name in ("filestore.db", "objects.db"):
            subprocess.run(["cp", str(old / name), str(folder / name)], check=True)
            sync(folder / name)
        sync(folder)
        taken = time.perf_counter() - started
        context.drop(folder)
        return size / taken / 1e6

    peaks: list[float] = []
    pairs = await in_turn(ours, baseline, min(ROUNDS, context.rounds))
    context.drop(old)
    note = f"{blocks} blocks, {size >> 20} MiB"
    peak = max(peaks)
    return [
        compare("migrate_blocks", pairs, "MB/s", Target("≥", 0.3), note),
        memory("migrate_blocks_memory", peak, note),
    ]


async def migrate_stream(context: Context) -> list[Row]:
    """The memory it takes to migrate one huge stream."""
    size = context.pick(16 << 20, 256 << 20, 1 << 30)
    old = context.fresh("old_stream")
    with OldFolder(old) as folder:
        folder.block("huge", agent="ada")
        folder.file("huge", OUTPUT, repeated_lines(size))
    data = context.fresh("migrate_stream")
    found = run_child(data, old)
    context.drop(data)
    context.drop(old)
    note = f"{size >> 20} MiB in {found['seconds']:.1f} s"
    return [memory("migrate_stream_memory", found["peak_bytes"], note)]


async def migrate_nothing(context: Context) -> list[Row]:
    """What the migrations add to a start that has nothing to migrate."""
    blocks = context.pick(8, 100, 1000)
    folder = context.fresh("migrate_nothing")
    with OldFolder(folder) as old:
        for number in range(blocks):
            old.block(f"block-{number}", agent=f"agent-{number}")
            old.session(f"block-{number}", f"session {number}")
            old.definition(f"agent-{number}", is_seeded=0, name=f"Agent {number}")
    found: list[float] = []
    async with await FileStore.open(folder) as store:
        await migrate(store, folder)
    for _ in range(context.rounds):
        async with await FileStore.open(folder) as store:
            started = time.perf_counter()
            await migrate(store, folder)
            found.append((time.perf_counter() - started) * 1e3)
    context.drop(folder)
    note = f"{blocks} agents with a definition each"
    shown = f"{median(found):.3g} ms"
    return [Row("migrate_nothing", shown, "", found, "ms", Target("≤", START_MS_MAX), note)]


def make_old_blocks(folder: Path, blocks: int) -> int:
    """An old folder of agent blocks, ten of each agent. Returns how many bytes its files have."""
    lines, first = Ndjson(3), Snapshots(4, STATE_BYTES).grow()
    with OldFolder(folder) as old:
        for number in range(blocks):
            block = f"block-{number:05}"
            old.block(block, agent=f"agent-{number // 10}")
            stream = b"".join(line + b"\n" for line in lines.take(OUTPUT_BYTES))
            # Another state each time, but made in a moment: the first digits of every node differ.
            state = first.replace(b'"text":"', b'"text":"%05d ' % number)
            created, modified = 1_000_000 + number, 2_000_000 + number
            old.file(block, STATE, state, created=created, modified=modified)
            old.file(block, OUTPUT, stream, created=created, modified=modified)
    return sum(path.stat().st_size for path in folder.iterdir())


def repeated_lines(size: int) -> Iterator[bytes]:
    """About `size` bytes of NDJSON: some real lines again and again, numbered so that no two
    chunks are the same."""
    lines = Ndjson(5).take(4 << 20)
    number = 0
    while size > 0:
        for line in lines:
            piece = b'{"number":%d,"line":%s}\n' % (number, line)
            number += 1
            size -= len(piece)
            yield piece
        if size <= 0:
            return


def settle(old: Path) -> None:
    """Have what was written before on the disk, and the old files in memory."""
    os.sync()
    for path in old.iterdir():
        with path.open("rb") as file:
            while file.read(1 << 20):
                pass


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def memory(name: str, peak: float, note: str) -> Row:
    shown = f"{peak / (1 << 20):.3g} MiB"
    return Row(name, shown, "", [peak], "B", Target("≤", MEMORY_BYTES_MAX), note)


def run_child(data_dir: Path, old: Path) -> dict[str, float]:
    """Migrate in a process of its own; what it took."""
    for path in old.iterdir():
        os.link(path, data_dir / path.name)
    done = subprocess.run(
        [sys.executable, "-m", "bench.migrations", str(data_dir)],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    found: dict[str, float] = orjson.loads(done.stdout)
    return found


async def child(data_dir: Path) -> dict[str, float]:
    started = time.perf_counter()
    async with await FileStore.open(data_dir) as store:
        stats = await migrate(store, data_dir)
    seconds = time.perf_counter() - started
    assert not any(found.failures for found in stats.values()), stats
    return {"seconds": seconds, "peak_bytes": peak_bytes()}


def peak_bytes() -> float:
    """The most memory that this process has had."""
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(asyncio.run(child(Path(sys.argv[1])))))
