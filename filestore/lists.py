"""A file's list of chunks: pages of entries, found by offset or by line, and the counting of
references.

A page holds up to 64 entries (chunk hash, size, lines that end in it) and says at which offset and
line it starts. Every page but the last is full. The page's check covers its id too, so no page can
pass for another's.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from filestore.chunking import HASH_BYTES, Piece, unpack
from filestore.engine.base import ReadTx, Tx
from filestore.engine.schema import ENTRIES_PER_PAGE, ENTRY, REFERENCE, list_id, row_check
from filestore.errors import CorruptionError


class Entry(NamedTuple):
    """One chunk in a list."""

    digest: bytes
    size: int
    ended: int


class Page(NamedTuple):
    """One page of a list, verified."""

    number: int
    start_offset: int
    start_line: int
    entries: list[Entry]

    def ends(self) -> tuple[int, int]:
        """Offset and line at which the next page starts."""
        return (
            self.start_offset + sum(entry.size for entry in self.entries),
            self.start_line + sum(entry.ended for entry in self.entries),
        )


class PackedPage(NamedTuple):
    """A page as it is stored, for comparing lists without looking into every entry."""

    number: int
    start_offset: int
    start_line: int
    blob: bytes

    def digests(self) -> list[bytes]:
        blob = self.blob
        return [blob[at : at + HASH_BYTES] for at in range(0, len(blob), ENTRY.size)]


async def read_page(tx: ReadTx, file_id: int, number: int) -> Page:
    """Load one page, or raise CorruptionError."""
    number, start_offset, start_line, blob = await read_packed_page(tx, file_id, number)
    entries = [Entry(*fields) for fields in ENTRY.iter_unpack(blob)]
    return Page(number, start_offset, start_line, entries)


async def read_packed_page(tx: ReadTx, file_id: int, number: int) -> PackedPage:
    """Load one page as it is stored, verified, or raise CorruptionError."""
    page_id = list_id(file_id, number)
    row = await tx.fetch_one(
        "SELECT start_offset, start_line, entries, row_check FROM list WHERE id = ?", (page_id,)
    )
    if row is None:
        raise CorruptionError(f"page {number} of the chunk list is missing")
    start_offset, start_line, blob, check = row
    if check != row_check(page_id, start_offset, start_line, blob):
        raise CorruptionError(f"page {number} of the chunk list fails its check")
    return PackedPage(number, start_offset, start_line, blob)


async def read_pages(tx: ReadTx, file_id: int, pages: int) -> list[Page]:
    """Load all pages of a list."""
    return [await read_page(tx, file_id, number) for number in range(pages)]


async def find_page(
    tx: ReadTx, file_id: int, pages: int, *, offset: int = -1, line: int = -1
) -> Page:
    """The last page that starts at or before `offset`, or at or before `line`."""
    found = await read_page(tx, file_id, 0)
    low, high = 0, pages - 1
    while low < high:
        middle = (low + high + 1) // 2
        page = await read_page(tx, file_id, middle)
        if (page.start_offset <= offset) if offset >= 0 else (page.start_line <= line):
            found, low = page, middle
        else:
            high = middle - 1
    return found


def locate(starts: Sequence[int], value: int) -> int:
    """The index of the last start that is not after `value`."""
    return max(0, bisect_right(starts, value) - 1)


async def write_page(tx: Tx, file_id: int, page: PackedPage) -> None:
    """Store one page, in place of its former self if there was one."""
    number, start_offset, start_line, blob = page
    page_id = list_id(file_id, number)
    check = row_check(page_id, start_offset, start_line, blob)
    await tx.execute(
        "INSERT INTO list (id, start_offset, start_line, entries, row_check) "
        "VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
        "start_offset = excluded.start_offset, start_line = excluded.start_line, "
        "entries = excluded.entries, row_check = excluded.row_check",
        (page_id, start_offset, start_line, blob, check),
    )


async def drop_pages(tx: Tx, file_id: int, start: int, stop: int) -> None:
    """Delete the pages from `start` up to but not with `stop`."""
    await tx.execute_many(
        "DELETE FROM list WHERE id = ?",
        [(list_id(file_id, number),) for number in range(start, stop)],
    )


def paginate(
    entries: Sequence[tuple[bytes, int, int]], number: int = 0, offset: int = 0, line: int = 0
) -> list[PackedPage]:
    """Lay entries out in pages, the first of them page `number` starting at `offset` and `line`."""
    pages: list[PackedPage] = []
    for at in range(0, len(entries), ENTRIES_PER_PAGE):
        part = entries[at : at + ENTRIES_PER_PAGE]
        blob = b"".join([ENTRY.pack(*entry) for entry in part])
        pages.append(PackedPage(number + len(pages), offset, line, blob))
        offset += sum([entry[1] for entry in part])
        line += sum([entry[2] for entry in part])
    return pages


async def read_packed_pages(tx: ReadTx, file_id: int, pages: int) -> list[PackedPage]:
    """Load all pages of a list as they are stored, verified."""
    return [await read_packed_page(tx, file_id, number) for number in range(pages)]


async def replace_list(
    tx: Tx,
    file_id: int,
    old: Sequence[PackedPage],
    new: Sequence[tuple[bytes, int, int]],
    pieces: Sequence[Piece],
) -> int:
    """Make `new` the list of a file in place of `old`; only pages and reference counts that differ
    are written.

    Returns the number of pages. `pieces` holds the bytes of chunks that may be new to the store.
    """
    pages = paginate(new)
    gone = [page for page in old if page.number >= len(pages) or pages[page.number] != page]
    added = [page for page in pages if page.number >= len(old) or old[page.number] != page]
    for page in added:
        await write_page(tx, file_id, page)
    await drop_pages(tx, file_id, len(pages), len(old))
    before = [digest for page in gone for digest in page.digests()]
    after = [digest for page in added for digest in page.digests()]
    await change_references(tx, before, after, pieces)
    if tx.has_met_damage:
        await _mend_damaged(tx, pieces)
    return len(pages)


async def change_references(
    tx: Tx, before: Sequence[bytes], after: Sequence[bytes], pieces: Sequence[Piece]
) -> None:
    """Count what was named before and what is named now; most of it is the same, in place."""
    pairs = list(zip_longest(before, after))
    less = Counter(old for old, new in pairs if old is not None and old != new)
    more = Counter(new for old, new in pairs if new is not None and old != new)
    await add_references(tx, more - less, pieces)
    await take_references(tx, less - more)


async def add_references(tx: Tx, wanted: Counter[bytes], pieces: Iterable[Piece]) -> None:
    """Count more references, storing the chunks that are missing."""
    if not wanted:
        return
    by_digest = {piece.digest: piece for piece in pieces if piece.digest in wanted}
    for digest, count in wanted.items():
        piece = by_digest[digest]
        row = await tx.fetch_one("SELECT id, refs FROM chunk WHERE hash = ?", (digest,))
        if row is None:
            await _add_chunk(tx, piece, count)
            continue
        more = count * REFERENCE
        await tx.execute("UPDATE chunk SET refs = refs + ? WHERE id = ?", (more, row[0]))
        if not await _is_whole(tx, piece):
            await _mend(tx, row[0], piece)
        if row[1] == 0:
            await _renumber(tx, row[0])


async def _add_chunk(tx: Tx, piece: Piece, count: int) -> None:
    chunk_id = tx.next_version()
    codec, stored = piece.packed
    await tx.execute(
        "INSERT INTO chunk (id, hash, size, codec, refs) VALUES (?, ?, ?, ?, ?)",
        (chunk_id, piece.digest, len(piece.data), codec, count * REFERENCE),
    )
    await tx.execute("INSERT INTO chunk_data (id, data) VALUES (?, ?)", (chunk_id, stored))


async def _is_whole(tx: Tx, piece: Piece) -> bool:
    """False if the stored chunk is damaged: to lean on it would acknowledge what is lost."""
    try:
        await load_chunk(tx, Entry(piece.digest, len(piece.data), 0))
    except CorruptionError:
        return False
    return True


async def _mend_damaged(tx: Tx, pieces: Iterable[Piece]) -> None:
    """Look at all chunks of a value, also at those that its file named before."""
    for piece in pieces:
        row = await tx.fetch_one("SELECT id FROM chunk WHERE hash = ?", (piece.digest,))
        if row is not None and not await _is_whole(tx, piece):
            await _mend(tx, row[0], piece)


async def _mend(tx: Tx, chunk_id: int, piece: Piece) -> None:
    """Store the bytes of a damaged chunk anew, for all who name it."""
    codec, stored = piece.packed
    await tx.execute(
        "UPDATE chunk SET size = ?, codec = ? WHERE id = ?", (len(piece.data), codec, chunk_id)
    )
    await tx.execute("DELETE FROM chunk_data WHERE id = ?", (chunk_id,))
    await tx.execute("INSERT INTO chunk_data (id, data) VALUES (?, ?)", (chunk_id, stored))


async def _renumber(tx: Tx, chunk_id: int) -> None:
    """Give a chunk that had been unused another id, so that its release, if that was decided
    already, never hits it: a read that began since may need it."""
    number = tx.next_version()
    await tx.execute("UPDATE chunk SET id = ? WHERE id = ?", (number, chunk_id))
    await tx.execute("UPDATE chunk_data SET id = ? WHERE id = ?", (number, chunk_id))


async def count_references(tx: Tx, counts: Counter[bytes]) -> None:
    """Count more references to chunks that are all there already."""
    await tx.execute_many(
        "UPDATE chunk SET refs = refs + ? WHERE hash = ?",
        [(count * REFERENCE, digest) for digest, count in counts.items()],
    )


async def take_references(tx: Tx, counts: Counter[bytes]) -> None:
    """Count fewer references; chunks that nobody needs any more are released in the background."""
    await tx.execute_many(
        "UPDATE chunk SET refs = refs - ? WHERE hash = ?",
        [(count * REFERENCE, digest) for digest, count in counts.items()],
    )


async def mark_released(tx: Tx, file_id: int, pages: int) -> None:
    """Leave the list of a deleted file to be taken apart in the background."""
    await tx.execute(
        "INSERT INTO released (file_id, pages, row_check) VALUES (?, ?, ?) "
        "ON CONFLICT (file_id) DO UPDATE "
        "SET pages = excluded.pages, row_check = excluded.row_check",
        (file_id, pages, row_check(file_id, pages)),
    )


def check_released(file_id: int, pages: int, check: bytes) -> None:
    """Raise if the row is damaged: it might name a file that is still there."""
    if check != row_check(file_id, pages):
        raise CorruptionError(f"the note to release file {file_id} fails its check")


async def load_chunk(tx: ReadTx, entry: Entry) -> bytes:
    """The plain bytes of a chunk, verified."""
    row = await tx.fetch_one(
        "SELECT c.codec, d.data FROM chunk c JOIN chunk_data d ON d.id = c.id WHERE c.hash = ?",
        (entry.digest,),
    )
    if row is None:
        raise CorruptionError("chunk is missing")
    return unpack(row[0], row[1], entry.size, entry.digest)
