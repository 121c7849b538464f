"""Records in the store: blocks, definitions and instances, each a JSON object in a file."""

from typing import Any

import orjson

from filestore import CorruptionError, NotFoundError
from filestore.reading import ReadTransaction

BLOCKS = "objects:block"
DEFINITIONS = "objects:definition"
INSTANCES = "objects:instance"
RECORDS_PER_READ = 200

Record = dict[str, Any]


class NoRecordError(Exception):
    """A file among the records does not hold one."""


async def names_after(tx: ReadTransaction, zone: str, after: str) -> list[str]:
    """The next names of records."""
    rows = await tx.rows.fetch(
        "SELECT f.name FROM zone z JOIN file f ON f.zone_id = z.id "
        "WHERE z.name = ? AND f.name > ? ORDER BY f.name LIMIT ?",
        (zone, after, RECORDS_PER_READ),
    )
    return [name for (name,) in rows]


async def count_records(tx: ReadTransaction, zone: str) -> int:
    """How many records a zone holds."""
    row = await tx.rows.fetch_one(
        "SELECT count(*) FROM zone z JOIN file f ON f.zone_id = z.id WHERE z.name = ?", (zone,)
    )
    return int(row[0]) if row else 0


async def read_record(tx: ReadTransaction, zone: str, name: str) -> Record:
    """One record, or NoRecordError."""
    try:
        found = orjson.loads(await tx.read(zone, name))
    except orjson.JSONDecodeError as error:
        raise NoRecordError(f"its JSON does not parse: {error}") from error
    if not isinstance(found, dict):
        raise NoRecordError("it is no JSON object")
    return found


async def read_page(
    tx: ReadTransaction, zone: str, names: list[str]
) -> list[tuple[str, Record | Exception]]:
    """Some records, or for each why it cannot be had."""
    found: list[tuple[str, Record | Exception]] = []
    for name in names:
        try:
            found.append((name, await read_record(tx, zone, name)))
        except (NoRecordError, CorruptionError, NotFoundError) as error:
            found.append((name, error))
    return found
