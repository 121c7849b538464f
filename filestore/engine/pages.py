"""The rows of a damaged database, read from its pages without SQLite.

SQLite gives up at a page that is damaged, and with it what lies below or behind. Here every page is
looked at for itself: those that the trees of the tables lead to, and those that the pointer map
calls pages of a tree although nothing leads to them any more. What is free is passed over, so
nothing that was deleted comes back. A row has no check of SQLite's; whoever takes one must have its
own (`row_check`, a hash).

The format is that of https://www.sqlite.org/fileformat2.html, as far as our stores use it: pages of
4096 bytes, tables with row ids, auto_vacuum. Nothing in a page is trusted: all numbers are bounded.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import BinaryIO, NamedTuple

from filestore.engine.schema import PAGE_BYTES

Value = int | float | str | bytes | None
LEAF, INTERIOR = 0x0D, 0x05
LOCAL_MAX = PAGE_BYTES - 35
LOCAL_MIN = (PAGE_BYTES - 12) * 32 // 255 - 23
MAP_ENTRIES = PAGE_BYTES // 5
MAP_TREE = 5
PENDING_PAGE = (1 << 30) // PAGE_BYTES + 1
PAYLOAD_BYTES_MAX = 128 << 20
DEPTH_MAX = 20
COLUMNS_MAX = 32
_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)


class BadPageError(Exception):
    """A page, or a row in it, that cannot be read. Does not leave the salvage."""


class Cell(NamedTuple):
    """A row that was found: its table, its id, its columns as they are stored, and where it is."""

    table: str
    rowid: int
    values: tuple[Value, ...]
    place: tuple[int, int]


class Flaw(NamedTuple):
    """What could not be read of a table."""

    table: str
    page: int
    reason: str


class Pages:
    """A database file, page by page. Closed by who opened it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.count = file.seek(0, os.SEEK_END) // PAGE_BYTES

    def page(self, number: int) -> bytes:
        """The bytes of one page."""
        if not 1 <= number <= self.count:
            raise BadPageError(f"page {number} is not there")
        self._file.seek((number - 1) * PAGE_BYTES)
        return self._file.read(PAGE_BYTES)

    def mapped(self, number: int) -> tuple[int, int]:
        """What the pointer map says of a page: its kind, and the page above it."""
        at = (number - 2) // (MAP_ENTRIES + 1) * (MAP_ENTRIES + 1) + 2
        at += at == PENDING_PAGE
        start = 5 * (number - at - 1)
        if number <= at or start + 5 > PAGE_BYTES:
            return 0, 0
        entry = self.page(at)[start : start + 5]
        return entry[0], int.from_bytes(entry[1:], "big")


def roots_of(pages: Pages) -> dict[str, int]:
    """Where the tree of each table begins, as far as page 1 and those below it still tell."""
    found: dict[str, int] = {}
    for item in _walk(pages, "", 1, {}):
        if isinstance(item, Cell):
            match item.values:
                case ("table", str(name), _, int(root), *_):
                    found[name] = root
    return found


def scan(pages: Pages, roots: Iterable[tuple[str, int]]) -> Iterator[Cell | Flaw]:
    """Every row that can be read, and what cannot. Rows that a tree leads to come first."""
    tables: dict[int, str] = {}
    for table, root in roots:
        yield from _walk(pages, table, root, tables)
    for number in range(2, pages.count + 1):
        if number in tables:
            continue
        try:
            kind, _ = pages.mapped(number)
            is_lost = kind == MAP_TREE and pages.page(number)[0] == LEAF
        except BadPageError:
            is_lost = False
        if is_lost and (table := _table_above(pages, number, tables)):
            yield from _cells(pages, table, number)


def _walk(pages: Pages, table: str, root: int, tables: dict[int, str]) -> Iterator[Cell | Flaw]:
    waiting = [root]
    while waiting:
        number = waiting.pop()
        if number in tables:
            continue
        tables[number] = table
        try:
            page = pages.page(number)
            start = _head(number)
            if page[start] == INTERIOR:
                waiting += reversed(_children(page, start))
                continue
            if page[start] != LEAF:
                raise BadPageError(f"page {number} is no page of a table")
        except BadPageError as error:
            yield Flaw(table, number, str(error))
            continue
        yield from _cells(pages, table, number)


def _head(number: int) -> int:
    """Where the head of a page is: page 1 begins with that of the database."""
    return 100 if number == 1 else 0


def _children(page: bytes, start: int) -> list[int]:
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    starts = [*_pointers(page, start + 12, count), start + 8]
    return [int.from_bytes(page[at : at + 4], "big") for at in starts]


def _pointers(page: bytes, start: int, count: int) -> list[int]:
    if start + 2 * count > PAGE_BYTES:
        raise BadPageError(f"a page claims {count} rows")
    return [int.from_bytes(page[at : at + 2], "big") for at in range(start, start + 2 * count, 2)]


