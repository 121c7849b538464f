"""`kill -9` at the door of single system calls: making a store, working on it, closing it.

strace kills the process when it is about to make the Nth write, sync, truncation, removal or
renaming, for a spread of N over all that a run makes. Failpoints (test_failpoints.py) lie between
the steps of our own code; these lie inside of SQLite's: half a commit, half a checkpoint, half a
database.

strace counts the calls of each thread apart. One thread does nearly all of the writing at a time,
so N says where in its work it dies.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from filestore import FileStore
from tests.support import child_model as ops
from tests.support.child import SMALL, Child, ChildDied, open_store
from tests.support.child_model import Model, Op

pytestmark = [pytest.mark.strace, pytest.mark.slow]

SYNC = "fsync,fdatasync"
"""Which of the two SQLite uses depends on how it was built."""
LINES = b"".join(b'{"number": %d}\n' % number for number in range(1_500))
SCRIPT: list[Op] = [
    ops.write("work", "state", LINES[:15_000]),
    ops.append("work", "stream", LINES[:5_000]),
    ops.append_lines("work", "lines", [b"first", b"second"]),
    ops.transact([ops.append("work", "stream", b"both\n"), ops.write("pair", "x", b"or none")]),
    ops.copy_zone("work", "copy"),
    ops.write("work", "state", bytes(range(256)) * 60),
    ops.append("copy", "stream", LINES[:6_000]),
    ops.move_zone("copy", "moved"),
    ops.set_meta("moved", "state", {"moved": True}),
    ops.delete_file("work", "lines"),
    ops.tidy(),
    ops.append("work", "stream", LINES[5_000:12_000]),
    ops.delete_zone("moved"),
    ops.tidy(),
    ops.write("work", "last", LINES),
]
BIG: dict[str, Any] = {"limits": {"seal_bytes": 4096}}
"""The log and the WAL may grow as they like, so that nothing is checkpointed before the close."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Where to kill: at these calls, perhaps of one file only, at so many points."""

    call: str
    points: int
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.call} of {self.name or 'any file'}"

    def strace(self, trace: Path, data_dir: Path, when: int | None) -> list[str]:
        aimed = ["-P", str(data_dir / self.name)] if self.name else []
        kill = ["-e", f"inject={self.call}:signal=KILL:when={when}"] if when else []
        return [
            "strace", "-f", "-qq", "-o", str(trace), *aimed, "-e", f"trace={self.call}", *kill,
            "-e", "signal=none",
        ]  # fmt: skip


def most_calls(trace: Path) -> int:
    """The most calls of one name that one thread made."""
    found = re.findall(r"^(\d+) +(\w+)\(", trace.read_text(encoding="latin-1"), re.MULTILINE)
    return max(Counter(found).values(), default=0)


