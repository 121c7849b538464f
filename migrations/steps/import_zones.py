"""Importing the zones of an old `filestore.db`.

One zone is one transaction: its files, its session if it is one, and its rows in the ledger.
Several are read and packed at a time; what is large is built beforehand, in pieces that nobody
sees (filestore/building.py), so memory stays bounded whatever the sizes.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from filestore import Prepared, StoreError, ledger
from filestore.building import Built
from filestore.chunking import FixedCutter, prepare_stream
from filestore.ledger import LedgerRow
from filestore.meta import encode_meta
from filestore.model import check_file_name, check_zone_name
from filestore.reading import ReadTransaction
from filestore.sealing import size_max
from filestore.sessions.names import STATE, parse_session
from filestore.sessions.preview import Summary, summarise
from migrations.legacy.database import OldDatabase, UnreadableError
from migrations.legacy.files import (
    FILES,
    PARTS,
    OldFile,
    check_tables,
    count_zones,
    files_of,
    layout_of,
    lost_parts,
    odd_rows,
    read_spans,
    zones_after,
)
from migrations.legacy.layout import Layout
from migrations.legacy.values import MissingError, shown
from migrations.run import Run, fail
from migrations.stats import Failure, Stats
from migrations.steps.add_zone import Content, OldZone, add_zone
from migrations.steps.outcomes import DAMAGED
from migrations.steps.parts import FATAL, Room, in_parallel, told

if TYPE_CHECKING:
    from filestore.engine.driver import Connection
    from migrations.steps.import_legacy import Wanted

ZONES_PER_READ = 200
READERS = 2
"""So many zones are read and packed at a time."""
WAITING_MAX = 32
WAITING_BYTES_MAX = 12 << 20
"""So many, and so much of them, may wait for their commit besides: whatever waits shares one."""
ZONE_BYTES_MAX = 8 << 20
"""So much of a zone is held in memory; files beyond it are built in pieces."""


class Listed(NamedTuple):
    """A zone as it is stored, its files, and what the ledger knows of them."""

    key: bytes
    zone: str
    files: list[OldFile]
    rows: dict[str, LedgerRow]


class ReadFile(NamedTuple):
    """A file that was read and packed; `packed` is None if it is too large to be held."""

    file: OldFile
    layout: Layout
    packed: Prepared | None


class ZoneImport:
    """The import of one database."""

    def __init__(
        self, run: Run, stats: Stats, database: OldDatabase, source: str, wanted: "Wanted"
    ) -> None:
        self._run = run
        self._stats = stats
        self._database = database
        self._source = source
        self._wanted = wanted
        self._done = 0
        self._total = 0
        self._reading = asyncio.Semaphore(READERS)
        self._waiting = Room(WAITING_BYTES_MAX)

    async def run_all(self) -> None:
        """Import every zone, each by itself."""
        is_all = self._wanted.all_of(self._source, FILES, PARTS)
        wanted = None if is_all else self._wanted.zones(self._source)
        try:
            await asyncio.to_thread(self._database.read, check_tables)
        except MissingError as error:
            self._fail("", error.table, told(error))
            return
        # A damaged table can end either walk; what was found until then counts.
        for walk in (partial(self._name_odd_rows, is_all), partial(self._import_zones, wanted)):
            try:
                await walk()
            except FATAL:
                raise
            except StoreError as error:
                self._fail("", FILES, told(error))

    async def _name_odd_rows(self, is_all: bool) -> None:
        """Tell what cannot be imported at all; again only of what was told before."""
        odd = await asyncio.to_thread(self._database.read, odd_rows) if is_all else 0
        if odd:
            self._fail("", FILES, f"{odd} rows name no zone or no file")
        for key, name in await asyncio.to_thread(self._database.read, lost_parts):
            zone = shown(key)
            if is_all or shown(name) in self._wanted.names(self._source, zone):
                self._fail(zone, shown(name), "there are parts of it, but no file")

    async def _import_zones(self, wanted: set[str] | None) -> None:
        self._total = await asyncio.to_thread(self._database.read, count_zones)
        after = b""
        while keys := await asyncio.to_thread(
            self._database.read, partial(zones_after, after=after, limit=ZONES_PER_READ)
        ):
            if keys[-1] <= after:
                self._fail("", FILES, "its index is damaged: zones are out of order")
                return
            after = keys[-1]
            found = [key for key in keys if wanted is None or shown(key) in wanted]
            await in_parallel(await self._list(found), self._import_zone, WAITING_MAX)
            self._done += len(keys) - len(found)

    async def _list(self, keys: list[bytes]) -> list[Listed]:
        """The files of some zones; where one of them cannot be listed, that is told."""
        try:
            return await self._list_together(keys)
        except FATAL:
            raise
        except StoreError as error:
            if len(keys) == 1:
                self._fail(shown(keys[0]), "", told(error))
                return []
        return [listed for key in keys for listed in await self._list([key])]

    async def _list_together(self, keys: list[bytes]) -> list[Listed]:
        """The files of some zones, and what the ledger knows of them."""

        def files(connection: "Connection") -> list[list[OldFile]]:
            return [files_of(connection, key) for key in keys]

        async def known(tx: ReadTransaction) -> list[dict[str, LedgerRow]]:
            return [await ledger.load(tx.rows, self._source, shown(key)) for key in keys]

        found = await asyncio.to_thread(self._database.read, files)
        rows = await self._run.store.view(known)
        return [
            Listed(key, shown(key), *both)
            for key, both in zip(keys, zip(found, rows, strict=True), strict=True)
        ]

    async def _import_zone(self, listed: Listed) -> None:
        try:
            check_zone_name(listed.zone, "migrate")
            listed.key.decode()
            await self._import_files(listed)
        except FATAL:
            raise
        except (StoreError, UnreadableError, ValueError) as error:
            self._fail(listed.zone, "", told(error))
        self._done += 1
        self._run.progress("import zones", self._done, self._total)

    async def _import_files(self, listed: Listed) -> None:
        names: set[bytes] = set()
        for file in listed.files:
            row = listed.rows.get(file.name)
            is_listed = row is not None and row.is_same(_size(file), file.modified_ms)
            if is_listed and row is not None and row.outcome != DAMAGED:
                self._stats.count("already_imported")
            elif self._has_name(listed.zone, file):
                names.add(file.key)
        if not names:
            return
        async with AsyncExitStack() as held:
            async with self._reading:
                # One way to a thread for all that is slow: reading, packing, looking into the
                # snapshot.
                found, summary = await asyncio.to_thread(self._read, listed, names)
                contents = await self._contents(listed, found)
                # Who has no room to wait does not let the next one read.
                await held.enter_async_context(self._waiting.take(_cost(contents)))
            if contents:
                await self._add(listed, contents, summary)
        for content in contents:
            if content.flaw:
                self._fail(listed.zone, content.file.name, content.flaw)

    def _read(self, listed: Listed, names: set[bytes]) -> tuple[list[ReadFile], Summary]:
        """Read and pack files of a zone. On any thread."""
        chunk_bytes = size_max(self._run.store.limits.seal_bytes)
        found = self._database.read(
            partial(_read_files, key=listed.key, names=names, chunk_bytes=chunk_bytes)
        )
        summary = Summary()
        packed: list[ReadFile] = []
        for file, layout, chunks in found:
            if chunks is not None and file.name == STATE and parse_session(listed.zone):
                summary = summarise(b"".join(chunks))
            content = None if chunks is None else prepare_stream(chunks)
            packed.append(ReadFile(self._with_meta_that_fits(file), layout, content))
        return packed, summary

    def _has_name(self, zone: str, file: OldFile) -> bool:
        """False if the store cannot have a file of that name; then that is told."""
        try:
            check_file_name(file.name, "migrate")
        except StoreError as error:
            self._fail(zone, shown(file.key), told(error))
            return False
        return True

    async def _contents(self, listed: Listed, found: list[ReadFile]) -> list[Content]:
        """Pack what has to be imported; what is damaged just as before is told again."""
        contents: list[Content] = []
        for read in found:
            file, layout = read.file, read.layout
            row = listed.rows.get(file.name)
            flaw = _flaw(file, layout)
            is_known = row is not None and row.is_same(_size(file), file.modified_ms)
            if is_known and row is not None and row.stored == layout.size:
                self._fail(listed.zone, file.name, flaw or "it was damaged")
                continue
            packed: Prepared | Built
            if read.packed is not None:
                packed = read.packed
            else:
                file, layout, packed = await self._build(listed.key, file)
            contents.append(Content(file, packed, layout.size, _flaw(file, layout)))
        return contents

    async def _build(self, key: bytes, wanted: OldFile) -> tuple[OldFile, Layout, Built]:
        """Store a large file in pieces, as it is on one state of the database."""
        seen: list[tuple[OldFile, Layout]] = []

        async def pieces() -> AsyncGenerator[bytes, None]:
            with self._database.snapshot() as connection:
                files = await asyncio.to_thread(files_of, connection, key)
                file = next((file for file in files if file.key == wanted.key), wanted)
                layout = await asyncio.to_thread(layout_of, connection, key, file)
                seen.append((file, layout))
                parts = read_spans(connection, key, file, layout.spans)
                while (piece := await asyncio.to_thread(next, parts, None)) is not None:
                    yield piece

        async with aclosing(pieces()) as data:
            built = await self._run.store.build(data)
        self._run.hit("large.built")
        file, layout = seen[0]
        return self._with_meta_that_fits(file), layout, built

    def _with_meta_that_fits(self, file: OldFile) -> OldFile:
        """The file without its meta, and with a flaw, if the store cannot keep that."""
        try:
            encode_meta(file.meta, self._run.store.limits)
        except StoreError as error:
            flaw = f"{file.flaw}; {error.message}" if file.flaw else error.message
            return file._replace(meta={}, flaw=flaw)
        return file

    async def _add(self, listed: Listed, contents: list[Content], summary: Summary) -> None:
        zone = OldZone(self._source, listed.zone, contents, summary)
        try:
            self._run.before_change()
            added = await self._run.transact(partial(add_zone, old=zone), _cost(contents))
        except Exception:
            await self._give_up(contents, set())
            raise
        self._run.hit("zone.committed")
        await self._give_up(contents, added)
        if added:
            self._stats.count("zones_imported")
        for content in contents:
            if content.file.name in added:
                self._stats.count("files_imported")
                self._stats.count("bytes_imported", content.packed.size)
            else:
                self._stats.count("already_imported")

    async def _give_up(self, contents: list[Content], used: set[str]) -> None:
        """Release what was built and is not needed after all."""
        for content in contents:
            if isinstance(content.packed, Built) and content.file.name not in used:
                await self._run.store.give_up(content.packed)

    def _fail(self, zone: str, name: str, error: str) -> None:
        fail(self._stats, Failure(self._source, zone, name, error))


def _read_files(
    connection: "Connection", key: bytes, names: set[bytes], chunk_bytes: int
) -> list[tuple[OldFile, Layout, list[bytes] | None]]:
    """Read files of a zone, on one state, cut into chunks; of what is too large only where it
    lies."""
    found: list[tuple[OldFile, Layout, list[bytes] | None]] = []
    room = ZONE_BYTES_MAX
    for file in files_of(connection, key):
        if file.key not in names:
            continue
        layout = layout_of(connection, key, file)
        chunks: list[bytes] | None = None
        if layout.size <= room:
            cutter = FixedCutter(chunk_bytes)
            parts = read_spans(connection, key, file, layout.spans, chunk_bytes)
            chunks = [chunk for part in parts for chunk in cutter.feed(part)] + cutter.end()
            room -= layout.size
        found.append((file, layout, chunks))
    return found


def _cost(contents: list[Content]) -> int:
    """How many bytes of a zone are held in memory, before they were packed."""
    packed = [content.packed for content in contents]
    return sum(one.size for one in packed if isinstance(one, Prepared))


def _size(file: OldFile) -> int:
    return -1 if file.size is None else file.size


def _flaw(file: OldFile, layout: Layout) -> str:
    return "; ".join(filter(None, (file.flaw, layout.flaw)))
