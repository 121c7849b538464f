"""FileStore: named zones of files on a database, behind one async interface. The public face of
this room.

Every operation here is one unit of work: what may be slow (cutting, hashing, compressing) is done
before the unit is queued, off the event loop when it is large; the unit itself is in reading.py or
transaction.py. A write call returns when its bytes are durable; see docs/specs/0001-store-format.md
for what that means and what a crash leaves behind.
"""

import asyncio
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
)
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from filestore.appending import append_lines_at_once
from filestore.arguments import check_append, check_write, join_lines
from filestore.building import Building, Built, give_up_build
from filestore.changes import Feed, Subscription, subscribe
from filestore.chunking import (
    Prepared,
    hash_pieces,
    prepare,
    prepare_stream,
    split_fixed,
)
from filestore.clock import Clock, system_clock
from filestore.cuts import CutCache
from filestore.engine.base import Engine, ReadTx, ReadUnit, Shortcut
from filestore.engine.read_only import ReadOnlySqliteEngine
from filestore.engine.sqlite import open_engine
from filestore.engine.writer import Failpoint
from filestore.errors import InvalidArgumentError, StoreError
from filestore.files import (
    FolderLock,
    HolderKind,
    make_private_folder,
    refuse_network_file_system,
    translated_os_errors,
)
from filestore.housekeeping import Housekeeper
from filestore.leases import Leases
from filestore.model import (
    Appended,
    Change,
    FileInfo,
    Json,
    Limits,
    LinePage,
    LinesAppended,
    Stats,
    Sync,
    ZoneInfo,
    ZonePage,
    check_file_name,
    check_zone_name,
)
from filestore.reading import ReadTransaction
from filestore.sealing import size_max
from filestore.streaming import stream
from filestore.transaction import Transaction

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R", bound=ReadTransaction)
Unit = Callable[[A], Coroutine[Any, Any, T]]
"""A unit of work: an async function over a transaction, which awaits nothing else."""

DATABASE_NAME = "zoned.db"
ROWS_BYTES = 4096
"""About what rows cost without content: not nothing, so that a full disk refuses them."""
INLINE_BYTES_MAX = 32 << 10
"""Values up to this size are prepared on the event loop: cheaper than a way to a thread."""


