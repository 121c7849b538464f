"""What is left after something failed: a full disk, a failed commit, a cancelled close, a unit that
raises the wrong thing. Nobody waits for ever, nothing unacknowledged stays, no position is told
that a restart would give again."""

import asyncio
import errno
import threading
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from filestore import (
    Appended,
    Change,
    CommitUnknownError,
    CorruptionError,
    FileStore,
    Limits,
    LockedError,
    StorageFullError,
    Transaction,
    housekeeping,
)
from filestore.engine import writer, writer_tx
from filestore.engine.base import ReadTx
from filestore.engine.log import LogRows, Tail, encode
from filestore.engine.sqlite import SqliteEngine
from tests.conftest import StoreOpener
from tests.contract.tools import (
    WAIT_S_MAX,
    Gate,
    do_nothing,
    later,
    noise,
    size_of,
    take,
    turn,
    wal_of,
)
from tests.filestore.test_log import record
from tests.support.faults import until

PAGES_MAX = 1 << 30


class FailingGate(Gate):
    """A gate that also lets one commit fail as a broken disk would."""

    def __init__(self) -> None:
        super().__init__()
        self.commit_to_fail: int | None = None
        """Counted from the opening of the store."""

    def __call__(self, name: str) -> None:
        super().__call__(name)
        if name == "commit.before" and self.hits[name] == self.commit_to_fail:
            raise OSError(errno.EIO, "the disk is broken")


class ReadGate:
    """A unit that takes a snapshot and keeps it until it is let go."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._opened = threading.Event()

    async def hold(self, tx: ReadTx) -> None:
        await tx.fetch("SELECT count(*) FROM zone")
        self._reached.set()
        assert self._opened.wait(WAIT_S_MAX)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, WAIT_S_MAX)

    def let_go(self) -> None:
        self._opened.set()


def engine_of(store: FileStore) -> SqliteEngine:
    engine = store._engine
    assert isinstance(engine, SqliteEngine)
    return engine


def limit_pages(store: FileStore, more: int | None) -> None:
    """Let the disk be full after `more` pages, or not at all. Only for a unit to call."""
    connection = engine_of(store)._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    pages_max = PAGES_MAX if more is None else pages + more
    connection.execute(f"PRAGMA max_page_count = {pages_max}").fetchall()


async def outcomes(*calls: Coroutine[Any, Any, object]) -> list[object]:
    """What became of calls that are handed in at once, in this order."""
    async with asyncio.timeout(WAIT_S_MAX):
        return await asyncio.gather(*calls, return_exceptions=True)


async def in_one_group(
    store: FileStore, gate: Gate, *calls: Coroutine[Any, Any, object]
) -> list[object]:
    """The outcomes of calls that the writer takes all at once."""
    waiting = engine_of(store)
    async with asyncio.TaskGroup() as group:
        async with gate.held(store):
            before = waiting._waiting_units
            task = group.create_task(outcomes(*calls))
            while waiting._waiting_units < before + len(calls):
                await turn()
        return await task


# -- a full disk


async def test_units_that_fail_all_the_time_do_not_keep_the_disk_from_being_probed(
    open_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cost nothing, so they are taken on a full disk, and fail: each later than the last
    by less than the time to the next probe."""
    monkeypatch.setattr(writer, "PROBE_S", 0.2)
    monkeypatch.setattr(housekeeping, "RELEASE_DELAY_S", WAIT_S_MAX)
    store = await open_store()
    await store.write("z", "file", b"0")
    await store.tidy()
    before = store.position

    async def is_too_large(tx: Transaction) -> None:
        limit_pages(store, 4)
        await tx.write("z", "big", noise(100_000))

    async with asyncio.timeout(WAIT_S_MAX / 6):
        while store.position == before:  # until a probe has gone well
            with pytest.raises(StorageFullError):
                await store.transact(is_too_large)


