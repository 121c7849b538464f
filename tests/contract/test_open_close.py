"""Opening and closing: what is made, with which rights, what stays; what a closed store says."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from filestore import (
    ClosedError,
    FileStore,
    InvalidArgumentError,
    Limits,
    LockedError,
    NetworkFileSystemError,
    NotFoundError,
    StoreError,
)
from filestore.check import check
from tests.conftest import StoreOpener
from tests.contract.tools import (
    Gate,
    content_of,
    do_nothing,
    exists,
    footprint,
    make_folder,
    mode_of,
    names_in,
    noise,
    put,
    remove,
    shm_of,
    size_of,
    stream,
    turn,
    turns,
    wal_of,
)
from tests.support.child_model import dump

CLOSE_S_MAX = 10.0


@contextmanager
def umask(mask: int) -> Iterator[None]:
    old = os.umask(mask)
    try:
        yield
    finally:
        os.umask(old)


def threads_since(before: set[threading.Thread]) -> set[str]:
    """The names of the store's own threads that were started since."""
    names = {thread.name for thread in set(threading.enumerate()) - before}
    return {name for name in names if name.startswith("zoned-")}


async def test_open_of_missing_folder_makes_an_empty_store(
    open_store: StoreOpener, data_dir: Path
) -> None:
    store = await open_store(data_dir / "deep" / "below")
    assert (await store.zones()).zones == []
    assert store.data_dir == data_dir / "deep" / "below"
    assert store.trouble is None
    assert not store.folder_was_tightened


async def test_open_takes_text_as_path(open_store: StoreOpener, data_dir: Path) -> None:
    store = await FileStore.open(str(data_dir))
    await store.write("z", "f", b"x")
    await store.close()
    assert await (await open_store()).read("z", "f") == b"x"


async def test_open_makes_private_files_whatever_the_umask(
    open_store: StoreOpener, data_dir: Path, database: Path
) -> None:
    with umask(0o000):
        store = await open_store()
        await store.write("z", "f", noise(100_000))
        modes = {name: mode_of(data_dir / name) for name in names_in(data_dir)}
    assert mode_of(data_dir) == 0o700
    assert modes == dict.fromkeys(modes, 0o600)
    assert {database.name, wal_of(database).name, "zoned.lock"} <= modes.keys()


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o701, 0o710, 0o704])
async def test_open_of_wider_folder_tightens_it_and_says_so(
    open_store: StoreOpener, data_dir: Path, mode: int
) -> None:
    make_folder(data_dir, mode)
    store = await open_store()
    assert mode_of(data_dir) == 0o700
    assert store.folder_was_tightened
    await store.close()
    store = await open_store()
    assert not store.folder_was_tightened


async def test_open_of_private_folder_leaves_its_mode(
    open_store: StoreOpener, data_dir: Path
) -> None:
    make_folder(data_dir)
    store = await open_store()
    assert mode_of(data_dir) == 0o700
    assert not store.folder_was_tightened


async def test_open_of_folder_with_other_files_leaves_them(
    open_store: StoreOpener, data_dir: Path
) -> None:
    make_folder(data_dir)
    put(data_dir / "notes.txt", b"mine")
    store = await open_store()
    await store.close()
    assert content_of(data_dir / "notes.txt") == b"mine"


async def test_open_of_path_that_is_a_file_raises_ours(data_dir: Path) -> None:
    put(data_dir, b"not a folder")
    with pytest.raises(StoreError):
        await FileStore.open(data_dir)
    assert content_of(data_dir) == b"not a folder"


async def test_open_over_rest_of_interrupted_creation_starts_afresh(
    open_store: StoreOpener, data_dir: Path
) -> None:
    """A crash while the database was being made leaves files beside it; they mean nothing."""
    make_folder(data_dir)
    for name in ("zoned.db.new", "zoned.db.new-journal", "zoned.db.new-wal"):
        put(data_dir / name, noise(5000))
    store = await open_store()
    await store.write("z", "f", b"x")
    assert await store.read("z", "f") == b"x"
    assert not [name for name in names_in(data_dir) if ".new" in name]


