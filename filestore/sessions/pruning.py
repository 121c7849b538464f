"""Deleting finished sessions by age, size or number, some at a time.

A call looks at one agent's archives, oldest first, and deletes what meets every condition that is
given, in one transaction of at most DELETED_MAX deletions. It can be repeated: what is gone is not
found again. Nothing is read but rows.
"""

from typing import NamedTuple

from filestore.errors import InvalidArgumentError
from filestore.reading import ReadTransaction
from filestore.sessions import rows, units
from filestore.sessions.model import ArchiveInfo, PrunePage
from filestore.sessions.names import AFTER_ALL_MS, check_definition_id
from filestore.store import FileStore
from filestore.transaction import Transaction

DELETED_MAX = 50
ROWS_MAX = 1000
"""Rows looked at in one unit: those that do not meet the conditions cost, too."""


class Rule(NamedTuple):
    """Which archives to delete: those that meet all that is given."""

    before_ms: int | None = None
    """Archived before this time."""
    keep: int | None = None
    """Not among so many newest of their agent."""
    bytes_min: int | None = None
    """Snapshot and stream have so many bytes or more."""


async def prune(
    store: FileStore, definition_id: str, rule: Rule, *, after_ms: int = -1, is_dry_run: bool
) -> PrunePage:
    """Delete the next archives, those after `after_ms`, or only name them."""
    check_definition_id(definition_id)
    if rule == Rule():
        raise InvalidArgumentError("no condition is given", operation="prune")

    async def look(tx: ReadTransaction) -> PrunePage:
        return await _look(tx, definition_id, rule, after_ms)

    async def delete(tx: Transaction) -> PrunePage:
        page = await _look(tx, definition_id, rule, after_ms)
        for found in page.found:
            await units.delete_archive(tx, found.archive_zoneid)
        return page

    return await (store.view(look) if is_dry_run else store.transact(delete))


async def _look(tx: ReadTransaction, definition_id: str, rule: Rule, after_ms: int) -> PrunePage:
    before = AFTER_ALL_MS if rule.before_ms is None else min(rule.before_ms, AFTER_ALL_MS)
    if rule.keep:
        oldest_kept = await rows.nth_archive_ms(tx.rows, definition_id, rule.keep)
        before = min(before, -1 if oldest_kept is None else oldest_kept)
    found: list[ArchiveInfo] = []
    seen = await rows.load_oldest(tx.rows, definition_id, after_ms, before, ROWS_MAX)
    for row in seen:
        after_ms = row.archived_at_ms
        if row.state_bytes + row.output_bytes >= (rule.bytes_min or 0):
            found.append(row)
            if len(found) == DELETED_MAX:
                return PrunePage(found, after_ms)
    return PrunePage(found, after_ms if len(seen) == ROWS_MAX else None)
