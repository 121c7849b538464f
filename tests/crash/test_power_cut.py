"""A power cut at any moment: every acknowledged operation is there, and nothing is half there.

Killing a process cannot show this, because the page cache outlives it. So two sessions of a real
store are recorded with all that they write, and disk_states.py works out what the disk may hold
after a cut at a moment chosen by chance. Each such state is made real, opened, checked deeply and
compared byte for byte.

The control is the same with sync="normal", which promises less: there acknowledged operations must
be found missing, or this test could not see it. What even that one may never leave is a damaged
store.

ZONED_STATES sets the number of states, ZONED_SEED replays a choice.
"""

import itertools
import json
import os
import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import child_model as ops
from tests.support.child import SMALL, Child, open_store
from tests.support.child_model import Model, Op
from tests.support.cuts import Recording, State, states
from tests.support.disk_states import HOWS, Cut, Disk, play, put, record
from tests.support.faults import Call, read_trace
from tests.support.seeds import seed_of_run

pytestmark = [pytest.mark.strace, pytest.mark.slow]

LANES = ("a", "b")
STATES = int(os.environ.get("ZONED_STATES", "240"))
CONTROL_STATES_SHARE = 3
WORKS_EVERY = 20
"""Every so many states, the store is also made to work on."""


def script(lane: str) -> list[Op]:
    """The operations of one lane: all kinds, and enough bytes for every background work."""
    rng = random.Random(f"power cut {lane}")
    work, copy, moved = (f"{lane}/{name}" for name in ("work", "copy", "moved"))
    lines = b"".join(b'{"line": %d, "text": "%d"}\n' % (n, n * n) for n in range(900))
    found: list[Op] = []
    for turn in range(4):
        found += [
            ops.write(work, "state", rng.randbytes(9_000) + lines[: 9_000 + 2_000 * turn]),
            ops.append(work, "stream", lines[turn * 500 :][:3_000]),
            ops.append_lines(work, "lines", [b"turn %d" % turn, rng.randbytes(40).hex().encode()]),
            ops.set_meta(work, "state", {"turn": turn}),
            ops.transact(
                [
                    ops.append(work, "stream", b"with the pair %d\n" % turn),
                    ops.write(f"{lane}/pair", "state", b"turn %d" % turn),
                    ops.set_meta(f"{lane}/pair", None, {"turn": turn}),
                ]
            ),
            ops.transact([ops.delete_zone(work)], fails=True),
            ops.copy_zone(work, copy),
            ops.append(work, "stream", rng.randbytes(5_000)),
            ops.move_zone(copy, moved),
            ops.delete_file(work, "lines"),
            ops.write(work, "state", lines[:20_000]),
            ops.delete_zone(moved),
        ]
    return found


SCRIPTS = {lane: script(lane) for lane in LANES}


def models_of(lane: str) -> list[Model]:
    """The lane's state after every number of operations."""
    found = [Model()]
    for op in SCRIPTS[lane]:
        found.append(found[-1] if op.get("fails") else found[-1].after([op]))
    return found


@dataclass(slots=True)
class Sessions:
    """The calls of all sessions, and whose operation each answer acknowledges."""

    folder: Path
    calls: list[Call] = field(default_factory=list)
    owners: list[dict[int, str]] = field(default_factory=list)

    def acknowledged(self, cut: Cut) -> dict[str, int]:
        """How many operations of each lane had been answered."""
        found = dict.fromkeys(LANES, 0)
        session = -1
        for line in cut.acknowledged:
            answer = json.loads(line)
            session += answer["id"] == "open"
            lane = self.owners[session].get(answer["id"])
            if lane is not None:
                found[lane] += 1
        return found


