"""The rules of what agents submit, and the fold of it: pure."""

import contextlib
import copy
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filestore import InvalidArgumentError, RejectedError
from filestore.records.submission import (
    FIELDS,
    WARNINGS_MAX,
    body_of,
    check_submission,
    fields_of,
    fold_snapshot,
)
from filestore.records.timeline import DAY_MS, bound

GOOD: dict[str, Any] = {
    "session_id": "ABC-123",
    "actions": [{"type": "edit", "result": "passed", "details": {"n": 1}}],
    "checkpoints": [{"name": "a", "timestamp": "2026-01-31T09:30:00Z", "state": {}}],
    "outcomes": [{"type": "pr", "id": "PR-7", "details": {}}],
    "duration": 3600,
    "started_at": "2026-01-31T09:00:00Z",
    "ended_at": "2026-01-31T11:00:00+01:00",
}
TIME = "ISO 8601 timestamp"

REJECTED: list[tuple[str, Any, str]] = [
    ("session_id", None, "string"),
    ("session_id", 7, "string"),
    ("session_id", "a\nbcde", "string"),
    ("session_id", "\ud800bcde", "string"),
    ("session_id", "abcd", "min_length: 5"),
    ("session_id", "a" * 257, "max_length: 256"),
    ("actions", None, "array"),
    ("actions", {}, "array"),
    ("actions", [], "min_length: 1"),
    ("actions[0]", "x", "object"),
    ("actions[0].type", None, "string"),
    ("actions[0].type", "", "min_length: 1"),
    ("actions[0].result", True, "string"),
    ("actions[0].result", "", "min_length: 1"),
    ("actions[0].details", "x", "object"),
    ("actions[0].timestamp", "today", TIME),
    ("checkpoints", {}, "array"),
    ("checkpoints[0]", [], "object"),
    ("checkpoints[0].name", None, "string"),
    ("checkpoints[0].name", "", "min_length: 1"),
    ("checkpoints[0].timestamp", None, TIME),
    ("checkpoints[0].timestamp", "2026-01-31", TIME),
    ("checkpoints[0].state", [], "object"),
    ("outcomes", "x", "array"),
    ("outcomes[0]", 1, "object"),
    ("outcomes[0].type", None, "string"),
    ("outcomes[0].id", "", "min_length: 1"),
    ("outcomes[0].id", 7, "string"),
    ("outcomes[0].details", 7, "object"),
    ("duration", 0, "> 0"),
    ("duration", -1.5, "> 0"),
    ("duration", True, "> 0"),
    ("duration", "60", "> 0"),
    ("duration", math.inf, "> 0"),
    ("started_at", None, TIME),
    ("started_at", 1769850000, TIME),
    ("started_at", "2026-01-31T09:00:00", TIME),
    ("started_at", "2026-02-30T09:00:00Z", TIME),
    ("ended_at", "later", TIME),
    ("ended_at", "2026-01-31T08:59:59.999Z", ">= started_at"),
]
"""By field: what is not taken, and which rule is told."""


