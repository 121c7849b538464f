"""The one checker: for the command line, for the tests (after every store test), and in its bounded
form for start-up.

`check` walks all rows: zones, files, lists, chunks, the log, references, what is being built or
waits to be released, sessions and agents, the ledger. With `deep` it also has the database compare
its tables with their indexes, reads every chunk and counts every line again. It only reads, and
blocks nobody. The rows are looked at in one committed state, so the WAL cannot shrink meanwhile;
bytes are then read in short transactions.

The bounded form, run at every start, is `check_start` in engine/database.py: identity, tables, file
length; and every record of the log is verified while the tails are recovered from it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from filestore.engine.base import ReadTx, TailRecord, forward
from filestore.engine.schema import LIST_PAGE_BITS, REFERENCE, TABLES, list_id
from filestore.errors import CorruptionError, StoreError
from filestore.heads import FileRow, damage_error
from filestore.ledger import check_ledger
from filestore.lines import LineCounter
from filestore.lists import Entry, check_released, load_chunk, read_page, read_pages
from filestore.reading import ReadTransaction
from filestore.sessions.check import check_sessions
from filestore.store import FileStore

ZONES_PER_STEP = 200
CHUNKS_PER_STEP = 64
PROBLEMS_MAX = 1000

Progress = Callable[[str, int, int], None]
"""Called with what is being checked, how many are done, and how many there are (0: not known)."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it should be."""

    message: str
    zone: str | None = None
    name: str | None = None
    offset: int | None = None

    def __str__(self) -> str:
        place = "/".join(ascii(part) for part in (self.zone, self.name) if part is not None)
        at = "" if self.offset is None else f" at offset {self.offset}"
        return f"{place}{at}: {self.message}" if place else self.message


@dataclass(slots=True)
class Report:
    """What a check found. `problems` is cut at PROBLEMS_MAX; `is_cut` says so."""

    zones: int = 0
    files: int = 0
    chunks: int = 0
    bytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    is_cut: bool = False

    @property
    def is_clean(self) -> bool:
        return not self.problems

    def add(
        self,
        message: str,
        zone: str | None = None,
        name: str | None = None,
        offset: int | None = None,
    ) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(message, zone, name, offset))
        else:
            self.is_cut = True

    def add_error(
        self, error: StoreError, zone: str | None = None, name: str | None = None
    ) -> None:
        offset = error.offset if isinstance(error, CorruptionError) else None
        self.add(error.message, error.zone or zone, error.name or name, offset)


@dataclass(frozen=True, slots=True)
class _Bytes:
    """A file whose bytes a deep check will read."""

    zone: str
    row: FileRow
    entries: list[Entry]
    tail: Sequence[TailRecord] = ()


async def check(
    store: FileStore, *, deep: bool = False, progress: Progress | None = None
) -> Report:
    """Check the whole store. Reads only; safe beside writers."""
    report = Report()
    files: list[_Bytes] = []
    try:
        await store.read_unit(lambda tx: _walk(tx, report, files, progress))
    except StoreError as error:
        # A damaged b-tree can end the walk; what was found until then still counts.
        report.add_error(error)
    if deep:
        await _check_tables(store, report)
        for number, file in enumerate(files):
            tell = partial(progress, "files", number, len(files)) if progress else None
            await _check_bytes(store, file, report, tell)
    return report


async def _check_tables(store: FileStore, report: Report) -> None:
    """An index that has lost a row hides it from those who look there, and from nobody else."""
    try:
        for flaw in await store.read_unit(lambda tx: tx.table_flaws()):
            report.add(f"the database: {flaw}")
    except StoreError as error:
        report.add_error(error)


