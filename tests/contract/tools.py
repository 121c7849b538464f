"""What the contract tests share: stopping the writer, taking turns, looking at the disk, bytes."""

import asyncio
import hashlib
import random
import sqlite3
import stat
import threading
import types
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any, TypeVar

from filestore import Change, FileStore, Transaction
from filestore.changes import Subscription

T = TypeVar("T")
Unit = Callable[[Transaction], Coroutine[Any, Any, object]]

WAIT_S_MAX = 30.0
"""Nothing that a test waits for takes this long, unless it will never come."""

ODD_SPACES = (
    "\t", "\x0b", "\x0c", "\r", " ", "\x85", "\xa0", "\u1680", "\u2000", "\u200a", "\u2028",
    "\u2029", "\u202f", "\u205f", "\u3000",
)  # fmt: skip
"""White space of every kind (\\n apart); lines of nothing else are blank."""
NOT_SPACES = ("\x00", "\x1c", "\x1d", "\x1e", "\x1f", "\u200b", "\u2060", "\ufeff", "\u180e")
"""Looks like white space, or passes for it in `str.isspace`, but is none."""


class Gate:
    """A failpoint that counts, and stops the writer thread when a test wants it to."""

    def __init__(self) -> None:
        self.hits: Counter[str] = Counter()
        self._stop_at: str | None = None
        self._reached = threading.Event()
        self._opened = threading.Event()

    def __call__(self, name: str) -> None:
        self.hits[name] += 1
        if name == self._stop_at:
            self._stop_at = None
            self._reached.set()
            self._opened.wait(WAIT_S_MAX)

    async def stop_next(
        self, store: FileStore, group: asyncio.TaskGroup, unit: Unit
    ) -> "asyncio.Task[object]":
        """Hand in `unit` and hold the writer when it has taken that and nothing else.

        Returns the caller's task. `let_go` lets the writer go on.
        """
        await store.tidy()
        self._reached.clear()
        self._opened.clear()
        self._stop_at = "begun"
        task = group.create_task(later(lambda: store.transact(unit)))
        assert await asyncio.to_thread(self._reached.wait, WAIT_S_MAX)
        return task

    def let_go(self) -> None:
        """Let the writer go on."""
        self._opened.set()

    @asynccontextmanager
    async def held(self, store: FileStore) -> AsyncIterator[None]:
        """The writer has taken one empty unit and stands still until the block ends.

        That unit counts as one that waits; everything handed in meanwhile makes up the next group.
        """
        async with asyncio.TaskGroup() as group:
            try:
                await self.stop_next(store, group, do_nothing)
                yield
            finally:
                self.let_go()


async def do_nothing(_: Transaction) -> None:
    """An empty unit of work."""


async def later(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call, which hands in its work at once, when this is awaited and not before."""
    return await call()


@types.coroutine
def turn() -> Generator[None, None, None]:
    """Let every task that is ready take a step."""
    yield


async def turns(count: int) -> None:
    """Let the event loop and the threads behind it go round `count` times."""
    for _ in range(count):
        await asyncio.to_thread(int)


async def take(changes: Subscription, count: int) -> list[Change]:
    """The next `count` changes."""
    async with asyncio.timeout(WAIT_S_MAX):
        return [await anext(changes) for _ in range(count)]


async def collect(store: FileStore, zone: str, name: str, *span: int) -> bytes:
    """A whole streaming read."""
    return b"".join([piece async for piece in store.open_read(zone, name, *span)])


def stream(store: FileStore, zone: str, name: str) -> "aclosing[AsyncGenerator[bytes, None]]":
    """A streaming read that is ended with the block, whatever happens in it."""
    pieces = store.open_read(zone, name)
    assert isinstance(pieces, AsyncGenerator)
    return aclosing(pieces)


async def rest_of(pieces: AsyncIterator[bytes]) -> bytes:
    """What a streaming read still gives."""
    return b"".join([piece async for piece in pieces])


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that neither compress nor repeat; the same for the same seed."""
    return random.Random(seed).randbytes(size)


def make_folder(path: Path, mode: int = 0o700) -> Path:
    """A folder with exactly these rights."""
    path.mkdir()
    path.chmod(mode)
    return path


def put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def content_of(path: Path) -> bytes:
    """Not for the database of a store that is open here: closing it would drop SQLite's locks."""
    return path.read_bytes()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def exists(path: Path) -> bool:
    return path.exists()


def remove(path: Path) -> None:
    path.unlink()


def size_of(path: Path) -> int:
    """Bytes of a file, 0 if there is none."""
    return path.stat().st_size if path.exists() else 0


def wal_of(database: Path) -> Path:
    return database.with_name(database.name + "-wal")


def shm_of(database: Path) -> Path:
    return database.with_name(database.name + "-shm")


def footprint(folder: Path) -> dict[str, str]:
    """Every file below `folder` but the lock, by the hash of its bytes: equal means untouched."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "zoned.lock"
    }


def overwrite(path: Path, at: int, data: bytes) -> None:
    """Change bytes in the middle of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def run_sql(database: Path, *statements: str | tuple[str, Sequence[object]]) -> None:
    """Change a closed database behind the store's back."""
    with closing(sqlite3.connect(database)) as connection, connection:
        for statement in statements:
            sql, values = (statement, ()) if isinstance(statement, str) else statement
            connection.execute(sql, values)


def query(database: Path, sql: str) -> list[tuple[object, ...]]:
    """Look into a closed database."""
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(sql).fetchall()
