"""The file that carries one session from store to store: frames, written and read in one pass.

Format and rules are docs/specs/0007-portable-sessions.md. The reader believes nothing: every
number is bounded before it is used, every byte is behind a hash, names are never paths. What it
yields is verified only when it has come to its end without an error, so whoever imports makes
nothing visible before.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

import msgpack
import orjson
import zstandard
from blake3 import blake3

from filestore.chunking import CODEC_RAW, CODEC_ZSTD
from filestore.errors import (
    CorruptionError,
    InvalidArgumentError,
    InvalidNameError,
    NewerFormatError,
)
from filestore.journal.bodies import BODY_BYTES_MAX, is_text
from filestore.model import PIECE_BYTES_MAX, Json, check_file_name
from filestore.sessions.names import check_definition_id, check_session_id

MAGIC = b"zoned session\n"
VERSION = 2
"""1 had no records."""
FILES_MAX = 1000
HEAD_BYTES_MAX = 256 << 10
PREVIEW_CHARS_MAX = 1000
PATH_CHARS_MAX = 4096
RATIO_MAX = 256
"""No piece is packed tighter, so a small file cannot become an endless one."""
LEVEL = 3
_NUMBER_MAX = 1 << 62
_VERSION = struct.Struct("<H")
_FRAME = struct.Struct("<BBII")
_SESSION, _FILE, _DATA, _FILE_END, _END, _REPO, _RECORD = range(1, 8)
RECORD_BYTES_MAX = BODY_BYTES_MAX + (16 << 10)
_BYTES_MAX = {_DATA: PIECE_BYTES_MAX, _RECORD: RECORD_BYTES_MAX}
"""Of a frame's plain bytes; of all others HEAD_BYTES_MAX."""

HINT = "get another copy of the file; nothing was imported"


@dataclass(frozen=True, slots=True)
class SessionHead:
    """What is known of a session besides its files. `is_looked_into`: preview, node_count and
    covered are of the snapshot that is in the file."""

    definition_id: str
    session_id: str
    archived_ms: int | None
    started_ms: int
    preview: str
    node_count: int
    has_nodes: int
    covered: int | None
    is_looked_into: bool
    created_ms: int
    meta: dict[str, Json]


class FileHead(NamedTuple):
    """A file: what stands before its bytes."""

    name: str
    created_ms: int
    modified_ms: int
    meta: dict[str, Json]


class FileEnd(NamedTuple):
    """What stands behind a file's bytes."""

    size: int
    digest: bytes


class RepoHead(NamedTuple):
    """The repo that a session is about."""

    id: str
    path: str
    name: str
    created_ms: int


class RecordPart(NamedTuple):
    """One record, in the order of their seqs. `body` is JSON."""

    at_ms: int
    kind: str
    ref: str | None
    body: bytes


Part = SessionHead | RepoHead | RecordPart | FileHead | bytes | FileEnd


class Writer:
    """Writes a session in its one order: its head; its repo; its records; each file's head, bytes,
    end; the end.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._all = blake3()
        self._file = blake3()
        self._size = 0
        self._packer = zstandard.ZstdCompressor(level=LEVEL)
        self._write(MAGIC + _VERSION.pack(VERSION))

    def session(self, head: SessionHead) -> None:
        self._head(_SESSION, {each: getattr(head, each) for each in head.__slots__})

    def repo(self, head: RepoHead) -> None:
        self._head(_REPO, head._asdict())

    def record(self, part: RecordPart) -> None:
        self._packed(_RECORD, msgpack.packb(part._asdict()))

    def file(self, head: FileHead) -> None:
        check_portable_name(head.name)
        self._file, self._size = blake3(), 0
        self._head(_FILE, head._asdict())

    def data(self, data: bytes) -> None:
        """Bytes of the file, at most PIECE_BYTES_MAX at a time."""
        self._file.update(data)
        self._size += len(data)
        self._packed(_DATA, data)

    def end_file(self) -> FileEnd:
        end = FileEnd(self._size, self._file.digest())
        self._head(_FILE_END, end._asdict())
        return end

    def end(self) -> None:
        self._frame(_END, self._all.digest())

    def _head(self, kind: int, fields: dict[str, object]) -> None:
        if "meta" in fields:
            fields["meta"] = orjson.dumps(fields["meta"], option=orjson.OPT_SORT_KEYS)
        self._frame(kind, msgpack.packb(fields))

    def _packed(self, kind: int, data: bytes) -> None:
        packed = self._packer.compress(data)
        is_packed = len(packed) < len(data) <= len(packed) * RATIO_MAX
        codec, stored = (CODEC_ZSTD, packed) if is_packed else (CODEC_RAW, data)
        self._frame(kind, stored, codec, len(data))

    def _frame(self, kind: int, stored: bytes, codec: int = 0, plain: int = 0) -> None:
        self._write(_FRAME.pack(kind, codec, len(stored), plain or len(stored)))
        self._write(stored)

    def _write(self, data: bytes) -> None:
        self._all.update(data)
        self._stream.write(data)


def read(stream: BinaryIO) -> Iterator[Part]:
    """The parts of a session in order. Raises when anything is not as it must be; only when it has
    ended without that is what it gave verified.

    CorruptionError: cut off, changed, made to harm, or no such file at all. NewerFormatError.
    """
    return _Reader(stream).parts()


def check_portable_name(name: str) -> str:
    """A file's name that means nothing to any file system."""
    check_file_name(name, "import")
    if "/" in name or "\\" in name or name in (".", ".."):
        raise InvalidNameError(f"a file named {name!a} is not portable", operation="import")
    return name


