"""One session, many surfaces: what one of them does, all the others see."""

import json
import subprocess
from typing import Any

from tests.rest.tools import Rest, at
from tests.support.daemon import Client, Daemon
from tests.support.processes import COMMAND, ROOT, environment


def zoned(daemon: Daemon, *words: str) -> Any:
    done = subprocess.run(
        [*COMMAND, *words, "--json", "--data-dir", str(daemon.data_dir)], cwd=ROOT,
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def listed(rest: Rest, session: str) -> dict[str, Any] | None:
    found = rest.ok("GET", "/api/sessions?limit=100")["sessions"]
    return next((each for each in found if each["id"] == session), None)


def write(pane: Client, definition: str) -> Any:
    return pane.call("agent:session:append_output", definition_id=definition, line="{}")


def test_session_of_a_pane_is_listed_and_can_be_asked_and_completed(
    rest: Rest, daemon: Daemon
) -> None:
    with daemon.client() as pane:
        write(pane, "ada-rest")
        session = pane.call("agent:session:read", definition_id="ada-rest")["session_id"]
        shown = listed(rest, session)
        assert shown is not None
        assert (shown["origin"], shown["definitionId"]) == ("pane", "ada-rest")
        assert "repoId" not in shown
        rest.ok("POST", f"{at(session)}/prompt", {"text": "why?"}, status=202)
        assert rest.ok("GET", at(session))["messages"][0]["content"]["text"] == "why?"
        archived = pane.call("agent:session:archive", definition_id="ada-rest")
        shown = rest.ok("GET", at(session))
        assert (shown["status"], shown["reason"]) == ("completed", "archived")
        assert shown["archived"] is True
        rest.fails(409, "CONFLICT", "POST", f"{at(session)}/prompt", {"text": "still there?"})
        pane.call("agent:session:restore", archive_zoneid=archived["archive_zoneid"])
        assert rest.ok("GET", at(session))["status"] == "active"
        pane.call("agent:session:archive", definition_id="ada-rest")


def test_session_of_rest_is_written_to_and_archived_by_a_pane(
    rest: Rest, daemon: Daemon, session: str
) -> None:
    definition = rest.ok("GET", at(session))["definitionId"]
    with daemon.client() as pane:
        write(pane, definition)
        assert pane.call("agent:session:read", definition_id=definition)["session_id"] == session
        agents = pane.call("agent:list", limit=100)
        assert any(each["definition_id"] == definition for each in agents)
        with rest.events(session) as events:
            assert next(events).data["status"] == "active"
            zone = pane.call("agent:session:archive", definition_id=definition)["archive_zoneid"]
            ended = next(events)
            assert (ended.name, ended.data["reason"]) == ("status", "archived")
            pane.call("agent:session:restore", archive_zoneid=zone)
            again = next(events)
            assert (again.data["status"], again.data["reason"]) == ("active", "restored")
    assert rest.ok("GET", at(session))["status"] == "active"


def test_session_of_a_pane_can_begin_a_place_among_those_of_a_repo_only_by_rest(
    rest: Rest, daemon: Daemon, repo: str
) -> None:
    """Panes' sessions have no repo, so they take none of the places."""
    with daemon.client() as pane:
        write(pane, "eve-rest")
    assert rest.ok("GET", f"/api/sessions?repoId={repo}")["total"] == 0


def test_session_of_the_command_line_is_seen_and_ended_here(rest: Rest, daemon: Daemon) -> None:
    zoned(daemon, "session", "create", "--id", "of-the-cli", "--agent", "coder", "--purpose", "p")
    shown = rest.ok("GET", at("of-the-cli"))
    assert (shown["origin"], shown["agent"], shown["purpose"]) == ("cli", "coder", "p")
    rest.ok("DELETE", f"{at('of-the-cli')}?reason=enough")
    told = zoned(daemon, "session", "get", "of-the-cli")
    assert told["phase"] == "abandoned"


def test_session_of_rest_is_seen_by_the_command_line(
    rest: Rest, daemon: Daemon, session: str
) -> None:
    zoned(daemon, "session", "update", session, "--phase", "planning")
    assert rest.ok("GET", at(session))["phase"] == "planning"
    assert rest.ok("GET", at(session))["resumable"] is True
    rest.ok("POST", f"{at(session)}/error", {"message": "broke"})
    told = zoned(daemon, "session", "get", session)
    assert (told["phase"], told["last_error"], told["error_count"]) == ("failed", "broke", 1)


def test_transcript_over_rpc_is_the_one_over_rest(rest: Rest, daemon: Daemon) -> None:
    start = {"agentSlug": "coder", "context": {"workingDir": "x", "fsScopeTier": "y"}}
    with daemon.client() as program:
        program.call("transcript:start", session_id="of-rpc", transcript=start)
        message = {
            "role": "user",
            "content": [{"type": "text", "text": "hi"}],
            "timestamp": "2026-01-31T09:30:00Z",
        }
        program.call("transcript:append", session_id="of-rpc", message=message)
        loaded = rest.ok("GET", f"{at('of-rpc')}/transcript")
        assert loaded == program.call("transcript:load", session_id="of-rpc")
