"""Folders of the old layout, as old releases left them: sizes, shapes and damage as asked for.

    with OldFolder(tmp_path) as old:
        old.block("b1", agent="ada")
        old.file("b1", "output", b"line\\n", created=1, modified=2)

Written with the standard `sqlite3`, in a folder of its own that is copied into place at the end, so
a folder can be had with or without a WAL that holds the last rows. Shares no code with the reader.
"""

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

PART_BYTES = 65536
STATE = "output.state.json"
OUTPUT = "output"

FILES_SCHEMA = (
    "CREATE TABLE db_wave_file (zoneid varchar(36) NOT NULL, name varchar(200) NOT NULL, "
    "size bigint NOT NULL, createdts bigint NOT NULL, modts bigint NOT NULL, opts json NOT NULL, "
    "meta json NOT NULL, PRIMARY KEY (zoneid, name))",
    "CREATE TABLE db_file_data (zoneid varchar(36) NOT NULL, name varchar(200) NOT NULL, "
    "partidx int NOT NULL, data blob NOT NULL, PRIMARY KEY (zoneid, name, partidx))",
)
LOOSE_FILES_SCHEMA = (
    "CREATE TABLE db_wave_file (zoneid, name, size, createdts, modts, opts, meta, added_later)",
    "CREATE TABLE db_file_data (zoneid, name, partidx, data)",
    "CREATE INDEX parts ON db_file_data (zoneid, name, partidx)",
)
"""Without constraints, for rows that nobody expects; with a column of a newer release."""
BLOCKS_SCHEMA = (
    "CREATE TABLE db_block (oid varchar(36) PRIMARY KEY, version int NOT NULL, data json NOT NULL)",
)
LOOSE_BLOCKS_SCHEMA = ("CREATE TABLE db_block (oid, version, data)",)
DEFINITION_COLUMNS = (
    "id", "slug", "name", "icon", "provider", "description", "working_directory", "shell",
    "provider_flags", "auto_start", "restart_on_crash", "idle_timeout_minutes", "agent_type",
    "environment", "agent_bus_id", "is_seeded", "accounts", "parent_id", "branch_label",
    "created_at", "updated_at", "user_hidden",
)  # fmt: skip
INSTANCE_COLUMNS = (
    "id", "definition_id", "parent_instance_id", "block_id", "session_id", "status",
    "github_context", "identity_id", "memory_id", "instance_name", "working_directory",
    "display_hidden", "started_at", "ended_at", "created_at",
)  # fmt: skip
OLDER_INSTANCE_COLUMNS = tuple(
    name for name in INSTANCE_COLUMNS if name not in ("instance_name", "display_hidden")
)


