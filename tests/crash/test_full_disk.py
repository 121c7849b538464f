"""A full disk: writes are refused by name, nothing is half done, reads go on, and space brings
writes back."""

import contextlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from filestore import FileStore, StorageFullError, StoreError
from filestore.engine import writer, writer_tx
from filestore.files import SPACE_BYTES_MIN
from tests.contract.tools import do_nothing
from tests.support import child_model as ops
from tests.support.child_model import Model
from tests.support.faults import resize_disk, small_disk, until

pytestmark = pytest.mark.root

RESUME_S_MAX = 5.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "3m") as folder:
        yield folder


async def fill(store: FileStore, model: Model, size: int, *, is_append: bool) -> None:
    """Write until it is refused; the model gets what was acknowledged."""
    rng = random.Random(size)
    for number in range(10_000):
        data = rng.randbytes(size)
        op = ops.append("z", "log", data) if is_append else ops.write("z", f"f{number}", data)
        try:
            await ops.apply(store, op)
        except StorageFullError:
            return
        model.apply(op)
    raise AssertionError("the disk never filled up")


def fill_up(disk: Path) -> Path:
    """Take all the space there is; give it back by removing the file returned."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    assert os.statvfs(disk).f_bavail == 0
    return ballast


async def resumes(store: FileStore, model: Model) -> float:
    """Try a write until it is taken. Returns how long that took."""
    op = ops.write("z", "again", b"taken")

    async def attempt() -> bool:
        return await ops.outcome(ops.apply(store, op)) == "ok"

    waited = await until(attempt, RESUME_S_MAX)
    model.apply(op)
    return waited


@pytest.mark.parametrize("is_append", [False, True], ids=["write", "append"])
@pytest.mark.parametrize("size", [700, 60_000])
async def test_full_disk_refuses_writes_and_resumes_when_space_returns(
    disk: Path, size: int, is_append: bool
) -> None:
    store = await FileStore.open(disk / "data")
    model = Model()
    try:
        await fill(store, model, size, is_append=is_append)
        assert await ops.dump(store) == model
        with pytest.raises(StorageFullError):
            await store.append("z", "log", b"x" * 50_000)
        assert await ops.dump(store) == model, "nothing partial, and reads go on"
        resize_disk(disk, "32m")
        await resumes(store, model)
        assert await ops.dump(store) == model
        await ops.assert_clean(store)
        await ops.assert_works(store)
    finally:
        await store.close()


@pytest.mark.parametrize("is_append", [False, True], ids=["write", "append"])
async def test_full_disk_at_reopening_loses_nothing_and_raises_only_ours(
    disk: Path, is_append: bool
) -> None:
    store = await FileStore.open(disk / "data")
    model = Model()
    await fill(store, model, 20_000, is_append=is_append)
    await store.close()
    ballast = fill_up(disk)
    try:
        store = await FileStore.open(disk / "data")
    except StoreError:
        ballast.unlink()
    else:
        assert await ops.dump(store) == model
        with pytest.raises(StorageFullError):
            await store.write("z", "big", random.Random(1).randbytes(500_000))
        assert await ops.dump(store) == model
        await store.close()
    resize_disk(disk, "32m")
    store = await FileStore.open(disk / "data")
    try:
        assert await ops.dump(store) == model
        await ops.assert_clean(store)
        await ops.assert_works(store)
    finally:
        await store.close()


async def test_pages_free_in_the_database_are_no_room_while_the_log_cannot_begin_again(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were counted as room, and the store said that all was well, and refused every write."""
    monkeypatch.setattr(writer, "PROBE_S", 0)
    # Lowered by others in this process, perhaps.
    monkeypatch.setattr(writer_tx, "SHRINK_FREE_PAGES_MIN", 4096)
    resize_disk(disk, "8m")  # or releasing what is deleted may fill it
    store = await FileStore.open(disk / "data")
    try:
        await store.write("old", "f", random.Random(1).randbytes(1_000_000))
        await store.delete_zone("old")
        await store.tidy()
        (free,) = await store.read_unit(lambda tx: tx.fetch("PRAGMA freelist_count"))
        assert free[0] * 4096 > SPACE_BYTES_MIN
        filler = fill_up(disk)
        filler.write_bytes(bytes(filler.stat().st_size - 100_000))
        # What does not fit leaves room behind, in the log, for small commits.
        await fill(store, Model(), 60_000, is_append=True)
        for _ in range(50):
            await store.transact(do_nothing)  # and then the disk is probed
            assert store.trouble is not None
        filler.unlink()
        await resumes(store, Model())
    finally:
        await store.close()


async def test_new_store_on_full_disk_is_refused_and_can_be_made_later(disk: Path) -> None:
    ballast = fill_up(disk)
    with pytest.raises(StoreError):
        await FileStore.open(disk / "data")
    ballast.unlink()
    store = await FileStore.open(disk / "data")
    try:
        await ops.assert_works(store)
    finally:
        await store.close()