def spread(count: int, points: int) -> list[int]:
    """`points` numbers from 1 to `count`, the ends among them."""
    steps = max(1, points - 1)
    return sorted({1 + (count - 1) * number // steps for number in range(points)})


def run(data_dir: Path, options: dict[str, Any], under: Sequence[str]) -> tuple[int, bool]:
    """Run the script and close. Returns how many operations were answered, and if it was killed."""
    answered = 0
    with Child(data_dir, options, under=under) as child:
        try:
            assert child.opened() == {"id": "open", "ok": None}
            for op in SCRIPT:
                assert "ok" in child.call(op)
                answered += 1
            assert child.finish() == {"id": "close", "ok": None}
        except ChildDied:
            answered += sum(type(answer["id"]) is int for answer in child.reap())
        child.reap()
        assert child.returncode in (0, -9), child.stderr
        return answered, child.returncode == -9


async def assert_survived(data_dir: Path, options: dict[str, Any], answered: int) -> None:
    store = await open_store(data_dir, options)
    try:
        await ops.assert_clean(store)
        found, before = await ops.dump(store), Model().after(SCRIPT[:answered])
        assert ops.matches(found, before, SCRIPT[answered:]), (
            f"after {answered} answers:\n{found}\nexpected\n{before}"
        )
        await ops.assert_works(store)
    finally:
        await store.close()


async def sweep_calls(
    folder: Path, sweep: Sweep, options: dict[str, Any], *, is_new: bool
) -> list[int]:
    """Kill at a spread of the calls. Returns the number of answers of each killed run."""

    async def place(name: str) -> Path:
        data_dir = folder / name / "data"
        data_dir.parent.mkdir()
        if not is_new:
            await (await FileStore.open(data_dir)).close()
        return data_dir

    data_dir, trace = await place("alone"), folder / "trace"
    answered, was_killed = run(data_dir, options, sweep.strace(trace, data_dir, None))
    assert (answered, was_killed) == (len(SCRIPT), False)
    await assert_survived(data_dir, options, answered)
    numbers = spread(most_calls(trace), sweep.points)
    deaths: list[int] = []
    for number in numbers:
        data_dir = await place(str(number))
        answered, was_killed = run(data_dir, options, sweep.strace(trace, data_dir, number))
        try:
            await assert_survived(data_dir, options, answered)
        except Exception as error:
            raise AssertionError(f"{sweep} at call {number} of {numbers[-1]}: {error}") from error
        if was_killed:
            deaths.append(answered)
    # Background work is not the same every time, so the last calls may not come again.
    assert len(deaths) >= (len(numbers) + 1) // 2, (sweep, numbers, deaths)
    return deaths


@pytest.mark.parametrize(
    "sweep",
    [
        Sweep("pwrite64", 3, "zoned.db.new"),
        Sweep("pwrite64", 3, "zoned.db.new-journal"),
        Sweep(SYNC, 3, "zoned.db.new"),
        Sweep("unlink", 2, "zoned.db.new-journal"),
        Sweep("rename", 1),
    ],
    ids=str,
)
async def test_kill_while_store_is_made_leaves_one_that_opens(tmp_path: Path, sweep: Sweep) -> None:
    deaths = await sweep_calls(tmp_path, sweep, SMALL, is_new=True)
    assert set(deaths) == {0}, "killed before the first operation"


@pytest.mark.parametrize(
    "sweep",
    [
        Sweep("pwrite64", 9, "zoned.db-wal"),
        Sweep(SYNC, 6, "zoned.db-wal"),
        Sweep("pwrite64", 5, "zoned.db"),
        Sweep(SYNC, 3, "zoned.db"),
    ],
    ids=str,
)
async def test_kill_at_call_of_work_keeps_whole_acknowledged_operations(
    tmp_path: Path, sweep: Sweep
) -> None:
    deaths = await sweep_calls(tmp_path, sweep, SMALL, is_new=False)
    assert any(0 < answered < len(SCRIPT) for answered in deaths), "killed in the middle"


@pytest.mark.parametrize(
    "sweep",
    [
        Sweep("pwrite64", 4, "zoned.db"),
        Sweep(SYNC, 1, "zoned.db"),
        Sweep("ftruncate", 1, "zoned.db-wal"),
        Sweep("unlink", 1, "zoned.db-wal"),
    ],
    ids=str,
)
async def test_kill_while_store_is_closed_keeps_everything(tmp_path: Path, sweep: Sweep) -> None:
    deaths = await sweep_calls(tmp_path, sweep, BIG, is_new=False)
    assert set(deaths) == {len(SCRIPT)}, "killed after the last operation"


async def test_lost_operation_is_noticed(tmp_path: Path) -> None:
    """The control: the comparison fails if one operation more had been answered."""
    sweep = Sweep("pwrite64", 1, "zoned.db-wal")
    under = sweep.strace(tmp_path / "trace", tmp_path / "data", 30)
    answered, was_killed = run(tmp_path / "data", SMALL, under)
    assert was_killed
    with pytest.raises(AssertionError, match="answers"):
        await assert_survived(tmp_path / "data", SMALL, answered + 2)
