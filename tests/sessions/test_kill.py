"""kill -9 in the middle of archive, restore and fork, under load: after the next open every line
that was acknowledged is in exactly one session, whole and in order.

The load is in child.py. `test_load_left_alone_ends_well` proves that it does all it is meant to.
"""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from filestore import FileStore
from filestore.sessions import Sessions
from filestore.sessions.preview import summarise
from tests.sessions.child import BATCH, LANES, SMALL, TURNS
from tests.sessions.tools import lines_of, streams_of
from tests.support.child import ROOT
from tests.support.child_model import assert_clean, assert_works

OPERATIONS = ("archive", "restore", "fork")
FAILPOINTS = ("unit.done", "commit.before", "commit.after")
MOMENTS = ((1, 1), (2, 2), (5, 1))
"""Which time the operation is done, and which hit from then on."""
RUN_S_MAX = 60.0

Answers = list[list[Any]]


def run_child(data_dir: Path, **options: object) -> tuple[int, Answers]:
    """Run the load to its end. Returns the exit code and what was acknowledged."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sessions.child", str(data_dir), json.dumps(options)],
        cwd=ROOT,
        capture_output=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    *whole, _ = done.stdout.split(b"\n")
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, [json.loads(line) for line in whole]


def answered(answers: Answers, kind: str) -> list[Any]:
    """What the answers of one kind say."""
    return [answer[1:] if len(answer) > 2 else answer[1] for answer in answers if answer[0] == kind]


def key(line: bytes) -> tuple[int, int, int]:
    """Lane, number and part of a line."""
    lane, number, part, *_ = line.split(b" ")
    return int(lane), int(number), int(part)


def assert_batches_whole(lines: list[bytes]) -> None:
    """In one session: no batch torn, none doubled, each lane in order."""
    keys = [key(line) for line in lines]
    assert len(keys) == len(set(keys)), "a line is there twice"
    for lane in range(LANES):
        own = [found[1:] for found in keys if found[0] == lane]
        assert own == sorted(own), f"lane {lane} is out of order"
    torn = [batch for batch, count in Counter(k[:2] for k in keys).items() if count != BATCH]
    assert torn == []


async def assert_lines(sessions: Sessions, answers: Answers) -> None:
    """Every acknowledged batch once in all sessions together; at most one more a lane."""
    streams = await streams_of(sessions, "a")
    for lines in streams.values():
        assert_batches_whole(lines)
    counts = Counter(key(line) for lines in streams.values() for line in lines)
    assert set(counts.values()) <= {1}, "a line is in two sessions"
    last = dict.fromkeys(range(LANES), -1)
    for lane, number in answered(answers, "appended"):
        last[lane] = max(last[lane], number)
    present: dict[int, set[int]] = defaultdict(set)
    for lane, number, _ in counts:
        present[lane].add(number)
    for lane, number in last.items():
        assert present[lane] in (set(range(number + 1)), set(range(number + 2))), (
            f"lane {lane} after {number}: {sorted(present[lane])}"
        )


async def assert_sessions(sessions: Sessions, answers: Answers) -> None:
    """Every session that was acknowledged is there; rows agree with the files."""
    own = await streams_of(sessions, "a")
    copies = await streams_of(sessions, "f")
    assert {session_id for _, session_id in answered(answers, "saved")} <= own.keys()
    assert set(answered(answers, "restored")) <= own.keys()
    assert set(answered(answers, "forked")) <= copies.keys()
    for lines in copies.values():
        assert_batches_whole(lines)
    for agent in await sessions.list_agents():
        rows = await sessions.list_archives(agent.definition_id, 100)
        assert agent.archives == len(rows)
        for row in rows:
            state = await sessions.read_archive(row.archive_zoneid)
            assert (row.output_bytes, row.output_lines) == (state.output_bytes, state.output_lines)
            assert row.state_bytes == len(state.content or b"")
            if agent.definition_id == "a" and state.content is not None:
                found = summarise(state.content)
                assert (row.preview, row.node_count) == (found.preview, found.node_count)


async def assert_survived(data_dir: Path, answers: Answers) -> None:
    """The store is whole, holds what was acknowledged, and its sessions go on."""
    async with await FileStore.open(data_dir, limits=SMALL) as store, Sessions(store) as sessions:
        await assert_clean(store)
        await assert_lines(sessions, answers)
        await assert_sessions(sessions, answers)
        await sessions.append_output("a", "9 0 0")
        archived = await sessions.archive("a")
        assert archived is not None
        await sessions.restore(archived.archive_zoneid)
        assert (await lines_of(sessions, "a"))[-1] == b"9 0 0"
        await assert_works(store)


async def test_load_left_alone_ends_well(tmp_path: Path) -> None:
    code, answers = run_child(tmp_path)
    assert code == 0
    assert len(answered(answers, "archived")) >= TURNS - 1
    assert len(answered(answers, "restored")) == TURNS
    assert len(answered(answers, "forked")) >= TURNS // 2
    assert len(answered(answers, "appended")) >= LANES
    await assert_survived(tmp_path, answers)


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("failpoint", FAILPOINTS)
@pytest.mark.parametrize(("turn", "hit"), MOMENTS)
async def test_kill_during_operation_keeps_every_line_in_one_session(
    tmp_path: Path, operation: str, failpoint: str, turn: int, hit: int
) -> None:
    code, answers = run_child(
        tmp_path, operation=operation, failpoint=failpoint, turn=turn, hit=hit
    )
    assert code == -9, f"never came to {failpoint}"
    await assert_survived(tmp_path, answers)


async def test_lost_line_is_noticed(tmp_path: Path) -> None:
    """The control: the same comparison fails for a batch that was never appended."""
    _, answers = run_child(tmp_path, operation="restore", failpoint="commit.after", turn=2, hit=1)
    answers.append(["appended", 1, 1_000_000])
    with pytest.raises(AssertionError, match="lane 1 after 1000000"):
        await assert_survived(tmp_path, answers)


async def test_lost_session_is_noticed(tmp_path: Path) -> None:
    """The control: and for a session that never was."""
    _, answers = run_child(tmp_path, operation="fork", failpoint="commit.after", turn=2, hit=1)
    answers.append(["forked", "never"])
    with pytest.raises(AssertionError):
        await assert_survived(tmp_path, answers)
