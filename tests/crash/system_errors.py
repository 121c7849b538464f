"""Suite 3: errors from the system, met by a daemon under load.

Calls that fail (strace is attached to the running daemon and counts from there): EIO, ENOSPC and
EROFS at the Nth write or sync of the log or the database, once or from then on. Callers may hear
only what the specs name; a fault that passes is overcome within seconds and without a restart, one
that stays is told by health, with its reason, while reads go on. Afterwards every lane holds what
it was promised; what was unknown is there whole or not at all.

And conditions: no descriptors left, no memory, a file system that is read-only, syncs that take
long, a clock that jumps.
"""

import contextlib
import errno
import json
import os
import resource
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from filestore import FileStore
from filestore.sessions import Sessions
from tests.crash.suite import Plan, Row, scratch
from tests.support.child import SMALL, open_store
from tests.support.child_model import assert_clean, assert_works
from tests.support.daemon import Client, Closed, Daemon, Failed, serving
from tests.support.faults import injected, resize_disk, small_disk, until_sync
from tests.support.lanes import Lane, observe
from tests.support.processes import run as run_command
from tests.support.small_daemon import COMMAND, Hatched, Nest, nest

RESUME_S_MAX = 5.0
SETTLE_S_MAX = 15.0
CALLS_EACH = 14
CALLS_CLOCK = 4
"""libfaketime makes a call take a hundred times as long."""
LANES = 2
NUMBERS = (1, 2, 3, 5, 8, 13, 21, 34)
POINTS_SHORT = 2
SLOW_S = 0.2
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
TOLD = {"ok", "COMMIT_UNKNOWN", "STORAGE_FULL", "READ_ONLY"}


@dataclass(frozen=True, slots=True)
class Point:
    """Which call fails with what: the Nth (`N`), or the Nth and all after it (`N+`)."""

    call: str
    file: str
    error: str
    when: str

    @property
    def stays(self) -> bool:
        return self.when.endswith("+")

    def __str__(self) -> str:
        return f"{self.error} at {self.call} no. {self.when} of {self.file}"


POINTS = [
    Point(call, file, error, f"{number}{more}")
    for call in ("pwrite64", "fsync,fdatasync")
    for file in ("zoned.db-wal", "zoned.db")
    for error in ("EIO", "ENOSPC", "EROFS")
    for number in NUMBERS
    for more in ("", "+")
    if (call, error) != ("fsync,fdatasync", "EROFS")
]


@contextlib.contextmanager
def attached(pid: int, trace: Path, call: str, how: str, path: Path | None) -> Iterator[None]:
    """strace on a running process, tampering with its calls until the end of the block."""
    aimed = ["-P", str(path)] if path is not None else []
    command = ["strace", "-f", "-o", str(trace), "-p", str(pid), *aimed, "-e", f"trace={call}",
               "-e", f"inject={call}:{how}"]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        try:
            line = strace.stderr.readline()
            assert "attached" in line, line
            yield
        finally:
            strace.terminate()
            strace.stderr.read()


