"""Whatever is sent, the answer is an error that says what to do, and the daemon lives on."""

import http.client
import json
from typing import Any

import pytest

from tests.rest.tools import JSON, Rest, at
from tests.support.daemon import ANSWER_S_MAX, Daemon, Reply, read_all

SESSIONS = "/api/sessions"
LIMIT = 8 << 20

BODIES: list[tuple[bytes, str, str]] = [
    (b"", "PARSE_ERROR", "empty"),
    (b" \r\n\t ", "PARSE_ERROR", "empty"),
    (b"\xef\xbb\xbf{}", "PARSE_ERROR", "byte order mark"),
    (b'{"repoId": "\xff"}', "PARSE_ERROR", "byte 12 is not UTF-8"),
    (b'{"repoId": "\xed\xa0\x80"}', "PARSE_ERROR", "not UTF-8"),
    (b'{"repoId": "\\ud800"}', "PARSE_ERROR", "surrogate"),
    (b'{"\\udc00\\ud800": 1}', "PARSE_ERROR", "surrogate"),
    (b'{"repoId": "a\nb"}', "PARSE_ERROR", "control character"),
    (b'{"repoId": NaN}', "PARSE_ERROR", "NaN"),
    (b'{"repoId": -Infinity}', "PARSE_ERROR", "-Infinity"),
    (b'{"repoId": 1e999}', "PARSE_ERROR", "out of range"),
    (b'{"repoId": ' + b"9" * 5000 + b"}", "PARSE_ERROR", "digits"),
    (b'{"repoId": 01}', "PARSE_ERROR", "line 1, column"),
    (b'{"repoId": "x",}', "PARSE_ERROR", "line 1, column"),
    (b"{'repoId': 'x'}", "PARSE_ERROR", "line 1, column"),
    (b'{"repoId": "x"} // why', "PARSE_ERROR", "Extra data"),
    (b"{}{}", "PARSE_ERROR", "Extra data"),
    (b'{"repoId": "x", "repoId": "y"}', "PARSE_ERROR", "'repoId' stands twice"),
    (b'{"title": {"a": 1, "b": {"c": 1, "c": 2}}}', "PARSE_ERROR", "'c' stands twice"),
    (b"[" * 100_000, "INVALID_PARAMS", "nested"),
    (b'{"title": ' + b"[" * 200 + b"]" * 200 + b"}", "INVALID_PARAMS", "nested"),
    (b"null", "INVALID_PARAMS", "not null"),
    (b"[]", "INVALID_PARAMS", "not a list"),
    (b'"x"', "INVALID_PARAMS", "not a text"),
    (b"true", "INVALID_PARAMS", "not a boolean"),
    (b"1.0", "INVALID_PARAMS", "not a number"),
    (b'{"\\u001b[31m\\n": 1}', "INVALID_PARAMS", "is not a field"),
    (b'{"' + b"x" * 5000 + b'": 1}', "INVALID_PARAMS", "is not a field"),
]


@pytest.mark.parametrize(("data", "kind", "told"), BODIES, ids=range(len(BODIES)))
def test_body_that_is_no_json_is_told_what_is_wrong(
    rest: Rest, data: bytes, kind: str, told: str
) -> None:
    error = rest.fails(400, kind, "POST", SESSIONS, data=data)
    assert told in error["message"]
    assert error["message"].isprintable()
    assert len(error["message"]) < 300


def test_content_of_the_deepest_kind_comes_back(rest: Rest, session: str) -> None:
    """What is taken can be stored and read; one level more is told at once."""

    def message(levels: int) -> Any:
        inner: Any = 1
        for _ in range(levels):
            inner = [inner]
        return {"role": "system", "content": {"type": "deep", "inner": inner}}

    deepest = 0
    for levels in range(110, 140):
        answer = rest.call("POST", f"{at(session)}/messages", message(levels))
        if answer.status == 201:
            deepest = levels
            assert answer.json["content"] == message(levels)["content"]
        else:
            assert answer.json["error"] == "INVALID_PARAMS"
            assert levels > deepest
    assert deepest >= 120
    assert len(rest.ok("GET", at(session))["messages"]) == deepest - 109


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json; charset=utf-16"}, {"Content-Type": "application/jsonp"},
        {"Content-Type": ""}, {"Content-Type": "application/json, text/plain"},
        JSON | {"Content-Encoding": "gzip"}, JSON | {"Content-Encoding": "gzip, identity"},
    ],
)  # fmt: skip
def test_body_of_another_kind_is_refused(rest: Rest, headers: dict[str, str]) -> None:
    data = b'{"repoId": "x"}'
    rest.fails(415, "INVALID_REQUEST", "POST", SESSIONS, data=data, headers=headers)


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"']
)
def test_content_type_may_be_spelled_otherwise(rest: Rest, kind: str) -> None:
    data, headers = b'{"repoId": "x"}', {"Content-Type": kind}
    rest.fails(404, "NOT_FOUND", "POST", SESSIONS, data=data, headers=headers)


def test_body_where_none_is_taken_is_refused(rest: Rest, repo: str) -> None:
    rest.fails(400, "INVALID_REQUEST", "GET", SESSIONS, {})
    rest.fails(400, "INVALID_REQUEST", "DELETE", f"/api/repos/{repo}", {"force": True})
    assert any(each["id"] == repo for each in rest.ok("GET", "/api/repos"))


