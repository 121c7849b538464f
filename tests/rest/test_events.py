"""Server-sent events: every record once, in order, through cuts, restarts and slow readers."""

import itertools
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rest.tools import Event, Rest, at, events_in
from tests.support.daemon import ANSWER_S_MAX, Daemon, serving
from tests.support.faults import until_sync


def say(rest: Rest, session: str, text: str, **more: Any) -> dict[str, Any]:
    body = {"role": "agent", "content": text, **more}
    found: dict[str, Any] = rest.ok("POST", f"{at(session)}/messages", body, status=201)
    return found


def take(events: Iterator[Event], count: int) -> list[Event]:
    return list(itertools.islice(events, count))


def test_events_tell_what_there_is_and_what_comes(rest: Rest, session: str) -> None:
    rest.ok("POST", f"{at(session)}/prompt", {"text": "why?"}, status=202)
    with rest.events(session) as events:
        begun, asked = take(events, 2)
        assert (begun.id, begun.name, begun.data["status"]) == (0, "status", "active")
        assert (asked.id, asked.name, asked.data["role"]) == (1, "message", "user")
        say(rest, session, "Be", partial=True, messageId="m")
        say(rest, session, "cause", messageId="m")
        chunks = take(events, 2)
        assert [(each.id, each.name) for each in chunks] == [(2, "chunk"), (3, "chunk")]
        assert [each.data["content"] for each in chunks] == [
            {"type": "text", "text": "Be", "partial": True},
            {"type": "text", "text": "cause", "partial": False},
        ]
        whole = say(rest, session, "line\nbreaks\r\n\u2028", messageId="n")
        assert take(events, 1)[0].data == whole
        rest.ok("DELETE", f"{at(session)}?reason=enough")
        reason, ended = take(events, 2)
        assert reason.data["content"]["text"] == "enough"
        assert ended.name == "status"
        assert (ended.data["status"], ended.data["reason"]) == ("cancelled", "enough")


def test_events_go_on_behind_the_last_one_that_was_heard(rest: Rest, session: str) -> None:
    for number in range(6):
        say(rest, session, str(number))
    for heard in (0, 2, 5):
        with rest.events(session, heard) as events:
            assert [each.id for each in take(events, 6 - heard)] == [*range(heard + 1, 7)]
    with rest.events(session, 6) as events:
        later = say(rest, session, "later")
        assert take(events, 1)[0].id == later["seq"] == 7


@pytest.mark.parametrize("after", ["1", "x", "-1", "1.0", "9" * 30, "0 0"])
def test_last_event_that_there_is_not_is_refused(rest: Rest, session: str, after: str) -> None:
    headers = {"Last-Event-ID": after}
    error = rest.fails(400, "INVALID_PARAMS", "GET", f"{at(session)}/events", headers=headers)
    assert error["details"]["field"] == "Last-Event-ID"


def test_events_of_a_session_that_is_deleted_end(rest: Rest, daemon: Daemon) -> None:
    with daemon.client() as pane:
        pane.call("agent:session:write_state", definition_id="gone", content="{}")
        archived = pane.call("agent:session:archive", definition_id="gone")
        rows = pane.call("agent:session:list_archives", definition_id="gone")
        with rest.events(rows[0]["session_id"]) as events:
            assert [each.name for each in take(events, 2)] == ["status", "status"]
            pane.call("agent:session:delete_archive", archive_zoneid=archived["archive_zoneid"])
            assert [(each.id, each.name) for each in events] == [(None, "deleted")]


def test_silence_has_signs_of_life(rest: Rest, session: str) -> None:
    """event_heartbeat_s is 1 here."""
    with rest.stream(session, 0) as response:
        assert response.readline() == b"retry: 1000\n"
        assert response.readline() == b"\n"
        assert response.readline() == b":\n"


def test_slow_reader_costs_nobody_and_loses_nothing(
    rest: Rest, daemon: Daemon, session: str
) -> None:
    """It reads nothing while 24 MiB are said: others are told at once, memory stays small."""
    with rest.stream(session) as slow, rest.events(session) as quick:
        take(quick, 1)
        before = daemon.rss_bytes
        text = "x" * (1 << 20)
        for number in range(24):
            made = say(rest, session, f"{number} {text}")
            assert take(quick, 1)[0].id == made["seq"]
        assert daemon.rss_bytes - before < 64 << 20
        heard = take(events_in(slow), 25)
        assert [each.id for each in heard] == [*range(25)]
        assert heard[-1].data["content"]["text"].startswith("23 ")


def test_follower_that_has_gone_is_not_counted_for_long(rest: Rest, session: str) -> None:
    with rest.events(session) as events:
        take(events, 1)

    def is_alone() -> bool:
        asked = rest.ok("POST", f"{at(session)}/prompt", {"text": "x"}, status=202)
        say(rest, session, "y")
        return asked["delivered"] is False

    until_sync(is_alone, ANSWER_S_MAX, 0.05)


