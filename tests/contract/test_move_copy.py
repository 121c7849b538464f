"""`move_zone` renames in one row; `copy_zone` shares every byte and nothing else."""

from pathlib import Path

import pytest

from filestore import AlreadyExistsError, FileStore, Limits, NotFoundError, Transaction
from tests.conftest import FakeClock, StoreOpener
from tests.contract.tools import noise, size_of, wal_of
from tests.support.child_model import dump


async def fill(store: FileStore, zone: str) -> None:
    """Files of all kinds: written, appended, sealed, empty; with meta."""
    await store.write(zone, "state", noise(100_000))
    await store.append(zone, "log", noise(5000, 1) + b"\nlast")
    await store.tidy()
    await store.append_lines(zone, "log", ["tail", "tail two"])
    await store.append(zone, "tail", b"one\ntwo")
    await store.write(zone, "empty", b"")
    await store.set_meta(zone, "state", {"k": "v"})
    await store.set_meta(zone, None, {"owner": "me"})


@pytest.fixture
async def filled(open_store: StoreOpener, clock: FakeClock) -> FileStore:
    store = await open_store(limits=Limits(seal_bytes=4096), clock=clock)
    await fill(store, "src")
    return store


async def test_move_zone_takes_everything_along(filled: FileStore) -> None:
    before = await dump(filled)
    infos = await filled.files("src")
    await filled.move_zone("src", "dst")
    after = await dump(filled)
    assert after.zones == {"dst": before.zones["src"]}
    assert await filled.zone("src") is None
    assert await filled.files("src") is None
    moved = await filled.files("dst")
    assert moved is not None
    assert infos is not None
    for info, old in zip(moved, infos, strict=True):
        assert (info.version, info.created_ms, info.modified_ms, info.digest) == (
            old.version,
            old.created_ms,
            old.modified_ms,
            old.digest,
        )


async def test_move_zone_then_use_goes_on_under_the_new_name(filled: FileStore) -> None:
    old = await filled.read("src", "log")
    await filled.move_zone("src", "dst")
    span = await filled.append("dst", "log", b"more")
    assert span.offset == len(old)
    await filled.tidy()
    assert await filled.read("dst", "log") == old + b"more"
    with pytest.raises(NotFoundError):
        await filled.read("src", "log")


async def test_move_zone_then_old_name_is_free_for_another(filled: FileStore) -> None:
    moved = await filled.read("src", "state")
    await filled.move_zone("src", "dst")
    span = await filled.append("src", "log", b"new")
    assert span.offset == 0
    assert await filled.read("src", "log") == b"new"
    assert await filled.read("dst", "state") == moved
    assert await filled.stat("src", "state") is None


async def test_move_zone_there_and_back_is_the_same_again(filled: FileStore) -> None:
    before = await dump(filled)
    await filled.move_zone("src", "dst")
    await filled.move_zone("dst", "src")
    assert await dump(filled) == before


@pytest.mark.parametrize("operation", ["move_zone", "copy_zone"])
async def test_target_that_exists_raises_and_changes_nothing(
    filled: FileStore, operation: str
) -> None:
    """Even an empty one, and even the source itself."""
    await filled.write("dst", "f", b"x")
    await filled.delete_file("dst", "f")
    before, position = await dump(filled), filled.position
    for target in ("dst", "src"):
        call = filled.move_zone if operation == "move_zone" else filled.copy_zone
        with pytest.raises(AlreadyExistsError) as caught:
            await call("src", target)
        assert caught.value.zone == target
    assert await dump(filled) == before
    assert filled.position == position


@pytest.mark.parametrize("operation", ["move_zone", "copy_zone"])
async def test_source_that_is_missing_raises_and_makes_nothing(
    store: FileStore, operation: str
) -> None:
    call = store.move_zone if operation == "move_zone" else store.copy_zone
    with pytest.raises(NotFoundError) as caught:
        await call("src", "dst")
    assert caught.value.zone == "src"
    assert await store.zone("dst") is None


async def test_move_zone_of_many_files_writes_next_to_nothing(
    open_store: StoreOpener, database: Path
) -> None:
    """One row, whatever is in the zone."""
    store = await open_store()

    async def unit(tx: Transaction) -> None:
        for number in range(1000):
            await tx.write("src", f"f{number}", b"%d" % number)

    await store.transact(unit)
    await store.tidy()
    before = size_of(wal_of(database))
    await store.move_zone("src", "dst")
    assert size_of(wal_of(database)) - before < 10 * 4120
    assert len(await store.files("dst") or []) == 1000


async def test_copy_zone_gives_an_equal_zone(filled: FileStore) -> None:
    await filled.copy_zone("src", "dst")
    found = await dump(filled)
    assert found.zones["dst"] == found.zones["src"]
    sources, copies = await filled.files("src"), await filled.files("dst")
    assert sources is not None
    assert copies is not None
    for source, copied in zip(sources, copies, strict=True):
        assert copied.version > source.version, "versions are never used twice"
        assert (copied.size, copied.lines, copied.digest) == (
            source.size,
            source.lines,
            source.digest,
        )


