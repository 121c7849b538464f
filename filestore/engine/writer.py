"""The writer thread: group commit.

It takes everything that is waiting, runs each caller's unit of work in a savepoint of its own
inside ONE transaction, commits once (one fsync), then acknowledges all. It alone writes and
checkpoints; it checkpoints after acknowledging.

What survives: a unit is durable when its waiter is told so. A unit that raises is rolled back
alone. Killed anywhere, the database holds whole groups only, and the log in it gives the tails
back.

Memory follows the database: appends enter the tails before the commit (no reader looks past its own
snapshot) and are taken out again if the unit or the commit fails; everything else changes after the
commit.

Whatever goes wrong, every job that was taken is answered: `run` raises GroupLostError, which
carries the group whose outcome nobody knows.
"""

import queue
from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Any, LiteralString, NamedTuple

from filestore.clock import Clock
from filestore.engine import driver
from filestore.engine.base import Damage, Row, TailRecord, Value, WriteUnit
from filestore.engine.log import LogRows, Tail, Tails, encode
from filestore.engine.readers import run_to_end
from filestore.engine.schema import PAGE_BYTES
from filestore.errors import StorageFullError, StoreError
from filestore.model import Change, Limits

PROBE_S = 1.0
"""How often a full disk is tried again."""
HEADS_KEPT_MAX = 8192
EMPTY_TAILS_MAX = 1024
TRIM_BYTES_MIN = 1 << 20
TRIM_ROWS = 1000
SHRINK_PAGES = 256
SHRINK_FREE_PAGES_MIN = 4096
TRUNCATE_WAIT_MS = 50
STATEMENT_BYTES = PAGE_BYTES + 24
"""A guess at what one statement adds to the WAL, besides its blobs."""

Failpoint = Callable[[str], None]
Outcome = tuple[Future[Any], Any, BaseException | None]
Committed = Callable[[list[Outcome], "Sequence[Job]", list[Change], int], None]
"""Told after each group: outcomes, jobs that wait no more, changes, the counter."""


class Job(NamedTuple):
    """A unit of work that waits for its turn."""

    unit: WriteUnit[Any]
    future: Future[Any]
    cost_bytes: int


