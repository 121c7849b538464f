"""What lists of agents show, and how long their pages are."""

from filestore.errors import InvalidArgumentError
from filestore.reading import ReadTransaction
from filestore.sessions import rows
from filestore.sessions.model import AgentInfo
from filestore.sessions.names import OUTPUT, STATE, current_zone

PAGE_ROWS = 20
PAGE_ROWS_MAX = 100


def page_rows(limit: int) -> int:
    """How many rows a page has that was asked for with `limit`; 0: as usual."""
    if limit < 0:
        raise InvalidArgumentError(f"limit must not be negative, not {limit}")
    return min(limit or PAGE_ROWS, PAGE_ROWS_MAX)


async def load_agents(tx: ReadTransaction, after: str, count: int) -> list[tuple[AgentInfo, bool]]:
    """Agents behind one by definition id, each with whether its snapshot has not been looked into
    since it was written.
    """
    found = await rows.load_agents(tx.rows, after, count)
    return [await _agent(tx, agent, archives) for agent, archives in found]


async def _agent(tx: ReadTransaction, definition_id: str, archives: int) -> tuple[AgentInfo, bool]:
    """One row: the current session of an agent, and how many archives there are."""
    zone = current_zone(definition_id)
    row = await rows.load(tx.rows, zone)
    state, output = await tx.stat(zone, STATE), await tx.stat(zone, OUTPUT)
    info = AgentInfo(
        definition_id,
        state is not None,
        state.modified_ms if state else None,
        row.preview if row else "",
        row.node_count if row else 0,
        archives,
        output.lines if output else 0,
    )
    return info, row is not None and row.state_version != (state.version if state else 0)
