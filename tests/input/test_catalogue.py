"""Every row of the catalogue: the error that is wanted, and after it the next good request works,
on the same connection where that is to live on."""

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.input import catalogue
from tests.input.catalogue import Bytes, Call, Command, Message, Request, Taken
from tests.support.daemon import BINARY, TEXT, Client, Daemon, frame, read_all
from tests.support.processes import COMMAND, END_S_MAX, ROOT, environment

GROWTH_BYTES_MAX = 120 << 20
MESSAGE_CHARS_MAX = 400


@pytest.fixture(params=["tcp-json", "unix-messagepack"])
def client(request: pytest.FixtureRequest, daemon: Daemon) -> Iterator[Client]:
    """A client of each transport and encoding."""
    is_unix = request.param == "unix-messagepack"
    with daemon.client(is_unix=is_unix, is_binary=is_unix) as client:
        yield client


def assert_refused(answer: Any, wanted: str, number: Any) -> dict[str, Any]:
    """The answer is this error, in one line. Returns its data."""
    assert answer["id"] == number, answer
    error = answer["error"]
    assert error["data"]["kind"] == wanted, error
    assert f"{wanted}: " in error["message"]
    assert error["message"].isprintable()
    assert len(error["message"]) < MESSAGE_CHARS_MAX
    data: dict[str, Any] = error["data"]
    return data


@pytest.mark.parametrize("case", catalogue.JSON, ids=lambda case: case.name)
def test_text_that_is_no_json(pane: Client, case: Message) -> None:
    pane.send_frame(TEXT, case.payload)
    answer = pane.receive()
    assert assert_refused(answer, "PARSE_ERROR", None) == {"kind": "PARSE_ERROR"}
    assert case.told in answer["error"]["message"]
    assert pane.is_alive()


@pytest.mark.parametrize("case", catalogue.MESSAGEPACK, ids=lambda case: case.name)
def test_binary_that_is_no_messagepack(daemon: Daemon, case: Message) -> None:
    with daemon.client(is_binary=True) as client:
        daemon.reset_peak()
        before = daemon.peak_bytes
        client.send_frame(BINARY, case.payload)
        answer = client.receive()
        assert_refused(answer, "PARSE_ERROR", None)
        assert case.told in answer["error"]["message"]
        assert client.is_alive()
        assert daemon.peak_bytes - before < GROWTH_BYTES_MAX


@pytest.mark.parametrize("case", catalogue.REQUESTS, ids=lambda case: case.name)
def test_value_that_is_no_request(client: Client, case: Request) -> None:
    client.send(case.value)
    assert_refused(client.receive(), case.wanted, case.number)
    assert client.is_alive()


def test_params_that_are_wrong(client: Client) -> None:
    """All calls in one test: a thousand of them take less time than as many fixtures."""
    found: list[tuple[Call, object]] = []
    for case in catalogue.calls():
        if case.method == "srv:migrate" and client.is_binary:
            continue  # over the unix socket it is allowed
        client.send(Client.request(case.method, 7, case.params))
        answer = client.answer()
        try:
            data = assert_refused(answer, case.wanted, 7)
            assert data.get("field") == case.field, data
        except (AssertionError, KeyError):
            found.append((case, answer))
    assert found == []
    assert client.is_alive()
    assert client.call("agent:list") == [], "nothing of it was done"


@pytest.mark.parametrize("case", catalogue.GOOD_CALLS, ids=lambda case: case.why)
def test_params_that_only_look_wrong(daemon: Daemon, case: Taken) -> None:
    with daemon.client(is_unix=True) as client:
        if case.method == catalogue.WRITE:
            client.call(case.method, definition_id="ada", content=case.params["content"])
        client.call(case.method, **case.params)
        assert client.is_alive()


