"""The files of an old `filestore.db`: tables `db_wave_file` and `db_file_data`.

What else stands in those tables (columns of newer releases, rows nobody expects) is passed over or
named as a flaw; nothing here fails because of one row.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import orjson

from filestore.engine.driver import Connection
from filestore.model import Json
from migrations.legacy.database import columns
from migrations.legacy.layout import PART_BYTES, Layout, Part, Span, lay_out
from migrations.legacy.values import MissingError, clean_ms, clean_size, text

FILES = "db_wave_file"
PARTS = "db_file_data"
PART_BYTES_MAX = 16 << 20
"""No part of an old file has more; one that claims to is left out rather than read."""
READ_BYTES = 4 << 20
OPTIONS_KEY = "legacy:opts"
"""Under this key the options of an old file are kept in its meta."""

_NEEDED = {FILES: {"zoneid", "name"}, PARTS: {"zoneid", "name", "partidx", "data"}}
_OPTIONAL = ("size", "createdts", "modts", "opts", "meta")


class OldFile(NamedTuple):
    """A file as its row tells. `flaw`: what of the row could not be read, or empty."""

    key: bytes
    """Its name as it is stored."""
    name: str
    """Its name; empty if that is no text."""
    size: int | None
    created_ms: int
    modified_ms: int
    meta: dict[str, Json]
    circular_max: int
    flaw: str


def check_tables(connection: Connection) -> None:
    """Raise MissingError if there is no way to find files here."""
    for table, wanted in (
        (FILES, {"zoneid", "name"}),
        (PARTS, {"zoneid", "name", "partidx", "data"}),
    ):
        found = set(columns(connection, table))
        if not found:
            raise MissingError(table, "there is no such table")
        if missing := sorted(wanted - found):
            raise MissingError(table, f"column {', '.join(missing)} is missing")


def odd_rows(connection: Connection) -> int:
    """How many rows name no zone or no file, and so cannot be found by name."""
    ((count,),) = connection.execute(
        f"SELECT count(*) FROM {FILES} WHERE typeof(zoneid) <> 'text' OR typeof(name) <> 'text' "
        "OR zoneid = ''"
    ).fetchall()
    return int(count)


def lost_parts(connection: Connection) -> list[tuple[bytes, bytes]]:
    """Zone and name of parts whose file is missing."""
    return connection.execute(
        f"SELECT DISTINCT p.zoneid, p.name FROM {PARTS} p WHERE typeof(p.zoneid) = 'text' "
        f"AND typeof(p.name) = 'text' AND NOT EXISTS (SELECT 1 FROM {FILES} f "
        "WHERE f.zoneid = p.zoneid AND f.name = p.name)"
    ).fetchall()


def zones_after(connection: Connection, after: bytes, limit: int) -> list[bytes]:
    """Zones in order, as they are stored."""
    rows = connection.execute(
        f"SELECT DISTINCT zoneid FROM {FILES} WHERE typeof(zoneid) = 'text' "
        "AND zoneid > CAST(? AS TEXT) ORDER BY zoneid LIMIT ?",
        (after, limit),
    ).fetchall()
    return [zone for (zone,) in rows]


def count_zones(connection: Connection) -> int:
    """How many zones there are."""
    ((count,),) = connection.execute(f"SELECT count(DISTINCT zoneid) FROM {FILES}").fetchall()
    return int(count)


def files_of(connection: Connection, zone: bytes) -> list[OldFile]:
    """The files of a zone by name."""
    there = set(columns(connection, FILES))
    shown = ", ".join(name if name in there else f"NULL AS {name}" for name in _OPTIONAL)
    rows = connection.execute(
        f"SELECT name, {shown} FROM {FILES} WHERE zoneid = CAST(? AS TEXT) "
        "AND typeof(name) = 'text' ORDER BY name",
        (zone,),
    ).fetchall()
    return [_old_file(row, has_size="size" in there) for row in rows]


def layout_of(connection: Connection, zone: bytes, file: OldFile) -> Layout:
    """Where the bytes of a file lie."""
    rows = connection.execute(
        "SELECT partidx, CASE typeof(data) WHEN 'blob' THEN length(data) "
        f"WHEN 'text' THEN length(CAST(data AS BLOB)) END FROM {PARTS} "
        "WHERE zoneid = CAST(? AS TEXT) AND name = CAST(? AS TEXT) ORDER BY partidx",
        (zone, file.key),
    ).fetchall()
    parts = {
        index: Part(index, size)
        for index, size in rows
        if type(index) is int and index >= 0 and type(size) is int and size <= PART_BYTES_MAX
    }
    layout = lay_out(file.size, list(parts.values()), file.circular_max)
    if len(parts) < len(rows):
        odd = f"{len(rows) - len(parts)} of its parts cannot be read"
        layout = layout._replace(flaw=f"{odd}; {layout.flaw}" if layout.flaw else odd)
    return layout


def read_spans(
    connection: Connection,
    zone: bytes,
    file: OldFile,
    spans: Sequence[Span],
    read_bytes: int = READ_BYTES,
) -> Iterator[bytes]:
    """The bytes of a file, about `read_bytes` at a time, in whole parts."""
    for batch in _batches(spans, max(1, read_bytes // PART_BYTES)):
        rows = connection.execute(
            f"SELECT partidx, data FROM {PARTS} WHERE zoneid = CAST(? AS TEXT) "
            "AND name = CAST(? AS TEXT) AND partidx BETWEEN ? AND ? ORDER BY partidx",
            (zone, file.key, batch[0].number, batch[-1].number),
        ).fetchall()
        data = dict(rows)
        yield b"".join([data[span.number][span.start : span.stop] for span in batch])


def _batches(spans: Sequence[Span], parts: int) -> Iterator[list[Span]]:
    """Group spans so that each group lies in one run of so many parts."""
    batch: list[Span] = []
    for span in spans:
        is_run = batch and batch[-1].number < span.number < batch[0].number + parts
        if batch and not is_run:
            yield batch
            batch = []
        batch.append(span)
    if batch:
        yield batch


def _old_file(row: tuple[object, ...], *, has_size: bool) -> OldFile:
    key, size, created, modified, raw_options, raw_meta = row
    assert isinstance(key, bytes), key
    flaws: list[str] = []
    options = _object("opts", raw_options, flaws)
    meta = _object("meta", raw_meta, flaws)
    if has_size and clean_size(size) is None:
        flaws.append(f"its size is {size!r}")
    if options:
        meta = {**meta, OPTIONS_KEY: options}
    try:
        name = text(key)
    except ValueError:
        name = ""
    most = options.get("maxsize")
    is_circular = options.get("circular") is True
    return OldFile(
        key,
        name,
        clean_size(size),
        clean_ms(created),
        clean_ms(modified),
        meta,
        most if is_circular and isinstance(most, int) and most > 0 else 0,
        "; ".join(flaws),
    )


def _object(what: str, raw: object, flaws: list[str]) -> dict[str, Json]:
    """A JSON object from a column; empty, and a flaw, if it is none."""
    if raw is None or raw == b"":
        return {}
    try:
        found = orjson.loads(raw) if isinstance(raw, bytes) else raw
    except orjson.JSONDecodeError as error:
        flaws.append(f"its {what} does not parse: {error}")
        return {}
    if found is None:
        return {}
    if not isinstance(found, dict):
        flaws.append(f"its {what} is no JSON object")
        return {}
    return found
