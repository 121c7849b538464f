"""What is fuzzed: each target takes any bytes and holds what must be true of them.

A target fails with an AssertionError or whatever else gets out of it. The first bytes of the input
say how the rest is used (how it is cut, which provider), so whatever is found is one input. The
models here are the plain way to say the same; they share no code with what they judge.
"""

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from filestore import Limits, StoreError
from filestore.engine import driver
from filestore.lines import LineCounter, LineScanner, LineSkip, split_lines
from filestore.meta import encode_meta
from filestore.replay import PROVIDERS, Replay, count_lines, replay_bytes
from migrations.legacy import files, objects
from migrations.legacy.database import OldDatabase, UnreadableError
from migrations.legacy.values import MissingError
from srv.websocket import CONTROL_BYTES_MAX, Decoder, FrameError, Message
from tests.fuzz.portable import portable
from tests.fuzz.source import Source, Text
from tests.support import child_model
from tests.support.old_folder import LOOSE_BLOCKS_SCHEMA, LOOSE_FILES_SCHEMA

FRAME_LIMIT = 1000
Unit = Callable[[driver.Connection], None]
SCHEMA: tuple[str, ...] = (
    *LOOSE_FILES_SCHEMA,
    *LOOSE_BLOCKS_SCHEMA,
    "CREATE TABLE db_agent_definitions (id, name, created_at, updated_at)",
    "CREATE TABLE db_agent_instances (id, definition_id, created_at)",
)
TABLES = ("db_wave_file", "db_file_data", "db_block", "db_agent_definitions", "db_agent_instances")
WIDTHS = (8, 4, 3, 4, 3)
ROWS_MAX = 20


def _pieces(data: bytes, size: int) -> list[bytes]:
    """The bytes in pieces of so many; whole for 0."""
    step = size or max(len(data), 1)
    return [data[start : start + step] for start in range(0, len(data), step)]


# -- the decoder of frames


def frames(data: bytes) -> None:
    """Byte 0: the peer (bit 0) and the size of pieces. Then what comes from a peer."""
    head, stream = data[:1] or b"\0", data[1:]
    is_server = bool(head[0] & 1)
    wanted, wanted_code = _decoded(stream, is_server=is_server)
    for size in (head[0] >> 1, 0):
        decoder = Decoder(FRAME_LIMIT, is_server=is_server)
        found: list[Message] = []
        code = 0
        try:
            for piece in _pieces(stream, size):
                found += decoder.feed(piece)
                assert decoder.pending_bytes <= FRAME_LIMIT + CONTROL_BYTES_MAX
                assert decoder.pending_bytes_max <= FRAME_LIMIT + CONTROL_BYTES_MAX
        except FrameError as error:
            code = error.code if error.reason else -1
        assert code == wanted_code, (code, wanted_code)
        # What came in the same piece as the breach is not handed out.
        assert found == wanted[: len(found)]
        assert code or len(found) == len(wanted)


def _decoded(data: bytes, *, is_server: bool) -> tuple[list[Message], int]:
    """The messages in a stream, and the code of the breach that ends it, or 0."""
    found: list[Message] = []
    opcode, parts = 0, b""
    while True:
        if len(data) > 1 and (data[0] & 0x70 or (data[1] >= 128) is not is_server):
            return found, 1002
        head = _head(data)
        if head is None:
            return found, 0
        first, size, start = head
        kind, is_final = first & 15, first >= 128
        if kind in (3, 4, 5, 6, 7) or kind > 10:
            return found, 1002
        if kind >= 8:
            if not is_final or size > CONTROL_BYTES_MAX:
                return found, 1002
        elif (kind == 0) != (opcode != 0):
            return found, 1002
        elif len(parts) + size > FRAME_LIMIT:
            return found, 1009
        if len(data) < start + size:
            return found, 0
        key = data[start - 4 : start] if is_server else bytes(4)
        payload = bytes(b ^ key[i % 4] for i, b in enumerate(data[start : start + size]))
        data = data[start + size :]
        if kind >= 8:
            found.append(Message(kind, payload))
            continue
        opcode, parts = opcode or kind, parts + payload
        if is_final:
            found.append(Message(opcode, parts))
            opcode, parts = 0, b""


def _head(data: bytes) -> tuple[int, int, int] | None:
    """First byte, length, and where the payload begins; None if that has not all come."""
    if len(data) < 2:
        return None
    size, start = data[1] & 127, 2
    for marker, width in ((126, 2), (127, 8)):
        if data[1] & 127 == marker:
            size, start = int.from_bytes(data[2 : 2 + width], "big"), 2 + width
    start += 4 if data[1] >= 128 else 0
    return None if len(data) < start else (data[0], size, start)


# -- lines


