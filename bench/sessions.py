"""Sessions: listing and archiving, whatever the size, and what a save adds to the database."""

import time
from statistics import median

from bench.baseline import RawArchives
from bench.data import Ndjson, Snapshots
from bench.measure import Context, Row, Target, compare, in_turn, median_us
from bench.stores import AGENT, ARCHIVE_STATE_BYTES, archives_store
from bench.streams import huge_bytes
from filestore import FileStore
from filestore.sessions import Sessions

PAGE = 20
FEW = 100
LISTED = 1000
LIST_PAGE = 100
SMALL_STATE_BYTES = 64 << 10
BATCH_BYTES = 4 << 20


async def archive_pages(context: Context) -> list[Row]:
    """A page of 20 archives with previews out of very many, against out of 100."""
    many, count = context.pick(300, 20_000, 100_000), context.pick(20, 200, 500)
    async with (
        await FileStore.open(await archives_store(context, many)) as many_side,
        await FileStore.open(await archives_store(context, FEW)) as few_side,
    ):

        async def measure(store: FileStore, archives: int) -> float:
            sessions = Sessions(store)
            places = [1 + PAGE + at * 7919 % (archives - PAGE) for at in range(count)]
            return await median_us(
                lambda at: sessions.list_archives(AGENT, PAGE, before=places[at]), count
            )

        pairs = await in_turn(
            lambda: measure(many_side, many), lambda: measure(few_side, FEW), context.rounds
        )
    note = f"{many} archives against {FEW}"
    return [compare("archive_pages", pairs, "µs", Target("≤", 2), note)]


async def archive_list(context: Context) -> list[Row]:
    """All of 1000 archives in pages of 100, against the same pages from a raw covering index."""
    archives = context.pick(200, LISTED, LISTED)
    folder = await archives_store(context, archives, state_bytes=ARCHIVE_STATE_BYTES)
    raw_folder = context.fresh("archive_list")
    raw = RawArchives(raw_folder / "raw.db", folder / "zoned.db")
    async with await FileStore.open(folder) as store:
        sessions = Sessions(store)

        async def ours() -> float:
            return await median_us(lambda _: _list_all(sessions, archives), 10)

        async def baseline() -> float:
            found = []
            for _ in range(10):
                started = time.perf_counter()
                raw.list_all(LIST_PAGE, archives)
                found.append(time.perf_counter() - started)
            return median(found) * 1e6

        pairs = await in_turn(ours, baseline, context.rounds)
    raw.close()
    context.drop(raw_folder)
    note = f"{archives} archives, states of {ARCHIVE_STATE_BYTES >> 10} KiB"
    return [compare("archive_list", pairs, "µs", Target("≤", 3), note)]


async def _list_all(sessions: Sessions, wanted: int) -> None:
    before, seen = None, 0
    while seen < wanted:
        page = await sessions.list_archives(AGENT, LIST_PAGE, before=before)
        before = page[-1].archived_at_ms
        seen += len(page)


async def archive_time(context: Context) -> list[Row]:
    """Archiving (and restoring) a session with a huge stream, against one of 1 KiB."""
    huge, count = huge_bytes(context), context.pick(5, 50, 100)
    folder = context.fresh("archive_time")
    async with await FileStore.open(folder) as store:
        sessions = Sessions(store)
        source = Ndjson(9)
        size = 0
        while size < huge:
            batch = source.take(min(BATCH_BYTES, huge - size))
            size += (await sessions.append_output("huge", batch)).bytes_written
            await store.tidy()
        await sessions.append_output("small", source.take(1 << 10)[:1])

        async def measure(definition_id: str) -> float:
            found = []
            for _ in range(count):
                started = time.perf_counter()
                archived = await sessions.archive(definition_id)
                found.append(time.perf_counter() - started)
                assert archived is not None
                await sessions.restore(archived.archive_zoneid)
            return median(found) * 1e6

        pairs = await in_turn(lambda: measure("huge"), lambda: measure("small"), context.rounds)
    context.drop(folder)
    note = f"{huge >> 20} MiB against 1 KiB"
    return [compare("archive_time", pairs, "µs", Target("≤", 1.5), note)]


async def save_growth(context: Context) -> list[Row]:
    """What a save of a 64 KiB state adds to the database: unchanged, and with one changed node."""
    saves = context.pick(10, 100, 200)
    states = Snapshots(5, SMALL_STATE_BYTES)
    first = states.grow()
    equal = await _growth(context, [first] * saves)
    changed = await _growth(context, [first, *_edited(first, saves - 1)])
    note = f"{saves} saves of {len(first) >> 10} KiB"
    return [
        Row("save_growth_equal", f"{equal:,.0f} B", "", [equal], "B", Target("≤", 0), note),
        Row(
            "save_growth_node", f"{changed:,.0f} B", "", [changed], "B", Target("≤", 20 << 10), note
        ),
    ]


def _edited(state: bytes, count: int) -> list[bytes]:
    """The state with another text in one of its nodes, a different one each time."""
    places = [at for at in range(len(state)) if state.startswith(b'"text":"', at)]
    found = []
    for number in range(count):
        at = places[number * 7 % len(places)] + len(b'"text":"')
        found.append(state[:at] + b"edit %d " % number + state[at:])
    return found


async def _growth(context: Context, values: list[bytes]) -> float:
    """Bytes of used pages and log that each save after the first adds, before any clean-up."""
    folder = context.fresh("save_growth")
    store = await FileStore.open(folder)
    sessions = Sessions(store)
    await sessions.write_state(AGENT, values[0])
    await store.tidy()
    before = await _used_bytes(store)
    for value in values[1:]:
        await sessions.write_state(AGENT, value)
    after = await _used_bytes(store)
    await store.close()
    context.drop(folder)
    return (after - before) / (len(values) - 1)


async def _used_bytes(store: FileStore) -> int:
    ((pages,),) = await store.read_unit(lambda tx: tx.fetch("PRAGMA page_count"))
    ((free,),) = await store.read_unit(lambda tx: tx.fetch("PRAGMA freelist_count"))
    ((size,),) = await store.read_unit(lambda tx: tx.fetch("PRAGMA page_size"))
    return int((pages - free) * size)
