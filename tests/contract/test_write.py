"""`write` replaces a file as a whole, notices equal bytes, and guards by version."""

from pathlib import Path

import pytest
from blake3 import blake3

from filestore import (
    FileInfo,
    FileStore,
    InvalidArgumentError,
    Limits,
    TooLargeError,
    VersionConflictError,
)
from tests.conftest import FakeClock, StoreOpener
from tests.contract.tools import collect, noise, size_of, wal_of


async def test_write_of_new_file_returns_its_info(
    open_store: StoreOpener, clock: FakeClock
) -> None:
    store = await open_store(clock=clock)
    info = await store.write("z", "f", b"one\ntwo\nthree")
    assert info == FileInfo(
        zone="z",
        name="f",
        size=13,
        lines=3,
        version=info.version,
        created_ms=clock.now_ms,
        modified_ms=clock.now_ms,
        meta={},
        digest=blake3(b"one\ntwo\nthree").hexdigest(),
        unchanged=False,
    )
    assert info.version > 0
    assert await store.read("z", "f") == b"one\ntwo\nthree"
    assert await store.stat("z", "f") == info


async def test_write_to_missing_zone_makes_the_zone(
    open_store: StoreOpener, clock: FakeClock
) -> None:
    store = await open_store(clock=clock)
    assert await store.zone("z") is None
    await store.write("z", "f", b"x")
    zone = await store.zone("z")
    assert zone is not None
    assert (zone.name, zone.created_ms, zone.meta) == ("z", clock.now_ms, {})


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 65_536, 65_537, 300_000, 3 << 20])
async def test_write_of_any_size_reads_back_the_same(store: FileStore, size: int) -> None:
    data = noise(size)
    info = await store.write("z", "f", data)
    assert info.size == size
    assert info.digest == blake3(data).hexdigest()
    assert await store.read("z", "f") == data
    assert await collect(store, "z", "f") == data


async def test_write_of_no_bytes_makes_an_empty_file(store: FileStore) -> None:
    info = await store.write("z", "f", b"")
    assert (info.size, info.lines, info.unchanged) == (0, 0, False)
    assert info.digest == blake3(b"").hexdigest()
    assert await store.read("z", "f") == b""


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_write_of_any_buffer_keeps_a_copy(
    store: FileStore, kind: type[bytes] | type[bytearray] | type[memoryview]
) -> None:
    source = bytearray(b"before")
    given = kind(source)
    await store.write("z", "f", given)  # type: ignore[arg-type]  # buffers are taken, if not promised
    source[:] = b"after!"
    assert await store.read("z", "f") == b"before"


async def test_write_over_longer_content_leaves_nothing_of_it(store: FileStore) -> None:
    await store.write("z", "f", noise(500_000))
    info = await store.write("z", "f", b"short")
    assert info.size == 5
    assert await store.read("z", "f") == b"short"
    await store.tidy()
    assert await store.read("z", "f") == b"short"


async def test_write_over_appended_bytes_replaces_them_all(store: FileStore) -> None:
    await store.append("z", "f", b"tail one\n")
    await store.append("z", "f", b"tail two\n")
    info = await store.write("z", "f", b"state")
    assert (info.size, info.lines) == (5, 1)
    assert await store.read("z", "f") == b"state"
    appended = await store.append("z", "f", b" and more")
    assert (appended.offset, appended.size) == (5, 14)
    assert await store.read("z", "f") == b"state and more"


async def test_write_of_other_bytes_raises_version_and_keeps_creation_time(
    open_store: StoreOpener, clock: FakeClock
) -> None:
    store = await open_store(clock=clock)
    first = await store.write("z", "f", b"one")
    clock.now_ms += 5
    second = await store.write("z", "f", b"two")
    assert second.version > first.version
    assert second.created_ms == first.created_ms
    assert second.modified_ms == first.modified_ms + 5
    assert second.digest != first.digest


async def test_write_keeps_meta(store: FileStore) -> None:
    await store.write("z", "f", b"one")
    await store.set_meta("z", "f", {"kind": "state"})
    assert (await store.write("z", "f", b"two")).meta == {"kind": "state"}


@pytest.mark.parametrize("size", [0, 10, 200_000])
async def test_write_of_equal_bytes_changes_nothing(
    open_store: StoreOpener, clock: FakeClock, size: int
) -> None:
    store = await open_store(clock=clock)
    data = noise(size)
    first = await store.write("z", "f", data)
    position = store.position
    clock.now_ms += 1000
    again = await store.write("z", "f", data)
    assert again.unchanged
    assert (again.version, again.modified_ms) == (first.version, first.modified_ms)
    assert again.digest == first.digest
    assert store.position == position
    assert await store.stat("z", "f") == first