def work(daemon: Daemon, lanes: list[Lane], calls: int) -> None:
    """The lanes side by side, so many steps each; a lane whose call nobody can tell of stops."""
    threads = []
    for lane in lanes:
        client = daemon.client(is_unix=lane.number % 2 == 0)
        threads.append(threading.Thread(target=lane.run, args=(client, calls), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a lane waits for ever"
    for lane in lanes:
        if lane.trouble is not None:
            raise AssertionError(f"lane {lane.number}: {lane.trouble!r}")


def save(client: Client, number: int) -> str:
    """Try a small write that is none of the lanes'. Returns `ok` or the kind of the refusal."""
    try:
        client.call("agent:session:write_state", definition_id="other", content=f"save {number}")
    except Failed as error:
        return error.kind
    return "ok"


def settles(client: Client, numbers: Iterator[int], wanted: Callable[[str], bool]) -> None:
    until_sync(lambda: wanted(save(client, next(numbers))), SETTLE_S_MAX)


async def assert_kept(data_dir: Path, lanes: list[Lane], where: str) -> None:
    """After the daemon's end: whole, and every lane as it was promised."""
    store = await open_store(data_dir, SMALL)
    async with store, Sessions(store) as sessions:
        await assert_clean(store)
        for lane in lanes:
            lane.takes_over(await observe(store, sessions, lane.names), where)
        await assert_works(store)


def begun(place: Nest, folder: Path, plan: Plan, where: object) -> tuple[Hatched, list[Lane]]:
    """A daemon on a folder of its own that has worked a little."""
    folder.mkdir()
    daemon = place.hatch(folder / "data")
    lanes = [Lane(number, f"{plan.seed} {where}") for number in range(LANES)]
    work(daemon, lanes, CALLS_EACH)
    return daemon, lanes


async def fail_at(point: Point, place: Nest, folder: Path, plan: Plan) -> tuple[Counter[str], int]:
    """One fault point. Returns what was heard, and how often the call was made to fail."""
    daemon, lanes = begun(place, folder, plan, point)
    trace, numbers = folder / "trace", iter(range(1_000_000))
    how = f"error={point.error}:when={point.when}"
    path = daemon.data_dir / point.file
    with daemon.client(is_unix=True) as client:
        with attached(daemon.pid, trace, point.call, how, path):
            work(daemon, lanes, CALLS_EACH)
            if not point.stays:
                settles(client, numbers, lambda said: said == "ok")
                assert client.call("srv:health") == {"ok": True}
            kind = save(client, next(numbers))
            health = client.call("srv:health")
            if kind != "ok":
                settles(client, numbers, lambda said: said in ("READ_ONLY", "STORAGE_FULL", "ok"))
                health = client.call("srv:health")
                kind = save(client, next(numbers))
                assert kind == "ok" or (health["ok"] is False and health["trouble"]), (kind, health)
            client.call("agent:session:read_output", definition_id=lanes[0].names[0])
        if kind == "STORAGE_FULL":
            # The disk takes writes again: so must the store, by itself.
            until_sync(lambda: save(client, next(numbers)) == "ok", RESUME_S_MAX)
    heard: Counter[str] = Counter()
    for lane in lanes:
        heard += lane.heard
    daemon.kill()
    assert "Traceback" not in daemon.log, daemon.log
    assert set(heard) <= TOLD, heard
    await assert_kept(daemon.data_dir, lanes, str(point))
    return heard, injected(trace)


# -- conditions


async def no_descriptors(place: Nest, folder: Path, plan: Plan) -> str:
    """Who is connected goes on; who comes is let in when there is room again."""
    daemon, lanes = begun(place, folder, plan, "descriptors")
    used = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    before = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    with daemon.client(is_unix=True) as client, contextlib.ExitStack() as crowd:
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (used + 8, before[1]))
        for _ in range(40):
            crowd.enter_context(daemon.open(is_unix=True))
        for number in range(20):
            assert save(client, number) == "ok"
        assert client.call("srv:health") == {"ok": True}
        crowd.close()
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, before)
        work(daemon, lanes, CALLS_EACH)
    daemon.kill()
    assert "Traceback" not in daemon.log
    await assert_kept(daemon.data_dir, lanes, "no descriptors")
    return "no descriptors: connected clients go on"


