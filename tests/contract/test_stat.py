"""`stat`, `files` and `zone`: what is known of a file and a zone, or None."""

import pytest
from blake3 import blake3

from filestore import FileInfo, FileStore, Limits, Transaction, ZoneInfo
from tests.conftest import FakeClock, StoreOpener
from tests.contract.tools import noise


async def test_stat_of_missing_file_or_zone_is_none(store: FileStore) -> None:
    assert await store.stat("z", "f") is None
    await store.write("z", "f", b"x")
    assert await store.stat("z", "other") is None
    assert await store.stat("other", "f") is None


async def test_stat_after_write_and_append_tells_everything(
    open_store: StoreOpener, clock: FakeClock
) -> None:
    store = await open_store(clock=clock)
    made = clock.now_ms
    written = await store.write("z", "f", b"one\ntwo\n")
    await store.set_meta("z", "f", {"a": 1})
    clock.now_ms += 10
    appended = await store.append("z", "f", b"\n\nthree")
    assert await store.stat("z", "f") == FileInfo(
        zone="z",
        name="f",
        size=15,
        lines=3,
        version=appended.version,
        created_ms=made,
        modified_ms=made + 10,
        meta={"a": 1},
        digest=None,
        unchanged=False,
    )
    assert appended.version > written.version


@pytest.mark.parametrize("is_sealed", [False, True])
async def test_stat_before_and_after_sealing_and_reopen_is_the_same(
    open_store: StoreOpener, is_sealed: bool
) -> None:
    """Where the bytes lie is nobody's business: no field may show it."""
    limits = Limits(seal_bytes=100 if is_sealed else 1 << 20)
    store = await open_store(limits=limits)
    await store.write("z", "f", noise(5000))
    for seed in range(10):
        await store.append("z", "f", noise(90, seed) + b"\n")
    await store.set_meta("z", "f", {"k": "v"})
    before = await store.stat("z", "f")
    assert before is not None
    await store.tidy()
    assert await store.stat("z", "f") == before
    await store.close()
    store = await open_store(limits=limits)
    assert await store.stat("z", "f") == before
    assert await store.files("z") == [before]


async def test_stat_digest_comes_with_write_and_goes_with_append(store: FileStore) -> None:
    async def digest() -> str | None:
        info = await store.stat("z", "f")
        assert info is not None
        return info.digest

    await store.append("z", "f", b"a")
    assert await digest() is None
    await store.write("z", "f", b"b")
    assert await digest() == blake3(b"b").hexdigest()
    await store.set_meta("z", "f", {"x": 1})
    assert await digest() == blake3(b"b").hexdigest()
    await store.append("z", "f", b"c")
    assert await digest() is None


async def test_files_of_missing_zone_is_none(store: FileStore) -> None:
    assert await store.files("z") is None


async def test_files_of_zone_are_all_in_name_order(store: FileStore) -> None:
    """By code points: upper before lower case, astral characters last, no locale."""
    names = ["b", "a", "B", "é", "z", "\U0001f600", "\uffe6", "a b", "a.b", "10", "9"]
    for name in names:
        await store.append("z", name, name.encode())
    await store.write("other", "f", b"x")
    infos = await store.files("z")
    assert infos is not None
    assert [info.name for info in infos] == sorted(names)
    for info in infos:
        assert info == await store.stat("z", info.name)


async def test_files_of_zone_emptied_is_an_empty_list(store: FileStore) -> None:
    await store.write("z", "f", b"x")
    await store.delete_file("z", "f")
    assert await store.files("z") == []
    assert await store.zone("z") is not None


async def test_zone_of_missing_zone_is_none(store: FileStore) -> None:
    assert await store.zone("z") is None


async def test_zone_tells_name_version_time_and_meta(
    open_store: StoreOpener, clock: FakeClock
) -> None:
    store = await open_store(clock=clock)
    made = clock.now_ms
    await store.write("z", "f", b"x")
    clock.now_ms += 10
    await store.set_meta("z", None, {"owner": "me"})
    await store.write("z", "g", b"y")
    zone = await store.zone("z")
    assert zone is not None
    assert zone == ZoneInfo("z", zone.version, made, {"owner": "me"})


async def test_zone_version_stays_when_only_its_files_change(store: FileStore) -> None:
    await store.write("z", "f", b"x")
    before = await store.zone("z")
    await store.write("z", "f", b"y")
    await store.append("z", "g", b"y")
    await store.delete_file("z", "f")
    assert await store.zone("z") == before


async def test_zone_version_rises_when_it_is_moved_or_gets_other_meta(store: FileStore) -> None:
    async def version(zone: str) -> int:
        info = await store.zone(zone)
        assert info is not None
        return info.version

    await store.write("z", "f", b"x")
    seen = [await version("z")]
    await store.set_meta("z", None, {"a": 1})
    seen.append(await version("z"))
    await store.move_zone("z", "y")
    seen.append(await version("y"))
    assert seen == sorted(set(seen))


async def test_stat_inside_unit_sees_what_the_unit_did(store: FileStore) -> None:
    async def unit(tx: Transaction) -> None:
        assert await tx.stat("z", "f") is None
        assert await tx.files("z") is None
        written = await tx.write("z", "f", b"one\n")
        assert await tx.stat("z", "f") == written
        appended = await tx.append("z", "f", b"two\n")
        info = await tx.stat("z", "f")
        assert info is not None
        assert (info.size, info.lines, info.version) == (8, 2, appended.version)
        assert await tx.files("z") == [info]
        zone = await tx.zone("z")
        assert zone is not None
        assert (await tx.zones()).zones == [zone]

    await store.transact(unit)
