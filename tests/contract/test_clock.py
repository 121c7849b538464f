"""Times are what the clock says, repeated or going back; order is the counter, never the clock."""

import random

import pytest

from filestore import FileInfo, FileStore, Limits
from tests.conftest import FakeClock, StoreOpener
from tests.contract.tools import take

DAY_MS = 86_400_000


@pytest.fixture
async def timed(open_store: StoreOpener, clock: FakeClock) -> FileStore:
    return await open_store(clock=clock, limits=Limits(seal_bytes=64))


async def info_of(store: FileStore, name: str = "f") -> FileInfo:
    info = await store.stat("z", name)
    assert info is not None
    return info


async def test_clock_that_goes_back_a_day_leaves_versions_and_positions_rising(
    timed: FileStore, clock: FakeClock
) -> None:
    changes = timed.changes()
    versions, times = [], []
    for number in range(20):
        versions.append((await timed.write("z", "f", b"%d" % number)).version)
        times.append((await info_of(timed)).modified_ms)
        versions.append((await timed.append("z", "f", b"!")).version)
        clock.now_ms -= DAY_MS
    assert versions == sorted(set(versions))
    assert times == sorted(times, reverse=True)
    found = await take(changes, 40)
    assert [change.version for change in found] == versions
    positions = [change.position for change in found]
    assert positions == sorted(set(positions))


async def test_clock_that_goes_back_is_reported_as_it_is(
    timed: FileStore, clock: FakeClock
) -> None:
    """No forcing upward: a file may have been modified before it was made."""
    made = clock.now_ms
    await timed.append("z", "f", b"x")
    clock.now_ms -= DAY_MS
    await timed.append("z", "f", b"y")
    info = await info_of(timed)
    assert (info.created_ms, info.modified_ms) == (made, made - DAY_MS)
    written = await timed.write("z", "f", b"state")
    assert (written.created_ms, written.modified_ms) == (made, made - DAY_MS)


async def test_clock_that_goes_back_does_not_reorder_appends(
    open_store: StoreOpener, timed: FileStore, clock: FakeClock
) -> None:
    """Through sealing and opening again, for every time that any append had."""
    rng = random.Random("clock")
    wanted = b""
    for number in range(60):
        clock.now_ms += rng.choice([-DAY_MS, -1, 0, 1, DAY_MS])
        line = f"{number} {clock.now_ms}\n".encode()
        assert (await timed.append("z", "f", line)).offset == len(wanted)
        wanted += line
        if number == 30:
            await timed.tidy()
    last = clock.now_ms
    assert await timed.read("z", "f") == wanted
    await timed.close()
    store = await open_store(clock=clock, limits=Limits(seal_bytes=64))
    assert await store.read("z", "f") == wanted
    assert (await info_of(store)).modified_ms == last
    await store.tidy()
    assert (await store.read_lines("z", "f", 0, 100)).lines == wanted.splitlines()


async def test_clock_that_stands_still_gives_equal_times_and_different_versions(
    timed: FileStore, clock: FakeClock
) -> None:
    infos = [await timed.write("z", f"f{number}", b"x") for number in range(10)]
    assert {info.modified_ms for info in infos} == {clock.now_ms}
    assert len({info.version for info in infos}) == 10


async def test_clock_behind_after_reopen_still_gives_higher_versions(
    open_store: StoreOpener, clock: FakeClock
) -> None:
    seen = [0]
    for _ in range(4):
        store = await open_store(clock=clock)
        seen.append((await store.write("z", "f", b"%d" % clock.now_ms)).version)
        seen.append((await store.append("z", "f", b"x")).version)
        await store.close()
        clock.now_ms -= DAY_MS
    assert seen == sorted(set(seen))


@pytest.mark.parametrize("now_ms", [0, -1, -(1 << 62), (1 << 62), 1])
async def test_clock_with_odd_values_is_kept_exactly(
    open_store: StoreOpener, clock: FakeClock, now_ms: int
) -> None:
    clock.now_ms = now_ms
    store = await open_store(clock=clock)
    await store.append("z", "f", b"x")
    await store.write("z", "g", b"x")
    await store.close()
    store = await open_store(clock=clock)
    for name in ("f", "g"):
        info = await info_of(store, name)
        assert (info.created_ms, info.modified_ms) == (now_ms, now_ms)
    zone = await store.zone("z")
    assert zone is not None
    assert zone.created_ms == now_ms


async def test_clock_of_the_system_gives_milliseconds_of_now(store: FileStore) -> None:
    """The only test that looks at real time, and only at its century."""
    info = await store.write("z", "f", b"x")
    assert 1_600_000_000_000 < info.modified_ms < 4_700_000_000_000
