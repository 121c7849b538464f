"""Transcripts over REST: each line of the table, the cap, and what a kill leaves."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.rest.tools import Rest, at
from tests.support.daemon import serving

CONTEXT = {"workingDir": "shop", "fsScopeTier": "repo"}
START = {"agentSlug": "coder", "context": CONTEXT}
TIME = "2026-01-31T09:30:00.000Z"


def row(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}], "timestamp": TIME, **more}


def begun(rest: Rest, **more: Any) -> str:
    """The path of the transcript of a new session."""
    place = f"{at(str(uuid4()))}/transcript"
    rest.ok("POST", place, START | more, status=201)
    return place


def said(rest: Rest, place: str, role: str, text: str, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = rest.ok(
        "POST", f"{place}/messages", row(role, text, **more), status=201
    )
    return found


def test_transcript_is_started_told_and_ended(rest: Rest) -> None:
    session = str(uuid4())
    place = f"{at(session)}/transcript"
    given = START | {"title": "Fix it", "agentSnapshot": {"model": "m", "n": 10**30}}
    record = rest.ok("POST", place, given, status=201)
    assert record["sessionId"] == session
    assert record.items() >= given.items()
    first = said(rest, place, "user", "why?")
    assert (first["sequenceNumber"], first["sessionId"]) == (0, session)
    second = said(rest, place, "assistant", "because", id="m-2", sequenceNumber=1, modelId="x")
    loaded = rest.ok("GET", place)
    assert loaded["messages"] == [first, second]
    assert loaded["record"].items() >= given.items()
    resumed = rest.ok("GET", f"{place}/resume")
    assert resumed["turns"] == 1
    assert [(each["role"], each["text"]) for each in resumed["messages"]] == [
        ("user", "why?"), ("assistant", "because"),
    ]  # fmt: skip
    ended = rest.ok("POST", f"{place}/end", {"summary": "done"})
    assert ended["status"] == "completed"
    assert rest.ok("GET", at(session))["summary"] == "done"


def test_transcript_of_a_session_that_is_there(rest: Rest, session: str) -> None:
    """And its messages by REST are its rows."""
    place = f"{at(session)}/transcript"
    rest.fails(404, "NOT_FOUND", "GET", place)
    rest.fails(404, "NOT_FOUND", "GET", f"{place}/resume")
    rest.fails(404, "NOT_FOUND", "POST", f"{place}/end")
    rest.fails(404, "NOT_FOUND", "POST", f"{place}/messages", row("user", "x"))
    rest.ok("POST", f"{at(session)}/prompt", {"text": "why?"}, status=202)
    rest.ok("POST", place, START, status=201)
    answer = {"role": "agent", "content": "because"}
    rest.ok("POST", f"{at(session)}/messages", answer, status=201)
    rows = rest.ok("GET", place)["messages"]
    assert [(each["role"], each["sequenceNumber"]) for each in rows] == [
        ("user", 0), ("assistant", 1),
    ]  # fmt: skip
    assert said(rest, place, "user", "sure?")["sequenceNumber"] == 2


def test_transcript_is_started_once(rest: Rest) -> None:
    place = begun(rest)
    rest.fails(409, "CONFLICT", "POST", place, START)
    rest.ok("POST", f"{place}/end")
    rest.fails(409, "CONFLICT", "POST", place, START)
    for call in (("/messages", row("user", "x")), ("/end", None)):
        error = rest.fails(409, "CONFLICT", "POST", place + call[0], call[1])
        assert error["details"]["status"] == "completed"


def test_row_that_is_not_the_next_or_another_is_refused(rest: Rest) -> None:
    place = begun(rest)
    first = said(rest, place, "user", "one", id="m-1")
    assert said(rest, place, "user", "one", id="m-1") == first, "a repeat"
    rest.fails(409, "ALREADY_EXISTS", "POST", f"{place}/messages", row("user", "two", id="m-1"))
    for number in (0, 2, 50):
        body = row("user", "two", sequenceNumber=number)
        error = rest.fails(409, "CONFLICT", "POST", f"{place}/messages", body)
        assert "1" in error["message"]
    assert rest.ok("GET", place)["messages"] == [first]


@pytest.mark.parametrize(
    ("change", "field", "kind"),
    [
        ({"agentSlug": "Coder"}, "agentSlug", "INVALID_PARAMS"),
        ({"agentSlug": None}, "agentSlug", "INVALID_PARAMS"),
        ({"title": None}, "title", "INVALID_PARAMS"),
        ({"context": {"workingDir": "x"}}, "context.fsScopeTier", "INVALID_PARAMS"),
        ({"more": 1}, "more", "INVALID_PARAMS"),
        ({"context": CONTEXT | {"variables": {"K": "ghp_" + "a1B2" * 9}}}, "context.variables.K",
         "SECRET_REFUSED"),
    ],
)  # fmt: skip
def test_start_that_is_none_names_the_field_and_begins_nothing(
    rest: Rest, change: dict[str, Any], field: str, kind: str
) -> None:
    place = at(str(uuid4()))
    answer = rest.call("POST", f"{place}/transcript", START | change)
    assert (answer.status, answer.json["error"]) == (400, kind)
    assert answer.json["details"]["field"] == field
    assert b"ghp_" not in answer.data
    rest.fails(404, "NOT_FOUND", "GET", place)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"role": "agent"}, "role"), ({"timestamp": "2026-01-31T09:30:00"}, "timestamp"),
        ({"sequenceNumber": -1}, "sequenceNumber"), ({"content": "x"}, "content"),
        ({"content": [{"type": "new"}]}, "content[0].type"), ({"more": 1}, "more"),
        ({"sessionId": "another"}, "sessionId"),
        ({"content": [{"type": "media", "mimeType": "image/png",
                       "source": {"kind": "base64", "data": "x"}}]}, "content[0].source.kind"),
    ],
)  # fmt: skip
def test_row_that_is_none_names_the_field(rest: Rest, change: dict[str, Any], field: str) -> None:
    place = begun(rest)
    body = row("user", "x") | change
    error = rest.fails(400, "INVALID_PARAMS", "POST", f"{place}/messages", body)
    assert error["details"]["field"] == field
    assert rest.ok("GET", place)["messages"] == []


def test_id_that_no_session_can_have_begins_none(rest: Rest) -> None:
    for session in ("x" * 257, "a\nb"):
        rest.fails(400, "INVALID_PARAMS", "POST", f"{at(session)}/transcript", START)


CAP = 10


def test_cap_holds_for_parallel_senders_and_across_restarts_and_kills(tmp_path: Path) -> None:
    """Half of it before a kill -9, in the middle of sending; the rest after it, from many."""
    data = tmp_path / "data"
    config = {"turns_max": CAP}
    with serving(data, config=config) as daemon:
        rest = Rest(daemon)
        place = begun(rest)
        for number in range(CAP // 2):
            said(rest, place, "user", str(number))
        daemon.end(signal.SIGKILL)
    with serving(data) as daemon:
        rest = Rest(daemon)
        with ThreadPoolExecutor(8) as pool:
            calls = [
                pool.submit(rest.call, "POST", f"{place}/messages", row("user", f"more {number}"))
                for number in range(2 * CAP)
            ]
            answers = [each.result() for each in calls]
        taken = [each for each in answers if each.status == 201]
        refused = [each.json for each in answers if each.status == 409]
        assert (len(taken), len(refused)) == (CAP - CAP // 2, 2 * CAP - len(taken))
        assert {each["error"] for each in refused} == {"TURN_LIMIT"}
        assert refused[0]["details"]["limit"] == CAP
        assert daemon.end() == 0
    with serving(data) as daemon:
        rest = Rest(daemon)
        rest.fails(409, "TURN_LIMIT", "POST", f"{place}/messages", row("user", "again"))
        session = place.removesuffix("/transcript")
        rest.fails(409, "TURN_LIMIT", "POST", f"{session}/prompt", {"text": "again"})
        said(rest, place, "assistant", "an answer is no turn")
        rows = rest.ok("GET", place)["messages"]
        assert [each["sequenceNumber"] for each in rows] == [*range(CAP + 1)]
        assert sum(each["role"] == "user" for each in rows) == CAP


def test_kill_between_a_user_row_and_its_answer_loses_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as daemon:
        rest = Rest(daemon)
        place = begun(rest)
        said(rest, place, "user", "one")
        said(rest, place, "assistant", "first")
        said(rest, place, "user", "two")
        before = rest.ok("GET", place)
        daemon.end(signal.SIGKILL)
    with serving(data) as daemon:
        rest = Rest(daemon)
        assert rest.ok("GET", place) == before
        resumed = rest.ok("GET", f"{place}/resume")
        assert resumed["turns"] == 1
        assert [each["text"] for each in resumed["messages"]] == ["one", "first"]
        said(rest, place, "assistant", "second")
        assert rest.ok("GET", f"{place}/resume")["turns"] == 2
