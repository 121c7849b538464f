"""Whole zones: renaming and copying a huge one, and a store that has very many."""

import time
from pathlib import Path
from random import Random
from statistics import median

from bench.baseline import Raw
from bench.data import Ndjson
from bench.measure import Context, Row, Target, compare, in_turn, median_us
from bench.stores import FILE, ZONE, stream_store, zone_name, zones_store
from bench.streams import huge_bytes, huge_store
from filestore import FileStore

SHORT_BYTES = 64 << 10
NEW_BYTES = 1 << 20
PAGE_ZONES = 20
FEW_ZONES = 100


async def move_zone(context: Context) -> list[Row]:
    """Renaming a zone with a huge stream, against one of 64 KiB, each in its store."""
    count = context.pick(10, 200, 200)
    names = (ZONE, f"{ZONE}-moved")
    async with (
        await FileStore.open(await huge_store(context)) as huge_side,
        await FileStore.open(await stream_store(context, SHORT_BYTES, SHORT_BYTES)) as short_side,
    ):

        async def measure(store: FileStore) -> float:
            # There and back again: `count` is even.
            return await median_us(
                lambda at: store.move_zone(names[at % 2], names[1 - at % 2]), count
            )

        pairs = await in_turn(
            lambda: measure(huge_side), lambda: measure(short_side), context.rounds
        )
    note = f"{huge_bytes(context) >> 20} MiB against {SHORT_BYTES >> 10} KiB"
    return [compare("move_zone", pairs, "µs", Target("≤", 1.5), note)]


async def copy_zone(context: Context) -> list[Row]:
    """Copying a zone with a huge stream, against writing 1 MiB of new bytes to the same store.

    The second row, only to be seen: against inserting and committing those bytes as one raw row.
    """
    folder = context.fresh("copy_zone")
    raw = Raw(folder / "raw.db")
    count = context.pick(1, 3, 5)
    source = Ndjson(8)
    async with await FileStore.open(await huge_store(context)) as store:

        async def ours() -> float:
            return median([await _copy_once(store) for _ in range(count)])

        async def baseline() -> float:
            return median([await _write_once(store, _new(source)) for _ in range(count)])

        async def raw_baseline() -> float:
            return median([raw.insert_each([_new(source)]) * 1e3 for _ in range(count)])

        pairs = await in_turn(ours, baseline, context.rounds)
        raw_pairs = await in_turn(ours, raw_baseline, context.rounds)
    raw.close()
    context.drop(folder)
    note = f"{huge_bytes(context) >> 20} MiB against {NEW_BYTES >> 20} MiB"
    return [
        compare("copy_zone", pairs, "ms", Target("≤", 5), note),
        compare("copy_zone_raw", raw_pairs, "ms", None, note),
    ]


def _new(source: Ndjson) -> bytes:
    return b"\n".join(source.take(NEW_BYTES))[:NEW_BYTES]


async def _copy_once(store: FileStore) -> float:
    started = time.perf_counter()
    await store.copy_zone(ZONE, "copy")
    passed = time.perf_counter() - started
    await store.delete_zone("copy")
    await store.tidy()
    return passed * 1e3


async def _write_once(store: FileStore, value: bytes) -> float:
    started = time.perf_counter()
    await store.write("written", FILE, value)
    passed = time.perf_counter() - started
    await store.delete_zone("written")
    await store.tidy()
    return passed * 1e3


async def zone_pages(context: Context) -> list[Row]:
    """A page of 20 zones anywhere in very many, against one anywhere in 100."""
    count, zones = context.pick(20, 200, 500), _zones(context)
    async with (
        await FileStore.open(await zones_store(context, zones)) as many_side,
        await FileStore.open(await zones_store(context, FEW_ZONES)) as few_side,
    ):

        async def measure(store: FileStore, after: list[str]) -> float:
            return await median_us(
                lambda at: store.zones(after=after[at], limit=PAGE_ZONES), len(after)
            )

        many, few = _places(zones, count), _places(FEW_ZONES, count)
        pairs = await in_turn(
            lambda: measure(many_side, many), lambda: measure(few_side, few), context.rounds
        )
    note = f"{zones} zones against {FEW_ZONES}"
    return [compare("zone_pages", pairs, "µs", Target("≤", 2), note)]


def _places(zones: int, count: int) -> list[str]:
    """Names that are followed by a full page."""
    names = sorted(zone_name(number) for number in range(zones))
    return Random(zones).choices(names[:-PAGE_ZONES], k=count)


async def store_open(context: Context) -> list[Row]:
    """Opening a store with very many zones, against an empty one; closing is not measured."""
    folder = context.fresh("store_open")
    await (await FileStore.open(folder)).close()
    many = await zones_store(context, _zones(context))
    count = context.pick(3, 20, 20)

    async def ours() -> float:
        return median([await _open_once(many) for _ in range(count)])

    async def baseline() -> float:
        return median([await _open_once(folder) for _ in range(count)])

    pairs = await in_turn(ours, baseline, context.rounds)
    context.drop(folder)
    note = f"{_zones(context)} zones against none"
    return [compare("store_open", pairs, "µs", Target("≤", 3), note)]


async def _open_once(folder: Path) -> float:
    started = time.perf_counter()
    store = await FileStore.open(folder)
    passed = time.perf_counter() - started
    await store.close()
    return passed * 1e6


def _zones(context: Context) -> int:
    return context.pick(500, 20_000, 100_000)