async def _walk(tx: ReadTx, report: Report, files: list[_Bytes], progress: Progress | None) -> None:
    # The unit may be run again on a newer state, so it starts from nothing each time.
    tx.hold_tails()
    report.problems.clear()
    report.is_cut = False
    files.clear()
    report.zones = report.files = report.chunks = report.bytes = 0
    try:
        for (message,) in await tx.fetch("PRAGMA quick_check(100)"):
            if message != "ok":
                report.add(f"SQLite: {message}")
        await _check_schema(tx, report)
    except StoreError as error:
        report.add_error(error)
    references: Counter[bytes] = Counter()
    sizes: dict[bytes, int] = {}
    known: set[int] = set()
    damaged: set[int] = set()
    after = ""
    while rows := await tx.fetch(
        "SELECT id, name FROM zone WHERE name > ? ORDER BY name LIMIT ?", (after, ZONES_PER_STEP)
    ):
        for zone_id, zone in rows:
            await _check_zone(tx, report, files, damaged, zone_id, zone)
        report.zones += len(rows)
        forward(after, rows[-1][1])
        after = rows[-1][1]
        if progress:
            progress("zones", report.zones, 0)
    for file in files:
        known.add(file.row.id)
        _count(file.entries, references, sizes)
    is_partial = not await _check_released(tx, report, references, sizes, known) or bool(damaged)
    for file_id in damaged:
        known.add(file_id)
        _count(await _readable_entries(tx, file_id), references, sizes)
    await _check_orphans(tx, report, known)
    await _check_chunks(tx, report, references, sizes, is_partial=is_partial)
    await check_sessions(tx, report.add)
    await check_ledger(tx, report.add)


