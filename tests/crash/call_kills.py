"""Suite 1, first half: `kill -9` at every system call that changes the disk, of every public write
operation.

Each operation runs in a process of its own on a copy of one prepared folder. A first run, left
alone, tells which calls on which files it makes, from opening to closing; then one run for each of
them is killed at its door. strace counts the calls of a thread apart; nearly all calls on one file
are made by one thread, and where there are two the numbers of the busier one are gone through.

Afterwards the store is what it was before the operation or after it, byte for byte; if `done` was
said, after it. A killed backup leaves no backup or a whole one; a killed migration, run again, ends
as if it had never been killed.
"""

import asyncio
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filestore import FileStore
from filestore.records import Records
from filestore.sessions import Sessions
from tests.crash.operation import BACKUP, OPERATIONS, prepare
from tests.crash.suite import Plan, Row, scratch
from tests.migrations.child import Hits
from tests.migrations.child import run as run_migrations
from tests.migrations.test_kill import dump as dump_migrated
from tests.migrations.test_kill import make_old
from tests.support.child import ROOT
from tests.support.child_model import assert_clean, assert_works, dump

CALLS = "openat,pwrite64,write,ftruncate,fsync,fdatasync,unlink,rename,mkdir"
RUN_S_MAX = 60.0
SAMPLE_OPERATIONS, SAMPLE_EACH = 3, 2
"""In the short form, so many operations, and so many points of each."""
LONGEST = "migrate"
"""Makes as many calls as all others together: goes last, as far as the time allows."""
LONGEST_POINTS_MIN = 60
_LINE = re.compile(r"^(\d+) +(\w+)\((.*)$")

State = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """Where to kill: the Nth call of this name on this path."""

    call: str
    path: str
    number: int

    def __str__(self) -> str:
        return f"{self.call} no. {self.number} of {Path(self.path).name}"


@dataclass(frozen=True, slots=True)
class Case:
    """An operation, the folder it starts from, and what is there before and after it."""

    name: str
    folder: Path
    before: State
    after: State


def traced(trace: Path) -> list[str]:
    return ["strace", "-f", "-qq", "-y", "-o", str(trace), "-e", f"trace={CALLS}"]


def killing(trace: Path, point: Point) -> list[str]:
    return [
        "strace", "-f", "-qq", "-o", str(trace), "-P", point.path, "-e", f"trace={point.call}",
        "-e", f"inject={point.call}:signal=KILL:when={point.number}", "-e", "signal=none",
    ]  # fmt: skip


