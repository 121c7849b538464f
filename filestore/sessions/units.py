"""Units of work on sessions: each is one transaction, handed to `FileStore.transact`.

A session is a zone, its files, and its row. They change together here and nowhere else. Snapshots
are looked into before a unit is queued; a unit that finds another snapshot than the one looked into
raises StaleSummaryError, and its caller looks again.
"""

from typing import NamedTuple

from filestore.errors import AlreadyExistsError, VersionConflictError
from filestore.journal import rows as journals
from filestore.journal import writing as journal
from filestore.model import FileInfo
from filestore.reading import ReadTransaction
from filestore.sessions import rows
from filestore.sessions.model import Archived, Restored
from filestore.sessions.names import (
    ARCHIVED_MS_MAX,
    OUTPUT,
    STATE,
    archive_zone,
    current_zone,
    missing,
    parse_archive,
    zone_of,
)
from filestore.sessions.preview import (
    SNAPSHOT_BYTES_MAX,
    Summary,
    preview_of_stream,
    summarise,
)
from filestore.sessions.rows import SessionRow
from filestore.transaction import Transaction

HEAD_LINES_MAX = 200
HEAD_BYTES_MAX = 256 << 10
"""So much of a stream is searched for its first user message."""


class StaleSummaryError(Exception):
    """The snapshot was written again since it was looked into."""


class Looked:
    """What the caller has found out beforehand.

    `snapshots`: summaries by version of the snapshot. `streams`: previews by session id of streams
    that were searched; a stream's head never changes, so what is found there stays. `is_last`: the
    unit looks into the snapshot itself rather than ask for another look.
    """

    def __init__(
        self, snapshots: dict[int, Summary], streams: dict[str, str], is_last: bool
    ) -> None:
        self.snapshots = snapshots
        self.streams = streams
        self.is_last = is_last


class Forked(NamedTuple):
    """A copy: its id, and the zone ids of both."""

    session_id: str
    source_id: int
    zone_id: int


async def ensure(tx: Transaction, definition_id: str, new_id: str) -> SessionRow:
    """The current session of a definition; its zone must exist. Made if it is missing."""
    found = await rows.load_current(tx.rows, definition_id)
    if found is not None:
        return found
    zone = await tx.zone_row(current_zone(definition_id))
    assert zone is not None, "the zone is made by its first write"
    # It may have begun already, on another surface, and get its first file now.
    waiting = await journals.waiting(tx.rows, definition_id)
    session_id = new_id if waiting is None else waiting.session_id
    row = SessionRow(zone.id, session_id, definition_id, None, tx.rows.now_ms())
    await rows.insert(tx.rows, row, joins=waiting is not None)
    return row


async def touch(tx: Transaction, session_id: str) -> None:
    """Note that a session's files were changed now, so that lists by activity have it first."""
    found = await journals.find(tx.rows, session_id)
    if found is not None:
        await journal.touch(tx.rows, found)


def id_key(zone: str) -> tuple[str, str]:
    """Where the id of a current session is kept with the heads, since every guarded append asks for
    it. They are forgotten when a zone is renamed or deleted; no file has an empty name.
    """
    return zone, ""


async def current_id(tx: Transaction, definition_id: str) -> str:
    """The id of the current session, empty if there is none."""
    key = id_key(current_zone(definition_id))
    known: str | None = tx.rows.heads.get(key)
    if known is None:
        row = await rows.load_current(tx.rows, definition_id)
        if row is None:
            return await waiting_id(tx, definition_id)
        known = tx.rows.heads[key] = row.session_id
    return known


async def waiting_id(tx: ReadTransaction, definition_id: str) -> str:
    """The id of the session that has begun without files, empty if there is none."""
    found = await journals.waiting(tx.rows, definition_id)
    return found.session_id if found else ""


async def conflict(
    tx: Transaction, definition_id: str, message: str, hint: str
) -> VersionConflictError:
    """What a caller is told that speaks of something else than what is current."""
    zone = current_zone(definition_id)
    state, output = await tx.head(zone, STATE), await tx.head(zone, OUTPUT)
    return VersionConflictError(
        message,
        current_version=state.version if state else 0,
        session_id=await current_id(tx, definition_id),
        current_lines=output.lines if output else 0,
        hint=hint,
    )


async def other_session(tx: Transaction, definition_id: str) -> VersionConflictError:
    """What a caller is told that speaks of a session which is not the current one."""
    head = await tx.head(current_zone(definition_id), OUTPUT)
    return await conflict(
        tx,
        definition_id,
        "that session is not the current one any more; "
        f"the stream of the current one has {head.lines if head else 0} lines",
        "read the session again before you write",
    )


async def refuse_other_session(tx: Transaction, definition_id: str, session_id: str | None) -> None:
    """Raise if the caller speaks of a session that is not the current one."""
    if session_id is not None and session_id != await current_id(tx, definition_id):
        raise await other_session(tx, definition_id)


