"""Reads beside a writer, in this process and read-only: what was acknowledged before a read began
is in what it gives, whatever is sealed, forgotten or trimmed meanwhile."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from filestore import BackendError, FileStore, Limits, Transaction
from filestore import check as check_module
from filestore.check import check
from filestore.engine import driver, writer, writer_tx
from filestore.engine.base import ReadTx
from filestore.engine.log import Tails
from filestore.engine.read_only import ReadOnlySqliteEngine
from filestore.reading import ReadTransaction
from tests.conftest import StoreOpener
from tests.contract.tools import WAIT_S_MAX

ONE_READER = Limits(readers=1)


class Stop:
    """Holds the first thread that comes by, once."""

    def __init__(self) -> None:
        self._is_used = False
        self._reached = threading.Event()
        self._opened = threading.Event()

    def __call__(self) -> None:
        if not self._is_used:
            self._is_used = True
            self._reached.set()
            assert self._opened.wait(WAIT_S_MAX)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, WAIT_S_MAX)

    def let_go(self) -> None:
        self._opened.set()


async def first_row(store: FileStore) -> int:
    """The number of the oldest row of the log."""
    ((seq,),) = await store.read_unit(lambda tx: tx.fetch("SELECT min(seq) FROM log"))
    found: int = seq
    return found


async def test_read_on_a_snapshot_whose_tail_was_forgotten_and_begun_anew_is_whole(
    open_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "EMPTY_TAILS_MAX", 0)
    store = await open_store(limits=Limits(seal_bytes=1000))
    first = b"acknowledged " * 20
    await store.append("z", "a", first)
    await store.tidy()
    stop = Stop()

    async def read_slowly(tx: ReadTx) -> bytes:
        stop()
        return await ReadTransaction(tx).read("z", "a")

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(store.read_unit(read_slowly))
        try:
            await stop.reached()
            await store.append("z", "a", b"x" * 1000)
            await store.tidy()
            await store.append("z", "a", b"y")
        finally:
            stop.let_go()
    assert reading.result() == first + b"x" * 1000 + b"y"


@pytest.mark.parametrize("empty_tails_max", [0, 1024])
async def test_check_beside_a_stream_that_is_sealed_walks_once(
    open_store: StoreOpener, monkeypatch: pytest.MonkeyPatch, empty_tails_max: int
) -> None:
    """Sent back to its start by every seal, it would never end beside a busy stream."""
    monkeypatch.setattr(writer, "EMPTY_TAILS_MAX", empty_tails_max)
    store = await open_store(limits=Limits(seal_bytes=1000))
    await store.append("z", "busy", b"line\n" * 20)
    await store.tidy()
    walks = 0
    stop = Stop()
    walk, check_zone = check_module._walk, check_module._check_zone

    async def counted_walk(*arguments: Any) -> None:
        nonlocal walks
        walks += 1
        await walk(*arguments)

    async def slow_check_zone(*arguments: Any) -> None:
        stop()
        await check_zone(*arguments)

    monkeypatch.setattr(check_module, "_walk", counted_walk)
    monkeypatch.setattr(check_module, "_check_zone", slow_check_zone)
    async with asyncio.TaskGroup() as group:
        checking = group.create_task(check(store, deep=True))
        try:
            await stop.reached()
            await store.append("z", "busy", b"line\n" * 200)
            await store.tidy()
            await store.append("z", "busy", b"line\n")
        finally:
            stop.let_go()
    report = checking.result()
    assert walks == 1
    assert report.problems == []
    assert report.bytes == 100, "as it was when the check began"


async def test_read_only_store_keeps_appends_when_older_rows_are_trimmed(
    open_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row that holds them has a number greater than the versions in it."""
    monkeypatch.setattr(writer_tx, "TRIM_BYTES_MIN", 4096)
    store = await open_store(limits=Limits(seal_bytes=4096, log_bytes_soft=16_384))
    for _ in range(4):
        await store.append("z", "filler", b"x" * 1000)
    beside = await open_store(read_only=True, limits=ONE_READER)

    async def append_both(tx: Transaction) -> None:
        await tx.append("z", "a", b"acknowledged, not sealed")
        await tx.append("z", "b", b"b")

    await store.transact(append_both)
    assert await beside.read("z", "a") == b"acknowledged, not sealed"
    oldest = await first_row(store)
    await store.append("z", "filler", b"x" * 1000)
    await store.tidy()
    assert await first_row(store) > oldest, "rows were trimmed"
    await store.append("z", "b", b"b")
    assert await beside.read("z", "a") == b"acknowledged, not sealed"
    info = await beside.stat("z", "a")
    assert info is not None
    assert info.size == 24
    assert await beside.read("z", "b") == b"bb"
    assert await beside.read("z", "filler") == b"x" * 5000


async def test_read_only_store_takes_each_append_in_once_after_a_passing_error(
    open_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_store()
    await store.append("z", "a", b"line 0\n")
    beside = await open_store(read_only=True, limits=ONE_READER)
    assert await beside.read("z", "a") == b"line 0\n"
    for number in range(1, 5):
        await store.append("z", "a", b"line %d\n" % number)
    load = Tails.load
    loads = 0

    def load_but_once(tails: Tails, seq: int, row: bytes | None) -> dict[int, int] | None:
        nonlocal loads
        loads += 1
        if loads == 3:
            raise driver.Error("disk I/O error")
        return load(tails, seq, row)

    monkeypatch.setattr(Tails, "load", load_but_once)
    with pytest.raises(BackendError):
        await beside.read("z", "a")
    whole = b"".join(b"line %d\n" % number for number in range(5))
    assert await beside.read("z", "a") == whole
    assert await beside.read("z", "a") == whole
    assert loads == 5, "the two rows before the error, that one again, and the last"


async def test_read_only_store_forgets_what_was_sealed(
    open_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds no more than the log and a bound, however long it lives."""
    monkeypatch.setattr("filestore.engine.read_only.VIEW_BYTES_MIN", 4096)
    monkeypatch.setattr(writer_tx, "TRIM_BYTES_MIN", 4096)
    limits = Limits(seal_bytes=1000, log_bytes_soft=8192)
    store = await open_store(limits=limits)
    beside = await open_store(read_only=True, limits=ONE_READER)
    engine = beside._engine
    assert isinstance(engine, ReadOnlySqliteEngine)
    for number in range(60):
        await store.append("z", f"stream {number}", b"x" * 1000)
        await store.tidy()
        await beside.zones()
        (view,) = engine._views.values()
        held = sum(tail.bytes for tail in view._tails.values())
        assert held <= 4096 + 2 * (limits.log_bytes_soft + 4096)


async def test_log_that_goes_while_it_is_looked_at_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who closes the database takes its log away, perhaps at this very moment."""
    async with await FileStore.open(tmp_path) as store:
        await store.write("z", "f", b"x")
    log, look = tmp_path / "zoned.db-wal", Path.lstat
    log.touch()

    def gone(path: Path) -> os.stat_result:
        if path == log:
            log.unlink()
        return look(path)

    monkeypatch.setattr(Path, "lstat", gone)
    async with await FileStore.open(tmp_path, read_only=True) as reader:
        assert await reader.read("z", "f") == b"x"
    assert not log.exists()
