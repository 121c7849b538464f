"""The part of the check that looks at sessions: every row has its zone, and agents count right."""

from collections import Counter
from collections.abc import Callable

from filestore.engine.base import ReadTx, forward
from filestore.errors import StoreError
from filestore.journal.check import check_journals
from filestore.sessions import rows
from filestore.sessions.names import archive_zone, current_zone

ROWS_PER_STEP = 1000


async def check_sessions(tx: ReadTx, tell: Callable[[str, str | None], None]) -> None:
    """Call `tell` with a message and a zone for everything that is not as it should be."""
    archives: Counter[str] = Counter()
    known: set[str] = set()
    after = 0
    while found := await tx.fetch(
        "SELECT s.zone_id, z.name FROM session s LEFT JOIN zone z ON z.id = s.zone_id "
        "WHERE s.zone_id > ? ORDER BY s.zone_id LIMIT ?",
        (after, ROWS_PER_STEP),
    ):
        for zone_id, zone in found:
            if zone is None:
                tell(f"a session has lost its zone {zone_id}", None)
                continue
            try:
                row = await rows.load(tx, zone)
            except StoreError as error:
                tell(error.message, zone)
                continue
            if row is None:
                tell("the session's row cannot be found by its zone", zone)
                continue
            known.add(row.definition_id)
            archives[row.definition_id] += row.archived_ms is not None
            if zone != _name(row):
                tell(f"the session's row says that its zone is {_name(row)}", zone)
        forward(after, found[-1][0])
        after = found[-1][0]
    await _check_agents(tx, tell, archives, known)
    await check_journals(tx, tell)


async def _check_agents(
    tx: ReadTx, tell: Callable[[str, str | None], None], archives: Counter[str], known: set[str]
) -> None:
    after = ""
    try:
        while found := await rows.load_agents(tx, after, ROWS_PER_STEP):
            for definition_id, count in found:
                if definition_id not in known:
                    tell(f"agent {definition_id!a} has no session", None)
                elif count != archives[definition_id]:
                    wanted = archives[definition_id]
                    tell(f"agent {definition_id!a} counts {count} archives, not {wanted}", None)
                known.discard(definition_id)
            forward(after, found[-1][0])
            after = found[-1][0]
    except StoreError as error:
        tell(error.message, None)
        return
    for definition_id in sorted(known):
        tell(f"agent {definition_id!a} is missing", None)


def _name(row: rows.SessionRow) -> str:
    if row.archived_ms is None:
        return current_zone(row.definition_id)
    return archive_zone(row.definition_id, row.archived_ms)