def replaced(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """The document with another value at a path."""
    changed: dict[str, Any] = copy.deepcopy(document)
    name, _, rest = path.partition("[0]")
    if not rest and path == name:
        changed[name] = value
    elif not rest:
        changed[name][0] = value
    else:
        changed[name][0][rest.removeprefix(".")] = value
    return changed


@pytest.mark.parametrize(("field", "value", "expected"), REJECTED)
def test_first_field_that_breaks_a_rule_is_told(field: str, value: object, expected: str) -> None:
    with pytest.raises(RejectedError) as caught:
        check_submission(replaced(GOOD, field, value))
    told = caught.value.details
    message = told.pop("message")
    assert told == {"field": field, "value": value, "expected": expected}
    assert str(message).startswith(field)


def test_field_is_the_first_in_the_order_of_the_rules() -> None:
    broken = replaced(GOOD, "duration", 0)
    for field, value, _ in reversed(REJECTED):
        if "[" in field or field == "ended_at":
            continue
        broken = replaced(broken, field, value)
        with pytest.raises(RejectedError) as caught:
            check_submission(broken)
        assert caught.value.field == field if FIELDS.index(field) < 5 else "duration"


@pytest.mark.parametrize("given", [None, [], "x", 7])
def test_what_is_no_object_is_rejected(given: object) -> None:
    with pytest.raises(RejectedError) as caught:
        check_submission(given)
    assert (caught.value.field, caught.value.expected) == ("", "object")


def test_good_document_is_kept_as_it_came() -> None:
    found = check_submission(GOOD)
    assert found.fields == GOOD
    assert found.warnings == []
    assert (found.started_ms, found.ended_ms) == (1769850000000, 1769853600000)


@pytest.mark.parametrize("name", ["checkpoints", "outcomes", "duration", "ended_at"])
def test_null_of_a_field_that_may_be_left_out_is_taken(name: str) -> None:
    found = check_submission({**GOOD, name: None})
    assert found.fields[name] is None
    assert found.warnings == []


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"duration": 3601}, ["duration is 3601, but ended_at is 3600 s after started_at"]),
        ({"duration": 3600_000}, []),
        ({"duration": 3600.0}, []),
        ({"duration": 10**400}, [f"duration is {10**400}, but"]),
        ({"duration": 7, "ended_at": None}, []),
        ({"chekpoints": []}, ["chekpoints is not a known field; known are session_id,"]),
        ({"outcomes": [{"type": "t", "url": 1}]}, ["outcomes[0].url is not a known field"]),
        (
            {"checkpoints": [{"name": "x", "timestamp": "2026-01-31T08:59:59Z"}]},
            ["checkpoint 'x' at 2026-01-31T08:59:59.000Z is before started_at"],
        ),
        (
            {"checkpoints": [{"name": "x", "timestamp": "2026-01-31T12:00:01+01:00"}]},
            ["checkpoint 'x' at 2026-01-31T11:00:01.000Z is after ended_at"],
        ),
    ],
)
def test_what_is_odd_is_told_and_taken(more: dict[str, Any], told: list[str]) -> None:
    warnings = check_submission(GOOD | more).warnings
    assert len(warnings) == len(told)
    assert all(found.startswith(each) for found, each in zip(warnings, told, strict=True))


def test_warnings_are_few() -> None:
    odd = {f"x{number}": 1 for number in range(30)}
    warnings = check_submission(GOOD | odd).warnings
    assert len(warnings) == WARNINGS_MAX + 1
    assert warnings[-1] == "and 10 more"


def test_name_of_ours_does_not_get_in_by_a_document() -> None:
    body = body_of(check_submission({**GOOD, "started_ms": 7}))
    assert body["started_ms"] == 1769850000000
    assert fields_of(body) == GOOD


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
DOCUMENTS = st.fixed_dictionaries(
    {}, optional={name: JSON | st.just(value) for name, value in GOOD.items()}
)


@given(DOCUMENTS | JSON)
def test_anything_is_taken_or_rejected_by_a_known_rule(document: Any) -> None:
    known = {expected for _, _, expected in REJECTED}
    with contextlib.suppress(RejectedError):
        found = check_submission(document)
        assert found.fields == document
        assert found.ended_ms is None or found.ended_ms >= found.started_ms
        return
    with pytest.raises(RejectedError) as caught:
        check_submission(document)
    assert caught.value.expected in known
    assert set(caught.value.details) == {"field", "value", "expected", "message"}


FIELDS_OF_SOME = st.dictionaries(st.sampled_from("abcd"), st.none() | st.integers(), max_size=4)


@given(st.lists(FIELDS_OF_SOME, max_size=6))
def test_snapshot_is_per_field_the_latest_observation_that_has_it(
    observations: list[dict[str, int | None]],
) -> None:
    snapshot: dict[str, Any] = {}
    for fields in observations:
        snapshot = fold_snapshot(snapshot, fields)
    expected = {}
    for name in "abcd":
        said = [fields[name] for fields in observations if name in fields]
        if said and said[-1] is not None:
            expected[name] = said[-1]
    assert snapshot == expected


def test_bound_that_is_a_date_is_the_whole_day() -> None:
    start, end = (bound("2026-01-31", is_end=is_end) for is_end in (False, True))
    assert start == bound("2026-01-31T00:00:00Z", is_end=False)
    assert end - start == DAY_MS - 1
    assert bound("2026-01-31T05:00:00+05:00", is_end=True) == start
    for wrong in ("2026-01-32", "2026-1-31", "20260131", "soon", "2026-01-31T09:00:00"):
        with pytest.raises(InvalidArgumentError):
            bound(wrong, is_end=False)