# -- cuts and restarts


class Follower(threading.Thread):
    """Follows a session through whatever happens, as a browser does: it comes back with the last
    id it has heard.
    """

    def __init__(self, rest: Rest, session: str, last: int) -> None:
        super().__init__()
        self.rest = rest
        self.heard: list[Event] = []
        self.cuts = 0
        self.failure: BaseException | None = None
        self._session = session
        self._last = last

    def run(self) -> None:
        deadline = time.monotonic() + 3 * ANSWER_S_MAX
        try:
            while not self.heard or self.heard[-1].id != self._last:
                assert time.monotonic() < deadline, self.heard[-3:]
                self._follow()
        except BaseException as error:
            self.failure = error
            raise

    def _follow(self) -> None:
        after = self.heard[-1].id if self.heard else None
        try:
            with self.rest.events(self._session, after) as events:
                for event in events:
                    self.heard.append(event)
                    if event.id == self._last:
                        return
        except OSError:
            pass
        self.cuts += 1
        threading.Event().wait(0.02)


MESSAGES = 60


def test_events_go_on_through_cuts_and_restarts_without_gap_or_duplicate(tmp_path: Path) -> None:
    """Killed with -9, stopped well, and cut off in the middle of an event, while messages come."""
    data, root = tmp_path / "data", tmp_path / "root"
    root.mkdir()
    environ = {"AGENT_WORKSPACE_ROOT": str(root)}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    said: list[str] = []
    follower: Follower | None = None
    session = ""
    for turn, ending in enumerate((signal.SIGKILL, signal.SIGTERM, None)):
        with serving(data, "--port", str(port), environ=environ) as daemon:
            rest = Rest(daemon)
            if follower is None:
                session = rest.session(rest.repo(root))
                follower = Follower(rest, session, MESSAGES)
                follower.start()
            cut_in_the_middle(daemon, session, len(said))
            numbers = range(turn * MESSAGES // 3, (turn + 1) * MESSAGES // 3)
            said += [say(rest, session, f"{number} {'x' * 5000}")["id"] for number in numbers]
            if ending is None:
                follower.join(3 * ANSWER_S_MAX)
            else:
                daemon.end(ending)
    assert follower is not None
    assert follower.failure is None
    assert [each.id for each in follower.heard] == [*range(MESSAGES + 1)]
    assert [each.data["id"] for each in follower.heard[1:]] == said
    assert follower.cuts >= 2


def cut_in_the_middle(daemon: Daemon, session: str, count: int) -> None:
    """A reader that goes while it is told of something; nobody minds."""
    with daemon.open() as sock:
        sock.sendall(
            f"GET {at(session)}/events HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n"
            f"Authorization: Bearer {daemon.token}\r\n\r\n".encode()
        )
        assert sock.recv(1000 if count else 10)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def test_streams_end_when_the_daemon_stops(tmp_path: Path) -> None:
    """At once: nobody waits for the heartbeat, nor is anything cut in the middle."""
    environ = {"AGENT_WORKSPACE_ROOT": str(tmp_path)}
    with serving(tmp_path / "data", environ=environ) as daemon:
        rest = Rest(daemon)
        session = rest.session(rest.repo(tmp_path))
        with rest.events(session) as first, rest.events(session) as second:
            take(first, 1)
            take(second, 1)
            started = time.monotonic()
            assert daemon.end() == 0
            assert time.monotonic() - started < 5
            assert list(first) == list(second) == []
        assert [each for each in daemon.events() if each["level"] != "info"] == []


def test_streams_end_when_the_token_is_another(tmp_path: Path) -> None:
    environ = {"AGENT_WORKSPACE_ROOT": str(tmp_path)}
    with serving(tmp_path / "data", environ=environ) as daemon:
        rest = Rest(daemon)
        session = rest.session(rest.repo(tmp_path))
        with rest.events(session) as events, daemon.client(is_unix=True) as operator:
            take(events, 1)
            operator.call("srv:rotate_token")
            assert list(events) == []
        rest = Rest(daemon)
        with rest.events(session) as events:
            assert take(events, 1)[0].id == 0


def test_event_is_one_line_of_json_whatever_it_says(rest: Rest, session: str) -> None:
    content = {"type": "odd", "text": "\n\ndata: x\r\nid: 5\r\n\r\n", "n": 10**40}
    body = {"role": "system", "content": content}
    rest.ok("POST", f"{at(session)}/messages", body, status=201)
    with rest.events(session, 0) as events:
        (event,) = take(events, 1)
    assert (event.id, event.data["content"]) == (1, content)
    assert json.dumps(event.data)
