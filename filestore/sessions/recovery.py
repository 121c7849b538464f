"""Recovery: going through all sessions of a store and mending what a crash left behind.

By pages, in the order in which the sessions were made, so memory is bounded whatever the store
holds, and what is made on the way (archives that keep what was replaced) is told apart by its mark.
One session that cannot be mended does not keep the others from it.
"""

from collections.abc import Callable
from dataclasses import replace

from filestore.errors import ClosedError, StoreError
from filestore.reading import ReadTransaction
from filestore.sessions.covering import Covering, look
from filestore.sessions.model import Finding, RecoveryPage
from filestore.sessions.rebuilding import STATE_BYTES_MAX, Rebuilder
from filestore.store import FileStore

PAGE_SESSIONS = 100
PAGE_SESSIONS_MAX = 1000


async def recover(
    store: FileStore,
    rebuilder: Rebuilder,
    new_id: Callable[[], str],
    left_behind: Callable[[Covering], int],
    refuse_if_stopped: Callable[[], None],
    *,
    is_dry_run: bool,
    after: int = 0,
    limit: int = 0,
    state_bytes_max: int = STATE_BYTES_MAX,
) -> RecoveryPage:
    """Look at the next `limit` sessions behind number `after`; mend them unless it is a dry run.

    `left_behind` says how many uncovered lines of a session are to be mended: not those that an
    agent adds right now. `refuse_if_stopped` ends it between two sessions.
    """
    count = min(limit or PAGE_SESSIONS, PAGE_SESSIONS_MAX)
    zones, total = await store.view(lambda tx: _zones(tx, after, count))
    found: list[Finding] = []
    for _, zone in zones:
        refuse_if_stopped()
        finding = await _look(store, zone, left_behind)
        if finding is None:
            continue
        if finding.trouble and not finding.done and not is_dry_run:
            finding = await _mend(rebuilder, finding, new_id(), state_bytes_max)
        found.append(finding)
    is_last = len(zones) < count
    return RecoveryPage(len(zones), total, found, None if is_last else zones[-1][0])


async def _zones(tx: ReadTransaction, after: int, count: int) -> tuple[list[tuple[int, str]], int]:
    """Sessions by number of their zone, and how many there are in all."""
    found = await tx.rows.fetch(
        "SELECT s.zone_id, z.name FROM session s JOIN zone z ON z.id = s.zone_id "
        "WHERE s.zone_id > ? ORDER BY s.zone_id LIMIT ?",
        (after, count),
    )
    row = await tx.rows.fetch_one("SELECT count(*) FROM session", ())
    return [(int(number), str(zone)) for number, zone in found], int(row[0]) if row else 0


async def _look(
    store: FileStore, zone: str, left_behind: Callable[[Covering], int]
) -> Finding | None:
    """What is to be told of a session; None if all is well."""
    try:
        found = await look(store, zone)
    except StoreError as error:
        # A row or the stream itself is damaged: that is for the checker, but it is told here too.
        return Finding(zone, "", 0, None, False, "", "failed", error=str(error))
    if found.is_kept:
        return None
    uncovered = found.uncovered
    trouble = found.trouble
    if trouble == "behind":
        uncovered = left_behind(found)
        trouble = "behind" if uncovered else ""
    if not trouble and not found.is_torn:
        return None
    return Finding(zone, found.row.session_id, found.lines, uncovered, found.is_torn, trouble)


async def _mend(
    rebuilder: Rebuilder, finding: Finding, new_id: str, state_bytes_max: int
) -> Finding:
    try:
        done = await rebuilder.rebuild(finding.zone, new_id, state_bytes_max=state_bytes_max)
    except ClosedError:
        raise
    except StoreError as error:
        return replace(finding, done="failed", error=str(error))
    return replace(finding, done="rebuilt" if done.written else "", kept=done.kept)
