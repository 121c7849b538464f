"""The SQLite engine: one writer thread, a few reader threads, one database file.

`open_engine` makes the database if it is missing or refuses it if it is not ours (database.py), and
recovers the tails from the log.

After an I/O error nothing is trusted: all connections are closed (Linux reports a failed fsync once
and then forgets), the database is opened again and checked, and only then are writes taken again.
"""

import asyncio
import logging
import os
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from threading import get_ident

from filestore.ballast import Ballast
from filestore.clock import Clock
from filestore.engine import driver
from filestore.engine.base import ReadUnit, Shortcut, T, WriteUnit
from filestore.engine.database import (
    check_header,
    check_start,
    connect_read_only,
    create,
    refuse_older,
    wal_bytes,
)
from filestore.engine.log import LOG_ROWS, LogRows, Tails
from filestore.engine.readers import Readers, settle
from filestore.engine.writer import (
    PROBE_S,
    Failpoint,
    GroupLostError,
    Job,
    Outcome,
    Writer,
)
from filestore.engine.writer_tx import WriterTx
from filestore.errors import (
    BusyError,
    ClosedError,
    CommitUnknownError,
    CorruptionError,
    InvalidArgumentError,
    ReadOnlyError,
    StorageFullError,
    StoreError,
)
from filestore.files import DISK_FULL, is_disk_full
from filestore.model import Change, Limits, Stats, Sync

BUSY_RETRY_MS = 50
log = logging.getLogger("zoned.store")

OnCommit = Callable[[list[Change], int], None]


