"""Messages: every rule with the path that its error names, and what is kept as it came."""

import copy
import math
from typing import Any

import pytest

from filestore.errors import InvalidFieldError
from filestore.transcript import check_new_message, check_row, numbered
from filestore.transcript.message import PARTS_MAX
from filestore.transcript.values import DEPTH_MAX
from tests.transcript.rows import REF, SESSION, TIME

GOOD: dict[str, Any] = {
    "id": "m-1",
    "sessionId": SESSION,
    "sequenceNumber": 3,
    "role": "assistant",
    "content": [
        {"type": "text", "text": ""},
        {"type": "tool_call", "id": "c-1", "name": "read", "args": {"path": "a", "n": [1, None]}},
        {"type": "tool_result", "toolCallId": "c-1", "result": None, "isError": False},
        {"type": "reasoning", "text": "hm", "redacted": True},
        {"type": "media", "mimeType": "image/png", "source": {"kind": "handle", "ref": REF},
         "name": "a.png"},
    ],
    "modelId": "model-1",
    "timestamp": TIME,
}  # fmt: skip
ABSENT = type("ABSENT", (), {})
"""Instead of a value: there is none. A class, for it has a name: workers must agree on those of all
tests, and that of an object is another in every process."""


def bent(path: str, value: object) -> dict[str, Any]:
    """The good message with one value, at a path like `content.0.text`, set or taken away."""
    message = copy.deepcopy(GOOD)
    place: Any = message
    *way, last = path.split(".")
    for each in way:
        place = place[int(each)] if isinstance(place, list) else place[each]
    key = int(last) if isinstance(place, list) else last
    if value is ABSENT:
        del place[key]
    else:
        place[key] = value
    return message


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


BAD = [
    ("id", ABSENT, "id"),
    ("id", "", "id"),
    ("id", 1, "id"),
    ("id", "x" * 1025, "id"),
    ("id", "\ud800", "id"),
    ("sessionId", ABSENT, "sessionId"),
    ("sessionId", "s-2", "sessionId"),
    ("sequenceNumber", ABSENT, "sequenceNumber"),
    ("sequenceNumber", -1, "sequenceNumber"),
    ("sequenceNumber", 1.0, "sequenceNumber"),
    ("sequenceNumber", "1", "sequenceNumber"),
    ("sequenceNumber", True, "sequenceNumber"),
    ("sequenceNumber", 1 << 53, "sequenceNumber"),
    ("role", ABSENT, "role"),
    ("role", "agent", "role"),
    ("role", ["user"], "role"),
    ("content", ABSENT, "content"),
    ("content", "text", "content"),
    ("content", None, "content"),
    ("content", [{}] * (PARTS_MAX + 1), "content"),
    ("modelId", "", "modelId"),
    ("modelId", None, "modelId"),
    ("timestamp", ABSENT, "timestamp"),
    ("more", 1, "more"),
    ("seqenceNumber", 1, "seqenceNumber"),
    ("a b\n\u202e", 1, '["a b\\n\\u202e"]'),
    ("content.0", "text", "content[0]"),
    ("content.0", None, "content[0]"),
    ("content.0.type", ABSENT, "content[0].type"),
    ("content.0.type", "image", "content[0].type"),
    ("content.0.type", ["text"], "content[0].type"),
    ("content.0.text", ABSENT, "content[0].text"),
    ("content.0.text", 5, "content[0].text"),
    ("content.0.text", "a\udc00", "content[0].text"),
    ("content.0.signature", "x", "content[0].signature"),
    ("content.1.id", "", "content[1].id"),
    ("content.1.name", "", "content[1].name"),
    ("content.1.args", ABSENT, "content[1].args"),
    ("content.1.args.n", math.nan, "content[1].args.n"),
    ("content.1.args.n", [0, math.inf], "content[1].args.n[1]"),
    ("content.1.args.n", 1 << 10_000, "content[1].args.n"),
    ("content.1.args.n", -(1 << 10_000), "content[1].args.n"),
    ("content.1.args.n", {"\ud800": 1}, 'content[1].args.n["\\ud800"]'),
    ("content.1.args.n", {1: 1}, "content[1].args.n"),
    ("content.1.args.n", b"x", "content[1].args.n"),
    ("content.1.args.n", [{"x y": "\ud800"}], 'content[1].args.n[0]["x y"]'),
    ("content.1.args", nested(DEPTH_MAX + 1), "content[1].args" + "[0]" * DEPTH_MAX),
    ("content.1.isError", True, "content[1].isError"),
    ("content.2.toolCallId", ABSENT, "content[2].toolCallId"),
    ("content.2.result", ABSENT, "content[2].result"),
    ("content.2.isError", "no", "content[2].isError"),
    ("content.2.isError", None, "content[2].isError"),
    ("content.3.redacted", 1, "content[3].redacted"),
    ("content.4.mimeType", ABSENT, "content[4].mimeType"),
    ("content.4.mimeType", "png", "content[4].mimeType"),
    ("content.4.source", ABSENT, "content[4].source"),
    ("content.4.source", None, "content[4].source"),
    ("content.4.source", REF, "content[4].source"),
    ("content.4.source.kind", ABSENT, "content[4].source.kind"),
    ("content.4.source", {"kind": "base64", "data": "AAAA"}, "content[4].source.kind"),
    ("content.4.source", {"kind": "url", "url": "https://a.b/c.png"}, "content[4].source.kind"),
    ("content.4.source.ref", ABSENT, "content[4].source.ref"),
    ("content.4.source.ref", REF.upper(), "content[4].source.ref"),
    ("content.4.source.ref", REF + "\n", "content[4].source.ref"),
    ("content.4.source.ref", REF[:-1], "content[4].source.ref"),
    ("content.4.source.data", "AAAA", "content[4].source.data"),
    ("content.4.data", "AAAA", "content[4].data"),
    ("content.4.name", 1, "content[4].name"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "field"), BAD, ids=lambda each: str(each)[:40])
