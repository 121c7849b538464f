"""What is known of a session: its row, its zone, and when its files were last changed."""

from filestore.errors import NotFoundError
from filestore.journal import rows
from filestore.journal.bodies import is_text
from filestore.journal.model import JournalRow, SessionInfo
from filestore.reading import ReadTransaction
from filestore.sessions.names import OUTPUT, STATE

RESUME_MS_MAX = 30 * 60_000
RESUME_ERRORS_MAX = 2


async def find(tx: ReadTransaction, session_id: str, operation: str) -> JournalRow:
    """The row of a session, or NotFoundError."""
    # Text that cannot be stored is nobody's id.
    row = await rows.find(tx.rows, session_id) if is_text(session_id) else None
    if row is None:
        raise NotFoundError(f"there is no session {ascii(session_id)[:300]}", operation=operation)
    return row


async def zone_name(tx: ReadTransaction, session_id: str) -> str:
    """The zone that has a session's files; empty while there are none."""
    row = await tx.rows.fetch_one(
        "SELECT z.name FROM session s JOIN zone z ON z.id = s.zone_id WHERE s.session_id = ?",
        (session_id,),
    )
    return "" if row is None else str(row[0])


async def infos(tx: ReadTransaction, found: list[JournalRow]) -> list[SessionInfo]:
    """Sessions as every surface shows them, a page at a time: their zones are asked for at once."""
    if not found:
        return []
    marks = ", ".join("?" * len(found))
    zones = await tx.rows.fetch(
        "SELECT s.session_id, z.name FROM session s JOIN zone z ON z.id = s.zone_id "
        f"WHERE s.session_id IN ({marks})",
        tuple(row.session_id for row in found),
    )
    names = {session_id: str(name) for session_id, name in zones}
    return [await info(tx, row, names.get(row.session_id, "")) for row in found]


async def info(tx: ReadTransaction, row: JournalRow, zone: str | None = None) -> SessionInfo:
    """A session as every surface shows it. `zone`: the name of its zone, where it is known."""
    if zone is None:
        zone = await zone_name(tx, row.session_id)
    updated_ms = row.updated_ms
    for name in (STATE, OUTPUT) if zone else ():
        file = await tx.stat(zone, name)
        updated_ms = max(updated_ms, file.modified_ms if file else 0)
    return SessionInfo(
        row.session_id,
        row.definition_id,
        row.origin,
        row.status,
        row.phase,
        row.created_ms,
        updated_ms,
        row.ended_ms,
        row.agent_name,
        row.purpose,
        row.title,
        row.repo_id,
        row.context,
        row.metadata,
        row.summary,
        row.reason,
        row.error_count,
        row.last_error,
        zone,
        bool(row.is_busy),
        row.records,
    )


def why_not_resume(session: SessionInfo, now_ms: int) -> str:
    """Why a session should not be taken up again; empty: it should."""
    if not session.is_resumable:
        return f"its phase is {session.phase}"
    if now_ms - session.updated_ms > RESUME_MS_MAX:
        return "it was last changed more than 30 minutes ago"
    if session.error_count > RESUME_ERRORS_MAX:
        return f"it had {session.error_count} errors"
    return ""
