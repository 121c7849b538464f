"""`kill -9` at every named moment of the writer, then reopen: whole units only, and all that was
acknowledged.

Two lanes work side by side on zones of their own, so groups hold several units and every lane has
at most one operation whose outcome is open. Background work (sealing, joining, releasing, trimming,
shrinking) goes through the same moments, so sweeping the hit number lands in it too;
`test_workload_left_alone_reaches_every_moment` proves that it happens.

A kill says nothing about power loss: what was written is in the page cache either way. See
test_power_cut.py for that.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.support import child_model as ops
from tests.support.child import (
    FAILPOINTS,
    SMALL,
    Child,
    ChildDied,
    failpoints_in_source,
    open_store,
)
from tests.support.child_model import Model, Op

LANES = ("a", "b")
HITS = (1, 2, 3, 5, 8, 13, 21, 34, 55)
CHECKPOINT_HITS = (1, 2, 3, 4, 6, 8)


def text(rng: random.Random, size: int) -> bytes:
    """Lines, some of them blank, that compress somewhat."""
    words = [
        rng.choice([b"alpha", b"beta\n", b"\n", b" \t\n", b"gamma ", b"{}\n"]) for _ in range(size)
    ]
    return b"".join(words)[:size]


def script(lane: str) -> list[Op]:
    """The operations of one lane; all zones start with its name."""
    rng = random.Random(f"failpoints {lane}")
    work, side, copy, moved = (f"{lane}/{name}" for name in ("work", "side", "copy", "moved"))
    found: list[Op] = []
    for turn in range(4):
        found += [
            ops.write(work, "state", rng.randbytes(20_000) + text(rng, 30_000)),
            ops.append(work, "stream", text(rng, 3_000)),
            ops.append_lines(work, "lines", [text(rng, 200), b"end %d" % turn]),
            ops.set_meta(work, "state", {"turn": turn, "old": None}),
            ops.transact(
                [
                    ops.write(side, "pair", b"turn %d" % turn),
                    ops.append(work, "stream", b"with the pair %d\n" % turn),
                    ops.append_lines(side, "log", [b"turn %d" % turn]),
                    ops.set_meta(side, None, {"turn": turn}),
                ]
            ),
            ops.transact([ops.write(side, "pair", b"never"), ops.delete_zone(work)], fails=True),
            ops.append(work, "stream", rng.randbytes(9_000)),
            ops.copy_zone(work, copy),
            ops.append(copy, "stream", b"in the copy only"),
            ops.move_zone(copy, moved),
            ops.write(work, "state", text(rng, 40_000)),
            ops.delete_file(work, "lines"),
            ops.delete_zone(moved),
            ops.append(work, "stream", text(rng, 6_000)),
        ]
    return found


SCRIPTS = {lane: script(lane) for lane in LANES}


def drive(child: Child) -> dict[str, int]:
    """Run both scripts, one operation of each lane under way at a time.

    Returns how many were answered.
    """
    answered = dict.fromkeys(LANES, 0)
    owner: dict[int, str] = {}

    def send_next(lane: str) -> None:
        if answered[lane] < len(SCRIPTS[lane]):
            op = SCRIPTS[lane][answered[lane]]
            owner[child.send(op, LANES.index(lane))] = lane

    def take(answer: Any) -> None:
        lane = owner.pop(answer["id"])
        expected = "UnitFailedError" if SCRIPTS[lane][answered[lane]].get("fails") else None
        assert answer.get("error") == expected, answer
        answered[lane] += 1

    try:
        child.opened()
        for lane in LANES:
            send_next(lane)
        while owner:
            answer = child.receive()
            lane = owner[answer["id"]]
            take(answer)
            send_next(lane)
        child.call(ops.tidy())
    except ChildDied:
        for answer in child.reap():
            take(answer)
    return answered


def model_of(lane: str, count: int) -> Model:
    return Model().after(op for op in SCRIPTS[lane][:count] if not op.get("fails"))


async def assert_survived(data_dir: Path, answered: dict[str, int]) -> None:
    """Every lane is where its answers say, or one whole operation further; and the store works."""
    store = await open_store(data_dir, SMALL)
    try:
        await ops.assert_clean(store)
        found = await ops.dump(store)
        for lane, count in answered.items():
            before = model_of(lane, count)
            assert ops.matches(found.part(lane + "/"), before, SCRIPTS[lane][count:]), (
                f"lane {lane} after {count} answers:\n{found.part(lane + '/')}\nexpected\n{before}"
            )
        await ops.assert_works(store)
    finally:
        await store.close()


def moments() -> list[tuple[str, int]]:
    return [
        (name, hit)
        for name in FAILPOINTS
        for hit in (CHECKPOINT_HITS if name.startswith("checkpoint") else HITS)
    ]


def test_list_of_failpoints_against_source_is_complete() -> None:
    assert set(FAILPOINTS) == failpoints_in_source()


async def test_workload_left_alone_reaches_every_moment(tmp_path: Path) -> None:
    with Child(tmp_path, SMALL) as child:
        answered = drive(child)
        hits = child.call({"op": "hits"})["ok"]
        assert child.finish()["ok"] is None
    assert answered == {lane: len(SCRIPTS[lane]) for lane in LANES}
    for name, hit in moments():
        assert hits.get(name, 0) >= hit, (name, hits)
    store = await open_store(tmp_path, SMALL)
    try:
        ((trimmed_to,),) = await store.read_unit(lambda tx: tx.fetch("SELECT min(seq) FROM log"))
        assert trimmed_to > 1, "the log was trimmed"
        row = await store.read_unit(
            lambda tx: tx.fetch_one(
                "SELECT f.size, f.pages FROM file f JOIN zone z ON z.id = f.zone_id "
                "WHERE z.name = 'a/work' AND f.name = 'stream'"
            )
        )
        assert row is not None
        assert row[0] > 0, "the stream was sealed"
        assert not await store.read_unit(lambda tx: tx.fetch("SELECT 1 FROM released"))
        assert not await store.read_unit(lambda tx: tx.fetch("SELECT 1 FROM chunk WHERE refs = 0"))
        assert await ops.dump(store) == Model(
            {
                name: zone
                for lane in LANES
                for name, zone in model_of(lane, len(SCRIPTS[lane])).zones.items()
            }
        )
    finally:
        await store.close()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "hit"), moments())
async def test_kill_at_failpoint_keeps_whole_acknowledged_operations(
    tmp_path: Path, name: str, hit: int
) -> None:
    with Child(tmp_path, SMALL, failpoint=name, hit=hit) as child:
        answered = drive(child)
        child.reap()
        assert child.returncode == -9, f"never came to {name} for the {hit}. time: {child.stderr}"
    await assert_survived(tmp_path, answered)


async def test_lost_operation_is_noticed(tmp_path: Path) -> None:
    """The control: the same comparison fails when one acknowledged operation is missing."""
    with Child(tmp_path, SMALL, failpoint="acknowledged", hit=13) as child:
        answered = drive(child)
    answered["a"] += 2
    with pytest.raises(AssertionError, match="lane a after"):
        await assert_survived(tmp_path, answered)
