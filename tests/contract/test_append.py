"""`append` adds bytes at the end: atomic, in arrival order, whatever the file is made of."""

import asyncio
from pathlib import Path

import pytest

from filestore import (
    Appended,
    CorruptionError,
    FileStore,
    InvalidArgumentError,
    Limits,
    NotFoundError,
    TooLargeError,
    Transaction,
)
from tests.conftest import FakeClock, StoreOpener
from tests.contract.tools import Gate, collect, noise, run_sql, take, turn


async def test_append_to_missing_file_makes_it(open_store: StoreOpener, clock: FakeClock) -> None:
    store = await open_store(clock=clock)
    appended = await store.append("z", "f", b"hello")
    assert appended == Appended(offset=0, size=5, version=appended.version)
    info = await store.stat("z", "f")
    assert info is not None
    assert (info.size, info.lines, info.version) == (5, 1, appended.version)
    assert (info.created_ms, info.modified_ms) == (clock.now_ms, clock.now_ms)
    assert await store.zone("z") is not None


async def test_append_returns_offset_and_size(store: FileStore) -> None:
    spans = [await store.append("z", "f", b"x" * size) for size in (3, 1, 10)]
    assert [(span.offset, span.size) for span in spans] == [(0, 3), (3, 4), (4, 14)]
    versions = [span.version for span in spans]
    assert versions == sorted(set(versions))


async def test_append_after_write_continues_it_and_drops_the_digest(store: FileStore) -> None:
    written = await store.write("z", "f", b"state\n")
    appended = await store.append("z", "f", b"more\n")
    assert (appended.offset, appended.size) == (6, 11)
    info = await store.stat("z", "f")
    assert info is not None
    assert (info.size, info.lines, info.digest) == (11, 2, None)
    assert info.version == appended.version > written.version
    assert await store.read("z", "f") == b"state\nmore\n"


async def test_append_moves_modified_time_and_keeps_creation_time(
    open_store: StoreOpener, clock: FakeClock
) -> None:
    store = await open_store(clock=clock)
    await store.append("z", "f", b"a")
    made = clock.now_ms
    clock.now_ms += 77
    await store.append("z", "f", b"b")
    info = await store.stat("z", "f")
    assert info is not None
    assert (info.created_ms, info.modified_ms) == (made, made + 77)


async def test_append_of_nothing_to_missing_file_makes_an_empty_file(store: FileStore) -> None:
    changes = store.changes()
    appended = await store.append("z", "f", b"")
    assert (appended.offset, appended.size) == (0, 0)
    info = await store.stat("z", "f")
    assert info is not None
    assert (info.size, info.lines, info.version) == (0, 0, appended.version)
    assert await store.read("z", "f") == b""
    (change,) = await take(changes, 1)
    assert (change.kind, change.zone, change.name) == ("append", "z", "f")
    assert (change.offset, change.size, change.version) == (0, 0, appended.version)
    marker = await store.append("z", "other", b"x")
    assert (await anext(changes)).version == marker.version, "there was one change, not two"


async def test_append_of_nothing_after_reopen_leaves_the_file(open_store: StoreOpener) -> None:
    store = await open_store()
    appended = await store.append("z", "f", b"")
    await store.close()
    store = await open_store()
    info = await store.stat("z", "f")
    assert info is not None
    assert (info.size, info.version) == (0, appended.version)


@pytest.mark.parametrize("is_written", [True, False])
async def test_append_of_nothing_to_present_file_changes_nothing(
    open_store: StoreOpener, clock: FakeClock, is_written: bool
) -> None:
    store = await open_store(clock=clock)
    if is_written:
        await store.write("z", "f", b"abc")
    else:
        await store.append("z", "f", b"abc")
    before = await store.stat("z", "f")
    assert before is not None
    position, changes = store.position, store.changes()
    clock.now_ms += 5
    assert await store.append("z", "f", b"") == Appended(3, 3, before.version)
    assert await store.stat("z", "f") == before
    assert store.position == position
    marker = await store.append("z", "other", b"x")
    assert (await anext(changes)).version == marker.version


