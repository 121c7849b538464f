"""A daemon for each test that asks for one, and clients for it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from srv.client import Client
from tests.client.daemon import Daemon


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A running daemon with an empty store."""
    with Daemon(tmp_path / "data") as started:
        yield started


@pytest.fixture
async def client(daemon: Daemon) -> AsyncIterator[Client]:
    """A client on the daemon's socket."""
    async with await Client.connect(daemon.socket) as connected:
        yield connected
