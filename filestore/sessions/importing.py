"""Bringing a session in from a portable file: looked through from end to end first, then stored
piece by piece without a name, then made visible in one transaction, whole.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple
from uuid import UUID, uuid5

from filestore.backup import nobody
from filestore.building import Built
from filestore.check import Progress
from filestore.chunking import Prepared
from filestore.errors import (
    AlreadyExistsError,
    CorruptionError,
    InvalidArgumentError,
    NotFoundError,
    StoreError,
)
from filestore.files import translated_os_errors
from filestore.journal import rows as journals
from filestore.journal.writing import FEED_PREFIX
from filestore.reading import ReadTransaction
from filestore.sessions import rows
from filestore.sessions.importing_records import Looking, Records, appear
from filestore.sessions.importing_records import is_same as is_same_journal
from filestore.sessions.names import (
    OUTPUT,
    STATE,
    archive_zone,
    check_definition_id,
    current_zone,
)
from filestore.sessions.portable import (
    FileEnd,
    FileHead,
    RecordPart,
    RepoHead,
    SessionHead,
    read,
)
from filestore.sessions.rows import SessionRow
from filestore.sessions.units import drop_empty_current
from filestore.store import ROWS_BYTES, FileStore
from filestore.transaction import Transaction

COPIES = UUID("6f9d1c52-9b0e-5a53-8f0b-7d1f6a1e4c20")
PREPARED_BYTES_MAX = 4 << 20
"""So much is held in memory until the session appears; all else is built on the disk."""


class Imported(NamedTuple):
    """What became of it. `is_present`: the store had it already, and nothing was changed. `zone`:
    `journal:` and the id for a session without files.
    """

    zone: str
    session_id: str
    files: int
    bytes: int
    records: int
    is_present: bool


class _Contents(NamedTuple):
    """What a file holds, all of it verified."""

    session: SessionHead
    records: Records
    files: dict[str, FileEnd]

    @property
    def has_zone(self) -> bool:
        """False for a session that is its records alone."""
        return bool(self.files) or self.records.row is None or self.session.archived_ms is not None

    @property
    def bytes(self) -> int:
        return sum(end.size for end in self.files.values())


class _Stored(NamedTuple):
    head: FileHead
    content: Prepared | Built


async def import_session(
    store: FileStore,
    file: Path,
    *,
    definition_id: str | None = None,
    progress: Progress = nobody,
) -> Imported:
    """Bring in the session that `file` holds, for another agent if `definition_id` is given.

    All or nothing: what is damaged or made to harm is refused before anything is stored, and the
    session appears in one transaction. A repeat finds it there. An archive stays one, at its time
    or the next free one; a session that was current is so again if the agent has none.
    """
    if definition_id is not None:
        check_definition_id(definition_id)
    with translated_os_errors("import"), _opened(file) as stream:
        contents = await asyncio.to_thread(_look_through, stream)
        session = await _own_id(store, contents.session, definition_id)
        before, is_known = await store.view(lambda tx: _known(tx, session.session_id))
        if is_known:
            return await _present(store, before, session, contents)
        stream.seek(0)
        stored = await _store(store, stream, contents, progress)
        held = sum(each.content.size for each in stored if isinstance(each.content, Prepared))
        try:
            return await store.transact(
                lambda tx: _appear(tx, session, stored, contents, stream),
                cost_bytes=ROWS_BYTES + held,
            )
        except BaseException:
            await _give_up(store, stored)
            raise


async def _known(tx: ReadTransaction, session_id: str) -> tuple[SessionRow | None, bool]:
    """The row of a session, if it has files, and whether there is one of that id at all."""
    row = await rows.load_by_id(tx.rows, session_id)
    return row, row is not None or await journals.find(tx.rows, session_id) is not None


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {str(file)!a}", operation="import") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        # Not by a file object: it makes an error of its own of a folder.
        os.close(descriptor)
        raise InvalidArgumentError(f"{str(file)!a} is not a plain file", operation="import")
    with os.fdopen(descriptor, "rb") as stream:
        yield stream


def _look_through(stream: BinaryIO) -> _Contents:
    session: SessionHead | None = None
    files: dict[str, FileEnd] = {}
    name = ""
    looking: Looking | None = None
    for part in read(stream):
        match part:
            case SessionHead():
                session, looking = part, Looking(part)
            case RepoHead() if looking is not None:
                looking.repo(part)
            case RecordPart() if looking is not None:
                looking.record(part)
            case FileHead():
                name = part.name
            case FileEnd():
                files[name] = part
    assert session is not None, "it begins with one"
    assert looking is not None
    return _Contents(session, looking.end(), files)


async def _own_id(store: FileStore, session: SessionHead, agent: str | None) -> SessionHead:
    """The session as it will be. A copy for another agent, where the original is in this store,
    has an id of its own, always the same."""
    if agent is None or agent == session.definition_id:
        return session
    session_id = session.session_id
    row = await store.view(lambda tx: journals.find(tx.rows, session_id))
    if row is not None and row.definition_id != agent:
        session_id = str(uuid5(COPIES, f"{session_id}/{agent}"))
    return replace(session, definition_id=agent, session_id=session_id)


async def _present(
    store: FileStore, row: SessionRow | None, session: SessionHead, contents: _Contents
) -> Imported:
    """The store has a session of that id: fine if it is the same."""
    zone, agent = FEED_PREFIX + session.session_id, session.definition_id
    if row is not None:
        at, agent = row.archived_ms, row.definition_id
        zone = current_zone(agent) if at is None else archive_zone(agent, at)
    infos = {info.name: info for info in await store.files(zone) or []}
    has_records = await store.view(
        lambda tx: is_same_journal(tx.rows, session.session_id, contents.records)
    )
    is_same = (
        has_records
        and agent == session.definition_id
        and {name: info.size for name, info in infos.items()}
        == {name: end.size for name, end in contents.files.items()}
    )
    for name, end in contents.files.items() if is_same else ():
        is_same = is_same and await store.digest(zone, name) == end.digest.hex()
    if not is_same:
        hint = "--as <another agent> brings it in as a copy"
        message = f"session {session.session_id!a} is here already, with other content"
        raise AlreadyExistsError(message, operation="import", zone=zone, hint=hint)
    count = contents.records.row.records if contents.records.row else 0
    return Imported(zone, session.session_id, len(infos), contents.bytes, count, True)


async def _store(
    store: FileStore, stream: BinaryIO, contents: _Contents, progress: Progress
) -> list[_Stored]:
    """Store all files, without names. Whatever goes wrong, none of them is left."""
    parts = read(stream)
    stored: list[_Stored] = []
    done = held = 0

    async def pieces() -> AsyncIterator[bytes]:
        """The bytes up to the end of the file that is being read."""
        nonlocal done
        while isinstance(piece := await asyncio.to_thread(next, parts), bytes):
            done += len(piece)
            progress("MiB imported", done >> 20, contents.bytes >> 20)
            yield piece

    try:
        while (head := await asyncio.to_thread(next, parts, None)) is not None:
            if isinstance(head, SessionHead | RepoHead | RecordPart):
                continue
            assert isinstance(head, FileHead)
            end = contents.files.get(head.name)
            if end is None:
                raise _changed()
            # Small files wait in memory, but not any number of them.
            is_held = held + end.size <= PREPARED_BYTES_MAX
            held += end.size if is_held else 0
            content = await _content(store, head, is_held, pieces())
            stored.append(_Stored(head, content))
            if (content.size, content.digest) != end:
                raise _changed()
    except BaseException:
        await _give_up(store, stored)
        raise
    return stored


def _changed() -> CorruptionError:
    return CorruptionError("the file was changed while it was read", operation="import")


async def _content(
    store: FileStore, head: FileHead, is_held: bool, pieces: AsyncIterator[bytes]
) -> Prepared | Built:
    if not is_held:
        return await store.build(pieces)
    data = b"".join([piece async for piece in pieces])
    return await (store.prepare(data) if head.name == STATE else store.prepare_stream(data))


async def _give_up(store: FileStore, stored: list[_Stored]) -> None:
    for each in stored:
        if isinstance(each.content, Built):
            try:
                await store.give_up(each.content)
            except StoreError:
                return  # the next start gives it up


async def _appear(
    tx: Transaction,
    session: SessionHead,
    stored: list[_Stored],
    contents: _Contents,
    stream: BinaryIO,
) -> Imported:
    count = contents.records.row.records if contents.records.row else 0
    if await rows.load_by_id(tx.rows, session.session_id) is not None:
        raise AlreadyExistsError("the session has just come", operation="import", hint="try again")
    await appear(tx, session, contents.records, stream)
    if not contents.has_zone:
        zone = FEED_PREFIX + session.session_id
        return Imported(zone, session.session_id, 0, 0, count, False)
    zone, archived_ms = await _place(tx, session, stored)
    made = await tx.add_zone(zone, created_ms=session.created_ms, meta=session.meta)
    found = await tx.zone_row(made.name)
    assert found is not None
    sizes: dict[str, tuple[int, int, int]] = {}
    for head, content in stored:
        info = await tx.add_file(
            zone,
            head.name,
            content,
            created_ms=head.created_ms,
            modified_ms=head.modified_ms,
            meta=head.meta,
        )
        sizes[head.name] = (info.version, info.size, info.lines)
    state, output = sizes.get(STATE, (0, 0, 0)), sizes.get(OUTPUT, (0, 0, 0))
    is_archive = archived_ms is not None
    await rows.insert(
        tx.rows,
        SessionRow(
            found.id,
            session.session_id,
            session.definition_id,
            archived_ms,
            session.started_ms,
            session.preview,
            session.node_count,
            state[1] if is_archive else 0,
            output[1] if is_archive else 0,
            output[2] if is_archive else 0,
            has_nodes=session.has_nodes,
            covered=session.covered,
            state_version=state[0] if session.is_looked_into else 0,
        ),
        joins=contents.records.row is not None,
    )
    return Imported(zone, session.session_id, len(stored), contents.bytes, count, False)


async def _place(
    tx: Transaction, session: SessionHead, stored: list[_Stored]
) -> tuple[str, int | None]:
    """Where it goes: its own place if that is free."""
    agent, at = session.definition_id, session.archived_ms
    if at is None:
        present = await tx.files(current_zone(agent)) or []
        if not any(info.size for info in present):
            await drop_empty_current(tx, agent)
            return current_zone(agent), None
        at = max((head.modified_ms for head, _ in stored), default=session.started_ms)
    at = max(at, 0)
    while await tx.zone_row(archive_zone(agent, at)) is not None:
        at += 1
    return archive_zone(agent, at), at
