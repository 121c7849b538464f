"""`read`, `open_read` and `digest`: any range, any make-up of the file, little memory."""

import tracemalloc
from pathlib import Path

import pytest
from blake3 import blake3

from filestore import FileStore, InvalidArgumentError, Limits, NotFoundError
from tests.conftest import StoreOpener
from tests.contract.tools import collect, noise, query, stream

MIB = 1 << 20


async def make_mixed(store: FileStore) -> bytes:
    """A file of written chunks, sealed chunks and a tail."""
    data = noise(60_000)
    await store.write("z", "f", data)
    for seed in range(1, 12):
        part = noise(1000, seed)
        await store.append("z", "f", part)
        data += part
    await store.tidy()
    for seed in range(20, 23):
        part = noise(100, seed)
        await store.append("z", "f", part)
        data += part
    return data


async def test_read_of_whole_file_gives_all_bytes(open_store: StoreOpener) -> None:
    store = await open_store(limits=Limits(seal_bytes=4096))
    data = await make_mixed(store)
    assert await store.read("z", "f") == data


async def test_read_of_any_range_equals_the_slice(open_store: StoreOpener) -> None:
    """Ranges around every boundary: between chunks, into the tail, over the end."""
    store = await open_store(limits=Limits(seal_bytes=4096))
    data = await make_mixed(store)
    size = len(data)
    marks = [0, 1, 4096, 16_384, 59_999, 60_000, 60_001, 64_096, size - 301, size - 300]
    marks += [size - 299, size - 100, size - 1, size, size + 1, size + 5000]
    for start in marks:
        assert await store.read("z", "f", start) == data[start:], start
        for stop in marks:
            length = max(0, stop - start)
            wanted = data[start : start + length]
            assert await store.read("z", "f", start, length) == wanted, (start, length)


async def test_open_read_of_any_range_equals_the_slice(open_store: StoreOpener) -> None:
    store = await open_store(limits=Limits(seal_bytes=4096))
    data = await make_mixed(store)
    size = len(data)
    for start in (0, 1, 20_000, 60_000, 61_500, size - 301, size - 150, size - 1, size, size + 9):
        assert await collect(store, "z", "f", start) == data[start:], start
        for length in (0, 1, 150, 10_000, size, 2 * size):
            wanted = data[start : start + length]
            assert await collect(store, "z", "f", start, length) == wanted, (start, length)


@pytest.mark.parametrize("offset", [5, 6, 1000, 1 << 40, 1 << 63, 1 << 80])
async def test_read_beyond_the_end_gives_nothing(store: FileStore, offset: int) -> None:
    await store.write("z", "f", b"12345")
    assert await store.read("z", "f", offset) == b""
    assert await store.read("z", "f", offset, 10) == b""
    assert await collect(store, "z", "f", offset) == b""


async def test_read_with_length_beyond_the_end_gives_what_is_there(store: FileStore) -> None:
    await store.write("z", "f", b"12345")
    assert await store.read("z", "f", 3, 1 << 80) == b"45"


async def test_read_of_zero_length_gives_nothing(store: FileStore) -> None:
    await store.write("z", "f", b"12345")
    assert await store.read("z", "f", 2, 0) == b""
    assert [piece async for piece in store.open_read("z", "f", 2, 0)] == []


async def test_open_read_of_empty_file_gives_no_pieces(store: FileStore) -> None:
    await store.write("z", "f", b"")
    assert [piece async for piece in store.open_read("z", "f")] == []


@pytest.mark.parametrize(("offset", "length"), [(-1, None), (0, -1), (-5, -5), (-1, 1)])
async def test_read_of_negative_range_raises(
    store: FileStore, offset: int, length: int | None
) -> None:
    await store.write("z", "f", b"12345")
    with pytest.raises(InvalidArgumentError):
        await store.read("z", "f", offset, length)
    with pytest.raises(InvalidArgumentError):
        await anext(aiter(store.open_read("z", "f", offset, length)))


@pytest.mark.parametrize(("zone", "name"), [("z", "missing"), ("missing", "f")])
async def test_read_of_missing_file_raises_with_its_place(
    store: FileStore, zone: str, name: str
) -> None:
    await store.write("z", "f", b"x")
    with pytest.raises(NotFoundError) as caught:
        await store.read(zone, name)
    assert (caught.value.zone, caught.value.name) == (zone, name)
    with pytest.raises(NotFoundError):
        await anext(aiter(store.open_read(zone, name)))
    with pytest.raises(NotFoundError):
        await store.digest(zone, name)


