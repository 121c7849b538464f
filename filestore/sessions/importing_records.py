"""The journal of a session that is imported: looked through and folded first, then written in the
transaction in which the session appears.
"""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import orjson
from blake3 import blake3

from filestore.engine.base import ReadTx
from filestore.errors import AlreadyExistsError, CorruptionError, InvalidArgumentError
from filestore.journal import rows as journals
from filestore.journal.bodies import dump, load
from filestore.journal.fold import fold, opened, related_ids
from filestore.journal.model import KINDS, JournalRow, Record
from filestore.records.repos import Repo, add_repo
from filestore.sessions.foreign import taken
from filestore.sessions.portable import HINT, FileHead, RecordPart, RepoHead, SessionHead, read
from filestore.transaction import Transaction

ELSEWHERE = "/imported/"
"""Where a repo is said to be whose folder is another repo's here."""


class Records(NamedTuple):
    """What a file says of a session's journal, all of it verified. `row` None: nothing."""

    row: JournalRow | None
    repo: RepoHead | None
    digest: bytes
    """Of all records but the first, which names the session."""


class Looking:
    """Takes records one by one."""

    def __init__(self, session: SessionHead) -> None:
        self._session = session
        self._row: JournalRow | None = None
        self._repo: RepoHead | None = None
        self._hasher = blake3()

    def repo(self, head: RepoHead) -> None:
        self._repo = head

    def record(self, part: RecordPart) -> None:
        """One more record. CorruptionError if it is none of ours."""
        record = _record(part, self._row.records if self._row else 0)
        if self._row is not None:
            self._hasher.update(_bytes(record.seq, part))
        try:
            self._row = taken(self._row, record)
        except InvalidArgumentError as error:
            raise _refused(error.message) from error

    def end(self) -> Records:
        row, session = self._row, self._session
        if row is not None and (row.session_id, row.definition_id) != (
            session.session_id, session.definition_id,
        ):  # fmt: skip
            raise _refused("its records are of another session")
        if row is not None and row.repo_id != (self._repo.id if self._repo else None):
            raise _refused("its records name another repo")
        return Records(row, self._repo, self._hasher.digest())


async def is_same(tx: ReadTx, session_id: str, records: Records) -> bool:
    """True if a session of this store begins with just these records."""
    found = await journals.find(tx, session_id)
    if records.row is None:
        return True
    if found is None or found.records < records.row.records:
        return False
    hasher, seq = blake3(), 1
    while seq < records.row.records:
        count = min(journals.PAGE_RECORDS_MAX, records.row.records - seq)
        for each in await journals.load_page(tx, found.id, seq, records_max=count):
            part = RecordPart(each.at_ms, each.kind, each.ref, dump(each.body))
            hasher.update(_bytes(each.seq, part))
            seq += 1
    return hasher.digest() == records.digest


async def appear(tx: Transaction, session: SessionHead, records: Records, stream: BinaryIO) -> None:
    """Write the journal, read from the file once more; nothing of it is kept in memory."""
    if records.row is None:
        return
    if await journals.find(tx.rows, session.session_id) is not None:
        raise AlreadyExistsError(
            f"session {session.session_id!a} is here already", operation="import",
            hint="--as <another agent> brings it in as a copy",
        )  # fmt: skip
    if records.repo is not None:
        await _bring_repo(tx, records.repo)
    journal_id = await journals.next_id(tx.rows)
    row: JournalRow | None = None
    hasher = blake3()
    for seq, part in enumerate(_again(stream)):
        record, data = _record(part, seq), part.body
        if row is None:
            own = {"id": session.session_id, "definition_id": session.definition_id}
            record = record._replace(body=record.body | own)
            data = dump(record.body)
            row = opened(journal_id, record)
        else:
            hasher.update(_bytes(seq, part))
            row = fold(row, record)
        await journals.insert_record(tx.rows, journal_id, record, data)
        await journals.relate(tx.rows, journal_id, related_ids(session.session_id, record))
    if row is None or (row.records, hasher.digest()) != (records.row.records, records.digest):
        raise CorruptionError("the file was changed while it was read", operation="import")
    await journals.insert(tx.rows, row)


def _again(stream: BinaryIO) -> Iterator[RecordPart]:
    stream.seek(0)
    for part in read(stream):
        if isinstance(part, RecordPart):
            yield part
        elif isinstance(part, FileHead):
            return


async def _bring_repo(tx: Transaction, head: RepoHead) -> None:
    """Its folder is looked at when it is used, as ever."""
    if await tx.rows.fetch_one("SELECT 1 FROM repo WHERE id = ?", (head.id,)) is not None:
        return
    taken_path = await tx.rows.fetch_one("SELECT 1 FROM repo WHERE path = ?", (head.path,))
    path = head.path if taken_path is None else ELSEWHERE + head.id
    await add_repo(tx.rows, Repo(head.id, path, head.name, head.created_ms))


def _record(part: RecordPart, seq: int) -> Record:
    if part.kind not in KINDS:
        raise _refused(f"record {seq} is of an unknown kind")
    try:
        body = load(part.body)
        if dump(body) != part.body:
            raise _refused(f"record {seq} is not as it would be stored")
    except (ValueError, TypeError, orjson.JSONDecodeError, InvalidArgumentError) as error:
        raise _refused(f"record {seq} is no JSON: {error}") from error
    return Record(seq, part.at_ms, part.kind, body, part.ref)  # type: ignore[arg-type]  # as was looked at


def _bytes(seq: int, part: RecordPart) -> bytes:
    head = f"{seq} {part.at_ms} {part.kind} {part.ref!a} {len(part.body)} "
    return head.encode() + part.body


def _refused(what: str) -> CorruptionError:
    return CorruptionError(f"the file is refused: {what}", operation="import", hint=HINT)
