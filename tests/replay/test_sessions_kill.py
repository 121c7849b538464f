"""kill -9 while a snapshot is rebuilt: what was acknowledged is current, or kept as an archive.

The load is in child.py. `test_load_left_alone_ends_well` proves that it does all it is meant to.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from filestore import FileStore
from filestore.sessions import Sessions
from tests.replay.child import TURNS, broken
from tests.replay.streams import turn
from tests.sessions.child import SMALL
from tests.sessions.tools import lines_of
from tests.support.child import ROOT
from tests.support.child_model import assert_clean, assert_works

FAILPOINTS = ("unit.done", "commit.before", "commit.after")
RUN_S_MAX = 60.0

Answers = list[list[Any]]


def run_child(data_dir: Path, **options: object) -> tuple[int, Answers]:
    """Run the load to its end. Returns the exit code and what was acknowledged."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.replay.child", str(data_dir), json.dumps(options)],
        cwd=ROOT,
        capture_output=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    *whole, _ = done.stdout.split(b"\n")
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, [json.loads(line) for line in whole]


def count(answers: Answers, kind: str) -> int:
    return sum(answer[0] == kind for answer in answers)


async def assert_survived(data_dir: Path, answers: Answers) -> None:
    """No acknowledged snapshot or line is lost, none is doubled, and rebuilding goes on."""
    async with await FileStore.open(data_dir, limits=SMALL) as store, Sessions(store) as sessions:
        await assert_clean(store)
        turns = count(answers, "saved")
        lines = [line for number in range(turns) for line in turn(number)]
        assert await lines_of(sessions, "a") == lines
        archives = await sessions.list_archives("a", 100)
        kept = [(await sessions.read_archive(row.archive_zoneid)).content for row in archives]
        now = (await sessions.read_state("a")).content
        assert now is not None
        if now.startswith(b"{ broken"):
            kept.insert(0, now)
        else:
            assert orjson.loads(now)["highWaterMark"] == len(lines)
        assert kept == [broken(number) for number in reversed(range(turns))]
        assert count(answers, "rebuilt") <= len(archives) <= turns
        await sessions.replays.write("a")
        assert (await sessions.replays.recover(is_dry_run=True)).found == []
        await assert_works(store)


async def test_load_left_alone_ends_well(tmp_path: Path) -> None:
    code, answers = run_child(tmp_path)
    assert code == 0
    assert count(answers, "rebuilt") == TURNS
    assert all(answer[2] for answer in answers if answer[0] == "rebuilt")
    await assert_survived(tmp_path, answers)


@pytest.mark.slow
@pytest.mark.parametrize("failpoint", FAILPOINTS)
@pytest.mark.parametrize("turn", [0, 1, 4])
async def test_kill_in_the_middle_of_a_rebuild_loses_nothing(
    tmp_path: Path, failpoint: str, turn: int
) -> None:
    code, answers = run_child(tmp_path, turn=turn, failpoint=failpoint, hit=1)
    assert code == -9, f"never came to {failpoint}"
    await assert_survived(tmp_path, answers)


async def test_lost_snapshot_is_noticed(tmp_path: Path) -> None:
    """The control: the same comparison fails for a snapshot that never was."""
    _, answers = run_child(tmp_path, turn=2, failpoint="commit.after", hit=1)
    answers.append(["saved", 3])
    with pytest.raises(AssertionError):
        await assert_survived(tmp_path, answers)
