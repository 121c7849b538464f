"""The transaction that adds an old zone to the store.

The store's own stays: a file that is there already and is not the copy of an earlier run is never
replaced. A session that meets another one under its name becomes an archive of the same agent, so
both survive; any other zone in that case fails.
"""

from typing import NamedTuple

from filestore import AlreadyExistsError, FileInfo, Prepared, Transaction, ledger
from filestore.building import Built
from filestore.ledger import LedgerRow
from filestore.sessions import rows as session_rows
from filestore.sessions.adopting import adopt
from filestore.sessions.names import STATE, parse_session
from filestore.sessions.preview import Summary
from migrations.legacy.files import OldFile
from migrations.steps.outcomes import DAMAGED, IMPORTED, KEPT, PRESENT
from migrations.steps.parts import digest_of, free_archive, free_session_id, started_ms


class Content(NamedTuple):
    """A file of an old zone, packed for the store. `stored`: how many bytes the source had."""

    file: OldFile
    packed: Prepared | Built
    stored: int
    flaw: str


class OldZone(NamedTuple):
    """An old zone, or those of its files that are not listed yet."""

    source: str
    zone: str
    contents: list[Content]
    summary: Summary
    """What its snapshot tells, if it is a session."""


async def add_zone(tx: Transaction, old: OldZone) -> set[str]:
    """Add a zone and list it in the ledger. Returns the names of the files that were added."""
    present = {info.name: info for info in await tx.files(old.zone) or []}
    listed = await ledger.load(tx.rows, old.source, old.zone)
    target, outcomes = (
        old.zone,
        {
            content.file.name: await _decide(tx, content, present, listed)
            for content in old.contents
        },
    )
    if _is_clash(old, present, listed, outcomes):
        name = parse_session(old.zone)
        if name is None:
            raise AlreadyExistsError(
                "the store has other content under that name", operation="migrate", zone=old.zone
            )
        newest = max(content.file.modified_ms for content in old.contents)
        target = await free_archive(tx, name[0], newest)
        outcomes = {content.file.name: IMPORTED for content in old.contents}
    added: set[str] = set()
    for content in old.contents:
        outcome = outcomes[content.file.name]
        version = 0
        if outcome == IMPORTED:
            version = (await _add_file(tx, target, content)).version
            added.add(content.file.name)
        await _list(tx, old, content, outcome, target, version)
    if added and parse_session(target) is not None:
        await _adopt(tx, old, target)
    return added


async def _decide(
    tx: Transaction,
    content: Content,
    present: dict[str, FileInfo],
    listed: dict[str, LedgerRow],
) -> str:
    """What to do with one file, if it were alone: add it, or leave what is there."""
    info, row = present.get(content.file.name), listed.get(content.file.name)
    if info is None:
        return IMPORTED
    if info.size == content.packed.size and await digest_of(tx, info) == content.packed.digest:
        return PRESENT
    if row is not None and row.version == info.version:
        return IMPORTED  # our own copy, as we left it: the source has changed since
    return KEPT


def _is_clash(
    old: OldZone,
    present: dict[str, FileInfo],
    listed: dict[str, LedgerRow],
    outcomes: dict[str, str],
) -> bool:
    """True if the store's zone is another one than this, and adding to it would mix the two, or
    if what we brought there has been moved away since, and would come back as what it was."""
    if parse_session(old.zone) is None:
        return not listed and KEPT in outcomes.values()
    if not listed:
        is_empty = not any(info.size for info in present.values())
        return not is_empty and set(outcomes.values()) != {PRESENT}
    is_ours = any(
        row.version and name in present and row.version == present[name].version
        for name, row in listed.items()
    )
    return not is_ours and IMPORTED in outcomes.values()


async def _add_file(tx: Transaction, target: str, content: Content) -> FileInfo:
    file = content.file
    await tx.delete_file(target, file.name)
    return await tx.add_file(
        target,
        file.name,
        content.packed,
        created_ms=file.created_ms,
        modified_ms=file.modified_ms,
        meta=file.meta,
    )


async def _list(
    tx: Transaction, old: OldZone, content: Content, outcome: str, target: str, version: int
) -> None:
    file = content.file
    await ledger.save(
        tx.rows,
        LedgerRow(
            old.source,
            old.zone,
            file.name,
            -1 if file.size is None else file.size,
            file.modified_ms,
            DAMAGED if content.flaw and outcome == IMPORTED else outcome,
            target,
            version,
            content.stored,
        ),
    )


async def _adopt(tx: Transaction, old: OldZone, zone: str) -> None:
    """Make a session of the zone, or bring the row of its session up to date."""
    files = await tx.files(zone) or []
    row = await session_rows.load(tx.rows, zone)
    if row is None:
        new_id = await free_session_id(tx, zone, old.source)
        await adopt(tx, zone, new_id, started_ms(files) or tx.rows.now_ms(), old.summary)
        return
    summary = old.summary
    if not any(content.file.name == STATE for content in old.contents):
        summary = Summary(row.preview, row.node_count, row.covered, bool(row.has_nodes))
    await session_rows.remove(tx.rows, row, with_journal=False)
    await adopt(tx, zone, row.session_id, row.started_ms, summary, joins=True)
