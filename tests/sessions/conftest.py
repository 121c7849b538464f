"""Fixtures for sessions: one open `Sessions`, and a way to open more on other stores."""

from collections.abc import AsyncIterator, Callable

import pytest

from filestore import FileStore
from filestore.sessions import Sessions
from tests.conftest import FakeClock, StoreOpener

OpenSessions = Callable[[FileStore], Sessions]


@pytest.fixture
async def store(open_store: StoreOpener, clock: FakeClock) -> FileStore:
    """One open store whose clock stands still."""
    return await open_store(clock=clock)


@pytest.fixture
async def on(open_store: StoreOpener) -> AsyncIterator[OpenSessions]:
    """Makes the sessions of a store; they are closed before it is checked."""
    made: list[Sessions] = []

    def make(store: FileStore) -> Sessions:
        made.append(Sessions(store))
        return made[-1]

    yield make
    for sessions in made:
        await sessions.close()


@pytest.fixture
async def sessions(store: FileStore, on: OpenSessions) -> Sessions:
    """The sessions of `store`."""
    return on(store)
