"""Cutting values into chunks, hashing and packing them. Pure: no database, no clock.

A value is cut at content-defined boundaries (about 16 KiB), so that an edit changes only the chunks
it touches. A cut depends on nothing but the bytes since the previous cut; therefore `cut` may take
over the pieces of an earlier cut of similar bytes wherever they match, and looks only at the rest.
That makes saving a snapshot that grew by one node a matter of comparing memory.

Where the boundaries lie is not part of any format: another cutter reads old data just as well.
"""

import threading
from collections.abc import AsyncIterable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import zstandard
from blake3 import blake3

from filestore.errors import CorruptionError
from filestore.lines import LineCounter, Open
from filestore.model import PIECE_BYTES_MAX

if TYPE_CHECKING:
    from pyfastcdc import FastCDC

HASH_BYTES = 32
CODEC_RAW = 0
CODEC_ZSTD = 1

CUT_BYTES_MIN = 4 << 10
CUT_BYTES_AVG = 16 << 10
CUT_BYTES_MAX = 64 << 10
VALUE_LEVEL = 1
"""zstd level for parts of values: they are waited for and often soon replaced."""
STREAM_LEVEL = 3
"""zstd level for parts of streams: they are packed in the background and stay."""
RESYNC_PIECES = 8
"""After an edit, look this many old pieces ahead for where old and new run together again."""


class _Unpackers(threading.local):
    """A decompressor a thread: to make one takes as long as a chunk, to share one is wrong."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdDecompressor()


_UNPACKERS = _Unpackers()


@cache
def _cutter() -> "FastCDC":
    """What finds the boundaries. Imported when it is wanted: who only reads must not wait."""
    from pyfastcdc import FastCDC

    return FastCDC(CUT_BYTES_AVG, min_size=CUT_BYTES_MIN, max_size=CUT_BYTES_MAX)


def hash_bytes(data: bytes, *, max_threads: int = 1) -> bytes:
    """BLAKE3 of plain bytes: the address of a chunk, the digest of a value."""
    return blake3(data, max_threads=max_threads).digest()


async def hash_pieces(pieces: AsyncIterable[bytes]) -> str:
    """The hex BLAKE3 of bytes that come in pieces."""
    hasher = blake3()
    async for piece in pieces:
        hasher.update(piece)
    return hasher.hexdigest()


def pack(data: bytes, level: int) -> tuple[int, bytes]:
    """Compress `data` if that saves anything worth having. Returns codec and stored bytes."""
    packed = zstandard.ZstdCompressor(level=level).compress(data)
    if len(packed) < len(data) - len(data) // 16:
        return CODEC_ZSTD, packed
    return CODEC_RAW, data


def unpack(codec: int, stored: bytes, size: int, digest: bytes) -> bytes:
    """Give back the plain bytes, verified against size and hash, or raise CorruptionError."""
    assert size <= PIECE_BYTES_MAX, size
    if not isinstance(stored, bytes):
        raise CorruptionError("chunk has no bytes")
    if codec == CODEC_ZSTD:
        try:
            # Before anything is allocated: the frame's own size might be damaged and huge.
            if zstandard.frame_content_size(stored) != size:
                raise CorruptionError("chunk has another size")
            data = _UNPACKERS.zstd.decompress(stored, max_output_size=size)
        except zstandard.ZstdError as error:
            raise CorruptionError(f"chunk does not decompress ({error})") from error
    elif codec == CODEC_RAW:
        data = stored
    else:
        raise CorruptionError(f"chunk has unknown codec {codec}")
    if len(data) != size or hash_bytes(data) != digest:
        raise CorruptionError("chunk does not match its hash")
    return data


@dataclass(frozen=True, slots=True)
class Piece:
    """One chunk to be: plain bytes, their hash, codec and stored bytes."""

    data: bytes
    digest: bytes
    packed: tuple[int, bytes]
    has_break: bool
    """Whether a line ends in it; known, so that counting lines again need not look at it."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A value ready to be written: cut, hashed, compressed. Valid for any file, any time."""

    pieces: Sequence[Piece]
    lines_ended: Sequence[int]
    """For each piece, how many lines end in it."""
    open: Open
    size: int
    digest: bytes


def make_piece(data: bytes, level: int) -> Piece:
    """Hash and compress the bytes of one chunk."""
    return Piece(data, hash_bytes(data), pack(data, level), b"\n" in data)


def prepare(data: bytes, like: Prepared | None = None) -> Prepared:
    """Cut, hash and compress `data`. `like`: an earlier value of the same file, to save work."""
    pieces = _cut(data, like.pieces if like else ())
    ended, state = count_lines(pieces, LineCounter())
    return Prepared(pieces, ended, state, len(data), hash_bytes(data, max_threads=blake3.AUTO))


def prepare_stream(chunks: Sequence[bytes]) -> Prepared:
    """The same for bytes that stay as they are, and are cut already, like those of a stream."""
    hasher = blake3()
    for chunk in chunks:
        hasher.update(chunk)
    pieces = [make_piece(chunk, VALUE_LEVEL) for chunk in chunks]
    ended, state = count_lines(pieces, LineCounter())
    return Prepared(pieces, ended, state, sum(map(len, chunks)), hasher.digest())


def count_lines(pieces: Iterable[Piece], counter: LineCounter) -> tuple[list[int], Open]:
    """How many lines end in each piece, and what is open after the last."""
    ended: list[int] = []
    for piece in pieces:
        # In the middle of a long line there is nothing to find.
        is_inside = counter.state is Open.TEXT and not piece.has_break
        ended.append(0 if is_inside else counter.feed(piece.data))
    return ended, counter.state


def _cut(data: bytes, old: Sequence[Piece]) -> list[Piece]:
    pieces: list[Piece] = []
    offset, old_at = 0, 0
    view = memoryview(data)
    while offset < len(data):
        found = _resync(data, offset, old, old_at)
        if found is not None:
            piece, old_at = old[found], found + 1
        else:
            window = view[offset : offset + CUT_BYTES_MAX]
            length = next(iter(_cutter().cut_buf(window))).length
            raw = data[offset : offset + length]
            piece = make_piece(raw, VALUE_LEVEL)
        pieces.append(piece)
        offset += len(piece.data)
    return pieces


def _resync(data: bytes, offset: int, old: Sequence[Piece], old_at: int) -> int | None:
    """Find an old piece that stands at `offset` too. startswith compares without a copy."""
    for index in range(old_at, min(old_at + RESYNC_PIECES, len(old))):
        piece = old[index]
        if data.startswith(piece.data, offset):
            is_last = index == len(old) - 1
            # The last old piece ended with its value, not at a boundary of the content.
            if is_last and offset + len(piece.data) != len(data):
                return None
            return index
    return None


def split_fixed(data: bytes, size: int) -> list[bytes]:
    """Cut stream bytes into pieces of `size`. Streams do not shift, so plain cuts serve."""
    return [data[start : start + size] for start in range(0, len(data), size)]


class FixedCutter:
    """The same for bytes that come bit by bit. What comes in pieces of `size` is not copied."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: list[bytes] = []
        self._bytes = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The pieces that are whole now."""
        self._held.append(data)
        self._bytes += len(data)
        if self._bytes < self._size:
            return []
        pieces = split_fixed(b"".join(self._held), self._size)
        self._held = [pieces.pop()] if len(pieces[-1]) < self._size else []
        self._bytes = sum(map(len, self._held))
        return pieces

    def end(self) -> list[bytes]:
        """The last piece, if anything is left."""
        return [b"".join(self._held)] if self._bytes else []
