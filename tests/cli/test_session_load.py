"""Many processes at one session, and processes killed in the middle: nothing is lost, nothing half.

The long form, 64 processes with 50 updates each, runs with ZONED_TEST_UPDATES=50.
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from filestore import FileStore
from filestore.records import Records
from tests.cli.tools import Zoned
from tests.support.child_model import assert_clean
from tests.support.processes import ROOT, environment

PROCESSES = 64
UPDATES = int(os.environ.get("ZONED_TEST_UPDATES", "2"))
KILLS = 5


def test_updates_of_64_processes_are_all_there(zoned: Zoned) -> None:
    zoned.ok("session", "create", "--id", "s")
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.cli.updates", str(zoned.folder), "s", str(lane),
             str(UPDATES)],
            cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        for lane in range(PROCESSES)
    ]  # fmt: skip
    counts = [0]
    while any(process.poll() is None for process in started):
        state = zoned.ok("session", "get", "s").json
        assert state["error_count"] >= counts[-1], "always readable, and never less"
        counts.append(state["error_count"])
    for process in started:
        _, told = process.communicate()
        assert told.decode() == f"{UPDATES}\n"
    state = zoned.ok("session", "get", "s").json
    assert state["error_count"] == PROCESSES * UPDATES
    assert state["metadata"] == {f"lane {lane}": UPDATES - 1 for lane in range(PROCESSES)}
    assert len(counts) > 2
    zoned.ok("check", "--deep")
