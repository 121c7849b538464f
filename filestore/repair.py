"""Saving all that can be saved of a damaged store into a new one. The damaged one is only read: all
work is done on a copy of it.

Whole files are saved under their names. Of a file that has lost bytes, what is left is kept beside
as `<name>.damaged`, so that nobody takes it for the file; docs/specs/0006-backup-and-repair.md
says exactly what becomes of what. Every loss is told.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from blake3 import blake3

from filestore.backup import check_copy, nobody, own_folder
from filestore.building import Built
from filestore.check import Progress
from filestore.chunking import Prepared
from filestore.clock import Clock, system_clock
from filestore.engine.backup import recover_database
from filestore.engine.database import create, wal_bytes
from filestore.engine.pages import Pages, roots_of
from filestore.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    StoreError,
    TooLargeError,
)
from filestore.files import sync_folder, translated_os_errors
from filestore.heads import FileRow
from filestore.journal.mending import REBUILT
from filestore.ledger import save as save_ledger
from filestore.meta import decode_meta, encode_meta
from filestore.model import FILE_NAME_CHARS_MAX, Json
from filestore.repair_journals import SavedJournals
from filestore.restoring import copy_file, unused
from filestore.salvage import Salvage, Stretch
from filestore.sessions import rows
from filestore.sessions.adopting import adopt
from filestore.sessions.names import OUTPUT, STATE, archive_zone, current_zone, parse_session
from filestore.sessions.preview import Summary, summarise
from filestore.sessions.rows import SessionRow
from filestore.store import DATABASE_NAME, FileStore
from filestore.transaction import Transaction

DAMAGED_SUFFIX = ".damaged"
FOUND_ZONE = "repair:found"
HOLES_NOTED_MAX = 500
HOLES_TOLD_MAX = 3
PREPARED_BYTES_MAX = 4 << 20
"""Larger files are built in pieces."""
TOLD_TABLES = {"zone": "zones", "file": "files", "log": "appends", "session": "sessions",
               "ledger": "migrated items", "journal": "journals", "record": "records",
               "repo": "repos"}  # fmt: skip
"""Tables whose lost rows nothing else would tell of."""


class Loss(NamedTuple):
    """Something that could not be saved as it was. `saved_as`: where what is left of it is."""

    zone: str
    name: str
    what: str
    saved_as: str = ""


@dataclass(slots=True)
class Repaired:
    """What a repair has saved, and all that it could not save as it was."""

    zones: int = 0
    files: int = 0
    bytes: int = 0
    journals: int = 0
    records: int = 0
    losses: list[Loss] = field(default_factory=list)


class _File(NamedTuple):
    """A file to be: the row it had, its name now, and its bytes in the new store."""

    row: FileRow
    name: str
    content: Prepared | Built
    modified_ms: int
    meta: dict[str, Json]
    is_whole: bool


async def repair(
    data_dir: Path,
    target: Path,
    *,
    progress: Progress = nobody,
    clock: Clock = system_clock,
) -> Repaired:
    """Make a new store in `target`, which must not exist, of what can be read of `data_dir`.

    A crash leaves no `target`, or the whole of it, checked. Raises BusyError while the
    damaged store is in use, and NotFoundError if there is none.
    """
    with translated_os_errors("repair"):
        _refuse_target(data_dir, target)
        beside = target.with_name(f".{target.name}.zoned-new")
        with own_folder(beside):
            source, made = beside / "source", beside / "made"
            source.mkdir(mode=0o700)
            made.mkdir(mode=0o700)
            await asyncio.to_thread(_copy_source, data_dir, source / DATABASE_NAME, progress)
            repaired = await _salvage(source / DATABASE_NAME, made, progress, clock)
            await check_copy(made, deep=True, progress=progress)
            await asyncio.to_thread(shutil.rmtree, source)
            (made / "zoned.lock").unlink(missing_ok=True)
            os.rename(made, target)
            sync_folder(target.parent)
    return repaired


def _refuse_target(data_dir: Path, target: Path) -> None:
    hint = "give the path of a folder that is not there yet"
    if os.path.lexists(target):
        raise AlreadyExistsError(f"{str(target)!a} exists", operation="repair", hint=hint)
    if target.resolve().is_relative_to(data_dir.resolve()):
        message = "the new store does not go into the folder of the damaged one"
        raise InvalidArgumentError(message, operation="repair", hint=hint)


def _copy_source(data_dir: Path, target: Path, progress: Progress) -> None:
    path = data_dir / DATABASE_NAME
    if not path.is_file():
        raise NotFoundError(f"there is no store in {str(data_dir)!a}", operation="repair")
    with unused(data_dir):
        copy_file(path, target, progress)
        if wal_bytes(path):
            wal = target.with_name(target.name + "-wal")
            copy_file(path.with_name(path.name + "-wal"), wal, progress)
        if wal_bytes(target):
            try:
                recover_database(target)
            except StoreError:
                # SQLite makes nothing of it; the pages of the database are there all the same.
                shutil.copyfile(path, target)


async def _salvage(source: Path, made: Path, progress: Progress, clock: Clock) -> Repaired:
    with source.open("rb") as file:
        pages = Pages(file)
        salvage = Salvage(pages)
        template = made / "template.db"
        create(template, clock())
        # A new store has its tables where ours has them, whatever page 1 of ours still says.
        with template.open("rb") as other:
            roots = [*roots_of(Pages(other)).items()]
        template.unlink()
        await asyncio.to_thread(salvage.read, [*roots, *roots_of(pages).items()], progress)
        create(made / DATABASE_NAME, clock(), salvage.counter + 1)
        async with await FileStore.open(made, sync="normal", clock=clock) as store:
            return await _Saving(store, salvage, progress).run()


class _Saving:
    """One repair: from what was found into the new store."""

    def __init__(self, store: FileStore, salvage: Salvage, progress: Progress) -> None:
        self._store = store
        self._salvage = salvage
        self._progress = progress
        self._done = Repaired()
        self._journals = SavedJournals(store, salvage, self._lose, progress)
        self._names: set[str] = set()
        """Of zones, and ids of sessions: what there may be only once."""
        self._archives: set[tuple[str, int]] = {
            (row.definition_id, row.archived_ms)
            for row in salvage.sessions.values()
            if row.archived_ms is not None
        }

    async def run(self) -> Repaired:
        salvage = self._salvage
        self._tell_flaws()
        # Before the sessions: each finds its own.
        await self._journals.save()
        self._done.journals = len(self._journals.rows)
        self._done.records = self._journals.records
        files: dict[int, list[FileRow]] = {zone_id: [] for zone_id in salvage.zones}
        for zone_id in salvage.sessions:
            files.setdefault(zone_id, [])
        for row in salvage.files.values():
            files.setdefault(row.zone_id, []).append(row)
        for number, (zone_id, rows_) in enumerate(sorted(files.items())):
            self._progress("zones saved", number, len(files))
            await self._save_zone(zone_id, sorted(rows_, key=lambda row: row.name))
        await self._save_lost_files()
        ledger = salvage.ledger

        async def unit(tx: Transaction) -> None:
            for row in ledger:
                # The versions of copies are others now; with 0 none is taken for untouched.
                await save_ledger(tx.rows, row._replace(version=0))

        await self._store.transact(unit)
        return self._done

    def _tell_flaws(self) -> None:
        for flaw in self._salvage.flaws:
            if what := TOLD_TABLES.get(flaw.table):
                self._lose("", "", f"{what} in page {flaw.page}: {flaw.reason}")
        for seq, size in self._salvage.lost_log_rows:
            what = f"appends of unknown files, {size} bytes in all (row {seq} of the log)"
            self._lose("", "", what)

    def _lose(self, zone: str, name: str, what: str, saved_as: str = "") -> None:
        self._done.losses.append(Loss(zone, name, what, saved_as))

    async def _save_zone(self, zone_id: int, file_rows: list[FileRow]) -> None:
        salvage = self._salvage
        zone, session = salvage.zones.get(zone_id), salvage.sessions.get(zone_id)
        if zone is None and session is not None:
            at = session.archived_ms
            name = (
                current_zone(session.definition_id)
                if at is None
                else archive_zone(session.definition_id, at)
            )
        else:
            name = zone.name if zone else f"repair:zone:{zone_id}"
        if zone is None and file_rows:
            self._lose(name, "", "the zone's own row: its meta, and when it was made")
        files = [await self._save_file(name, row) for row in file_rows]
        files = _with_own_names(files)
        if session is not None and session.archived_ms is None:
            session, name = self._archived_if_torn(session, name, files)
        if name in self._names:
            name = f"repair:zone:{zone_id}"
        if session is not None and not self._is_new(session, name):
            session = None
        self._names.add(name)
        summary = await self._summary(name, files) if session is None else Summary()
        created_ms = zone.created_ms if zone else min((f.row.created_ms for f in files), default=0)
        meta = decode_meta(zone.meta) if zone else {}
        begins = self._lost_session(name, session, created_ms)

        async def unit(tx: Transaction) -> None:
            await tx.add_zone(name, created_ms=created_ms, meta=meta)
            versions = {}
            for file in files:
                info = await tx.add_file(
                    name,
                    file.name,
                    file.content,
                    created_ms=file.row.created_ms,
                    modified_ms=file.modified_ms,
                    meta=file.meta,
                )
                versions[file.name] = info.version
            if session is not None:
                row = await _moved(tx, session, name, files, versions)
                await rows.insert(tx.rows, row, joins=True, reason=REBUILT)
            elif parse_session(name) is not None:
                await adopt(tx, name, *begins, summary, joins=True)

        await self._store.transact(unit)
        self._done.zones += 1
        self._done.files += len(files)
        self._done.bytes += sum(file.content.size for file in files)

    def _lost_session(
        self, name: str, session: SessionRow | None, created_ms: int
    ) -> tuple[str, int]:
        """Tell if a session has lost its row or its journal. Returns what it is begun with again:
        its id and its start, if its journal tells them, else others.
        """
        begins = str(uuid4()), created_ms
        about = parse_session(name)
        if session is not None:
            if self._salvage.has_journals and session.session_id not in self._journals.rows:
                self._lose(name, "", "the session's journal: it begins a new one")
        elif about is not None:
            found = self._journals.whose(*about)
            if found is not None:
                begins = found.session_id, found.created_ms
            again = "made of its journal and its files" if found else "it has another id now"
            self._lose(name, "", f"the session's row: {again}")
        return begins

    def _archived_if_torn(
        self, session: SessionRow, zone: str, files: list[_File]
    ) -> tuple[SessionRow, str]:
        """A current session whose stream is not whole ends here: what is appended next begins at
        line 0, and would pass for lines that its snapshot shows already."""
        torn = [file for file in files if file.row.name == OUTPUT and not file.is_whole]
        if not torn:
            return session, zone
        at = torn[0].modified_ms
        while (session.definition_id, at) in self._archives:
            at += 1
        self._archives.add((session.definition_id, at))
        name = archive_zone(session.definition_id, at)
        self._lose(zone, "", "its stream is not whole, so the session is an archive now", name)
        return session._replace(archived_ms=at), name

    def _is_new(self, session: SessionRow, zone: str) -> bool:
        """True if the row is of that zone, and no other session has its id."""
        is_new = session.session_id not in self._names
        self._names.add(session.session_id)
        return is_new and parse_session(zone) == (session.definition_id, session.archived_ms)

    async def _summary(self, zone: str, files: list[_File]) -> Summary:
        """What the snapshot shows, for a session whose row is lost."""
        whole = [file for file in files if file.name == STATE]
        if parse_session(zone) is None or not whole:
            return Summary()
        pieces = [each.data or b"" for each in self._salvage.content(whole[0].row.id)]
        return await asyncio.to_thread(summarise, b"".join(pieces))

    async def _save_lost_files(self) -> None:
        """Bytes of files whose names are lost."""
        for file_id in self._salvage.lost_files:
            row = FileRow(file_id, 0, str(file_id), 0, 0, 0, 0, 0, 0, 0, None, b"{}")
            file = await self._save_file(FOUND_ZONE, row, is_found=True)

            async def unit(tx: Transaction, file: _File = file) -> None:
                await tx.add_file(
                    FOUND_ZONE, file.name, file.content, created_ms=0, modified_ms=0,
                    meta=file.meta,
                )  # fmt: skip

            await self._store.transact(unit)
            self._done.files += 1
            self._done.bytes += file.content.size

    async def _save_file(self, zone: str, row: FileRow, *, is_found: bool = False) -> _File:
        """Bring a file's bytes over, if only those that are left."""
        salvage = self._salvage
        holes: list[Stretch] = []
        hasher = blake3()

        def pieces() -> Iterator[bytes]:
            holes.clear()
            hasher.reset()
            for stretch in salvage.content(row.id):
                if stretch.data is None and _goes_on(holes, stretch):
                    holes[-1] = holes[-1]._replace(length=holes[-1].length + stretch.length)
                elif stretch.data is None:
                    holes.append(stretch)
                    # So that two halves of lines never make one.
                    yield b"\n"
                else:
                    hasher.update(stretch.data)
                    yield stretch.data

        content = await self._content(row, pieces)
        is_same = row.digest is None or salvage.is_appended_to(row) or hasher.digest() == row.digest
        name, meta, modified_ms = row.name, dict(decode_meta(row.meta)), salvage.modified_ms(row)
        if not holes and is_same and not is_found:
            return _File(row, name, content, modified_ms, meta, True)
        name = row.name[: FILE_NAME_CHARS_MAX - len(DAMAGED_SUFFIX)] + DAMAGED_SUFFIX
        name = row.name if is_found else name
        what = "its name and its zone" if is_found else _told(holes)
        self._lose("" if is_found else zone, "" if is_found else row.name,
                   what or "its bytes do not match its hash", f"{zone}/{name}")  # fmt: skip
        meta["repair:holes"] = [[each.offset, each.length] for each in holes[:HOLES_NOTED_MAX]]
        with suppress(TooLargeError):  # what stands there already counts for more
            encode_meta(meta, self._store.limits)
            return _File(row, name, content, modified_ms, meta, False)
        del meta["repair:holes"]
        return _File(row, name, content, modified_ms, meta, False)

    async def _content(
        self, row: FileRow, pieces: Callable[[], Iterator[bytes]]
    ) -> Prepared | Built:
        held: list[bytes] = []
        size = 0
        for piece in pieces():
            held.append(piece)
            size += len(piece)
            if size > PREPARED_BYTES_MAX:
                held.clear()
                return await self._store.build(_later(pieces()))
        data = b"".join(held)
        if row.digest is not None:
            return await self._store.prepare(data)
        return await self._store.prepare_stream(data)