@pytest.mark.parametrize("content", catalogue.CONTENTS, ids=ascii)
def test_content_comes_back_as_it_was(client: Client, content: bytes) -> None:
    if client.is_binary:
        given: Any = content
    else:
        try:
            given = content.decode()
        except UnicodeDecodeError:
            import base64

            given = {"base64": base64.b64encode(content).decode()}
    client.call(catalogue.WRITE, definition_id="content", content=given)
    found = client.call(catalogue.READ, definition_id="content")["content"]
    assert (
        found.encode() if isinstance(found, str) and isinstance(given, bytes) else found
    ) == given


@pytest.mark.parametrize("case", catalogue.FRAMES, ids=lambda case: case.name)
def test_frame_that_is_broken(daemon: Daemon, pane: Client, case: Bytes) -> None:
    with daemon.client() as client:
        client.sock.sendall(case.data)
        closed = client.closed()
        assert closed.code == case.wanted
        assert closed.reason
    assert pane.is_alive()


@pytest.mark.parametrize("is_unix", [False, True], ids=["tcp", "unix"])
def test_head_that_is_none(daemon: Daemon, is_unix: bool) -> None:
    """Over the unix socket neither Host nor token matter; all else is the same."""
    wrong = []
    for case in catalogue.HEADS:
        if is_unix and case.wanted == 403:
            continue
        data = case.data.replace("PORT", str(daemon.port)).replace("TOKEN", daemon.token)
        reply = daemon.http(data, is_unix=is_unix)
        if reply.status != case.wanted or b"Traceback" in reply.data:
            wrong.append((case.name, reply.data[:100]))
    assert wrong == []
    assert daemon.get("/health").status == 200


def test_client_that_hangs_up_in_the_middle_of_a_request(daemon: Daemon, pane: Client) -> None:
    """Half a head, half a frame, and a whole call without waiting for its answer."""
    call = json.dumps(Client.request(catalogue.APPEND, 1, {"definition_id": "gone", "line": "x"}))
    with daemon.open() as sock:
        sock.sendall(b"GET /health HTT")
    with daemon.client() as client:
        client.sock.sendall(frame(TEXT, call.encode())[:-5])
    with daemon.client() as client:
        client.sock.sendall(frame(TEXT, call.encode()))
        client.sock.shutdown(1)
        read_all(client.sock)
    # What was accepted is done before what comes after it.
    pane.call(catalogue.APPEND, definition_id="gone", line="y")
    page = pane.call("agent:session:read_output", definition_id="gone")
    assert page["lines"] == ["x", "y"]


@pytest.mark.parametrize("case", catalogue.COMMANDS, ids=lambda case: case.name)
def test_command_that_cannot_be_meant_so(tmp_path: Path, case: Command) -> None:
    words = [word.replace("FOLDER", str(tmp_path)) for word in case.words]
    done = _run(tmp_path, words, case.stdin, case.environ)
    assert done.returncode == case.wanted, (done.stdout, done.stderr)
    told = done.stderr.decode()
    assert told.startswith("zoned: ")
    assert case.told.replace("FOLDER", str(tmp_path)) in told
    assert told.count("\n") == 1
    assert told[:-1].isprintable()


@pytest.mark.parametrize("environ", catalogue.ENVIRONMENTS, ids=shlex.join)
def test_environment_that_is_odd_changes_nothing(tmp_path: Path, environ: dict[str, str]) -> None:
    line = '{"type":"user","text":"\u00e9\u2028 \u4f60"}\n'.encode()
    for words, stdin, out in ((["append", "ada"], line, b"ada: 1 line appended, 1 in all\n"),
                              (["tail", "ada"], b"", line)):  # fmt: skip
        done = _run(tmp_path, words, stdin, environ)
        assert (done.returncode, done.stdout, done.stderr) == (0, out, b"")


def test_what_is_tested_elsewhere_is_there() -> None:
    assert [path for path in catalogue.ELSEWHERE.values() if not (ROOT / path).is_file()] == []


def _run(
    folder: Path, words: list[str], stdin: bytes, environ: dict[str, str]
) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [*COMMAND, *words],
        cwd=ROOT,
        env=environment(ZONED_DATA_DIR=str(folder / "data"), **environ),
        input=stdin,
        capture_output=True,
        timeout=END_S_MAX,
        check=False,
    )
