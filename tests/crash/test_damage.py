"""One byte of the database flipped: a read gives the right bytes or an error of ours, never
anything else.

The bytes flipped are chosen ones (the count and header of log rows, one chunk, keys of rows);
flips.py goes over the whole file by chance. What a flip may do is hide a file (a damaged b-tree can
lose a row), which the check must then report; what it may never do is change bytes.
"""

import asyncio
import contextlib
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from filestore import CorruptionError, FileStore, Limits, NotFoundError, StoreError
from filestore.check import check
from filestore.engine.schema import PAGE_BYTES
from filestore.sessions import Sessions

LIMITS = Limits(readers=1)
RNG = random.Random("damage")
FILES: dict[tuple[str, str], bytes] = {
    ("z", "random"): RNG.randbytes(90_000),
    ("z", "text"): b"".join(b'{"line": %d, "text": "compressible"}\n' % i for i in range(4000)),
    ("z", "small"): b"a few bytes",
    ("y", "stream"): RNG.randbytes(30_000),
    ("y", "tail"): b"appended and not sealed\n" * 40,
    ("y", "tail2"): RNG.randbytes(5_000),
    ("x", "empty"): b"",
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store with all kinds of pages."""
    folder = tmp_path_factory.mktemp("damage") / "data"
    asyncio.run(make(folder))
    return folder / "zoned.db"


async def make(folder: Path) -> None:
    store = await FileStore.open(folder, limits=Limits(seal_bytes=16384))
    for (zone, name), data in FILES.items():
        if name.startswith(("stream", "tail")):
            for start in range(0, len(data), 3000):
                await store.append(zone, name, data[start : start + 3000])
        else:
            await store.write(zone, name, data)
    await store.set_meta("z", "text", {"kind": "lines"})
    await store.write("z", "gone", RNG.randbytes(50_000))
    await store.delete_file("z", "gone")
    await store.tidy()
    await store.close()


def flipped(original: Path, folder: Path, at: int, mask: int) -> Path:
    """A copy of the store with one byte changed."""
    folder.mkdir(exist_ok=True)
    shutil.copyfile(original, folder / "zoned.db")
    with (folder / "zoned.db").open("r+b") as file:
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ mask]))
    return folder


async def read_all(store: FileStore, place: str) -> dict[tuple[str, str], StoreError]:
    """Read every file whole; bytes that come must be right. Returns what could not be read."""
    failed: dict[tuple[str, str], StoreError] = {}
    for (zone, name), data in FILES.items():
        try:
            found = await store.read(zone, name)
        except StoreError as error:
            failed[zone, name] = error
        except Exception as error:
            raise AssertionError(f"{place}: reading raised {error!r}, which is not ours") from error
        else:
            assert found == data, (
                f"{place}: wrong bytes from {zone}/{name}, {len(found)} instead of {len(data)}"
            )
    return failed


async def examine(folder: Path, place: str) -> str:
    """Open, read and check a damaged copy. Returns what became of it."""
    try:
        store = await FileStore.open(folder, limits=LIMITS)
    except StoreError:
        return "refused"
    except Exception as error:
        raise AssertionError(f"{place}: opening raised {error!r}, which is not ours") from error
    try:
        failed = await read_all(store, place)
        if not failed:
            return "harmless"
        try:
            report = await check(store, deep=True)
        except Exception as error:
            raise AssertionError(f"{place}: the check raised {error!r}") from error
        assert not report.is_clean, f"{place}: {failed} but the check is clean"
        hidden = any(isinstance(error, NotFoundError) for error in failed.values())
        return "hidden" if hidden else "told"
    finally:
        await close(store, place)


async def close(store: FileStore, place: str) -> None:
    try:
        await asyncio.wait_for(store.close(), 10.0)
    except StoreError:
        pass
    except Exception as error:
        raise AssertionError(f"{place}: closing raised {error!r}, which is not ours") from error


async def test_flipped_byte_of_chunk_is_told_with_its_place(original: Path, tmp_path: Path) -> None:
    """And only that chunk: every other file, and the rest of this one, stay readable."""
    data = FILES["z", "random"]
    stored = original.read_bytes()
    middle = len(data) // 2
    # A page holds a stretch of the chunk as it is, because random bytes are not compressed.
    at = stored.find(data[middle : middle + 64])
    assert at > 0
    folder = flipped(original, tmp_path / "copy", at + 10, 0x40)
    store = await FileStore.open(folder, limits=LIMITS)
    try:
        failed = await read_all(store, "chunk")
        assert list(failed) == [("z", "random")]
        error = failed["z", "random"]
        assert isinstance(error, CorruptionError)
        assert (error.zone, error.name) == ("z", "random")
        assert error.offset is not None
        # The offset is the start of a chunk of at most 64 KiB around the flipped byte.
        assert error.offset <= middle + 10 < error.offset + (64 << 10)
        assert await store.read("z", "random", 0, error.offset) == data[: error.offset]
        with pytest.raises(CorruptionError):
            await store.read("z", "random", error.offset, 1)
        report = await check(store, deep=True)
        assert [(p.zone, p.name, p.offset) for p in report.problems] == [
            ("z", "random", error.offset)
        ]
        assert (await check(store)).is_clean, "only the deep check reads bytes"
    finally:
        await store.close()


async def log_rows(original: Path) -> list[tuple[int, bytes]]:
    store = await FileStore.open(original.parent, read_only=True)
    try:
        rows: list[tuple[int, bytes]] = await store.read_unit(
            lambda tx: tx.fetch("SELECT seq, data FROM log WHERE length(data) > 4")
        )
        return rows
    finally:
        await store.close()


async def test_flipped_bit_in_any_byte_of_log_row_head_never_gives_wrong_bytes(
    original: Path, tmp_path: Path
) -> None:
    """Count, header and checks of a row that holds an unsealed tail, and its row id before them."""
    stored = original.read_bytes()
    rows = [(seq, data) for seq, data in await log_rows(original) if b"not sealed" in data]
    assert rows, "one tail is not sealed"
    seq, data = rows[-1]
    start = stored.find(data[:80])
    assert start > 0
    wrong = []
    # The record's own head stands before the data: payload length, row id, column types.
    for at in range(start - 8, start + 84):
        for mask in (0x01, 0x80):
            folder = flipped(original, tmp_path / "copy", at, mask)
            try:
                await examine(folder, f"log row {seq}, byte {at - start} ^ {mask:#x}")
            except AssertionError as error:
                wrong.append(str(error))
            shutil.rmtree(folder)
    assert wrong == []


def page_of(database: Path, name: str) -> tuple[int, int]:
    """Where the only page of a table or index starts, and how many rows it has."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?immutable=1", uri=True)) as found:
        ((page,),) = found.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,))
    start = (page - 1) * PAGE_BYTES
    head = database.read_bytes()[start : start + 5]
    assert head[0] in (10, 13), "a leaf"
    return start, int.from_bytes(head[3:5], "big")


