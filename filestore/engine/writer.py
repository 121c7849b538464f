"""The writer thread: group commit.

It takes everything that is waiting, runs each caller's unit of work in a savepoint of its own
inside ONE transaction, commits once (one fsync), then acknowledges all. It alone writes and
checkpoints; it checkpoints after acknowledging.

What survives: a unit is durable when its waiter is told so. A unit that raises is rolled back
alone. Killed anywhere, the database holds whole groups only, and the log in it gives the tails
back.

Memory follows the database: see writer_tx.py.

Whatever goes wrong, every job that was taken is answered: `run` raises GroupLostError, which
carries the group whose outcome nobody knows.
"""

import queue
import time
from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from filestore.ballast import Ballast
from filestore.engine import driver
from filestore.engine.base import Shortcut, WriteUnit
from filestore.engine.log import LogRows, Tails, encode
from filestore.engine.readers import run_to_end
from filestore.engine.schema import PAGE_BYTES
from filestore.engine.writer_tx import STATEMENT_BYTES, WriterTx
from filestore.errors import CorruptionError, StorageFullError, StoreError
from filestore.model import Change, Limits

PROBE_S = 1.0
"""How often a full disk is tried again."""
EMPTY_TAILS_MAX = 1024
TRUNCATE_WAIT_MS = 50

Failpoint = Callable[[str], None]
Outcome = tuple[Future[Any], Any, BaseException | None]
Committed = Callable[[list[Outcome], "Sequence[Job]", list[Change], int], None]
"""Told after each group: outcomes, jobs that wait no more, changes, the counter."""


class Job(NamedTuple):
    """A unit of work that waits for its turn."""

    unit: WriteUnit[Any]
    future: Future[Any]
    cost_bytes: int
    shortcut: Shortcut[Any] | None = None


class Writer:
    """The loop of the writer thread, over one open connection."""

    def __init__(
        self,
        connection: driver.Connection,
        tx: WriterTx,
        tails: Tails,
        log: LogRows,
        limits: Limits,
        ballast: Ballast,
        failpoint: Failpoint | None,
        committed: Committed,
        committed_version: int,
    ) -> None:
        self._connection = connection
        self._ballast = ballast
        self._tx = tx
        self._tails = tails
        self._log = log
        self._limits = limits
        self._failpoint = failpoint
        self._committed = committed
        self._empty_tails = 0
        self._committed_version = committed_version
        self.is_full = False
        self._probe_at = 0.0
        self.log_bytes = log.bytes
        self.needs_sealing = True

    def run(self, jobs: "queue.SimpleQueue[Job | None]") -> None:
        """Serve `jobs` until told to stop. Raises when the disk can no longer be trusted."""
        while True:
            group, is_last = self._take(jobs)
            if group:
                self._commit(group)
                self._checkpoint_if_due()
            if self.is_full and time.monotonic() >= self._probe_at:
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
            if jobs.empty():
                return group, False
            job = jobs.get_nowait()  # nobody else takes any
        if group:
            jobs.put(None)  # whatever becomes of this group, the order to stop comes after it
        return group, not group

    def _commit(self, group: list[Job]) -> None:
        tx = self._tx
        version_before = tx.version
        try:
            with driver.translated("write"):
                outcomes = self._run_units(group)
                if tx.drops:
                    # Readers tell states apart by the counter; one from before still needs what is
                    # dropped now.
                    tx.next_version()
                row = encode(tx.version, tx.records) if tx.version > version_before else b""
                self._write(row)
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

    def _write(self, row: bytes) -> None:
        """Make what the group did durable, with its row of the log if it has one."""
        values = self._tx.version, row
        if not self._connection.in_transaction:
            # Shortcuts only: the row is all there is, and commits by itself.
            self._hit("commit.before")
            if row:
                self._connection.execute("INSERT INTO log VALUES (?, ?)", values)
        else:
            if row:
                self._connection.execute("INSERT INTO log VALUES (?, ?)", values)
            self._hit("commit.before")
            self._connection.execute("COMMIT")
        self._hit("commit.after")

    def _run_units(self, group: list[Job]) -> list[Outcome]:
        tx = self._tx
        outcomes: list[Outcome] = []
        for job in group:
            # A shortcut changes memory only and cannot fail, so it needs no savepoint.
            result = job.shortcut(tx) if job.shortcut is not None else None
            if result is None:
                outcomes.append(self._run_unit(job))
                continue
            outcomes.append((job.future, result, None))
            self._hit("unit.done")
        return outcomes

    def _run_unit(self, job: Job) -> Outcome:
        tx = self._tx
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
            self._hit("begun")
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
            tx.has_met_damage |= isinstance(error, CorruptionError)
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
            self.filled_up()
        outcomes: list[Outcome] = [(job.future, None, error) for job in group]
        self._committed(outcomes, group, [], self._committed_version)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def filled_up(self) -> None:
        """The disk is full: only what costs nothing is taken, until a probe succeeds."""
        if not self.is_full:
            # Nobody who fails later puts the probe off, however often.
            self._probe_at = time.monotonic() + PROBE_S
        self.is_full = True
        self._ballast.give()

    def probe(self) -> None:
        """Try a small real commit: the only proof that the disk takes writes again."""
        self._probe_at = time.monotonic() + PROBE_S
        try:
            with driver.translated("probe"):
                ballast = self._ballast
                if not (ballast.has_room(0) or ballast.has_room(self._spare_bytes())):
                    # The log would have room for a small commit, on the fullest disk.
                    self.filled_up()
                    return
                self._connection.execute("BEGIN IMMEDIATE")
                seq = self._tx.next_version()
                row = encode(seq, ())
                self._connection.execute("INSERT INTO log VALUES (?, ?)", (seq, row))
                self._connection.execute("COMMIT")
        except StorageFullError:
            self._roll_back()
            self.filled_up()
            return
        self._committed_version = seq
        self._log.add(seq, len(row), {})
        self.is_full = False
        self._committed([], (), [], seq)

    def _spare_bytes(self) -> int:
        """What is free within the database. It is of use once the write-ahead log can begin again,
        because on a full disk that cannot grow. Raises if the database cannot take the log in.
        """
        ((free,),) = self._connection.execute("PRAGMA freelist_count").fetchall()
        if not free:
            return 0
        _, frames, done = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return int(free) * PAGE_BYTES if done == frames else 0

    def _checkpoint_if_due(self) -> None:
        tx = self._tx
        if self.is_full:
            # The room that the ballast gave is soon gone if every delete makes the WAL longer.
            is_due = self._ballast.is_given
        else:
            is_due = tx.wal_bytes >= self._limits.wal_bytes_soft
        if not is_due:
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
            self.filled_up()
            return
        # What could not be moved still counts; a quarter of the bound must be written before the
        # next try.
        tx.wal_bytes = min(left, self._limits.wal_bytes_soft * 3 // 4)
        ((pages,),) = self._connection.execute("PRAGMA page_count").fetchall()
        self._ballast.take(pages * PAGE_BYTES)
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