async def is_stored(tx: Transaction, zone: str, digest: bytes) -> bool:
    """True if the snapshot is known to have exactly the bytes with this digest."""
    state = await tx.stat(zone, STATE)
    return state is not None and state.digest == digest.hex()


async def note_summary(
    tx: Transaction, row: SessionRow, version: int, summary: Summary, looked: Looked
) -> SessionRow:
    """Keep what was found in the snapshot with `version`."""
    preview = summary.preview if summary.has_nodes else await _stream_preview(tx, row, looked)
    changed = row._replace(
        preview=preview,
        node_count=summary.node_count,
        has_nodes=int(summary.has_nodes),
        covered=summary.covered,
        state_version=version,
    )
    if changed != row:
        await rows.save(tx.rows, row, changed)
    return changed


async def read_snapshot(tx: ReadTransaction, zone: str) -> tuple[int, bytes]:
    """Version and bytes of a snapshot; no bytes if it is missing or too large to be looked into."""
    info = await tx.stat(zone, STATE)
    if info is None or info.size > SNAPSHOT_BYTES_MAX:
        return info.version if info else 0, b""
    return info.version, await tx.read(zone, STATE)


async def refresh(tx: Transaction, definition_id: str, looked: Looked) -> None:
    """Note what was found in a snapshot, unless it was written again since."""
    row = await rows.load_current(tx.rows, definition_id)
    state = await tx.stat(current_zone(definition_id), STATE)
    if row is not None and state is not None and state.version in looked.snapshots:
        summary = looked.snapshots[state.version]
        await note_summary(tx, row, state.version, summary, looked)


async def archive(
    tx: Transaction, definition_id: str, looked: Looked, new_id: str
) -> Archived | None:
    """Finish the current session: rename its zone and store its summary. None: nothing there."""
    zone = current_zone(definition_id)
    files = {info.name: info for info in await tx.files(zone) or []}
    if not any(info.size for info in files.values()):
        return None
    row = await ensure(tx, definition_id, new_id)
    state, output = files.get(STATE), files.get(OUTPUT)
    row = await _final_summary(tx, row, state, looked)
    ms = await archive_time(tx, definition_id)
    await tx.move_zone(zone, archive_zone(definition_id, ms))
    changed = row._replace(
        archived_ms=ms,
        state_bytes=state.size if state else 0,
        output_bytes=output.size if output else 0,
        output_lines=output.lines if output else 0,
        restored_from_ms=None,
        displaced_ms=None,
    )
    await rows.save(tx.rows, row, changed)
    return Archived(archive_zone(definition_id, ms), ms)


async def archive_session(
    tx: Transaction, definition_id: str, looked: Looked, new_id: str, session_id: str | None
) -> Archived | None:
    """Finish the current session if it is that one; what became of it if it is finished already."""
    if session_id is None or session_id == await current_id(tx, definition_id):
        return await archive(tx, definition_id, looked, new_id)
    row = await rows.load_by_id(tx.rows, session_id)
    if row is None or row.definition_id != definition_id or row.archived_ms is None:
        raise await other_session(tx, definition_id)
    return Archived(archive_zone(definition_id, row.archived_ms), row.archived_ms)


async def restore(tx: Transaction, zone: str, looked: Looked, new_id: str) -> Restored:
    """Make an archive the current session again; what was current is archived first."""
    definition_id, ms = parse_archive(zone)
    row = await rows.load(tx.rows, zone)
    if row is None:
        return await _restored_before(tx, zone)
    displaced = await archive(tx, definition_id, looked, new_id)
    await drop_empty_current(tx, definition_id)
    await tx.move_zone(zone, current_zone(definition_id))
    displaced_ms = displaced.archived_at_ms if displaced else None
    changed = row._replace(archived_ms=None, restored_from_ms=ms, displaced_ms=displaced_ms)
    await rows.save(tx.rows, row, changed)
    return await _restored(tx, changed)


