"""`read_lines` and the line count: what a line is, and finding it by index in any make-up."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from filestore import (
    CorruptionError,
    FileStore,
    InvalidArgumentError,
    Limits,
    LinePage,
    NotFoundError,
    Transaction,
)
from tests.conftest import StoreOpener
from tests.contract.tools import NOT_SPACES, ODD_SPACES, run_sql
from tests.support.child_model import lines_of


async def assert_lines(store: FileStore, zone: str, name: str, data: bytes) -> None:
    """Count and lines are those of the bytes, from every line on."""
    wanted = lines_of(data)
    info = await store.stat(zone, name)
    assert info is not None
    assert info.lines == len(wanted), data
    for start in range(len(wanted) + 2):
        found = await store.read_lines(zone, name, start, len(wanted) + 5)
        assert found == LinePage(wanted[start:], len(wanted)), (start, data)
        one = await store.read_lines(zone, name, start, 1)
        assert one == LinePage(wanted[start : start + 1], len(wanted)), (start, data)


async def append_all(store: FileStore, name: str, pieces: Sequence[bytes]) -> bytes:
    for piece in pieces:
        await store.append("z", name, piece)
    return b"".join(pieces)


SAMPLES = [
    b"",
    b"\n",
    b"\n\n\n",
    b"a",
    b"a\n",
    b"a\nb",
    b"a\n\nb\n",
    b"\na\n",
    b"\n \n\t\na",
    b"a\r\nb\r\n\r\nc",
    b"  \n",
    b"  ",
    b" a \n b ",
    "\u2028\na\u2028b\n\u3000".encode(),
    "\x85\n\xa0\nx\x85".encode(),
    b"\x1c\n\x1d\n\x1e\n\x1f",
    b"\xff\n\xfe",
    b"\xe2\x80\n\xa8",
    b"\x00\n\x00",
]


@pytest.mark.parametrize("data", SAMPLES, ids=repr)
async def test_lines_of_written_file_are_counted_and_found(store: FileStore, data: bytes) -> None:
    await store.write("z", "f", data)
    await assert_lines(store, "z", "f", data)


@pytest.mark.parametrize("data", SAMPLES, ids=repr)
async def test_lines_of_file_appended_byte_by_byte_are_counted_and_found(
    open_store: StoreOpener, data: bytes
) -> None:
    """Each byte an append of its own, looked at in the tail, sealed, and after opening again."""
    limits = Limits(seal_bytes=1)
    store = await open_store(limits=limits)
    await store.append("z", "f", b"")
    for at in range(len(data)):
        await store.append("z", "f", data[at : at + 1])
        await assert_lines(store, "z", "f", data[: at + 1])
    await store.tidy()
    await assert_lines(store, "z", "f", data)
    await store.close()
    store = await open_store(limits=limits)
    await assert_lines(store, "z", "f", data)


@pytest.mark.parametrize("data", SAMPLES, ids=repr)
async def test_lines_of_write_and_append_are_those_of_the_whole(
    store: FileStore, data: bytes
) -> None:
    for at in range(len(data) + 1):
        name = f"f{at}"
        await store.write("z", name, data[:at])
        await store.append("z", name, data[at:])
        await assert_lines(store, "z", name, data)


@pytest.mark.parametrize("space", ODD_SPACES, ids=ascii)
async def test_lines_of_white_space_have_no_number_but_keep_their_bytes(
    store: FileStore, space: str
) -> None:
    data = f"a\n{space}\n{space}{space}\nb\n{space}".encode()
    await store.append("z", "f", data)
    assert await store.read_lines("z", "f", 0, 9) == LinePage([b"a", b"b"], 2)
    assert await store.read_lines("z", "f", 1, 9) == LinePage([b"b"], 2)
    assert await store.read("z", "f") == data


@pytest.mark.parametrize("char", NOT_SPACES, ids=ascii)
async def test_lines_of_what_is_no_white_space_are_numbered(store: FileStore, char: str) -> None:
    raw = char.encode()
    await store.append("z", "f", raw + b"\n" + raw)
    assert await store.read_lines("z", "f", 0, 9) == LinePage([raw, raw], 2)


@pytest.mark.parametrize("space", [c for c in ODD_SPACES if len(c.encode()) > 1], ids=ascii)
@pytest.mark.parametrize("is_sealed", [False, True], ids=["tail", "sealed"])
async def test_lines_of_white_space_split_inside_a_character_have_no_number(
    open_store: StoreOpener, space: str, is_sealed: bool
) -> None:
    """Half a character is text as long as it stands alone; completed, it is a blank line."""
    store = await open_store(limits=Limits(seal_bytes=1))
    raw = space.encode()
    for number, cut in enumerate(range(1, len(raw))):
        name = f"f{number}"
        pieces = [b"a\n ", raw[:cut], raw[cut:], b" \nb\n"]
        data = b""
        for piece in pieces:
            await store.append("z", name, piece)
            data += piece
            if is_sealed:
                await store.tidy()
            await assert_lines(store, "z", name, data)
        assert await store.read_lines("z", name, 0, 9) == LinePage([b"a", b"b"], 2)


async def test_lines_of_half_white_space_then_other_text_are_numbered(store: FileStore) -> None:
    data = await append_all(store, "f", [b"\xe2", b"\x82\xac", b"\n", b"\xe2\x80", b"x\n"])
    await assert_lines(store, "z", "f", data)


async def test_lines_of_blank_start_completed_by_text_are_numbered_once(
    open_store: StoreOpener,
) -> None:
    """The blank beginning lies in another chunk than the text that makes it count."""
    store = await open_store(limits=Limits(seal_bytes=8))
    pieces = [b"one\n", b" " * 20, b"\t\t", b"two", b"\n", b" " * 20, b"\n", b"   ", b"three"]
    data = b""
    for piece in pieces:
        await store.append("z", "f", piece)
        data += piece
        await store.tidy()
        await assert_lines(store, "z", "f", data)


async def test_lines_of_one_long_line_over_many_chunks_are_one(open_store: StoreOpener) -> None:
    store = await open_store(limits=Limits(seal_bytes=64))
    data = await append_all(store, "f", [b"first\n", *[b"x" * 50] * 40, b"\nlast"])
    await store.tidy()
    await assert_lines(store, "z", "f", data)


def random_text(seed: int, count: int) -> bytes:
    """Lines of all lengths, blank ones of all kinds, CRLF, and a torn end."""
    rng = random.Random(seed)
    lines = []
    for number in range(count):
        kind = rng.randrange(12)
        if kind == 0:
            lines.append("".join(rng.choices(ODD_SPACES, k=rng.randrange(4))))
        elif kind == 1:
            lines.append(f"{number}\r")
        elif kind == 2:
            lines.append("\u3000" * rng.randrange(30) + rng.choice(["", "x"]))
        else:
            lines.append(f"{number} " + "y" * rng.randrange(40))
    return "\n".join(lines).encode()


@pytest.mark.parametrize("seed", range(6))
async def test_lines_of_random_pieces_equal_a_plain_split_at_every_range(
    open_store: StoreOpener, seed: int
) -> None:
    """Brute force: all (from_line, limit) over a file of written, sealed and appended parts."""
    rng = random.Random(seed)
    store = await open_store(limits=Limits(seal_bytes=rng.choice([7, 40, 200, 1000])))
    data = random_text(seed, 60)
    cuts = sorted(rng.sample(range(len(data)), 25))
    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    if seed % 2:
        await store.write("z", "f", pieces.pop(0))
    for number, piece in enumerate(pieces):
        await store.append("z", "f", piece)
        if number % 9 == 8:
            await store.tidy()
    wanted = lines_of(data)
    total = len(wanted)

    async def unit(tx: Transaction) -> None:
        for start in range(total + 3):
            for limit in range(total + 3):
                found = await tx.read_lines("z", "f", start, limit)
                assert found == LinePage(wanted[start : start + limit], total), (start, limit)

    await store.transact(unit)
    for start in range(0, total + 2, 7):
        for limit in (0, 1, 2, 10, total + 1):
            found = await store.read_lines("z", "f", start, limit)
            assert found == LinePage(wanted[start : start + limit], total), (start, limit)


async def test_lines_of_ten_thousand_are_found_at_every_boundary(open_store: StoreOpener) -> None:
    """Many list pages of sealed chunks, and a tail; read around every place where chunks meet."""
    store = await open_store(limits=Limits(seal_bytes=1024))
    wanted = [b'{"number": %d, "pad": "%s"}' % (n, b"x" * (n % 50)) for n in range(10_000)]
    starts = []
    for at in range(0, 10_000, 50):
        done = await store.append_lines("z", "f", wanted[at : at + 50])
        assert (done.first_line, done.lines) == (at, 50)
        starts.append(done.first_line)
        if at == 9_000:
            await store.tidy()
    for start in starts:
        for first in {max(0, start - 1), start, start + 1}:
            found = await store.read_lines("z", "f", first, 3)
            assert found == LinePage(wanted[first : first + 3], 10_000)
    assert (await store.read_lines("z", "f", 0, 10_000)).lines == wanted
    await store.tidy()
    for start in starts:
        found = await store.read_lines("z", "f", start, 60)
        assert found.lines == wanted[start : start + 60]


async def test_read_lines_near_the_end_does_not_touch_the_start(
    open_store: StoreOpener, database: Path
) -> None:
    """Proved by damage: with the first chunk broken, only reads that need it fail."""
    limits = Limits(seal_bytes=4096)
    store = await open_store(limits=limits)
    rng = random.Random("lines")
    wanted = [rng.randbytes(30).hex().encode() for _ in range(2000)]
    for at in range(0, 2000, 100):
        await store.append_lines("z", "f", wanted[at : at + 100])
        await store.tidy()
    await store.close()
    damage_first_chunk(database)
    open_store.is_checked = False
    store = await open_store(limits=limits)
    with pytest.raises(CorruptionError) as caught:
        await store.read_lines("z", "f", 0, 1)
    assert (caught.value.zone, caught.value.name) == ("z", "f")
    for first in (1000, 1500, 1999):
        assert await store.read_lines("z", "f", first, 5) == LinePage(
            wanted[first : first + 5], 2000
        )


async def test_read_lines_beyond_the_end_gives_none_and_the_total(store: FileStore) -> None:
    await store.append_lines("z", "f", ["a", "b"])
    for first in (2, 3, 1000, 1 << 70):
        assert await store.read_lines("z", "f", first, 5) == LinePage([], 2)


async def test_read_lines_of_zero_limit_gives_the_total(store: FileStore) -> None:
    await store.append_lines("z", "f", ["a", "b"])
    assert await store.read_lines("z", "f", 0, 0) == LinePage([], 2)


async def test_read_lines_of_empty_file_gives_none(store: FileStore) -> None:
    await store.write("z", "f", b"")
    assert await store.read_lines("z", "f", 0, 5) == LinePage([], 0)


@pytest.mark.parametrize(("first", "limit"), [(-1, 1), (0, -1), (-3, -3)])
async def test_read_lines_of_negative_range_raises(
    store: FileStore, first: int, limit: int
) -> None:
    await store.append_lines("z", "f", ["a"])
    with pytest.raises(InvalidArgumentError):
        await store.read_lines("z", "f", first, limit)


@pytest.mark.parametrize(("zone", "name"), [("z", "missing"), ("missing", "f")])
async def test_read_lines_of_missing_file_raises(store: FileStore, zone: str, name: str) -> None:
    await store.append_lines("z", "f", ["a"])
    with pytest.raises(NotFoundError) as caught:
        await store.read_lines(zone, name, 0, 1)
    assert (caught.value.zone, caught.value.name) == (zone, name)


async def test_read_lines_over_limit_of_store_gives_that_many(open_store: StoreOpener) -> None:
    store = await open_store(limits=Limits(read_lines_max=3))
    await store.append_lines("z", "f", list("abcdef"))
    assert await store.read_lines("z", "f", 1, 100) == LinePage([b"b", b"c", b"d"], 6)


async def test_read_lines_up_to_bytes_stops_there_but_gives_one(store: FileStore) -> None:
    await store.append_lines("z", "f", ["aaaa", "bbbb", "cccc", "dddd"])

    async def read(bytes_max: int) -> list[bytes]:
        return (await store.read_lines("z", "f", 1, 9, bytes_max=bytes_max)).lines

    assert await read(1) == [b"bbbb"]
    assert await read(4) == [b"bbbb"]
    assert await read(7) == [b"bbbb"]
    assert await read(8) == [b"bbbb", b"cccc"]
    assert await read(1000) == [b"bbbb", b"cccc", b"dddd"]


async def test_read_lines_of_large_append_cut_into_chunks_counts_right(
    open_store: StoreOpener,
) -> None:
    """One append larger than a chunk is cut anywhere, also inside lines and white space."""
    store = await open_store(limits=Limits(seal_bytes=64))
    data = b"torn" + random_text(99, 80)
    await store.append("z", "f", b" \t")
    await store.append("z", "f", data)
    await store.tidy()
    await assert_lines(store, "z", "f", b" \t" + data)


async def test_read_lines_of_blank_run_cut_into_chunks_counts_right(
    open_store: StoreOpener,
) -> None:
    """White space over several chunks before, between and after text, cut inside characters."""
    store = await open_store(limits=Limits(seal_bytes=10))
    spaces = "\u3000".encode() * 15
    whole = b""
    for piece in (b" ", spaces + b"\n", spaces + b"x", b"\n" + spaces, spaces, b"\ny" + spaces):
        await store.append("z", "f", piece)
        whole += piece
        await assert_lines(store, "z", "f", whole)
        await store.tidy()
        await assert_lines(store, "z", "f", whole)


def damage_first_chunk(database: Path) -> None:
    run_sql(
        database,
        "UPDATE chunk_data SET data = zeroblob(length(data)) "
        "WHERE id = (SELECT min(id) FROM chunk_data)",
    )