class OldFolder:
    """An old folder being made. It is in place when the `with` block has ended."""

    def __init__(
        self,
        folder: Path,
        *,
        has_wal: bool = False,
        journal: str = "wal",
        objects_name: str = "objects.db",
        is_loose: bool = False,
        definition_columns: Sequence[str] | None = DEFINITION_COLUMNS,
        instance_columns: Sequence[str] | None = INSTANCE_COLUMNS,
    ) -> None:
        self.folder = folder
        self._has_wal = has_wal
        self._journal = journal
        self._work = Path(tempfile.mkdtemp(prefix="old-folder-"))
        self._names = ("filestore.db", objects_name)
        self.files, self.objects = (self._connect(name) for name in self._names)
        for sql in LOOSE_FILES_SCHEMA if is_loose else FILES_SCHEMA:
            self.files.execute(sql)
        for sql in LOOSE_BLOCKS_SCHEMA if is_loose else BLOCKS_SCHEMA:
            self.objects.execute(sql)
        tables = {
            "db_agent_definitions": definition_columns,
            "db_agent_instances": instance_columns,
        }
        for table, columns in tables.items():
            if columns is not None:
                listed = ", ".join(columns[1:])
                self.objects.execute(f"CREATE TABLE {table} (id TEXT PRIMARY KEY, {listed})")
        for connection in (self.files, self.objects):
            connection.commit()

    def __enter__(self) -> "OldFolder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._put()
        for connection in (self.files, self.objects):
            connection.close()
        shutil.rmtree(self._work)

    # -- objects

    def block(
        self, oid: str, *, agent: object = None, view: object = "agent", **meta: object
    ) -> None:
        """A block; `agent` is its definition id."""
        given = {"view": view, **meta} | ({"agentId": agent} if agent is not None else {})
        self.raw_block(oid, json.dumps({"oid": oid, "version": 1, "meta": given}))

    def raw_block(self, oid: object, data: object) -> None:
        """A block with any data."""
        self.objects.execute("INSERT INTO db_block VALUES (?, 1, ?)", (oid, data))

    def definition(self, definition_id: str, **columns: object) -> None:
        """An agent definition."""
        self._insert("db_agent_definitions", {"id": definition_id, **columns})

    def instance(self, instance_id: str, definition_id: str, **columns: object) -> None:
        """An agent instance."""
        given = {"id": instance_id, "definition_id": definition_id, **columns}
        self._insert("db_agent_instances", given)

    # -- files

    def file(
        self,
        zone: object,
        name: object,
        data: bytes | Iterable[bytes],
        *,
        created: object = 1_000,
        modified: object = 2_000,
        size: object = None,
        lost: Iterable[int] = (),
        opts: object = "{}",
        meta: object = "{}",
    ) -> None:
        """A file. `size` lies if given; parts with numbers in `lost` are missing."""
        missing, total = set(lost), 0
        pieces = [data] if isinstance(data, bytes) else data
        for number, part in enumerate(_parts(pieces)):
            total += len(part)
            if number not in missing:
                self.part(zone, name, number, part)
        given = total if size is None else size
        self.row(zone, name, given, created, modified, opts, meta)

    def circular(
        self, zone: str, name: str, data: bytes, maxsize: int, *, modified: int = 2_000
    ) -> None:
        """A circular file to which `data` was written, in parts that go round."""
        count = maxsize // PART_BYTES
        ring: dict[int, bytearray] = {}
        for at in range(0, len(data), PART_BYTES):
            part = data[at : at + PART_BYTES]
            kept = ring.setdefault(at // PART_BYTES % count, bytearray())
            kept[: len(part)] = part
        for number, content in ring.items():
            self.part(zone, name, number, bytes(content))
        opts = json.dumps({"circular": True, "maxsize": maxsize})
        self.row(zone, name, len(data), 1_000, modified, opts, "{}")

    def row(self, *values: object) -> None:
        """A row of the table of files: zone, name, size, times, opts, meta."""
        columns = "zoneid, name, size, createdts, modts, opts, meta"
        self.files.execute(f"INSERT INTO db_wave_file ({columns}) VALUES (?,?,?,?,?,?,?)", values)

    def part(self, zone: object, name: object, number: object, data: object) -> None:
        """A part of a file."""
        self.files.execute(
            "INSERT INTO db_file_data VALUES (?, ?, ?, ?)", (zone, name, number, data)
        )

    def session(
        self,
        zone: str,
        text: str,
        *,
        output: bytes | None = b'{"n":1}\n',
        created: int = 1_000,
        modified: int = 2_000,
    ) -> None:
        """A zone with a snapshot that has one user message, and a stream."""
        self.file(zone, STATE, snapshot(text), created=created, modified=modified)
        if output is not None:
            self.file(zone, OUTPUT, output, created=created, modified=modified)

    # -- parts

    def _connect(self, name: str) -> sqlite3.Connection:
        connection = sqlite3.connect(self._work / name)
        connection.execute(f"PRAGMA journal_mode = {self._journal}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    def _insert(self, table: str, given: dict[str, Any]) -> None:
        names, marks = ", ".join(given), ", ".join("?" * len(given))
        self.objects.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", [*given.values()])

    def _put(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for connection, name in zip((self.files, self.objects), self._names, strict=True):
            connection.commit()
            if not self._has_wal:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.close()
            for end in ("", "-wal"):
                if (self._work / (name + end)).exists():
                    shutil.copyfile(self._work / (name + end), self.folder / (name + end))


def snapshot(text: str, *, pad: int = 0) -> bytes:
    """A snapshot with one user message."""
    nodes = [{"type": "user_message", "message": text}]
    document: dict[str, object] = {"nodes": nodes, "highWaterMark": 1}
    if pad:
        document["pad"] = "x" * pad
    return json.dumps(document).encode()


def _parts(pieces: Iterable[bytes]) -> Iterable[bytes]:
    held = b""
    for piece in pieces:
        held += piece
        while len(held) >= PART_BYTES:
            yield held[:PART_BYTES]
            held = held[PART_BYTES:]
    if held:
        yield held


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All files of the old layout below a folder, with their content."""
    names = ("filestore.db", "objects.db", "waveterm.db")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.name.startswith(names)
    }
