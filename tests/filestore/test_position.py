"""The position that a store tells is always one that is durable."""

import asyncio
import threading

import pytest

from filestore import CommitUnknownError, StorageFullError, Transaction, ballast, housekeeping
from filestore.engine import writer
from tests.conftest import StoreOpener
from tests.contract.tools import WAIT_S_MAX, do_nothing, later, noise, turn
from tests.filestore.test_recovery import FailingGate, engine_of, limit_pages, outcomes


async def test_position_after_an_empty_unit_behind_a_failed_group_is_one_that_is_durable(
    open_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "PROBE_S", WAIT_S_MAX)
    monkeypatch.setattr(housekeeping, "RELEASE_DELAY_S", WAIT_S_MAX)
    store = await open_store()
    await store.write("z", "file", b"0")
    await store.tidy()
    durable = store.position
    is_behind = threading.Event()

    async def fills_the_disk(tx: Transaction) -> None:
        limit_pages(store, 1)
        for number in range(40):
            await tx.append("z", f"new {number}", b"x" * 200)
        assert is_behind.wait(WAIT_S_MAX)
        await tx.write("z", "big", noise(500_000))

    async with asyncio.TaskGroup() as group:
        first = group.create_task(outcomes(later(lambda: store.transact(fills_the_disk))))
        while engine_of(store)._jobs.qsize() or engine_of(store)._waiting_units < 1:
            await turn()
        second = group.create_task(outcomes(later(lambda: store.transact(do_nothing))))
        while engine_of(store)._waiting_units < 2:
            await turn()
        is_behind.set()
    assert [type(o) for o in first.result()] == [StorageFullError]
    assert second.result() == [None]
    assert store.position == durable


async def test_position_after_reopening_on_a_full_disk_is_one_that_is_durable(
    open_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the failed commit had counted is given again by the next start: whoever goes on after
    such a position would miss what was committed below it."""
    monkeypatch.setattr(housekeeping, "RELEASE_DELAY_S", WAIT_S_MAX)  # nobody else commits
    gate = FailingGate()
    store = await open_store(failpoint=gate)
    await store.append("z", "file", b"0")
    await store.tidy()
    durable = store.position
    # So that nothing is committed after it is open again.
    monkeypatch.setattr(ballast, "SPACE_BYTES_MIN", 1 << 62)
    gate.commit_to_fail = gate.hits["commit.before"] + 1
    told = store.changes()
    with pytest.raises(CommitUnknownError):
        await store.append("z", "file", b"1")
    assert store.trouble == "the disk is full"
    gap = await anext(told)
    assert (gap.kind, gap.position, store.position) == ("gap", durable, durable)
