"""Suite 2: power cuts of the daemon itself.

A daemon works for several lanes under strace; what it wrote, synced and answered is played on a
model of the disk, and states that a cut may leave are made real and opened. Acknowledged is what
had left the daemon through a socket.

Three control runs must fail, or the suite could not see what it is there for: `--sync normal`; a
disk that does nothing when told to sync; and a disk that does not sync what is about to be renamed.
"""

import functools
import json
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgpack

from filestore import StoreError
from filestore.sessions import Sessions
from tests.crash.suite import Plan, Row, scratch
from tests.support.child import SMALL, open_store
from tests.support.child_model import assert_clean, assert_works
from tests.support.cuts import Heard, Recording, State, states
from tests.support.daemon import serving
from tests.support.disk_states import HOWS, put, record
from tests.support.faults import Call, read_trace
from tests.support.lanes import Agents, Lane, is_same, observe
from tests.support.small_daemon import COMMAND

LANES = 4
CALLS_EACH, CALLS_SHORT = 45, 20
STATES_PER_RECORDING = 1_500
STATES_SHORT = 80
CONTROL_STATES = 40
WORKS_EVERY = 25
_ID = re.compile(r"(\d+):(\d+)")


class Lies:
    """How the disks of the control runs lie: told to sync a file, they do not."""

    @staticmethod
    def never(_: str) -> bool:
        return False

    @staticmethod
    def before_rename(name: str) -> bool:
        return not name.endswith(".new")


def listener() -> Heard:
    """Puts together what goes out through each socket, and tells the ids of answered calls."""
    streams: dict[str, bytes] = {}
    is_open: set[str] = set()

    def heard(call: Call) -> list[bytes]:
        if not call.path.startswith(("socket:", "TCP", "UNIX")) or call.result <= 0:
            return []
        data = streams.get(call.path, b"") + call.data[: call.result]
        if call.path not in is_open:
            head, end, rest = data.partition(b"\r\n\r\n")
            if not end:
                streams[call.path] = data
                return []
            assert head.startswith(b"HTTP/1.1 101 "), head
            is_open.add(call.path)
            data = rest
        found, streams[call.path] = _answered(data)
        return found

    return heard


def _answered(data: bytes) -> tuple[list[bytes], bytes]:
    """The ids that lanes gave in whole frames, and the bytes behind them."""
    found = []
    while len(data) >= 2:
        start = {126: 4, 127: 10}.get(data[1], 2)
        size = int.from_bytes(data[2:start], "big") if start > 2 else data[1]
        if len(data) < start + size:
            break
        payload, opcode = data[start : start + size], data[0] & 0x0F
        data = data[start + size :]
        if opcode in (1, 2):
            answer = json.loads(payload) if opcode == 1 else msgpack.unpackb(payload)
            assert "error" not in answer, answer
            if _ID.fullmatch(str(answer.get("id"))):
                found.append(str(answer["id"]).encode())
    return found, data


@dataclass(slots=True)
class Worked:
    """A recording, and what the lanes held after each of their calls."""

    recording: Recording
    histories: dict[int, list[Agents]] = field(default_factory=dict)

    def acknowledged(self, state: State) -> dict[int, int]:
        """How many calls of each lane had been answered."""
        found = dict.fromkeys(self.histories, 0)
        for told in state.cut.acknowledged:
            lane, _, number = told.decode().partition(":")
            found[int(lane)] = int(number)
        return found


def work(folder: Path, seed: object, sync: str = "full", calls_each: int = CALLS_EACH) -> Worked:
    """Two daemons, one after the other, on a new folder; both end well."""
    data_dir, calls = folder / "data", []
    lanes = [Lane(number, seed) for number in range(LANES)]
    for session in range(2):
        trace = folder / f"trace {session}"
        with serving(
            data_dir, "--sync", sync, under=record(trace), command=COMMAND, folder=folder
        ) as daemon:
            threads = []
            for lane in lanes:
                lane.is_recorded = True
                client = daemon.client(is_unix=lane.number % 2 == 0, is_binary=lane.number > 1)
                threads.append(threading.Thread(target=lane.run, args=(client, calls_each)))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for lane in lanes:
                assert lane.trouble is None, lane.trouble
                assert set(lane.heard) == {"ok"}, lane.heard
                assert lane.done == calls_each * (session + 1)
            assert daemon.end() == 0, daemon.log
        calls += list(read_trace(trace))
        trace.unlink()
    recording = Recording(data_dir, calls, listener)
    return Worked(recording, {lane.number: lane.history for lane in lanes})


def lost_calls(found: Agents, history: list[Agents], acknowledged: int) -> int:
    """How many acknowledged calls are missing; whole ones only, else it fails."""
    for count in (acknowledged, acknowledged + 1):
        if count < len(history) and is_same(history[count], found):
            return 0
    for count in reversed(range(acknowledged)):
        if is_same(history[count], found):
            return acknowledged - count
    raise AssertionError(f"half done after {acknowledged} answers")


