"""Many processes at one session, and processes killed in the middle: nothing is lost, nothing half.

The long form, 64 processes with 50 updates each, runs with ZONED_TEST_UPDATES=50.
"""

import json
import os
import subprocess
import sys
from typing import Any

from tests.cli.tools import Zoned
from tests.support.processes import ROOT, environment

PROCESSES = 64
UPDATES = int(os.environ.get("ZONED_TEST_UPDATES", "2"))
FEW = 8
TRIES = 4


def updating(zoned: Zoned, lane: int, count: int) -> "subprocess.Popen[bytes]":
    words = [str(zoned.folder), "s", str(lane), str(count)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.cli.updates", *words], cwd=ROOT, env=environment(),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def state_of(zoned: Zoned, session_id: str) -> dict[str, Any]:
    found: dict[str, Any] = zoned.ok("session", "get", session_id).json
    return found


def assert_all_there(zoned: Zoned, started: "list[subprocess.Popen[bytes]]", count: int) -> None:
    """Every process was told that all of its updates are kept, and they are: each once."""
    for process in started:
        _, told = process.communicate()
        assert told.decode() == f"{count}\n"
    state = state_of(zoned, "s")
    assert state["error_count"] == len(started) * count
    assert state["metadata"] == {f"lane {lane}": count - 1 for lane in range(len(started))}
    zoned.ok("check", "--deep")


def test_updates_of_64_processes_are_all_there(zoned: Zoned) -> None:
    zoned.ok("session", "create", "--id", "s")
    started = [updating(zoned, lane, UPDATES) for lane in range(PROCESSES)]
    counts = [0]
    while any(process.poll() is None for process in started):
        counts.append(state_of(zoned, "s")["error_count"])
        assert counts[-1] >= counts[-2], "always readable, and never less"
    assert len(counts) > 1
    assert_all_there(zoned, started, UPDATES)


def test_updates_go_on_when_the_daemon_is_killed(alone: Zoned) -> None:
    """Calls whose answers were lost are repeated on the folder, and recognised."""
    with alone.serving() as daemon:
        alone.ok("session", "create", "--id", "s")
        started = [updating(alone, lane, FEW) for lane in range(FEW)]
        while state_of(alone, "s")["error_count"] < FEW:
            pass  # all may have ended since it was read; then the next time is the last
        daemon.kill()
    assert_all_there(alone, started, FEW)


# Kills the command at a moment of its transaction. What the store does by itself may come before:
# then it is tried again.
KILL = """
import os, signal, sys
from filestore import FileStore
opened, transact = FileStore.open.__func__, FileStore.transact
is_armed = False
def stop(name):
    if is_armed and name == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)
def asked(self, *args, **more):
    global is_armed
    is_armed = True
    return transact(self, *args, **more)
FileStore.transact = asked
async def armed(cls, data_dir, **more):
    if not more.get("read_only"):
        more["failpoint"] = stop
    return await opened(cls, data_dir, **more)
FileStore.open = classmethod(armed)
from srv.cli.main import main
sys.exit(main(sys.argv[2:]))
"""
COMMANDS = {
    "create": ["session", "create", "--id", "new", "--metadata", '{"n": 1}'],
    "update": ["session", "update", "s", "--phase", "planning", "--error", "e",
               "--metadata", '{"n": 1}'],
    "finalize": ["session", "finalize", "s", "failed", "--summary", "x"],
    "subagent-stop": ["hook", "subagent-stop"],
    "cleanup": ["session", "cleanup", "--hours", "0"],
}  # fmt: skip


def test_killed_command_leaves_the_old_or_the_new(alone: Zoned) -> None:
    """Old before its commit, new behind it, by each command in turn."""
    done_by = set()
    for moment in ("unit.done", "commit.before", "commit.after"):
        for name, words in COMMANDS.items():
            session_id = "new" if name == "create" else "s"
            if name != "create" and alone("session", "get", "s").code:
                alone.ok("session", "create", "--id", "s")
            before = alone("session", "get", session_id).out
            for _ in range(TRIES if moment == "commit.after" else 1):
                done = subprocess.run(
                    [sys.executable, "-c", KILL, moment, *words, "--data-dir", str(alone.folder)],
                    cwd=ROOT, env=environment(), input=json.dumps({"agent_id": "s"}).encode(),
                    capture_output=True, check=False,
                )  # fmt: skip
                assert (done.returncode, done.stdout) == (-9, b""), (moment, name)
                after = alone("session", "get", session_id).out
                if after != before:
                    assert moment == "commit.after"
                    assert_whole(name, after)
                    done_by.add(name)
                    break
    assert len(done_by) >= len(COMMANDS) - 1
    alone.ok("check", "--deep")


def assert_whole(name: str, out: bytes) -> None:
    """All that the command does is there."""
    if name == "cleanup":
        assert out == b""
        return
    state = json.loads(out)
    match name:
        case "create":
            assert (state["agent_id"], state["metadata"]) == ("new", {"n": 1})
        case "update":
            assert (state["phase"], state["metadata"]) == ("planning", {"n": 1})
            assert (state["error_count"], len(state["history"])) == (1, 1)
        case "finalize":
            assert (state["phase"], state["summary"]) == ("failed", "x")
        case "subagent-stop":
            assert state["phase"] == "completed"
