"""The target for exported sessions. Chance finds no hash, so all but odd inputs are put into frames
whose hashes are right: what is in them is what is tried."""

import io
from typing import Any

import msgpack
import zstandard
from blake3 import blake3

from filestore import StoreError
from filestore.chunking import CODEC_RAW, CODEC_ZSTD
from filestore.sessions import portable as session_file
from filestore.sessions.portable import (
    MAGIC,
    RATIO_MAX,
    FileEnd,
    FileHead,
    RecordPart,
    RepoHead,
    SessionHead,
    Writer,
)
from tests.fuzz.source import Source, Text

HEAD: dict[str, Any] = {
    "definition_id": "ada", "session_id": "s", "archived_ms": 7, "started_ms": 5, "preview": "hi",
    "node_count": 1, "has_nodes": 1, "covered": None, "is_looked_into": True, "created_ms": 5,
    "meta": b"{}",
}  # fmt: skip
FILE: dict[str, Any] = {"name": "output", "created_ms": 5, "modified_ms": 6, "meta": b"{}"}
REPO: dict[str, Any] = {"id": "r", "path": "/code", "name": "code", "created_ms": 5}
RECORD: dict[str, Any] = {"at_ms": 5, "kind": "note", "ref": None, "body": b"{}"}
SESSION_KIND, FILE_KIND, DATA_KIND, FILE_END_KIND, END_KIND, REPO_KIND, RECORD_KIND = range(1, 8)


def portable(data: bytes) -> None:
    """Byte 0, odd: a file follows. Even: frames."""
    content = data[1:] if data[:1] and data[0] & 1 else framed(data[1:])
    try:
        parts = list(session_file.read(io.BytesIO(content)))
    except StoreError:
        return
    size = sum(len(part) for part in parts if isinstance(part, bytes))
    assert size <= RATIO_MAX * len(content)
    again = io.BytesIO()
    writer = Writer(again)
    for part in parts:
        match part:
            case SessionHead():
                writer.session(part)
            case RepoHead():
                writer.repo(part)
            case RecordPart():
                writer.record(part)
            case FileHead():
                writer.file(part)
            case FileEnd():
                assert writer.end_file() == part
            case bytes():
                writer.data(part)
    writer.end()
    again.seek(0)
    assert list(session_file.read(again)) == parts


def framed(data: bytes) -> bytes:
    """A file of frames as the input says, with the right hash at its end."""
    source, written = Source(data), bytearray(MAGIC + b"\2\0")
    hasher, size = blake3(), 0
    for _ in range(30):
        if not source.left:
            break
        choice = source.byte() % 9
        match choice:
            case 0:
                kind, payload = source.byte() % 9, source.take(source.byte())
                _frame(written, kind, payload, source.byte() % 3, source.byte())
            case 1 | 2:
                kind, head = (SESSION_KIND, HEAD) if choice == 1 else (FILE_KIND, FILE)
                _frame(written, kind, msgpack.packb(_bent(head, source)))
                hasher, size = blake3(), 0
            case 7 | 8:
                kind, head = (REPO_KIND, REPO) if choice == 7 else (RECORD_KIND, RECORD)
                _frame(written, kind, msgpack.packb(_bent(head, source)))
            case 3 | 4:
                payload = source.take(source.byte())
                is_packed = choice == 4
                stored = zstandard.compress(payload) if is_packed else payload
                codec = CODEC_ZSTD if is_packed else CODEC_RAW
                _frame(written, DATA_KIND, stored, codec, len(payload))
                hasher.update(payload)
                size += len(payload)
            case _:
                end = {"size": size, "digest": hasher.digest()}
                _frame(written, FILE_END_KIND, msgpack.packb(_bent(end, source)))
    _frame(written, END_KIND, blake3(bytes(written)).digest())
    return bytes(written)


def _bent(fields: dict[str, Any], source: Source) -> dict[str, Any]:
    """The fields, or with another value for one of them, or without it."""
    names, choice = list(fields), source.byte()
    if choice >= 2 * len(names):
        return fields
    name = names[choice % len(names)]
    if choice >= len(names):
        return {each: fields[each] for each in names if each != name}
    value = source.value()
    # Text as text, so that it can be a name; what is no UTF-8 stays bytes.
    if isinstance(value, Text):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            value = bytes(value)
    return {**fields, name: value}


def _frame(
    written: bytearray, kind: int, stored: bytes, codec: int = 0, plain: int | None = None
) -> None:
    size = len(stored) if plain is None else plain
    written += bytes([kind, codec]) + len(stored).to_bytes(4, "little")
    written += size.to_bytes(4, "little") + stored