async def test_write_of_equal_bytes_writes_nothing_to_disk(
    open_store: StoreOpener, database: Path
) -> None:
    store = await open_store()
    data = noise(200_000)
    await store.write("z", "f", data)
    await store.tidy()
    before = wal_stamp(database)
    for _ in range(20):
        assert (await store.write("z", "f", data)).unchanged
    await store.tidy()
    assert wal_stamp(database) == before


async def test_write_of_equal_bytes_publishes_nothing(store: FileStore) -> None:
    await store.write("z", "f", b"same")
    changes = store.changes()
    await store.write("z", "f", b"same")
    other = await store.write("z", "other", b"x")
    assert (await anext(changes)).version == other.version


async def test_write_of_bytes_equal_to_appended_ones_is_unchanged(store: FileStore) -> None:
    await store.append("z", "f", b"one\n")
    last = await store.append("z", "f", b"two\n")
    info = await store.write("z", "f", b"one\ntwo\n")
    assert info.unchanged
    assert info.version == last.version
    await store.tidy()
    assert (await store.write("z", "f", b"one\ntwo\n")).unchanged


async def test_write_of_same_size_as_appended_bytes_but_other_ones_replaces_them(
    store: FileStore,
) -> None:
    await store.append("z", "f", b"one\n")
    info = await store.write("z", "f", b"two\n")
    assert not info.unchanged
    assert await store.read("z", "f") == b"two\n"


async def test_write_of_earlier_bytes_gets_a_new_version(store: FileStore) -> None:
    """A, B, A: the version of the first A is not given again."""
    first = await store.write("z", "f", b"A")
    second = await store.write("z", "f", b"B")
    third = await store.write("z", "f", b"A")
    assert first.version < second.version < third.version


async def test_write_if_version_matches_replaces(store: FileStore) -> None:
    first = await store.write("z", "f", b"one")
    second = await store.write("z", "f", b"two", if_version=first.version)
    assert second.version > first.version
    assert await store.read("z", "f") == b"two"


@pytest.mark.parametrize("off_by", [-1, 1, 1000])
async def test_write_if_version_differs_raises_with_current_version(
    store: FileStore, off_by: int
) -> None:
    first = await store.write("z", "f", b"one")
    with pytest.raises(VersionConflictError) as caught:
        await store.write("z", "f", b"two", if_version=first.version + off_by)
    assert caught.value.current_version == first.version
    assert (caught.value.zone, caught.value.name) == ("z", "f")
    assert await store.stat("z", "f") == first
    assert await store.read("z", "f") == b"one"


async def test_write_if_version_after_append_needs_the_append_s_version(store: FileStore) -> None:
    first = await store.write("z", "f", b"one")
    appended = await store.append("z", "f", b"two")
    with pytest.raises(VersionConflictError) as caught:
        await store.write("z", "f", b"new", if_version=first.version)
    assert caught.value.current_version == appended.version
    await store.write("z", "f", b"new", if_version=appended.version)


async def test_write_if_version_survives_sealing(open_store: StoreOpener) -> None:
    """Sealing moves bytes about; the content and so its version stay."""
    store = await open_store(limits=Limits(seal_bytes=1024))
    appended = await store.append("z", "f", noise(5000))
    await store.tidy()
    info = await store.stat("z", "f")
    assert info is not None
    assert info.version == appended.version
    await store.write("z", "f", b"new", if_version=appended.version)


async def test_write_if_version_zero_makes_a_missing_file(store: FileStore) -> None:
    await store.write("z", "f", b"first", if_version=0)
    assert await store.read("z", "f") == b"first"


async def test_write_if_version_zero_on_present_file_raises(store: FileStore) -> None:
    """Even if the bytes are equal, and even if the file is empty."""
    for data in (b"", b"same"):
        info = await store.write("z", "f", data)
        with pytest.raises(VersionConflictError) as caught:
            await store.write("z", "f", data, if_version=0)
        assert caught.value.current_version == info.version


async def test_write_if_version_on_missing_file_raises_with_zero(store: FileStore) -> None:
    with pytest.raises(VersionConflictError) as caught:
        await store.write("z", "f", b"x", if_version=7)
    assert caught.value.current_version == 0
    assert await store.zone("z") is None, "the zone was not made either"


async def test_write_if_version_negative_never_matches(store: FileStore) -> None:
    with pytest.raises(VersionConflictError):
        await store.write("z", "f", b"x", if_version=-1)


