"""Damage stays where it is: one damaged file neither stops the others, nor the background work, nor
what would mend it; and what is whole is never called damaged."""

import asyncio
from pathlib import Path

import pytest

from filestore import BusyError, CorruptionError, FileStore, Limits, Transaction
from filestore.check import check
from filestore.chunking import make_piece, unpack
from filestore.engine import writer_tx
from tests.conftest import StoreOpener
from tests.contract.tools import WAIT_S_MAX, overwrite, query, run_sql

SMALL = Limits(seal_bytes=4096, log_bytes_soft=16_384, log_bytes_hard=65_536)
"""Bounds that a few hundred appends would break if nothing was trimmed."""


@pytest.fixture
def small_trims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the log shrink in small steps, as fits the small bounds."""
    monkeypatch.setattr(writer_tx, "TRIM_BYTES_MIN", 4096)


def damage_log(database: Path, data: bytes) -> None:
    """Change a byte of the appended `data`, which must be in the log once."""
    rows = query(database, "SELECT seq, data FROM log")
    (found,) = [(seq, row) for seq, row in rows if isinstance(row, bytes) and data in row]
    seq, row = found
    changed = row.replace(data, bytes([data[0] ^ 1]) + data[1:])
    run_sql(database, ("UPDATE log SET data = ? WHERE seq = ?", (changed, seq)))


async def tidy(store: FileStore) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        await store.tidy()


async def pump(store: FileStore, zone: str, name: str) -> None:
    """Append three times what the log may hold; BusyError if it does not shrink."""
    for number in range(400):
        await store.append(zone, name, b"x" * 500)
        if number % 20 == 19:
            await tidy(store)


async def crowd(store: FileStore) -> None:
    """Fill the log with many small tails, so that the oldest are sealed to let it shrink."""
    for number in range(40):
        await store.append("crowd", f"stream {number}", b"x" * 500)
    await tidy(store)


async def sealed_bytes(store: FileStore, name: str) -> int:
    """How much of a file is in chunks."""
    ((size,),) = await store.read_unit(
        lambda tx: tx.fetch("SELECT size FROM file WHERE name = ?", (name,))
    )
    found: int = size
    return found


@pytest.mark.usefixtures("small_trims")
async def test_damaged_append_of_one_file_lets_all_others_write_on(
    open_store: StoreOpener, database: Path
) -> None:
    """Its rows stay, as the evidence of what was lost; the log shrinks around them."""
    open_store.is_checked = False
    store = await open_store(limits=SMALL)
    await store.append("z", "old", b"A" * 100)
    await store.append("z", "old", b"B" * 100)
    await store.close()
    damage_log(database, b"B" * 100)
    store = await open_store(limits=SMALL)
    await pump(store, "other", "stream")
    assert await store.read("other", "stream") == b"x" * 500 * 400
    await store.write("third", "file", b"hello")
    with pytest.raises(CorruptionError):
        await store.read("z", "old")
    assert [problem.name for problem in (await check(store)).problems] == ["old"]


async def stream_behind_a_damaged_chunk(open_store: StoreOpener, database: Path) -> FileStore:
    """A store with a file whose only chunk is damaged, and an append behind that."""
    store = await open_store(limits=SMALL)
    await store.write("z", "s", b"A" * 100)
    await store.close()
    run_sql(database, "UPDATE chunk_data SET data = x'00'")
    store = await open_store(limits=SMALL)
    await store.append("z", "s", b"small tail " * 8)
    return store


@pytest.mark.usefixtures("small_trims")
async def test_damaged_chunk_before_a_tail_lets_all_others_write_on(
    open_store: StoreOpener, database: Path
) -> None:
    open_store.is_checked = False
    store = await stream_behind_a_damaged_chunk(open_store, database)
    await crowd(store)
    assert await sealed_bytes(store, "s") == 188, "the tail is not damaged"
    await pump(store, "other", "stream")
    with pytest.raises(CorruptionError):
        await store.read("z", "s")
    assert await store.read("z", "s", 100) == b"small tail " * 8
    assert await store.delete_file("z", "s")
    await tidy(store)
    assert (await check(store, deep=True)).problems == []


@pytest.mark.usefixtures("small_trims")
async def test_damaged_file_that_was_replaced_is_sealed_again(
    open_store: StoreOpener, database: Path
) -> None:
    store = await stream_behind_a_damaged_chunk(open_store, database)
    await crowd(store)
    await pump(store, "other", "stream")
    await store.write("z", "s", b"healed")
    await pump(store, "z", "s")
    await pump(store, "other", "stream")
    assert await store.read("z", "s") == b"healed" + b"x" * 500 * 400


@pytest.mark.usefixtures("small_trims")
async def test_file_with_damaged_appends_that_was_replaced_is_sealed_again(
    open_store: StoreOpener, database: Path
) -> None:
    store = await open_store(limits=SMALL)
    await store.append("z", "s", b"A" * 100)
    await store.append("z", "s", b"B" * 100)
    await store.close()
    damage_log(database, b"B" * 100)
    store = await open_store(limits=SMALL)
    await crowd(store)
    assert await sealed_bytes(store, "s") == 0, "it was tried, and cannot be done"
    await store.write("z", "s", b"healed")
    await pump(store, "z", "s")
    assert await store.read("z", "s") == b"healed" + b"x" * 500 * 400


async def test_damaged_record_that_counts_no_more_leaves_its_file_whole(
    open_store: StoreOpener, database: Path
) -> None:
    """The row's number is past the version that the file was sealed at."""
    store = await open_store()

    async def append_both(tx: Transaction) -> None:
        await tx.append("z", "a", b"A" * 100)
        await tx.append("z", "b", b"B" * 100)

    await store.transact(append_both)
    await store.copy_zone("z", "copy")
    await store.close()
    damage_log(database, b"A" * 100)
    store = await open_store()
    assert await store.read("z", "a") == b"A" * 100
    assert await store.read("z", "b") == b"B" * 100
    assert (await store.append("z", "a", b"more")).offset == 100


