"""Mending: whatever records are lost, the others stay as they are and where they are, and the row
is what it was.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filestore.journal.bodies import dump
from filestore.journal.fold import fold, opened
from filestore.journal.mending import LOST_CHUNK, Mending
from filestore.journal.model import JournalRow, Record
from filestore.records.messages import refuse_missing
from filestore.sessions.foreign import taken
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
    later = [
        Record(seq, at, kind, body, body["id"] if kind == "message" else None)
        for seq, (at, (kind, body)) in enumerate(steps, 1)
    ]
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
    accepted: JournalRow | None = None
    for record in found:
        row = row if record.seq == 0 else fold(row, record)
        accepted = taken(accepted, record)
    assert accepted == row._replace(id=0), "another store would take it in"
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


def answers(*chunks: tuple[str, int]) -> list[Record]:
    """A journal of chunks: of which message, and which part of it."""
    journal = [Record(0, 0, "open", OPEN)]
    for seq, (name, part) in enumerate(chunks, 1):
        body: dict[str, Any] = {
            "id": name,
            "role": "agent",
            "content": {"type": "text", "text": "x"},
        }
        body |= {"partial": True} | ({"is_chunk": True, "part": part} if part else {})
        journal.append(Record(seq, seq, "message", body, name))
    return journal


@pytest.mark.parametrize(
    ("chunks", "lost", "expected"),
    [
        ("m0 m1 m2", {2}, "open m:x m:lost m:x"),
        ("m0 m1 m2", {1}, "open m:lost m:x m:x"),
        ("m0 m1 m2", {3}, "open m:x m:x m:lost"),
        ("m0 m1 m2 m3", {2, 3}, "open m:x note m:lost2 m:x"),
        ("m0 n0 m1", {2}, "open m:x note m:x"),
        ("m0 n0 m1 n1", {2}, "open m:x n:lost m:x n:x"),
        ("m0 n0 m1 n1 m2 n2", {3, 4}, "open m:x n:x n:lost m:lost m:x n:x"),
    ],
)
def test_answers_with_a_hole_say_so(chunks: str, lost: set[int], expected: str) -> None:
    journal = answers(*((each[0], int(each[1])) for each in chunks.split()))
    _, found = mended(journal, lost, folded_all(journal))
    shown: list[str] = [record.kind for record in found[: len(journal)]]
    for seq, record in enumerate(found[: len(journal)]):
        if record.kind == "message":
            text = record.body["content"]["text"].replace(LOST_CHUNK, "lost")
            count = record.body.get("stands_for", 1)
            shown[seq] = f"{record.ref}:{text}{count if count > 1 else ''}"
    assert " ".join(shown) == expected
    for name in "mn":
        refuse_missing("s", [each for each in found if each.ref == name])


def folded_all(journal: list[Record]) -> JournalRow:
    row = opened(7, journal[0])
    for record in journal[1:]:
        row = fold(row, record)
    return row


def test_start_of_a_transcript_that_is_lost_is_forgotten() -> None:
    steps: list[Step] = [("meta", {"transcript": {}}), ("note", {})]
    timed = [(1, step) for step in steps]
    before, journal = folded(timed)[-1], journal_of(timed)
    assert before.transcript_seq == 1
    for lost, expected in ({1}, None), ({2}, 1):
        mending, _ = mended(journal, lost, before)
        assert mending.row is not None
        assert mending.row.transcript_seq == expected
