"""What the steps share: ids of sessions, free times for archives, work in parallel."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar
from uuid import UUID, uuid5

from blake3 import blake3

from filestore import (
    ClosedError,
    CommitUnknownError,
    FileInfo,
    ReadOnlyError,
    StorageFullError,
    StoreError,
    Transaction,
)
from filestore.journal import rows as journals
from filestore.reading import ReadTransaction
from filestore.sessions import rows
from filestore.sessions.names import OUTPUT, STATE, archive_zone

T = TypeVar("T")

SESSIONS = UUID("6f9d1c52-9b0e-5a53-8f0b-7d1f6a1e4c20")
"""The namespace of the ids of migrated sessions."""
FATAL = (StorageFullError, CommitUnknownError, ReadOnlyError, ClosedError)
"""Errors that are not about one item: going on would fail with the next one too."""


def session_id_of(zone: str, origin: str) -> str:
    """The id of a session that was migrated into `zone` from the block or source `origin`."""
    return str(uuid5(SESSIONS, f"{zone}/{origin}"))


async def free_session_id(tx: Transaction, zone: str, origin: str) -> str:
    """The same, but another one if a session that has moved on since has it already."""
    wanted, number = session_id_of(zone, origin), 0
    while await is_session(tx, wanted):
        number += 1
        wanted = session_id_of(zone, f"{origin}#{number}")
    return wanted


async def is_session(tx: ReadTransaction, session_id: str) -> bool:
    """True if there is a session of that id, be it one that has lost its files."""
    found = await rows.load_by_id(tx.rows, session_id)
    return found is not None or await journals.find(tx.rows, session_id) is not None


async def free_archive(tx: Transaction, definition_id: str, wanted_ms: int) -> str:
    """The zone for an archive at a time, or as soon after it as there is none."""
    ms = wanted_ms if wanted_ms > 0 else tx.rows.now_ms()
    while await tx.zone_row(archive_zone(definition_id, ms)) is not None:
        ms += 1
    return archive_zone(definition_id, ms)


async def digest_of(tx: ReadTransaction, info: FileInfo, length: int | None = None) -> bytes:
    """The hash of a stored file, or of its first `length` bytes, in bounded memory."""
    is_whole = length is None or length == info.size
    if is_whole and info.digest is not None:
        return bytes.fromhex(info.digest)
    plan = await tx.plan_read(info.zone, info.name, 0, length, "digest")
    hasher, left = blake3(), plan.stop
    at = 0
    for entry in plan.entries:
        data = await tx.chunk(info.zone, info.name, entry, at)
        hasher.update(data[:left])
        left -= min(left, len(data))
        at += entry.size
    for data in plan.tail:
        hasher.update(data[:left])
        left -= min(left, len(data))
    return hasher.digest()


def started_ms(files: Iterable[FileInfo]) -> int:
    """When a session was first written; 0 if nothing tells."""
    times = [info.created_ms or info.modified_ms for info in files]
    return min((time for time in times if time > 0), default=0)


def newest_ms(files: Iterable[FileInfo]) -> int:
    """The latest modified time of any file; 0 if nothing tells."""
    return max((info.modified_ms for info in files), default=0)


def snapshot_of(files: Iterable[FileInfo]) -> FileInfo | None:
    """The file that stands for a session: its state, or else its stream, if that has bytes."""
    by_name = {info.name: info for info in files if info.size}
    return by_name.get(STATE) or by_name.get(OUTPUT)


def told(error: Exception) -> str:
    """What is wrong with an old item, without the hint, which is about stores of our own."""
    return error.message if isinstance(error, StoreError) else str(error)


class Room:
    """Room for so many bytes at a time. Who wants more than is left waits; one alone never does."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0
        self._given = asyncio.Condition()

    @asynccontextmanager
    async def take(self, size: int) -> AsyncIterator[None]:
        """Have room for `size` bytes within the `async with` block."""
        async with self._given:
            await self._given.wait_for(lambda: not self._taken or self._taken + size <= self._size)
            self._taken += size
        try:
            yield
        finally:
            self._taken -= size
            async with self._given:
                self._given.notify_all()


async def in_parallel(
    items: Iterable[T], action: Callable[[T], Awaitable[None]], workers: int
) -> None:
    """Call `action` for all items, some at a time. The first error ends it and is raised."""
    left, errors = iter(items), list[Exception]()

    async def work() -> None:
        for item in left:
            try:
                await action(item)
            except Exception as error:  # raised below, when the others have come to a rest
                errors.append(error)
            if errors:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())
    if errors:
        raise errors[0]
