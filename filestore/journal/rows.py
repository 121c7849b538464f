"""The tables of journals: `journal`, one row a session; `record`, its entries; `tally`, how many
sessions there are of each status. See docs/specs/0008-session-records.md.

A record's key packs its journal's id and its seq, so one session's records lie side by side. The
tallies change with the rows, in the same transaction, so that no list has to count.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, LiteralString

import msgpack

from filestore.engine.base import ReadTx, Row, Tx
from filestore.engine.schema import row_check, values_check
from filestore.errors import CorruptionError
from filestore.journal.bodies import dump, load
from filestore.journal.model import (
    KINDS,
    RECORDS_MAX,
    SEQ_BITS,
    JournalRow,
    Record,
    RecordKind,
    Status,
)

COLUMNS: LiteralString = (
    "j.id, j.session_id, j.definition_id, j.status, j.phase, j.origin, j.created_ms, "
    "j.updated_ms, j.started_ms, j.agent_name, j.repo_id, j.is_busy, j.records, j.more, j.row_check"
)
_SHOWN = 13
_CONTEXT, _METADATA = 3, 4
_RECORD: LiteralString = "id, at_ms, kind, ref, body, row_check"
SCOPES = ("all", "repos", "repo", "agent")
"""What sessions are counted under; see `tallied`."""
PAGE_RECORDS_MAX = 500
PAGE_BYTES_MAX = 1 << 20
PAGE_STEP = 32
"""Read at a time, so that the page is not much larger than it may be."""
_pack: Callable[[Sequence[object]], bytes] = msgpack.packb


async def find(tx: ReadTx, session_id: str) -> JournalRow | None:
    """The journal of a session."""
    row = await tx.fetch_one(
        f"SELECT {COLUMNS} FROM journal j WHERE j.session_id = ?", (session_id,)
    )
    # A damaged index finds others, too.
    if row is not None and row[1] != session_id:
        raise CorruptionError(f"another journal is found for session {session_id!a}")
    return None if row is None else unpack(row)


async def waiting(tx: ReadTx, definition_id: str) -> JournalRow | None:
    """The newest session of a definition that goes on and has no files yet: the next file that is
    written to its current zone belongs to it.
    """
    row = await tx.fetch_one(
        f"SELECT {COLUMNS} FROM journal j LEFT JOIN session s ON s.session_id = j.session_id "
        "WHERE j.definition_id = ? AND j.status = 'active' AND s.zone_id IS NULL "
        "ORDER BY j.id DESC LIMIT 1",
        (definition_id,),
    )
    return None if row is None else unpack(row)


async def without_files(tx: ReadTx, definition_id: str) -> JournalRow | None:
    """The newest session of a definition that has no files, whether it goes on or not."""
    row = await tx.fetch_one(
        f"SELECT {COLUMNS} FROM journal j LEFT JOIN session s ON s.session_id = j.session_id "
        "WHERE j.definition_id = ? AND s.zone_id IS NULL ORDER BY j.id DESC LIMIT 1",
        (definition_id,),
    )
    return None if row is None else unpack(row)


async def next_id(tx: ReadTx) -> int:
    """The id of the next journal: they rise in the order in which sessions begin."""
    row = await tx.fetch_one("SELECT max(id) FROM journal")
    return 1 + (row[0] or 0 if row else 0)


async def insert(tx: Tx, row: JournalRow) -> None:
    """Add a session."""
    await tx.execute(
        "INSERT INTO journal (id, session_id, definition_id, status, phase, origin, created_ms, "
        "updated_ms, started_ms, agent_name, repo_id, is_busy, records, more, row_check) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        packed(row),
    )
    await _count(tx, row, 1)


async def save(tx: Tx, before: JournalRow, row: JournalRow) -> None:
    """Replace a session's row."""
    values = packed(row)
    await tx.execute(
        "UPDATE journal SET definition_id = ?, status = ?, phase = ?, updated_ms = ?, "
        "started_ms = ?, agent_name = ?, is_busy = ?, records = ?, more = ?, row_check = ? "
        "WHERE id = ?",
        (*values[2:5], *values[7:10], *values[11:], row.id),
    )
    if (before.status, before.agent_name) != (row.status, row.agent_name):
        await _count(tx, before, -1)
        await _count(tx, row, 1)