async def test_append_many_at_once_keeps_arrival_order(store: FileStore) -> None:
    parts = [noise(1 + number % 50, number) for number in range(500)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(store.append("z", "f", part)) for part in parts]
    offset = 0
    for task, part in zip(tasks, parts, strict=True):
        span = task.result()
        assert (span.offset, span.size) == (offset, offset + len(part))
        offset = span.size
    assert await store.read("z", "f") == b"".join(parts)


async def test_append_many_at_once_to_many_files_keeps_each_whole(store: FileStore) -> None:
    async def append_all(zone: str, name: str) -> None:
        for number in range(20):
            await store.append(zone, name, f"{zone}/{name} {number}\n".encode())

    names = [(f"z{a}", f"f{b}") for a in range(4) for b in range(4)]
    async with asyncio.TaskGroup() as group:
        for zone, name in names:
            group.create_task(append_all(zone, name))
    for zone, name in names:
        wanted = "".join(f"{zone}/{name} {number}\n" for number in range(20))
        assert await store.read(zone, name) == wanted.encode()


async def test_append_across_sealing_loses_and_doubles_nothing(open_store: StoreOpener) -> None:
    """Some appends smaller than a chunk, some larger, with seals in between at any moment."""
    store = await open_store(limits=Limits(seal_bytes=4096))
    wanted = b""
    for seed in range(120):
        part = noise(seed * 97 % 1500 if seed % 10 else 9000, seed)
        span = await store.append("z", "f", part)
        assert span.offset == len(wanted)
        wanted += part
        if seed % 25 == 0:
            await store.tidy()
            assert await store.read("z", "f") == wanted
    assert await store.read("z", "f") == wanted
    await store.tidy()
    assert await store.read("z", "f") == wanted
    assert await collect(store, "z", "f") == wanted


async def test_append_larger_than_a_chunk_is_one_append(store: FileStore) -> None:
    data = noise(3 << 20)
    await store.append("z", "f", b"before")
    span = await store.append("z", "f", data)
    assert (span.offset, span.size) == (6, 6 + len(data))
    await store.tidy()
    await store.append("z", "f", b"after")
    assert await store.read("z", "f") == b"before" + data + b"after"


async def test_append_after_reopen_continues_an_unsealed_tail(open_store: StoreOpener) -> None:
    store = await open_store()
    await store.append("z", "f", b"one ")
    last = await store.append("z", "f", b"two ")
    await store.close()
    store = await open_store()
    info = await store.stat("z", "f")
    assert info is not None
    assert (info.size, info.version) == (8, last.version)
    span = await store.append("z", "f", b"three")
    assert (span.offset, span.size) == (8, 13)
    assert span.version > last.version
    assert await store.read("z", "f") == b"one two three"


async def test_append_over_limit_raises_and_adds_nothing(open_store: StoreOpener) -> None:
    store = await open_store(limits=Limits(append_bytes_max=10))
    await store.append("z", "f", b"x" * 10)
    with pytest.raises(TooLargeError) as caught:
        await store.append("z", "f", b"y" * 11)
    assert caught.value.limit == 10

    async def unit(tx: Transaction) -> None:
        await tx.append("z", "f", b"y" * 11)

    with pytest.raises(TooLargeError):
        await store.transact(unit)
    assert await store.read("z", "f") == b"x" * 10


async def test_append_in_failed_unit_leaves_no_part_of_it(store: FileStore) -> None:
    await store.append("z", "f", b"kept ")

    async def unit(tx: Transaction) -> None:
        await tx.append("z", "f", b"lost")
        await tx.append("z", "new", b"lost")
        raise NotFoundError("on purpose")

    with pytest.raises(NotFoundError, match="on purpose"):
        await store.transact(unit)
    assert await store.read("z", "f") == b"kept "
    assert await store.stat("z", "new") is None
    span = await store.append("z", "f", b"too")
    assert span.offset == 5


