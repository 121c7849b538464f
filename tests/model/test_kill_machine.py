"""Random operations in a real process that is killed again and again, always on the same folder.

Two lanes work on zones of their own, so that groups hold several units and every lane has at most
one operation whose outcome is open. The process dies at a random hit of a failpoint, or whenever
the parent feels like it; some starts after that are killed too, before they have done anything but
recover. Then the store must be clean, every lane where its answers say or one whole operation
further, and versions must go on rising.

ZONED_SEED replays a run, ZONED_KILLS makes it longer.
"""

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from filestore import FileStore
from tests.model import values
from tests.support import child_model as ops
from tests.support.child import FAILPOINTS, Child, ChildDied, open_store, spin
from tests.support.child_model import Model, Op, Refused
from tests.support.seeds import seed_of_run

LANES = ("a", "b")
KILLS = int(os.environ.get("ZONED_KILLS", "80"))
SECONDS_MAX = 25.0
"""On a busy machine fewer kills must do; asked for by ZONED_KILLS, all of them are made."""
KILLS_MIN = 10


def random_options(rng: random.Random) -> dict[str, Any]:
    """Limits under which a few operations cause every kind of background work."""
    return {
        "limits": {
            "seal_bytes": rng.choice((64, 500, 4096)),
            "log_bytes_soft": rng.choice((1_000, 20_000)),
            "wal_bytes_soft": rng.choice((30_000, 100_000)),
            "wal_bytes_hard": 300_000,
        },
        "writer": {
            "TRIM_BYTES_MIN": rng.choice((500, 4096)),
            "SHRINK_FREE_PAGES_MIN": 8,
            "SHRINK_PAGES": 4,
            "EMPTY_TAILS_MAX": rng.choice((2, 1024)),
        },
    }


class Lane:
    """What one lane has been told, and what it asked for last."""

    def __init__(self, name: str) -> None:
        self.zones = [f"{name}/{zone}" for zone in ("one", "two", "three")]
        self.prefix = name + "/"
        self.model = Model()
        self.pending: Op | None = None
        self.answered = 0
        self.version = 0

    def next(self, rng: random.Random) -> Op:
        op = values.random_operation(rng, self.zones)
        if rng.random() < 0.3:
            inner = [values.random_operation(rng, self.zones) for _ in range(rng.randrange(1, 5))]
            op = ops.transact(inner, fails=rng.random() < 0.3)
        self.pending = op
        return op

    def take(self, answer: Any) -> None:
        """The pending operation was answered; the model must agree."""
        assert self.pending is not None
        before = self.content()
        try:
            self.model.apply(self.pending)
            expected = None
        except Refused as refused:
            expected = refused.args[0]
        assert answer.get("error") == expected, (self.pending, answer)
        version = (answer.get("ok") or {}).get("version")
        if version is not None and self.content() != before:
            assert version > self.version, "versions rise and never come twice"
            self.version = version
        self.pending = None
        self.answered += 1

    def content(self) -> bytes | None:
        """What the file that the pending operation is about holds now."""
        assert self.pending is not None
        zone = self.model.zones.get(self.pending.get("zone", ""))
        file = zone.files.get(self.pending.get("name", "")) if zone else None
        return file.data if file else None

    def settle(self, found: Model) -> None:
        """After a kill: the state is as answered, or the pending operation is wholly there too."""
        pending = [] if self.pending is None else [self.pending]
        assert ops.matches(found, self.model, pending), (
            f"lane {self.prefix} after {self.answered} answers, pending {pending}:\n{found}\n"
            f"expected\n{self.model}"
        )
        self.model, self.pending = found, None


