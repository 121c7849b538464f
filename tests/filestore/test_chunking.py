"""Cutting, hashing and packing: nothing is lost, boundaries repeat, and damage is noticed."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filestore.chunking import (
    CODEC_RAW,
    CODEC_ZSTD,
    CUT_BYTES_MAX,
    CUT_BYTES_MIN,
    HASH_BYTES,
    STREAM_LEVEL,
    VALUE_LEVEL,
    FixedCutter,
    Prepared,
    hash_bytes,
    pack,
    prepare,
    split_fixed,
    unpack,
)
from filestore.errors import CorruptionError
from filestore.lines import LineCounter, Open


@st.composite
def values(draw: st.DrawFn) -> bytes:
    """Values of up to about 300 KiB, noisy, repeating or empty."""
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    size = draw(st.sampled_from([0, 1, 100, 4095, 4096, 20_000, 65_536, 65_537, 150_000, 300_000]))
    kind = draw(st.sampled_from(["noise", "zeros", "text"]))
    if kind == "noise":
        return rng.randbytes(size)
    if kind == "zeros":
        return bytes(size)
    line = b'{"node": %d, "state": "waiting"}\n'
    return b"".join(line % rng.randrange(1000) for _ in range(size // 30))[:size]


@st.composite
def edits(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A value and another one that was made from it by a few edits."""
    old = new = draw(values())
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(new)))
        gone = draw(st.sampled_from([0, 1, 50, 5000, 100_000]))
        added = random.Random(at).randbytes(draw(st.sampled_from([0, 1, 13, 3000, 80_000])))
        new = new[:at] + added + new[at + gone :]
    return old, new


def assert_sound(prepared: Prepared, data: bytes) -> None:
    assert b"".join(piece.data for piece in prepared.pieces) == data
    assert prepared.size == len(data)
    assert prepared.digest == hash_bytes(data)
    for piece in prepared.pieces:
        assert piece.digest == hash_bytes(piece.data)
        assert 0 < len(piece.data) <= CUT_BYTES_MAX
        if piece.packed is not None:
            codec, stored = piece.packed
            assert unpack(codec, stored, len(piece.data), piece.digest) == piece.data
    for piece in prepared.pieces[:-1]:
        assert len(piece.data) >= CUT_BYTES_MIN
    counter = LineCounter()
    assert list(prepared.lines_ended) == [counter.feed(piece.data) for piece in prepared.pieces]
    assert prepared.open is counter.state


@given(values())
def test_pieces_of_any_value_join_to_it_within_bounds(data: bytes) -> None:
    assert_sound(prepare(data), data)


@given(edits())
def test_pieces_cut_with_help_of_an_older_value_are_the_same(pair: tuple[bytes, bytes]) -> None:
    """Whatever `like` is: it saves work, and never shows in the result."""
    old, new = pair
    helped = prepare(new, prepare(old))
    assert_sound(helped, new)
    alone = prepare(new)
    assert [piece.digest for piece in helped.pieces] == [piece.digest for piece in alone.pieces]


@given(values(), values())
def test_pieces_cut_with_help_of_another_value_are_the_same(other: bytes, data: bytes) -> None:
    helped = prepare(data, prepare(other))
    assert_sound(helped, data)
    alone = prepare(data)
    assert [piece.digest for piece in helped.pieces] == [piece.digest for piece in alone.pieces]


def test_pieces_after_a_small_edit_are_mostly_the_old_ones() -> None:
    data = random.Random("edit").randbytes(1 << 20)
    old = prepare(data)
    new = prepare(data[:500_000] + b"one node more" + data[500_000:], old)
    known = {piece.digest for piece in old.pieces}
    assert len([piece for piece in new.pieces if piece.digest not in known]) <= 4


def test_pieces_of_noise_are_about_as_large_as_meant() -> None:
    pieces = prepare(random.Random("size").randbytes(4 << 20)).pieces
    assert 8 << 10 < (4 << 20) / len(pieces) < 32 << 10


def test_pieces_of_nothing_are_none() -> None:
    prepared = prepare(b"")
    assert prepared.pieces == []
    assert (prepared.size, prepared.open) == (0, Open.NOTHING)


