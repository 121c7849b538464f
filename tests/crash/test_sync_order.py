"""Acknowledged means synced: seen from outside, in the order of system calls.

Killing the process cannot show this: the page cache outlives it, and even a store that never syncs
passes every `kill -9`. So the system calls themselves are looked at: with sync="full" no
acknowledgement may leave the process while the WAL holds writes that no fdatasync has followed. The
control is the same workload with sync="normal".
"""

from pathlib import Path

import pytest

from tests.support import child_model as ops
from tests.support.child import Child
from tests.support.faults import Call, read_trace, strace

pytestmark = pytest.mark.strace

OPERATIONS = 30


def record(folder: Path, sync: str) -> list[Call]:
    trace = folder / "trace"
    data_dir = folder / "data"
    prefix = strace(trace, calls="write,pwrite64,fsync,fdatasync", data_bytes=16)
    with Child(
        data_dir, {"sync": sync, "limits": {"wal_bytes_soft": 65536}}, under=prefix
    ) as child:
        child.opened()
        for number in range(OPERATIONS // 2):
            assert "ok" in child.call(ops.append("zone", "stream", b"line %d\n" % number))
            assert "ok" in child.call(ops.write("zone", "state", b"%d" % number * 9000))
        assert child.finish()["ok"] is None
    return list(read_trace(trace))


def unsynced_acknowledgements(calls: list[Call]) -> tuple[int, int]:
    """How many acknowledgements there were, and how many came while the WAL was not synced."""
    is_dirty, seen, early = False, 0, 0
    wal_writes = 0
    for call in calls:
        is_wal = call.path.endswith("zoned.db-wal")
        if call.name in ("write", "pwrite64") and is_wal:
            is_dirty = True
            wal_writes += 1
        elif call.name in ("fsync", "fdatasync") and is_wal and call.result == 0:
            is_dirty = False
        elif call.name == "write" and call.arguments.startswith("1<"):
            seen += 1
            early += is_dirty
    assert wal_writes > 0, "the trace shows the WAL"
    return seen, early


def test_acknowledgement_with_full_sync_follows_sync_of_wal(tmp_path: Path) -> None:
    seen, early = unsynced_acknowledgements(record(tmp_path, "full"))
    assert seen == OPERATIONS + 2
    assert early == 0


def test_acknowledgement_with_normal_sync_comes_early(tmp_path: Path) -> None:
    """The control: the same look at a store that does not promise it."""
    seen, early = unsynced_acknowledgements(record(tmp_path, "normal"))
    assert seen == OPERATIONS + 2
    assert early > OPERATIONS // 2
