"""Lists of sessions: newest first, by status, repo and agent name, without looking at the others.

Each status is one scan of an index, in order; a page merges them. How many there are is kept, not
counted, but for the one combination (a repo and an agent name) that no tally is kept of.
"""

from typing import LiteralString, NamedTuple

from filestore.engine.base import ReadTx
from filestore.errors import CorruptionError, InvalidArgumentError
from filestore.journal import rows
from filestore.journal.bodies import is_text
from filestore.journal.model import STATUSES, JournalRow, SessionInfo, Status
from filestore.journal.rows import COLUMNS
from filestore.reading import ReadTransaction
from filestore.records.info import info, infos

ROWS_MAX = 100
RECENT_MAX = 1_000_000
OFFSET_MAX = 1_000_000_000
Place = tuple[int, int]
"""Where a page by activity ended: time and id of its last row."""


class Filter(NamedTuple):
    """Which sessions: those that meet all that is given. No statuses: any."""

    statuses: tuple[Status, ...] = ()
    repo_id: str | None = None
    agent_name: str | None = None


class SessionPage(NamedTuple):
    """Some of the sessions, and how many there are."""

    sessions: list[SessionInfo]
    total: int


async def list_sessions(
    tx: ReadTransaction, wanted: Filter, limit: int, offset: int
) -> SessionPage:
    """A page, newest created first."""
    if not 1 <= limit <= ROWS_MAX or not 0 <= offset <= OFFSET_MAX:
        raise InvalidArgumentError(f"a page has 1 to {ROWS_MAX} sessions, and no negative offset")
    _check_text(wanted.repo_id, wanted.agent_name)
    wanted = wanted._replace(statuses=tuple(dict.fromkeys(wanted.statuses)))
    found = await _page(tx.rows, wanted, limit, offset)
    return SessionPage(await infos(tx, found), await _total(tx.rows, wanted))


class RecentPage(NamedTuple):
    """Some sessions by their last activity, and where the next page begins (None: there is none).
    One that is active while others are read comes to the front, where who reads on has been.
    """

    sessions: list[SessionInfo]
    next: Place | None


async def recent(
    tx: ReadTransaction, limit: int, *, agent_name: str | None, active_only: bool
) -> list[SessionInfo]:
    """Sessions by their last activity, the latest first."""
    page = await recent_page(tx, limit, None, agent_name=agent_name, active_only=active_only)
    return page.sessions


async def recent_page(
    tx: ReadTransaction,
    limit: int,
    after: Place | None,
    *,
    agent_name: str | None,
    active_only: bool,
) -> RecentPage:
    """The same by pages: those behind a place."""
    _check_text(agent_name)
    if not 0 <= limit <= RECENT_MAX:
        raise InvalidArgumentError(f"the limit must be 0 to {RECENT_MAX}, not {limit}")
    sql: LiteralString = f"SELECT {COLUMNS} FROM journal j WHERE 1 = 1"
    params: list[str | int] = []
    if after is not None:
        sql += " AND (j.updated_ms, j.id) < (?, ?)"
        params += after
    if active_only:
        sql += " AND j.status = 'active'"
    if agent_name is not None:
        sql += " AND j.agent_name = ?"
        params.append(agent_name)
    found = await tx.rows.fetch(
        sql + " ORDER BY j.updated_ms DESC, j.id DESC LIMIT ?", (*params, limit)
    )
    journals = [rows.unpack(row) for row in found]
    sessions = [await info(tx, row) for row in journals]
    is_full = 0 < limit == len(journals)
    place = (journals[-1].updated_ms, journals[-1].id) if is_full else None
    return RecentPage(sorted(sessions, key=lambda each: -each.updated_ms), place)


def _check_text(*values: str | None) -> None:
    for value in values:
        if value is not None and not is_text(value):
            raise InvalidArgumentError(f"{ascii(value)[:80]} is no text")


def _condition(wanted: Filter) -> tuple[LiteralString, list[str]]:
    sql: LiteralString = "j.status = ?"
    params: list[str] = []
    if wanted.repo_id is not None:
        sql += " AND j.repo_id = ?"
        params.append(wanted.repo_id)
    if wanted.agent_name is not None:
        sql += " AND j.agent_name = ?"
        params.append(wanted.agent_name)
    return sql, params


async def _page(tx: ReadTx, wanted: Filter, limit: int, offset: int) -> list[JournalRow]:
    condition, more = _condition(wanted)
    is_all = wanted == Filter()
    found = []
    if is_all:
        found = await tx.fetch(
            f"SELECT {COLUMNS} FROM journal j ORDER BY j.id DESC LIMIT ? OFFSET ?", (limit, offset)
        )
        return [rows.unpack(row) for row in found]
    for status in wanted.statuses or STATUSES:
        found += await tx.fetch(
            f"SELECT j.id FROM journal j WHERE {condition} ORDER BY j.id DESC LIMIT ?",
            (status, *more, limit + offset),
        )
    chosen = sorted((row[0] for row in found), reverse=True)[offset : offset + limit]
    page = []
    for journal_id in chosen:
        row = await tx.fetch_one(f"SELECT {COLUMNS} FROM journal j WHERE j.id = ?", (journal_id,))
        if row is None:
            raise CorruptionError("an index names a session that is not there")
        page.append(rows.unpack(row))
    return page


async def _total(tx: ReadTx, wanted: Filter) -> int:
    scope, key = "all", ""
    if wanted.repo_id is not None and wanted.agent_name is not None:
        return await _counted(tx, wanted)
    if wanted.repo_id is not None:
        scope, key = "repo", wanted.repo_id
    elif wanted.agent_name is not None:
        scope, key = "agent", wanted.agent_name
    return sum([await rows.tally(tx, scope, key, status) for status in wanted.statuses or STATUSES])


async def _counted(tx: ReadTx, wanted: Filter) -> int:
    condition, more = _condition(wanted)
    total = 0
    for status in wanted.statuses or STATUSES:
        row = await tx.fetch_one(
            f"SELECT count(*) FROM journal j WHERE {condition}", (status, *more)
        )
        total += row[0] if row else 0
    return total