async def test_copy_zone_leaves_the_source_as_it_was(filled: FileStore) -> None:
    before = await filled.files("src"), await filled.zone("src")
    await filled.copy_zone("src", "dst")
    assert (await filled.files("src"), await filled.zone("src")) == before


async def test_copy_zone_then_changes_stay_apart(filled: FileStore) -> None:
    before = await dump(filled)
    await filled.copy_zone("src", "dst")
    await filled.append("src", "log", b"only here")
    await filled.write("src", "state", b"other")
    await filled.set_meta("src", "state", {"k": "w"})
    await filled.delete_file("src", "tail")
    await filled.tidy()
    found = await dump(filled)
    assert found.zones["dst"] == before.zones["src"]
    await filled.delete_zone("src")
    await filled.tidy()
    found = await dump(filled)
    assert found.zones == {"dst": before.zones["src"]}
    await filled.append("dst", "tail", b" and on")
    assert await filled.read("dst", "tail") == b"one\ntwo and on"


async def test_copy_zone_copies_no_bytes(open_store: StoreOpener, database: Path) -> None:
    store = await open_store()
    await store.write("src", "f", noise(4 << 20))
    await store.tidy()
    before = size_of(database) + size_of(wal_of(database))
    for number in range(3):
        await store.copy_zone("src", f"dst{number}")
    assert size_of(database) + size_of(wal_of(database)) - before < 400_000
    await store.delete_zone("src")
    await store.tidy()
    assert await store.read("dst2", "f") == noise(4 << 20)


async def test_copy_zone_of_empty_zone_makes_an_empty_zone(store: FileStore) -> None:
    await store.write("src", "f", b"")
    await store.delete_file("src", "f")
    await store.copy_zone("src", "dst")
    assert await store.files("dst") == []


async def test_copy_zone_again_and_again_counts_references_right(filled: FileStore) -> None:
    """The deep check at the end of the test counts them all."""
    names = ["src"]
    for number in range(6):
        await filled.copy_zone(names[number // 2], f"copy{number}")
        names.append(f"copy{number}")
    for name in names[::2]:
        await filled.delete_zone(name)
    await filled.tidy()
    found = await dump(filled)
    assert len({repr(zone) for zone in found.zones.values()}) == 1
    assert sorted(found.zones) == sorted(names[1::2])


async def test_copy_zone_of_unsealed_tails_keeps_lines_and_offsets(store: FileStore) -> None:
    await store.append("src", "f", b"one\n  ")
    await store.append("src", "f", b"two\ntorn")
    await store.copy_zone("src", "dst")
    for zone in ("src", "dst"):
        done = await store.append_lines(zone, "f", [zone])
        assert (done.offset, done.first_line) == (15, 3)
        wanted = [b"one", b"  two", b"torn", zone.encode()]
        assert (await store.read_lines(zone, "f", 0, 9)).lines == wanted


async def test_move_and_copy_after_reopen_are_still_so(
    open_store: StoreOpener, filled: FileStore
) -> None:
    await filled.copy_zone("src", "copy")
    await filled.move_zone("src", "moved")
    before = await dump(filled)
    await filled.close()
    store = await open_store()
    assert await dump(store) == before
    assert sorted(before.zones) == ["copy", "moved"]


async def test_move_chain_in_one_unit_swaps_two_zones(store: FileStore) -> None:
    await store.write("a", "f", b"from a")
    await store.write("b", "f", b"from b")

    async def swap(tx: Transaction) -> None:
        await tx.move_zone("a", "hold")
        await tx.move_zone("b", "a")
        await tx.move_zone("hold", "b")
        assert await tx.read("a", "f") == b"from b"

    await store.transact(swap)
    assert await store.read("a", "f") == b"from b"
    assert await store.read("b", "f") == b"from a"
    assert await store.zone("hold") is None


async def test_copy_zone_in_unit_takes_what_the_unit_did_before(store: FileStore) -> None:
    async def unit(tx: Transaction) -> None:
        await tx.append("src", "f", b"in ")
        await tx.append("src", "f", b"unit")
        await tx.copy_zone("src", "dst")
        await tx.append("src", "f", b" and after")
        assert await tx.read("dst", "f") == b"in unit"

    await store.transact(unit)
    assert await store.read("dst", "f") == b"in unit"
    assert await store.read("src", "f") == b"in unit and after"
    await store.tidy()
    assert await store.read("src", "f") == b"in unit and after"


async def test_copy_zone_in_failed_unit_leaves_tails_as_they_were(store: FileStore) -> None:
    """Copying seals the source's tail; undone, the tail must be there again."""
    await store.append("src", "f", b"tail")

    async def unit(tx: Transaction) -> None:
        await tx.append("src", "f", b" lost")
        await tx.copy_zone("src", "dst")
        raise KeyError

    with pytest.raises(KeyError):
        await store.transact(unit)
    assert await store.zone("dst") is None
    assert await store.read("src", "f") == b"tail"
    assert (await store.append("src", "f", b"!")).offset == 4
    assert await store.read("src", "f") == b"tail!"