# -- damaged chunks


def test_chunk_with_any_bit_of_its_frame_header_flipped_is_damaged_or_the_same() -> None:
    """A size in it that is damaged and huge must not be allocated."""
    piece = make_piece(b"hello world " * 2000, 1)
    codec, stored = piece.packed
    told = 0
    for at in range(14):
        for bit in range(8):
            damaged = bytearray(stored)
            damaged[at] ^= 1 << bit
            try:
                data = unpack(codec, bytes(damaged), len(piece.data), piece.digest)
            except CorruptionError:
                told += 1
            else:
                assert data == piece.data
    assert told > 100


@pytest.mark.usefixtures("small_trims")
async def test_chunk_that_claims_a_huge_size_stops_no_background_work(
    open_store: StoreOpener, database: Path
) -> None:
    open_store.is_checked = False
    store = await open_store(limits=SMALL)
    await store.write("z", "s", b"hello world " * 100)
    await store.close()
    ((stored,),) = query(database, "SELECT data FROM chunk_data")
    assert isinstance(stored, bytes)
    damaged = stored[:4] + bytes([stored[4] ^ 0x80]) + stored[5:]
    run_sql(database, ("UPDATE chunk_data SET data = ?", (damaged,)))
    store = await open_store(limits=SMALL)
    with pytest.raises(CorruptionError):
        await store.read("z", "s")
    problems = (await check(store, deep=True)).problems
    assert [(problem.name, problem.offset) for problem in problems] == [("s", 0)]
    await store.append("z", "s", b"x" * 600)
    await pump(store, "other", "stream")
    assert await store.read("z", "s", 1200) == b"x" * 600


@pytest.mark.parametrize("size", [99, 100])
async def test_damaged_stream_is_replaced_by_other_bytes_of_any_size(
    open_store: StoreOpener, database: Path, size: int
) -> None:
    store = await open_store(limits=Limits(seal_bytes=100))
    await store.append("z", "stream", b"A" * 100)
    await store.tidy()
    await store.close()
    run_sql(database, "UPDATE chunk_data SET data = x'00'")
    store = await open_store()
    assert not (await store.write("z", "stream", b"B" * size)).unchanged
    assert await store.read("z", "stream") == b"B" * size


# -- what is no damage


