"""One daemon for a module of tests, and clients of every sort."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from filestore import FileStore
from filestore.sessions import Sessions
from srv.config import Config
from srv.rpc.connection import Shared
from srv.rpc.service import Service
from tests.rpc.tools import MIB
from tests.support.daemon import Client, Daemon, serving

_numbers = itertools.count()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with usual limits. It must end well, and have logged nothing of a fault of ours."""
    with serving(tmp_path_factory.mktemp("daemon") / "data") as daemon:
        yield daemon
        assert daemon.process.poll() is None, daemon.log
        assert daemon.end() == 0
        assert [each for each in daemon.events() if each["level"] == "error"] == []


@pytest.fixture(params=["tcp-json", "unix-json", "tcp-msgpack", "unix-msgpack"])
def client(request: pytest.FixtureRequest, daemon: Daemon) -> Iterator[Client]:
    """A client of each sort."""
    transport, encoding = request.param.split("-")
    with daemon.client(is_unix=transport == "unix", is_binary=encoding == "msgpack") as client:
        yield client


@pytest.fixture
def pane(daemon: Daemon) -> Iterator[Client]:
    """A client of the usual sort."""
    with daemon.client() as client:
        yield client


@pytest.fixture
def agent() -> str:
    """An agent that no other test has."""
    return f"agent-{next(_numbers)}"


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[Shared]:
    """What connections share, without a daemon around it."""
    config = Config(data_dir=tmp_path / "data", held_bytes_max=4 * MIB, message_bytes_max=2 * MIB)
    store = await FileStore.open(config.data_dir)
    async with store, Sessions(store) as sessions, asyncio.TaskGroup() as group:
        yield Shared(Service(store, sessions, config), group)
