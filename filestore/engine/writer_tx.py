"""What units of work see on the writer thread: one transaction over database and tails.

Appends enter the tails at once (no reader looks past its own snapshot) and are taken out again if
the unit or the commit fails; everything else in memory changes after the commit.
"""

from collections.abc import Callable, Sequence
from typing import Any, LiteralString

from filestore.clock import Clock
from filestore.engine import driver
from filestore.engine.base import Damage, Row, TailRecord, Value
from filestore.engine.log import LogRows, Tail, Tails
from filestore.engine.schema import PAGE_BYTES
from filestore.model import Change, Limits

HEADS_KEPT_MAX = 8192
TRIM_BYTES_MIN = 1 << 20
TRIM_ROWS = 1000
SHRINK_PAGES = 256
SHRINK_FREE_PAGES_MIN = 4096
STATEMENT_BYTES = PAGE_BYTES + 24
"""A guess at what one statement adds to the WAL, besides its blobs."""


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
        self.has_met_damage = False

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

    async def table_flaws(self) -> list[str]:
        rows = self._run(self._connection.execute, driver.INTEGRITY_CHECK, ())
        return [flaw for (flaw,) in rows if flaw != "ok"]

    def hold_tails(self) -> None:
        """Nothing to do: nobody else drops them meanwhile."""

    def tail_append(self, file_id: int, record: TailRecord) -> None:
        tail = self._tails.get(file_id)
        if tail is None:
            tail = self._tails[file_id] = Tail(0)
        tail.append(record)
        self.records.append((file_id, record))

    async def tail_drop(self, file_id: int, upto_version: int) -> None:
        self.drops.append((file_id, upto_version))

    async def tail_close(self, file_id: int, reason: str) -> None:
        tail = self._tails.get(file_id)
        if tail is None or not tail.state[1]:
            return
        if tail.damage is None:
            last = tail.state[1][-1].version
            tail.damage = Damage(reason, last, file_id, None, is_readable=True)
            self.heads.clear()
        self._log.leave(file_id, self._limits.log_bytes_hard)

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
            self._give_pages_back()
        return is_loose or (is_trimmed and len(seqs) == TRIM_ROWS)

    async def shrink(self) -> bool:
        ((free,),) = self._run(self._connection.execute, "PRAGMA freelist_count", ())
        if free:
            self._give_pages_back()
        else:
            # As if much had been written: a checkpoint is due, and that cuts the file.
            self.wal_bytes = max(self.wal_bytes, self._limits.wal_bytes_soft)
        return bool(free)

    def _give_pages_back(self) -> None:
        self._before_change(SHRINK_PAGES, ())
        shrink = f"PRAGMA incremental_vacuum({SHRINK_PAGES})"
        self._run(self._connection.execute, shrink, ())

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