async def no_memory(place: Nest, folder: Path, plan: Plan) -> str:
    """A snapshot that does not fit is refused or is the end of the daemon, never of the data."""
    daemon, lanes = begun(place, folder, plan, "memory")
    pages = int(Path(f"/proc/{daemon.pid}/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + (64 << 20)
    outcome = "served"
    try:
        with daemon.client(is_unix=True) as client:
            resource.prlimit(daemon.pid, resource.RLIMIT_AS, (limit, limit))
            for number in range(3):
                big = {"definition_id": "big", "content": f"{number}" * 30_000_000}
                client.send(client.request("agent:session:write_state", "big", big))
                answer = client.answer()  # without the id, if there was no memory to look for it
                if "error" in answer:
                    kind = answer["error"]["data"]["kind"]
                    assert kind in ("UNAVAILABLE", "BUSY"), answer
                    outcome = f"refused as {kind}"
                assert save(client, number) == "ok", "the next good request works"
        work(daemon, lanes, CALLS_EACH)
    except (Closed, OSError):
        outcome = "hung up" if daemon.is_alive() else "the daemon ended"
    with contextlib.suppress(ProcessLookupError):
        daemon.kill()
    await assert_kept(daemon.data_dir, lanes, "no memory")
    return f"no memory: {outcome}"


async def slow_syncs(place: Nest, folder: Path, plan: Plan) -> str:
    """Writes wait for the disk together; reads do not wait for writes."""
    daemon, lanes = begun(place, folder, plan, "slow")
    slow = f"delay_exit={int(SLOW_S * 1e6)}"
    reads: list[float] = []
    with attached(daemon.pid, folder / "trace", "fsync,fdatasync", slow, None):
        writers = [threading.Thread(target=_save_few, args=(daemon, n)) for n in range(8)]
        started = time.monotonic()
        for writer in writers:
            writer.start()
        with daemon.client(is_unix=True) as client:
            while any(writer.is_alive() for writer in writers):
                asked = time.monotonic()
                client.call("agent:session:read_output", definition_id=lanes[0].names[0], limit=1)
                reads.append(time.monotonic() - asked)
        took = time.monotonic() - started
    daemon.kill()
    middle = sorted(reads)[len(reads) // 2]
    syncs = (folder / "trace").read_text(encoding="latin-1").count("(DELAYED)")
    # 8 writers with 4 saves each: alone they would take 32 syncs, and those of checkpoints.
    assert 0 < syncs < 32, f"{syncs} syncs for 32 saves: they were not shared"
    assert middle < SLOW_S / 2, f"{middle:.3f} s: reads wait for syncs"
    await assert_kept(daemon.data_dir, lanes, "slow syncs")
    shown = f"{syncs} for 32 saves of 8 clients in {took:.1f} s"
    return f"syncs of {SLOW_S} s: {shown}, reads {middle * 1e3:.0f} ms meanwhile"


def _save_few(daemon: Daemon, number: int) -> None:
    with daemon.client(is_unix=True) as client:
        for turn in range(4):
            client.call(
                "agent:session:write_state", definition_id=f"slow-{number}", content=str(turn)
            )


async def read_only_files(place: Nest, folder: Path, plan: Plan) -> str:
    """The daemon does not start, and says why; reading needs no daemon; writable, all is well."""
    folder.mkdir()
    with small_disk(folder / "disk", "64m") as disk:
        data_dir = disk / "data"
        daemon = place.hatch(data_dir)
        lanes = [Lane(number, plan.seed) for number in range(LANES)]
        work(daemon, lanes, CALLS_EACH)
        daemon.end_by_signal()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with serving(data_dir, folder=folder) as refused:
            assert refused.ready is None
            assert refused.wait() == 1
            assert "Traceback" not in refused.log
            assert os.strerror(errno.EROFS).lower() in refused.log.lower(), refused.log
        listed = run_command("agents", "--json", "--data-dir", str(data_dir))
        assert listed.returncode == 0, listed.stderr
        assert len(json.loads(listed.stdout)) >= LANES
        async with await FileStore.open(data_dir, read_only=True) as store:
            await assert_clean(store)
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        resize_disk(disk, "65m")
        await assert_kept(data_dir, lanes, "read-only files")
    return "read-only file system: refused with the reason, readable"


async def clock_jumps(_: Nest, folder: Path, plan: Plan) -> str:
    """Order is the counter's, never the clock's."""
    folder.mkdir()
    stamp = folder / "stamp"
    stamp.write_text("@2026-01-01 00:00:00\n", encoding="ascii")
    environ = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(stamp),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    lanes = [Lane(number, f"{plan.seed} clock") for number in range(LANES)]
    data_dir = folder / "data"
    times = []
    with serving(data_dir, command=COMMAND, environ=environ, folder=folder) as daemon:
        with daemon.client() as client:
            for year in (2026, 2025, 2046, 1999, 2038, 1999):
                jump(client, stamp, year)
                work(daemon, lanes, CALLS_CLOCK)
                archived = client.call("agent:session:archive", definition_id="clock")
                times.append(archived["archived_at_ms"])
        for lane in lanes:
            assert set(lane.heard) == {"ok"}, lane.heard
        assert times == sorted(set(times)), f"archives go backwards: {times}"
        assert daemon.end() == 0
    await assert_kept(data_dir, lanes, "clock jumps")
    return "clock to 1999, 2025, 2038, 2046: order kept"


def jump(client: Client, stamp: Path, year: int) -> None:
    """Set the daemon's clock, and wait until it has seen that."""
    stamp.write_text(f"@{year}-01-19 03:14:00\n", encoding="ascii")
    numbers = iter(range(1_000_000))

    def is_there() -> bool:
        content = f"{year} {next(numbers)}"
        params = {"definition_id": "clock", "content": content}
        modified = client.call("agent:session:write_state", **params)["modts"] / 1000
        return time.gmtime(modified).tm_year == year

    until_sync(is_there, SETTLE_S_MAX)


def conditions() -> list[tuple[Callable[..., object], str]]:
    """Each with the reason why it cannot be tried here, or ""."""
    is_root = os.geteuid() == 0
    return [
        (no_descriptors, ""),
        (no_memory, ""),
        (slow_syncs, ""),
        (read_only_files, "" if is_root else "needs root"),
        (clock_jumps, "" if FAKETIME else "libfaketime is not installed"),
    ]


async def control(place: Nest, folder: Path, row: Row, plan: Plan) -> str:
    """A daemon that was promised to have failed must be found not to have: the tampering counts."""
    daemon, _ = begun(place, folder, plan, "control")
    trace = folder / "trace"
    how, path = "error=EIO:when=1", daemon.data_dir / "zoned.db-wal"
    with (
        daemon.client(is_unix=True) as client,
        attached(daemon.pid, trace, "fsync,fdatasync", how, path),
    ):
        kind = save(client, 0)
    daemon.kill()
    if kind == "COMMIT_UNKNOWN" and injected(trace) == 1:
        return "a failed sync is heard of"
    row.found(f"the control did not fail: a failed sync was answered with {kind}")
    return "did not fail"


async def run(plan: Plan) -> Row:
    """The conditions, then fault points in a random order until the time has gone."""
    row = Row("errors of the system", "points at which a call fails, and conditions", plan.seed)
    rng = plan.rng("points")
    chosen = rng.sample(POINTS, POINTS_SHORT if plan.is_short else len(POINTS))
    heard: Counter[str] = Counter()
    hits, told = 0, []
    with scratch() as folder, nest(folder) as place:
        row.control = await control(place, folder / "control", row, plan)
        for condition, reason in conditions():
            name = condition.__name__
            if plan.is_short and name not in ("no_descriptors", "no_memory", "slow_syncs"):
                continue
            if reason:
                told.append(f"{name} skipped: {reason}")
                continue
            row.count += 1
            try:
                told.append(await condition(place, folder / name, plan))  # type: ignore[misc]  # a coroutine function
            except Exception as error:
                row.found(f"{name}: {error!r}")
        for number, point in enumerate(chosen):
            if not plan.is_short and row.is_due(plan):
                break
            row.count += 1
            try:
                found, count = await fail_at(point, place, folder / str(number), plan)
                heard += found
                hits += count
            except Exception as error:
                row.found(f"{point}: {error!r}")
            shutil.rmtree(folder / str(number), ignore_errors=True)
    row.more += [f"{hits} failed calls; answers: {dict(heard)}", *told]
    return row.ended()
