"""Long streams: appending to one, what it takes on disk, and reading it from end to end."""

import time
from pathlib import Path

from bench.baseline import RawChunks
from bench.data import fixed_lines
from bench.measure import (
    Context,
    PeakMemory,
    Row,
    Target,
    compare,
    in_turn,
    median_us,
    quantity,
)
from bench.stores import FILE, ZONE, stream_store
from filestore import FileStore
from filestore.engine.driver import connect
from filestore.store import DATABASE_NAME

LINE_BYTES = 500
HUGE_BATCH_BYTES = 4 << 20
SHORT_BYTES = 1 << 20
SHORT_BATCH_BYTES = 64 << 10
LIVE_BATCH_BYTES = 16 << 10
"""A few lines at a time, as agents write: chunks end between appends, so this sets their size."""


async def huge_store(context: Context) -> Path:
    """The store with one stream of 1 GiB; less at smaller scales."""
    return await stream_store(context, huge_bytes(context), HUGE_BATCH_BYTES)


def huge_bytes(context: Context) -> int:
    return context.pick(4 << 20, 256 << 20, 1 << 30)


async def append_flat(context: Context) -> list[Row]:
    """The median append to a huge stream, against one to a stream of 1 MiB, each in its store."""
    count = context.pick(20, 200, 200)
    lines = fixed_lines(6, count, LINE_BYTES)
    folder = context.fresh("append_flat")
    short = folder / "short"
    async with (
        await FileStore.open(await huge_store(context)) as huge_side,
        await FileStore.open(short) as short_side,
    ):
        for batch in _batches(fixed_lines(7, SHORT_BYTES // LINE_BYTES, LINE_BYTES)):
            await short_side.append_lines(ZONE, FILE, batch)

        async def measure(store: FileStore) -> float:
            found = await median_us(lambda at: store.append_lines(ZONE, FILE, [lines[at]]), count)
            await store.tidy()
            return found

        pairs = await in_turn(
            lambda: measure(huge_side), lambda: measure(short_side), context.rounds
        )
    context.drop(folder)
    note = f"{huge_bytes(context) >> 20} MiB against {SHORT_BYTES >> 20} MiB"
    return [compare("append_flat", pairs, "µs", Target("≤", 1.3), note)]


def _batches(lines: list[bytes]) -> list[list[bytes]]:
    each = SHORT_BATCH_BYTES // LINE_BYTES
    return [lines[start : start + each] for start in range(0, len(lines), each)]


async def live_store(context: Context) -> Path:
    """The store with 100 MB of NDJSON, appended as agents do; less at smaller scales."""
    size = context.pick(2_000_000, 30_000_000, 100_000_000)
    return await stream_store(context, size, LIVE_BATCH_BYTES)


async def stream_size(context: Context) -> list[Row]:
    """Pages in use after sealing, against the plain bytes: 40 % is 40 MB of 100 MB. Aim: 25."""
    folder = await live_store(context)
    async with await FileStore.open(folder) as store:
        info = await store.stat(ZONE, FILE)
    assert info is not None
    connection = connect(folder / DATABASE_NAME, read_only=True, immutable=True)
    (used,) = connection.execute(
        "SELECT (page_count - freelist_count) * page_size FROM "
        "pragma_page_count, pragma_freelist_count, pragma_page_size"
    ).fetchone()
    connection.close()
    sizes = quantity(used / 1e6, "MB"), quantity(info.size / 1e6, "MB")
    return [Row("stream_size", *sizes, [100 * used / info.size], "%", Target("≤", 40), "aim 25")]


async def stream_read(context: Context) -> list[Row]:
    """Reading the same stream from end to end, against a loop over rows of the same chunks.

    The second row is how far memory rises meanwhile, in a pass of its own, which is not timed.
    """
    live = await live_store(context)
    folder = context.fresh("stream_read")
    raw = RawChunks(folder / "raw.db", live / DATABASE_NAME)
    async with await FileStore.open(live) as store:

        async def ours() -> float:
            started = time.perf_counter()
            size = await _read_all(store)
            return size / 1e6 / (time.perf_counter() - started)

        async def baseline() -> float:
            started = time.perf_counter()
            size = raw.read_all()
            return size / 1e6 / (time.perf_counter() - started)

        pairs = await in_turn(ours, baseline, context.rounds)
        with PeakMemory() as memory:
            size = await _read_all(store)
    raw.close()
    context.drop(folder)
    grown = memory.grown_bytes / (1 << 20)
    sides = quantity(grown, "MiB"), f"of {size / (1 << 20):.3g} MiB"
    return [
        compare("stream_read", pairs, "MB/s", Target("≥", 0.5)),
        Row("stream_read_memory", *sides, [grown], "MiB", Target("≤", 16)),
    ]


async def _read_all(store: FileStore) -> int:
    size = 0
    async for piece in store.open_read(ZONE, FILE):
        size += len(piece)
    return size
