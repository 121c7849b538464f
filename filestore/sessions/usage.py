"""What agents take: sums over the rows of their sessions and the lengths of their records; neither
snapshots nor streams nor records are read.

Sizes are those of the sessions' bytes, before they are packed, and chunks that sessions share count
for each of them: what the disk has is less.
"""

from filestore.journal.model import SEQ_BITS
from filestore.reading import ReadTransaction
from filestore.sessions.model import Usage
from filestore.sessions.names import OUTPUT, STATE, check_definition_id, current_zone
from filestore.store import FileStore

AGENTS_MAX = 100
"""In one unit of reading."""
_ARCHIVED = (
    "SELECT count(*), coalesce(sum(state_bytes + output_bytes), 0), "
    "coalesce(sum(output_lines), 0), coalesce(min(archived_ms), 0), "
    "coalesce(sum(CASE WHEN archived_ms >= ? THEN state_bytes + output_bytes END), 0) "
    "FROM session WHERE definition_id = ? AND archived_ms IS NOT NULL"
)
_AGENTS = (
    "SELECT DISTINCT definition_id FROM journal WHERE definition_id > ? "
    "ORDER BY definition_id LIMIT ?"
)
_RECORDS = (
    "SELECT count(*), coalesce(sum(length(r.body)), 0) FROM journal j "
    "JOIN record r ON r.id >= j.id << ? AND r.id < (j.id + 1) << ? WHERE j.definition_id = ?"
)


async def usage(store: FileStore, *, after: str = "", limit: int = 0, since_ms: int) -> list[Usage]:
    """What each agent takes, by definition id; `after` is the last one of a page. What was archived
    from `since_ms` on is told apart.
    """
    if after != "":
        check_definition_id(after)
    count = min(limit or AGENTS_MAX, AGENTS_MAX)

    async def unit(tx: ReadTransaction) -> list[Usage]:
        # Every session has a journal, and not every one has files.
        agents = await tx.rows.fetch(_AGENTS, (after, count))
        return [await _usage(tx, definition_id, since_ms) for (definition_id,) in agents]

    return await store.view(unit)


async def _usage(tx: ReadTransaction, definition_id: str, since_ms: int) -> Usage:
    zone = current_zone(definition_id)
    state, output = await tx.stat(zone, STATE), await tx.stat(zone, OUTPUT)
    row = await tx.rows.fetch_one(_ARCHIVED, (since_ms, definition_id))
    assert row is not None
    recorded = await tx.rows.fetch_one(_RECORDS, (SEQ_BITS, SEQ_BITS, definition_id))
    assert recorded is not None
    archives, archived_bytes, archived_lines, oldest_ms, recent_bytes = map(int, row)
    return Usage(
        definition_id,
        archives,
        archived_bytes,
        archived_lines,
        (state.size if state else 0) + (output.size if output else 0),
        output.lines if output else 0,
        oldest_ms,
        recent_bytes,
        *map(int, recorded),
    )
