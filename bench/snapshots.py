"""Saving a state that grew by one node, against replacing the whole value in one row."""

import time
from pathlib import Path

from bench.baseline import Raw
from bench.data import Snapshots
from bench.measure import (
    Context,
    Row,
    Target,
    compare,
    in_turn,
    written_chars,
    written_to_disk,
)
from filestore import FileStore

SNAPSHOT_BYTES = 2 << 20


async def snapshot_time(context: Context) -> list[Row]:
    """Saves a second."""
    folder = context.fresh("snapshot_time")
    states = Snapshots(3, context.pick(1 << 18, SNAPSHOT_BYTES, SNAPSHOT_BYTES))
    raw = Raw(folder / "raw.db")
    values: list[bytes] = []
    async with await FileStore.open(folder / "ours") as store:

        async def ours() -> float:
            values[:] = states.several(count)
            started = time.perf_counter()
            for value in values:
                await store.write("session", "state", value)
            rate = count / (time.perf_counter() - started)
            await store.tidy()
            return rate

        async def baseline() -> float:
            saved = states.several(count)
            return count / raw.replace_each(saved)

        # A daemon runs for days: both sides start with a write-ahead log that has come full circle.
        count = context.pick(2, 50, 200)
        await ours()
        await baseline()
        count = context.pick(2, 10, 20)
        pairs = await in_turn(ours, baseline, context.rounds)
    raw.close()
    context.drop(folder)
    return [compare("snapshot_time", pairs, "/s", Target("≥", 4))]


async def snapshot_bytes(context: Context) -> list[Row]:
    """Bytes written by the same saves, checkpoints included."""
    size = context.pick(1 << 18, SNAPSHOT_BYTES, SNAPSHOT_BYTES)
    saves = context.pick(5, 20, 60)
    pairs: list[tuple[float, float]] = []
    for number in range(context.pick(1, 2, 3)):
        values = Snapshots(number, size).several(saves + 1)
        pairs.append((await _ours_bytes(context, values), _raw_bytes(context, values)))
    sides = zip(*pairs, strict=True)
    ours, baseline = (f"{sum(side) / len(side) / saves:,.0f} B/save" for side in sides)
    figures = [100 * a / b for a, b in pairs]
    return [Row("snapshot_bytes", ours, baseline, figures, "%", Target("≤", 5))]


async def _ours_bytes(context: Context, values: list[bytes]) -> float:
    folder = context.fresh("snapshot_bytes")
    store = await FileStore.open(folder)
    await store.write("session", "state", values[0])
    await store.close()
    before = written_chars()
    store = await FileStore.open(folder)
    for value in values[1:]:
        await store.write("session", "state", value)
    await store.tidy()
    await store.close()
    written = written_chars() - before
    context.drop(folder)
    return written


def _raw_bytes(context: Context, values: list[bytes]) -> float:
    folder = context.fresh("snapshot_bytes")
    raw = Raw(folder / "raw.db")
    raw.replace_each(values[:1])
    before = written_chars()
    raw.replace_each(values[1:])
    raw.close()
    written = written_chars() - before
    context.drop(folder)
    return written


async def snapshot_equal(context: Context) -> list[Row]:
    """Bytes written when the same state is saved again: none, and no file is touched.

    Runs on the standard event loop: uvloop wakes itself with write calls, which the kernel counts
    too.
    """
    folder = context.fresh("snapshot_equal")
    value = Snapshots(4, context.pick(1 << 18, SNAPSHOT_BYTES, SNAPSHOT_BYTES)).grow()
    saves = context.pick(3, 20, 20)
    async with await FileStore.open(folder) as store:
        await store.write("session", "state", value)
        await store.tidy()
        files, chars, disk = _files(folder), written_chars(), written_to_disk()
        for _ in range(saves):
            assert (await store.write("session", "state", value)).unchanged
        await store.tidy()
        written = max(written_chars() - chars, written_to_disk() - disk)
        is_touched = _files(folder) != files
    context.drop(folder)
    note = "files touched" if is_touched else "files untouched"
    figure = float(written or is_touched)
    return [
        Row("snapshot_equal", f"{written} B", f"{saves} saves", [figure], "B", Target("≤", 0), note)
    ]


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of database and WAL."""
    found = [path for path in folder.glob("zoned.db*") if path.suffix != ".db-shm"]
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in found}
