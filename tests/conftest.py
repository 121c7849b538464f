"""Fixtures for every test: where the data lies, how a store is opened, what time it is.

A store that a test opened through `open_store` and left open is checked when the test ends: its
background work is finished, the deep check must find nothing, and it is closed. A test that damages
its store on purpose says so with `open_store.is_checked = False`.

The engine under test is chosen in one place, the `engine` fixture. Tests about the files of one
engine take `database`, and are skipped on any other.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypedDict, Unpack

import pytest
from hypothesis import settings

from filestore import ClosedError, FileStore, Limits
from filestore.clock import Clock
from filestore.engine.writer import Failpoint
from filestore.files import HolderKind
from filestore.model import Sync
from tests.support.child_model import assert_clean
from tests.support.clock import FakeClock as FakeClock  # tests have it from here

TIDY_S_MAX = 20.0
"""Background work that takes longer hangs: better a failure than the timeout of the whole run."""

# The same examples at every run: a red build is red for everyone, and nothing is kept on disk.
settings.register_profile("zoned", derandomize=True, deadline=None, database=None)
settings.load_profile("zoned")

# What a shell starts in the background ignores interrupts, and so would every command under test.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with a reason, what this machine cannot run; begin with the files that take long."""
    reasons = {}
    if shutil.which("strace") is None:
        reasons["strace"] = "strace is not installed"
    if os.geteuid() != 0:
        reasons["root"] = "needs root"
    for item in items:
        for marker, reason in reasons.items():
            if item.get_closest_marker(marker) is not None:
                item.add_marker(pytest.mark.skip(reason=reason))
    # Workers take whole files: one that is long and comes last is waited for by all others.
    long = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in long)


class OpenOptions(TypedDict, total=False):
    """What `FileStore.open` takes besides the folder."""

    sync: Sync
    read_only: bool
    lock_wait_ms: int
    kind: HolderKind
    socket: str
    clock: Clock
    limits: Limits | None
    failpoint: Failpoint | None


class StoreOpener:
    """Opens stores on one engine and remembers them."""

    def __init__(self, engine: str, data_dir: Path) -> None:
        self.is_checked = True
        """False: the test damages its store, so the check at the end would not be clean."""
        self._engine = engine
        self._data_dir = data_dir
        self._opened: list[FileStore] = []

    async def __call__(
        self, folder: Path | None = None, **options: Unpack[OpenOptions]
    ) -> FileStore:
        """Open the store in `folder`, by default the test's own."""
        assert self._engine == "sqlite", self._engine
        store = await FileStore.open(folder or self._data_dir, **options)
        self._opened.append(store)
        return store

    async def finish(self) -> None:
        """Check and close what is still open, the last one first: readers before their writer."""
        try:
            if self.is_checked:
                for store in filter(is_open, self._opened):
                    async with asyncio.timeout(TIDY_S_MAX):
                        await store.tidy()
                    await assert_clean(store)
        finally:
            for store in reversed(self._opened):
                await store.close()


def is_open(store: FileStore) -> bool:
    """True until the store is closed."""
    try:
        store.changes()
    except ClosedError:
        return False
    return True


@pytest.fixture(params=["sqlite"])
def engine(request: pytest.FixtureRequest) -> str:
    """The engine under test."""
    name: str = request.param
    return name


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Where the test's store lies; not made yet."""
    return tmp_path / "data"


@pytest.fixture
def database(engine: str, data_dir: Path) -> Path:
    """The database file, for tests about the files of the embedded engine."""
    if engine != "sqlite":
        pytest.skip("only the embedded engine keeps a database file")
    return data_dir / "zoned.db"


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands still until it is set."""
    return FakeClock()


@pytest.fixture
async def open_store(engine: str, data_dir: Path) -> AsyncIterator[StoreOpener]:
    """Opens stores that are checked and closed at the end."""
    opener = StoreOpener(engine, data_dir)
    yield opener
    await opener.finish()


@pytest.fixture
async def store(open_store: StoreOpener) -> FileStore:
    """One open store."""
    return await open_store()
