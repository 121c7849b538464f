"""Calling REST as a program would: real sockets, one request a connection."""

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import jsonschema_rs

from tests.support.daemon import ANSWER_S_MAX, Daemon

JSON = {"Content-Type": "application/json"}


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class Event(NamedTuple):
    """One server-sent event."""

    id: int | None
    name: str
    data: Any


class Rest:
    """A client of one daemon. Every answer is held against the daemon's own document."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self._token = daemon.token
        self._port = daemon.port
        self.document = self.call("GET", "/api/openapi.json", is_checked=False).json

    def call(
        self,
        method: str,
        target: str,
        body: object = None,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        is_checked: bool = True,
    ) -> Answer:
        """One call, with a JSON body or any bytes."""
        if body is not None:
            data = json.dumps(body).encode()
        if headers is None:
            headers = JSON if data else {}
        connection = self._open()
        try:
            connection.request(method, target, data, self._headers(headers))
            response = connection.getresponse()
            answer = Answer(response.status, dict(response.headers.items()), response.read())
        finally:
            connection.close()
        if is_checked:
            self._check(method, target, answer)
        return answer

    def ok(self, method: str, target: str, body: object = None, *, status: int = 200) -> Any:
        """A call that must go well."""
        answer = self.call(method, target, body)
        assert answer.status == status, answer
        return answer.json if answer.data else None

    def fails(
        self, status: int, kind: str, method: str, target: str, body: object = None, **more: Any
    ) -> dict[str, Any]:
        """A call that must fail just so. The whole error."""
        answer = self.call(method, target, body, **more)
        assert (answer.status, answer.json["error"]) == (status, kind), answer
        found: dict[str, Any] = answer.json
        return found

    @contextmanager
    def events(self, session_id: str, after: int | str | None = None) -> Iterator[Iterator[Event]]:
        """The events of a session, as they come; the end of the connection ends them."""
        with self.stream(session_id, after) as response:
            yield events_in(response)

    @contextmanager
    def stream(
        self, session_id: str, after: int | str | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """The stream of events itself."""
        connection = self._open()
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        connection.request("GET", f"{at(session_id)}/events", headers=self._headers(headers))
        response = connection.getresponse()
        try:
            assert response.status == 200, response.read()
            assert response.headers["Content-Type"] == "text/event-stream"
            yield response
        finally:
            response.close()
            connection.close()

    def _open(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_S_MAX)

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", **more}

    def _check(self, method: str, target: str, answer: Answer) -> None:
        """An answer must be one that the document tells of."""
        assert b"Traceback" not in answer.data
        operation = self._operation(method, target.partition("?")[0])
        if operation is None:
            assert answer.status in (400, 401, 403, 404, 405), answer
            assert {"error", "message"} <= answer.json.keys()
            return
        told = operation["responses"].get(str(answer.status))
        assert told is not None, f"{method} {target} is not to answer {answer.status}"
        if "content" not in told:
            assert answer.data == b""
            return
        schema = told["content"]["application/json"]["schema"]
        whole = {**schema, "components": self.document["components"]}
        jsonschema_rs.Draft202012Validator(whole).validate(answer.json)

    def _operation(self, method: str, path: str) -> dict[str, Any] | None:
        for pattern, methods in self.document["paths"].items():
            if re.fullmatch(re.sub(r"\\{[a-z]+\\}", "[^/]+", re.escape(pattern)), path):
                found: dict[str, Any] | None = methods.get(method.lower())
                return found
        return None

    # -- what most tests begin with

    def repo(self, folder: Path | str) -> str:
        """The id of a new repo."""
        found: str = self.ok("POST", "/api/repos", {"path": str(folder)}, status=201)["id"]
        return found

    def session(self, repo_id: str, **more: object) -> str:
        """The id of a new session."""
        body = {"repoId": repo_id, **more}
        found: str = self.ok("POST", "/api/sessions", body, status=201)["id"]
        return found


def at(session_id: str) -> str:
    """The path of a session."""
    return f"/api/sessions/{quote(session_id, safe='')}"


def events_in(response: http.client.HTTPResponse) -> Iterator[Event]:
    """Events, until the connection ends; comments are let pass."""
    fields: dict[str, str] = {}
    while line := response.readline():
        text = line.decode().removesuffix("\n")
        if text:
            name, _, value = text.partition(":")
            fields[name] = value.removeprefix(" ")
        elif "event" in fields:
            number = int(fields["id"]) if "id" in fields else None
            yield Event(number, fields["event"], json.loads(fields["data"]))
            fields = {}
        else:
            fields = {}
