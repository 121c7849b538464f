"""Reading zones and files inside one transaction: rows, heads, bytes, lines.

`ReadTransaction` is what a reading unit works with; `Transaction` (transaction.py) adds writing.
Where a file is damaged the error names zone, file and offset, and what does not touch the damage
stays readable.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import accumulate
from typing import Any, LiteralString, NamedTuple, NoReturn, cast

from filestore.chunking import FixedCutter, hash_pieces
from filestore.engine.base import ReadTx, TailRecord
from filestore.errors import (
    CorruptionError,
    InvalidArgumentError,
    InvalidNameError,
    NotFoundError,
)
from filestore.heads import FileRow, Head, ZoneRow, check_whole, file_row, located, zone_row
from filestore.lines import HALF_BYTES_MAX, LineCounter, LineGatherer, Open, half_of
from filestore.lists import Entry, find_page, load_chunk, locate, read_page
from filestore.meta import decode_meta
from filestore.model import (
    PIECE_BYTES_MAX,
    FileInfo,
    LinePage,
    ZoneInfo,
    ZonePage,
    check_file_name,
    check_zone_name,
)

_FILE_COLUMNS = (
    "f.id, f.zone_id, f.name, f.version, f.size, f.ended, f.open, f.created_ms, f.modified_ms, "
    "f.pages, f.digest, f.meta, f.row_check"
)
_FILE_BY_ID = (
    f"SELECT z.name, {_FILE_COLUMNS} FROM file f JOIN zone z ON z.id = f.zone_id WHERE f.id = ?"
)
_ZONE_COLUMNS = "id, name, version, created_ms, meta, row_check"
_ZONE_COLUMNS_JOINED = "z.id, z.name, z.version, z.created_ms, z.meta, z.row_check"
_ZONES_FROM: LiteralString = (
    f"SELECT {_ZONE_COLUMNS} FROM zone WHERE name >= ? AND name < ? ORDER BY name LIMIT ?"
)
_ZONES_AFTER: LiteralString = (
    f"SELECT {_ZONE_COLUMNS} FROM zone WHERE name > ? AND name < ? ORDER BY name LIMIT ?"
)
_ZONES_DOWN: LiteralString = (
    f"SELECT {_ZONE_COLUMNS} FROM zone WHERE name >= ? AND name < ? ORDER BY name DESC LIMIT ?"
)
_OPEN = tuple(Open)
NAME_AFTER_ALL = "\U0010ffff"
"""Sorts after every character that a name may hold."""


class ReadPlan(NamedTuple):
    """What a read fetches: chunks from `offset` on, then appended bytes; cut to [start, stop)."""

    head: Head
    start: int
    stop: int
    offset: int
    entries: list[Entry]
    tail: list[bytes]


class _Over:
    """Stands where the tables were, once a unit has ended.

    Else a forgotten `await`, or a transaction that was kept, would write beside all transactions,
    on whatever thread, and be told that it was done.
    """

    def __getattr__(self, _: str) -> NoReturn:
        raise InvalidArgumentError(
            "the unit of work has ended, and its transaction with it",
            hint="await every operation inside of the unit",
        )


OVER = cast("Any", _Over())


class ReadTransaction:
    """The reading operations, over one state of the store."""

    def __init__(self, tx: ReadTx) -> None:
        self._reader = tx

    @property
    def rows(self) -> ReadTx:
        """The tables themselves, for what else this room keeps in them."""
        return self._reader

    def end(self) -> None:
        """The unit has ended: whoever kept this can do nothing with it any more."""
        self._reader = OVER

    # -- zones

    async def zone(self, zone: str) -> ZoneInfo | None:
        """The zone, or None."""
        row = await self.zone_row(check_zone_name(zone, "zone"))
        return row.info() if row else None

    async def zones(
        self, prefix: str = "", *, after: str | None = None, limit: int = 100, reverse: bool = False
    ) -> ZonePage:
        """A page of zones whose names start with `prefix`, by name; a range scan."""
        if limit < 1:
            raise InvalidArgumentError(f"limit must be 1 or more, not {limit}", operation="zones")
        try:
            (prefix + (after or "")).encode()
        except UnicodeEncodeError as error:
            raise InvalidNameError(f"not valid text: {error}", operation="zones") from error
        low, high = prefix, prefix + NAME_AFTER_ALL
        # One lower bound and no more: of two, the database might scan from the wrong one.
        query = _ZONES_FROM
        if reverse:
            query = _ZONES_DOWN
            high = min(high, after) if after is not None else high
        elif after is not None and after >= prefix:
            query, low = _ZONES_AFTER, after
        rows = await self._reader.fetch(query, (low, high, limit + 1))
        found = [zone_row(row).info() for row in rows[:limit]]
        return ZonePage(found, found[-1].name if len(rows) > limit else None)

    async def zone_row(self, zone: str) -> ZoneRow | None:
        row = await self._reader.fetch_one(
            f"SELECT {_ZONE_COLUMNS} FROM zone WHERE name = ?", (zone,)
        )
        return self._wanted_zone(zone, row) if row else None

    # -- files

    async def stat(self, zone: str, name: str) -> FileInfo | None:
        """The file, or None."""
        head = await self.head(check_zone_name(zone, "stat"), check_file_name(name, "stat"))
        return self.info(zone, head) if head else None

    async def files(self, zone: str) -> list[FileInfo] | None:
        """All files of a zone by name, or None if there is no such zone."""
        found = await self.zone_row(check_zone_name(zone, "files"))
        if found is None:
            return None
        rows = await self.file_rows(found.id, zone)
        return [self.info(zone, await self.head_of(zone, row)) for row in rows]

    async def file_rows(self, zone_id: int, zone: str) -> list[FileRow]:
        rows = await self._reader.fetch(
            f"SELECT {_FILE_COLUMNS} FROM file f WHERE f.zone_id = ? ORDER BY f.name", (zone_id,)
        )
        found = [file_row(zone, row) for row in rows]
        if any(row.zone_id != zone_id for row in found):
            raise CorruptionError("files of another zone are found for it", zone=zone)
        return found

    async def file_by_id(self, file_id: int) -> tuple[str, FileRow] | None:
        """The zone and row of a file, wherever it is now; None if it is gone."""
        row = await self._reader.fetch_one(_FILE_BY_ID, (file_id,))
        return (row[0], file_row(row[0], row[1:])) if row else None

    async def head(self, zone: str, name: str) -> Head | None:
        """The file as it is now, or None."""
        head: Head | None = self._reader.heads.get((zone, name))
        if head is None:
            found = await self._reader.fetch_one(
                f"SELECT {_ZONE_COLUMNS_JOINED}, {_FILE_COLUMNS} "
                "FROM zone z JOIN file f ON f.zone_id = z.id WHERE z.name = ? AND f.name = ?",
                (zone, name),
            )
            if found is None:
                return None
            zone_id = self._wanted_zone(zone, found[:6]).id
            row = file_row(zone, found[6:])
            if (row.zone_id, row.name) != (zone_id, name):
                raise CorruptionError("another file is found for it", zone=zone, name=name)
            head = await self.head_of(zone, row)
            self._reader.heads[zone, name] = head
        return head

    def _wanted_zone(self, zone: str, row: tuple[Any, ...]) -> ZoneRow:
        """The zone that was looked for by its name: a damaged index finds others, too."""
        found = zone_row(row)
        if found.name != zone:
            raise CorruptionError("another zone is found for it", zone=zone)
        return found

    async def head_of(self, zone: str, row: FileRow) -> Head:
        """Move a row on by the appends since."""
        end = await self._reader.tail_end(row.id, row.version)
        damage = await self._reader.tail_damage(row.id)
        if damage is not None and damage.version <= row.version:
            damage = None  # the file was replaced since
        if end is None:
            return Head(
                row, row.version, row.size, row.ended, _OPEN[row.open], row.modified_ms, damage
            )
        return Head(
            row,
            end.version,
            end.offset + len(end.data),
            end.line + end.ended,
            end.open,
            end.modified_ms,
            damage,
        )

    def info(self, zone: str, head: Head, *, unchanged: bool = False) -> FileInfo:
        row = head.row
        is_written = head.version == row.version and row.digest is not None
        return FileInfo(
            zone,
            row.name,
            head.size,
            head.lines,
            head.version,
            row.created_ms,
            head.modified_ms,
            decode_meta(row.meta),
            cast("bytes", row.digest).hex() if is_written else None,
            unchanged,
        )

    # -- bytes

    async def read(self, zone: str, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file; beyond its end nothing."""
        plan = await self.plan_read(zone, name, offset, length, "read")
        pieces, at = [], plan.offset
        for entry in plan.entries:
            pieces.append(await self.chunk(zone, name, entry, at))
            at += entry.size
        return cut_range(plan, b"".join([*pieces, *plan.tail]))

    async def open_read(
        self, zone: str, name: str, offset: int = 0, length: int | None = None
    ) -> AsyncIterator[bytes]:
        """The same in pieces of at most 1 MiB: memory does not grow with the file."""
        plan = await self.plan_read(zone, name, offset, length, "open_read")
        at = plan.offset
        for entry in plan.entries:
            data = await self.chunk(zone, name, entry, at)
            if piece := cut_range(plan._replace(offset=at), data):
                yield piece
            at += entry.size
        for piece in tail_pieces(plan, at):
            yield piece

    async def digest(self, zone: str, name: str) -> str:
        """The hex BLAKE3 of a file's content, streamed if it is not known from its last write."""
        info = await self.stat(zone, name)
        if info is not None and info.digest is not None:
            return info.digest
        return await hash_pieces(self.open_read(zone, name))

    async def read_by_id(self, file_id: int, offset: int, length: int) -> bytes | None:
        """Bytes of a file wherever it is now; None if it is gone."""
        found = await self.file_by_id(file_id)
        return await self.read(found[0], found[1].name, offset, length) if found else None

    async def plan_read(
        self, zone: str, name: str, offset: int, length: int | None, operation: str
    ) -> ReadPlan:
        """Find which chunks and appends hold the wanted range."""
        _check_range(offset, length, operation)
        head = await self.head(check_zone_name(zone, operation), check_file_name(name, operation))
        if head is None:
            raise NotFoundError("no such file", operation=operation, zone=zone, name=name)
        row = head.row
        stop = head.size if length is None else min(head.size, offset + length)
        if length is None or offset + length > head.size:
            check_whole(zone, head)
        start = min(offset, stop)
        entries, at = await self._entries(zone, row, start, min(stop, row.size))
        tail: list[bytes] = []
        if stop > max(row.size, start):
            records = await self.tail(zone, row)
            first = locate([record.offset for record in records], start)
            at = at if entries else records[first].offset
            tail = [record.data for record in records[first:] if record.offset < stop]
        return ReadPlan(head, start, stop, at, entries, tail)

    async def _entries(
        self, zone: str, row: FileRow, start: int, stop: int
    ) -> tuple[list[Entry], int]:
        """The entries that hold [start, stop), and the offset of the first."""
        if start >= stop:
            return [], start
        try:
            page = await find_page(self._reader, row.id, row.pages, offset=start)
            number = page.number
            starts = list(
                accumulate((entry.size for entry in page.entries), initial=page.start_offset)
            )
            first = locate(starts[:-1], start)
            entries, at, end = page.entries[first:], starts[first], starts[-1]
            while end < stop:
                number += 1
                page = await read_page(self._reader, row.id, number)
                if page.start_offset != end:
                    raise CorruptionError(f"page {number} of the chunk list is out of place")
                entries += page.entries
                end = page.ends()[0]
        except CorruptionError as error:
            raise located(error, zone, row.name, start) from error
        while entries and end - entries[-1].size >= stop:
            end -= entries.pop().size
        return entries, at

    async def line_counter(self, zone: str, name: str, size: int, state: Open) -> LineCounter:
        """A counter that goes on behind the first `size` bytes of a file."""
        if state is not Open.HALF:
            return LineCounter(state)
        length = min(size, HALF_BYTES_MAX)
        return LineCounter(state, half_of(await self.read(zone, name, size - length, length)))

    async def last_entries(self, zone: str, row: FileRow) -> list[Entry]:
        """The entries of the last page of a file's list."""
        if not row.pages:
            return []
        try:
            return (await read_page(self._reader, row.id, row.pages - 1)).entries
        except CorruptionError as error:
            raise located(error, zone, row.name, row.size) from error

    async def chunk(self, zone: str, name: str, entry: Entry, offset: int) -> bytes:
        """One chunk's bytes; damage is reported with its place."""
        try:
            return await load_chunk(self._reader, entry)
        except CorruptionError as error:
            raise located(error, zone, name, offset) from error

    async def tail(self, zone: str, row: FileRow) -> Sequence[TailRecord]:
        """The appends since the row, proven to be whole and in place."""
        records = await self._reader.tail(row.id, row.version)
        end = row.size
        for record in records:
            if record.offset != end:
                raise CorruptionError(
                    "appended bytes are missing", zone=zone, name=row.name, offset=end
                )
            end += len(record.data)
        return records

    # -- lines

    async def read_lines(
        self, zone: str, name: str, from_line: int, limit: int, *, bytes_max: int | None = None
    ) -> LinePage:
        """Up to `limit` lines from number `from_line` on, and how many there are.

        `bytes_max`: stop before the lines have more bytes than that (one line always fits).
        """
        if from_line < 0 or limit < 0:
            raise InvalidArgumentError(
                "from_line and limit must not be negative", operation="read_lines"
            )
        head = await self.head(
            check_zone_name(zone, "read_lines"), check_file_name(name, "read_lines")
        )
        if head is None:
            raise NotFoundError("no such file", operation="read_lines", zone=zone, name=name)
        if from_line + limit > head.lines:
            check_whole(zone, head)
        if limit == 0 or from_line >= head.lines:
            return LinePage([], head.lines)
        lines = await self._gather(
            zone, head, from_line, min(limit, head.lines - from_line), bytes_max
        )
        return LinePage(lines, head.lines)

    async def _gather(
        self, zone: str, head: Head, from_line: int, limit: int, bytes_max: int | None
    ) -> list[bytes]:
        row = head.row
        # Line n starts right behind line n-1, so start with the piece in which that one ends.
        target = from_line - 1
        gathered = LineGatherer(from_line, limit, bytes_max)
        if (
            row.pages
            and (target < row.ended or from_line == 0)
            and (await self._gather_sealed(zone, row, target, gathered))
        ):
            return gathered.lines
        records = await self.tail(zone, row)
        first = (
            locate([record.line for record in records], target) if not gathered.is_started else 0
        )
        for record in records[first:]:
            if gathered.feed(record.data, record.line, record.ended):
                return gathered.lines
        gathered.finish()
        return gathered.lines

    async def _gather_sealed(
        self, zone: str, row: FileRow, target: int, gathered: LineGatherer
    ) -> bool:
        try:
            # All pages of a long first line start at line 0, so it is not looked for by number.
            pages = row.pages if target >= 0 else 1
            page = await find_page(self._reader, row.id, pages, line=max(target, 0))
            for number in range(page.number, row.pages):
                if number > page.number:
                    page = await read_page(self._reader, row.id, number)
                lines = list(
                    accumulate((entry.ended for entry in page.entries), initial=page.start_line)
                )
                offsets = list(
                    accumulate((entry.size for entry in page.entries), initial=page.start_offset)
                )
                first = 0 if gathered.is_started or target < 0 else locate(lines[:-1], target)
                for index in range(first, len(page.entries)):
                    entry = page.entries[index]
                    data = await self.chunk(zone, row.name, entry, offsets[index])
                    if gathered.feed(data, lines[index], entry.ended):
                        return True
        except CorruptionError as error:
            raise located(error, zone, row.name, None) from error
        return False


def cut_range(plan: ReadPlan, data: bytes) -> bytes:
    """Cut fetched bytes to the planned range."""
    return data[max(plan.start - plan.offset, 0) : max(plan.stop - plan.offset, 0)]


def tail_pieces(plan: ReadPlan, at: int) -> Iterator[bytes]:
    """The appended bytes of the range, the first of them at `at`, in pieces of at most 1 MiB."""
    cutter = FixedCutter(PIECE_BYTES_MAX)
    for data in plan.tail:
        start, stop = max(plan.start - at, 0), min(plan.stop - at, len(data))
        for begin in range(start, stop, PIECE_BYTES_MAX):
            yield from cutter.feed(data[begin : min(begin + PIECE_BYTES_MAX, stop)])
        at += len(data)
    yield from cutter.end()


def _check_range(offset: int, length: int | None, operation: str) -> None:
    if offset < 0 or (length is not None and length < 0):
        raise InvalidArgumentError("offset and length must not be negative", operation=operation)