class _Reader:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._all = blake3()

    def parts(self) -> Iterator[Part]:
        self._check_start()
        kind, data, _, _ = self._frame()
        if kind != _SESSION:
            raise _bad("it does not begin with a session")
        yield _session(data)
        names: set[str] = set()
        last = kind
        while True:
            before = self._all.digest()
            kind, data, codec, plain = self._frame()
            if kind == _END:
                break
            is_first, last = last == _SESSION, kind
            if kind == _REPO and is_first:
                yield _repo(data)
                continue
            if kind == _RECORD and not names:
                yield _record(_unpacked(codec, data, plain))
                continue
            if kind != _FILE:
                raise _bad("a file has no head")
            head = _file(data)
            if head.name in names:
                raise _bad(f"it has two files named {head.name!a}")
            names.add(head.name)
            if len(names) > FILES_MAX:
                raise _bad(f"it has more than {FILES_MAX} files")
            yield head
            yield from self._bytes(head.name)
        if data != before:
            raise _bad("it does not match its hash")
        if self._stream.read(1):
            raise _bad("something stands behind its end")

    def _check_start(self) -> None:
        start = self._stream.read(len(MAGIC) + _VERSION.size)
        if not start.startswith(MAGIC) or len(start) != len(MAGIC) + _VERSION.size:
            raise _bad("it is no exported session")
        (version,) = _VERSION.unpack_from(start, len(MAGIC))
        if version > VERSION:
            raise NewerFormatError(
                f"the exported session has format {version}, this release knows up to {VERSION}",
                operation="import",
                hint="upgrade zoned",
            )
        if version < 1:
            raise _bad("it has no format")
        self._all.update(start)

    def _bytes(self, name: str) -> Iterator[Part]:
        hasher, size = blake3(), 0
        while True:
            kind, data, codec, plain = self._frame()
            if kind == _FILE_END:
                break
            if kind != _DATA:
                raise _bad(f"the file {name!a} has no end")
            piece = _unpacked(codec, data, plain)
            hasher.update(piece)
            size += len(piece)
            yield piece
        end = _file_end(data)
        if end != FileEnd(size, hasher.digest()):
            raise _bad(f"the file {name!a} does not match its hash")
        yield end

    def _frame(self) -> tuple[int, bytes, int, int]:
        head = self._stream.read(_FRAME.size)
        if len(head) != _FRAME.size:
            raise _bad("it is cut off")
        kind, codec, stored, plain = _FRAME.unpack(head)
        if max(stored, plain) > _BYTES_MAX.get(kind, HEAD_BYTES_MAX) or plain > stored * RATIO_MAX:
            raise _bad(f"a piece claims {plain} bytes in {stored}")
        if kind not in _BYTES_MAX and (codec, plain) != (CODEC_RAW, stored):
            raise _bad("what is no data is packed")
        data = self._stream.read(stored)
        if len(data) != stored:
            raise _bad("it is cut off")
        if kind != _END:
            self._all.update(head)
            self._all.update(data)
        return kind, data, codec, plain


