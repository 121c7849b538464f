"""The stream of a session under guards: may these lines be appended, or do they stand already?

A caller that has lost an answer repeats its append with the same guard (`at_line`, `session_id`).
What counts is exact. A stream has the lines that have a number, an unterminated last one (of an
import) among them. Lines stand at a place if their bytes do, one behind the other, each with its
line break: so an unterminated line is never taken for one that was appended.
"""

from itertools import accumulate
from typing import NamedTuple

from filestore.engine.base import Tx
from filestore.errors import CorruptionError, InvalidArgumentError
from filestore.heads import Head, located
from filestore.lines import LineCounter, Open, is_blank
from filestore.lists import find_page, locate
from filestore.model import PIECE_BYTES_MAX
from filestore.reading import ReadTransaction
from filestore.sessions import rows, units
from filestore.sessions.model import OutputAppended
from filestore.sessions.names import OUTPUT, archive_zone, check_guard_id, current_zone
from filestore.transaction import Transaction

LOOK_BYTES = 4096


class Guard(NamedTuple):
    """What must hold for an append: so many lines, in this session. None: whatever it is."""

    at_line: int | None
    session_id: str | None


def check_guard(at_line: int | None, session_id: str | None) -> Guard:
    """The caller's guard, or InvalidArgumentError."""
    if at_line is not None and (type(at_line) is not int or at_line < 0):
        raise InvalidArgumentError(
            f"at_line must be a number of lines, not {ascii(at_line)[:80]}",
            operation="append_output",
        )
    return Guard(at_line, check_guard_id(session_id))


def holds_at_once(tx: Tx, zone: str, head: Head, guard: Guard) -> bool:
    """True if memory is enough to say that the guard holds; else `find_repeat` has to look."""
    at_line, session_id = guard
    if at_line is not None and (head.open or at_line != head.ended):
        return False
    return session_id is None or tx.heads.get(units.id_key(zone)) == session_id


async def find_repeat(
    tx: Transaction, definition_id: str, data: bytes, count: int, guard: Guard
) -> OutputAppended | None:
    """The first answer if these lines stand where they should; None if they are to be appended.

    Raises VersionConflictError if neither is so.
    """
    at_line, session_id = guard
    zone = current_zone(definition_id)
    if session_id is not None and session_id != await units.current_id(tx, definition_id):
        # Finished meanwhile, perhaps: the lines may stand there, but never come into the next one.
        row = await rows.load_by_id(tx.rows, session_id) if count and at_line is not None else None
        if row is not None and row.definition_id == definition_id and row.archived_ms is not None:
            found = await _standing(
                tx, archive_zone(definition_id, row.archived_ms), data, count, at_line or 0
            )
            if found is not None:
                return found
        raise await units.other_session(tx, definition_id)
    if at_line is None or not count:
        return None
    head = await tx.head(zone, OUTPUT)
    total = head.lines if head else 0
    if at_line == total:
        return None
    found = await _standing(tx, zone, data, count, at_line)
    if found is None:
        raise await units.conflict(
            tx,
            definition_id,
            f"the stream has {total} lines, not {at_line}, and others than these stand there",
            "read the stream from the line on that you know, and append what is missing",
        )
    return found


async def line_offset(tx: ReadTransaction, zone: str, head: Head, line: int) -> int:
    """Where in a stream the line with this number starts; it must be there. Found by index."""
    at = await _end_of_line(tx, zone, head, line - 1) if line else 0
    # Blank lines have no number, and may stand before it.
    length = LOOK_BYTES
    while True:
        block = await tx.read(zone, head.row.name, at, min(length, head.size - at))
        *whole, rest = block.split(b"\n")
        for text in whole:
            if not is_blank(text):
                return at
            at += len(text) + 1
        counter = LineCounter()
        counter.feed(rest)
        if counter.state is Open.TEXT or at + len(rest) >= head.size:
            return at
        if not whole:
            length *= 2


async def _standing(
    tx: ReadTransaction, zone: str, data: bytes, count: int, at_line: int
) -> OutputAppended | None:
    """The answer to the append that put exactly these lines there, if they are there."""
    head = await tx.head(zone, OUTPUT)
    if head is None or at_line + count > head.lines:
        return None
    offset = await line_offset(tx, zone, head, at_line)
    if offset + len(data) > head.size:
        return None
    for at in range(0, len(data), PIECE_BYTES_MAX):
        piece = data[at : at + PIECE_BYTES_MAX]
        if await tx.read(zone, OUTPUT, offset + at, len(piece)) != piece:
            return None
    return OutputAppended(len(data), offset, at_line, count, duplicate=True)


async def _end_of_line(tx: ReadTransaction, zone: str, head: Head, line: int) -> int:
    """The offset right behind the line break of a line, from the one piece in which it ends."""
    row = head.row
    if line >= row.ended:
        records = await tx.tail(zone, row)
        record = records[locate([each.line for each in records], line)]
        return record.offset + _end_in(record.data, record.ended, line - record.line)
    try:
        page = await find_page(tx.rows, row.id, row.pages, line=line)
        lines = list(accumulate((entry.ended for entry in page.entries), initial=page.start_line))
        index = locate(lines[:-1], line)
        entry = page.entries[index]
        offset = page.start_offset + sum(each.size for each in page.entries[:index])
        data = await tx.chunk(zone, row.name, entry, offset)
        return offset + _end_in(data, entry.ended, line - lines[index])
    except CorruptionError as error:
        raise located(error, zone, row.name, None) from error


def _end_in(piece: bytes, ended: int, number: int) -> int:
    """Where in `piece` the line ends that is number `number` of the `ended` ones that do there."""
    first, *others = piece.split(b"\n")[:-1]
    counts = [not is_blank(text) for text in others]
    # What is left of a line that began before may look blank; the index knows whether it counts.
    left, at = number + 1 - (ended - sum(counts)), len(first) + 1
    for text, is_counted in zip(others, counts, strict=True):
        if not left:
            break
        at += len(text) + 1
        left -= is_counted
    if left:
        raise CorruptionError("fewer lines end here than the index says")
    return at
