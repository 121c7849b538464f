"""Mending: whatever records are lost, the others stay as they are and where they are, and the row
is what it was.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from filestore.journal.bodies import dump
from filestore.journal.fold import fold, opened
from filestore.journal.mending import LOST, LOST_CHUNK, Mending
from filestore.journal.model import JournalRow, Record
from tests.journal.test_fold import HISTORIES, OPEN, Step, folded

NEW_ID = ("found", "found")


def mended(
    journal: list[Record], lost: set[int], known: JournalRow | None
) -> tuple[Mending, list[Record]]:
    there = {record.seq: record for record in journal if record.seq not in lost}
    mending = Mending(
        7, known, sorted(there), lambda seq: (there[seq], dump(there[seq].body)), NEW_ID
    )
    return mending, [record for record, _ in mending.records()]


def journal_of(steps: list[tuple[int, Step]]) -> list[Record]:
    later = [Record(seq, at, kind, body) for seq, (at, (kind, body)) in enumerate(steps, 1)]
    return [Record(0, 0, "open", OPEN), *later]


@given(HISTORIES, st.sets(st.integers(0, 25)), st.booleans())
def test_records_that_are_left_stay_and_the_row_is_what_it_was(
    steps: list[tuple[int, Step]], lost: set[int], is_row_lost: bool
) -> None:
    before, journal = folded(steps)[-1], journal_of(steps)
    lost &= set(range(len(journal)))
    if is_row_lost and len(lost) == len(journal):
        return  # nothing at all is left
    mending, found = mended(journal, lost, None if is_row_lost else before)
    for seq, record in enumerate(found):
        assert record.seq == seq
        is_new = seq in lost or seq >= len(journal)
        assert is_new or record == journal[seq]
    row = opened(7, found[0])
    for record in found[1:]:
        row = fold(row, record)
    assert mending.row is not None
    assert row._replace(updated_ms=mending.row.updated_ms) == mending.row
    assert sum(b - a + 1 for a, b in mending.lost_stretches()) == mending.lost
    if not lost:
        assert found == journal
        assert is_row_lost or mending.row == before
    if not is_row_lost:
        assert len(found) == len(journal) + bool(lost)
        waits: dict[str, Any] = {"is_busy": 0, "asked": None, "answering": None}
        assert row._replace(records=0, updated_ms=0, **waits) == before._replace(
            records=0, updated_ms=0, **waits
        )
        # Nobody waits for an answer to what is lost.
        assert row.asked in (before.asked, None)
        assert bool(row.is_busy) == (row.asked is not None)
    assert mending.session_id == ("found" if is_row_lost and 0 in lost else "s")


def test_answer_with_a_hole_says_so() -> None:
    chunk = {"id": "m", "role": "agent", "content": {"type": "text", "text": "x"}}
    bodies = [chunk | {"partial": True}, *([chunk | {"partial": True, "is_chunk": True}] * 3)]
    journal = [Record(0, 0, "open", OPEN)]
    journal += [Record(n, n, "message", body, "m") for n, body in enumerate(bodies, 1)]
    _, found = mended(journal, {2, 3}, None)
    assert found[2].body["content"]["text"] == LOST_CHUNK
    assert (found[2].ref, found[2].kind, found[3].body) == ("m", "message", LOST)
    _, found = mended(journal, {1}, None)
    assert (found[1].ref, found[1].body["content"]["text"]) == ("m", LOST_CHUNK)
    assert "is_chunk" not in found[1].body


def test_start_of_a_transcript_that_is_lost_is_forgotten() -> None:
    steps: list[Step] = [("meta", {"transcript": {}}), ("note", {})]
    timed = [(1, step) for step in steps]
    before, journal = folded(timed)[-1], journal_of(timed)
    assert before.transcript_seq == 1
    for lost, expected in ({1}, None), ({2}, 1):
        mending, _ = mended(journal, lost, before)
        assert mending.row is not None
        assert mending.row.transcript_seq == expected
