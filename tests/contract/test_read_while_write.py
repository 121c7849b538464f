"""Reads beside writes: one committed state each, old content to its end, and a WAL kept small."""

import asyncio
from pathlib import Path

import pytest

from filestore import BusyError, FileStore, Limits
from tests.conftest import StoreOpener
from tests.contract.tools import WAIT_S_MAX, noise, query, rest_of, size_of, stream, wal_of

MIB = 1 << 20


async def test_read_beside_replacing_never_mixes_two_contents(store: FileStore) -> None:
    """Large files of many chunks, equal sizes, different bytes all over."""
    contents = [noise(400_000, seed) for seed in range(4)]
    await store.write("z", "f", contents[0])
    is_done = False

    async def look(is_streamed: bool) -> set[int]:
        seen = set()
        while not is_done:
            if is_streamed:
                data = await rest_of(store.open_read("z", "f"))
            else:
                data = await store.read("z", "f")
            assert data in contents
            seen.add(contents.index(data))
        return seen

    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(look(is_streamed)) for is_streamed in (True, False, False)]
        for number in range(40):
            await store.write("z", "f", contents[number % 4])
        is_done = True
    assert all(watcher.result() for watcher in watchers)


async def test_read_beside_appending_and_sealing_sees_a_prefix_that_grows(
    open_store: StoreOpener,
) -> None:
    store = await open_store(limits=Limits(seal_bytes=500))
    lines = [b"%05d %s" % (number, b"x" * (number % 60)) for number in range(400)]
    whole = b"".join(line + b"\n" for line in lines)
    await store.append("z", "f", b"")
    is_done = False

    async def look() -> None:
        size = total = 0
        while not is_done:
            data = await store.read("z", "f")
            assert whole.startswith(data)
            assert len(data) >= size
            size = len(data)
            page = await store.read_lines("z", "f", max(0, total - 3), 1000)
            assert page.total >= total
            total = page.total
            assert page.lines == lines[total - len(page.lines) : total]
            info = await store.stat("z", "f")
            assert info is not None
            assert len(b"".join(line + b"\n" for line in lines[: info.lines])) == info.size

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(look())
        for line in lines:
            await store.append_lines("z", "f", [line])
        is_done = True
    await store.tidy()
    assert await store.read("z", "f") == whole


async def test_read_after_write_returned_sees_it(store: FileStore) -> None:
    """From any task: there is no reader that lags behind an acknowledgement."""

    async def work(name: str) -> None:
        for number in range(40):
            data = b"%d" % number
            await store.write("z", name, data)
            assert await store.read("z", name) == data
            await store.append("z", name, b"+")
            assert await store.read("z", name) == data + b"+"

    async with asyncio.TaskGroup() as group:
        for name in "abcdef":
            group.create_task(work(name))


async def test_stream_begun_before_replace_gives_the_old_content(store: FileStore) -> None:
    old = noise(4 * MIB)
    await store.write("z", "f", old)
    async with stream(store, "z", "f") as pieces:
        first = await anext(pieces)
        await store.write("z", "f", b"new")
        await store.tidy()
        assert first + await rest_of(pieces) == old
    assert await store.read("z", "f") == b"new"


async def test_stream_begun_before_delete_gives_the_old_content(store: FileStore) -> None:
    old = noise(4 * MIB)
    await store.write("z", "f", old)
    async with stream(store, "z", "f") as pieces:
        first = await anext(pieces)
        assert await store.delete_file("z", "f")
        await store.tidy()
        assert await store.delete_zone("z")
        await store.tidy()
        assert first + await rest_of(pieces) == old
    assert await store.zone("z") is None


async def test_stream_begun_before_append_and_sealing_ends_where_the_file_ended(
    open_store: StoreOpener,
) -> None:
    """Sealing joins small chunks into larger ones, so it too makes some unused."""
    store = await open_store(limits=Limits(seal_bytes=MIB, log_bytes_soft=1))
    old = b""
    for seed in range(8):
        old += noise(300_000, seed)
        await store.append("z", "f", noise(300_000, seed))
        await store.tidy()
    await store.append("z", "f", b"tail")
    async with stream(store, "z", "f") as pieces:
        first = await anext(pieces)
        for seed in range(5):
            await store.append("z", "f", noise(200_000, seed))
            await store.tidy()
        assert first + await rest_of(pieces) == old + b"tail"