async def remove(tx: Tx, row: JournalRow) -> None:
    """Delete a session's row with all its records."""
    await tx.execute("DELETE FROM record WHERE id >= ? AND id < ?", _range(row.id))
    await tx.execute("DELETE FROM related WHERE journal_id = ?", (row.id,))
    await tx.execute("DELETE FROM journal WHERE id = ?", (row.id,))
    await _count(tx, row, -1)


def packed(row: JournalRow) -> tuple[Any, ...]:
    """The row as it is stored, with its check."""
    more: list[object] = list(row[_SHOWN:])
    more[_CONTEXT] = dump({"": row.context})
    more[_METADATA] = dump(row.metadata)
    values: tuple[Any, ...] = (*row[:_SHOWN], _pack(more))
    return (*values, values_check(values))


def unpack(row: Row) -> JournalRow:
    """The row, if its check holds."""
    *values, check = row
    if check != row_check(*values):
        raise CorruptionError(f"the row of the journal of session {row[1]!a} fails its check")
    more = msgpack.unpackb(values[_SHOWN])
    more[_CONTEXT] = load(more[_CONTEXT])[""]
    more[_METADATA] = load(more[_METADATA])
    return JournalRow(*values[:_SHOWN], *more)


# -- records


async def insert_record(tx: Tx, journal_id: int, record: Record, data: bytes) -> None:
    """Add a record; `data` is its body, dumped."""
    values = (journal_id << SEQ_BITS | record.seq, record.at_ms, record.kind, record.ref, data)
    await tx.execute(
        f"INSERT INTO record ({_RECORD}) VALUES (?, ?, ?, ?, ?, ?)", (*values, row_check(*values))
    )


async def load_records(
    tx: ReadTx, journal_id: int, first_seq: int, limit: int, *, upto: int = 0
) -> list[Record]:
    """Records of one session in order, from a seq on; never those of another. CorruptionError if
    one is missing among them, or, where it tells how many there are, `upto`, behind them.
    """
    start, end = _range(journal_id)
    first_seq = max(0, min(first_seq, RECORDS_MAX))
    limit = max(0, min(limit, RECORDS_MAX))
    rows = await tx.fetch(
        f"SELECT {_RECORD} FROM record WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
        (start + first_seq, end, limit),
    )
    found = [_record(row) for row in rows]
    _refuse_gap(journal_id, first_seq, [each.seq for each in found], limit, upto)
    return found


async def load_kind(
    tx: ReadTx, journal: JournalRow, first_seq: int, limit: int, kind: RecordKind
) -> list[Record]:
    """The same of one kind. All others are looked at, but for their bodies: none may be missing."""
    start, end = _range(journal.id)
    seq = max(0, min(first_seq, RECORDS_MAX))
    found: list[Record] = []
    while len(found) < limit:
        rows = await tx.fetch(
            "SELECT id, at_ms, kind, ref, CASE kind WHEN ? THEN body END, row_check FROM record "
            "WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
            (kind, start + seq, end, PAGE_RECORDS_MAX),
        )
        seqs = [row[0] - start for row in rows]
        _refuse_gap(journal.id, seq, seqs, PAGE_RECORDS_MAX, journal.records)
        for row in rows:
            if row[2] == kind:
                found.append(_record(row))
            elif row[2] not in KINDS:
                raise CorruptionError(f"record {row[0] - start} of journal {journal.id} is damaged")
            if len(found) == limit:
                break
        if len(rows) < PAGE_RECORDS_MAX:
            break
        seq += len(rows)
    return found


async def load_phases(tx: ReadTx, journal_id: int, limit: int) -> list[Record]:
    """The last records of a session that its phase comes from, in order."""
    found = await tx.fetch(
        f"SELECT {_RECORD} FROM record WHERE id >= ? AND id < ? "
        "AND +kind IN ('open', 'phase', 'end') ORDER BY id DESC LIMIT ?",
        (*_range(journal_id), limit),
    )
    return [_record(row) for row in reversed(found)]