class SqliteEngine:
    """An open database. Made by `open_engine`; belongs to one event loop."""

    def __init__(
        self,
        path: Path,
        sync: Sync,
        clock: Clock,
        limits: Limits,
        failpoint: Failpoint | None,
        on_commit: OnCommit,
        on_gap: Callable[[], None],
    ) -> None:
        self._path = path
        self._sync = sync
        self._clock = clock
        self._limits = limits
        self._failpoint = failpoint
        self._on_commit = on_commit
        self._on_gap = on_gap
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._waiting_units = 0
        self._waiting_bytes = 0
        self._commits = self._units = self._batch_units = 0
        self._ballast = Ballast(path.parent, limits.ballast_bytes)
        self._closed = False
        self._trouble: str | None = None
        """Why no write will be taken any more."""
        self._recovery: str | None = None
        """Why writes have to wait just now."""
        self.position = 0
        self._open_writer(0)
        self._ballast.take(path.stat().st_size)
        self._readers = Readers(
            lambda _: driver.connect(path, read_only=True),
            lambda *_: self._tails,
            lambda _: True,
            self._met_damage,
            limits.readers,
        )
        self._thread = threading.Thread(target=self._run, name="zoned-writer", daemon=True)
        self._thread.start()
        self._writer_ident = self._thread.ident

    @property
    def trouble(self) -> str | None:
        """Why writes are refused now, or None."""
        return self._trouble or self._recovery or (DISK_FULL if self._is_full else None)

    @property
    def needs_sealing(self) -> bool:
        """True when the last commit left tails that should be sealed soon."""
        return self._writer.needs_sealing

    @property
    def stats(self) -> Stats:
        """Counters, for those who watch."""
        return Stats(
            self._commits,
            self._units,
            self._batch_units,
            self._waiting_units,
            self._waiting_bytes,
            wal_bytes(self._path),
            self._writer.log_bytes,
        )

    @property
    def _is_full(self) -> bool:
        return self._writer.is_full

    def write(
        self,
        unit: WriteUnit[T],
        cost_bytes: int,
        *,
        shortcut: Shortcut[T] | None = None,
        is_housekeeping: bool = False,
    ) -> Awaitable[T]:
        if self._closed:
            raise ClosedError("the store is closed")
        if self._trouble is not None:
            raise ReadOnlyError(self._trouble)
        if get_ident() == self._writer_ident:
            raise InvalidArgumentError("a unit of work writes through its transaction only")
        if cost_bytes and self._writer.is_full:
            # What costs nothing may be what makes room; the ballast has some for it.
            raise StorageFullError(DISK_FULL)
        if not is_housekeeping:
            self._refuse_if_busy(cost_bytes)
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting_units += 1
        self._waiting_bytes += cost_bytes
        self._jobs.put(Job(unit, future, cost_bytes, shortcut))
        return future

    def read(self, unit: ReadUnit[T]) -> Awaitable[T]:
        return self._readers.read(unit)

    async def close(self) -> None:
        """Finish what was accepted, checkpoint, close. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        await self._readers.close()
        # The last connection to close removes the WAL; it must be the one that may write.
        await asyncio.to_thread(self._close_writer)

    def _refuse_if_busy(self, cost_bytes: int) -> None:
        limits = self._limits
        if (
            self._waiting_units >= limits.queue_units_max
            or (self._waiting_bytes and self._waiting_bytes + cost_bytes > limits.queue_bytes_max)
            # What costs nothing is let through: a delete may be what makes room.
            or (cost_bytes and self._writer.log_bytes > limits.log_bytes_hard)
        ):
            raise BusyError("too many writes are waiting", retry_after_ms=BUSY_RETRY_MS)

    def _met_damage(self) -> None:
        """Called on a reader's thread; the writer takes note of it with the next unit."""
        self._writer_tx.has_met_damage = True

    # -- writer thread

    def _run(self) -> None:
        while True:
            try:
                self._writer.run(self._jobs)
                return
            except GroupLostError as lost:
                self._start_over(str(lost.error))
                unknown = CommitUnknownError(f"the commit failed: {lost.error}")
                unknown.__cause__ = lost.error
                outcomes: list[Outcome] = [(job.future, None, unknown) for job in lost.group]
                self._committed(outcomes, lost.group, [], self.position)
            except StoreError as error:
                self._start_over(str(error))
            except Exception as error:  # nobody may be left waiting for a writer that has ended
                log.exception("the writer failed between two groups")
                self._start_over(str(error))
            if self._trouble is not None:
                self._refuse_all(self._trouble)
                return

    def _start_over(self, reason: str) -> None:
        """Close everything, open again, check, recover; stay read-only if that does not succeed."""
        log.error("opening the database again: %s", reason)
        self._recovery = f"recovering from: {reason}"
        try:
            self._open_again()
            self._met_damage()  # nobody has read the bytes of chunks again
            self._check_quickly()
            self._writer.probe()
        except Exception as error:  # no error may leave callers waiting for a writer that has ended
            self._trouble = f"read-only after a failure of the disk ({reason}): {error}"
        finally:
            self._recovery = None
        self._on_loop(self._on_gap)

    def _open_again(self) -> None:
        """Close every connection and open the database anew."""
        self._readers.pause()
        try:
            self._abandon_connection()
            while True:
                try:
                    self._open_writer(self._writer_tx.version)
                    return
                except StoreError:
                    # A full disk shows itself as many errors; that one passes.
                    if self._closed or not is_disk_full(self._path.parent):
                        raise
                    self._writer.filled_up()
                    time.sleep(PROBE_S)
        finally:
            self._readers.resume()

    def _abandon_connection(self) -> None:
        """Close the writer's connection without the checkpoint that the last one to close makes:
        it would sync again what has just failed to."""
        try:
            guard = driver.connect(self._path, read_only=True)
            guard.execute("SELECT max(seq) FROM log").fetchone()
        except (StoreError, driver.Error):
            self._close_connection()
            return
        self._close_connection()
        guard.close()

    def _check_quickly(self) -> None:
        """Have SQLite look at all its pages; readers go on meanwhile."""
        with driver.translated("check"):
            ((found,),) = self._connection.execute("PRAGMA quick_check(1)").fetchall()
        if found != "ok":
            raise CorruptionError(f"the database is damaged: {found}", operation="check")

    def _refuse_all(self, trouble: str) -> None:
        while (job := self._jobs.get()) is not None:
            self._committed([(job.future, None, ReadOnlyError(trouble))], [job], [], self.position)

    def _open_writer(self, version_min: int) -> None:
        self._connection = driver.connect(self._path, read_only=False, sync=self._sync)
        # A WAL that grew under a long read is cut when it begins again.
        self._connection.execute(f"PRAGMA journal_size_limit = {self._limits.wal_bytes_hard}")
        tails, rows = Tails(), LogRows()
        committed = self.position
        try:
            with driver.translated("open"):
                check_start(self._connection, self._path)
                for seq, row in self._connection.execute(LOG_ROWS, (0,)):
                    versions = tails.load(seq, row)
                    if versions is not None:
                        rows.add(seq, len(row), versions)
                    committed = seq
        except StoreError:
            self._connection.close()
            raise
        self._tails = tails
        # Not `version_min`: a restart would give what was counted, but not committed, once more.
        self.position = committed
        version = max(version_min, committed)
        self._writer_tx = WriterTx(
            self._connection, tails, rows, version, self._clock, self._limits
        )
        self._writer = Writer(
            self._connection,
            self._writer_tx,
            tails,
            rows,
            self._limits,
            self._ballast,
            self._failpoint,
            self._committed,
            committed,
        )

    def _close_connection(self) -> None:
        try:
            self._connection.close()
        except driver.Error as error:
            # Closing rolls back; what it could not do is found by the check that follows.
            log.warning("closing the database: %s", error)

    def _close_writer(self) -> None:
        if self._trouble is None and not self._is_full:
            try:
                with driver.translated("close"):
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except StorageFullError as error:
                log.warning("the write-ahead log stays for the next start: %s", error)
            except StoreError:
                self._abandon_connection()
                raise
        self._close_connection()

    def _committed(
        self, outcomes: list[Outcome], jobs: Sequence[Job], changes: list[Change], version: int
    ) -> None:
        self._on_loop(self._settle, outcomes, jobs, changes, version)

    def _on_loop(self, call: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            # The event loop has ended without closing the store, so nobody is left to be told.
            if not self._loop.is_closed():
                raise

    # -- event loop thread

    def _settle(
        self, outcomes: list[Outcome], jobs: Sequence[Job], changes: list[Change], version: int
    ) -> None:
        if outcomes:
            self._commits += 1
            self._units += len(outcomes)
            self._batch_units = len(outcomes)
        self._waiting_units -= len(jobs)
        self._waiting_bytes -= sum([job.cost_bytes for job in jobs])
        self.position = max(self.position, version)
        try:
            self._on_commit(changes, version)
        finally:
            # Whatever becomes of those who follow, the writers' bytes are durable.
            settle(outcomes)


def open_engine(
    path: Path,
    sync: Sync,
    clock: Clock,
    limits: Limits,
    failpoint: Failpoint | None,
    on_commit: OnCommit,
    on_gap: Callable[[], None],
) -> SqliteEngine:
    """Open or make the database at `path`. The caller holds the folder's lock."""
    if os.path.lexists(path):
        version = check_header(path)
        if wal_bytes(path):
            # The WAL may hold a newer header. A connection that may write would change the file by
            # closing, so look through one that may not.
            connect_read_only(path, is_immutable=False).close()
        else:
            refuse_older(path, version)
    else:
        create(path, clock())
    return SqliteEngine(path, sync, clock, limits, failpoint, on_commit, on_gap)