def test_message_with_a_flaw_is_refused_with_its_path(path: str, value: object, field: str) -> None:
    message = bent(path, value)
    for check in (check_row, check_new_message):
        is_assigned = value is ABSENT and path in ("id", "sessionId", "sequenceNumber")
        if check is check_new_message and is_assigned:
            check_new_message(message, SESSION)
            continue
        with pytest.raises(InvalidFieldError) as caught:
            check(message, SESSION)
        assert caught.value.field == field
        assert caught.value.message.startswith(f"{field}: ")


@pytest.mark.parametrize("value", [None, [], "x", 1, [GOOD]])
def test_message_that_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(InvalidFieldError, match="document: must be an object"):
        check_row(value)


TIMES = [
    "2026-01-31T09:30:00Z",
    "2026-01-31T09:30Z",
    "2026-01-31T09:30:00.1Z",
    "2026-01-31T09:30:00.123456789Z",
    "2026-01-31T09:30:00+02:00",
    "2026-01-31T09:30:00.000-11:30",
    "2024-02-29T23:59:59Z",
    "0001-01-01T00:00:00Z",
]
NO_TIMES = [
    "2026-01-31T09:30:00",
    "2026-01-31T09:30:00.000",
    "2026-01-31",
    "2026-01-31 09:30:00Z",
    "20260131T093000Z",
    "2026-02-29T09:30:00Z",
    "2026-01-31T24:00:00Z",
    "2026-01-31T09:30:60Z",
    "2026-01-31T09:30:00+25:00",
    "2026-01-31T09:30:00Z\n",
    "2026-W05-6T09:30:00Z",
    "٢٠٢٦-01-31T09:30:00Z",
    "",
    1769851800000,
    None,
]


@pytest.mark.parametrize("time", TIMES)
def test_time_with_a_zone_is_kept_as_it_is_written(time: str) -> None:
    assert check_row(bent("timestamp", time))["timestamp"] == time


@pytest.mark.parametrize("time", NO_TIMES)
def test_time_without_zone_or_sense_is_refused(time: object) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        check_row(bent("timestamp", time))
    assert caught.value.field == "timestamp"


def test_naive_time_is_told_what_it_lacks() -> None:
    with pytest.raises(InvalidFieldError, match="must say its zone"):
        check_row(bent("timestamp", "2026-01-31T09:30:00"))


def test_good_message_is_kept_as_it_is() -> None:
    before = copy.deepcopy(GOOD)
    assert check_row(GOOD, SESSION) == GOOD == before
    assert check_row(GOOD) == GOOD
    assert check_new_message(GOOD, SESSION) == GOOD


def test_new_message_is_given_what_it_lacks() -> None:
    said: dict[str, Any] = {"role": "user", "content": [], "timestamp": TIME}
    message = check_new_message(said, SESSION)
    assert message == {**said, "sessionId": SESSION}
    row = numbered(message, "m-9", 7)
    assert row == {**said, "sessionId": SESSION, "id": "m-9", "sequenceNumber": 7}
    assert check_row(row, SESSION) == row


def test_new_message_keeps_what_it_says_of_itself() -> None:
    row = numbered(check_new_message(GOOD, SESSION), "other", 99)
    assert (row["id"], row["sequenceNumber"]) == ("m-1", 3)


def test_signature_of_reasoning_is_dropped_and_the_message_given_is_left_alone() -> None:
    given = bent("content.3.signature", {"any": "thing"})
    before = copy.deepcopy(given)
    assert check_new_message(given, SESSION) == GOOD
    assert given == before


def test_deepest_arguments_are_taken() -> None:
    check_row(bent("content.1.args", nested(DEPTH_MAX)))
    with pytest.raises(InvalidFieldError, match="nested more than 100 levels"):
        check_row(bent("content.1.args", nested(100_000)))


def test_errors_never_show_values() -> None:
    canary = "sk-canary"
    for path in ("role", "timestamp", "content", "content.0.type", "content.4.mimeType",
                 "content.4.source.kind", "content.4.source.ref"):  # fmt: skip
        with pytest.raises(InvalidFieldError) as caught:
            check_row(bent(path, canary))
        assert canary not in str(caught.value)
