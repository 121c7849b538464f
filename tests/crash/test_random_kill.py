"""`kill -9` at random moments under concurrent appends, many rounds on one data folder.

Every acknowledged line is there exactly once and in order, in the appender's own file and in the
one they share. A kill is blind to power loss (the page cache survives it); test_power_cut.py looks
at that.
"""

import random
import time
from pathlib import Path

import pytest

from filestore import FileStore
from tests.support import child_model as ops
from tests.support.child import SMALL, Child, open_store, spin
from tests.support.seeds import seed_of_run

LANES = 6
SECONDS = 20.0
ROUNDS_MIN = 10
ZONE = "storm"


def numbers(data: bytes, lane: int) -> list[int]:
    """The numbers of a lane's lines, in file order; every line must be whole."""
    found = []
    for line in data.splitlines():
        owner, number, filler = line.split(b" ")
        assert filler == b"x" * (int(number) * 37 % 300), line
        if int(owner) == lane:
            found.append(int(number))
    return found


async def contents(store: FileStore, name: str) -> bytes:
    return await store.read(ZONE, name) if await store.stat(ZONE, name) else b""


def storm(data_dir: Path, rng: random.Random, starts: list[int]) -> dict[tuple[int, str], int]:
    """Let appenders run, kill them somewhere.

    Returns the last acknowledged number by lane and file.
    """
    acknowledged: dict[tuple[int, str], int] = {}
    with Child(data_dir, SMALL) as child:
        child.opened()
        child.send({"op": "storm", "zone": ZONE, "starts": starts})
        answers = [child.receive() for _ in range(rng.randrange(1, 400))]
        spin(rng.randrange(20_000))
        child.kill()
        answers += child.reap()
        assert child.returncode == -9, child.stderr
    for lane, number, name in answers:
        assert number >= acknowledged.get((lane, name), -1), "acknowledged in order"
        acknowledged[lane, name] = number
    return acknowledged


async def assert_lines(
    data_dir: Path, acknowledged: dict[tuple[int, str], int], starts: list[int]
) -> list[int]:
    """Compare the files with all acknowledgements so far. Returns where the lanes go on."""
    store = await open_store(data_dir, SMALL)
    try:
        await ops.assert_clean(store)
        following = []
        shared = await contents(store, "shared")
        for lane in range(LANES):
            own = numbers(await contents(store, f"lane-{lane}"), lane)
            both = numbers(shared, lane)
            assert own == list(range(len(own))), f"lane {lane}: once, in order"
            assert len(own) > acknowledged.get((lane, "own"), -1), f"lane {lane}: lost"
            assert both == sorted(set(both)), f"lane {lane}: once, in order, in the shared file"
            # A round that died between the two files leaves one number out of the shared one.
            assert set(both) <= set(own)
            expected = acknowledged.get((lane, "shared"), -1)
            assert both[-1:] >= [expected] or expected < 0, f"lane {lane}: lost in the shared file"
            assert len(own) - len(both) <= len(starts), f"lane {lane}: holes in the shared file"
            following.append(len(own))
        return following
    finally:
        await store.close()


@pytest.mark.slow
async def test_random_kills_keep_every_acknowledged_line_once_and_in_order(tmp_path: Path) -> None:
    seed = seed_of_run()
    rng = random.Random(seed)
    acknowledged: dict[tuple[int, str], int] = {}
    acknowledged_shared: dict[int, set[int]] = {lane: set() for lane in range(LANES)}
    starts = [0] * LANES
    started, rounds = time.monotonic(), 0
    try:
        while time.monotonic() - started < SECONDS or rounds < ROUNDS_MIN:
            found = storm(tmp_path, rng, starts)
            acknowledged |= found
            for (lane, name), number in found.items():
                if name == "shared":
                    acknowledged_shared[lane] |= set(range(starts[lane], number + 1))
            rounds += 1
            starts = await assert_lines(tmp_path, acknowledged, [0] * rounds)
        store = await open_store(tmp_path, SMALL)
        try:
            shared = await contents(store, "shared")
            for lane in range(LANES):
                assert acknowledged_shared[lane] <= set(numbers(shared, lane)), f"lane {lane}"
            await ops.assert_works(store)
        finally:
            await store.close()
    except BaseException:
        print(f"ZONED_SEED={seed} round {rounds}")
        raise
    print(f"seed {seed}: {rounds} kills, {sum(starts)} lines in own files")
