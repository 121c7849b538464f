"""The reader threads: each owns a read-only connection, so reads never wait for writes.

One hop to a thread per unit, not per statement. A unit runs inside one short read transaction and
sees one committed state: rows from the database, and appends up to the counter that this state
carries in its last log row.
"""

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, LiteralString

from filestore.engine import driver
from filestore.engine.base import Damage, ReadUnit, Row, T, TailRecord, Value, undriven
from filestore.engine.log import Tails
from filestore.errors import (
    BackendError,
    ClosedError,
    CorruptionError,
    InvalidArgumentError,
)

SNAPSHOT_RETRIES_MAX = 1000

TailSource = Callable[[int, driver.Connection], Tails]
"""Gives the tails that go with the snapshot which a reader has just taken on its connection."""


class _StaleError(Exception):
    """Appends this snapshot needs were sealed meanwhile: run the unit again on a new one."""


class ReaderTx:
    """A unit's view of one committed state. Reader thread only."""

    def __init__(self, connection: driver.Connection, tails: Tails, position: int) -> None:
        self._connection = connection
        self._tails = tails
        self._position = position
        self.heads: dict[tuple[str, str], Any] = {}

    async def fetch(self, sql: LiteralString, params: Sequence[Value] = ()) -> list[Row]:
        try:
            return self._connection.execute(sql, params).fetchall()
        except driver.Error as error:
            raise driver.translate(error, "read") from error

    async def fetch_one(self, sql: LiteralString, params: Sequence[Value] = ()) -> Row | None:
        rows = await self.fetch(sql, params)
        return rows[0] if rows else None

    async def tail(self, file_id: int, after_version: int) -> Sequence[TailRecord]:
        tail = self._tails.get(file_id)
        records = tail.between(after_version, self._position) if tail else ()
        # Looked at last: a tail may have been forgotten, and begun anew, since this snapshot.
        if records is None or self._position < self._tails.forgotten:
            raise _StaleError
        return records

    async def table_flaws(self) -> list[str]:
        rows = await self.fetch(driver.INTEGRITY_CHECK)
        return [flaw for (flaw,) in rows if flaw != "ok"]

    def hold_tails(self) -> None:
        self._tails = self._tails.held()

    async def tail_end(self, file_id: int, after_version: int) -> TailRecord | None:
        records = await self.tail(file_id, after_version)
        return records[-1] if records else None

    async def tail_damage(self, file_id: int) -> Damage | None:
        tail = self._tails.get(file_id)
        return tail.damage if tail else None


def run_to_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """Drive a unit that never really suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise InvalidArgumentError(undriven(getattr(coroutine, "__qualname__", "?")))


class Readers:
    """A few threads that serve reads from one queue."""

    def __init__(
        self,
        connect: Callable[[int], driver.Connection],
        tails: TailSource,
        is_current: Callable[[int], bool],
        on_damage: Callable[[], None],
        count: int,
    ) -> None:
        self._connect = connect
        self._tails = tails
        self._is_current = is_current
        self._on_damage = on_damage
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[ReadUnit[Any], asyncio.Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        self._gate = threading.Condition()
        self._active = 0
        self._paused = False
        self._closed = False
        self._connections: dict[int, driver.Connection] = {}
        self._threads = [
            threading.Thread(
                target=self._run, args=(index,), name=f"zoned-reader-{index}", daemon=True
            )
            for index in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def read(self, unit: ReadUnit[T]) -> Awaitable[T]:
        """Run `unit` on one committed state."""
        if self._closed:
            raise ClosedError("the store is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((unit, future))
        return future

    def pause(self) -> None:
        """Wait for running units, hold back new ones, close all connections."""
        with self._gate:
            self._paused = True
            self._gate.wait_for(lambda: self._active == 0)
            while self._connections:
                self._connections.popitem()[1].close()

    def resume(self) -> None:
        """Serve again after `pause`, on new connections."""
        with self._gate:
            self._paused = False
            self._gate.notify_all()

    async def close(self) -> None:
        """Serve what is waiting, then end the threads and close the connections."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        self.pause()

    def _run(self, index: int) -> None:
        while (job := self._jobs.get()) is not None:
            unit, future = job
            if future.cancelled():
                continue
            self._enter()
            try:
                result, error = self._attempt(index, unit), None
            except BaseException as raised:  # the caller's to handle, on its own thread
                result, error = None, raised
                if isinstance(raised, CorruptionError):
                    self._on_damage()
            finally:
                self._leave()
            deliver(self._loop, [(future, result, error)])

    def _enter(self) -> None:
        with self._gate:
            while self._paused:
                self._gate.wait()
            self._active += 1

    def _leave(self) -> None:
        with self._gate:
            self._active -= 1
            if self._paused:
                self._gate.notify_all()

    def _attempt(self, index: int, unit: ReadUnit[T]) -> T:
        for _ in range(SNAPSHOT_RETRIES_MAX):
            try:
                found = self._read_once(index, unit)
            except driver.Error as error:
                raise driver.translate(error, "read") from error
            if found is not None:
                return found[0]
        raise BackendError("the file was being sealed at every attempt to read it")

    def _read_once(self, index: int, unit: ReadUnit[T]) -> tuple[T] | None:
        """Run `unit` on a new snapshot. None if that turned out to be too old."""
        connection = self._connections.get(index)
        if connection is None:
            connection = self._connections[index] = self._connect(index)
        try:
            connection.execute("BEGIN")
            row = connection.execute("SELECT max(seq) FROM log").fetchone()
            tx = ReaderTx(connection, self._tails(index, connection), row[0] or 0)
            result = run_to_end(unit(tx))
            if self._is_current(index):
                return (result,)
        except _StaleError:
            return None
        except Exception:
            if self._is_current(index):
                raise
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        del self._connections[index]
        connection.close()
        return None


def deliver(
    loop: asyncio.AbstractEventLoop,
    outcomes: Sequence[tuple[asyncio.Future[Any], Any, BaseException | None]],
) -> None:
    """Hand results to their waiters, on the event loop's own thread."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(settle, outcomes)


def settle(outcomes: Sequence[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    """Resolve futures; a waiter that was cancelled meanwhile is passed over."""
    for future, result, error in outcomes:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):
            # A future refuses it, and the others here would never be told.
            future.set_exception(RuntimeError("the unit of work raised StopIteration"))
        else:
            future.set_exception(error)