def _unpacked(codec: int, data: bytes, plain: int) -> bytes:
    if codec == CODEC_RAW and len(data) == plain:
        return data
    try:
        if codec == CODEC_ZSTD and zstandard.frame_content_size(data) == plain:
            found = zstandard.ZstdDecompressor().decompress(data, max_output_size=plain)
            if len(found) == plain:
                return found
    except zstandard.ZstdError as error:
        raise _bad(f"a piece does not unpack ({error})") from error
    raise _bad("a piece has another size than it says")


def _session(data: bytes) -> SessionHead:
    fields = _Fields(data, SessionHead.__slots__)
    try:
        return SessionHead(
            check_definition_id(fields.text("definition_id")),
            check_session_id(fields.text("session_id")),
            fields.count("archived_ms") if fields["archived_ms"] is not None else None,
            fields.time("started_ms"),
            fields.text("preview", PREVIEW_CHARS_MAX),
            fields.count("node_count"),
            fields.count("has_nodes"),
            fields.count("covered") if fields["covered"] is not None else None,
            bool(fields["is_looked_into"]),
            fields.time("created_ms"),
            fields.meta(),
        )
    except InvalidArgumentError as error:
        raise _bad(error.message) from error


def _repo(data: bytes) -> RepoHead:
    fields = _Fields(data, RepoHead._fields)
    repo_id, path, name = (fields.text(each, PATH_CHARS_MAX) for each in ("id", "path", "name"))
    if not (repo_id and path and all(map(is_text, (repo_id, path, name)))):
        raise _bad("its repo has no id or no path")
    return RepoHead(repo_id, path, name, fields.time("created_ms"))


def _record(data: bytes) -> RecordPart:
    fields = _Fields(data, RecordPart._fields)
    ref, body = fields["ref"], fields["body"]
    if not isinstance(ref, str | None) or not isinstance(body, bytes):
        raise _bad("a record has another form")
    return RecordPart(fields.time("at_ms"), fields.text("kind"), ref, body)


def _file(data: bytes) -> FileHead:
    fields = _Fields(data, FileHead._fields)
    name = fields.text("name")
    try:
        check_portable_name(name)
    except InvalidNameError as error:
        raise _bad(error.message) from error
    return FileHead(name, fields.time("created_ms"), fields.time("modified_ms"), fields.meta())


def _file_end(data: bytes) -> FileEnd:
    fields = _Fields(data, FileEnd._fields)
    digest = fields["digest"]
    if not isinstance(digest, bytes):
        raise _bad("a file has no hash")
    return FileEnd(fields.count("size"), digest)


class _Fields:
    """The fields of a head, each of which must be there and nothing else."""

    def __init__(self, data: bytes, names: tuple[str, ...]) -> None:
        try:
            found = msgpack.unpackb(data)
        except (ValueError, RecursionError, msgpack.exceptions.UnpackException) as error:
            raise _bad("a head cannot be read") from error
        if not isinstance(found, dict) or set(found) != set(names):
            raise _bad("a head has other fields than it must")
        self._found = found

    def __getitem__(self, name: str) -> object:
        return self._found[name]

    def text(self, name: str, chars_max: int = 1000) -> str:
        found = self._found[name]
        if not isinstance(found, str) or len(found) > chars_max:
            raise _bad(f"{name} is no short text")
        return found

    def count(self, name: str) -> int:
        found = self.time(name)
        if found < 0:
            raise _bad(f"{name} is negative")
        return found

    def time(self, name: str) -> int:
        found = self._found[name]
        if type(found) is not int or not -_NUMBER_MAX <= found <= _NUMBER_MAX:
            raise _bad(f"{name} is no number")
        return found

    def meta(self) -> dict[str, Json]:
        found = self._found["meta"]
        try:
            meta = orjson.loads(found)
        except (orjson.JSONDecodeError, TypeError) as error:
            raise _bad("meta is no JSON") from error
        if not isinstance(meta, dict):
            raise _bad("meta is no object")
        return meta


def _bad(what: str) -> CorruptionError:
    return CorruptionError(f"the file is refused: {what}", operation="import", hint=HINT)
