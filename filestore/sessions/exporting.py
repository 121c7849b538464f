"""Writing one session into one portable file, beside whoever goes on with it.

All of it is as it was at one moment: snapshots are recognised by their hashes, and of streams,
which only grow, as much is taken as there was. What is changed in any other way meanwhile makes it
begin again.
"""

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

from filestore.backup import nobody, own_folder, place_file, refuse_target
from filestore.check import Progress
from filestore.errors import BusyError, CorruptionError, NotFoundError
from filestore.files import FILE_MODE, sync_folder, translated_os_errors
from filestore.heads import check_whole
from filestore.meta import decode_meta
from filestore.model import PIECE_BYTES_MAX
from filestore.reading import ReadTransaction
from filestore.sessions import rows
from filestore.sessions.names import STATE, zone_of
from filestore.sessions.portable import FileHead, SessionHead, Writer, read
from filestore.store import FileStore

TRIES_MAX = 5


class _Source(NamedTuple):
    file_id: int
    head: FileHead
    size: int
    digest: str | None


class _Plan(NamedTuple):
    session: SessionHead
    files: list[_Source]


class _ChangedError(Exception):
    """A file is not any more what it was. Does not leave the export."""


class Exported(NamedTuple):
    """What was written."""

    zone: str
    session_id: str
    files: int
    bytes: int
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
    """Write the session at `place` (a definition id, or an archive's zone) into `file`.

    Streamed, in bounded memory, and read back before the file has its name. A crash leaves nothing
    under that name, or what was there, or the whole. Raises NotFoundError, AlreadyExistsError, and
    CorruptionError if something of it is damaged.
    """
    zone = zone_of(place)
    beside = file.with_name(f".{file.name}.zoned-new")
    with translated_os_errors("export"):
        refuse_target(store.data_dir, file, is_replacing=is_replacing)
    with translated_os_errors("export"), own_folder(beside):
        made = beside / "session"
        for _ in range(TRIES_MAX):
            plan = await store.view(lambda tx: _plan(tx, zone))
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
    return Exported(zone, plan.session.session_id, len(plan.files), total, size)


async def _plan(tx: ReadTransaction, zone: str) -> _Plan:
    row = await rows.load(tx.rows, zone)
    found = await tx.zone_row(zone)
    if row is None or found is None:
        hint = "zoned agents and zoned archives list what there is"
        raise NotFoundError("no such session", operation="export", zone=zone, hint=hint)
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
    return _Plan(session, sorted(files, key=lambda each: each.digest is None))


async def _write(store: FileStore, plan: _Plan, made: Path, progress: Progress) -> None:
    total = sum(each.size for each in plan.files)
    done = 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(made, flags, FILE_MODE), "wb") as stream:
        writer = Writer(stream)
        writer.session(plan.session)
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
