"""Sessions: each line of the table, what succeeds and what fails."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.rest.tools import Rest, at
from tests.support.daemon import serving

SESSIONS = "/api/sessions"


def test_session_is_begun(rest: Rest, repo: str) -> None:
    body = {"repoId": repo, "agent": "coder", "title": "Fix it"}
    made = rest.ok("POST", SESSIONS, body, status=201)
    assert made["repoId"] == repo
    assert (made["status"], made["phase"], made["origin"]) == ("active", "initializing", "rest")
    assert (made["agent"], made["title"]) == ("coder", "Fix it")
    assert made["createdAt"] == made["updatedAt"]
    assert made["definitionId"] == made["id"], "no agent's name is a definition"
    least = rest.ok("POST", SESSIONS, {"repoId": repo, "agent": None}, status=201)
    assert not {"agent", "title", "endedAt", "summary"} & least.keys()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "repoId"), ({"repoId": None}, "repoId"), ({"repoId": ""}, "repoId"),
        ({"repoId": ["x"]}, "repoId"), ({"agent": "a"}, "repoId"),
        ({"repoId": "x", "definitionId": "ada"}, "definitionId"),
        ({"repoId": "x", "title": 1}, "title"), ({"repoId": "x", "agent": ""}, "agent"),
    ],
)  # fmt: skip
def test_session_that_cannot_be_begun_names_the_field(rest: Rest, body: object, field: str) -> None:
    error = rest.fails(400, "INVALID_PARAMS", "POST", SESSIONS, body)
    assert error["details"]["field"] == field


def test_session_in_no_repo(rest: Rest) -> None:
    rest.fails(404, "NOT_FOUND", "POST", SESSIONS, {"repoId": "nobody"})


def test_of_twenty_at_once_as_many_begin_as_may(tmp_path: Path) -> None:
    """The default is five; what is refused leaves nothing, and one that ends makes room."""
    with serving(tmp_path / "data", environ={"AGENT_WORKSPACE_ROOT": str(tmp_path)}) as daemon:
        rest = Rest(daemon)
        repo = rest.repo(tmp_path)
        with ThreadPoolExecutor(20) as pool:
            calls = [pool.submit(rest.call, "POST", SESSIONS, {"repoId": repo}) for _ in range(20)]
            answers = [each.result() for each in calls]
        assert sorted(each.status for each in answers) == [201] * 5 + [429] * 15
        refused = next(each for each in answers if each.status == 429)
        assert refused.headers["Retry-After"] == "60"
        assert refused.json["error"] == "LIMIT_REACHED"
        assert refused.json["details"]["limit"] == 5
        assert "active" in refused.json["message"]
        assert rest.ok("GET", SESSIONS)["total"] == 5
        made = next(each.json["id"] for each in answers if each.status == 201)
        rest.ok("POST", f"{at(made)}/complete")
        rest.session(repo)
        rest.fails(429, "LIMIT_REACHED", "POST", SESSIONS, {"repoId": repo})
        assert daemon.end() == 0


# -- lists


@pytest.fixture
def listed(rest: Rest, repo: str) -> list[str]:
    """Six sessions of one repo, the newest first: active and ended, of two agents."""
    made = [rest.session(repo, agent=f"agent-{number % 2}-{repo}") for number in range(6)]
    rest.ok("POST", f"{at(made[0])}/complete")
    rest.ok("DELETE", at(made[1]))
    rest.ok("POST", f"{at(made[2])}/error", {"message": "broke"})
    return made[::-1]


def page(rest: Rest, query: str) -> tuple[list[str], int]:
    found = rest.ok("GET", f"{SESSIONS}?{query}")
    return [each["id"] for each in found["sessions"]], found["total"]


def test_list_is_newest_first_and_by_page(rest: Rest, repo: str, listed: list[str]) -> None:
    whole = rest.ok("GET", f"{SESSIONS}?repoId={repo}")
    assert [each["id"] for each in whole["sessions"]] == listed
    assert (whole["total"], whole["limit"], whole["offset"]) == (6, 20, 0)
    assert not any("messages" in each for each in whole["sessions"])
    assert page(rest, f"repoId={repo}&limit=2&offset=3") == (listed[3:5], 6)
    assert page(rest, f"repoId={repo}&offset=6") == ([], 6)


def test_list_by_status_and_agent(rest: Rest, repo: str, listed: list[str]) -> None:
    here = f"repoId={repo}"
    assert page(rest, f"{here}&status=active") == (listed[:3], 3)
    assert page(rest, f"{here}&status=error,completed") == ([listed[3], listed[5]], 2)
    assert page(rest, f"{here}&status=cancelled%2Ccancelled") == ([listed[4]], 1)
    assert page(rest, f"agent=agent-1-{repo}") == (listed[::2], 3)
    assert page(rest, f"{here}&agent=agent-1-{repo}&status=active&limit=1") == (listed[:1], 2)
    assert page(rest, "repoId=nobody") == ([], 0)
    assert page(rest, "agent=nobody%20at%20all") == ([], 0)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("limit=", "limit"),
        ("limit=1.0", "limit"), ("limit=1&limit=2", "limit"), ("limit=+1", "limit"),
        ("offset=-1", "offset"), ("offset=" + "9" * 30, "offset"), ("offset=" + "9" * 5000, ""),
        ("status=done", "status"), ("status=", "status"), ("status=active,", "status"),
        ("status=active+error", "status"), ("repoId=", "repoId"), ("agent=", "agent"),
        ("limt=1", "limt"), ("=1", ""), ("messages", "messages"),
    ],
)  # fmt: skip
def test_query_that_is_none_names_the_parameter(rest: Rest, query: str, field: str) -> None:
    error = rest.fails(400, "INVALID_PARAMS", "GET", f"{SESSIONS}?{query}")
    if field:
        assert error["details"]["field"] == field
        assert error["message"].startswith(field)


def test_query_that_cannot_be_read(rest: Rest) -> None:
    rest.fails(400, "INVALID_REQUEST", "GET", f"{SESSIONS}?agent=%ff")
    many = "&".join(f"a{number}=1" for number in range(200))
    rest.fails(400, "INVALID_REQUEST", "GET", f"{SESSIONS}?{many}")


# -- one


def test_session_is_shown_with_its_repo_and_messages(rest: Rest, repo: str, session: str) -> None:
    asked = rest.ok("POST", f"{at(session)}/prompt", {"text": "why?"}, status=202)
    said = {"role": "agent", "content": "because"}
    answered = rest.ok("POST", f"{at(session)}/messages", said, status=201)
    found = rest.ok("GET", at(session))
    assert found["repo"]["id"] == repo
    assert [each["id"] for each in found["messages"]] == [asked["messageId"], answered["id"]]
    listed = rest.ok("GET", f"{SESSIONS}?repoId={repo}")["sessions"][0]
    assert {**listed, "repo": found["repo"], "messages": found["messages"]} == found


ODD_IDS = ("nobody", "../../etc", "a b", "é", "%00", "'; DROP TABLE journal;--", "x" * 3000)


def test_session_that_is_not_there(rest: Rest) -> None:
    calls: list[tuple[str, str, Any]] = [
        ("GET", "", None), ("DELETE", "", None), ("POST", "/complete", {}),
        ("POST", "/error", {"message": "x"}), ("POST", "/prompt", {"text": "x"}),
        ("POST", "/messages", {"role": "user", "content": "x"}), ("GET", "/messages", None),
        ("GET", "/events", None), ("GET", "/transcript", None), ("GET", "/transcript/resume", None),
        ("POST", "/transcript/end", None),
    ]  # fmt: skip
    for method, rest_of_path, body in calls:
        for session_id in ODD_IDS if not rest_of_path else ODD_IDS[:1]:
            rest.fails(404, "NOT_FOUND", method, at(session_id) + rest_of_path, body)
    rest.fails(404, "NOT_FOUND", "GET", f"{SESSIONS}/%ff")
    rest.fails(404, "NOT_FOUND", "GET", f"{SESSIONS}/")


# -- the end


def test_session_is_completed(rest: Rest, session: str) -> None:
    done = rest.ok("POST", f"{at(session)}/complete", {"summary": "All well."})
    assert (done["status"], done["phase"], done["summary"]) == (
        "completed", "completed", "All well.",
    )  # fmt: skip
    assert done["endedAt"] == done["updatedAt"]
    assert done["busy"] is False


@pytest.mark.parametrize("body", [None, {}, {"summary": None}])
def test_summary_may_be_left_out(rest: Rest, session: str, body: object) -> None:
    assert "summary" not in rest.ok("POST", f"{at(session)}/complete", body)


def test_session_that_failed_tells_of_it_in_a_message(rest: Rest, session: str) -> None:
    body = {"message": "it broke", "details": {"code": 1, "big": 10**40}}
    done = rest.ok("POST", f"{at(session)}/error", body)
    assert (done["status"], done["phase"], done["lastError"]) == ("error", "failed", "it broke")
    assert done["errorCount"] == 1
    (message,) = rest.ok("GET", f"{at(session)}/messages")
    assert message["role"] == "system"
    assert message["content"] == {"type": "error", "text": "it broke", "details": body["details"]}


def test_session_is_cancelled_with_a_reason(rest: Rest, session: str) -> None:
    done = rest.ok("DELETE", f"{at(session)}?reason=not%20needed%20any+more")
    assert (done["status"], done["phase"]) == ("cancelled", "abandoned")
    assert done["reason"] == "not needed any more"
    (message,) = rest.ok("GET", f"{at(session)}/messages")
    assert message["role"] == "system"
    assert message["content"]["text"] == "not needed any more"


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (("POST", "/complete", {}), "completed"),
        (("POST", "/error", {"message": "x"}), "error"),
        (("DELETE", "", None), "cancelled"),
    ],
)
def test_end_is_final_and_what_comes_after_is_told_which(
    rest: Rest, session: str, call: tuple[str, str, Any], status: str
) -> None:
    method, place, body = call
    rest.ok(method, at(session) + place, body)
    before = rest.ok("GET", at(session))
    later: list[tuple[str, str, Any]] = [
        ("POST", "/complete", {"summary": "y"}), ("POST", "/error", {"message": "y"}),
        ("DELETE", "?reason=y", None), ("POST", "/prompt", {"text": "y"}),
        ("POST", "/messages", {"role": "agent", "content": "y"}),
    ]  # fmt: skip
    for method, place, body in later:
        error = rest.fails(409, "CONFLICT", method, at(session) + place, body)
        assert error["details"]["status"] == status
        assert status in error["message"]
    assert rest.ok("GET", at(session)) == before


@pytest.mark.parametrize(
    ("place", "body", "field"),
    [
        ("/complete", {"summary": 1}, "summary"),
        ("/complete", {"summary": "x" * 10_001}, "summary"),
        ("/complete", {"sumary": "x"}, "sumary"),
        ("/error", {}, "message"), ("/error", {"message": ""}, "message"),
        ("/error", {"message": {"text": "x"}}, "message"),
        ("/error", {"message": "x", "detail": 1}, "detail"),
    ],
)  # fmt: skip
def test_end_that_is_none_names_the_field(
    rest: Rest, session: str, place: str, body: object, field: str
) -> None:
    error = rest.fails(400, "INVALID_PARAMS", "POST", at(session) + place, body)
    assert error["details"]["field"] == field
    assert rest.ok("GET", at(session))["status"] == "active"


def test_reason_that_is_none(rest: Rest, session: str) -> None:
    rest.fails(400, "INVALID_PARAMS", "DELETE", f"{at(session)}?reason=")
    rest.fails(400, "INVALID_PARAMS", "DELETE", f"{at(session)}?why=x")


def test_of_many_who_end_it_one_does(rest: Rest, session: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(rest.call, "POST", f"{at(session)}/complete") for _ in range(16)]
        statuses = sorted(each.result().status for each in calls)
    assert statuses == [200] + [409] * 15
