"""Opening read-only: beside any writer or none, sees what was acknowledged, leaves no trace."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from filestore import BusyError, FileStore, Limits, NotFoundError, ReadOnlyError
from tests.conftest import StoreOpener
from tests.contract.tools import (
    collect,
    content_of,
    do_nothing,
    exists,
    footprint,
    make_folder,
    mode_of,
    names_in,
    noise,
    size_of,
    stream,
    wal_of,
)
from tests.support.child import Child
from tests.support.child_model import append, assert_clean, dump, tidy, write

MIB = 1 << 20

WRITES: dict[str, Callable[[FileStore], Awaitable[object]]] = {
    "write": lambda store: store.write("z", "f", b"x"),
    "write of equal bytes": lambda store: store.write("z", "f", b"there"),
    "append": lambda store: store.append("z", "f", b"x"),
    "append of nothing": lambda store: store.append("z", "f", b""),
    "append_lines": lambda store: store.append_lines("z", "f", ["x"]),
    "set_meta": lambda store: store.set_meta("z", "f", {"a": 1}),
    "delete_file": lambda store: store.delete_file("z", "f"),
    "delete_zone": lambda store: store.delete_zone("z"),
    "move_zone": lambda store: store.move_zone("z", "y"),
    "copy_zone": lambda store: store.copy_zone("z", "y"),
    "transact": lambda store: store.transact(do_nothing),
}


@pytest.mark.parametrize("operation", WRITES)
async def test_read_only_refuses_every_write(open_store: StoreOpener, operation: str) -> None:
    store = await open_store()
    await store.write("z", "f", b"there")
    await store.close()
    reader = await open_store(read_only=True)
    assert reader.trouble is not None
    with pytest.raises(ReadOnlyError):
        await WRITES[operation](reader)
    assert await reader.read("z", "f") == b"there"


@pytest.mark.parametrize("is_folder", [False, True], ids=["no folder", "no database"])
async def test_read_only_of_missing_store_raises_and_makes_nothing(
    data_dir: Path, is_folder: bool
) -> None:
    if is_folder:
        make_folder(data_dir, 0o755)
    with pytest.raises(NotFoundError) as caught:
        await FileStore.open(data_dir, read_only=True)
    assert caught.value.hint
    assert exists(data_dir) == is_folder
    if is_folder:
        assert names_in(data_dir) == []


async def test_read_only_of_closed_store_sees_all_and_leaves_no_trace(
    open_store: StoreOpener, data_dir: Path
) -> None:
    store = await open_store(limits=Limits(seal_bytes=4096))
    await store.write("z", "f", noise(200_000))
    await store.append("z", "log", noise(10_000))
    await store.tidy()
    await store.append_lines("z", "log", ["tail"])
    await store.set_meta("z", None, {"a": 1})
    wanted, position = await dump(store), store.position
    await store.close()
    before, names = footprint(data_dir), names_in(data_dir)
    reader = await open_store(read_only=True)
    assert await dump(reader) == wanted
    assert reader.position == position
    await assert_clean(reader)
    await reader.tidy()
    assert names_in(data_dir) == names
    await reader.close()
    assert footprint(data_dir) == before
    assert names_in(data_dir) == names


async def test_read_only_keeps_a_wider_folder_as_it_is(
    open_store: StoreOpener, data_dir: Path
) -> None:
    await (await open_store()).close()
    os.chmod(data_dir, 0o755)
    await open_store(read_only=True)
    assert mode_of(data_dir) == 0o755


async def test_read_only_beside_a_writer_leaves_no_new_files(
    open_store: StoreOpener, data_dir: Path
) -> None:
    store = await open_store()
    await store.write("z", "f", b"x")
    names = names_in(data_dir)
    reader = await open_store(read_only=True)
    await dump(reader)
    assert names_in(data_dir) == names
    await reader.close()
    assert names_in(data_dir) == names


@pytest.mark.parametrize("when", ["before the writer", "before any write", "after a write"])
async def test_read_only_sees_every_write_once_it_is_acknowledged(
    open_store: StoreOpener, when: str
) -> None:
    """Whenever it was opened: also on a store at rest to which a writer came later."""
    limits = Limits(seal_bytes=3000, wal_bytes_soft=100_000)
    await (await open_store()).close()
    reader = await open_store(read_only=True) if when == "before the writer" else None
    if reader is not None:
        assert (await reader.zones()).zones == []
    store = await open_store(limits=limits)
    if when == "after a write":
        await store.write("z", "first", b"x")
    reader = reader or await open_store(read_only=True)
    wanted = b""
    for number in range(60):
        info = await store.write("z", "state", noise(30_000, number))
        assert await reader.read("z", "state") == noise(30_000, number)
        assert await reader.stat("z", "state") == info
        done = await store.append_lines("z", "log", [f"{number} " + "x" * 200])
        wanted += f"{number} {'x' * 200}\n".encode()
        assert await reader.read("z", "log") == wanted
        assert (await reader.read_lines("z", "log", number, 9)).total == done.first_line + 1
        assert reader.position >= done.version
        if number % 20 == 10:
            await store.tidy()
            assert await reader.read("z", "log") == wanted
    await store.delete_zone("z")
    assert await reader.zone("z") is None


async def test_read_only_of_closed_store_follows_writers_that_come_and_go(
    open_store: StoreOpener,
) -> None:
    """Each writer checkpoints and closes, so the file changes under the reader without a WAL."""
    store = await open_store()
    await store.write("z", "f", noise(100_000))
    await store.close()
    reader = await open_store(read_only=True)
    for number in range(5):
        store = await open_store()
        await store.write("z", "f", noise(100_000, number))
        await store.append("z", "log", b"%d" % number)
        await store.close()
        assert await reader.read("z", "f") == noise(100_000, number)
        assert await reader.read("z", "log") == b"01234"[: number + 1]


async def test_read_only_beside_another_process_sees_unsealed_appends(
    open_store: StoreOpener, data_dir: Path
) -> None:
    with Child(data_dir, {"limits": {"seal_bytes": 2000}}) as child:
        assert "ok" in child.opened()
        child.call(append("z", "log", b"first\n"))
        reader = await open_store(read_only=True)
        wanted = b"first\n"
        for number in range(50):
            line = b"%d " % number + b"x" * 100 + b"\n"
            assert "ok" in child.call(append("z", "log", line))
            wanted += line
            assert await reader.read("z", "log") == wanted
            if number % 20 == 19:
                child.call(tidy())
                child.call(write("z", "state", noise(50_000, number)))
                assert await reader.read("z", "state") == noise(50_000, number)
                assert await reader.read("z", "log") == wanted
        await assert_clean(reader)
        assert "ok" in child.finish()
        assert await reader.read("z", "log") == wanted


async def test_read_only_after_writer_was_killed_sees_all_it_acknowledged(
    open_store: StoreOpener, data_dir: Path
) -> None:
    """Nobody has recovered the store yet; the WAL is still there and stays there."""
    with Child(data_dir) as child:
        assert "ok" in child.opened()
        for number in range(20):
            child.call(append("z", "log", b"%d\n" % number))
        child.kill()
        child.reap()
    wal = content_of(data_dir / "zoned.db-wal")
    assert wal
    reader = await open_store(read_only=True)
    assert await reader.read("z", "log") == b"".join(b"%d\n" % number for number in range(20))
    await reader.close()
    assert content_of(data_dir / "zoned.db-wal") == wal


async def test_read_only_stream_beside_a_writer_gives_old_content_or_says_so(
    open_store: StoreOpener,
) -> None:
    """Its lease is not known to the writer: the stream may end early, but never in other bytes."""
    store = await open_store()
    old = noise(4 * MIB)
    await store.write("z", "f", old)
    reader = await open_store(read_only=True)
    async with stream(reader, "z", "f") as pieces:
        seen = await anext(pieces)
        await store.write("z", "f", noise(4 * MIB, 1))
        await store.tidy()
        try:
            async for piece in pieces:
                seen += piece
        except BusyError:
            assert old.startswith(seen)
        else:
            assert seen == old
    assert await collect(reader, "z", "f") == noise(4 * MIB, 1)


async def test_read_only_reads_beside_busy_writer_are_never_mixed(open_store: StoreOpener) -> None:
    store = await open_store(
        limits=Limits(seal_bytes=2000, wal_bytes_soft=200_000, wal_bytes_hard=400_000)
    )
    contents = [noise(200_000, seed) for seed in range(3)]
    await store.write("z", "f", contents[0])
    reader = await open_store(read_only=True)
    is_done = False

    async def look() -> None:
        size = 0
        while not is_done:
            assert await reader.read("z", "f") in contents
            log = await reader.read("z", "log") if await reader.stat("z", "log") else b""
            assert log == b"line\n" * (len(log) // 5)
            assert len(log) >= size
            size = len(log)

    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(look())
        for number in range(60):
            await store.write("z", "f", contents[number % 3])
            await store.append_lines("z", "log", ["line"] * 30)
        is_done = True


async def test_read_only_does_not_keep_the_wal_from_shrinking(
    open_store: StoreOpener, database: Path
) -> None:
    """It holds no transaction open between reads."""
    store = await open_store(
        sync="normal", limits=Limits(wal_bytes_soft=256 << 10, wal_bytes_hard=MIB)
    )
    await store.write("z", "f", b"x")
    reader = await open_store(read_only=True)
    sizes = []
    for seed in range(40):
        await store.write("z", "f", noise(200_000, seed))
        assert await reader.read("z", "f", 0, 10) == noise(200_000, seed)[:10]
        sizes.append(size_of(wal_of(database)))
    assert max(sizes) < 4 * MIB


async def test_read_only_closed_twice_is_harmless(open_store: StoreOpener) -> None:
    await (await open_store()).close()
    reader = await open_store(read_only=True)
    await reader.close()
    await reader.close()


async def test_read_only_changes_never_come_but_end_at_close(open_store: StoreOpener) -> None:
    """It follows the file, not its writer; who waits is let go when it is closed."""
    store = await open_store()
    reader = await open_store(read_only=True)
    changes = reader.changes()
    await store.write("z", "f", b"x")
    await reader.close()
    assert [change async for change in changes] == []