class Machine:
    """One folder, the lanes that work on it, and the kills so far."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder = folder
        self.rng = rng
        self.lanes = [Lane(name) for name in LANES]
        self.deaths: dict[str, int] = {}

    async def round(self) -> None:
        options = random_options(self.rng)
        where = self.work(options)
        self.deaths[where] = self.deaths.get(where, 0) + 1
        while self.rng.random() < 0.3:
            self.die_recovering(options)
            self.deaths["recovering"] = self.deaths.get("recovering", 0) + 1
        await self.look(options)

    def work(self, options: dict[str, Any]) -> str:
        """Operations until the process is dead. Returns of what it died."""
        rng = self.rng
        failpoint = rng.choice((None, None, *FAILPOINTS))
        hit = rng.randrange(1, 8 if (failpoint or "").startswith("checkpoint") else 60)
        answers_max = rng.randrange(1, 120)
        with Child(self.folder, options, failpoint=failpoint, hit=hit) as child:
            owner: dict[int, Lane] = {}
            try:
                self.drive(child, owner, answers_max)
                spin(rng.randrange(30_000))
                child.kill()
                where = "at random"
            except ChildDied:
                where = str(failpoint)
            for answer in child.reap():
                self.take(answer, owner)
            assert child.returncode == -9, child.stderr
        return where

    def drive(self, child: Child, owner: dict[int, Lane], answers_max: int) -> None:
        assert child.opened().get("error") is None
        for number, lane in enumerate(self.lanes):
            owner[child.send(lane.next(self.rng), number)] = lane
        for _ in range(answers_max):
            lane = self.take(child.receive(), owner)
            owner[child.send(lane.next(self.rng), self.lanes.index(lane))] = lane

    def take(self, answer: Any, owner: dict[int, Lane]) -> Lane:
        lane = owner.pop(answer["id"])
        lane.take(answer)
        return lane

    def die_recovering(self, options: dict[str, Any]) -> None:
        """Start on what the kill left, and die before, while or soon after it is recovered."""
        rng = self.rng
        failpoint = rng.choice(
            (None, "begun", "commit.before", "commit.after", "checkpoint.before")
        )
        with Child(self.folder, options, failpoint=failpoint, hit=rng.randrange(1, 4)) as child:
            if rng.random() < 0.5:
                try:
                    child.opened()
                except ChildDied:
                    assert failpoint is not None
            else:
                spin(rng.randrange(4_000_000))
            child.kill()
            child.reap()
            assert child.returncode == -9, child.stderr

    async def look(self, options: dict[str, Any]) -> None:
        """Compare, first from beside without writing anything, then as the new writer."""
        beside = None
        if self.rng.random() < 0.5:
            watcher = await FileStore.open(self.folder, read_only=True)
            try:
                beside = await ops.dump(watcher)
            finally:
                await watcher.close()
        store = await open_store(self.folder, options)
        try:
            assert store.position >= max(lane.version for lane in self.lanes), "counter went back"
            await ops.assert_clean(store)
            found = await ops.dump(store)
            assert beside is None or beside == found, f"{beside}\nfrom beside,\n{found}"
            for lane in self.lanes:
                lane.settle(found.part(lane.prefix))
            info = await store.write("probe", "file", self.rng.randbytes(8))
            for lane in self.lanes:
                assert info.version > lane.version, "versions rise and never come twice"
                lane.version = info.version
        finally:
            await store.close()


@pytest.mark.slow
async def test_random_operations_with_random_kills_keep_whole_acknowledged_operations(
    tmp_path: Path,
) -> None:
    seed = seed_of_run()
    machine = Machine(tmp_path / "data", random.Random(seed))
    is_long = "ZONED_KILLS" in os.environ
    started, rounds = time.monotonic(), 0
    try:
        while rounds < KILLS and (
            is_long or rounds < KILLS_MIN or time.monotonic() - started < SECONDS_MAX
        ):
            await machine.round()
            rounds += 1
        store = await FileStore.open(machine.folder)
        try:
            await ops.assert_works(store)
        finally:
            await store.close()
    except BaseException:
        print(f"ZONED_SEED={seed} failed in round {rounds + 1}, deaths {machine.deaths}")
        raise
    answered = sum(lane.answered for lane in machine.lanes)
    print(f"seed {seed}: {machine.deaths}, {answered} operations answered")


async def test_answer_that_was_not_kept_is_noticed(tmp_path: Path) -> None:
    """The control: a lane that believes in one operation more than there was."""
    machine = Machine(tmp_path / "data", random.Random(0))
    machine.work(random_options(machine.rng))
    machine.lanes[0].pending = None
    machine.lanes[0].model.apply(ops.append("a/one", "state", b"never written"))
    with pytest.raises(AssertionError, match="lane a/ after"):
        await machine.look(random_options(machine.rng))
