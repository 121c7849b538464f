"""The records of an old `objects.db`: blocks, agent definitions, agent instances.

A block's record is its JSON as it stands. Of definitions and instances, all columns that are there
become one JSON object. A record that cannot be read as it should be is handed out as far as it can
be, with its flaw.
"""

from math import isfinite
from typing import NamedTuple

import orjson

from filestore.engine.driver import Connection
from migrations.legacy.database import columns
from migrations.legacy.values import MissingError, clean_ms, shown, text

ROWS_PER_READ = 200


class Table(NamedTuple):
    """A table of records, and the zone where they are kept."""

    name: str
    key: str
    zone: str
    is_needed: bool
    data: str = ""
    """The column that holds the record as JSON; empty: the row itself is the record."""
    created: str = ""
    modified: str = ""


BLOCKS = Table("db_block", "oid", "objects:block", True, "data")
DEFINITIONS = Table(
    "db_agent_definitions", "id", "objects:definition", False, "", "created_at", "updated_at"
)
INSTANCES = Table(
    "db_agent_instances", "id", "objects:instance", False, "", "created_at", "created_at"
)
TABLES = (BLOCKS, DEFINITIONS, INSTANCES)


class OldRecord(NamedTuple):
    """One record. `key` as it is stored; `content` is None if nothing of it can be kept."""

    key: bytes
    name: str
    content: bytes | None
    created_ms: int
    modified_ms: int
    flaw: str


def has_table(connection: Connection, table: Table) -> bool:
    """False if the table is missing and may be. Raises MissingError if it may not."""
    found = set(columns(connection, table.name))
    if not found:
        if table.is_needed:
            raise MissingError(table.name, "there is no such table")
        return False
    if missing := [name for name in (table.key, table.data) if name and name not in found]:
        raise MissingError(table.name, f"column {', '.join(missing)} is missing")
    return True


def odd_rows(connection: Connection, table: Table) -> int:
    """How many rows have no key that could be a name."""
    ((count,),) = connection.execute(
        f"SELECT count(*) FROM {table.name} WHERE typeof({table.key}) <> 'text' OR {table.key} = ''"
    ).fetchall()
    return int(count)


def count_records(connection: Connection, table: Table) -> int:
    """How many records there are."""
    ((count,),) = connection.execute(f"SELECT count(*) FROM {table.name}").fetchall()
    return int(count)


def records_after(connection: Connection, table: Table, after: bytes) -> list[OldRecord]:
    """The next records by key."""
    names = columns(connection, table.name)
    shown_names = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    rows = connection.execute(
        f"SELECT {shown_names} FROM {table.name} WHERE typeof({table.key}) = 'text' "
        f"AND {table.key} > CAST(? AS TEXT) ORDER BY {table.key} LIMIT ?",
        (after, ROWS_PER_READ),
    ).fetchall()
    return [_record(table, dict(zip(names, row, strict=True))) for row in rows]


def _record(table: Table, row: dict[str, object]) -> OldRecord:
    key = row[table.key]
    assert isinstance(key, bytes), key
    created_ms, modified_ms = clean_ms(row.get(table.created)), clean_ms(row.get(table.modified))
    flaws: list[str] = []
    try:
        name = text(key)
    except ValueError as error:
        return OldRecord(key, shown(key), None, created_ms, modified_ms, f"its key is {error}")
    content = _block(row[table.data], flaws) if table.data else _object(row, flaws)
    return OldRecord(key, name, content, created_ms, modified_ms or created_ms, "; ".join(flaws))


def _block(data: object, flaws: list[str]) -> bytes | None:
    """The JSON of a block as it stands, also if it does not parse."""
    if not isinstance(data, bytes):
        flaws.append(f"its data is {data!r}")
        return None
    try:
        if not isinstance(orjson.loads(data), dict):
            flaws.append("its data is no JSON object")
    except orjson.JSONDecodeError as error:
        flaws.append(f"its JSON does not parse: {error}")
    return data


def _object(row: dict[str, object], flaws: list[str]) -> bytes | None:
    """A row as a JSON object; what that cannot hold is left out."""
    found: dict[str, object] = {}
    for name, value in row.items():
        if isinstance(value, float) and not isfinite(value):
            flaws.append(f"its {name} is {value}")
            continue
        try:
            found[name] = text(value) if isinstance(value, bytes) else value
        except ValueError:
            flaws.append(f"its {name} is no text")
    return orjson.dumps(found)
