"""The ballast: on a full disk there is room for what frees it, and for nothing else."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from filestore import FileStore, Limits, StorageFullError
from filestore.ballast import BALLAST_NAME
from filestore.sessions import Sessions
from filestore.sessions.exporting import export_session
from filestore.sessions.importing import import_session
from tests.crash.test_full_disk import fill_up
from tests.support.child_model import assert_clean
from tests.support.faults import small_disk, until

MIB = 1 << 20
BALLAST_BYTES = 2 * MIB
LIMITS = Limits(ballast_bytes=BALLAST_BYTES, wal_bytes_soft=MIB // 2)
"""As in earnest, the ballast is larger than what waits in the write-ahead log."""
RESUME_S_MAX = 5.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "40m") as folder:
        yield folder


async def filled(folder: Path, size: int = 12 * MIB) -> FileStore:
    """A store with two files of `size` bytes in all."""
    store = await FileStore.open(folder, limits=LIMITS)
    for name in ("kept", "old"):
        await store.write(name, "f", os.urandom(size // 2))
    await store.tidy()
    return store


async def append_until_full(store: FileStore) -> None:
    while True:
        try:
            await store.append("kept", "log", os.urandom(200_000))
        except StorageFullError:
            return


async def is_writable(store: FileStore) -> bool:
    try:
        await store.append("kept", "log", b"again")
    except StorageFullError:
        return False
    return True


@pytest.mark.root
async def test_full_disk_with_ballast_takes_deletes_and_then_writes(disk: Path) -> None:
    store = await filled(disk / "data")
    ballast = disk / "data" / BALLAST_NAME
    assert ballast.stat().st_blocks * 512 >= BALLAST_BYTES
    assert ballast.stat().st_mode & 0o777 == 0o600
    fill_up(disk)
    await append_until_full(store)
    assert not ballast.exists(), "its room is given to what frees the disk"
    with pytest.raises(StorageFullError):
        await store.append("kept", "log", b"x")
    assert await store.delete_zone("old")
    await until(lambda: is_writable(store), RESUME_S_MAX)
    assert len(await store.read("kept", "f")) == 6 * MIB
    await assert_clean(store)
    await store.close()


@pytest.mark.root
async def test_room_of_the_ballast_is_not_for_copies_and_imports(
    disk: Path, tmp_path: Path
) -> None:
    file = tmp_path / "session"
    async with await filled(disk / "data") as store, Sessions(store) as sessions:
        await sessions.append_output("ada", [os.urandom(100_000).hex().encode()])
        await export_session(store, "ada", file)
        fill_up(disk)
        await append_until_full(store)
        for adding in (
            store.copy_zone("kept", "copy"),
            store.set_meta("kept", "f", {"key": "value"}),
            sessions.fork("ada", "bob"),
            import_session(store, file, definition_id="bob"),
        ):
            with pytest.raises(StorageFullError):
                await adding
        assert await sessions.archive("ada"), "but renaming and deleting goes on"


@pytest.mark.root
async def test_space_given_back_by_others_brings_writes_and_ballast_back(disk: Path) -> None:
    store = await filled(disk / "data")
    filler = fill_up(disk)
    await append_until_full(store)
    filler.unlink()
    await until(lambda: is_writable(store), RESUME_S_MAX)
    assert (disk / "data" / BALLAST_NAME).exists()
    await store.close()


async def test_small_store_has_no_ballast(tmp_path: Path) -> None:
    async with await FileStore.open(tmp_path, limits=LIMITS) as store:
        await store.write("z", "f", b"small")
    assert not (tmp_path / BALLAST_NAME).exists()


async def test_ballast_comes_with_growth_and_goes_with_the_setting(tmp_path: Path) -> None:
    await (await filled(tmp_path)).close()
    assert (tmp_path / BALLAST_NAME).exists()
    await (await FileStore.open(tmp_path, limits=Limits(ballast_bytes=0))).close()
    assert not (tmp_path / BALLAST_NAME).exists()


async def test_something_else_in_its_place_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_bytes(b"precious")
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / BALLAST_NAME).symlink_to(target)
    await (await filled(data)).close()
    assert target.read_bytes() == b"precious"
