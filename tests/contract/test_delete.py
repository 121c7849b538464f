"""`delete_file` and `delete_zone`: gone at once, space back in the background."""

from pathlib import Path

import pytest

from filestore import FileStore, Limits, NotFoundError, Transaction
from tests.conftest import FakeClock, StoreOpener
from tests.contract.tools import noise, query, size_of
from tests.support.child_model import dump

MIB = 1 << 20


async def test_delete_file_that_exists_is_true_and_gone(store: FileStore) -> None:
    await store.write("z", "f", b"x")
    await store.append("z", "g", b"y")
    assert await store.delete_file("z", "f") is True
    assert await store.stat("z", "f") is None
    assert [info.name for info in await store.files("z") or []] == ["g"]
    assert await store.delete_file("z", "f") is False


@pytest.mark.parametrize("zone", ["z", "missing"])
async def test_delete_file_that_is_missing_is_false_and_changes_nothing(
    store: FileStore, zone: str
) -> None:
    await store.write("z", "f", b"x")
    position, before = store.position, await dump(store)
    assert await store.delete_file(zone, "other") is False
    assert store.position == position
    assert await dump(store) == before


async def test_delete_file_keeps_the_zone_and_its_meta(store: FileStore) -> None:
    await store.write("z", "f", b"x")
    await store.set_meta("z", None, {"k": 1})
    await store.delete_file("z", "f")
    zone = await store.zone("z")
    assert zone is not None
    assert zone.meta == {"k": 1}


async def test_delete_file_then_write_is_a_new_file(
    open_store: StoreOpener, clock: FakeClock
) -> None:
    store = await open_store(clock=clock)
    await store.append("z", "f", b"old content")
    await store.set_meta("z", "f", {"old": True})
    await store.delete_file("z", "f")
    clock.now_ms += 9
    span = await store.append("z", "f", b"new")
    assert (span.offset, span.size) == (0, 3)
    info = await store.stat("z", "f")
    assert info is not None
    assert info.meta == {}
    assert info.created_ms == clock.now_ms
    assert await store.read("z", "f") == b"new"


async def test_delete_zone_that_exists_is_true_and_all_gone(store: FileStore) -> None:
    await store.write("z", "f", noise(100_000))
    await store.append("z", "g", b"y")
    await store.write("z2", "f", b"stays")
    assert await store.delete_zone("z") is True
    assert await store.zone("z") is None
    assert await store.files("z") is None
    with pytest.raises(NotFoundError):
        await store.read("z", "g")
    assert [zone.name for zone in (await store.zones()).zones] == ["z2"]
    assert await store.delete_zone("z") is False
    assert await store.read("z2", "f") == b"stays"


async def test_delete_zone_that_is_missing_is_false_and_changes_nothing(store: FileStore) -> None:
    await store.write("z", "f", b"x")
    position = store.position
    assert await store.delete_zone("missing") is False
    assert store.position == position


async def test_delete_zone_then_use_makes_a_new_zone(store: FileStore) -> None:
    await store.write("z", "f", b"x")
    await store.set_meta("z", None, {"old": True})
    old = await store.zone("z")
    await store.delete_zone("z")
    await store.append("z", "g", b"y")
    new = await store.zone("z")
    assert old is not None
    assert new is not None
    assert new.meta == {}
    assert new.version > old.version
    assert await store.stat("z", "f") is None


async def test_delete_of_shared_content_leaves_the_other_file_whole(store: FileStore) -> None:
    data = noise(300_000)
    for name in ("a", "b", "c"):
        await store.write("z", name, data)
    await store.append("z", "d", data)
    await store.tidy()
    for name in ("a", "c", "d"):
        await store.delete_file("z", name)
        await store.tidy()
        assert await store.read("z", "b") == data


async def test_delete_after_reopen_stays_deleted(open_store: StoreOpener) -> None:
    """Also when the store was closed before the space came back."""
    store = await open_store()
    await store.write("z", "f", noise(500_000))
    await store.append("z", "g", b"tail")
    await store.write("z", "h", b"stays")
    await store.delete_file("z", "f")
    await store.delete_file("z", "g")
    await store.close()
    store = await open_store()
    assert [info.name for info in await store.files("z") or []] == ["h"]
    await store.tidy()
    assert await store.read("z", "h") == b"stays"


async def test_delete_releases_every_chunk_and_list(
    open_store: StoreOpener, database: Path
) -> None:
    store = await open_store(limits=Limits(seal_bytes=4096))
    await store.write("z", "f", noise(2 * MIB))
    for seed in range(20):
        await store.append("z", "log", noise(3000, seed))
    await store.tidy()
    await store.delete_zone("z")
    await store.tidy()
    await store.close()
    for table in ("zone", "file", "list", "chunk", "chunk_data", "released"):
        assert query(database, f"SELECT count(*) FROM {table}") == [(0,)], table


async def test_delete_then_write_uses_the_space_again(
    open_store: StoreOpener, database: Path
) -> None:
    store = await open_store()
    await store.write("z", "f", noise(4 * MIB))
    await store.tidy()
    await store.close()
    before = size_of(database)
    store = await open_store()
    for seed in range(1, 5):
        await store.delete_file("z", "f")
        await store.tidy()
        await store.write("z", "f", noise(4 * MIB, seed))
    await store.tidy()
    await store.close()
    assert size_of(database) < before + MIB


async def test_delete_of_many_mebibytes_gives_the_space_back(
    open_store: StoreOpener, database: Path
) -> None:
    """A store that has become mostly free space shrinks on disk."""
    store = await open_store(sync="normal")
    await store.write("z", "keep", b"stays")
    await store.write("z", "f", noise(24 * MIB))
    await store.tidy()
    await store.close()
    assert size_of(database) > 24 * MIB
    store = await open_store(sync="normal")
    await store.delete_file("z", "f")
    await store.tidy()
    assert await store.read("z", "keep") == b"stays"
    await store.close()
    assert size_of(database) < 18 * MIB


async def test_replaced_content_is_released_too(open_store: StoreOpener, database: Path) -> None:
    store = await open_store()
    for seed in range(8):
        await store.write("z", "f", noise(MIB, seed))
        await store.tidy()
    await store.close()
    (row,) = query(database, "SELECT sum(size) FROM chunk")
    assert row == (MIB,)


async def test_delete_in_failed_unit_leaves_everything(store: FileStore) -> None:
    await store.write("z", "f", noise(100_000))
    await store.append("z", "g", b"tail")
    before = await dump(store)

    async def unit(tx: Transaction) -> None:
        assert await tx.delete_file("z", "g")
        assert await tx.delete_zone("z")
        assert await tx.zone("z") is None
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        await store.transact(unit)
    assert await dump(store) == before
    await store.tidy()
    assert await dump(store) == before


async def test_delete_and_write_again_in_one_unit_keeps_the_new(store: FileStore) -> None:
    await store.append("z", "f", b"old")
    await store.write("z", "g", noise(100_000))

    async def unit(tx: Transaction) -> None:
        await tx.delete_file("z", "f")
        with pytest.raises(NotFoundError):
            await tx.read("z", "f")
        await tx.append("z", "f", b"new")
        await tx.delete_zone("z")
        assert await tx.stat("z", "f") is None
        await tx.append("z", "f", b"newest")

    await store.transact(unit)
    await store.tidy()
    found = await dump(store)
    assert list(found.zones["z"].files) == ["f"]
    assert found.zones["z"].files["f"].data == b"newest"
