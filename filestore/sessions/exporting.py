"""Writing one session into one portable file, beside whoever goes on with it.

All of it is as it was at one moment: snapshots are recognised by their hashes, and of streams,
which only grow, as much is taken as there was. What is changed in any other way meanwhile makes it
begin again.
"""

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import NamedTuple

from filestore.backup import nobody, own_folder, place_file, refuse_target
from filestore.check import Progress
from filestore.errors import BusyError, CorruptionError, NotFoundError
from filestore.files import FILE_MODE, sync_folder, translated_os_errors
from filestore.heads import check_whole
from filestore.journal import rows as journals
from filestore.journal.bodies import dump
from filestore.journal.model import JournalRow, Record
from filestore.journal.writing import FEED_PREFIX
from filestore.meta import decode_meta
from filestore.model import PIECE_BYTES_MAX
from filestore.reading import ReadTransaction
from filestore.records.repos import find_repo
from filestore.sessions import rows
from filestore.sessions.names import STATE, zone_of
from filestore.sessions.portable import (
    FileHead,
    RecordPart,
    RepoHead,
    SessionHead,
    Writer,
    read,
)
from filestore.store import FileStore

TRIES_MAX = 5
BODIES_BYTES = 64 << 10
"""More than that is packed beside the event loop."""


class _Source(NamedTuple):
    file_id: int
    head: FileHead
    size: int
    digest: str | None


class _Plan(NamedTuple):
    zone: str
    session: SessionHead
    journal: JournalRow
    repo: RepoHead | None
    records: list[Record]
    """The first ones: less is left to be read while others write."""
    files: list[_Source]


class _ChangedError(Exception):
    """A file is not any more what it was. Does not leave the export."""


class Exported(NamedTuple):
    """What was written."""

    zone: str
    """`journal:` and the id for a session without files."""
    session_id: str
    files: int
    bytes: int
    records: int
    size: int
    """Of the file that was made."""


async def export_session(
    store: FileStore,
    place: str,
    file: Path,
    *,
    is_replacing: bool = False,
    progress: Progress = nobody,
) -> Exported:
    """Write the session at `place` (a definition id, or an archive's zone) into `file`: of an agent
    that has no files, its newest session by records.

    Streamed, in bounded memory, and read back before the file has its name. A crash leaves nothing
    under that name, or what was there, or the whole. Raises NotFoundError, AlreadyExistsError, and
    CorruptionError if something of it is damaged.
    """
    beside = file.with_name(f".{file.name}.zoned-new")
    with translated_os_errors("export"):
        refuse_target(store.data_dir, file, is_replacing=is_replacing)
    with translated_os_errors("export"), own_folder(beside):
        made = beside / "session"
        for _ in range(TRIES_MAX):
            plan = await store.view(lambda tx: _plan(tx, place))
            try:
                await _write(store, plan, made, progress)
                break
            except _ChangedError:
                continue
        else:
            raise BusyError("the session was changed at every attempt", operation="export")
        await asyncio.to_thread(_read_back, made)
        size = made.stat().st_size
        place_file(made, file, is_replacing)
        sync_folder(file.parent)
    total = sum(each.size for each in plan.files)
    session_id, records = plan.journal.session_id, plan.journal.records
    return Exported(plan.zone, session_id, len(plan.files), total, records, size)


async def _plan(tx: ReadTransaction, place: str) -> _Plan:
    zone = zone_of(place)
    row = await rows.load(tx.rows, zone)
    found = await tx.zone_row(zone)
    if row is None or found is None:
        journal = None if place == zone else await journals.without_files(tx.rows, place)
        if journal is None:
            hint = "zoned agents and zoned archives list what there is"
            raise NotFoundError("no such session", operation="export", zone=zone, hint=hint)
        return _Plan(
            FEED_PREFIX + journal.session_id,
            _head_without_files(journal), journal, *await _records(tx, journal), [],
        )  # fmt: skip
    journal = await journals.find(tx.rows, row.session_id)
    if journal is None:
        raise CorruptionError("the session has lost its journal", operation="export", zone=zone)
    files = []
    state_version = 0
    for each in await tx.file_rows(found.id, zone):
        head = await tx.head_of(zone, each)
        check_whole(zone, head)
        info = tx.info(zone, head)
        if each.name == STATE:
            state_version = info.version
        about = FileHead(each.name, info.created_ms, info.modified_ms, dict(info.meta))
        files.append(_Source(each.id, about, info.size, info.digest))
    session = SessionHead(
        row.definition_id,
        row.session_id,
        row.archived_ms,
        row.started_ms,
        row.preview,
        row.node_count,
        row.has_nodes,
        row.covered,
        row.state_version == state_version,
        found.created_ms,
        dict(decode_meta(found.meta)),
    )
    # What may be replaced comes first: the less time there is for it.
    files.sort(key=lambda each: each.digest is None)
    return _Plan(zone, session, journal, *await _records(tx, journal), files)


