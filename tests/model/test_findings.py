"""What the random tests of this folder have found, each cut down to the few steps that show it."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from filestore import (
    FileInfo,
    FileStore,
    InvalidArgumentError,
    Limits,
    Transaction,
    housekeeping,
    sealing,
)
from filestore.engine import writer
from filestore.engine.base import ReadTx
from filestore.reading import ReadTransaction
from tests.support.child_model import assert_clean, lines_of

STEP_S_MAX = 10.0
"""What takes longer hangs."""


@asynccontextmanager
async def opened(folder: Path, **limits: Any) -> AsyncIterator[FileStore]:
    """A store that is checked and closed at the end, neither of which may hang."""
    store = await FileStore.open(folder, limits=Limits(**limits))
    try:
        yield store
        async with asyncio.timeout(STEP_S_MAX):
            await store.tidy()
            await assert_clean(store)
    finally:
        await close(store)


async def close(store: FileStore) -> None:
    async with asyncio.timeout(STEP_S_MAX) as limit:
        await store.close()
    assert not limit.expired(), "closing hung, and hid that it was cancelled"


@pytest.mark.parametrize("seal_bytes", [1, 2, 1000])
@pytest.mark.parametrize(
    "parts",
    [
        [b"\xe2\x80", b"\xa8\n"],
        [b"\xe2", b"\x80", b"\xa8", b"\n"],
        [b" \xc2", b"\xa0", b"x\n"],
        [b"\xe3\x80", b"\x80", b"\xe3\x80"],
        [b"\xe3\x80", b"x\n", b"\xc2", b"\x85\n", b"last"],
    ],
)
async def test_white_space_cut_in_two_is_counted_as_what_it_becomes(
    tmp_path: Path, parts: list[bytes], seal_bytes: int
) -> None:
    """Half a space is text as long as nothing follows, and may be blank later."""
    async with opened(tmp_path, seal_bytes=seal_bytes) as store:
        data = b""
        for part in parts:
            data += part
            await store.append("zone", "lines", part)
            info = await store.stat("zone", "lines")
            assert info is not None
            assert info.lines == len(lines_of(data))
            page = await store.read_lines("zone", "lines", 0, 100)
            assert (page.lines, page.total) == (lines_of(data), len(lines_of(data)))
        await store.tidy()
        page = await store.read_lines("zone", "lines", 0, 100)
        assert (page.lines, page.total) == (lines_of(data), len(lines_of(data)))


async def test_line_over_several_pages_of_the_list_is_read_whole(tmp_path: Path) -> None:
    data = b"".join(b"%09d" % number for number in range(1000)) + b"\nsecond\n"
    async with opened(tmp_path, seal_bytes=64) as store:
        await store.append("zone", "lines", data)
        await store.tidy()
        page = await store.read_lines("zone", "lines", 0, 1)
        assert page.lines == [data.split(b"\n")[0]]
        assert (await store.read_lines("zone", "lines", 1, 1)).lines == [b"second"]


@pytest.mark.parametrize(("first", "second"), [(1, True), (0, False), (1, 1.0), ([0], [False])])
async def test_meta_of_another_type_is_stored_though_python_calls_it_equal(
    tmp_path: Path, first: Any, second: Any
) -> None:
    async with opened(tmp_path) as store:
        await store.write("zone", "file", b"")
        await store.set_meta("zone", "file", {"key": first})
        answer = await store.set_meta("zone", "file", {"key": second})
        info = await store.stat("zone", "file")
        assert info is not None
        assert repr(info.meta["key"]) == repr(answer["key"]) == repr(second)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
async def test_meta_that_is_no_json_is_refused(tmp_path: Path, value: Any) -> None:
    """Written as null it would be a key whose value says that it is deleted."""
    async with opened(tmp_path) as store:
        await store.write("zone", "file", b"")
        with pytest.raises(InvalidArgumentError):
            await store.set_meta("zone", "file", {"key": value})
        info = await store.stat("zone", "file")
        assert info is not None
        assert info.meta == {}


async def test_acknowledged_append_stays_visible_while_it_is_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot from before a seal that made no new chunk, read after that has emptied the tail.

    Such a seal needs no number of its own, so the counter alone cannot tell the two states apart.
    """
    monkeypatch.setattr(writer, "EMPTY_TAILS_MAX", 0)
    may_seal, has_snapshot, may_read = threading.Event(), threading.Event(), threading.Event()
    may_seal.set()

    def cut_when_told(plan: Any, seal_bytes: int) -> Any:
        assert may_seal.wait(STEP_S_MAX)
        return sealing.cut_stream(plan, seal_bytes)

    async def stat_slowly(tx: ReadTx) -> FileInfo | None:
        has_snapshot.set()
        assert may_read.wait(STEP_S_MAX)
        return await ReadTransaction(tx).stat("zone", "second")

    monkeypatch.setattr(housekeeping, "cut_stream", cut_when_told)
    async with opened(tmp_path, seal_bytes=4, readers=2) as store:
        await store.append("zone", "first", b"same")
        await store.tidy()
        may_seal.clear()
        appended = await store.append("zone", "second", b"same")
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(store.read_unit(stat_slowly))
            assert await asyncio.to_thread(has_snapshot.wait, STEP_S_MAX)
            may_seal.set()
            await store.tidy()
            may_read.set()
        info = reading.result()
        assert info is not None
        assert (info.size, info.version) == (4, appended.version)


async def test_unit_that_appends_and_deletes_is_acknowledged_however_many_tails_are_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "EMPTY_TAILS_MAX", 0)

    async def unit(tx: Transaction) -> None:
        await tx.append("zone", "file", b"soon gone")
        await tx.delete_file("zone", "file")

    async with opened(tmp_path) as store:
        async with asyncio.timeout(STEP_S_MAX):
            await store.transact(unit)
        assert store.trouble is None
        assert await store.files("zone") == []


async def test_close_right_after_the_last_streaming_read_ends(tmp_path: Path) -> None:
    """The read's end wakes the background task in the moment in which closing cancels it."""
    store = await FileStore.open(tmp_path)
    await store.write("zone", "file", b"old")
    stream = store.open_read("zone", "file")
    assert await anext(stream) == b"old"
    await store.write("zone", "file", b"new")
    await store.tidy()
    assert [piece async for piece in stream] == []
    await close(store)


async def test_background_work_rests_when_the_log_is_a_little_over_its_bound(
    tmp_path: Path,
) -> None:
    """Over the soft bound, but by less than is worth trimming."""
    async with opened(tmp_path, log_bytes_soft=200_000) as store:
        for number in range(45):
            await store.append("zone", f"file {number}", bytes(5_000))