@pytest.mark.parametrize("sync", ["off", "", "FULL", None, 1])
async def test_open_with_unknown_sync_raises_and_makes_nothing(
    data_dir: Path, sync: object
) -> None:
    with pytest.raises(InvalidArgumentError):
        await FileStore.open(data_dir, sync=sync)  # type: ignore[arg-type]  # wrong on purpose
    assert not exists(data_dir)


@pytest.mark.parametrize("sync", ["full", "normal"])
async def test_open_with_either_sync_keeps_everything_over_a_close(
    open_store: StoreOpener, sync: str
) -> None:
    store = await open_store(sync="full" if sync == "full" else "normal")
    assert store.sync == sync
    await store.write("z", "f", noise(300_000))
    await store.append("z", "log", b"tail")
    await store.set_meta("z", None, {"a": 1})
    before = await dump(store)
    await store.close()
    assert await dump(await open_store()) == before


async def test_open_on_network_file_system_is_refused_untouched(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(data_dir)
    monkeypatch.setattr("filestore.files.file_system_of", lambda _: "nfs4")
    with pytest.raises(NetworkFileSystemError, match="nfs4"):
        await FileStore.open(data_dir)
    assert footprint(data_dir) == {}


async def test_open_that_fails_leaves_no_threads_and_no_lock(
    open_store: StoreOpener, data_dir: Path, database: Path
) -> None:
    make_folder(data_dir)
    put(database, b"not a database")
    before = set(threading.enumerate())
    for _ in range(3):
        with pytest.raises(StoreError):
            await FileStore.open(data_dir)
        with pytest.raises(StoreError):
            await FileStore.open(data_dir, read_only=True)
    with pytest.raises(NotFoundError):
        await FileStore.open(data_dir / "missing", read_only=True)
    assert not threads_since(before)
    remove(database)
    await open_store()


async def test_close_leaves_no_wal_and_everything_in_one_file(
    open_store: StoreOpener, data_dir: Path, database: Path
) -> None:
    store = await open_store()
    await store.write("z", "f", noise(500_000))
    await store.append("z", "log", b"tail")
    assert size_of(wal_of(database)) > 0
    before = await dump(store)
    await store.close()
    assert names_in(data_dir) == ["zoned.db", "zoned.lock"]
    copied = make_folder(data_dir.parent / "copy")
    put(copied / "zoned.db", content_of(database))
    assert await dump(await open_store(copied)) == before


async def test_close_beside_a_read_only_store_still_checkpoints(
    open_store: StoreOpener, data_dir: Path, database: Path
) -> None:
    store = await open_store()
    await store.write("z", "f", noise(500_000))
    reader = await open_store(read_only=True)
    assert await reader.read("z", "f") == noise(500_000)
    await store.close()
    assert size_of(wal_of(database)) == 0
    assert await reader.read("z", "f") == noise(500_000)
    await reader.close()


async def test_close_ends_all_threads(open_store: StoreOpener) -> None:
    before = set(threading.enumerate())
    store = await open_store()
    await store.write("z", "f", b"x")
    await store.read("z", "f")
    assert threads_since(before)
    await store.close()
    assert not threads_since(before)


async def test_close_twice_is_harmless(store: FileStore) -> None:
    await store.close()
    await store.close()


async def test_close_finishes_what_was_accepted(open_store: StoreOpener) -> None:
    gate = Gate()
    store = await open_store(failpoint=gate)
    async with asyncio.TaskGroup() as group, gate.held(store):
        tasks = [group.create_task(store.append("z", "f", b"%d\n" % n)) for n in range(50)]
        await turn()
        group.create_task(store.close())
        await turns(5)
        with pytest.raises(ClosedError):
            await store.append("z", "f", b"too late")
    assert all(task.result().size for task in tasks)
    store = await open_store()
    assert await store.read("z", "f") == b"".join(b"%d\n" % n for n in range(50))


async def test_close_twice_at_once_keeps_the_lock_until_all_is_written(
    open_store: StoreOpener, data_dir: Path
) -> None:
    """Whoever opens the folder next must not meet the first store's writer."""
    gate = Gate()
    store = await open_store(failpoint=gate)
    async with asyncio.TaskGroup() as group, gate.held(store):
        append = group.create_task(store.append("z", "f", b"accepted"))
        await turn()
        group.create_task(store.close())
        group.create_task(store.close())
        await turns(20)
        with pytest.raises(LockedError):
            await FileStore.open(data_dir)
    assert append.result().size == 8
    assert await (await open_store()).read("z", "f") == b"accepted"


async def test_close_right_after_a_stream_ended_comes_to_its_end(store: FileStore) -> None:
    """The end of the stream wakes the background work in the same moment as close stops it."""
    await store.write("z", "f", noise(3 << 20))
    async with stream(store, "z", "f") as pieces:
        await anext(pieces)
        await store.delete_file("z", "f")
        await store.tidy()
    async with asyncio.TaskGroup() as group:
        closing = group.create_task(store.close())
        done, _ = await asyncio.wait({closing}, timeout=CLOSE_S_MAX)
        closing.cancel()
    assert done


async def test_close_while_background_work_is_under_way_loses_nothing(
    open_store: StoreOpener,
) -> None:
    limits = Limits(seal_bytes=2000)
    for number in range(10):
        store = await open_store(limits=limits)
        await store.append("z", "f", noise(30_000, number))
        await store.write("z", f"g{number}", noise(50_000, number))
        await store.delete_file("z", f"g{number - 1}")
        await store.close()
    store = await open_store(limits=limits)
    assert await store.read("z", "f") == b"".join(noise(30_000, n) for n in range(10))
    assert [info.name for info in await store.files("z") or []] == ["f", "g9"]


async def test_close_by_context_manager(open_store: StoreOpener, data_dir: Path) -> None:
    async with await FileStore.open(data_dir) as store:
        await store.write("z", "f", b"x")
    with pytest.raises(ClosedError):
        await store.read("z", "f")
    await open_store()


AFTER_CLOSE: dict[str, Callable[[FileStore], Awaitable[object]]] = {
    "write": lambda store: store.write("z", "f", b"x"),
    "append": lambda store: store.append("z", "f", b"x"),
    "append_lines": lambda store: store.append_lines("z", "f", ["x"]),
    "set_meta": lambda store: store.set_meta("z", "f", {"a": 1}),
    "delete_file": lambda store: store.delete_file("z", "f"),
    "delete_zone": lambda store: store.delete_zone("z"),
    "move_zone": lambda store: store.move_zone("z", "y"),
    "copy_zone": lambda store: store.copy_zone("z", "y"),
    "transact": lambda store: store.transact(do_nothing),
    "read": lambda store: store.read("z", "f"),
    "open_read": lambda store: anext(aiter(store.open_read("z", "f"))),
    "read_lines": lambda store: store.read_lines("z", "f", 0, 1),
    "digest": lambda store: store.digest("z", "f"),
    "stat": lambda store: store.stat("z", "f"),
    "files": lambda store: store.files("z"),
    "zone": lambda store: store.zone("z"),
    "zones": lambda store: store.zones(),
    "check": lambda store: store.read_unit(lambda tx: tx.fetch("SELECT 1")),
}


@pytest.mark.parametrize("operation", AFTER_CLOSE)
async def test_closed_store_refuses_every_operation(store: FileStore, operation: str) -> None:
    await store.write("z", "f", b"x")
    await store.close()
    with pytest.raises(ClosedError):
        await AFTER_CLOSE[operation](store)


async def test_closed_store_comes_back_from_tidy(store: FileStore) -> None:
    """With an error or without, but it must not wait for background work that has ended."""
    await store.close()
    async with asyncio.timeout(CLOSE_S_MAX):
        with suppress(ClosedError):
            await store.tidy()


async def test_store_opened_again_and_again_stays_the_same(
    open_store: StoreOpener, database: Path
) -> None:
    store = await open_store()
    await store.write("z", "f", noise(100_000))
    await store.append("z", "log", b"tail")
    before = await dump(store)
    await store.close()
    sizes = set()
    for _ in range(5):
        store = await open_store()
        assert await dump(store) == before
        await store.close()
        sizes.add(size_of(database))
    assert len(sizes) == 1
    assert not exists(shm_of(database))


async def test_two_stores_in_two_folders_are_apart(open_store: StoreOpener, data_dir: Path) -> None:
    one = await open_store(data_dir / "one")
    two = await open_store(data_dir / "two")
    await one.write("z", "f", b"one")
    await two.write("z", "f", b"two")
    assert await one.read("z", "f") == b"one"
    assert await two.read("z", "f") == b"two"
    assert (await check(one)).files == 1
