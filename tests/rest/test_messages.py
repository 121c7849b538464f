"""Messages: prompts, answers whole and in chunks, and looking back."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.rest.tools import Rest, at

BIG = 123456789012345678901234567890


def say(rest: Rest, session: str, **body: Any) -> dict[str, Any]:
    found: dict[str, Any] = rest.ok("POST", f"{at(session)}/messages", body, status=201)
    return found


def messages(rest: Rest, session: str, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rest.ok("GET", f"{at(session)}/messages{query}")
    return found


def test_prompt_is_stored_and_tells_whether_somebody_heard_it(rest: Rest, session: str) -> None:
    asked = rest.ok("POST", f"{at(session)}/prompt", {"text": "why?"}, status=202)
    assert asked.keys() == {"messageId", "delivered"}
    assert asked["delivered"] is False
    (message,) = messages(rest, session)
    assert message["id"] == asked["messageId"]
    assert message["sessionId"] == session
    assert (message["role"], message["content"]) == ("user", {"type": "text", "text": "why?"})
    assert rest.ok("GET", at(session))["busy"] is True
    say(rest, session, role="agent", content="because")
    with rest.events(session) as events:
        next(events)
        asked = rest.ok("POST", f"{at(session)}/prompt", {"text": "sure?"}, status=202)
        assert asked["delivered"] is True


@pytest.mark.parametrize(
    "body",
    [{}, {"text": ""}, {"text": " \n"}, {"text": None}, {"text": 1}, {"prompt": "x"},
     {"text": "x", "role": "user"}],
)  # fmt: skip
def test_prompt_without_text_is_refused(rest: Rest, session: str, body: object) -> None:
    error = rest.fails(400, "INVALID_PARAMS", "POST", f"{at(session)}/prompt", body)
    assert error["details"]["field"] in ("text", "prompt", "role")
    assert messages(rest, session) == []


def test_prompt_waits_for_the_answer_to_the_one_before(rest: Rest, session: str) -> None:
    rest.ok("POST", f"{at(session)}/prompt", {"text": "one"}, status=202)
    error = rest.fails(409, "CONFLICT", "POST", f"{at(session)}/prompt", {"text": "two"})
    assert "unanswered" in error["message"]
    say(rest, session, role="agent", content="part", partial=True, messageId="m")
    rest.fails(409, "CONFLICT", "POST", f"{at(session)}/prompt", {"text": "two"})
    say(rest, session, role="agent", content="ial", messageId="m")
    rest.ok("POST", f"{at(session)}/prompt", {"text": "two"}, status=202)


def test_of_many_prompts_at_once_one_is_taken(rest: Rest, session: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        calls = [
            pool.submit(rest.call, "POST", f"{at(session)}/prompt", {"text": str(number)})
            for number in range(16)
        ]
        statuses = sorted(each.result().status for each in calls)
    assert statuses == [202] + [409] * 15
    assert len(messages(rest, session)) == 1


def test_chunks_of_an_answer_read_as_one_message(rest: Rest, session: str) -> None:
    first = say(rest, session, role="agent", content="Be", partial=True, messageId="m-1")
    assert first["content"] == {"type": "text", "text": "Be", "partial": True}
    content = {"type": "text", "text": "cau", "partial": True}
    say(rest, session, role="agent", content=content, messageId="m-1")
    (so_far,) = messages(rest, session)
    assert so_far["content"] == {"type": "text", "text": "Becau", "partial": True}
    last = say(rest, session, role="agent", content="se", messageId="m-1")
    assert last["content"] == {"type": "text", "text": "Because", "partial": False}
    assert messages(rest, session) == [last]
    assert last == say(rest, session, role="agent", content="se", messageId="m-1"), "repeated"
    other = {"role": "agent", "content": "so", "messageId": "m-1"}
    rest.fails(409, "ALREADY_EXISTS", "POST", f"{at(session)}/messages", other)
    assert messages(rest, session) == [last]


CONTENTS: list[tuple[str, Any]] = [
    ("user", {"type": "text", "text": ""}),
    ("agent", {"type": "text", "text": "\0 é 𝄞 \u2028", "partial": False}),
    ("system", {"type": "plan", "steps": ["a", {"b": [1, None, 1.5e300]}]}),
    ("system", {"type": "tool", "tool": "bash", "args": {"n": BIG}, "result": -BIG}),
    ("agent", {"type": "new\nkind", "text": 5, "partial": "whatever"}),
    ("user", {"type": ""}),
]


@pytest.mark.parametrize(("role", "content"), CONTENTS)
def test_content_of_any_type_is_kept_as_it_is(
    rest: Rest, session: str, role: str, content: Any
) -> None:
    made = say(rest, session, role=role, content=content)
    assert (made["role"], made["content"]) == (role, content)
    assert messages(rest, session) == [made]
    assert rest.ok("GET", at(session))["messages"] == [made]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"content": "x"}, "role"), ({"role": "assistant", "content": "x"}, "role"),
        ({"role": "user"}, "content"), ({"role": "user", "content": None}, "content"),
        ({"role": "user", "content": 5}, "content"), ({"role": "user", "content": {}}, "content"),
        ({"role": "user", "content": {"type": 5}}, "content"),
        ({"role": "user", "content": {"type": "text"}}, "content"),
        ({"role": "agent", "content": {"type": "text", "text": "x", "partial": 1}}, "content"),
        ({"role": "agent", "content": "x", "partial": 1}, "partial"),
        ({"role": "agent", "content": "x", "messageId": ""}, "messageId"),
        ({"role": "agent", "content": "x", "messageId": "a b"}, "messageId"),
        ({"role": "agent", "content": "x", "messageId": "x" * 129}, "messageId"),
        ({"role": "agent", "content": "x", "id": "x"}, "id"),
        ({"role": "user", "content": "x", "partial": True}, "partial"),
    ],
)  # fmt: skip
def test_message_that_is_none_names_the_field(
    rest: Rest, session: str, body: object, field: str
) -> None:
    error = rest.fails(400, "INVALID_PARAMS", "POST", f"{at(session)}/messages", body)
    assert error["details"]["field"] == field
    assert messages(rest, session) == []


def test_messages_are_told_after_a_seq_or_a_time(rest: Rest, session: str) -> None:
    made = [say(rest, session, role="system", content=str(number)) for number in range(5)]
    assert messages(rest, session) == made
    assert messages(rest, session, f"?since=seq:{made[1]['seq']}") == made[2:]
    assert messages(rest, session, f"?since=seq:{made[1]['seq']}&limit=2") == made[2:4]
    assert messages(rest, session, "?limit=1") == made[:1]
    assert messages(rest, session, "?since=seq:99999999") == []
    moments = [each["timestamp"] for each in made]
    after = [each for each, moment in zip(made, moments, strict=True) if moment > moments[0]]
    assert messages(rest, session, f"?since={moments[0]}") == after, "strictly after"
    for spelled in ("Z", "%2B00:00", "+00:00", "-00:00"):
        assert messages(rest, session, f"?since=2001-01-01T00:00:00{spelled}") == made
    # An hour later in a zone an hour ahead is the same moment.
    assert messages(rest, session, "?since=9999-01-01T00:00:00%2B01:00") == []


@pytest.mark.parametrize(
    "query",
    ["since=", "since=x", "since=seq:", "since=seq:-1", "since=seq:x", "since=2026-01-31",
     "since=2026-01-31T09:30:00", "since=2026-13-01T00:00:00Z", "since=1700000000", "limit=0",
     "limit=1001", "before=x", "since=seq:1&since=seq:2"],
)  # fmt: skip
def test_query_for_messages_that_is_none_names_the_parameter(
    rest: Rest, session: str, query: str
) -> None:
    error = rest.fails(400, "INVALID_PARAMS", "GET", f"{at(session)}/messages?{query}")
    assert error["details"]["field"] == query.partition("=")[0]
