"""The part of the check that looks at journals: every row is the fold of its records, every session
has its journal, and the tallies count right.
"""

from collections import Counter
from collections.abc import Callable

from filestore.engine.base import ReadTx, Row, forward
from filestore.engine.schema import row_check
from filestore.errors import CorruptionError, StoreError
from filestore.journal import rows
from filestore.journal.fold import fold, opened, related_ids
from filestore.journal.model import SEQ_BITS, JournalRow
from filestore.journal.rows import COLUMNS

ROWS_PER_STEP = 50
RECORDS_PER_STEP = 16
"""Few at a time: each may have some MiB."""

Tell = Callable[[str, str | None], None]


async def check_journals(tx: ReadTx, tell: Tell) -> None:
    """Call `tell` with a message (and no zone) for everything that is not as it should be."""
    counts: Counter[tuple[str, str, str]] = Counter()
    after = 0
    while found := await tx.fetch(
        f"SELECT {COLUMNS} FROM journal j WHERE j.id > ? ORDER BY j.id LIMIT ?",
        (after, ROWS_PER_STEP),
    ):
        for each in found:
            await _check_one(tx, tell, counts, each)
        forward(after, found[-1][0])
        after = found[-1][0]
    await _check_tallies(tx, tell, counts)
    await _check_orphans(tx, tell)


async def _check_one(
    tx: ReadTx, tell: Tell, counts: Counter[tuple[str, str, str]], found: Row
) -> None:
    name = f"the journal of session {found[1]!a}"
    try:
        row = rows.unpack(found)
    except StoreError as error:
        tell(error.message, None)
        return
    counts.update((*each, row.status) for each in rows.tallied(row))
    related: set[str] = set()
    try:
        rebuilt = await rebuild(tx, row.id, related)
        known = await _related(tx, row.id)
    except StoreError as error:
        tell(f"{name}: {error.message}", None)
        return
    if rebuilt is None or rebuilt.records != row.records:
        tell(f"{name} has {rebuilt.records if rebuilt else 0} records, not {row.records}", None)
    elif rebuilt._replace(updated_ms=row.updated_ms) != row:
        tell(f"{name}: its row is not what its records say", None)
    elif known != related:
        tell(f"{name} can be found by {len(known)} ids, not by {len(related)} others", None)


async def _related(tx: ReadTx, journal_id: int) -> set[str]:
    found = set()
    for ref, check in await tx.fetch(
        "SELECT ref, row_check FROM related WHERE journal_id = ?", (journal_id,)
    ):
        if check != row_check(ref, journal_id):
            raise CorruptionError("a row of what it can be found by fails its check")
        found.add(ref)
    return found


async def rebuild(
    tx: ReadTx, journal_id: int, related: set[str] | None = None
) -> JournalRow | None:
    """The row of a journal from its records alone; None if it has none. CorruptionError if one is
    missing. `related` is filled with what it can be found by.
    """
    row: JournalRow | None = None
    seq = 0
    while True:
        found = await rows.load_records(tx, journal_id, seq, RECORDS_PER_STEP)
        for record in found:
            row = opened(journal_id, record) if row is None else fold(row, record)
            if related is not None:
                related |= related_ids(row.session_id, record)
            seq += 1
        if len(found) < RECORDS_PER_STEP:
            return row


async def _check_tallies(tx: ReadTx, tell: Tell, counts: Counter[tuple[str, str, str]]) -> None:
    for row in await tx.fetch("SELECT scope, key, status, count, row_check FROM tally"):
        scope, key, status, *_ = row
        wanted = counts.pop((scope, key, status), 0)
        try:
            count = rows.tally_of(row)
        except StoreError as error:
            tell(error.message, None)
            continue
        if count != wanted:
            tell(f"{count} sessions are counted for {scope} {key!a}, not {wanted}", None)
    for scope, key, status in counts:
        tell(f"the count of {status} sessions for {scope} {key!a} is missing", None)


async def _check_orphans(tx: ReadTx, tell: Tell) -> None:
    for (session_id,) in await tx.fetch(
        "SELECT s.session_id FROM session s LEFT JOIN journal j ON j.session_id = s.session_id "
        "WHERE j.id IS NULL OR j.definition_id <> s.definition_id"
    ):
        tell(f"session {session_id!a} has no journal, or that of another agent", None)
    for (session_id,) in await tx.fetch(
        "SELECT s.session_id FROM session s JOIN journal j ON j.session_id = s.session_id "
        "WHERE s.archived_ms IS NOT NULL AND j.status = 'active'"
    ):
        tell(f"session {session_id!a} is archived, but its journal has no end", None)
    for (journal_id,) in await tx.fetch(
        "SELECT DISTINCT id >> ? FROM record WHERE id >> ? NOT IN (SELECT id FROM journal)",
        (SEQ_BITS, SEQ_BITS),
    ):
        tell(f"records of journal {journal_id} belong to nothing", None)
    for (journal_id,) in await tx.fetch(
        "SELECT DISTINCT journal_id FROM related WHERE journal_id NOT IN (SELECT id FROM journal)"
    ):
        tell(f"ids of journal {journal_id} lead to nothing", None)
    for row in await tx.fetch("SELECT id, path, name, created_ms, row_check FROM repo"):
        if row[-1] != row_check(*row[:-1]):
            tell(f"the row of repo {row[0]!a} fails its check", None)
    for (repo_id,) in await tx.fetch(
        "SELECT DISTINCT j.repo_id FROM journal j LEFT JOIN repo r ON r.id = j.repo_id "
        "WHERE j.repo_id IS NOT NULL AND r.id IS NULL"
    ):
        tell(f"sessions refer to repo {repo_id!a}, which is missing", None)
