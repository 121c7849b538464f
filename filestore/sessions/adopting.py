"""Making sessions of zones that came about in another way, and giving sessions to another agent.
For migrations: everyone else's sessions are made by their first write.

Like units.py, these are parts of one transaction; the snapshot is looked into before it.
"""

from filestore.reading import ReadTransaction
from filestore.sessions import rows
from filestore.sessions.names import OUTPUT, STATE, parse_session
from filestore.sessions.preview import Summary, preview_of_stream
from filestore.sessions.rows import SessionRow
from filestore.sessions.units import HEAD_BYTES_MAX, HEAD_LINES_MAX, is_only_begun
from filestore.transaction import Transaction


async def adopt(
    tx: Transaction,
    zone: str,
    session_id: str,
    started_ms: int,
    summary: Summary,
    *,
    joins: bool = False,
) -> SessionRow:
    """Make a session of the files in `zone`, whose name says whose it is and whether it goes on.

    `summary`: what was found in its snapshot. The zone has no session yet, and nobody has the id,
    or, if it `joins`, only the journal of a session that has lost its zone.
    """
    name = parse_session(zone)
    found = await tx.zone_row(zone)
    assert name is not None, zone
    assert found is not None, zone
    definition_id, archived_ms = name
    state, output = await tx.stat(zone, STATE), await tx.stat(zone, OUTPUT)
    row = SessionRow(
        found.id,
        session_id,
        definition_id,
        archived_ms,
        started_ms,
        summary.preview if summary.has_nodes else await _stream_preview(tx, zone),
        summary.node_count,
        has_nodes=int(summary.has_nodes),
        covered=summary.covered,
        state_version=state.version if state else 0,
    )
    if archived_ms is not None:
        row = row._replace(
            state_bytes=state.size if state else 0,
            output_bytes=output.size if output else 0,
            output_lines=output.lines if output else 0,
        )
    await rows.insert(tx.rows, row, joins=joins)
    return row


async def rename_session(
    tx: Transaction, zone: str, to: str, new_id: str, started_ms: int, summary: Summary | None
) -> SessionRow:
    """Give a session another zone name, and with it another agent or another time.

    A zone that has no session yet gets one, with `new_id` and `started_ms`. `summary` None: what is
    known of it stays as it is, which only does for a session that neither ends nor begins again.
    """
    name = parse_session(to)
    assert name is not None, to
    row = await rows.load(tx.rows, zone)
    if row is not None:
        await rows.remove(tx.rows, row, with_journal=False)
    await tx.move_zone(zone, to)
    if row is None or summary is not None:
        known = (row.session_id, row.started_ms) if row else (new_id, started_ms)
        return await adopt(tx, to, *known, summary or Summary(), joins=row is not None)
    definition_id, archived_ms = name
    assert (archived_ms is None) == (row.archived_ms is None), (zone, to)
    changed = row._replace(definition_id=definition_id, archived_ms=archived_ms)
    await rows.insert(tx.rows, changed, joins=True)
    return changed


async def drop_session(tx: Transaction, zone: str, *, with_records: bool = False) -> None:
    """Delete a zone, and its session if it has one; unless that is more than its files and its
    beginning and `with_records` does not say so: then it goes on without files.
    """
    row = await rows.load(tx.rows, zone)
    if row is not None:
        is_all = with_records or await is_only_begun(tx, row)
        await rows.remove(tx.rows, row, with_journal=is_all)
    await tx.delete_zone(zone)


async def _stream_preview(tx: ReadTransaction, zone: str) -> str:
    if await tx.stat(zone, OUTPUT) is None:
        return ""
    page = await tx.read_lines(zone, OUTPUT, 0, HEAD_LINES_MAX, bytes_max=HEAD_BYTES_MAX)
    return preview_of_stream(page.lines)
