"""The fold: what each record does to the row, and what holds whatever the records are."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filestore.journal import rows
from filestore.journal.fold import RELATED_MAX, entity_id, fold, opened, related_ids
from filestore.journal.model import (
    OPEN_PHASES,
    OUTCOMES,
    STATUS_OF,
    JournalRow,
    Record,
    RecordKind,
)

OPEN = {"id": "s", "definition_id": "d", "origin": "cli"}
END = {"status": "completed", "phase": "completed"}
CONTENT = {"type": "text", "text": "x"}

Step = tuple[RecordKind, dict[str, Any]]

MESSAGES: st.SearchStrategy[Step] = st.builds(
    lambda name, role, marks: ("message", {"id": name, "role": role, "content": CONTENT} | marks),
    st.sampled_from("abc"),
    st.sampled_from(["user", "agent", "system"]),
    st.dictionaries(
        st.sampled_from(["is_prompt", "partial", "is_chunk", "is_interruption"]), st.just(True)
    ),
)
JSON = st.none() | st.integers() | st.text("xyz", max_size=3) | st.lists(st.integers(), max_size=2)
STEPS: st.SearchStrategy[Step] = st.one_of(
    MESSAGES,
    st.sampled_from(OPEN_PHASES).map(lambda to: ("phase", {"from": "", "to": to})),
    st.dictionaries(st.sampled_from("klm"), JSON).map(lambda more: ("meta", {"metadata": more})),
    st.sampled_from("de").map(lambda to: ("meta", {"definition_id": to})),
    st.text("ef", max_size=3).map(lambda text: ("error", {"message": text})),
    st.sampled_from(OUTCOMES).map(
        lambda outcome: ("end", {"status": STATUS_OF[outcome], "phase": outcome})
    ),
    st.just(("open", {"reason": "restored"})),
    st.sampled_from(["checkpoint", "observation", "note"]).map(lambda kind: (kind, {"any": 1})),
)


def possible(steps: list[tuple[int, Step]]) -> list[tuple[int, Step]]:
    """Without what nobody would have added there: final is final, and what goes on is not begun."""
    found, is_final = [], False
    for at_ms, (kind, body) in steps:
        may_follow = kind == "observation" or "definition_id" in body
        if may_follow or is_final == (kind == "open"):
            found.append((at_ms, (kind, body)))
            is_final = kind == "end" or (is_final and kind != "open")
    return found


HISTORIES = st.lists(st.tuples(st.integers(-100, 100), STEPS), max_size=25).map(possible)


def folded(steps: list[tuple[int, Step]]) -> list[JournalRow]:
    """The row after each record; the first is `open` at 0."""
    row = opened(7, Record(0, 0, "open", OPEN))
    found = [row]
    for seq, (at_ms, (kind, body)) in enumerate(steps, 1):
        row = fold(row, Record(seq, at_ms, kind, body))
        found.append(row)
    return found


def after(*steps: Step) -> JournalRow:
    return folded([(10 * number, step) for number, step in enumerate(steps, 1)])[-1]


@given(HISTORIES)
def test_row_is_consistent_after_any_records(steps: list[tuple[int, Step]]) -> None:
    for seq, row in enumerate(folded(steps)):
        assert row.records == seq + 1
        is_final = row.status != "active"
        assert row.is_final == is_final == (row.phase in OUTCOMES) == (row.ended_ms is not None)
        assert not is_final or STATUS_OF[row.phase] == row.status  # type: ignore[index]  # an outcome
        assert bool(row.is_busy) == (row.asked is not None)
        assert row.open_phase in OPEN_PHASES
        assert row.updated_ms == max([0, *(at for at, _ in steps[:seq])])
        assert rows.unpack(rows.packed(row)) == row, "it is stored and read back as it is"


@given(HISTORIES)
def test_order_is_that_of_seq_whatever_the_clock_said(steps: list[tuple[int, Step]]) -> None:
    there = folded(steps)[-1]
    back = folded([(-at, step) for at, step in steps])[-1]
    assert there._replace(updated_ms=0, ended_ms=0) == back._replace(updated_ms=0, ended_ms=0)


def test_kinds_of_records_are_all_folded() -> None:
    bodies: dict[str, dict[str, Any]] = {
        "message": {"id": "m", "role": "user", "content": {}},
        "phase": {"to": "planning"},
        "error": {"message": "x"},
        "end": {"status": "completed", "phase": "completed"},
    }
    for kind in get_args(RecordKind):
        assert after((kind, bodies.get(kind, {}))).records == 2


def test_metadata_is_merged_one_level_deep() -> None:
    first, second = {"a": {"x": 1}, "b": 1}, {"a": {"y": 2}, "c": None}
    row = after(("meta", {"metadata": first}), ("meta", {"metadata": second}))
    assert row.metadata == {"a": {"y": 2}, "b": 1, "c": None}


def test_restored_session_goes_on_in_the_phase_it_was_in() -> None:
    steps: list[Step] = [("phase", {"to": "executing"}), ("end", {**END, "summary": "done"}),
                         ("open", {"reason": "restored"})]  # fmt: skip
    row = after(*steps)
    assert (row.status, row.phase, row.ended_ms) == ("active", "executing", None)
    assert (row.reason, row.summary) == ("restored", "done")
    assert after(*steps, ("end", END)).reason is None


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([("is_prompt", "user")], (1, "m0", None)),
        ([("is_prompt", "user"), ("partial", "agent")], (1, "m0", "m1")),
        ([("is_prompt", "user"), ("partial", "agent"), ("is_chunk", "agent")], (0, None, None)),
        ([("is_prompt", "user"), ("", "agent")], (0, None, None)),
        ([("is_prompt", "user"), ("", "system")], (1, "m0", None)),
        ([("is_prompt", "user"), ("", "user")], (1, "m0", None)),
        ([("is_prompt", "user"), ("is_interruption", "system")], (0, None, None)),
        ([("partial", "agent")], (0, None, "m0")),
    ],
)
def test_prompt_waits_until_the_agent_has_answered(
    steps: list[tuple[str, str]], expected: tuple[object, ...]
) -> None:
    row = after(
        *(
            ("message", {"id": f"m{number}", "role": role, "content": CONTENT, mark: True})
            for number, (mark, role) in enumerate(steps)
        )
    )
    assert (row.is_busy, row.asked, row.answering) == expected


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "a_id", "details", "state", "x"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)
ANY_BODIES = st.dictionaries(
    st.sampled_from(["outcomes", "actions", "checkpoints", "state", "started_ms"]), ANY_JSON
)


@given(ANY_BODIES, st.sampled_from(["observation", "checkpoint", "note"]))
def test_body_of_any_shape_is_folded_and_stored(body: dict[str, Any], kind: RecordKind) -> None:
    row = after((kind, body))
    assert type(row.started_ms) is int
    assert -(1 << 63) <= row.started_ms < 1 << 63
    assert rows.unpack(rows.packed(row)) == row
    found = related_ids("s", Record(1, 0, kind, body))
    assert all(0 < len(each) <= 256 for each in found)


def test_ids_are_found_where_they_may_stand_and_nowhere_else() -> None:
    body = {
        "outcomes": [{"id": "o"}, {"id": 7, "details": {"x": [{"pr_id": "p"}]}}, {"id": True}, 5],
        "actions": [{"details": {"user_id": 8, "gone_id": None, "is_id": False, "_id": ""}}],
        "checkpoints": [{"state": {"deep_id": "x" * 257, "run_id": "r"}}],
        "other_id": "not this",
    }
    assert related_ids("s", Record(1, 0, "observation", body)) == {"o", "7", "p", "8", "r"}
    assert related_ids("s", Record(0, 0, "open", OPEN)) == {entity_id("s")}
    assert related_ids("s", Record(5, 0, "open", {"reason": "restored"})) == set()
    assert related_ids("s", Record(1, 0, "checkpoint", {"state": {"a_id": 1}})) == {"1"}
    many = {"state": {f"{number}_id": number for number in range(5000)}}
    assert len(related_ids("s", Record(1, 0, "checkpoint", many))) == RELATED_MAX