@given(st.binary(max_size=3000), st.sampled_from([VALUE_LEVEL, STREAM_LEVEL]))
def test_pack_and_unpack_give_the_bytes_back(data: bytes, level: int) -> None:
    codec, stored = pack(data, level)
    assert len(stored) <= len(data)
    assert unpack(codec, stored, len(data), hash_bytes(data)) == data


def test_pack_of_what_compresses_is_smaller_and_of_noise_is_raw() -> None:
    assert pack(b"x" * 10_000, VALUE_LEVEL)[0] == CODEC_ZSTD
    noise = random.Random("noise").randbytes(10_000)
    assert pack(noise, VALUE_LEVEL) == (CODEC_RAW, noise)
    assert pack(b"", VALUE_LEVEL) == (CODEC_RAW, b"")


@pytest.mark.parametrize(
    "data", [b"text " * 40, random.Random("flip").randbytes(200)], ids=["zstd", "raw"]
)
def test_unpack_notices_every_flipped_bit(data: bytes) -> None:
    """In the stored bytes, the size, the hash and the codec."""
    codec, stored = pack(data, VALUE_LEVEL)
    digest = hash_bytes(data)
    for at in range(len(stored)):
        for bit in range(8):
            damaged = bytearray(stored)
            damaged[at] ^= 1 << bit
            assert_refused_or_same(codec, bytes(damaged), len(data), digest, data)
    for at in range(HASH_BYTES):
        damaged = bytearray(digest)
        damaged[at] ^= 1
        with pytest.raises(CorruptionError):
            unpack(codec, stored, len(data), bytes(damaged))
    for size in (0, len(data) - 1, len(data) + 1, 1 << 20):
        with pytest.raises(CorruptionError):
            unpack(codec, stored, size, digest)
    for other in {CODEC_RAW, CODEC_ZSTD, 2, -1, 255} - {codec}:
        with pytest.raises(CorruptionError):
            unpack(other, stored, len(data), digest)


def assert_refused_or_same(
    codec: int, stored: bytes, size: int, digest: bytes, data: bytes
) -> None:
    """A few bits of a zstd frame carry nothing; what comes out is right then."""
    try:
        found = unpack(codec, stored, size, digest)
    except CorruptionError:
        return
    assert found == data


@pytest.mark.parametrize("cut", [0, 1, 10, 50])
def test_unpack_of_truncated_bytes_raises(cut: int) -> None:
    data = b"some text " * 50
    codec, stored = pack(data, STREAM_LEVEL)
    with pytest.raises(CorruptionError):
        unpack(codec, stored[: min(cut, len(stored) - 1)], len(data), hash_bytes(data))


def test_unpack_of_bomb_does_not_make_more_than_its_size() -> None:
    """A frame that claims to be small cannot fill the memory."""
    codec, stored = pack(bytes(1 << 20), STREAM_LEVEL)
    with pytest.raises(CorruptionError):
        unpack(codec, stored, 1000, hash_bytes(bytes(1000)))


def test_unpack_of_what_is_no_bytes_raises() -> None:
    """A flipped type in a row can turn a blob into text or a number."""
    with pytest.raises(CorruptionError):
        unpack(CODEC_RAW, "text", 4, hash_bytes(b"text"))  # type: ignore[arg-type]  # on purpose


@given(st.binary(max_size=500), st.integers(1, 600))
def test_split_fixed_gives_parts_of_one_size_that_join(data: bytes, size: int) -> None:
    parts = split_fixed(data, size)
    assert b"".join(parts) == data
    assert all(len(part) == size for part in parts[:-1])
    assert all(parts)


@given(st.lists(st.binary(max_size=50)), st.integers(1, 120))
def test_bytes_that_come_bit_by_bit_are_cut_as_if_they_came_at_once(
    data: list[bytes], size: int
) -> None:
    cutter = FixedCutter(size)
    parts = [part for bit in data for part in cutter.feed(bit)] + cutter.end()
    assert parts == split_fixed(b"".join(data), size)


def test_bytes_that_come_in_the_right_size_are_not_copied() -> None:
    data = bytes(100)
    assert FixedCutter(100).feed(data)[0] is data


def test_hash_is_blake3() -> None:
    """Part of the format: the published test vector of the empty input."""
    wanted = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert hash_bytes(b"").hex() == wanted
