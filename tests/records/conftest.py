"""Fixtures for records: a store whose clock stands still, its records, and panes on it."""

from collections.abc import AsyncIterator
from itertools import count

import pytest

from filestore import FileStore
from filestore.records import Records
from filestore.sessions import Sessions
from tests.conftest import FakeClock, StoreOpener


@pytest.fixture
async def store(open_store: StoreOpener, clock: FakeClock) -> FileStore:
    """One open store whose clock stands still."""
    return await open_store(clock=clock)


@pytest.fixture
def records(store: FileStore, clock: FakeClock) -> Records:
    """The records of `store`."""
    return records_of(store, clock)


@pytest.fixture
async def panes(store: FileStore) -> AsyncIterator[Sessions]:
    """What panes do on `store`; closed before it is checked."""
    async with Sessions(store) as sessions:
        yield sessions


def records_of(store: FileStore, clock: FakeClock) -> Records:
    """Records whose ids are a series, so that a failing test shows the same at every run."""
    numbers = count(1)
    return Records(store, clock=clock, new_id=lambda: f"id-{next(numbers)}")