def lines(data: bytes) -> None:
    """Byte 0: the size of pieces. Then a stream of lines."""
    size, stream = (data[:1] or b"\0")[0], data[1:]
    wanted = child_model.lines_of(stream)
    counter, scanner, found = LineCounter(), LineScanner(0, None), list[bytes]()
    ended = 0
    pieces = _pieces(stream, size)
    for piece in pieces:
        ended += counter.feed(piece)
        found += scanner.feed(piece)
        assert len(counter.half) <= 2
    assert [*found, *scanner.finish()] == wanted
    assert ended + counter.state.counts == len(wanted)
    skip = LineSkip(size % 4)
    left = b"".join([skip.rest_of(piece) if skip.left else piece for piece in pieces])
    if not skip.left:
        assert child_model.lines_of(left) == wanted[size % 4 :]
    assert split_lines([stream]) == wanted
    assert count_lines(pieces).lines == len(wanted)


# -- replay


def replay(data: bytes) -> None:
    """Byte 0: the provider. Byte 1: the size of pieces. Then a stream."""
    head, stream = data[:2].ljust(2, b"\0"), data[2:]
    provider = (None, *PROVIDERS)[head[0] % (len(PROVIDERS) + 1)]
    whole = replay_bytes([stream], provider)
    snapshot = whole.snapshot()
    followed = Replay(provider)
    for piece in _pieces(stream, head[1]):
        followed.feed_bytes(piece)
        followed.take_changed()
    followed.finish()
    assert followed.snapshot() == snapshot
    document = json.loads(snapshot)
    ids = [node["id"] for node in document["nodes"]]
    assert len(set(ids)) == len(ids)
    assert all(node["type"] for node in document["nodes"])
    assert document["replayed"]["lines"] == whole.lines
    # A torn last line counts as it stands, whatever it begins with.
    assert count_lines([stream]).lines == whole.lines


# -- the reader of old databases


def legacy(data: bytes) -> None:
    """Byte 0, odd: a database file follows. Even: rows for the tables of one that is sound."""
    if data[:1] and data[0] & 1:
        _read_file(data[1:])
    else:
        _read_rows(data[1:])


def _read_file(content: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="zoned-fuzz-") as folder:
        path = Path(folder) / "old.db"
        path.write_bytes(content)
        try:
            database = OldDatabase(path, Path(folder) / "scratch")
        except UnreadableError:
            return
        with contextlib.closing(database):
            units: tuple[Unit, ...] = (*_UNITS, partial(_files, is_sound=False))
            for unit in units:
                with contextlib.suppress(StoreError, MissingError, UnreadableError):
                    database.read(unit)
        assert path.read_bytes() == content
        assert [each.name for each in Path(folder).iterdir()] == ["old.db"]


def _read_rows(data: bytes) -> None:
    """Whatever a table holds, no row keeps the others from being read."""
    with contextlib.closing(driver.Connection(":memory:", isolation_level=None)) as connection:
        for schema in SCHEMA:
            connection.execute(schema)
        for table, row in _rows(data):
            # Only so can text be stored that is not UTF-8.
            marks = ", ".join("CAST(? AS TEXT)" if isinstance(v, Text) else "?" for v in row)
            connection.execute(f"INSERT INTO {TABLES[table]} VALUES ({marks})", row)
        connection.text_factory = bytes
        for unit in _UNITS:
            unit(connection)
        _files(connection, is_sound=True)


def _files(connection: driver.Connection, *, is_sound: bool) -> None:
    files.check_tables(connection)
    files.odd_rows(connection)
    files.lost_parts(connection)
    after = b""
    for _ in range(5):
        zones = files.zones_after(connection, after, 3)
        if not zones or zones[-1] <= after:
            break
        after = zones[-1]
        for zone in zones:
            _files_of_zone(connection, zone, is_sound=is_sound)


def _files_of_zone(connection: driver.Connection, zone: bytes, *, is_sound: bool) -> None:
    for file in files.files_of(connection, zone):
        with contextlib.suppress(StoreError):
            encode_meta(file.meta, Limits())
        layout = files.layout_of(connection, zone, file)
        try:
            found = b"".join(files.read_spans(connection, zone, file, layout.spans))
        except (KeyError, TypeError):
            # A damaged index shows other rows the second time.
            assert not is_sound
            continue
        assert len(found) == layout.size or not is_sound


def _records(connection: driver.Connection, table: objects.Table) -> None:
    if not objects.has_table(connection, table):
        return
    objects.odd_rows(connection, table)
    objects.count_records(connection, table)
    for record in objects.records_after(connection, table, b""):
        assert record.content is not None or record.flaw
        if record.content is not None and not record.flaw:
            assert isinstance(json.loads(record.content), dict)


_UNITS: tuple[Unit, ...] = tuple(partial(_records, table=table) for table in objects.TABLES)


def _rows(data: bytes) -> Iterator[tuple[int, list[Any]]]:
    source = Source(data)
    for _ in range(ROWS_MAX):
        if source.left:
            table = source.byte() % len(TABLES)
            yield table, [source.value() for _ in range(WIDTHS[table])]


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "frames": frames,
    "lines": lines,
    "replay": replay,
    "legacy": legacy,
    "portable": portable,
}
