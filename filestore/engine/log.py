"""The append log: how bytes that are not sealed yet are kept in SQLite.

One row per group commit. `seq` is the store-wide counter after that group, so the last row also
says how far the counter has come; it is therefore never deleted, and commits without any append
write a row without records.

A row's data (little endian):

    count u32 · check u64
    count × header   file_id u64 · version u64 · offset u64 · line u64 · modified_ms i64 ·
                     length u32 · ended u32 · open u32 · data check u64 · file_id u64 ·
                     header check u64
    the bytes of all records, in the same order

All checks are XXH3-64: the row's of seq and count, the data check of the record's bytes, the header
check of the header before it. Since the header names file, offset and length, a flipped bit can
neither change bytes nor move them elsewhere unseen. The file is named twice, so that damage to one
of the two can be undone, and damage elsewhere in the header leaves the right file under suspicion.

A record counts only while `record.version > file.version`: sealing or replacing a file moves its
version past the records, so they need not be deleted at once, and a crash between the two is
harmless.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from struct import Struct

from xxhash import xxh3_64_intdigest

from filestore.engine.base import Damage, TailRecord
from filestore.errors import CorruptionError
from filestore.lines import Open

LOG_ROWS = "SELECT seq, CAST(data AS BLOB) FROM log WHERE seq > ? ORDER BY seq"
"""The cast keeps a flipped type bit from handing out something else than bytes."""

_ROW = Struct("<IQ")
_ROW_CHECKED = Struct("<QI")
_HEADER = Struct("<QQQQqIIIQQ")
_CHECK = Struct("<Q")
_HEADER_BYTES = _HEADER.size + _CHECK.size


def encode(seq: int, records: Sequence[tuple[int, TailRecord]]) -> bytes:
    """Lay out one row."""
    parts = [_ROW.pack(len(records), _row_check(seq, len(records)))]
    for file_id, record in records:
        version, offset, line, ended, state, modified_ms, data = record
        head = _HEADER.pack(
            file_id,
            version,
            offset,
            line,
            modified_ms,
            len(data),
            ended,
            state,
            xxh3_64_intdigest(data),
            file_id,
        )
        parts.append(head)
        parts.append(_CHECK.pack(xxh3_64_intdigest(head)))
    parts += [record[6] for _, record in records]
    return b"".join(parts)


def decode(seq: int, row: bytes) -> Iterator[tuple[int, TailRecord] | Damage]:
    """Read one row back. Yields a Damage in place of each record that fails its check.

    Raises CorruptionError if not even the files are known whose appends it held.
    """
    count, check = _ROW.unpack_from(row) if len(row) >= _ROW.size else (0, 0)
    if check != _row_check(seq, count):
        count = _count_headers(seq, row)
    elif len(row) < _ROW.size + count * _HEADER_BYTES:
        raise _unreadable(seq)
    at = _ROW.size + count * _HEADER_BYTES
    for index in range(count):
        header = _header(row, index)
        if header is None:
            # Its length cannot be trusted, so neither can the place of the records that follow.
            for lost in range(index, count):
                yield _lost_record(seq, row, lost)
            return
        file_id, version, offset, line, modified_ms, length, ended, state, check, _ = header
        data = row[at : at + length]
        at += length
        if len(data) != length or xxh3_64_intdigest(data) != check:
            yield Damage(f"log row {seq}: bytes fail their check", version, file_id, offset)
        else:
            yield file_id, TailRecord(version, offset, line, ended, Open(state), modified_ms, data)


def _row_check(seq: int, count: int) -> int:
    return xxh3_64_intdigest(_ROW_CHECKED.pack(seq, count))


def _count_headers(seq: int, row: bytes) -> int:
    """The count of a row that fails its own check, from the headers, which have theirs."""
    room = max(0, len(row) - _ROW.size) // _HEADER_BYTES
    headers = list(takewhile(bool, (_header(row, index) for index in range(room))))
    size = _ROW.size + sum(_HEADER_BYTES + header[5] for header in headers if header)
    if size != len(row):
        raise _unreadable(seq)
    return len(headers)


def _header(row: bytes, index: int) -> tuple[int, ...] | None:
    """The fields of one header, None if it fails its check."""
    start = _ROW.size + index * _HEADER_BYTES
    (check,) = _CHECK.unpack_from(row, start + _HEADER.size)
    head = row[start : start + _HEADER.size]
    if check == xxh3_64_intdigest(head):
        return _HEADER.unpack(head)
    # Damage to one of the two names of the file can be undone with the other.
    first, last = head[: _CHECK.size], head[-_CHECK.size :]
    for mended in (last + head[_CHECK.size :], head[: -_CHECK.size] + first):
        if check == xxh3_64_intdigest(mended):
            return _HEADER.unpack(mended)
    return None


def _lost_record(seq: int, row: bytes, index: int) -> Damage:
    """A record whose place is not known. Its file is, if both names of it agree."""
    fields = _HEADER.unpack_from(row, _ROW.size + index * _HEADER_BYTES)
    file_id = fields[0]
    if file_id == 0 or file_id != fields[-1]:
        raise _unreadable(seq)
    return Damage(f"log row {seq}: record {index} lost its place", seq, file_id, None)


def _unreadable(seq: int) -> CorruptionError:
    return CorruptionError(
        f"row {seq} of the log is unreadable: appends of unknown files are lost",
        hint="`zoned repair` saves the rest, or restore from a backup",
    )


class Tail:
    """The records of one file that were not forgotten yet.

    The writer thread appends and drops; readers in other threads look at `state` once and use only
    what is not newer than their own snapshot, so no lock is needed.
    """

    __slots__ = ("bytes", "damage", "state")

    def __init__(self, base_version: int) -> None:
        self.state: tuple[int, list[TailRecord]] = (base_version, [])
        """Version up to which records were forgotten, and the records since."""
        self.bytes = 0
        self.damage: Damage | None = None

    def between(self, after_version: int, upto_version: int) -> Sequence[TailRecord] | None:
        """The records in (after_version, upto_version], or None if some of them were forgotten."""
        base_version, records = self.state
        if base_version > after_version:
            return None
        start = bisect_right(records, after_version, key=_version) if records else 0
        stop = bisect_right(records, upto_version, key=_version) if records else 0
        return records[start:stop]

    def append(self, record: TailRecord) -> None:
        self.state[1].append(record)
        self.bytes += len(record.data)

    def undo_append(self) -> None:
        base_version, records = self.state
        self.bytes -= len(records[-1].data)
        self.state = (base_version, records[:-1])

    def drop(self, upto_version: int) -> None:
        """Forget records up to and with `upto_version`; a reader that needs one notices."""
        base_version, records = self.state
        kept = records[bisect_right(records, upto_version, key=_version) :]
        self.bytes = sum([len(record.data) for record in kept])
        # Both at once: a reader between the two would miss records without noticing.
        self.state = (max(base_version, upto_version), kept)


class Tails(dict[int, Tail]):
    """All tails, by file id. Written by the writer thread only."""

    def __init__(self) -> None:
        super().__init__()
        self.forgotten = 0
        """Where empty tails were last taken out: older snapshots cannot rely on absence."""

    def load(self, seq: int, row: bytes | None) -> dict[int, int] | None:
        """Take in one stored row.

        Returns the files it names, each with its last version there, or None if it is damaged.
        """
        versions: dict[int, int] = {}
        is_whole = True
        for item in list(decode(seq, row or b"")):
            if isinstance(item, Damage):
                is_whole = False
                self.setdefault(item.file_id, Tail(0)).damage = item
            else:
                file_id, record = item
                versions[file_id] = record.version
                self.setdefault(file_id, Tail(0)).append(record)
        return versions if is_whole else None

    def held(self) -> "Tails":
        """The same tails as they are now; what is dropped later stays in it."""
        found = Tails()
        for file_id, tail in list(self.items()):
            copied = found[file_id] = Tail(0)
            copied.state, copied.damage = tail.state, tail.damage
        found.forgotten = self.forgotten
        return found


def _version(record: TailRecord) -> int:
    return record.version


class LogRows:
    """Which rows of the log are still needed, and by which files. Writer thread only.

    A damaged row is never noted here, so it is never deleted: it is the evidence of what was lost.
    Nor, any more, is one that a file needs whose appends cannot be sealed.
    """

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, set[int]]] = {}
        """Size, and the files that need it, by seq, oldest first."""
        self._needed: dict[int, deque[tuple[int, int]]] = {}
        """The rows that a file needs, oldest first, each with the file's last version in it."""
        self._free: list[int] = []
        """Rows that nobody needs."""
        self._last = 0
        self._left_bytes = 0
        self.bytes = 0

    def add(self, seq: int, size: int, versions: Mapping[int, int]) -> None:
        """Note a committed row: the files in it, each with its last version there."""
        self._rows[seq] = (size, set(versions))
        self._last = seq
        self.bytes += size
        for file_id, version in versions.items():
            needed = self._needed.get(file_id)
            if needed is None:
                needed = self._needed[file_id] = deque()
            needed.append((version, seq))
        if not versions:
            self._free.append(seq)

    def release(self, file_id: int, upto_version: int) -> None:
        """The records of `file_id` up to `upto_version` are not needed any more."""
        needed = self._needed.get(file_id)
        while needed and needed[0][0] <= upto_version:
            self._release_row(file_id, needed.popleft()[1])
        if not needed:
            self._needed.pop(file_id, None)

    def leave(self, file_id: int, bytes_max: int) -> None:
        """The rows that this file needs stay for good: nothing waits for them to go. At most
        `bytes_max` are left so, of all files together."""
        needed = self._needed.get(file_id)
        while needed:
            seq = needed[0][1]
            size = self._rows[seq][0] if seq in self._rows else 0
            if self._left_bytes + size > bytes_max:
                return
            needed.popleft()
            self._rows.pop(seq, None)
            self._left_bytes += size
            self.bytes -= size
        self._needed.pop(file_id, None)

    def holders(self, bytes_kept: int) -> set[int]:
        """The files that keep the log from shrinking to `bytes_kept`, oldest rows first."""
        found: set[int] = set()
        excess = self.bytes - bytes_kept
        for size, files in self._rows.values():
            if excess <= 0:
                break
            excess -= size
            found |= files
        return found

    def droppable(self, count: int) -> tuple[list[int], int]:
        """Up to `count` rows that nobody needs, and the bytes of all. The last row always stays."""
        rows = [seq for seq in self._free[: count + 1] if seq != self._last][:count]
        return rows, sum([self._rows[seq][0] for seq in rows])

    def forget(self, seqs: Sequence[int]) -> None:
        """These rows were deleted."""
        gone = set(seqs)
        self._free = [seq for seq in self._free if seq not in gone]
        self.bytes -= sum([self._rows.pop(seq)[0] for seq in seqs])

    def _release_row(self, file_id: int, seq: int) -> None:
        row = self._rows.get(seq)
        if row is None:
            return  # it stays, for another file's sake
        _, files = row
        files.discard(file_id)
        if not files:
            self._free.append(seq)
