"""What can still be read of a damaged store: rows that pass their checks, chunks that match their
hashes, records of the log. Reads a copy of the database that nobody else has, page by page.

A row is known by its shape and its check, not by the table in which it was found: a damaged page 1
may name the wrong ones. Nothing is believed that has no check of ours.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import UnionType
from typing import NamedTuple

import msgpack
import zstandard

from filestore.check import Progress
from filestore.chunking import CODEC_RAW, CODEC_ZSTD, hash_bytes, unpack
from filestore.engine.base import Damage, TailRecord
from filestore.engine.log import decode
from filestore.engine.pages import Cell, Flaw, Pages, Value, read_again, scan
from filestore.engine.schema import ENTRY, LIST_PAGE_BITS, row_check
from filestore.errors import CorruptionError
from filestore.heads import FileRow, ZoneRow
from filestore.journal import rows as journals
from filestore.journal.bodies import load
from filestore.journal.model import SEQ_BITS, JournalRow, Record
from filestore.ledger import LedgerRow
from filestore.lists import Entry, Page
from filestore.model import PIECE_BYTES_MAX
from filestore.records.repos import Repo
from filestore.sessions.rows import SessionRow

Place = tuple[int, int]
ROWS_PER_WORD = 256
"""So many rows between two words of progress."""
SHAPES: dict[str, tuple[type | UnionType, ...]] = {
    "zone": (int, str, int, int, bytes),
    "file": (int, int, str, int, int, int, int, int, int, int, bytes | None, bytes),
    "list": (int, int, int, bytes),
    "list being taken apart or built": (int, int),
    "session": (int, str, str, int | None, int, str, int, int, int, int, bytes),
    "count of an agent, or what a session is found by": (str, int),
    "ledger": (str, str, str, int, int, str, str, int, int),
    "journal": (
        int, str, str, str, str, str, int, int, int, str | None, str | None, int, int, bytes,
    ),
    "record": (int, int, str, str | None, bytes),
    "repo, or tally": (str, str, str, int),
}  # fmt: skip
"""What the columns of rows with a check are, but for the check. Rows of two tables that look alike
are told apart by what is in them, where it matters."""


class Stretch(NamedTuple):
    """Bytes of a file, or a hole: `data` None. A hole of length 0 is of unknown length."""

    offset: int
    length: int
    data: bytes | None


def shape_of(fields: Sequence[Value]) -> str:
    """What a row is by the types of its columns, its check left out; empty: none of ours."""
    for name, shape in SHAPES.items():
        if len(shape) == len(fields) and all(map(isinstance, fields, shape)):
            return name
    return ""


class Salvage:
    """All that was found. Memory goes with the number of rows, not with their bytes."""

    def __init__(self, pages: Pages) -> None:
        self.zones: dict[int, ZoneRow] = {}
        self.files: dict[int, FileRow] = {}
        self.sessions: dict[int, SessionRow] = {}
        self.ledger: list[LedgerRow] = []
        self.journals: dict[int, JournalRow] = {}
        self.repos: dict[str, Repo] = {}
        self.flaws: list[Flaw] = []
        self.lost_log_rows: list[tuple[int, int]] = []
        """Rows of the log of which not even the files are known: number and bytes."""
        self.counter = 1
        """The store-wide counter, as far as it shows."""
        self._pages = pages
        self._lists: dict[int, dict[int, Page]] = {}
        self._tails: dict[int, list[TailRecord]] = {}
        self._damage: dict[int, Damage] = {}
        self._released: set[int] = set()
        self._chunks: dict[bytes, tuple[int, int]] = {}
        """Id and codec by hash."""
        self._data: dict[int, Place] = {}
        self._records: dict[int, dict[int, Place]] = {}
        """By journal and seq."""
        self._by_content: dict[bytes, Place] | None = None

    def read(self, roots: list[tuple[str, int]], progress: Progress) -> None:
        """Go through the whole database."""
        for number, item in enumerate(scan(self._pages, roots)):
            if number % ROWS_PER_WORD == 0:
                progress("rows read", number, 0)
            if isinstance(item, Flaw):
                self.flaws.append(item)
            elif not self._take(item):
                reason = f"row {item.rowid} fails its check"
                self.flaws.append(Flaw(item.table, item.place[0], reason))

    @property
    def lost_files(self) -> list[int]:
        """Files whose rows are lost but of whose bytes something is there. Only where rows were
        lost at all: else they are files that were deleted."""
        if not any(flaw.table == "file" for flaw in self.flaws):
            return []
        known = self.files.keys() | self._released
        return sorted((self._lists.keys() | self._tails.keys()) - known)

    @property
    def journal_ids(self) -> list[int]:
        """Journals of which anything is there. Records without a row of their journal count only
        where such rows were lost: else they are of sessions that were deleted."""
        found = set(self.journals)
        if any(flaw.table == "journal" for flaw in self.flaws):
            found |= self._records.keys()
        return sorted(found)

    @property
    def has_journals(self) -> bool:
        """False if nothing was found of any, as in a store of a format that has none."""
        return bool(self.journals or self._records)

    def seqs(self, journal_id: int) -> list[int]:
        """The records of a journal that are there, in order."""
        return sorted(self._records.get(journal_id, ()))

    def record(self, journal_id: int, seq: int) -> tuple[Record, bytes]:
        """One of them, and its body as it is stored."""
        _, at_ms, kind, ref, body, _ = read_again(self._pages, self._records[journal_id][seq])
        assert isinstance(body, bytes), "so it was when it was found"
        return Record(seq, at_ms, kind, load(body), ref), body  # type: ignore[arg-type]  # as above

    def content(self, file_id: int) -> Iterator[Stretch]:
        """The bytes of a file in order, and its holes."""
        row = self.files.get(file_id)
        at = 0
        lists = self._lists.get(file_id, {})
        pages = row.pages if row else max(lists, default=-1) + 1
        for number in range(pages):
            page = lists.get(number)
            if page is None:
                continue
            if page.start_offset > at:
                yield Stretch(at, page.start_offset - at, None)
            at = page.start_offset
            for entry in page.entries:
                yield Stretch(at, entry.size, self._chunk(entry))
                at += entry.size
        if row and row.size > at:
            yield Stretch(at, row.size - at, None)
            at = row.size
        yield from self._tail(file_id, at, row.version if row else 0)

    def modified_ms(self, row: FileRow) -> int:
        """When the file was last written, appends counted."""
        times = [each.modified_ms for each in self._tails.get(row.id, ())
                 if each.version > row.version]  # fmt: skip
        return times[-1] if times else row.modified_ms

    def is_appended_to(self, row: FileRow) -> bool:
        """True if there are appends that are not sealed."""
        return any(each.version > row.version for each in self._tails.get(row.id, ()))

    # -- rows

    def _take(self, cell: Cell) -> bool:
        """Take in a row. False if nothing can be made of it."""
        values: tuple[Value, ...] = cell.values
        if values and values[0] is None:
            values = (cell.rowid, *values[1:])
        if cell.table == "format_step":
            return True
        try:
            match len(values):
                case 2:
                    return self._take_bytes(cell)
                case 5 if isinstance(values[1], bytes):
                    return self._take_chunk(values)
        except (CorruptionError, TypeError, ValueError, OverflowError):
            return False
        return self._take_checked(values, cell.place)

    def _take_checked(self, values: tuple[Value, ...], place: Place) -> bool:
        *fields, check = values
        try:
            if check != row_check(*fields):  # type: ignore[arg-type]  # a float fails just so
                return False
        except (TypeError, OverflowError, ValueError):
            return False
        match fields, shape_of(fields):
            case _, "zone":
                zone = ZoneRow(*fields)  # type: ignore[arg-type]  # its shape vouches for the types
                self.zones.setdefault(zone.id, zone)
                self._count(zone.id, zone.version)
            case _, "file":
                file = FileRow(*fields)  # type: ignore[arg-type]  # as above
                self.files.setdefault(file.id, file)
                self._count(file.id, file.version)
            case [int(page_id), int(offset), int(line), bytes(blob)], "list":
                number = page_id & ((1 << LIST_PAGE_BITS) - 1)
                page = Page(number, offset, line, [Entry(*e) for e in ENTRY.iter_unpack(blob)])
                self._lists.setdefault(page_id >> LIST_PAGE_BITS, {}).setdefault(number, page)
            case [*shown, bytes(more)], "session":
                session = SessionRow(*shown, *msgpack.unpackb(more))  # type: ignore[arg-type]  # as above
                self.sessions.setdefault(session.zone_id, session)
            case _, "ledger":
                self.ledger.append(LedgerRow(*fields))  # type: ignore[arg-type]  # as above
            case [int(file_id), _], "list being taken apart or built":
                self._released.add(file_id)
            case _, "journal":
                row = journals.unpack(values)
                self.journals.setdefault(row.id, row)
            case [int(key), *_], "record":
                found = self._records.setdefault(key >> SEQ_BITS, {})
                found.setdefault(key & ((1 << SEQ_BITS) - 1), place)
            case [str(first), *_], "repo, or tally" if first not in journals.SCOPES:
                repo = Repo(*fields)  # type: ignore[arg-type]  # as above
                self.repos.setdefault(repo.id, repo)
            case _, "":
                return False
        return True

    def _take_chunk(self, values: tuple[Value, ...]) -> bool:
        number, digest, size, codec, refs = values
        if not (isinstance(number, int) and isinstance(digest, bytes) and isinstance(codec, int)):
            return False
        self._chunks.setdefault(digest, (number, codec))
        return isinstance(size, int) and isinstance(refs, int)

    def _take_bytes(self, cell: Cell) -> bool:
        data = cell.values[1]
        if not isinstance(data, bytes):
            return False
        if cell.table != "log":
            self._data.setdefault(cell.rowid, cell.place)
            return True
        self._count(cell.rowid)
        try:
            items = list(decode(cell.rowid, data))
        except CorruptionError:
            self.lost_log_rows.append((cell.rowid, len(data)))
            return True
        for item in items:
            if isinstance(item, Damage):
                self._damage[item.file_id] = item
            else:
                self._tails.setdefault(item[0], []).append(item[1])
        return True

    def _count(self, *numbers: int) -> None:
        self.counter = max(self.counter, *numbers)

    # -- bytes

    def _tail(self, file_id: int, at: int, version: int) -> Iterator[Stretch]:
        records = [each for each in self._tails.get(file_id, ()) if each.version > version]
        for record in sorted(records, key=lambda each: each.version):
            if record.offset < at:
                continue  # sealed already; without the file's row its version does not tell
            if record.offset > at:
                yield Stretch(at, record.offset - at, None)
            yield Stretch(record.offset, len(record.data), record.data)
            at = record.offset + len(record.data)
        damage = self._damage.get(file_id)
        is_behind = damage is not None and (damage.offset is None or damage.offset >= at)
        if damage is not None and damage.version > version and is_behind:
            yield Stretch(at, 0, None)

    def _chunk(self, entry: Entry) -> bytes | None:
        """The bytes of a chunk, by its row or else by its content; None if they are lost."""
        if entry.size > PIECE_BYTES_MAX:
            return None
        number, codec = self._chunks.get(entry.digest, (0, 0))
        try:
            return unpack(codec, self._stored(self._data[number]), entry.size, entry.digest)
        except (KeyError, CorruptionError):
            return self._chunk_by_content(entry)

    def _chunk_by_content(self, entry: Entry) -> bytes | None:
        """A chunk whose row is lost or damaged, found by what it holds."""
        if self._by_content is None:
            self._by_content = {}
            for place in self._data.values():
                self._by_content |= dict.fromkeys(self._hashes(place), place)
        found = self._by_content.get(entry.digest)
        if found is None:
            return None
        stored = self._stored(found)
        try:
            return unpack(CODEC_RAW, stored, entry.size, entry.digest)
        except CorruptionError:
            return unpack(CODEC_ZSTD, stored, entry.size, entry.digest)

    def _hashes(self, place: Place) -> list[bytes]:
        """The hashes that a chunk may have, stored in the one way or in the other."""
        stored = self._stored(place)
        found = [hash_bytes(stored)]
        with suppress(zstandard.ZstdError):
            size = zstandard.frame_content_size(stored)
            if 0 <= size <= PIECE_BYTES_MAX:
                plain = zstandard.ZstdDecompressor().decompress(stored, max_output_size=size)
                found.append(hash_bytes(plain))
        return found

    def _stored(self, place: Place) -> bytes:
        stored = read_again(self._pages, place)[1]
        assert isinstance(stored, bytes), "so it was when it was found"
        return stored
