"""Files with a past, and files built piece by piece: whole or not seen, whatever happens."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from filestore import (
    AlreadyExistsError,
    CorruptionError,
    FileStore,
    InvalidNameError,
    Limits,
    NotFoundError,
    Transaction,
    ledger,
)
from filestore.building import Built
from filestore.check import check
from filestore.chunking import hash_bytes
from filestore.ledger import LedgerRow
from tests.conftest import StoreOpener
from tests.contract.tools import noise
from tests.support.child_model import assert_clean

SMALL = Limits(seal_bytes=4096)


async def pieces(data: bytes, size: int = 3000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def torn(data: bytes) -> AsyncIterator[bytes]:
    """Ends with an error after all of `data`."""
    async for piece in pieces(data):
        yield piece
    raise OSError("torn")


async def counts(store: FileStore) -> tuple[int, int]:
    """How many lists are being built, and how many chunks there are."""
    building = await store.read_unit(lambda tx: tx.fetch("SELECT 1 FROM building"))
    chunks = await store.read_unit(lambda tx: tx.fetch("SELECT 1 FROM chunk"))
    return len(building), len(chunks)


async def name_it(store: FileStore, built: Built, zone: str = "z", name: str = "f") -> None:
    await store.transact(lambda tx: tx.add_file(zone, name, built, created_ms=11, modified_ms=22))


@pytest.mark.parametrize(
    "size", [0, 1, 4095, 4096, 4097, 70_000, 64 * 4096, 64 * 4096 + 1, 900_000]
)
async def test_built_file_has_bytes_lines_times_and_digest(
    open_store: StoreOpener, size: int
) -> None:
    store = await open_store(limits=SMALL)
    data = noise(size)
    await name_it(store, await store.build(pieces(data)))
    info = await store.stat("z", "f")
    assert info is not None
    assert (info.size, info.created_ms, info.modified_ms) == (size, 11, 22)
    assert info.digest == hash_bytes(data).hex()
    assert await store.read("z", "f") == data
    zone = await store.zone("z")
    assert zone is not None
    assert zone.created_ms == 11
    await store.write("z", "same", data)
    same = await store.stat("z", "same")
    assert same is not None
    assert same.lines == info.lines


async def test_built_file_takes_appends(open_store: StoreOpener) -> None:
    store = await open_store(limits=SMALL)
    await name_it(store, await store.build(pieces(b"a\nb\nc" * 5000)))
    await store.append("z", "f", b"d\n" * 4000)
    await store.tidy()
    assert await store.read("z", "f") == b"a\nb\nc" * 5000 + b"d\n" * 4000


async def test_build_without_name_is_seen_by_nobody_and_passes_the_check(
    open_store: StoreOpener,
) -> None:
    store = await open_store(limits=SMALL)
    await store.build(pieces(noise(100_000)))
    assert (await store.zones()).zones == []
    assert (await counts(store))[0] == 1
    await store.tidy()
    await assert_clean(store)
    assert (await counts(store))[1] > 0, "what is being built is not released"


async def test_build_left_behind_is_released_at_the_next_start(
    open_store: StoreOpener, data_dir: Path
) -> None:
    first = await open_store(limits=SMALL)
    built = await first.build(pieces(noise(300_000)))
    await first.close()
    store = await open_store(limits=SMALL)
    again = await store.build(pieces(noise(50_000)))
    await store.tidy()
    assert (await counts(store))[0] == 1, "the one of this start stays"
    with pytest.raises(NotFoundError):
        await name_it(store, built)
    await name_it(store, again)
    assert await store.read("z", "f") == noise(50_000)


async def test_build_that_fails_or_is_given_up_is_released(open_store: StoreOpener) -> None:
    store = await open_store(limits=SMALL)
    with pytest.raises(OSError, match="torn"):
        await store.build(torn(noise(300_000)))
    await store.give_up(await store.build(pieces(noise(200_000))))
    await store.tidy()
    assert await counts(store) == (0, 0)


async def test_add_file_that_exists_is_refused_and_changes_nothing(
    open_store: StoreOpener,
) -> None:
    store = await open_store(limits=SMALL)
    await store.write("z", "f", b"mine")
    built = await store.build(pieces(noise(20_000)))
    with pytest.raises(AlreadyExistsError):
        await name_it(store, built)
    assert await store.read("z", "f") == b"mine"
    await name_it(store, built, name="other")
    with pytest.raises(NotFoundError):
        await name_it(store, built, name="twice")
    with pytest.raises(InvalidNameError):
        await name_it(store, built, name="a\nb")


async def test_added_file_keeps_meta_and_zone_keeps_its_own_time(open_store: StoreOpener) -> None:
    store = await open_store()
    await store.write("z", "first", b"x")
    before = await store.zone("z")
    prepared = await store.prepare_stream(b"one\ntwo\n")

    async def unit(tx: Transaction) -> None:
        await tx.add_file("z", "f", prepared, created_ms=1, modified_ms=2, meta={"b": 1, "a": [2]})

    await store.transact(unit)
    info = await store.stat("z", "f")
    assert info is not None
    assert (info.meta, info.lines) == ({"a": [2], "b": 1}, 2)
    assert await store.zone("z") == before


async def test_damaged_row_of_the_ledger_is_found_by_the_check(open_store: StoreOpener) -> None:
    open_store.is_checked = False
    store = await open_store()
    row = LedgerRow("source", "zone", "name", 1, 2, "imported")
    await store.transact(lambda tx: ledger.save(tx.rows, row))
    assert (await check(store)).is_clean
    await store.transact(lambda tx: tx.rows.execute("UPDATE ledger SET outcome = 'other'"))
    assert "ledger's row for 'zone'/'name'" in str((await check(store)).problems[0])
    with pytest.raises(CorruptionError):
        await store.view(lambda tx: ledger.load(tx.rows, "source", "zone"))


async def test_damaged_note_of_a_build_is_found_by_the_check(open_store: StoreOpener) -> None:
    open_store.is_checked = False
    store = await open_store(limits=SMALL)
    await store.build(pieces(noise(20_000)))
    await store.transact(lambda tx: tx.rows.execute("UPDATE building SET pages = pages + 1"))
    report = await check(store)
    assert "unfinished file" in str(report.problems[0])
