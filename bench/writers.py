"""Durable appends: how many a second, and how many bytes they cause to be written."""

import asyncio
import time
from itertools import cycle, islice

from bench.baseline import Raw
from bench.data import Ndjson, fixed_lines
from bench.measure import Context, Row, Target, compare, in_turn, written_chars
from filestore import FileStore

LINE_BYTES = 500
SESSIONS = 64


async def writers_64(context: Context) -> list[Row]:
    """64 tasks append a line at a time, against one thread with one INSERT and commit per line."""
    return [await _writers(context, "writers_64", SESSIONS, Target("≥", 10))]


async def writers_64_asyncio(context: Context) -> list[Row]:
    """The same on the standard event loop; only to be seen."""
    return [await _writers(context, "writers_64_asyncio", SESSIONS, None)]


async def writers_1(context: Context) -> list[Row]:
    """One task, one line at a time, against the same."""
    return [await _writers(context, "writers_1", 1, Target("≥", 0.7))]


async def _writers(context: Context, name: str, writers: int, target: Target | None) -> Row:
    lines = fixed_lines(1, 2000, LINE_BYTES)
    each = context.pick(5, 200, 1000) if writers > 1 else context.pick(20, 500, 2500)
    raw_lines = list(islice(cycle(lines), context.pick(20, 500, 2500)))
    folder = context.fresh(name)
    raw = Raw(folder / "raw.db")
    async with await FileStore.open(folder / "ours") as store:

        async def write(number: int) -> None:
            for line in islice(cycle(lines), number, number + each):
                await store.append_lines(f"session-{number}", "output", [line])

        async def ours() -> float:
            started = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for number in range(writers):
                    group.create_task(write(number))
            rate = writers * each / (time.perf_counter() - started)
            # What is left to seal is done before the other side runs, so that it is not disturbed.
            await store.tidy()
            return rate

        async def baseline() -> float:
            return len(raw_lines) / raw.insert_each(raw_lines)

        pairs = await in_turn(ours, baseline, context.rounds)
    raw.close()
    context.drop(folder)
    return compare(name, pairs, "/s", target)


async def write_amplification(context: Context) -> list[Row]:
    """Bytes written per byte appended by 64 sessions.

    Everything is included: log, chunks, checkpoints, closing.
    """
    fast = await _amplification(context, "write_amplification", None, Target("≤", 6))
    paced = await _amplification(context, "write_amplification_paced", 0.1, None)
    return [fast, paced]


async def _amplification(
    context: Context, name: str, pause_s: float | None, target: Target | None
) -> Row:
    seconds = context.pick(2, 20, 120) / 10
    pool = Ndjson(2).take(context.pick(1, 8, 24) << 20)
    folder = context.fresh(name)
    appended = 0
    before = written_chars()
    store = await FileStore.open(folder)
    stop = time.perf_counter() + seconds

    async def write(number: int) -> None:
        nonlocal appended
        for line in islice(cycle(pool), number * len(pool) // SESSIONS, None):
            if time.perf_counter() > stop:
                return
            done = await store.append_lines(f"session-{number}", "output", [line])
            appended += done.bytes_written
            if pause_s is not None:
                await asyncio.sleep(pause_s)

    async with asyncio.TaskGroup() as group:
        for number in range(SESSIONS):
            group.create_task(write(number))
    await store.tidy()
    await store.close()
    written = written_chars() - before
    context.drop(folder)
    sizes = f"{written / 1e6:,.1f} MB", f"{appended / 1e6:,.1f} MB"
    return Row(name, *sizes, [written / appended], "×", target, note=f"{seconds} s")