async def test_unit_that_hides_a_full_disk_takes_its_group_back_with_it(
    open_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite has rolled the whole transaction back by itself, whatever the unit makes of it."""
    monkeypatch.setattr(writer, "PROBE_S", 0.01)
    gate = Gate()
    store = await open_store(failpoint=gate)
    await store.append("z", "a", b"first\n")

    async def fills_the_disk(tx: Transaction) -> None:
        limit_pages(store, 0)
        try:
            for number in range(50):
                await tx.write("z", f"big {number}", noise(60_000, number))
        except Exception as error:
            raise RuntimeError("while migrating") from error
        finally:
            limit_pages(store, None)

    found = await in_one_group(
        store,
        gate,
        store.append("z", "a", b"second\n"),
        later(lambda: store.transact(fills_the_disk)),
        store.write("z", "after", b"by a neighbour that comes after"),
    )
    assert [type(outcome) for outcome in found] == [StorageFullError] * 3
    assert await store.read("z", "a") == b"first\n"
    assert await store.stat("z", "after") is None

    async def takes_writes() -> bool:
        return store.trouble is None

    await until(takes_writes, WAIT_S_MAX, 0.01)
    await store.append("z", "a", b"third\n")
    await store.close()
    reopened = await open_store()
    assert await reopened.read("z", "a") == b"first\nthird\n"
    assert [info.name for info in await reopened.files("z") or []] == ["a"]


async def test_position_after_a_full_disk_is_one_that_is_durable(
    open_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told from memory alone it would be given again, and who goes on from it would miss that."""
    monkeypatch.setattr(writer, "PROBE_S", WAIT_S_MAX)
    monkeypatch.setattr(housekeeping, "RELEASE_DELAY_S", WAIT_S_MAX)
    store = await open_store()
    await store.write("z", "file", b"0")
    await store.tidy()  # from here on nobody else writes
    durable = store.position

    async def fills_the_disk(tx: Transaction) -> None:
        limit_pages(store, 1)
        for number in range(40):
            await tx.append("z", f"new {number}", b"x" * 200)
        await tx.write("z", "big", noise(500_000))

    with pytest.raises(StorageFullError):
        await store.transact(fills_the_disk)
    told = store.position
    assert told == durable
    await store.close()
    reopened = await open_store()
    assert reopened.position >= told
    changes = reopened.changes(since=reopened.position)
    await reopened.write("z", "file", b"1")
    (change,) = await take(changes, 1)
    assert (change.kind, change.name) == ("write", "file")


# -- closing


async def test_close_behind_a_group_that_fails_ends(open_store: StoreOpener) -> None:
    """The order to stop is taken together with the group."""
    gate = FailingGate()
    store = await open_store(failpoint=gate)
    engine = engine_of(store)
    async with asyncio.TaskGroup() as group:
        async with gate.held(store):
            # The next commit is that of the held unit, the one after it is the last.
            gate.commit_to_fail = gate.hits["commit.before"] + 2
            writing = group.create_task(outcomes(store.append("z", "a", b"x")))
            while engine._waiting_units < 2:
                await turn()
            closing = group.create_task(store.close())
            while not engine._closed:
                await turn()
        try:
            async with asyncio.timeout(WAIT_S_MAX):
                await closing
        finally:
            engine._jobs.put(None)  # a writer that has missed its order ends all the same
    assert [type(outcome) for outcome in writing.result()] == [CommitUnknownError]
    assert not engine._thread.is_alive()
    reopened = await open_store()
    assert await reopened.zone("z") is None


async def test_close_that_was_cancelled_keeps_the_lock_until_the_store_is_closed(
    open_store: StoreOpener,
) -> None:
    gate = Gate()
    store = await open_store(failpoint=gate)
    engine = engine_of(store)

    async def unit(tx: Transaction) -> None:
        await tx.append("z", "a", b"accepted before the close\n")

    async with asyncio.TaskGroup() as group:
        writing = await gate.stop_next(store, group, unit)
        try:
            closing = group.create_task(store.close())
            while not engine._closed:
                await turn()
            closing.cancel()
            while not closing.done():
                await turn()
            assert closing.cancelled()
            with pytest.raises(LockedError):
                await open_store()
        finally:
            gate.let_go()
        await writing
    async with asyncio.timeout(WAIT_S_MAX):
        await store.close()
    assert not engine._thread.is_alive()
    assert not any(thread.is_alive() for thread in engine._readers._threads)
    second = await open_store()
    assert await second.read("z", "a") == b"accepted before the close\n"


# -- units that fail


async def test_unit_that_raises_stop_iteration_leaves_nobody_waiting(
    open_store: StoreOpener,
) -> None:
    """A future refuses that exception."""
    gate = Gate()
    store = await open_store(failpoint=gate)
    names: Iterator[str] = iter(())
    bad, good = await in_one_group(
        store,
        gate,
        later(lambda: store.transact(lambda tx: tx.delete_file("z", next(names)))),
        store.append("z", "a", b"x"),
    )
    assert isinstance(bad, RuntimeError)
    assert isinstance(good, Appended)


async def test_listener_that_raises_keeps_no_writer_from_its_answer(store: FileStore) -> None:
    """It breaks its promise, and is told of to the event loop; the writers have kept theirs."""

    class Raising:
        def on_changes(self, changes: Sequence[Change]) -> None:
            raise LookupError("mine")

        def on_loss(self, position: int) -> None: ...

        def on_close(self) -> None: ...

    told: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append(context.get("exception")))
    listener = Raising()
    store.feed.listen(listener)
    async with asyncio.timeout(WAIT_S_MAX):
        assert (await store.append_lines("z", "f", ["one"])).lines == 1
    store.feed.unlisten(listener)
    assert [type(error) for error in told] == [LookupError]