async def _check_schema(tx: ReadTx, report: Report) -> None:
    """A store with other tables than ours does not open to be written; a trigger or a view could
    make anything of what is."""
    found = await tx.fetch("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    for kind, name, sql in found:
        if sql not in TABLES:
            report.add(f"the database: {kind} {name!a} is not one of this format")
    if not {sql for _, _, sql in found}.issuperset(TABLES):
        report.add("the database: a table or an index of this format is missing")


async def _check_zone(
    tx: ReadTx, report: Report, files: list[_Bytes], damaged: set[int], zone_id: int, zone: str
) -> None:
    reader = ReadTransaction(tx)
    try:
        await reader.zone(zone)
    except StoreError as error:
        report.add_error(error, zone)
    for (file_id,) in await tx.fetch("SELECT id FROM file WHERE zone_id = ?", (zone_id,)):
        report.files += 1
        try:
            found = await reader.file_by_id(file_id)
            if found is None:
                raise CorruptionError(f"file {file_id} cannot be found by its id")
            row = found[1]
        except StoreError as error:
            report.add_error(error, zone)
            damaged.add(file_id)
            continue
        try:
            tail = await _check_tail(reader, report, zone, row)
            files.append(_Bytes(zone, row, await _check_list(tx, report, zone, row), tail))
        except StoreError as error:
            report.add_error(error, zone, row.name)
            damaged.add(file_id)


async def _check_tail(
    reader: ReadTransaction, report: Report, zone: str, row: FileRow
) -> Sequence[TailRecord]:
    head = await reader.head_of(zone, row)
    report.bytes += head.size
    if head.damage is not None and not head.damage.is_readable:
        report.add_error(damage_error(zone, head, head.damage))
    line = row.ended
    tail = await reader.tail(zone, row)
    for record in tail:
        if record.line != line:
            report.add(
                "the line numbers of the appends do not add up", zone, row.name, record.offset
            )
        line = record.line + record.ended
    return tail


async def _check_list(tx: ReadTx, report: Report, zone: str, row: FileRow) -> list[Entry]:
    """Check a file's list against its row."""
    entries: list[Entry] = []
    offset = line = 0
    for page in await read_pages(tx, row.id, row.pages):
        if (page.start_offset, page.start_line) != (offset, line):
            report.add(f"page {page.number} of the list is out of place", zone, row.name, offset)
        offset, line = page.ends()
        entries += page.entries
    if (offset, line) != (row.size, row.ended):
        report.add(
            f"the list has {offset} bytes and {line} lines, the file {row.size} and {row.ended}",
            zone,
            row.name,
        )
    return entries


async def _check_released(
    tx: ReadTx, report: Report, references: Counter[bytes], sizes: dict[bytes, int], known: set[int]
) -> bool:
    """Lists of deleted files that wait to be taken apart still hold references, and so do lists
    that are being built. False if one of them is damaged."""
    is_whole = True
    rows = await tx.fetch("SELECT file_id, pages, row_check FROM released")
    rows += await tx.fetch("SELECT file_id, pages, row_check FROM building")
    for file_id, pages, check in rows:
        if file_id in known:
            report.add(f"file {file_id} is both there and released or being built")
        known.add(file_id)
        try:
            check_released(file_id, pages, check)
            for page in await read_pages(tx, file_id, pages):
                _count(page.entries, references, sizes)
        except CorruptionError as error:
            report.add(f"deleted or unfinished file {file_id}: {error.message}")
            is_whole = False
    return is_whole


async def _check_orphans(tx: ReadTx, report: Report, known: set[int]) -> None:
    for (file_id,) in await tx.fetch("SELECT DISTINCT id >> ? FROM list", (LIST_PAGE_BITS,)):
        if file_id not in known:
            report.add(f"list pages of file {file_id} belong to nothing")
    for (file_id,) in await tx.fetch(
        "SELECT f.id FROM file f LEFT JOIN zone z ON z.id = f.zone_id WHERE z.id IS NULL"
    ):
        report.add(f"file {file_id} belongs to no zone")
    for (chunk_id,) in await tx.fetch(
        "SELECT d.id FROM chunk_data d LEFT JOIN chunk c ON c.id = d.id WHERE c.id IS NULL"
    ):
        report.add(f"bytes of chunk {chunk_id} belong to nothing")


async def _readable_entries(tx: ReadTx, file_id: int) -> list[Entry]:
    """What a damaged file's list still names, so that its chunks are not called unused."""
    entries: list[Entry] = []
    first = list_id(file_id, 0)
    rows = await tx.fetch(
        "SELECT id FROM list WHERE id >= ? AND id < ?", (first, first + (1 << LIST_PAGE_BITS))
    )
    for (page_id,) in rows:
        with suppress(CorruptionError):  # told already
            entries += (await read_page(tx, file_id, page_id - first)).entries
    return entries


async def _check_chunks(
    tx: ReadTx,
    report: Report,
    references: Counter[bytes],
    sizes: dict[bytes, int],
    *,
    is_partial: bool,
) -> None:
    """Compare counts. `is_partial`: lists are damaged, so more references are no surprise."""
    rows = await tx.fetch(
        "SELECT c.id, c.hash, c.size, c.refs, d.id "
        "FROM chunk c LEFT JOIN chunk_data d ON d.id = c.id"
    )
    for chunk_id, digest, size, refs, data_id in rows:
        report.chunks += 1
        wanted = references.pop(digest, 0)
        is_known_cause = is_partial and refs > wanted * REFERENCE and refs % REFERENCE == 0
        if refs != wanted * REFERENCE and not is_known_cause:
            report.add(f"chunk {chunk_id} counts {refs}, not {wanted} × {REFERENCE} references")
        if wanted and sizes[digest] != size:
            report.add(f"chunk {chunk_id} has {size} bytes, lists say {sizes[digest]}")
        if data_id is None:
            report.add(f"chunk {chunk_id} has lost its bytes")
    if references:
        report.add(f"{len(references)} chunks that lists name are missing")


def _count(entries: list[Entry], references: Counter[bytes], sizes: dict[bytes, int]) -> None:
    for entry in entries:
        references[entry.digest] += 1
        sizes[entry.digest] = entry.size


async def _check_bytes(
    store: FileStore, file: _Bytes, report: Report, tell: Callable[[], None] | None
) -> None:
    """Read every chunk of a file and count its lines again. `tell` is called now and then."""
    zone, row = file.zone, file.row
    offset, counter = 0, LineCounter()
    is_known = True
    if tell and not file.entries:
        tell()
    for number, entry in enumerate(file.entries):
        if tell and number % CHUNKS_PER_STEP == 0:
            tell()
        try:
            data = await store.read_unit(partial(load_chunk, entry=entry))
        except CorruptionError as error:
            if not await store.read_unit(partial(_is_named, file_id=row.id, digest=entry.digest)):
                return  # the file was replaced meanwhile
            report.add(error.message, zone, row.name, offset)
            is_known = False
        else:
            ended = counter.feed(data)
            if is_known and ended != entry.ended:
                message = f"{ended} lines end here, the list says {entry.ended}"
                report.add(message, zone, row.name, offset)
            # Behind a damaged chunk nobody knows what is open until a line ends.
            is_known = is_known or b"\n" in data
        offset += entry.size
    for record in file.tail if is_known else ():
        if (counter.feed(record.data), counter.state) != (record.ended, record.open):
            report.add("an append miscounts its lines", zone, row.name, record.offset)


async def _is_named(tx: ReadTx, file_id: int, digest: bytes) -> bool:
    """A chunk that cannot be read is damage only if the file still names it."""
    row = await tx.fetch_one("SELECT pages FROM file WHERE id = ?", (file_id,))
    pages = await read_pages(tx, file_id, row[0]) if row else []
    return any(entry.digest == digest for page in pages for entry in page.entries)
