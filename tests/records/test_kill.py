"""kill -9 in the middle of every operation on sessions, under load: after the next open each is as
before it or as after it, never half; what was acknowledged is there; journals, rows and tallies
agree, which the check proves.

The load is in child.py. `test_load_left_alone_ends_well` proves that it does all it is meant to.
"""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from filestore import FileStore, NotFoundError
from filestore.records import NewSession, Records
from filestore.sessions import Sessions
from tests.records.child import LANES, OPERATIONS, SHARED, TURNS
from tests.sessions.child import SMALL
from tests.support.child import ROOT
from tests.support.child_model import assert_clean, assert_works

FAILPOINTS = ("unit.done", "commit.before", "commit.after", "acknowledged")
MOMENTS = ((1, 1), (2, 2), (4, 1))
"""Which time the operation is done, and which hit from then on."""
RUN_S_MAX = 60.0
STEPS = ("create", "update", "prompt", "append", "archive", "restore", "finish", "archive again",
         "delete")  # fmt: skip
KINDS: tuple[list[str] | None, ...] = (["open"], ["meta"], ["message"], [], ["end"], ["open"],
         ["error", "message", "note", "end"], [], None)  # fmt: skip
"""What each step adds to the journal of its session; None: it takes it away."""

Answers = list[list[Any]]


def run_child(data_dir: Path, **options: object) -> tuple[int, Answers]:
    """Run the load to its end. Returns the exit code and what was acknowledged."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.records.child", str(data_dir), json.dumps(options)],
        cwd=ROOT,
        capture_output=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    *whole, _ = done.stdout.split(b"\n")
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, [json.loads(line) for line in whole]


def kinds_after(steps: int) -> list[str] | None:
    """The kinds of a session's records after so many steps; None if there is no such session."""
    found: list[str] | None = None
    for kinds in KINDS[:steps]:
        found = None if kinds is None else [*(found or []), *kinds]
    return found


async def kinds_of(records: Records, session_id: str) -> list[str] | None:
    try:
        return [each.kind for each in await records.records(session_id, limit=1 << 24)]
    except NotFoundError:
        return None


async def assert_sessions(records: Records, answers: Answers) -> None:
    """Every session is where its answers say, or one whole step further."""
    done: dict[str, int] = defaultdict(int)
    for answer in answers:
        if answer[0] in STEPS:
            done[answer[1]] = STEPS.index(answer[0]) + 1
    for turn in range(TURNS):
        name = f"s{turn}"
        possible = [kinds_after(done[name]), kinds_after(done[name] + 1)]
        found = await kinds_of(records, name)
        assert found in possible, f"{name} after {done[name]} steps: {found}"
        if found is None:
            continue
        info = await records.get(name)
        assert (info.status == "active") == (found[-1] != "end")
        assert info.metadata == ({"first": True, "k": turn} if "meta" in found else {"first": True})
        assert (info.error_count, info.is_busy) == (
            int("error" in found), found[-1] == "message",
        )  # fmt: skip
        assert not info.is_archived or info.status != "active"


async def assert_updates(records: Records, answers: Answers) -> None:
    """Each lane's updates are there, all three records of each; at most one more a lane."""
    last = dict.fromkeys(range(LANES), -1)
    for answer in answers:
        if answer[0] == "updated":
            last[answer[1]] = max(last[answer[1]], answer[2])
    found = await records.records(SHARED, limit=1 << 24)
    assert [each.seq for each in found] == list(range(len(found)))
    kinds = [each.kind for each in found[1:]]
    assert kinds == ["phase", "meta", "error"] * (len(kinds) // 3), "an update is torn"
    told: dict[int, list[int]] = {lane: [] for lane in range(LANES)}
    for each in found:
        if each.kind == "error":
            lane, number = map(int, each.body["message"].split())
            told[lane].append(number)
    for lane, number in last.items():
        assert told[lane] in (list(range(number + 1)), list(range(number + 2))), (lane, number)
    info = await records.get(SHARED)
    assert info.error_count == sum(map(len, told.values()))
    wanted = {f"lane {lane}": numbers[-1] for lane, numbers in told.items() if numbers}
    assert info.metadata == wanted


async def assert_survived(data_dir: Path, answers: Answers) -> None:
    """The store is whole, holds what was acknowledged, and goes on."""
    async with await FileStore.open(data_dir, limits=SMALL) as store, Sessions(store) as panes:
        await assert_clean(store)
        records = Records(store)
        await assert_updates(records, answers)
        await assert_sessions(records, answers)
        await records.recover()
        await records.create(NewSession("rest", "later"))
        await panes.append_output("later", "x")
        assert (await records.get("later")).zone == "agent:later:current"
        await assert_works(store)
        await assert_clean(store)


async def test_load_left_alone_ends_well(tmp_path: Path) -> None:
    code, answers = run_child(tmp_path)
    assert code == 0
    for operation in OPERATIONS:
        wanted = TURNS // 2 if operation == "delete" else TURNS
        assert sum(answer[0] == operation for answer in answers) == wanted
    assert {answer[1] for answer in answers if answer[0] == "updated"} == set(range(LANES))
    await assert_survived(tmp_path, answers)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("failpoint", FAILPOINTS)
@pytest.mark.parametrize(("turn", "hit"), MOMENTS)
async def test_kill_during_operation_leaves_old_or_new(
    tmp_path: Path, operation: str, failpoint: str, turn: int, hit: int
) -> None:
    if operation == "delete":
        turn = min(turn, TURNS // 2)
    code, answers = run_child(
        tmp_path, operation=operation, failpoint=failpoint, turn=turn, hit=hit
    )
    assert code == -9, f"never came to {failpoint}"
    await assert_survived(tmp_path, answers)


async def test_lost_update_is_noticed(tmp_path: Path) -> None:
    """The control: the same comparison fails for an update that never was."""
    _, answers = run_child(tmp_path, operation="finish", failpoint="commit.after", turn=2, hit=1)
    answers.append(["updated", 1, 1_000_000])
    with pytest.raises(AssertionError, match="1000000"):
        await assert_survived(tmp_path, answers)


async def test_lost_step_is_noticed(tmp_path: Path) -> None:
    """The control: and for a session that would have to be two steps further."""
    _, answers = run_child(tmp_path, operation="prompt", failpoint="unit.done", turn=2, hit=1)
    answers.append(["restore", "s1"])
    with pytest.raises(AssertionError, match="s1 after"):
        await assert_survived(tmp_path, answers)
