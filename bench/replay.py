"""Replay: folding streams into nodes, against parsing their lines; counting, against reading."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

import orjson

from bench.agents import PROVIDERS, written_by
from bench.measure import Context, PeakMemory, Row, Target, compare, in_turn, quantity
from bench.stores import FILE, ZONE
from bench.streams import live_store
from filestore import FileStore
from filestore.replay import LineScan, Replay, replay

FOLD_MB_MIN = 20
SCAN_MB_MIN = 100
PIECE_BYTES = 1 << 20


async def replay_fold(context: Context) -> list[Row]:
    """Each provider's stream, fully folded, against bare parsing of the same lines."""
    rows = []
    size = context.pick(100_000, 10_000_000, 30_000_000)
    for provider in PROVIDERS:
        lines = written_by(provider, size)
        length = sum(len(line) + 1 for line in lines)
        assert replay(lines[:100]).provider == provider.split("_")[0]

        async def ours(lines: list[bytes] = lines) -> float:
            return _timed(lambda: replay(lines).nodes())

        async def baseline(lines: list[bytes] = lines) -> float:
            return _timed(lambda: _parse(lines))

        pairs = await in_turn(ours, baseline, context.rounds)
        speed = length / 1e3 / median(pair[0] for pair in pairs)
        note = f"{speed:,.0f} MB/s, wanted {FOLD_MB_MIN}; {length // len(lines)} B a line"
        rows.append(compare(f"replay_{provider}", pairs, "ms", Target("≤", 10), note))
    return rows


def _timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1e3


def _parse(lines: Sequence[bytes]) -> None:
    for line in lines:
        orjson.loads(line)


async def replay_scan(context: Context) -> list[Row]:
    """Reading a stream from the store and counting its lines, against reading it.

    The second row is the counting alone. The third is the same with a plain file that is in memory
    already: its reading is a mere copy.
    """
    async with await FileStore.open(await live_store(context)) as store:

        async def ours() -> float:
            started = time.perf_counter()
            scan = LineScan()
            async for piece in store.open_read(ZONE, FILE):
                scan.feed(piece)
            scan.finish()
            return (time.perf_counter() - started) * 1e3

        async def baseline() -> float:
            started = time.perf_counter()
            async for _ in store.open_read(ZONE, FILE):
                pass
            return (time.perf_counter() - started) * 1e3

        pairs = await in_turn(ours, baseline, context.rounds)
        pieces = [piece async for piece in store.open_read(ZONE, FILE)]
    plain = await _plain_file(context, pieces)
    size = sum(map(len, pieces))
    speeds = [size / 1e3 / _timed(lambda: _scan(pieces)) for _ in range(context.rounds)]
    sides = quantity(median(speeds), "MB/s"), ""
    return [
        compare("replay_scan", pairs, "ms", Target("≤", 3), f"{size / 1e6:.3g} MB"),
        Row("replay_scan_speed", *sides, speeds, "MB/s", Target("≥", SCAN_MB_MIN)),
        compare("replay_scan_plain", plain, "ms", Target("≤", 3)),
    ]


async def _plain_file(context: Context, pieces: list[bytes]) -> list[tuple[float, float]]:
    """Times of counting the lines of a plain file, and of reading it."""
    folder = context.fresh("replay_scan")
    path = folder / "stream.ndjson"
    path.write_bytes(b"".join(pieces))

    async def ours() -> float:
        return _timed(lambda: _scan(_read(path)))

    async def baseline() -> float:
        return _timed(lambda: deque(_read(path), maxlen=0))

    pairs = await in_turn(ours, baseline, context.rounds)
    context.drop(folder)
    return pairs


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def _scan(pieces: Iterable[bytes]) -> None:
    scan = LineScan()
    for piece in pieces:
        scan.feed(piece)
    scan.finish()


async def replay_memory(context: Context) -> list[Row]:
    """How far memory rises while a stream is folded that shows little, against its size."""
    count = context.pick(20_000, 500_000, 2_000_000)
    head = b'{"type":"stream_event","event":{"type":"message_start","message":{"id":"m"}}}'
    line = (
        b'{"type":"stream_event","event":{"type":"ping"},"uuid":"%08d","parent_tool_use_id":null}'
    )
    folded = Replay()
    with PeakMemory() as memory:
        folded.feed(head)
        for number in range(count):
            folded.feed(line % number)
    size = count * (len(line) + 6) / (1 << 20)
    grown = memory.grown_bytes / (1 << 20)
    sides = quantity(grown, "MiB"), f"of {size:.3g} MiB"
    return [Row("replay_memory", *sides, [grown], "MiB", Target("≤", 16))]