async def fork(
    tx: Transaction,
    place: str,
    to: str,
    *,
    is_archiving: bool,
    looked: Looked,
    ids: tuple[str, str],
) -> Forked:
    """Copy a session into the current one of `to`. The copy's id is the first of `ids`."""
    before = await rows.load_by_id(tx.rows, ids[0])
    if before is not None:
        if before.definition_id != to:
            raise AlreadyExistsError(f"session {ids[0]!a} exists and belongs to another agent")
        return Forked(before.session_id, before.zone_id, before.zone_id)
    source = zone_of(place)
    row = await rows.load(tx.rows, source)
    if row is None:
        raise missing(source, "fork")
    target = current_zone(to)
    if any(info.size for info in await tx.files(target) or []):
        if not is_archiving:
            raise AlreadyExistsError(
                "the target agent has a session",
                operation="fork",
                zone=target,
                hint="ask to archive it first: archive_first, or zoned fork --archive-first",
            )
        done = await archive(tx, to, looked, ids[1])
        if done and source == target:
            # A session forked onto its own agent has just been renamed, and looked into.
            source = done.archive_zoneid
            row = await rows.load(tx.rows, source) or row
    await drop_empty_current(tx, to)
    await tx.copy_zone(source, target)
    copied = await tx.zone_row(target)
    assert copied is not None
    before_copy, state = await tx.stat(source, STATE), await tx.stat(target, STATE)
    is_looked_into = before_copy is not None and row.state_version == before_copy.version
    await rows.insert(
        tx.rows,
        row._replace(
            zone_id=copied.id,
            session_id=ids[0],
            definition_id=to,
            archived_ms=None,
            started_ms=tx.rows.now_ms(),
            state_version=state.version if state and is_looked_into else 0,
            restored_from_ms=None,
            displaced_ms=None,
        ),
        reason="forked",
    )
    return Forked(ids[0], row.zone_id, copied.id)


async def delete_archive(tx: Transaction, zone: str) -> bool:
    """Delete a finished session. False if there was none."""
    row = await rows.load(tx.rows, zone)
    if row is not None:
        await rows.remove(tx.rows, row, with_journal=True)
    return await tx.delete_zone(zone)


async def _final_summary(
    tx: Transaction, row: SessionRow, state: FileInfo | None, looked: Looked
) -> SessionRow:
    """The row with the summary of the snapshot as it is now."""
    version = state.version if state else 0
    if row.state_version == version:
        if row.has_nodes:
            return row
        return await note_summary(tx, row, version, Summary(covered=row.covered), looked)
    if state is None:
        return await note_summary(tx, row, 0, Summary(), looked)
    summary = looked.snapshots.get(version)
    if summary is None:
        if not looked.is_last:
            raise StaleSummaryError
        summary = summarise((await read_snapshot(tx, current_zone(row.definition_id)))[1])
    return await note_summary(tx, row, version, summary, looked)


async def _stream_preview(tx: ReadTransaction, row: SessionRow, looked: Looked) -> str:
    """The preview by the first user message of the stream."""
    zone = current_zone(row.definition_id)
    if row.session_id in looked.streams or await tx.stat(zone, OUTPUT) is None:
        return looked.streams.get(row.session_id, "")
    page = await tx.read_lines(zone, OUTPUT, 0, HEAD_LINES_MAX, bytes_max=HEAD_BYTES_MAX)
    preview = preview_of_stream(page.lines)
    # Until the head is complete a better message may follow the one that only sets the scene.
    if len(page.lines) < page.total:
        looked.streams[row.session_id] = preview
    return preview


async def archive_time(tx: Transaction, definition_id: str) -> int:
    """The clock, but later than every archive of this agent, whatever the clock says."""
    newest = await rows.newest_archive_ms(tx.rows, definition_id)
    if newest >= ARCHIVED_MS_MAX:
        zone = archive_zone(definition_id, newest)
        raise AlreadyExistsError(
            "the agent has an archive of the last time there is, so none can come after it",
            operation="archive",
            zone=zone,
            hint=f"zoned fork {zone} to another agent, then zoned delete {zone}",
        )
    return max(tx.rows.now_ms(), newest + 1, 0)


async def drop_empty_current(tx: Transaction, definition_id: str) -> None:
    """Take away a current zone without bytes, which nobody would archive; and its session, unless
    that is more than its beginning.
    """
    row = await rows.load_current(tx.rows, definition_id)
    if row is not None:
        await rows.remove(tx.rows, row, with_journal=await is_only_begun(tx, row))
    await tx.delete_zone(current_zone(definition_id))


async def is_only_begun(tx: Transaction, row: SessionRow) -> bool:
    """True if a session's journal says no more than what its zone did: begun by a pane, and ended
    by its archive.
    """
    found = await journals.find(tx.rows, row.session_id)
    if found is None or found.origin != "pane":
        return False
    return found.records == 1 or (found.records == 2 and found.reason == rows.ARCHIVED)


async def _restored_before(tx: Transaction, zone: str) -> Restored:
    """The answer to a restore that was done before; else there is no such archive."""
    definition_id, ms = parse_archive(zone)
    row = await rows.load_current(tx.rows, definition_id)
    if row is None or row.restored_from_ms != ms:
        raise missing(zone, "restore")
    return await _restored(tx, row)


async def _restored(tx: Transaction, row: SessionRow) -> Restored:
    state = await tx.stat(current_zone(row.definition_id), STATE)
    archived = ""
    if row.displaced_ms is not None:
        archived = archive_zone(row.definition_id, row.displaced_ms)
    return Restored(row.session_id, state.version if state else 0, archived)