def put_bytes(database: Path, at: int, data: bytes) -> None:
    with database.open("r+b") as file:
        file.seek(at)
        file.write(data)


async def three_sessions(folder: Path) -> Path:
    async with await FileStore.open(folder) as store, Sessions(store) as sessions:
        for agent in ("a", "b", "c"):
            await sessions.append_output(agent, "line")
            await sessions.archive(agent)
    return folder / "zoned.db"


async def test_check_of_rows_out_of_order_ends_and_tells(tmp_path: Path) -> None:
    """A flipped bit in the key of the last row; who reads on from there reads the same for ever."""
    database = await three_sessions(tmp_path)
    start, count = page_of(database, "session")
    stored = database.read_bytes()[start : start + PAGE_BYTES]
    cell = int.from_bytes(stored[8 + 2 * (count - 1) :][:2], "big")
    key = cell + 2 if stored[cell] & 0x80 else cell + 1  # behind the length of the payload
    put_bytes(database, start + key, b"\x01")
    store = await FileStore.open(tmp_path, limits=LIMITS)
    try:
        report = await check(store)
        assert "rows of a table are out of order" in [p.message for p in report.problems]
    finally:
        await store.close()


async def test_row_that_an_index_has_lost_is_found_by_deep_check(tmp_path: Path) -> None:
    """Nobody who looks by another way misses anything."""
    database = await three_sessions(tmp_path)
    start, count = page_of(database, "session_archived")
    put_bytes(database, start + 3, (count - 1).to_bytes(2, "big"))
    async with await FileStore.open(tmp_path, limits=LIMITS) as store, Sessions(store) as sessions:
        assert [len(await sessions.list_archives(agent)) for agent in "abc"] == [1, 1, 0]
        report = await check(store, deep=True)
        assert any("session_archived" in problem.message for problem in report.problems)


async def test_wrong_bytes_are_noticed(original: Path, tmp_path: Path) -> None:
    """The control: a store whose file holds other bytes than expected fails the same look."""
    shutil.copytree(original.parent, tmp_path / "copy")
    store = await FileStore.open(tmp_path / "copy", limits=LIMITS)
    try:
        await store.write("z", "small", b"a few bytez")
        with pytest.raises(AssertionError, match="wrong bytes from z/small"):
            await read_all(store, "control")
    finally:
        await store.close()


@pytest.mark.parametrize(("name", "more"), [("again", b""), ("random", b""), ("random", b"more")])
@pytest.mark.parametrize("is_told_by_check", [False, True])
async def test_write_of_the_bytes_of_a_damaged_chunk_mends_it(
    original: Path, tmp_path: Path, name: str, more: bytes, is_told_by_check: bool
) -> None:
    """An acknowledged write must not lean on bytes that are lost: not on those of another file,
    and, once the damage was met, not on those that the file itself has."""
    data = FILES["z", "random"]
    middle = len(data) // 2
    at = original.read_bytes().find(data[middle : middle + 64])
    store = await FileStore.open(flipped(original, tmp_path / "copy", at, 0x40), limits=LIMITS)
    try:
        if is_told_by_check:
            assert not (await check(store, deep=True)).is_clean
        else:
            with pytest.raises(CorruptionError):
                await store.read("z", "random")
        assert not (await store.write("z", name, data + more)).unchanged
        assert await store.read("z", name) == data + more
        assert (await store.read("z", "random"))[: len(data)] == data
        assert (await check(store, deep=True)).is_clean
    finally:
        await store.close()