async def load_of_kinds(
    tx: ReadTx,
    journal_id: int,
    kinds: tuple[RecordKind, ...],
    *,
    after_seq: int = -1,
    before_seq: int = RECORDS_MAX,
    is_latest_first: bool = False,
    limit: int = PAGE_STEP,
) -> list[Record]:
    """Some records of one session, of these kinds, between two seqs; in order, or from the end."""
    start = journal_id << SEQ_BITS
    marks: LiteralString = ", ".join("?" for _ in kinds)
    order: LiteralString = "DESC" if is_latest_first else "ASC"
    rows = await tx.fetch(
        f"SELECT {_RECORD} FROM record WHERE id > ? AND id < ? AND +kind IN ({marks}) "
        f"ORDER BY id {order} LIMIT ?",
        (
            start + max(-1, min(after_seq, RECORDS_MAX)),
            start + max(0, min(before_seq, RECORDS_MAX)),
            *kinds,
            limit,
        ),
    )
    return [_record(row) for row in rows]


async def count_of_kind(tx: ReadTx, journal_id: int, kind: RecordKind, up_to_seq: int) -> int:
    """How many records of a kind a session has, up to and with a seq."""
    start = journal_id << SEQ_BITS
    row = await tx.fetch_one(
        "SELECT count(*) FROM record WHERE id >= ? AND id <= ? AND +kind = ?",
        (start, start + up_to_seq, kind),
    )
    return 0 if row is None else int(row[0])


async def load_page(
    tx: ReadTx, journal_id: int, first_seq: int, *, records_max: int = PAGE_RECORDS_MAX
) -> list[Record]:
    """Records from a seq on, as many as may be held at a time; none: there are no more."""
    start, end = _range(journal_id)
    found: list[Record] = []
    size = 0
    while len(found) < records_max and size < PAGE_BYTES_MAX:
        at, limit = first_seq + len(found), min(PAGE_STEP, records_max - len(found))
        rows = await tx.fetch(
            f"SELECT {_RECORD} FROM record WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
            (start + max(0, min(at, RECORDS_MAX)), end, limit),
        )
        found += [_record(row) for row in rows]
        _refuse_gap(journal_id, max(0, first_seq), [each.seq for each in found], 0)
        size += sum(len(row[4]) for row in rows)
        if len(rows) < limit:
            break
    return found


def _refuse_gap(
    journal_id: int, first_seq: int, seqs: list[int], limit: int, upto: int = 0
) -> None:
    """Records have no gaps; a damaged tree may lose some."""
    wanted = range(first_seq, first_seq + len(seqs))
    for seq, found in zip(wanted, seqs, strict=True):
        if seq != found:
            raise CorruptionError(f"record {seq} of journal {journal_id} is missing")
    if len(seqs) < limit and wanted.stop < upto:
        raise CorruptionError(f"record {wanted.stop} of journal {journal_id} is missing")


async def find_records(tx: ReadTx, journal_id: int, ref: str, *kinds: RecordKind) -> list[Record]:
    """The records of one session that can be found by `ref`, in order; of these kinds, if given."""
    among, params = _among(journal_id, ref, kinds)
    rows = await tx.fetch(f"SELECT {_RECORD} FROM record WHERE {among} ORDER BY id", params)
    return [_found(row, journal_id, ref) for row in rows]


async def find_last(tx: ReadTx, journal_id: int, ref: str, *kinds: RecordKind) -> Record | None:
    """The last one of them."""
    among, params = _among(journal_id, ref, kinds)
    row = await tx.fetch_one(
        f"SELECT {_RECORD} FROM record WHERE {among} ORDER BY id DESC LIMIT 1", params
    )
    return None if row is None else _found(row, journal_id, ref)


def _found(row: Row, journal_id: int, ref: str) -> Record:
    """A record that was looked for by its ref: a damaged index finds others, too."""
    if row[0] >> SEQ_BITS != journal_id or row[3] != ref:
        raise CorruptionError(f"another record is found for {ref!a} of journal {journal_id}")
    return _record(row)