class WriterTx:
    """What units see on the writer thread. One object; its fields belong to the running group."""

    def __init__(
        self,
        connection: driver.Connection,
        tails: Tails,
        log: LogRows,
        version: int,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self.heads: dict[tuple[str, str], Any] = {}
        self.now_ms = clock
        self.version = version
        self.records: list[tuple[int, TailRecord]] = []
        self.drops: list[tuple[int, int]] = []
        self.changes: list[Change] = []
        self.trimmed: list[int] = []
        self.wal_bytes = 0
        self._connection = connection
        self._tails = tails
        self._log = log
        self._limits = limits
        self._marks = (0, 0, 0)
        self._in_savepoint = False
        self.failure: driver.Error | None = None

    # -- what a unit calls

    async def fetch(self, sql: LiteralString, params: Sequence[Value] = ()) -> list[Row]:
        return self._run(self._connection.execute, sql, params)

    async def fetch_one(self, sql: LiteralString, params: Sequence[Value] = ()) -> Row | None:
        rows = self._run(self._connection.execute, sql, params)
        return rows[0] if rows else None

    async def execute(self, sql: LiteralString, params: Sequence[Value] = ()) -> None:
        self._before_change(1, params)
        self._run(self._connection.execute, sql, params)

    async def execute_many(self, sql: LiteralString, rows: Sequence[Sequence[Value]]) -> None:
        if rows:
            self._before_change(len(rows) // 8 + 1, rows[0])
            self._run(self._connection.executemany, sql, rows)

    async def tail(self, file_id: int, after_version: int) -> Sequence[TailRecord]:
        tail = self._tails.get(file_id)
        records = tail.between(after_version, self.version) if tail else ()
        assert records is not None, "the writer never drops what its own rows still need"
        return records

    async def tail_end(self, file_id: int, after_version: int) -> TailRecord | None:
        tail = self._tails.get(file_id)
        if tail is None or not tail.state[1]:
            return None
        last = tail.state[1][-1]
        return last if last.version > after_version else None

    async def tail_damage(self, file_id: int) -> Damage | None:
        tail = self._tails.get(file_id)
        return tail.damage if tail else None

    def hold_tails(self) -> None:
        """Nothing to do: nobody else drops them meanwhile."""

    async def tail_append(self, file_id: int, record: TailRecord) -> None:
        tail = self._tails.get(file_id)
        if tail is None:
            tail = self._tails[file_id] = Tail(0)
        tail.append(record)
        self.records.append((file_id, record))

    async def tail_drop(self, file_id: int, upto_version: int) -> None:
        self.drops.append((file_id, upto_version))

    async def tails_to_seal(self, bytes_min: int) -> list[int]:
        found = self._log.holders(self._limits.log_bytes_soft)
        found.update(file_id for file_id, tail in self._tails.items() if tail.bytes >= bytes_min)
        return sorted(found)

    async def tidy(self) -> bool:
        seqs, size = self._log.droppable(TRIM_ROWS)
        is_long = self._log.bytes > self._limits.log_bytes_soft
        is_trimmed = size >= TRIM_BYTES_MIN or len(seqs) == TRIM_ROWS or bool(seqs and is_long)
        if is_trimmed:
            self._before_change(1, ())
            keys = [(seq,) for seq in seqs]
            self._run(self._connection.executemany, "DELETE FROM log WHERE seq = ?", keys)
            self.trimmed = seqs
        ((free,),) = self._run(self._connection.execute, "PRAGMA freelist_count", ())
        ((total,),) = self._run(self._connection.execute, "PRAGMA page_count", ())
        is_loose: bool = free > SHRINK_FREE_PAGES_MIN and free > total // 2
        if is_loose:
            self._before_change(SHRINK_PAGES, ())
            shrink = f"PRAGMA incremental_vacuum({SHRINK_PAGES})"
            self._run(self._connection.execute, shrink, ())
        return is_loose or (is_trimmed and len(seqs) == TRIM_ROWS)

    def next_version(self) -> int:
        self.version += 1
        return self.version

    def publish(self, change: Change) -> None:
        self.changes.append(change)

    # -- what the writer calls

    def begin_unit(self) -> None:
        self._marks = (len(self.records), len(self.changes), len(self.drops))
        self._in_savepoint = False
        self.failure = None

    def end_unit(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self._in_savepoint:
            self._connection.execute("RELEASE unit")

    def undo_unit(self) -> None:
        """Take back what the running unit did, in memory and in the database."""
        records, changes, drops = self._marks
        self._undo_records(records)
        del self.changes[changes:], self.drops[drops:]
        self.trimmed = []
        self.heads.clear()
        if self._in_savepoint and self._connection.in_transaction:
            self._connection.execute("ROLLBACK TO unit")
            self._connection.execute("RELEASE unit")

    def undo_group(self) -> None:
        """Take back in memory what all units of the group did; the database has rolled back."""
        self._undo_records(0)
        self.clear_group()
        self.heads.clear()

    def clear_group(self) -> None:
        self.records, self.changes, self.drops = [], [], []
        self.trimmed = []
        if len(self.heads) > HEADS_KEPT_MAX:
            self.heads.clear()

    def _undo_records(self, keep: int) -> None:
        while len(self.records) > keep:
            file_id, _ = self.records.pop()
            tail = self._tails[file_id]
            tail.undo_append()
            if tail.state == (0, []) and tail.damage is None:
                del self._tails[file_id]

    def _run(
        self, call: Callable[..., driver.Cursor], sql: str, params: Sequence[Any]
    ) -> list[Row]:
        # Some errors make SQLite roll back by itself. A unit that catches one and goes on would
        # then write outside of any transaction, so the first error is also the last statement.
        if self.failure is not None:
            raise self.failure
        try:
            return call(sql, params).fetchall()
        except driver.Error as error:
            self.failure = error
            raise

    def _before_change(self, statements: int, params: Sequence[Value]) -> None:
        if not self._in_savepoint:
            self._run(self._connection.execute, "SAVEPOINT unit", ())
            self._in_savepoint = True
        blobs = sum(len(value) for value in params if type(value) is bytes)
        self.wal_bytes += statements * (STATEMENT_BYTES + blobs)


class Writer:
    """The loop of the writer thread, over one open connection."""

    def __init__(
        self,
        connection: driver.Connection,
        tx: WriterTx,
        tails: Tails,
        log: LogRows,
        limits: Limits,
        failpoint: Failpoint | None,
        committed: Committed,
    ) -> None:
        self._connection = connection
        self._tx = tx
        self._tails = tails
        self._log = log
        self._limits = limits
        self._failpoint = failpoint
        self._committed = committed
        self._empty_tails = 0
        self._committed_version = tx.version
        self.is_full = False
        self.log_bytes = log.bytes
        self.needs_sealing = True

    def run(self, jobs: "queue.SimpleQueue[Job | None]") -> None:
        """Serve `jobs` until told to stop. Raises when the disk can no longer be trusted."""
        while True:
            group, is_last = self._take(jobs)
            if group:
                self._commit(group)
                self._checkpoint_if_due()
            elif self.is_full:
                self.probe()
            if is_last:
                return

    def _take(self, jobs: "queue.SimpleQueue[Job | None]") -> tuple[list[Job], bool]:
        """Wait for a job, then take all that are there."""
        try:
            job = jobs.get(timeout=PROBE_S if self.is_full else None)
        except queue.Empty:
            return [], False
        group: list[Job] = []
        while job is not None:
            if not job.future.cancelled():
                group.append(job)
            else:
                self._committed([], [job], [], self._committed_version)
            try:
                job = jobs.get_nowait()
            except queue.Empty:
                return group, False
        if group:
            jobs.put(None)  # whatever becomes of this group, the order to stop comes after it
        return group, not group

    def _commit(self, group: list[Job]) -> None:
        tx = self._tx
        version_before = tx.version
        try:
            with driver.translated("write"):
                self._connection.execute("BEGIN IMMEDIATE")
                self._hit("begun")
                outcomes = [self._run_unit(job) for job in group]
                if tx.drops:
                    # Readers tell states apart by the counter; one from before still needs what is
                    # dropped now.
                    tx.next_version()
                row = encode(tx.version, tx.records) if tx.version > version_before else b""
                if row:
                    self._connection.execute("INSERT INTO log VALUES (?, ?)", (tx.version, row))
                self._hit("commit.before")
                self._connection.execute("COMMIT")
                self._hit("commit.after")
        except driver.IoFailure as error:
            raise GroupLostError(group, error) from error
        except StoreError as error:
            self._fail(group, error)
            return
        except BaseException as error:
            raise GroupLostError(group, error) from error
        changes = tx.changes
        if row:
            # Without one the counter is where it was, also if a group that failed has raised it.
            self._committed_version = tx.version
        try:
            self._after_commit(row)
        finally:
            self._committed(outcomes, group, changes, self._committed_version)
        self._hit("acknowledged")

    def _run_unit(self, job: Job) -> Outcome:
        tx = self._tx
        tx.begin_unit()
        try:
            result = run_to_end(job.unit(tx))
            tx.end_unit()
            self._hit("unit.done")
            return job.future, result, None
        except driver.Error as error:
            if _is_fatal(error) or not self._connection.in_transaction:
                raise
            tx.undo_unit()
            return job.future, None, driver.translate(error, "write")
        except BaseException as error:  # the caller's, whatever it is; others in the group go on
            failure = tx.failure
            if failure is not None and _is_fatal(failure):
                raise failure from error  # however the unit has dressed it up
            if not self._connection.in_transaction:
                raise
            tx.undo_unit()
            return job.future, None, error

    def _after_commit(self, row: bytes) -> None:
        tx, tails, log = self._tx, self._tails, self._log
        appended = {file_id: record.version for file_id, record in tx.records}
        if row:
            log.add(tx.version, len(row), appended)
            tx.wal_bytes += len(row) + STATEMENT_BYTES
        for file_id, upto_version in tx.drops:
            log.release(file_id, upto_version)
            tail = tails.get(file_id)
            if tail is not None:
                tail.drop(upto_version)
                self._empty_tails += not tail.state[1]
        if tx.trimmed:
            log.forget(tx.trimmed)
        if self._empty_tails > EMPTY_TAILS_MAX:
            self._forget_empty_tails()
        seal_bytes = self._limits.seal_bytes
        self.log_bytes = log.bytes
        # Never because of a commit without appends: background work itself makes such ones.
        self.needs_sealing = bool(appended) and (
            log.bytes > self._limits.log_bytes_soft
            or any(file_id in tails and tails[file_id].bytes >= seal_bytes for file_id in appended)
        )
        tx.clear_group()

    def _forget_empty_tails(self) -> None:
        self._empty_tails = 0
        self._tails.forgotten = self._tx.version
        for file_id in [
            key for key, tail in self._tails.items() if not tail.state[1] and not tail.damage
        ]:
            del self._tails[file_id]

    def _fail(self, group: list[Job], error: StoreError) -> None:
        """Nothing of the group was applied; say so to all."""
        self._tx.undo_group()
        try:
            self._roll_back()
        except driver.Error as second:
            raise GroupLostError(group, second) from error
        if isinstance(error, StorageFullError):
            self.is_full = True
        outcomes: list[Outcome] = [(job.future, None, error) for job in group]
        self._committed(outcomes, group, [], self._committed_version)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def probe(self) -> None:
        """Try a small real commit: the only proof that the disk takes writes again."""
        try:
            with driver.translated("probe"):
                self._connection.execute("BEGIN IMMEDIATE")
                seq = self._tx.next_version()
                row = encode(seq, ())
                self._connection.execute("INSERT INTO log VALUES (?, ?)", (seq, row))
                self._connection.execute("COMMIT")
        except StorageFullError:
            self._roll_back()
            self.is_full = True
            return
        self._committed_version = seq
        self._log.add(seq, len(row), {})
        self.is_full = False
        self._committed([], (), [], seq)

    def _checkpoint_if_due(self) -> None:
        tx = self._tx
        if tx.wal_bytes < self._limits.wal_bytes_soft or self.is_full:
            return
        self._hit("checkpoint.before")
        try:
            with driver.translated("checkpoint"):
                row = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                _, frames, done = row
                left = (frames - done) * STATEMENT_BYTES
                if left * 2 > self._limits.wal_bytes_hard:
                    # Readers held it back for long; this waits for them, but only a little.
                    self._connection.execute(f"PRAGMA busy_timeout = {TRUNCATE_WAIT_MS}")
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                    self._connection.execute(f"PRAGMA busy_timeout = {driver.BUSY_TIMEOUT_MS}")
        except StorageFullError:
            self.is_full = True
            return
        # What could not be moved still counts; a quarter of the bound must be written before the
        # next try.
        tx.wal_bytes = min(left, self._limits.wal_bytes_soft * 3 // 4)
        self._hit("checkpoint.after")

    def _hit(self, name: str) -> None:
        if self._failpoint is not None:
            self._failpoint(name)


def _is_fatal(error: driver.Error) -> bool:
    """True if it is about the disk, and so about everyone in the group."""
    return isinstance(driver.translate(error, "write"), StorageFullError | driver.IoFailure)


class GroupLostError(Exception):
    """A group whose outcome is unknown, because the disk (or our own code) failed under it."""

    def __init__(self, group: list[Job], error: BaseException) -> None:
        super().__init__(str(error))
        self.group = group
        self.error = error