async def test_write_if_version_with_equal_bytes_is_unchanged(store: FileStore) -> None:
    info = await store.write("z", "f", b"same")
    again = await store.write("z", "f", b"same", if_version=info.version)
    assert again.unchanged
    assert again.version == info.version


async def test_write_after_delete_gets_a_version_never_used(store: FileStore) -> None:
    first = await store.write("z", "f", b"same")
    await store.delete_file("z", "f")
    second = await store.write("z", "f", b"same")
    assert not second.unchanged
    assert second.version > first.version
    await store.delete_zone("z")
    third = await store.write("z", "f", b"same", if_version=0)
    assert third.version > second.version


async def test_write_after_move_gets_a_version_never_used(store: FileStore) -> None:
    first = await store.write("z", "f", b"same")
    await store.move_zone("z", "archive")
    second = await store.write("z", "f", b"same")
    assert second.version > first.version
    moved = await store.stat("archive", "f")
    assert moved is not None
    assert moved.version == first.version


async def test_write_after_reopen_gets_a_version_never_used(open_store: StoreOpener) -> None:
    """Also when the newest versions belong to what was deleted."""
    store = await open_store()
    seen = {(await store.write("z", f"f{number}", b"x")).version for number in range(5)}
    seen.add((await store.append("z", "log", b"y")).version)
    await store.delete_zone("z")
    position = store.position
    await store.tidy()
    await store.close()
    for _ in range(3):
        store = await open_store()
        assert store.position >= position
        info = await store.write("z", "f", b"x")
        assert info.version > max(seen)
        seen.add(info.version)
        await store.delete_file("z", "f")
        position = store.position
        await store.close()


async def test_write_over_limit_raises_and_changes_nothing(open_store: StoreOpener) -> None:
    store = await open_store(limits=Limits(write_bytes_max=100))
    before = await store.write("z", "f", b"x" * 100)
    with pytest.raises(TooLargeError) as caught:
        await store.write("z", "f", b"y" * 101)
    assert caught.value.limit == 100
    assert await store.stat("z", "f") == before
    with pytest.raises(TooLargeError):
        await store.prepare(b"y" * 101)


@pytest.mark.parametrize("data", ["text", None, 5, [1, 2]], ids=repr)
async def test_write_of_what_is_not_bytes_raises(store: FileStore, data: object) -> None:
    with pytest.raises(InvalidArgumentError):
        await store.write("z", "f", data)  # type: ignore[arg-type]  # wrong on purpose
    assert await store.zone("z") is None


async def test_write_of_small_edit_stores_only_what_is_new(
    open_store: StoreOpener, database: Path
) -> None:
    """A snapshot that grew by a little costs a few chunks and its list, not its size."""
    store = await open_store()
    data = noise(2 << 20)
    await store.write("z", "f", data)
    await store.tidy()
    before = stored_bytes(database)
    middle = len(data) // 2
    await store.write("z", "f", data[:middle] + b"one node more" + data[middle:])
    assert stored_bytes(database) - before < 200_000


async def test_write_of_content_that_is_there_stores_no_bytes_again(
    open_store: StoreOpener, database: Path
) -> None:
    store = await open_store()
    data = noise(2 << 20)
    await store.write("z", "f", data)
    await store.tidy()
    before = stored_bytes(database)
    info = await store.write("other", "g", data)
    assert not info.unchanged
    assert stored_bytes(database) - before < 200_000
    await store.delete_zone("z")
    await store.tidy()
    assert await store.read("other", "g") == data


async def test_write_of_same_file_many_times_keeps_the_last(store: FileStore) -> None:
    """Growing, shrinking and shifting content, cut by resemblance to what was there before."""
    data = noise(150_000)
    for seed in range(30):
        at = (seed * 7919) % len(data)
        edit = noise(seed * 311 % 5000, seed)
        data = data[:at] + edit + data[at + (seed * 101 % 4000) :]
        info = await store.write("z", "f", data)
        assert info.digest == blake3(data).hexdigest()
    assert await store.read("z", "f") == data


async def test_write_that_lost_its_chunks_meanwhile_stores_them_again(store: FileStore) -> None:
    """What is remembered of an earlier write must not be trusted to be in the store still."""
    data = noise(300_000)
    for _ in range(3):
        await store.write("z", "f", data)
        await store.delete_file("z", "f")
        await store.tidy()
    await store.write("z", "f", data)
    assert await store.read("z", "f") == data


def wal_stamp(database: Path) -> tuple[int, int, int]:
    stat = wal_of(database).stat()
    return stat.st_size, stat.st_mtime_ns, database.stat().st_mtime_ns


def stored_bytes(database: Path) -> int:
    return size_of(database) + size_of(wal_of(database))