async def last_seq(tx: ReadTx, journal_id: int, ref: str, *kinds: RecordKind) -> int:
    """The seq of the last one of them, without reading it; -1 if there is none."""
    among, params = _among(journal_id, ref, kinds)
    row = await tx.fetch_one(
        f"SELECT id FROM record WHERE {among} ORDER BY id DESC LIMIT 1", params
    )
    return -1 if row is None else row[0] & (RECORDS_MAX - 1)


def _among(
    journal_id: int, ref: str, kinds: tuple[RecordKind, ...]
) -> tuple[LiteralString, tuple[str | int, ...]]:
    start, end = _range(journal_id)
    sql: LiteralString = "ref = ? AND id >= ? AND id < ?"
    if kinds:
        marks: LiteralString = ", ".join("?" for _ in kinds)
        sql += f" AND +kind IN ({marks})"
    return sql, (ref, start, end, *kinds)


def _range(journal_id: int) -> tuple[int, int]:
    """The first id that a session's records can have, and the first behind them."""
    start = journal_id << SEQ_BITS
    return start, start + (1 << SEQ_BITS)


def _record(row: Row) -> Record:
    *values, check = row
    if check != row_check(*values):
        number, seq = values[0] >> SEQ_BITS, values[0] & (RECORDS_MAX - 1)
        raise CorruptionError(f"record {seq} of journal {number} fails its check")
    key, at_ms, kind, ref, body = values
    return Record(key & (RECORDS_MAX - 1), at_ms, kind, load(body), ref)


# -- what sessions can be found by


async def relate(tx: Tx, journal_id: int, refs: Iterable[str]) -> None:
    """Let a session be found by these ids, too."""
    for ref in sorted(refs):
        await tx.execute(
            "INSERT INTO related (ref, journal_id, row_check) VALUES (?, ?, ?) "
            "ON CONFLICT (ref, journal_id) DO NOTHING",
            (ref, journal_id, row_check(ref, journal_id)),
        )


async def find_related(tx: ReadTx, ref: str, limit: int) -> list[JournalRow]:
    """The sessions that have to do with an id, in the order in which they began."""
    rows = await tx.fetch(
        f"SELECT {COLUMNS} FROM related r JOIN journal j ON j.id = r.journal_id "
        "WHERE r.ref = ? ORDER BY r.journal_id LIMIT ?",
        (ref, limit),
    )
    return [unpack(row) for row in rows]


# -- tallies


def tallied(row: JournalRow) -> list[tuple[str, str]]:
    """What a session is counted under, besides its status: scope and key."""
    found = [("all", "")]
    if row.repo_id is not None:
        found += [("repos", ""), ("repo", row.repo_id)]
    if row.agent_name is not None:
        found.append(("agent", row.agent_name))
    return found


async def tally(tx: ReadTx, scope: str, key: str, status: Status) -> int:
    """How many sessions there are of a status: of `all`, of those with a repo (`repos`), of one
    `repo`, of one `agent` name.
    """
    row = await tx.fetch_one(
        "SELECT scope, key, status, count, row_check FROM tally "
        "WHERE scope = ? AND key = ? AND status = ?",
        (scope, key, status),
    )
    if row is not None and tuple(row[:3]) != (scope, key, status):
        raise CorruptionError(f"another count is found for {scope} {key!a}")
    return 0 if row is None else tally_of(row)


def tally_of(row: Row) -> int:
    """The count in a row of `tally`, if its check holds."""
    *values, check = row
    if check != row_check(*values):
        raise CorruptionError(f"the count of {values[0]} {values[1]!a} fails its check")
    return int(values[3])


async def _count(tx: Tx, row: JournalRow, more: int) -> None:
    for scope, key in tallied(row):
        count = more + await tally(tx, scope, key, row.status)
        if count < 0:
            raise CorruptionError(f"the count of {row.status} sessions for {scope} {key!a} is lost")
        if count == 0 and scope in ("repo", "agent"):
            await tx.execute(
                "DELETE FROM tally WHERE scope = ? AND key = ? AND status = ?",
                (scope, key, row.status),
            )
            continue
        values = (scope, key, row.status, count)
        await tx.execute(
            "INSERT INTO tally (scope, key, status, count, row_check) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (scope, key, status) DO UPDATE "
            "SET count = excluded.count, row_check = excluded.row_check",
            (*values, row_check(*values)),
        )
