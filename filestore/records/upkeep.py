"""What is done with sessions that nobody does anything with: told of a crash, ended when idle,
deleted when old. Some at a time, each batch one transaction; a repeat goes on.
"""

from collections.abc import Callable
from functools import partial

from filestore.journal import rows
from filestore.journal import writing as journal
from filestore.journal.model import JournalRow, SessionInfo
from filestore.journal.rows import COLUMNS
from filestore.reading import ReadTransaction
from filestore.records.info import info
from filestore.sessions.adopting import drop_session
from filestore.store import FileStore
from filestore.transaction import Transaction

BATCH = 50
INTERRUPTED = "zoned was restarted before the answer was complete"
IDLE_REASON = "idle_timeout"
Place = tuple[int, int]
"""Where a batch ended: time and id of the last one looked at."""
_MS_MAX = 1 << 62
START: Place = (-_MS_MAX, 0)


async def recover(store: FileStore, new_id: Callable[[], str]) -> int:
    """Tell every session whose prompt is unanswered."""

    async def unit(tx: Transaction) -> int:
        found = await tx.rows.fetch(
            f"SELECT {COLUMNS} FROM journal j WHERE j.is_busy = 1 LIMIT ?", (BATCH,)
        )
        for row in map(rows.unpack, found):
            message_id = new_id()
            body = {
                "id": message_id,
                "role": "system",
                "content": {"type": "text", "text": INTERRUPTED, "interrupted": row.asked},
                "is_interruption": True,
            }
            await journal.add(tx.rows, row, "message", body, ref=message_id, is_own=True)
        return len(found)

    total = 0
    while count := await store.transact(unit):
        total += count
    return total


async def sweep(store: FileStore, before_ms: int) -> list[str]:
    """End active sessions with a repo whose last change was at `before_ms` or earlier."""

    before_ms = _bounded(before_ms)

    async def unit(tx: Transaction, after: Place) -> tuple[list[str], Place | None]:
        found = await tx.rows.fetch(
            f"SELECT {COLUMNS} FROM journal j WHERE j.status = 'active' AND j.repo_id IS NOT NULL "
            "AND j.updated_ms <= ? AND (j.updated_ms, j.id) > (?, ?) "
            "ORDER BY j.updated_ms, j.id LIMIT ?",
            (before_ms, *after, BATCH),
        )
        ended = []
        sessions = [rows.unpack(row) for row in found]
        for row in sessions:
            if (await info(tx, row)).updated_ms <= before_ms:
                body = {"metadata": {"reason": IDLE_REASON}}
                # Own, so that one whose metadata is full does not keep the others from it.
                row, _ = await journal.add(tx.rows, row, "meta", body, is_own=True)
                await journal.end(tx.rows, row, "completed", reason=IDLE_REASON)
                ended.append(row.session_id)
        return ended, _place(sessions)

    ended: list[str] = []
    after: Place | None = START
    while after is not None:
        some, after = await store.transact(partial(unit, after=after))
        ended += some
    return ended


async def cleanup(store: FileStore, before_ms: int, *, force: bool, dry_run: bool) -> list[str]:
    """Delete what the command line began and nobody has touched since before `before_ms`."""
    before_ms = _bounded(before_ms)

    async def look(tx: ReadTransaction, after: Place) -> tuple[list[SessionInfo], Place | None]:
        found = await tx.rows.fetch(
            f"SELECT {COLUMNS} FROM journal j WHERE j.origin = 'cli' AND j.updated_ms < ? "
            "AND (j.updated_ms, j.id) > (?, ?) ORDER BY j.updated_ms, j.id LIMIT ?",
            (before_ms, *after, BATCH),
        )
        journals = [rows.unpack(row) for row in found]
        sessions = [await info(tx, row) for row in journals]
        old = [
            each
            for each in sessions
            if each.updated_ms < before_ms and (force or not each.is_resumable)
        ]
        return old, _place(journals)

    async def delete(tx: Transaction, after: Place) -> tuple[list[SessionInfo], Place | None]:
        old, place = await look(tx, after)
        for each in old:
            await _delete(tx, each)
        return old, place

    gone: list[str] = []
    after: Place | None = START
    while after is not None:
        work = partial(look, after=after) if dry_run else partial(delete, after=after)
        old, after = await (store.view(work) if dry_run else store.transact(work))
        gone += [each.id for each in old]
    return gone


def _bounded(ms: int) -> int:
    return max(-_MS_MAX, min(ms, _MS_MAX))


def _place(seen: list[JournalRow]) -> Place | None:
    """Where to go on behind these; None if they are the last."""
    return (seen[-1].updated_ms, seen[-1].id) if len(seen) == BATCH else None


async def _delete(tx: Transaction, session: SessionInfo) -> None:
    """A session with its zone, if it has one, and its records."""
    if session.zone:
        await drop_session(tx, session.zone, with_records=True)
        return
    row = await rows.find(tx.rows, session.id)
    assert row is not None
    await journal.remove(tx.rows, row)