async def examine(state: State, worked: Worked, folder: Path, *, works: bool) -> int:
    """Open a state, check it and compare it. Returns how many acknowledged calls are lost."""
    put(state.files, folder)
    lost = 0
    try:
        store = await open_store(folder, SMALL)
        async with store, Sessions(store) as sessions:
            await assert_clean(store)
            for number, count in worked.acknowledged(state).items():
                names = Lane(number, 0).names
                found = await observe(store, sessions, names)
                lost += lost_calls(found, worked.histories[number], count)
            if works:
                await assert_works(store)
    finally:
        shutil.rmtree(folder)
    return lost


@dataclass(slots=True)
class Found:
    """What became of the states of a recording."""

    kinds: Counter[str] = field(default_factory=Counter)
    lossy: int = 0
    """States that are whole, but lack what was acknowledged."""
    broken: list[str] = field(default_factory=list)
    """States that do not open, or are damaged."""


async def cut(
    worked: Worked,
    seed: int,
    count: int,
    is_honest: Callable[[str], bool] = lambda _: True,
    is_over: Callable[[], bool] = lambda: False,
) -> Found:
    """Make states real, one after the other, until there are `count` or it is over."""
    found = Found()
    with scratch() as folder:
        for number, state in enumerate(states(worked.recording, seed, count, is_honest)):
            if is_over():
                break
            found.kinds[state.kind] += 1
            try:
                works = number % WORKS_EVERY == 0
                found.lossy += await examine(state, worked, folder / "data", works=works) > 0
            except (AssertionError, StoreError) as error:
                found.broken.append(f"state {number} of seed {seed}, {state.place}: {error!r}")
    return found


def until_checkpoint(worked: Worked) -> Worked:
    """The part in which it matters that the database was synced before it got its name."""
    recording = worked.recording
    path = str(recording.folder / "zoned.db")
    synced = (
        number
        for number, call in enumerate(recording.calls)
        if call.path == path and call.name in ("fsync", "fdatasync")
    )
    return Worked(replace(recording, calls=recording.calls[: next(synced)]), worked.histories)


async def control(folder: Path, row: Row, plan: Plan, worked: Worked) -> str:
    """The three runs that must fail. Returns how they did."""
    count = CONTROL_STATES if plan.is_short else CONTROL_STATES * 5
    (folder / "normal").mkdir()
    calls = CALLS_SHORT if plan.is_short else CALLS_EACH
    normal = await cut(work(folder / "normal", plan.seed, "normal", calls), plan.seed, count)
    off = await cut(worked, plan.seed, count, Lies.never)
    renamed = await cut(until_checkpoint(worked), plan.seed, count, Lies.before_rename)
    told = {
        "normal": (normal.lossy, normal.kinds.total()),
        "off": (off.lossy + len(off.broken), off.kinds.total()),
        "rename": (renamed.lossy + len(renamed.broken), renamed.kinds.total()),
    }
    for name, (failed, _) in told.items():
        if not failed:
            row.found(f"the control run {name!r} did not fail: {told}")
    if normal.broken:
        row.found(f"sync=normal may lose, never damage: {normal.broken[0]}")
    return ", ".join(f"{name}: {failed} of {tried} fail" for name, (failed, tried) in told.items())


async def run(folder: Path, plan: Plan) -> Row:
    """Recordings and states until the time has gone; the control runs with the first recording."""
    row = Row("power cuts", "disk states after a cut, of the daemon's own system calls", plan.seed)
    kinds: Counter[str] = Counter()
    recordings = 0
    while not recordings or not (plan.is_short or row.is_due(plan)):
        place = folder / f"recording-{recordings}"
        place.mkdir()
        calls = CALLS_SHORT if plan.is_short else CALLS_EACH
        worked = work(place, f"{plan.seed} {recordings}", calls_each=calls)
        if not recordings:
            row.control = await control(place, row, plan, worked)
        found = await cut(
            worked,
            plan.seed + recordings,
            STATES_SHORT if plan.is_short else STATES_PER_RECORDING,
            is_over=functools.partial(row.is_due, plan) if recordings else lambda: False,
        )
        recordings += 1
        kinds += found.kinds
        if found.lossy:
            row.found(f"{found.lossy} states lack what was acknowledged")
        for broken in found.broken:
            row.found(broken)
        shutil.rmtree(place)
    row.count = kinds.total()
    row.more.append(f"{recordings} recordings, {len(kinds)} of {len(HOWS) * 2} kinds of loss")
    return row.ended()


def played_files(worked: Worked) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """What the model of the disk says is there at the end, and what is there."""
    *_, (disk, _) = worked.recording.play(lambda _: True)
    played = disk.after_cut("kept", are_names_lasting=True, rng=Plan(0, 0).rng())
    files = [path for path in worked.recording.folder.iterdir() if path.is_file()]
    return played, {path.name: path.read_bytes() for path in files}
