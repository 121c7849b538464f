"""Which templates own sessions, found in a moment at every start.

To know which definitions are seeded takes reading them all. What was found is therefore noted in
the ledger, with how many records there were and the newest version among them: as long as both are
the same, so are the records.
"""

from typing import NamedTuple

import orjson

from filestore import Transaction, ledger
from filestore.ledger import LedgerRow
from filestore.reading import ReadTransaction
from filestore.sessions.names import current_zone
from migrations.steps.outcomes import NOTED
from migrations.steps.records import DEFINITIONS, Record, names_after, read_page

SOURCE = "templates"


class Templates(NamedTuple):
    """All seeded definitions; `is_noted`: the ledger knew them."""

    ids: list[str]
    records: int
    version: int
    is_noted: bool


async def templates_with_sessions(tx: ReadTransaction) -> dict[str, Record]:
    """The seeded definitions that own a session zone, against the invariant."""
    templates = await find_templates(tx)
    owners = [name for name in templates.ids if await _has_sessions(tx, name)]
    found = await read_page(tx, DEFINITIONS, owners)
    return {name: record for name, record in found if not isinstance(record, Exception)}


async def find_templates(tx: ReadTransaction) -> Templates:
    """The seeded definitions, from the ledger or from the records themselves."""
    row = await tx.rows.fetch_one(
        "SELECT count(*), coalesce(max(f.version), 0) "
        "FROM zone z JOIN file f ON f.zone_id = z.id WHERE z.name = ?",
        (DEFINITIONS,),
    )
    assert row is not None
    count, version = row
    note = await ledger.load_one(tx.rows, SOURCE, DEFINITIONS, "")
    if note is not None and (note.size, note.version) == (count, version):
        return Templates(orjson.loads(note.target), count, version, True)
    ids: list[str] = []
    after = ""
    while names := await names_after(tx, DEFINITIONS, after):
        after = names[-1]
        for name, record in await read_page(tx, DEFINITIONS, names):
            if not isinstance(record, Exception) and record.get("is_seeded") in (1, True, "1"):
                ids.append(name)
    return Templates(ids, count, version, count == 0)


async def note_templates(tx: Transaction) -> None:
    """Note which definitions are seeded now."""
    found = await find_templates(tx)
    if not found.is_noted:
        target = orjson.dumps(found.ids).decode()
        row = LedgerRow(SOURCE, DEFINITIONS, "", found.records, 0, NOTED, target, found.version)
        await ledger.save(tx.rows, row)


async def _has_sessions(tx: ReadTransaction, definition_id: str) -> bool:
    if await tx.zone_row(current_zone(definition_id)) is not None:
        return True
    return bool((await tx.zones(f"agent:{definition_id}:archive:", limit=1)).zones)