class FileStore:
    """An open store. Made by `open`; belongs to the event loop it was opened on."""

    def __init__(self, data_dir: Path, sync: Sync, limits: Limits) -> None:
        self.data_dir = data_dir
        self.sync = sync
        self.limits = limits
        self.folder_was_tightened = False
        self._feed = Feed(limits.changes_kept)
        self._leases = Leases(limits.lease_s)
        self._cuts = CutCache(limits.cut_cache_bytes)
        self._closing: asyncio.Task[None] | None = None
        self._lock: FolderLock | None = None
        self._engine: Engine
        self._housekeeper: Housekeeper | None = None
        self._background: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        data_dir: Path | str,
        *,
        sync: Sync = "full",
        read_only: bool = False,
        lock_wait_ms: int = 0,
        kind: HolderKind = "command",
        socket: str = "",
        clock: Clock = system_clock,
        limits: Limits | None = None,
        failpoint: Failpoint | None = None,
        upgrade: Callable[[Path], object] | None = None,
    ) -> "FileStore":
        """Open the store in `data_dir`, making folder and database if missing (unless `read_only`).

        One process writes a folder at a time: raises LockedError naming the holder when it stays
        locked for `lock_wait_ms`. `read_only` takes no lock, writes nothing, and works beside a
        writer in any process. Raises NewerFormatError, ForeignDatabaseError, NetworkFileSystemError
        with nothing touched, and FormatError for an older format; `upgrade` is called with the
        folder, under its lock and before the database is opened, to bring it up to this one.
        """
        if sync not in ("full", "normal"):
            raise InvalidArgumentError(
                f"sync must be full or normal, not {sync!r}", operation="open"
            )
        store = cls(Path(data_dir), sync, limits or Limits())
        if read_only:
            store._engine = ReadOnlySqliteEngine(store.data_dir / DATABASE_NAME, store.limits)
            try:
                await store._engine.read(_nothing)
            except BaseException:
                await store._engine.close()
                raise
            return store
        with translated_os_errors("open"):
            store.folder_was_tightened = make_private_folder(store.data_dir)
            refuse_network_file_system(store.data_dir)
            store._lock = await FolderLock.take(store.data_dir, kind, socket, lock_wait_ms)
        try:
            if upgrade is not None:
                await asyncio.to_thread(upgrade, store.data_dir)
            store._start(clock, failpoint)
        except BaseException:
            store._lock.release()
            raise
        return store

    def _start(self, clock: Clock, failpoint: Failpoint | None) -> None:
        engine = open_engine(
            self.data_dir / DATABASE_NAME,
            self.sync,
            clock,
            self.limits,
            failpoint,
            self._on_commit,
            lambda: self._feed.lose(engine.position),
        )
        self._engine = engine
        self._feed.start(engine.position)
        self._housekeeper = Housekeeper(engine, self.limits, self._leases)
        # Open and close are calls, not a block, so no task group can own this one; `close` does.
        self._background = asyncio.create_task(self._housekeeper.run(), name="zoned-housekeeping")

    async def close(self) -> None:
        """Finish what was accepted, then close. Leaves no WAL behind. Safe to call twice."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="zoned-close")
        # Whoever is cancelled while waiting, the store is closed to the end, and only once.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._background is not None:
            self._background.cancel()
            await asyncio.wait([self._background])
            self._background = None
        try:
            await self._engine.close()
        except StoreError:
            self._let_go()
            raise
        self._let_go()

    def _let_go(self) -> None:
        """The engine has ended; others may come."""
        self._feed.close()
        if self._lock is not None:
            self._lock.release()

    async def __aenter__(self) -> "FileStore":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def position(self) -> int:
        """The position of the last committed change."""
        return self._engine.position

    @property
    def trouble(self) -> str | None:
        """Why this store takes no writes now, or None."""
        return self._engine.trouble

    @property
    def stats(self) -> Stats:
        """Counters, for those who watch."""
        return self._engine.stats

    # -- writing

    async def write(
        self, zone: str, name: str, data: bytes, *, if_version: int | None = None
    ) -> FileInfo:
        """Replace a file. Durable on return. Equal bytes write nothing and keep the version.

        `if_version`: only if that is the file's version now (0: it must not exist), else
        VersionConflictError.
        """
        check_zone_name(zone, "write")
        check_file_name(name, "write")
        prepared = await self._prepare(data, (zone, name))
        return await self._write(
            lambda tx: tx.write(zone, name, prepared, if_version=if_version), prepared.size
        )

    async def prepare(self, data: bytes, *, like: tuple[str, str] | None = None) -> Prepared:
        """Cut, hash and compress `data` for `tx.write`, off the event loop if it is large.

        `like`: zone and name of the file it will be written to; saves work if it changed little.
        """
        return await self._prepare(data, like)

    async def prepare_stream(self, data: bytes) -> Prepared:
        """Cut, hash and compress bytes that will not be replaced soon, for `tx.add_file`."""
        kept = check_write(data, self.limits)
        chunks = split_fixed(kept, size_max(self.limits.seal_bytes))
        return await asyncio.to_thread(prepare_stream, chunks)

    async def build(self, data: AsyncIterable[bytes]) -> Built:
        """Store bytes of any number for `tx.add_file`, in constant memory, in many transactions.

        Nobody sees them until then. What gets no name before the store is closed is released.
        """
        # It never has more than two batches under way, so it need not be turned away when busy.
        write = partial(self._engine.write, is_housekeeping=True)
        return await Building(write, size_max(self.limits.seal_bytes)).run(data)

    async def give_up(self, built: Built) -> None:
        """Release what was built and will get no name."""
        await self._engine.write(lambda tx: give_up_build(tx, built.file_id), 0)
        if self._housekeeper is not None:
            self._housekeeper.wake_later()

    async def append(self, zone: str, name: str, data: bytes) -> Appended:
        """Add bytes at the end of a file, made if missing. Durable on return; all or nothing."""
        kept = check_append(data, self.limits)
        return await self._write(lambda tx: tx.append(zone, name, kept), len(kept))

    async def append_lines(
        self, zone: str, name: str, lines: Iterable[str | bytes]
    ) -> LinesAppended:
        """Add lines to a file, making it if missing. Durable on return; all or nothing.

        Each ends with exactly one line break; text with inner breaks is several lines; blank lines
        are dropped.
        """
        check_zone_name(zone, "append_lines")
        check_file_name(name, "append_lines")
        data, count = join_lines(lines, self.limits)
        key = (zone, name)
        return await self._write(
            lambda tx: tx.append_kept_lines(zone, name, data, count),
            len(data),
            lambda tx: append_lines_at_once(tx, key, data, count),
        )

    async def set_meta(
        self, zone: str, name: str | None, changes: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        """Merge into the meta of a file, or of the zone if `name` is None; None deletes a key."""
        return await self._write(lambda tx: tx.set_meta(zone, name, changes), ROWS_BYTES)

    async def delete_file(self, zone: str, name: str) -> bool:
        """Delete a file at once; space comes back in the background. False if there was none."""
        return await self._write(lambda tx: tx.delete_file(zone, name), 0)

    async def move_zone(self, old: str, new: str) -> None:
        """Rename a zone: one row, whatever its size."""
        await self._write(lambda tx: tx.move_zone(old, new), 0)

    async def copy_zone(self, src: str, dst: str) -> None:
        """Copy a zone without copying bytes."""
        await self._write(lambda tx: tx.copy_zone(src, dst), ROWS_BYTES)

    async def delete_zone(self, zone: str) -> bool:
        """Delete a zone with all its files. False if there was none."""
        return await self._write(lambda tx: tx.delete_zone(zone), 0)

    def transact(
        self,
        unit: Unit[Transaction, T],
        *,
        cost_bytes: int = 0,
        shortcut: Shortcut[T] | None = None,
    ) -> Awaitable[T]:
        """Run `unit` as one transaction over any zones and files: all or nothing, durable when the
        result is there.

        It is queued by the call itself, so units run in the order of their calls, and what refuses
        it (BusyError, ClosedError) is raised by the call. `unit` awaits nothing but the operations
        of the transaction it is given. An exception in it undoes it and reaches whoever awaits the
        result. `cost_bytes`: about how much it holds in memory, for the bound on waiting writes;
        what costs nothing is taken on a full disk, in the room of the ballast.
        `shortcut`: see the engine's.
        """
        return self._write(unit, cost_bytes, shortcut)

    # -- reading

    def view(self, unit: Unit[ReadTransaction, T]) -> Awaitable[T]:
        """Run `unit` on one committed state. It may run again: it must have no side effect.

        Queued by the call itself, like `transact`.
        """
        return self._read(unit)

    async def read(self, zone: str, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file; beyond its end nothing. NotFoundError if there is none."""
        return await self._read(lambda tx: tx.read(zone, name, offset, length))

    def open_read(
        self, zone: str, name: str, offset: int = 0, length: int | None = None
    ) -> AsyncIterator[bytes]:
        """Stream a file as it was at the start, in pieces of at most 1 MiB, in constant memory."""
        is_writer = self._lock is not None
        return stream(self._read, self._leases, zone, name, offset, length, is_writer=is_writer)

    async def read_lines(
        self, zone: str, name: str, from_line: int, limit: int, *, bytes_max: int | None = None
    ) -> LinePage:
        """Lines from number `from_line` on, found by index; `total` says how many there are."""
        limit = min(limit, self.limits.read_lines_max)
        return await self._read(
            lambda tx: tx.read_lines(zone, name, from_line, limit, bytes_max=bytes_max)
        )

    async def digest(self, zone: str, name: str) -> str:
        """The hex BLAKE3 of a file's content, streamed if it is not known from its last write."""
        info = await self.stat(zone, name)
        if info is not None and info.digest is not None:
            return info.digest
        return await hash_pieces(self.open_read(zone, name))

    async def stat(self, zone: str, name: str) -> FileInfo | None:
        """A file's info, or None."""
        return await self._read(lambda tx: tx.stat(zone, name))

    async def files(self, zone: str) -> list[FileInfo] | None:
        """The files of a zone by name, or None if there is no such zone."""
        return await self._read(lambda tx: tx.files(zone))

    async def zone(self, zone: str) -> ZoneInfo | None:
        """A zone's info, or None."""
        return await self._read(lambda tx: tx.zone(zone))

    async def zones(
        self, prefix: str = "", *, after: str | None = None, limit: int = 100, reverse: bool = False
    ) -> ZonePage:
        """A page of zones whose names start with `prefix`, in name order (code points)."""
        limit = min(limit, self.limits.page_rows_max)
        return await self._read(
            lambda tx: tx.zones(prefix, after=after, limit=limit, reverse=reverse)
        )

    def changes(self, prefix: str = "", since: int | None = None) -> Subscription:
        """Follow committed changes to zones with `prefix`, after position `since` or from now.

        Only of this process: a store that was opened read-only hears of none.
        """
        return subscribe(self._feed, prefix, since)

    @property
    def feed(self) -> Feed:
        """Where the changes come from, for those who would rather be called than wait."""
        return self._feed

    # -- upkeep

    async def tidy(self) -> None:
        """Wait for the background work that can be done now: tails sealed, space released."""
        if self._housekeeper is not None and self._background is not None:
            await self._housekeeper.wait_idle()

    async def read_unit(self, unit: ReadUnit[T]) -> T:
        """Run a unit on the engine itself; for the checker."""
        return await self._engine.read(unit)

    # -- parts

    def _write(
        self,
        unit: Unit[Transaction, T],
        cost_bytes: int,
        shortcut: Shortcut[T] | None = None,
    ) -> Awaitable[T]:
        limits = self.limits
        return self._engine.write(
            lambda tx: _bounded(unit, Transaction(tx, limits)), cost_bytes, shortcut=shortcut
        )

    def _read(self, unit: Unit[ReadTransaction, T]) -> Awaitable[T]:
        return self._engine.read(lambda tx: _bounded(unit, ReadTransaction(tx)))

    async def _prepare(self, data: bytes, key: tuple[str, str] | None) -> Prepared:
        kept = check_write(data, self.limits)
        like = self._cuts.get(key)
        if len(kept) <= INLINE_BYTES_MAX:
            prepared = prepare(kept, like)
        else:
            prepared = await asyncio.to_thread(prepare, kept, like)
        self._cuts.put(key, prepared)
        return prepared

    def _on_commit(self, changes: list[Change], position: int) -> None:
        self._feed.add(changes, position)
        if self._housekeeper is None:
            return
        if self._engine.needs_sealing:
            self._housekeeper.wake()
        elif changes:
            self._housekeeper.wake_later()


def _bounded(unit: Unit[R, T], tx: R) -> Coroutine[Any, Any, T]:
    """Run `unit` on a transaction that ends with it."""

    async def run() -> T:
        try:
            return await unit(tx)
        finally:
            tx.end()

    # What a unit is called stands in the message for one that awaits something else.
    run.__qualname__ = getattr(unit, "__qualname__", run.__qualname__)
    return run()


async def _nothing(_: ReadTx) -> None:
    """Make a connection, so that opening fails now if it cannot be done."""