@pytest.mark.parametrize("data", ["text", None, 5, [1, 2]], ids=repr)
async def test_append_of_what_is_not_bytes_raises(store: FileStore, data: object) -> None:
    with pytest.raises(InvalidArgumentError):
        await store.append("z", "f", data)  # type: ignore[arg-type]  # wrong on purpose
    assert await store.zone("z") is None


@pytest.mark.parametrize("data", ["text", None, 5, [1, 2]], ids=repr)
async def test_append_in_unit_of_what_is_not_bytes_raises(store: FileStore, data: object) -> None:
    async def unit(tx: Transaction) -> None:
        await tx.append("z", "f", data)  # type: ignore[arg-type]  # wrong on purpose

    with pytest.raises(InvalidArgumentError):
        await store.transact(unit)
    assert await store.zone("z") is None


@pytest.mark.parametrize("is_unit", [False, True], ids=["call", "unit"])
async def test_append_of_buffer_that_changes_later_keeps_what_it_was(
    store: FileStore, is_unit: bool
) -> None:
    """What is read must be what was acknowledged and stored, whatever the caller does to it."""
    source = bytearray(b"before")

    async def unit(tx: Transaction) -> None:
        await tx.append("z", "f", source)  # type: ignore[arg-type]  # taken, if not promised

    if is_unit:
        await store.transact(unit)
    else:
        await store.append("z", "f", source)  # type: ignore[arg-type]  # taken, if not promised
    source[:] = b"after!"
    assert await store.read("z", "f") == b"before"


async def test_append_queued_behind_a_delete_makes_a_new_file(open_store: StoreOpener) -> None:
    """In one group: the append must not land in the file that was deleted before it."""
    gate = Gate()
    store = await open_store(failpoint=gate)
    await store.append("z", "f", b"old")
    async with asyncio.TaskGroup() as group, gate.held(store):
        group.create_task(store.delete_file("z", "f"))
        await turn()
        span = group.create_task(store.append("z", "f", b"new"))
        await turn()
    assert span.result().offset == 0
    assert await store.read("z", "f") == b"new"


async def test_append_queued_behind_a_write_continues_what_was_written(
    open_store: StoreOpener,
) -> None:
    gate = Gate()
    store = await open_store(failpoint=gate)
    await store.append("z", "f", b"old old old")
    async with asyncio.TaskGroup() as group, gate.held(store):
        group.create_task(store.append("z", "f", b"lost"))
        group.create_task(store.write("z", "f", b"new"))
        span = group.create_task(store.append("z", "f", b" tail"))
        await turn()
    assert span.result().offset == 3
    assert await store.read("z", "f") == b"new tail"
    await store.tidy()
    assert await store.read("z", "f") == b"new tail"


async def test_append_to_long_blank_line_does_not_touch_its_start(
    open_store: StoreOpener, database: Path
) -> None:
    """An append costs the same at any size: proved by damage, which it would run into.

    Blank bytes at the end are looked at again when more comes, but only the last of them matter.
    """
    limits = Limits(seal_bytes=64 << 10)
    store = await open_store(limits=limits)
    for blank in (b"\t", b"\r", b"\x0b", b" "):
        await store.append("z", "f", blank * (64 << 10))
        await store.tidy()
    await store.close()
    run_sql(
        database,
        "UPDATE chunk_data SET data = zeroblob(length(data)) "
        "WHERE id = (SELECT min(id) FROM chunk_data)",
    )
    open_store.is_checked = False
    store = await open_store(limits=limits)
    with pytest.raises(CorruptionError):
        await store.read("z", "f")
    assert (await store.append("z", "f", b" ")).offset == 256 << 10
    assert (await store.append("z", "f", b"text\n")).offset == (256 << 10) + 1
    info = await store.stat("z", "f")
    assert info is not None
    assert info.lines == 1
