"""Sealing: turning the tail of a stream into chunks, off the acknowledged path.

Three steps, so that the writer does little: `plan_seal` reads a tail and the small chunks before
it, `cut_stream` joins, cuts, hashes and compresses them on any thread, `place` puts the result into
the list. The last step is one transaction with the file's row, and does nothing if the file was
written meanwhile; killed anywhere, either the tail or the chunks are there, never both or neither,
because a tail record counts only while it is newer than the row.

A tail that is sealed early (to let the log shrink) makes a small chunk. The next seal joins it with
what came since as long as that is no more work than a few times the new bytes, so lists stay short
and writing stays linear.
"""

from collections.abc import Sequence
from typing import NamedTuple

from filestore.chunking import STREAM_LEVEL, Piece, count_lines, make_piece, split_fixed
from filestore.engine.base import TailRecord, Tx
from filestore.errors import CorruptionError
from filestore.heads import FileRow, check_whole
from filestore.lines import LineCounter, Open
from filestore.lists import Entry, Page, change_references, paginate, write_page
from filestore.model import PIECE_BYTES_MAX
from filestore.reading import ReadTransaction

JOIN_FACTOR = 3
"""A chunk is joined with later bytes if it is at most this many times their size."""


class Sealed(NamedTuple):
    """Chunks that take the place of a tail up to `version`, and the file's row after it."""

    joined: list[Entry]
    pieces: list[Piece]
    ended_in: list[int]
    version: int
    size: int
    ended: int
    open: Open
    modified_ms: int


class SealPlan(NamedTuple):
    """A tail as it was found, and the chunks before it that are worth joining."""

    zone: str
    row: FileRow
    records: Sequence[TailRecord]
    joined: list[tuple[Entry, bytes]]
    counter: LineCounter
    """Counts lines from where the tail begins."""


async def plan_seal(
    reader: ReadTransaction, zone: str, row: FileRow, seal_bytes: int
) -> SealPlan | None:
    """Read what sealing a file needs. None when there is nothing to seal."""
    check_whole(zone, await reader.head_of(zone, row))
    records = await reader.tail(zone, row)
    if not records:
        return None
    total = sum(len(record.data) for record in records)
    joined: list[tuple[Entry, bytes]] = []
    offset = row.size
    for entry in reversed(await reader.last_entries(zone, row)):
        if entry.size > total * JOIN_FACTOR or entry.size + total > size_max(seal_bytes):
            break
        offset -= entry.size
        total += entry.size
        try:
            joined.insert(0, (entry, await reader.chunk(zone, row.name, entry, offset)))
        except CorruptionError:
            break  # reading it tells; what was appended since is sealed all the same
    counter = await reader.line_counter(zone, row.name, row.size, Open(row.open))
    return SealPlan(zone, row, records, joined, counter)


def cut_stream(plan: SealPlan, seal_bytes: int) -> Sealed:
    """Join, cut, hash and compress: the slow part of sealing. Uses up the plan."""
    most = size_max(seal_bytes)
    groups = _group(plan, most)
    parts = [split_fixed(b"".join([data for data, _ in group]), most) for group in groups]
    pieces = [make_piece(part, STREAM_LEVEL) for group in parts for part in group]
    if len(pieces) == len(groups):
        ended_in = [sum([ended for _, ended in group]) for group in groups]
    else:
        # An append larger than a chunk was cut anywhere. Then nothing was joined.
        ended_in, _ = count_lines(pieces, plan.counter)
    end = plan.records[-1]
    return Sealed(
        [entry for entry, _ in plan.joined],
        pieces,
        ended_in,
        end.version,
        end.offset + len(end.data),
        end.line + end.ended,
        end.open,
        end.modified_ms,
    )


def size_max(seal_bytes: int) -> int:
    """No chunk of a stream is larger."""
    return min(seal_bytes, PIECE_BYTES_MAX)


def _group(plan: SealPlan, most: int) -> list[list[tuple[bytes, int]]]:
    """Bytes and how many lines end in them, chunk by chunk; cut between appends."""
    groups = [[(data, entry.ended) for entry, data in plan.joined]]
    size = sum([entry.size for entry, _ in plan.joined])
    for record in plan.records:
        if size and size + len(record.data) > most:
            groups.append([])
            size = 0
        groups[-1].append((record.data, record.ended))
        size += len(record.data)
    return groups


async def place(tx: Tx, file_id: int, page: Page | None, sealed: Sealed) -> int:
    """Put sealed chunks in place of the joined ones, the last of `page`. Returns the page count."""
    kept = list(page.entries) if page else []
    for entry in reversed(sealed.joined):
        assert kept.pop() == entry, "joined chunks are the last of the last page"
    added = [
        Entry(piece.digest, len(piece.data), ended)
        for piece, ended in zip(sealed.pieces, sealed.ended_in, strict=True)
    ]
    number, offset, line = (page.number, page.start_offset, page.start_line) if page else (0, 0, 0)
    pages = paginate([*kept, *added], number, offset, line)
    for changed in pages:
        await write_page(tx, file_id, changed)
    before, after = [e.digest for e in sealed.joined], [e.digest for e in added]
    await change_references(tx, before, after, sealed.pieces)
    return number + len(pages)
