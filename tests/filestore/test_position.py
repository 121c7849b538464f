"""The position that a store tells is always one that is durable."""

import asyncio
import threading

import pytest

from filestore import StorageFullError, Transaction, housekeeping
from filestore.engine import writer
from tests.conftest import StoreOpener
from tests.contract.tools import WAIT_S_MAX, do_nothing, noise, turn
from tests.filestore.test_recovery import engine_of, limit_pages, outcomes


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
        first = group.create_task(outcomes(store.transact(fills_the_disk)))
        while engine_of(store)._jobs.qsize() or engine_of(store)._waiting_units < 1:
            await turn()
        second = group.create_task(outcomes(store.transact(do_nothing)))
        while engine_of(store)._waiting_units < 2:
            await turn()
        is_behind.set()
    assert [type(o) for o in first.result()] == [StorageFullError]
    assert second.result() == [None]
    assert store.position == durable