def start(folder: Path, name: str, under: Sequence[str]) -> tuple[int, bytes]:
    """Run the operation to its end, or to its death. Returns exit code and what was said."""
    done = subprocess.run(
        [*under, sys.executable, "-m", "tests.crash.operation", str(folder / "data"), name],
        cwd=ROOT,
        capture_output=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, done.stdout


def points(trace: Path, folder: Path) -> list[Point]:
    """Every call on a file below `folder` that one thread made, by its number."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for line in trace.read_text(encoding="latin-1").splitlines():
        found = _LINE.match(line)
        path = _path(found.group(2), found.group(3)) if found else ""
        if found and path.startswith(str(folder)) and not path.endswith("-shm"):
            counts[found.group(1), found.group(2), path] += 1
    most: dict[tuple[str, str], int] = {}
    for (_, call, path), count in counts.items():
        most[call, path] = max(count, most.get((call, path), 0))
    return [
        Point(call, path, number)
        for (call, path), count in sorted(most.items())
        for number in range(1, count + 1)
    ]


def _path(call: str, arguments: str) -> str:
    if call == "openat" and "O_CREAT" not in arguments and "O_TRUNC" not in arguments:
        return ""  # changes nothing
    is_named = call in ("openat", "unlink", "rename", "mkdir")
    found = re.search(r'"([^"]*)"' if is_named else r"<(.*?)>", arguments)
    return found.group(1) if found else ""


async def observe(data_dir: Path) -> State:
    """Everything in the store: files by byte, sessions by row and by record."""
    async with await FileStore.open(data_dir) as store, Sessions(store) as sessions:
        await assert_clean(store)
        rows: list[State] = []
        for agent in await sessions.list_agents(100):
            name = agent.definition_id
            state = await sessions.read_state(name)
            rows.append((name, agent.archives, agent.preview, state.content, state.output_lines))
            rows += [(name, row) for row in await sessions.list_archives(name, 100)]
        records = Records(store)
        for session in await records.recent(100):
            rows.append((session, *await records.records(session.id)))
        return await dump(store), rows


async def look(case: Case, folder: Path, said: bytes) -> None:
    """After a kill: before or after, never between."""
    data_dir = folder / "data"
    if case.name == "migrate":
        for _ in range(2):
            await run_migrations(data_dir, Hits())
        assert (await dump_migrated(data_dir),) == case.after
        return
    found = await observe(data_dir)
    allowed = [case.after] if b"done" in said else [case.before, case.after]
    assert found in allowed, f"neither before nor after:\n{found}"
    backup = folder / BACKUP
    if case.name == "backup" and (b"done" in said or backup.exists()):
        assert await observe(backup) == case.before, "the backup is another store"
    async with await FileStore.open(data_dir) as store:
        await assert_works(store)


async def make_case(name: str, folder: Path) -> tuple[Case, list[Point]]:
    """Prepare, and run once without a kill, to see what it does and what comes of it."""
    prepared, work = folder / "prepared", folder / "work"
    if name == "migrate":
        (prepared / "data").mkdir(parents=True)
        make_old(prepared / "data")
    else:
        prepared.mkdir(parents=True)
        await prepare(prepared / "data")
    before = () if name == "migrate" else await observe(prepared / "data")
    trace = folder / "trace"
    code, said = run_one(Case(name, prepared, (), ()), work, traced(trace))
    assert (code, said) == (0, b"done\nclosed\n"), said
    found = points(trace, work)
    if name == "migrate":
        return Case(name, prepared, before, (await dump_migrated(work / "data"),)), found
    return Case(name, prepared, before, await observe(work / "data")), found


def run_one(case: Case, work: Path, under: Sequence[str]) -> tuple[int, bytes]:
    """On a fresh copy; always at the same path, which the points name."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(case.folder, work)
    return start(work, case.name, under)


async def kill_at(case: Case, found: list[Point], folder: Path, row: Row, plan: Plan) -> int:
    """Kill at every point, or as many as there is time for. Returns how many runs died."""
    work, trace = folder / "work", folder / "trace"
    chosen = plan.rng("points", case.name).sample(found, len(found))
    died = 0
    for number, point in enumerate(chosen):
        is_enough = case.name == LONGEST and number >= LONGEST_POINTS_MIN and row.is_due(plan)
        if is_enough or (plan.is_short and number >= SAMPLE_EACH):
            break
        code, said = run_one(case, work, killing(trace, point))
        died += code == -9
        row.count += code == -9
        try:
            assert code in (0, -9), code
            await look(case, work, said)
        except Exception as error:
            row.found(f"{case.name}, killed at {point}: {error!r}")
    return died


async def control(row: Row, folder: Path) -> str:
    """A kill before the end must not pass for an operation that was done."""
    case, _ = await make_case("write", folder)
    point = Point("pwrite64", str(folder / "work/data/zoned.db-wal"), 1)
    _, said = run_one(case, folder / "work", killing(folder / "trace", point))
    try:
        await look(case, folder / "work", said + b"done\n")
    except AssertionError:
        return "a false `done` is noticed"
    row.found("the control did not fail: a lost write was taken for done")
    return "did not fail"


async def run(plan: Plan) -> Row:
    """All operations; not a matter of time, but of how many calls they make."""
    row = Row(
        "kill at system calls",
        f"kills at every disk call of {len(OPERATIONS)} write operations",
        plan.seed,
    )
    names = sorted(OPERATIONS, key=lambda name: name == LONGEST)
    if plan.is_short:
        names = plan.rng("operations").sample(names[:-1], SAMPLE_OPERATIONS)
    told = []
    with scratch() as folder:
        row.control = await control(row, folder / "control")
        for name in names:
            place = folder / name
            case, found = await make_case(name, place)
            told.append(f"{name} {await kill_at(case, found, place, row, plan)}/{len(found)}")
            await asyncio.to_thread(shutil.rmtree, place)
    row.more.append("died at / calls there are: " + ", ".join(told))
    return row.ended()