async def test_read_unit_that_raises_stop_iteration_is_answered(store: FileStore) -> None:
    names: Iterator[str] = iter(())
    (bad,) = await outcomes(later(lambda: store.view(lambda tx: tx.stat("z", next(names)))))
    assert isinstance(bad, RuntimeError)
    assert await store.stat("z", "a") is None


async def test_units_that_append_to_a_new_file_and_fail_leave_no_tail(store: FileStore) -> None:
    async def fails(tx: Transaction) -> None:
        await tx.append("z", "new", b"x")
        raise ValueError("on purpose")

    for _ in range(20):
        with pytest.raises(ValueError, match="on purpose"):
            await store.transact(fails)
    assert dict(engine_of(store)._tails) == {}


def test_reader_of_a_tail_keeps_its_view_while_an_append_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The writer takes its appends back in the middle of a reader's search."""
    tail = Tail(0)
    kept = [record(version) for version in range(1, 5)]
    for each in kept + [record(version) for version in range(5, 45)]:
        tail.append(each)
    left = 40

    def version_while_undone(found: Any) -> int:
        nonlocal left
        while left:
            left -= 1
            tail.undo_append()
        version: int = found.version
        return version

    monkeypatch.setattr("filestore.engine.log._version", version_while_undone)
    assert tail.between(0, 4) == kept
    assert left == 0
    assert tail.state == (0, kept)


# -- a store that has become read-only


async def test_tidy_of_a_store_that_became_read_only_ends(
    open_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_damage(_: SqliteEngine) -> None:
        raise CorruptionError("the database is damaged")

    monkeypatch.setattr(housekeeping, "RETRY_S", 0.01)
    monkeypatch.setattr(housekeeping, "RELEASE_DELAY_S", WAIT_S_MAX)
    monkeypatch.setattr(SqliteEngine, "_check_quickly", find_damage)
    gate = FailingGate()
    store = await open_store(failpoint=gate)
    await store.append("z", "a", b"kept")
    await store.tidy()
    gate.commit_to_fail = gate.hits["commit.before"] + 1
    with pytest.raises(CommitUnknownError):
        await store.append("z", "a", b"lost")
    assert store.trouble is not None
    async with asyncio.timeout(WAIT_S_MAX):
        await store.tidy()
        await store.tidy()
    assert await store.read("z", "a") == b"kept"


# -- the log and the WAL shrink again


class Unwalked(dict[Any, Any]):
    """A dict that may be looked into, but not walked over."""

    def refuse(self) -> Any:
        raise AssertionError("all rows of the log were walked over")

    __iter__ = keys = values = items = refuse


def test_release_beside_many_rows_without_records_looks_at_none_of_them() -> None:
    """One happens with every replaced value, on the writer, before that is acknowledged."""
    rows = LogRows()
    rows.add(1, 100, {7: 1})
    for seq in range(2, 1000):
        rows.add(seq, 12, {})
    rows.add(1000, 100, {7: 1000, 8: 999})
    rows._rows = Unwalked(rows._rows)
    rows.release(5, 1000)
    rows.release(7, 1)
    rows.release(8, 1000)
    free, _ = rows.droppable(2000)
    assert sorted(free) == list(range(1, 1000))


async def test_rows_without_records_are_trimmed_by_their_number(
    open_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their bytes alone, twelve each, there would be ninety thousand of them."""
    monkeypatch.setattr(writer_tx, "TRIM_ROWS", 10)
    store = await open_store()
    for number in range(35):
        await store.write("z", "state", b"%d" % number)
    assert 35 * len(encode(1, ())) < writer_tx.TRIM_BYTES_MIN
    await store.tidy()
    ((rows,),) = await store.read_unit(lambda tx: tx.fetch("SELECT count(*) FROM log"))
    assert rows <= 10


async def test_wal_that_grew_under_a_long_read_is_cut_to_its_bound(
    open_store: StoreOpener, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "TRUNCATE_WAIT_MS", 1)
    limits = Limits(wal_bytes_soft=65_536, wal_bytes_hard=262_144)
    store = await open_store(sync="normal", limits=limits)
    await store.write("z", "file", b"1")
    gate = ReadGate()
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(store.read_unit(gate.hold))
        try:
            await gate.reached()
            for number in range(20):
                await store.write("z", f"file {number % 10}", noise(60_000, number))
            await store.transact(do_nothing)  # so the last checkpoint is over, too
            assert size_of(wal_of(database)) > 2 * limits.wal_bytes_hard
        finally:
            gate.let_go()
        await reading
    for number in range(20):
        await store.write("z", f"file {number % 10}", noise(60_000, 100 + number))
    await store.transact(do_nothing)
    assert size_of(wal_of(database)) <= 2 * limits.wal_bytes_hard