async def test_stream_begun_before_move_goes_on(store: FileStore) -> None:
    old = noise(3 * MIB)
    await store.write("z", "f", old)
    async with stream(store, "z", "f") as pieces:
        first = await anext(pieces)
        await store.move_zone("z", "y")
        assert first + await rest_of(pieces) == old


async def test_stream_that_ends_lets_the_deleted_content_go(
    open_store: StoreOpener, database: Path
) -> None:
    store = await open_store()
    await store.write("z", "f", noise(3 * MIB))
    async with stream(store, "z", "f") as pieces:
        await anext(pieces)
        await store.delete_file("z", "f")
        await store.tidy()
    await store.tidy()
    await store.close()
    assert query(database, "SELECT count(*) FROM chunk") == [(0,)]


async def test_stream_of_content_that_came_back_meanwhile_is_kept_to_its_end(
    open_store: StoreOpener,
) -> None:
    """The same chunks become unused, used and unused again while an older stream goes on.

    They were marked for release before the younger stream began; when the older one ends, the
    younger still needs them.
    """
    store = await open_store(limits=Limits(seal_bytes=MIB))
    parts = [noise(MIB, seed) for seed in range(4)]

    async def come() -> None:
        for part in parts:
            await store.append("z", "f", part)
        await store.tidy()

    async def go() -> None:
        await store.delete_file("z", "f")
        await store.tidy()

    await store.write("z", "long", noise(3 * MIB, 9))
    await come()
    async with stream(store, "z", "long") as older:
        await anext(older)
        await go()
        await come()
        async with stream(store, "z", "f") as younger:
            first = await anext(younger)
            await go()
            await rest_of(older)
            await store.tidy()
            assert first + await rest_of(younger) == b"".join(parts)


async def test_stream_left_open_for_too_long_is_told_when_its_content_is_gone(
    open_store: StoreOpener,
) -> None:
    """It cannot keep deleted content for ever; and what it then misses is not called damage."""
    store = await open_store(limits=Limits(lease_s=0.0))
    await store.write("z", "f", noise(4 * MIB))
    async with stream(store, "z", "f") as pieces:
        await anext(pieces)
        await store.delete_file("z", "f")
        await store.tidy()
        with pytest.raises(BusyError):
            await rest_of(pieces)


async def test_stream_left_open_does_not_let_the_wal_grow(
    open_store: StoreOpener, database: Path
) -> None:
    """Writers go on beside a stream, and the log of the database is folded back all the time."""
    store = await open_store(
        sync="normal", limits=Limits(wal_bytes_soft=256 << 10, wal_bytes_hard=MIB)
    )
    old = noise(4 * MIB)
    await store.write("z", "f", old)
    async with stream(store, "z", "f") as pieces:
        first = await anext(pieces)
        sizes = []
        for seed in range(60):
            await store.write("z", f"g{seed % 5}", noise(200_000, seed))
            await store.append("z", "log", noise(20_000, seed))
            sizes.append(size_of(wal_of(database)))
        assert first + await rest_of(pieces) == old
    assert max(sizes) < 8 * MIB, "12 MiB were written, after one write of 4 MiB"


async def test_many_streams_at_once_are_all_right(store: FileStore) -> None:
    """Each gives its file as it was when the stream began, whatever is appended since."""
    contents = {f"f{seed}": noise(1_500_000, seed) for seed in range(8)}
    for name, data in contents.items():
        await store.write("z", name, data)
    begun = asyncio.Barrier(3 * len(contents) + 1)

    async def check_stream(name: str) -> None:
        async with stream(store, "z", name) as pieces:
            first = await anext(pieces)
            await begun.wait()
            assert first + await rest_of(pieces) == contents[name]

    async with asyncio.timeout(WAIT_S_MAX), asyncio.TaskGroup() as group:
        for name in contents:
            for _ in range(3):
                group.create_task(check_stream(name))
        await begun.wait()
        for name in contents:
            await store.append("z", name, b"more")