def _head_without_files(row: JournalRow) -> SessionHead:
    at_ms = row.created_ms
    return SessionHead(
        row.definition_id, row.session_id, None, at_ms, "", 0, 0, None, False, at_ms, {}
    )


async def _records(tx: ReadTransaction, row: JournalRow) -> tuple[RepoHead | None, list[Record]]:
    repo = None if row.repo_id is None else await find_repo(tx.rows, row.repo_id, "export")
    return None if repo is None else RepoHead(*repo), await _page(tx, row, 0)


async def _write(store: FileStore, plan: _Plan, made: Path, progress: Progress) -> None:
    total = sum(each.size for each in plan.files)
    done = 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(made, flags, FILE_MODE), "wb") as stream:
        writer = Writer(stream)
        writer.session(plan.session)
        if plan.repo is not None:
            writer.repo(plan.repo)
        await _write_records(store, plan, writer)
        for source in plan.files:
            writer.file(source.head)
            at = 0
            while at < source.size:
                piece = await _piece(store, source, at)
                await asyncio.to_thread(writer.data, piece)
                at += len(piece)
                done += len(piece)
                progress("MiB exported", done >> 20, total >> 20)
            end = writer.end_file()
            if source.digest is not None and source.digest != end.digest.hex():
                raise _ChangedError
        writer.end()
        await store.view(lambda tx: _check_streams(tx, plan))
        stream.flush()
        os.fsync(stream.fileno())


async def _write_records(store: FileStore, plan: _Plan, writer: Writer) -> None:
    """As many as there were: they only become more."""
    page, seq = plan.records, 0
    while page:
        parts = [RecordPart(each.at_ms, each.kind, each.ref, dump(each.body)) for each in page]
        if sum(len(part.body) for part in parts) > BODIES_BYTES:
            await asyncio.to_thread(lambda some: [*map(writer.record, some)], parts)
        else:
            for part in parts:
                writer.record(part)
        seq += len(page)
        is_all = seq >= plan.journal.records
        page = [] if is_all else await store.view(partial(_page, row=plan.journal, seq=seq))
    if seq < plan.journal.records:
        raise _ChangedError


async def _page(tx: ReadTransaction, row: JournalRow, seq: int) -> list[Record]:
    count = min(row.records - seq, journals.PAGE_RECORDS_MAX)
    return await journals.load_page(tx.rows, row.id, seq, records_max=count) if count else []


async def _piece(store: FileStore, source: _Source, at: int) -> bytes:
    length = min(PIECE_BYTES_MAX, source.size - at)
    try:
        piece = await store.view(lambda tx: tx.read_by_id(source.file_id, at, length))
    except CorruptionError:
        # Beside a writer a chunk may also be gone because the file has moved on.
        await store.view(lambda tx: _check_same(tx, source))
        raise
    if piece is None or len(piece) != length:
        raise _ChangedError
    return piece


async def _check_streams(tx: ReadTransaction, plan: _Plan) -> None:
    for source in plan.files:
        if source.digest is None:
            await _check_same(tx, source)


async def _check_same(tx: ReadTransaction, source: _Source) -> None:
    """Raise if the file has been replaced: appends leave no hash of the whole."""
    found = await tx.file_by_id(source.file_id)
    if found is None:
        raise _ChangedError
    now = tx.info(found[0], await tx.head_of(*found))
    if now.digest != source.digest or now.size < source.size:
        raise _ChangedError


def _read_back(made: Path) -> None:
    with made.open("rb") as stream:
        for _ in read(stream):
            pass