def record_sessions(folder: Path, sync: str) -> Sessions:
    """Half of the scripts, a clean close, the other half, another close."""
    found = Sessions(folder / "data")
    half = {lane: len(ops) // 2 for lane, ops in SCRIPTS.items()}
    for number in range(2):
        trace = folder / f"trace {number}"
        with Child(found.folder, {**SMALL, "sync": sync}, under=record(trace)) as child:
            assert child.opened() == {"id": "open", "ok": None}
            parts = {
                lane: script[: half[lane]] if number == 0 else script[half[lane] :]
                for lane, script in SCRIPTS.items()
            }
            found.owners.append(drive(child, parts))
            child.call(ops.tidy())
            assert child.finish() == {"id": "close", "ok": None}
        found.calls += read_trace(trace)
        trace.unlink()
    return found


def drive(child: Child, parts: dict[str, list[Op]]) -> dict[int, str]:
    """Run the lanes side by side, one operation of each under way at a time."""
    owner: dict[int, str] = {}
    left = {lane: iter(part) for lane, part in parts.items()}

    def send_next(lane: str) -> int:
        op = next(left[lane], None)
        if op is None:
            return 0
        owner[child.send(op, LANES.index(lane))] = lane
        return 1

    waiting = sum(send_next(lane) for lane in LANES)
    while waiting:
        answer: Any = child.receive()
        assert answer.get("error") in (None, "UnitFailedError"), answer
        waiting += send_next(owner[answer["id"]]) - 1
    return owner


def lost_operations(found: Model, models: list[Model], acknowledged: int) -> int:
    """How many acknowledged operations are missing; whole ones only, else it fails."""
    for count in (acknowledged, acknowledged + 1):
        if count < len(models) and found == models[count]:
            return 0
    for count in reversed(range(acknowledged)):
        if found == models[count]:
            return acknowledged - count
    raise AssertionError(
        f"after {acknowledged} answers, half done:\n{found}\n{models[acknowledged]}"
    )


async def examine(
    state: State,
    acknowledged: dict[str, int],
    folder: Path,
    models: dict[str, list[Model]],
    number: int,
) -> int:
    """Open a state, check it and compare it. Returns how many acknowledged operations are lost."""
    put(state.files, folder)
    store = await open_store(folder, SMALL)
    try:
        await ops.assert_clean(store)
        found = await ops.dump(store)
        lost = sum(
            lost_operations(found.part(lane + "/"), models[lane], acknowledged[lane])
            for lane in LANES
        )
        if number % WORKS_EVERY == 0:
            await ops.assert_works(store)
    finally:
        await store.close()
    shutil.rmtree(folder)
    return lost


async def cut_power(folder: Path, sync: str, count: int) -> tuple[Counter[str], int]:
    """Record, cut, examine. Returns the states by kind, and how many had a loss."""
    seed = seed_of_run()
    recording = record_sessions(folder, sync)
    models = {lane: models_of(lane) for lane in LANES}
    kinds: Counter[str] = Counter()
    lossy = 0
    cuts = states(Recording(recording.folder, recording.calls), seed, count)
    for number, state in enumerate(cuts):
        try:
            acknowledged = recording.acknowledged(state.cut)
            lost = await examine(state, acknowledged, folder / f"state {number}", models, number)
            assert lost == 0 or sync == "normal", f"{lost} acknowledged operations are lost"
        except Exception as error:
            shown = {name: len(content) for name, content in state.files.items()}
            where = f"ZONED_SEED={seed}, state {number}: {state.place}, {shown}, kept in {folder}"
            raise AssertionError(f"{where}: {error!r}") from error
        lossy += lost > 0
        kinds[state.kind] += 1
    print(f"sync={sync}, seed {seed}: {kinds.total()} states, {lossy} with a loss; {dict(kinds)}")
    return kinds, lossy


async def test_power_cut_anywhere_keeps_every_acknowledged_operation(tmp_path: Path) -> None:
    kinds, lossy = await cut_power(tmp_path, "full", STATES)
    assert lossy == 0
    assert kinds.total() >= min(STATES, 200), "there are that many different ones"
    assert len(kinds) == len(HOWS) * 2, "every kind of loss came up, under both rules for names"


async def test_power_cut_with_normal_sync_loses_operations_but_damages_nothing(
    tmp_path: Path,
) -> None:
    """The control: the same look at a store that does not promise it."""
    _, lossy = await cut_power(tmp_path, "normal", max(60, STATES // CONTROL_STATES_SHARE))
    assert lossy > 10


def test_recorded_sessions_hold_all_the_work_that_a_cut_should_meet(tmp_path: Path) -> None:
    recording = record_sessions(tmp_path, "full")
    done = Counter((call.name, Path(call.path).name) for call in recording.calls)
    assert done["fsync", "zoned.db"] + done["fdatasync", "zoned.db"] > 5, "checkpoints"
    assert done["ftruncate", "zoned.db-wal"] >= 2, "clean closes"
    *_, last = play(Disk(recording.folder), recording.calls)
    assert recording.acknowledged(last) == {lane: len(SCRIPTS[lane]) for lane in LANES}


def test_played_recording_ends_in_the_files_that_are_there(tmp_path: Path) -> None:
    """The model of the disk, against the disk."""
    recording = record_sessions(tmp_path, "full")
    disk = Disk(recording.folder)
    for _ in play(disk, recording.calls):
        pass
    for lasting in (True, False):
        rng = random.Random(0)
        files = disk.after_cut("kept", are_names_lasting=lasting, rng=rng)
        assert files == {path.name: path.read_bytes() for path in recording.folder.iterdir()}


def sectors(content: bytes) -> list[bytes]:
    return [content[start : start + 512] for start in range(0, len(content), 512)]


def test_cut_keeps_what_was_synced_and_any_sectors_of_the_rest(tmp_path: Path) -> None:
    """The model of the disk, by hand: 4 sectors are synced, then 3 of them are overwritten."""
    path = str(tmp_path / "file")

    def call(name: str, data: bytes = b"", offset: int = 0) -> Call:
        made = [path] if name == "openat" else []
        return Call(name, path, f"3<{path}>, O_CREAT, {offset}", len(data), data, made)

    disk = Disk(tmp_path)
    for done in (call("openat"), call("pwrite64", b"a" * 2048), call("fsync")):
        assert disk.play(done)
    assert disk.play(call("pwrite64", b"b" * 1024, 1024 + 256))
    found = {
        how: {
            disk.after_cut(how, are_names_lasting=True, rng=random.Random(seed))["file"]
            for seed in range(200)
        }
        for how in HOWS
    }
    old, new = b"a" * 2048, b"a" * 1280 + b"b" * 1024
    assert found["lost"] == {old}
    assert found["kept"] == {new}
    assert found["subset"] == {old, new}
    # The file has grown if its new length was kept, whether the bytes were or not.
    pairs = zip(sectors(old + bytes(256)), sectors(new), strict=True)
    torn = {b"".join(parts) for parts in itertools.product(*pairs)}
    assert found["torn"] == torn | {state[:2048] for state in torn}
    assert found["prefix"] == {old, new[:1536] + old[1536:], new[:2048]}
    assert disk.after_cut("lost", are_names_lasting=False, rng=random.Random(0)) == {}


def test_folder_of_new_store_is_durable_before_first_acknowledgement(tmp_path: Path) -> None:
    """Names that last only when their folder was synced: the data folder's own is one too."""
    recording = record_sessions(tmp_path, "full")
    disk = Disk(recording.folder)
    first = next(cut for cut in play(disk, recording.calls) if cut.acknowledged)
    assert disk.is_folder_made
    assert disk.is_folder_synced, f"call {first.moment}: nobody has synced {tmp_path.name}"