def test_methods_and_paths_that_are_not_there(rest: Rest) -> None:
    for method, place, allowed in (
        ("PUT", "/api/repos", {"GET", "POST"}),
        ("PATCH", "/api/sessions/x", {"GET", "DELETE"}),
        ("GET", "/api/sessions/x/prompt", {"POST"}),
        ("OPTIONS", "/api/sessions", {"GET", "POST"}),
        ("POST", "/api/docs", {"GET"}),
    ):
        answer = rest.call(method, place)
        assert (answer.status, answer.json["error"]) == (405, "UNKNOWN_METHOD")
        assert set(answer.headers["Allow"].split(", ")) == allowed
    head = rest.call("HEAD", "/api/sessions", is_checked=False)
    assert (head.status, head.data) == (405, b"")
    for place in (
        "/api/", "/api/nothing", "/api/sessions/x/y", "/api/sessions//prompt",
        "/api/sessions/x/prompt/", "/api/repos/../sessions", "/api/%73essions",
    ):  # fmt: skip
        rest.fails(404, "NOT_FOUND", "GET", place)


def raw(daemon: Daemon, *lines: str, data: bytes = b"") -> Reply:
    head = [
        "POST /api/repos HTTP/1.1", f"Host: 127.0.0.1:{daemon.port}",
        f"Authorization: Bearer {daemon.token}", "Content-Type: application/json", *lines, "", "",
    ]  # fmt: skip
    with daemon.open() as sock:
        sock.sendall("\r\n".join(head).encode() + data)
        return Reply(read_all(sock))


def test_body_over_the_limit_is_refused_before_it_is_read(daemon: Daemon) -> None:
    for length in (LIMIT + 1, 10**17):
        connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=ANSWER_S_MAX)
        connection.putrequest("POST", "/api/repos")
        connection.putheader("Authorization", f"Bearer {daemon.token}")
        connection.putheader("Content-Length", str(length))
        connection.endheaders(b"x")
        answer = connection.getresponse()
        error = json.loads(answer.read())
        connection.close()
        assert (answer.status, error["error"]) == (413, "TOO_LARGE")
        assert error["details"]["limit"] == LIMIT


def test_body_that_grows_over_the_limit_is_refused(rest: Rest, session: str) -> None:
    """In chunks, so that nothing tells its size before."""
    text = json.dumps({"text": "x" * LIMIT}).encode()
    pieces = [text[at : at + (1 << 20)] for at in range(0, len(text), 1 << 20)]
    data = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces) + b"0\r\n\r\n"
    reply = raw(rest.daemon, "Transfer-Encoding: chunked", data=data)
    assert (reply.status, reply.json()["error"]) == (413, "TOO_LARGE")
    # The store has a limit of its own, a little lower, since it keeps more than the text.
    body = {"text": "x" * (LIMIT - 20)}
    rest.fails(413, "TOO_LARGE", "POST", f"{at(session)}/prompt", body)
    rest.ok("POST", f"{at(session)}/prompt", {"text": "x" * (LIMIT - 1000)}, status=202)


def test_body_of_too_many_values_is_refused(rest: Rest, session: str) -> None:
    data = b'{"role": "user", "content": {"type": "t", "v": [' + b"[]," * (1 << 20) + b"1]}}"
    rest.fails(413, "TOO_LARGE", "POST", f"{at(session)}/messages", data=data)


def test_body_that_breaks_the_rules_of_http(daemon: Daemon, rest: Rest) -> None:
    for data in (b"zz\r\n", b"5\r\nabc", b"-1\r\n\r\n"):
        lines = "Transfer-Encoding: chunked"
        with daemon.open() as sock:
            head = (f"POST /api/repos HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n"
                    f"Authorization: Bearer {daemon.token}\r\nContent-Type: application/json\r\n"
                    f"{lines}\r\n\r\n")  # fmt: skip
            sock.sendall(head.encode() + data)
            if data.startswith(b"5"):
                continue  # and gone, in the middle of its body
            reply = Reply(read_all(sock))
            assert reply.status == 400
            assert b"Traceback" not in reply.data
    assert rest.ok("GET", SESSIONS)


def test_who_may_not_is_told_in_the_words_of_rest(daemon: Daemon) -> None:
    reply = daemon.get(SESSIONS, token=False)
    assert (reply.status, reply.json()["error"]) == (401, "UNAUTHORIZED")
    reply = daemon.get(SESSIONS, Origin="https://evil.example")
    assert (reply.status, reply.json()["error"]) == (403, "FORBIDDEN")


def test_answers_have_the_headers_that_browsers_need(rest: Rest) -> None:
    for place in (SESSIONS, "/api/nothing", "/api/docs"):
        headers = rest.call("GET", place, is_checked=False).headers
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        assert headers["Connection"] == "close"


def test_over_the_unix_socket_no_token_is_needed(daemon: Daemon) -> None:
    reply = daemon.http("GET /api/sessions HTTP/1.1\r\nHost: x\r\n\r\n", is_unix=True)
    assert reply.status == 200


def test_calls_are_counted_by_their_line_of_the_table(daemon: Daemon, rest: Rest) -> None:
    rest.call("GET", "/api/sessions/nobody")
    text = daemon.get("/metrics").body.decode()
    assert 'zoned_request_seconds_count{method="GET /api/sessions/{id}"}' in text
    assert 'method="GET /api/sessions/nobody"' not in text
