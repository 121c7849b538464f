"""Parts of a transaction: a session begins, gets a record, ends, goes on again, is deleted.

A record, the row that folds it in, and the change that tells of it are written together here and
nowhere else.
"""

from collections.abc import Mapping
from typing import Any

from filestore.engine.base import Tx
from filestore.errors import AlreadyExistsError, ConflictError, InvalidArgumentError, TooLargeError
from filestore.journal import rows
from filestore.journal.bodies import BODY_BYTES_MAX, dump, is_text
from filestore.journal.fold import fold, opened, related_ids
from filestore.journal.model import (
    AFTER_THE_END,
    RECORDS_MAX,
    SESSION_ID_CHARS_MAX,
    STATUS_OF,
    JournalRow,
    Origin,
    Outcome,
    Record,
    RecordKind,
)
from filestore.model import Change

METADATA_BYTES_MAX = 64 << 10
ROW_BODY_BYTES_MAX = 256 << 10
"""Of a record that the row takes something from: rows are read by the hundred."""
REF_CHARS_MAX = 1000
RECORDS_RESERVED = 1000
"""So many of a session's records are kept for its end, whatever fills the others."""
FEED_PREFIX = "journal:"
"""What the change feed calls a session's records: this and its id, as if it were a zone."""
_KINDS_OF_ROW = frozenset(("open", "phase", "meta", "error", "end"))


def check_id(value: object) -> str:
    """Return `value` if it can be the id of a session, else raise InvalidArgumentError."""
    if isinstance(value, str) and 0 < len(value) <= SESSION_ID_CHARS_MAX and value.isprintable():
        return value
    shown = ascii(value)[:80]
    raise InvalidArgumentError(
        f"a session id must be 1 to {SESSION_ID_CHARS_MAX} printable characters, not {shown}"
    )


async def begin(
    tx: Tx,
    session_id: str,
    definition_id: str,
    origin: Origin,
    body: Mapping[str, Any],
    *,
    at_ms: int | None = None,
    ref: str | None = None,
) -> JournalRow:
    """Begin a session with its record `open`. AlreadyExistsError if there is one of that id."""
    if await rows.find(tx, check_id(session_id)) is not None:
        raise AlreadyExistsError(f"session {session_id!a} exists already")
    given = {name: value for name, value in body.items() if value is not None}
    _check_metadata(given.get("metadata", {}))
    record = Record(
        0,
        tx.now_ms() if at_ms is None else at_ms,
        "open",
        {"id": session_id, "definition_id": definition_id, "origin": origin, **given},
        ref,
    )
    data = _dumped(record)
    row = opened(await rows.next_id(tx), record)
    await rows.insert(tx, row)
    await _keep(tx, row, record, data)
    return row


async def add(
    tx: Tx,
    row: JournalRow,
    kind: RecordKind,
    body: dict[str, Any],
    *,
    ref: str | None = None,
    at_ms: int | None = None,
    is_own: bool = False,
) -> tuple[JournalRow, Record]:
    """Add a record to a session. ConflictError if it has ended and the record is not one that may
    come after. `is_own`: the store itself says so, of a session that ended, or is full, too.
    """
    if row.is_final and kind not in AFTER_THE_END and not is_own:
        raise final(row)
    limit = RECORDS_MAX if is_own or kind in ("open", "end") else RECORDS_MAX - RECORDS_RESERVED
    if row.records >= limit:
        raise TooLargeError(f"a session has at most {limit} records", limit=limit)
    record = Record(row.records, tx.now_ms() if at_ms is None else at_ms, kind, body, ref)
    data = _dumped(record)
    changed = fold(row, record)
    if kind == "meta" and not is_own:
        _check_metadata(changed.metadata)
    await rows.save(tx, row, changed)
    await _keep(tx, row, record, data)
    return changed, record


async def end(
    tx: Tx,
    row: JournalRow,
    outcome: Outcome,
    *,
    summary: str | None = None,
    reason: str | None = None,
    ref: str | None = None,
    at_ms: int | None = None,
) -> JournalRow:
    """End a session. ConflictError if it has ended."""
    body = {"status": STATUS_OF[outcome], "phase": outcome, "summary": summary, "reason": reason}
    given = {name: value for name, value in body.items() if value is not None}
    return (await add(tx, row, "end", given, ref=ref, at_ms=at_ms))[0]


async def touch(tx: Tx, row: JournalRow, at_ms: int | None = None) -> None:
    """Note that its files were changed, now or at another time."""
    changed = row._replace(updated_ms=max(row.updated_ms, tx.now_ms() if at_ms is None else at_ms))
    if changed != row:
        await rows.save(tx, row, changed)


async def remove(tx: Tx, row: JournalRow) -> None:
    """Delete a session's records with its row."""
    await rows.remove(tx, row)
    version = tx.next_version()
    tx.publish(Change(version, "record", FEED_PREFIX + row.session_id, None, version))


def final(row: JournalRow) -> ConflictError:
    """The error about a session that has ended."""
    return ConflictError(
        f"session {row.session_id!a} has ended: it is {row.status}",
        status=row.status,
        hint="begin another, or restore it if it is archived",
    )


def check_ref(ref: str) -> str:
    """Return `ref` if a record can be found by it again, else raise InvalidArgumentError."""
    if 0 < len(ref) <= REF_CHARS_MAX and is_text(ref):
        return ref
    raise InvalidArgumentError(
        f"a name must have 1 to {REF_CHARS_MAX} characters, not be {ascii(ref)[:80]}"
    )


def _dumped(record: Record) -> bytes:
    """The body as it is stored. Before anything is: what cannot be stored is refused by it."""
    if record.ref is not None:
        check_ref(record.ref)
    data = dump(record.body, bytes_max=BODY_BYTES_MAX)
    if record.kind in _KINDS_OF_ROW and len(data) > ROW_BODY_BYTES_MAX:
        # What starts a transcript may be long: the row only says where it stands.
        shown = {name: each for name, each in record.body.items() if name != "transcript"}
        dump(shown, bytes_max=ROW_BODY_BYTES_MAX)
    return data


async def _keep(tx: Tx, row: JournalRow, record: Record, data: bytes) -> None:
    await rows.insert_record(tx, row.id, record, data)
    await rows.relate(tx, row.id, related_ids(row.session_id, record))
    version = tx.next_version()
    zone = FEED_PREFIX + row.session_id
    tx.publish(Change(version, "record", zone, None, version, record.seq))


def _check_metadata(metadata: Mapping[str, Any]) -> None:
    dump(metadata, bytes_max=METADATA_BYTES_MAX)