async def test_read_of_deleted_file_raises(store: FileStore) -> None:
    await store.append("z", "f", b"x")
    await store.delete_file("z", "f")
    with pytest.raises(NotFoundError):
        await store.read("z", "f")


@pytest.mark.parametrize("seal_bytes", [100_000, MIB, 8 * MIB])
async def test_open_read_gives_pieces_of_at_most_one_mebibyte(
    open_store: StoreOpener, seal_bytes: int
) -> None:
    """Chunks from a write, from seals of any size, and a tail that is larger than a piece."""
    store = await open_store(limits=Limits(seal_bytes=seal_bytes))
    data = noise(2 * MIB + 5)
    await store.write("z", "f", data)
    for seed in range(1, 4):
        part = noise(MIB + 17, seed)
        await store.append("z", "f", part)
        data += part
    for _ in range(2):
        pieces = [piece async for piece in store.open_read("z", "f")]
        assert b"".join(pieces) == data
        assert all(0 < len(piece) <= MIB for piece in pieces)
        await store.tidy()


async def test_open_read_of_large_file_takes_little_memory(store: FileStore) -> None:
    """Equal parts share their chunks, so the large file is made fast."""
    part = noise(MIB)
    size = 48 * MIB
    await store.write("z", "f", part * 48)
    tracemalloc.start()
    try:
        seen = 0
        async for piece in store.open_read("z", "f"):
            seen += len(piece)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seen == size
    assert peak < 8 * MIB


async def test_open_read_of_much_that_is_not_sealed_yet_copies_no_more_than_a_piece(
    open_store: StoreOpener,
) -> None:
    store = await open_store(limits=Limits(seal_bytes=256 * MIB))
    for seed in range(3):
        await store.append("z", "f", noise(4 * MIB, seed))
    tracemalloc.start()
    try:
        sizes = [len(piece) async for piece in store.open_read("z", "f", 5)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(sizes) == 12 * MIB - 5
    assert max(sizes) <= MIB
    assert peak < 9 * MIB, "of 12"


async def test_open_read_given_up_midway_lets_space_be_released(
    open_store: StoreOpener, database: Path
) -> None:
    """A reader that went away holds nothing back."""
    store = await open_store()
    await store.write("z", "f", noise(3 * MIB))
    async with stream(store, "z", "f") as pieces:
        await anext(pieces)
    await store.delete_file("z", "f")
    await store.tidy()
    await store.close()
    assert query(database, "SELECT count(*) FROM chunk") == [(0,)]


async def test_digest_after_write_is_that_of_the_info(store: FileStore) -> None:
    info = await store.write("z", "f", b"content")
    assert await store.digest("z", "f") == info.digest == blake3(b"content").hexdigest()


async def test_digest_after_append_is_streamed(open_store: StoreOpener) -> None:
    store = await open_store(limits=Limits(seal_bytes=4096))
    data = await make_mixed(store)
    info = await store.stat("z", "f")
    assert info is not None
    assert info.digest is None
    assert await store.digest("z", "f") == blake3(data).hexdigest()


async def test_digest_after_write_over_append_is_known_again(store: FileStore) -> None:
    await store.append("z", "f", b"tail")
    info = await store.write("z", "f", b"state")
    assert info.digest == blake3(b"state").hexdigest()
    assert await store.stat("z", "f") == info


async def test_digest_of_empty_appended_file_is_that_of_nothing(store: FileStore) -> None:
    await store.append("z", "f", b"")
    assert await store.digest("z", "f") == blake3(b"").hexdigest()


async def test_read_after_reopen_gives_the_same(open_store: StoreOpener) -> None:
    limits = Limits(seal_bytes=4096)
    store = await open_store(limits=limits)
    data = await make_mixed(store)
    for _ in range(2):
        await store.close()
        store = await open_store(limits=limits)
        assert await store.read("z", "f") == data
        assert await collect(store, "z", "f") == data


async def test_read_of_highly_compressible_bytes_gives_them_back(store: FileStore) -> None:
    data = b"\0" * (5 * MIB)
    await store.write("z", "f", data)
    await store.append("z", "g", data)
    await store.tidy()
    assert await store.read("z", "f") == data
    assert await store.read("z", "g") == data