def _table_above(pages: Pages, number: int, tables: dict[int, str]) -> str:
    """The table of a page that no tree leads to, by the pages above it; empty if they do not say.

    An entry of the pointer map that is wrong leads to another table, whose rows have another check.
    """
    for _ in range(DEPTH_MAX):
        try:
            kind, number = pages.mapped(number)
        except BadPageError:
            return ""
        if number in tables:
            return tables[number]
        if kind != MAP_TREE:
            return ""
    return ""


def _cells(pages: Pages, table: str, number: int) -> Iterator[Cell | Flaw]:
    """The rows of one leaf, each for itself."""
    try:
        page = pages.page(number)
        start = _head(number)
        count = int.from_bytes(page[start + 3 : start + 5], "big")
        filling = _filling_count(page, start)
        if filling is None:
            yield Flaw(table, number, f"the rows of page {number} do not fill it")
        pointers = _pointers(page, start + 8, count if filling is None else filling)
    except BadPageError as error:
        yield Flaw(table, number, str(error))
        return
    for at in pointers:
        try:
            yield _cell(pages, table, page, (number, at))
        except (BadPageError, IndexError, UnicodeDecodeError) as error:
            yield Flaw(table, number, f"a row in page {number} cannot be read ({error})")


def _filling_count(page: bytes, start: int) -> int | None:
    """How many rows a leaf has: as many as fill it, together with what is free in it.

    The number in its head may be damaged. Too small, it would leave out rows that nobody misses;
    too large, it would bring deleted ones back. None if no number fits.
    """
    first_free, _, content, fragments = struct.unpack_from(">HHHB", page, start + 1)
    to_fill = PAGE_BYTES - content - fragments
    while content <= first_free <= PAGE_BYTES - 4 and to_fill > 0:
        first_free, size = struct.unpack_from(">HH", page, first_free)
        to_fill -= max(size, 4)
    count = 0
    with suppress(IndexError, struct.error):
        while to_fill > 0:
            (at,) = struct.unpack_from(">H", page, start + 8 + 2 * count)
            size, body = _varint(page, at)
            _, body = _varint(page, body)
            local = _local(size)
            to_fill -= max(body - at + local + (4 if local < size else 0), 4)
            count += 1
    return count if to_fill == 0 else None


def read_again(pages: Pages, place: tuple[int, int]) -> tuple[Value, ...]:
    """The columns of a row that was found before."""
    return _cell(pages, "", pages.page(place[0]), place).values


def _cell(pages: Pages, table: str, page: bytes, place: tuple[int, int]) -> Cell:
    size, at = _varint(page, place[1])
    rowid, at = _varint(page, at)
    if rowid >= 1 << 63:
        rowid -= 1 << 64
    if not 0 < size <= PAYLOAD_BYTES_MAX:
        raise BadPageError(f"it claims {size} bytes")
    local = _local(size)
    payload = page[at : at + local]
    if local < size:
        payload += _overflow(pages, page[at + local : at + local + 4], size - local)
    if len(payload) != size:
        raise BadPageError("it is cut off")
    return Cell(table, rowid, _values(payload), place)


def _local(size: int) -> int:
    """How many bytes of a row lie in its leaf; the others are in pages of their own."""
    if size <= LOCAL_MAX:
        return size
    local = LOCAL_MIN + (size - LOCAL_MIN) % (PAGE_BYTES - 4)
    return local if local <= LOCAL_MAX else LOCAL_MIN


def _overflow(pages: Pages, pointer: bytes, size: int) -> bytes:
    parts = []
    while size > 0:
        page = pages.page(int.from_bytes(pointer, "big"))
        pointer = page[:4]
        parts.append(page[4 : 4 + size])
        size -= len(parts[-1])
    return b"".join(parts)


def _values(payload: bytes) -> tuple[Value, ...]:
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    if at != end or len(kinds) > COLUMNS_MAX:
        raise BadPageError("its columns are not clear")
    values: list[Value] = []
    for kind in kinds:
        value, at = _value(payload, at, kind)
        values.append(value)
    if at != len(payload):
        raise BadPageError("its columns do not fill it")
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, at
    if kind in (8, 9):
        return kind - 8, at
    if kind < len(_INTEGER_BYTES):
        size = _INTEGER_BYTES[kind]
        return int.from_bytes(payload[at : at + size], "big", signed=True), at + size
    if kind < 12:
        raise BadPageError("it holds what we never store")
    size = (kind - 12) // 2
    data = payload[at : at + size]
    if len(data) != size:
        raise BadPageError("a column is cut off")
    return (data.decode() if kind % 2 else data), at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for _ in range(8):
        byte = data[at]
        at += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at
    return value << 8 | data[at], at + 1