async def test_seal_bytes_beyond_the_largest_chunk_leave_line_counts_right(
    open_store: StoreOpener,
) -> None:
    """A small chunk is joined only with what fits beside it in one chunk."""
    store = await open_store(limits=Limits(seal_bytes=4 << 20, log_bytes_soft=1 << 10))
    await store.append("z", "s", b"\none\ntwo\nthree ")
    for _ in range(3):
        await store.append("other", "stream", b"x" * 1000)
    await store.tidy()
    await store.append("z", "s", (b"w" * 99 + b"\n") * 15_000)
    for _ in range(3):
        await store.append("other", "stream", b"x" * 1000)
    await store.tidy()
    page = await store.read_lines("z", "s", 2, 2)
    assert page.total == 15_002
    assert page.lines == [b"three " + b"w" * 99, b"w" * 99]
    assert (await check(store, deep=True)).problems == []


DAMAGE_LIST = (
    "UPDATE list SET entries = zeroblob(length(entries)) "
    "WHERE id >> 20 = (SELECT id FROM file WHERE name = 's')"
)


@pytest.mark.usefixtures("small_trims")
async def test_stream_with_a_damaged_list_that_goes_on_lets_all_others_write_on(
    open_store: StoreOpener, database: Path
) -> None:
    """Its appends can never be sealed: it is refused more of them before they fill the log."""
    open_store.is_checked = False
    store = await open_store(limits=SMALL)
    await store.append("z", "s", b"A" * 9000)
    await tidy(store)
    await store.close()
    run_sql(database, DAMAGE_LIST)
    for _ in range(2):  # a restart changes nothing
        store = await open_store(limits=SMALL)
        with pytest.raises(CorruptionError) as caught:
            await pump(store, "z", "s")
        assert (caught.value.zone, caught.value.name) == ("z", "s")
        await pump(store, "other", "stream")
        info = await store.stat("z", "s")
        assert info is not None
        assert info.size == caught.value.offset
        appended = await store.read("z", "s", 9000)
        assert appended == b"x" * (info.size - 9000), "what was taken is kept, and read"
        assert len(appended) >= 500
        await store.close()
    store = await open_store(limits=SMALL)
    assert await store.delete_file("z", "s")
    await pump(store, "z", "s")
    assert await store.read("z", "s") == b"x" * 500 * 400


async def test_file_with_a_damaged_list_is_mended_by_a_write(
    open_store: StoreOpener, database: Path
) -> None:
    """What is left of the old list is told of by the check until a repair."""
    open_store.is_checked = False
    store = await open_store()
    await store.write("z", "s", b"old")
    await store.set_meta("z", "s", {"kind": "state"})
    before = await store.stat("z", "s")
    assert before is not None
    await store.close()
    run_sql(database, DAMAGE_LIST)
    store = await open_store()
    with pytest.raises(CorruptionError):
        await store.read("z", "s")
    done = await store.write("z", "s", b"new", if_version=before.version)
    assert done.version > before.version
    assert (done.created_ms, done.meta) == (before.created_ms, {"kind": "state"})
    assert (await store.append("z", "s", b"er")).offset == 3
    await tidy(store)
    assert await store.read("z", "s") == b"newer"
    (problem,) = (await check(store, deep=True)).problems
    assert "deleted" in problem.message


@pytest.mark.usefixtures("small_trims")
async def test_damaged_index_of_chunks_is_told_as_damage_not_as_busy(
    open_store: StoreOpener, database: Path
) -> None:
    """Nothing can be sealed any more. The log is bounded all the same, over many streams."""
    open_store.is_checked = False
    store = await open_store(limits=SMALL)
    await store.append("z", "s", b"A" * 9000)
    await tidy(store)
    await store.close()
    ((page, size),) = query(
        database,
        "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size "
        "WHERE name = 'sqlite_autoindex_chunk_1'",
    )
    assert isinstance(page, int)
    assert isinstance(size, int)
    overwrite(database, (page - 1) * size, bytes(size))
    store = await open_store(limits=SMALL)
    with pytest.raises(CorruptionError):
        await pump(store, "z", "s")
    assert len(await store.read("z", "s", 9000)) >= 500
    for number in range(8):
        with pytest.raises((CorruptionError, BusyError)):
            await pump(store, "other", f"stream {number}")
    ((logged,),) = await store.read_unit(lambda tx: tx.fetch("SELECT sum(length(data)) FROM log"))
    assert logged < 3 * SMALL.log_bytes_hard
