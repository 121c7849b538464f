"""The client of the commands: answers, errors, bytes, and what it does when nobody answers."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from srv.client import BlockingClient
from srv.errors import ZonedError
from tests.client.daemon import Daemon
from tests.support.processes import ROOT

AGENT = {"definition_id": "agent-1"}


@pytest.fixture
def blocking(daemon: Daemon) -> Iterator[BlockingClient]:
    with BlockingClient(daemon.socket) as connected:
        yield connected


def test_call_returns_the_result(blocking: BlockingClient) -> None:
    written = blocking.call("agent:session:write_state", AGENT | {"content": "héllo"})
    assert isinstance(written, dict)
    assert written["bytes_written"] == 6
    read = blocking.call("agent:session:read", AGENT)
    assert isinstance(read, dict)
    assert read["content"] == "héllo"


def test_bytes_that_are_no_text_travel_both_ways(blocking: BlockingClient) -> None:
    lines = [b"text", b"\xff\xfe", b'{"base64": "AAAA"}']
    blocking.call("agent:session:append_output", AGENT | {"lines": lines})
    page = blocking.call("agent:session:read_output", AGENT)
    assert isinstance(page, dict)
    assert page["lines"] == ["text", b"\xff\xfe", '{"base64": "AAAA"}']


def test_error_answer_becomes_an_error_with_kind_and_data(blocking: BlockingClient) -> None:
    with pytest.raises(ZonedError) as caught:
        blocking.call("agent:session:read", {"definitionid": "x"})
    assert caught.value.kind == "INVALID_PARAMS"
    assert caught.value.data["field"] == "definitionid"
    assert caught.value.message.startswith("unknown parameter")
    # It was the daemon's answer, so the connection is as good as before.
    assert blocking.call("srv:health", {}) == {"ok": True}


def test_request_that_cannot_be_read_is_answered(blocking: BlockingClient) -> None:
    with pytest.raises(ZonedError) as caught:
        blocking.call("agent:session:read", {"definition_id": "\ud800"})
    assert caught.value.kind in ("PARSE_ERROR", "INVALID_DEFINITION_ID", "INVALID_PARAMS")


def test_large_content_comes_back_as_it_was(blocking: BlockingClient) -> None:
    content = "0123456789abcdef" * (1 << 16)
    blocking.call("agent:session:write_state", AGENT | {"content": content})
    read = blocking.call("agent:session:read", AGENT)
    assert isinstance(read, dict)
    assert read["content"] == content


def test_content_that_json_would_double_in_size_is_taken(blocking: BlockingClient) -> None:
    """As JSON it would be larger than a message may be."""
    content = b'"' * (40 << 20)
    written = blocking.call("agent:session:write_state", AGENT | {"content": content})
    assert isinstance(written, dict)
    assert written["bytes_written"] == len(content)
    read = blocking.call("agent:session:read", AGENT)
    assert isinstance(read, dict)
    assert read["content"] == content.decode()


def test_notifications_follow_a_subscription(daemon: Daemon, blocking: BlockingClient) -> None:
    subscribed = blocking.call("agent:session:subscribe", AGENT)
    assert isinstance(subscribed, dict)
    with BlockingClient(daemon.socket) as other:
        other.call("agent:session:append_output", AGENT | {"line": "one"})
        other.call("agent:session:append_output", AGENT | {"line": b"\xff"})
    # A call in between must not lose what comes before its answer.
    blocking.call("srv:health", {})
    found = blocking.notifications(timeout_s=20)
    first, second = next(found), next(found)
    assert first["subscription"] == subscribed["subscription"]
    assert (first["kind"], first["data"]) == ("output", "one\n")
    assert (second["kind"], second["data"]) == ("output", b"\xff\n")


def test_no_daemon_is_unavailable_and_absent(tmp_path: Path) -> None:
    with pytest.raises(ZonedError) as caught:
        BlockingClient(tmp_path / "none.sock")
    assert (caught.value.kind, caught.value.data["daemon"]) == ("UNAVAILABLE", "absent")
    assert "zoned serve" in caught.value.hint


def test_frozen_daemon_is_unavailable_and_silent(daemon: Daemon) -> None:
    with BlockingClient(daemon.socket, timeout_s=0.2) as blocking:
        daemon.freeze()
        with pytest.raises(ZonedError) as caught:
            blocking.call("srv:health", {})
        assert (caught.value.kind, caught.value.data["daemon"]) == ("UNAVAILABLE", "silent")
        # The late answer could be taken for another one: the connection is not used again.
        with pytest.raises(ZonedError) as again:
            blocking.call("srv:health", {})
        assert (again.value.kind, again.value.data["daemon"]) == ("UNAVAILABLE", "gone")
        daemon.thaw()


def test_killed_daemon_is_unavailable_and_gone(daemon: Daemon, blocking: BlockingClient) -> None:
    daemon.kill()
    with pytest.raises(ZonedError) as caught:
        blocking.call("srv:health", {})
    assert (caught.value.kind, caught.value.data["daemon"]) == ("UNAVAILABLE", "gone")


def test_daemon_that_stops_says_so_to_who_follows(daemon: Daemon, blocking: BlockingClient) -> None:
    blocking.call("agent:session:subscribe", AGENT)
    assert daemon.end() == 0
    with pytest.raises(ZonedError, match="the daemon is stopping"):
        next(blocking.notifications(timeout_s=20))


def test_something_else_behind_the_socket_is_told_apart(tmp_path: Path) -> None:
    path = str(tmp_path / "other.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        with pytest.raises(ZonedError) as caught:
            _connect_and_answer(server, path)
    assert (caught.value.kind, caught.value.data["daemon"]) == ("UNAVAILABLE", "other")


def _connect_and_answer(server: socket.socket, path: str) -> None:
    import threading

    def answer() -> None:
        with server.accept()[0] as peer:
            peer.recv(4096)
            peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        BlockingClient(path, timeout_s=20)
    finally:
        thread.join()


def test_import_of_the_blocking_client_is_light() -> None:
    """A command that only asks the daemon must not wait for asyncio or the store."""
    code = (
        "import sys; from srv.client import BlockingClient; "
        "print([n for n in ('asyncio', 'filestore', 'aiohttp', 'orjson') if n in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