def _with_own_names(files: list[_File]) -> list[_File]:
    """Damage can leave two rows of one name, or what is left of a file the name of another."""
    found: dict[str, _File] = {}
    for file in sorted(files, key=lambda each: (not each.is_whole, -each.row.version)):
        name = file.name if file.name not in found else f"{file.name[:100]}.{file.row.id}"
        found[name] = file._replace(name=name)
    return list(found.values())


async def _later(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _goes_on(holes: list[Stretch], stretch: Stretch) -> bool:
    return bool(holes and holes[-1].length) and sum(holes[-1][:2]) == stretch.offset


def _told(holes: list[Stretch]) -> str:
    shown = [f"{each.length or 'some'} bytes at {each.offset}" for each in holes[:HOLES_TOLD_MAX]]
    more = len(holes) - len(shown)
    return ", ".join(shown) + (f" and in {more} more places" if more else "")


async def _moved(
    tx: Transaction, row: SessionRow, zone: str, files: list[_File], versions: dict[str, int]
) -> SessionRow:
    """The row of a session in its new store."""
    found = await tx.zone_row(zone)
    assert found is not None
    sizes = {file.name: file.content.size for file in files}
    state = next((file for file in files if file.name == STATE), None)
    is_known = state is not None and row.state_version == state.row.version
    row = row._replace(zone_id=found.id, state_version=versions[STATE] if is_known else 0)
    if row.archived_ms is None:
        return row
    output = await tx.stat(zone, OUTPUT)
    return row._replace(
        state_bytes=sizes.get(STATE, 0),
        output_bytes=output.size if output else 0,
        output_lines=output.lines if output else 0,
    )
