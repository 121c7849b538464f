"""Every tool, its refusals and its concurrency, over both transports and both kinds of revision."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # has no types
from mcp.shared.exceptions import MCPError

from filestore.errors import RejectedError
from filestore.records.submission import check_submission
from srv.client.blocking import BlockingClient
from srv.mcp import schemas
from srv.mcp.tools import TOOLS
from tests.client.daemon import Daemon
from tests.mcp.tools import START, WAYS, Way, answer, ask, connected, document
from tests.records.test_submission import GOOD, REJECTED, replaced

NAMES = (
    "submit_agent_session", "query_agent_history", "query_entity_timeline", "restore_checkpoint",
    "list_sessions", "read_session",
)  # fmt: skip
SENDABLE = [each for each in REJECTED if each[1] not in (float("inf"), "\ud800bcde")]
"""What has a form in JSON."""
ARGUMENTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("query_agent_history", {"limit": 0}, "limit", ">= 1"),
    ("query_agent_history", {"limit": 101}, "limit", "<= 100"),
    ("query_agent_history", {"limit": "9"}, "limit", "integer"),
    ("query_agent_history", {"order_by": "name"}, "order_by", "one of: started_at, updated_at"),
    ("query_agent_history", {"order": 1}, "order", "one of: asc, desc"),
    ("query_agent_history", {"session_id": 5}, "session_id", "string"),
    ("query_agent_history", {"session": "s"}, "session",
     "one of: session_id, limit, order_by, order"),
    ("query_entity_timeline", {}, "entity_id", "string"),
    ("query_entity_timeline", {"entity_id": ""}, "entity_id", "min_length: 1"),
    ("query_entity_timeline", {"entity_id": "x", "start_date": "soon"}, "start_date",
     "ISO 8601 timestamp"),
    ("query_entity_timeline", {"entity_id": "x", "end_date": 5}, "end_date", "string"),
    ("restore_checkpoint", {"name": "a"}, "session_id", "string"),
    ("restore_checkpoint", {"session_id": "a"}, "name", "string"),
    ("list_sessions", {"status": "open"}, "status",
     "one of: active, completed, cancelled, error"),
    ("list_sessions", {"agent_name": 1}, "agent_name", "string"),
    ("read_session", {"session_id": "x" * 257}, "session_id", "max_length: 256"),
    ("read_session", {"session_id": "x", "max_chars": 99}, "max_chars", ">= 100"),
    ("read_session", {"session_id": "x", "before": True}, "before", "integer"),
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
async def test_tools_answer(way: Way, daemon: Daemon, folder: Path) -> None:
    """The client holds each answer against the schema that goes with the tool."""
    name, ref = f"tools {way}", f"T-{way}"
    checkpoint = {"name": "a", "timestamp": "2026-01-31T09:30:00Z", "state": {"n": 2**70}}
    async with connected(way, daemon, folder) as client:
        assert tuple(tool.name for tool in (await client.list_tools()).tools) == NAMES
        assert await ask(client, "query_agent_history", session_id=name) is None
        more = {"checkpoints": [checkpoint], "outcomes": [{"type": "pr", "id": ref}]}
        done = await ask(client, "submit_agent_session", **document(name, **more, odd=1))
        assert (done["observation_count"], len(done["warnings"])) == (1, 1)
        known = await ask(client, "query_agent_history", session_id=name)
        assert known["entity_id"] == done["entity_id"]
        assert known["snapshot"] == document(name, **more, odd=1)
        many = await ask(client, "query_agent_history", limit=100, order_by="updated_at")
        assert known["snapshot"] in [each["snapshot"] for each in many]
        for entity in (name, done["entity_id"], ref):
            events = await ask(
                client, "query_entity_timeline", entity_id=entity, start_date="2026-01-31"
            )
            kinds = [each["type"] for each in events]
            assert kinds == ["session_started", "checkpoint", "outcome"]
        none = await ask(client, "query_entity_timeline", entity_id=ref, end_date="2026-01-30")
        assert none == []
        restored = await ask(client, "restore_checkpoint", session_id=name, name="a")
        assert restored["state"] == {"n": 2**70}
        rows = await ask(client, "list_sessions", limit=1)
        assert [each["session_id"] for each in rows] == [name]
        assert (await ask(client, "read_session", session_id=name))["messages"] == []


@pytest.mark.parametrize("way", WAYS)
async def test_what_breaks_a_rule_is_answered_with_exactly_that(
    way: Way, daemon: Daemon, folder: Path
) -> None:
    async with connected(way, daemon, folder) as client:
        cases = [
            ("submit_agent_session", replaced(GOOD, field, value), field, expected)
            for field, value, expected in SENDABLE
        ]
        missing = {name: value for name, value in GOOD.items() if name != "session_id"}
        cases.append(("submit_agent_session", missing, "session_id", "string"))
        for tool, arguments, field, expected in cases + ARGUMENTS:
            result = await client.call_tool(tool, arguments)
            assert result.is_error, arguments
            told = answer(result)
            assert result.structured_content == told
            assert list(told) == ["error", "details"]
            assert told["error"] == "schema_validation_failed"
            message = told["details"].pop("message")
            value = found_at(arguments, field)
            assert told["details"] == {"field": field, "value": value, "expected": expected}
            assert message.startswith(field)
        assert await ask(client, "query_agent_history", session_id=GOOD["session_id"]) is None


def found_at(arguments: dict[str, Any], field: str) -> Any:
    name, _, rest = field.partition("[0]")
    found = arguments.get(name)
    if found is None or "[0]" not in field:
        return found
    return found[0][rest.removeprefix(".")] if rest else found[0]


@pytest.mark.parametrize("way", WAYS)
async def test_failures_are_told_by_kind_and_what_is_no_tool_by_the_protocol(
    way: Way, daemon: Daemon, folder: Path
) -> None:
    async with connected(way, daemon, folder) as client:
        for tool, arguments in (
            ("restore_checkpoint", {"session_id": "nobody", "name": "a"}),
            ("read_session", {"session_id": "nobody"}),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            told = answer(result)
            assert told["error"] == "NOT_FOUND"
            assert "'nobody'" in told["message"]
        large = await client.call_tool(
            "submit_agent_session", document("large one", more="x" * (9 << 20))
        )
        assert (large.is_error, answer(large)["error"]) == (True, "TOO_LARGE")
        with pytest.raises(MCPError, match="there is no tool 'drop'"):
            await client.call_tool("drop", {})


@pytest.mark.parametrize("way", WAYS)
async def test_hundred_submits_at_once_are_hundred_observations(
    way: Way, daemon: Daemon, folder: Path
) -> None:
    name = f"hundred {way}"
    async with connected(way, daemon, folder) as client:
        calls = (ask(client, "submit_agent_session", **document(name)) for _ in range(100))
        done = await asyncio.gather(*calls)
        assert sorted(each["observation_count"] for each in done) == list(range(1, 101))
        known = await ask(client, "query_agent_history", session_id=name)
        assert len(known["observations"]) == known["observation_count"] == 100


async def test_sessions_of_other_surfaces_answer(daemon: Daemon, folder: Path) -> None:
    """A pane's stream, a command's session, and what an agent submits of it later."""
    said = '{"type": "user", "message": {"role": "user", "content": "Fix it"}}'
    with BlockingClient(daemon.socket) as others:
        others.call("agent:session:append_output", {"definition_id": "pane-1", "line": said})
        pane = others.call("agent:session:read", {"definition_id": "pane-1"})
        others.call("session:create", {"session_id": "by-command", "agent_name": "coder"})
        others.call("session:update", {"session_id": "by-command", "phase": "planning"})
    assert isinstance(pane, dict)
    async with connected("http-auto", daemon, folder) as client:
        read = await ask(client, "read_session", session_id=pane["session_id"])
        assert [(each["role"], each["text"]) for each in read["messages"]] == [("user", "Fix it")]
        rows = await ask(client, "list_sessions", agent_name="coder")
        assert [each["session_id"] for each in rows] == ["by-command"]
        outcome = {"type": "fix", "id": "BUG-9"}
        for name in (pane["session_id"], "by-command"):
            await ask(client, "submit_agent_session", **document(name, outcomes=[outcome]))
        events = await ask(client, "query_entity_timeline", entity_id="BUG-9")
    kinds = [(each["session_id"], each["type"]) for each in events]
    assert kinds.count(("by-command", "phase_changed")) == 1
    assert {name for name, _ in kinds} == {pane["session_id"], "by-command"}
    assert [each["timestamp"] for each in events] == sorted(each["timestamp"] for each in events)
    assert events[0]["timestamp"] == START.replace("Z", ".000Z")


# -- schemas


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_schemas_are_schemas(tool: Any) -> None:
    for schema in (tool.input, tool.output):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"


def test_schema_of_a_submit_agrees_with_its_rules() -> None:
    """All but what a schema cannot say: times, what is printable, one field after another."""
    schema = Draft202012Validator(schemas.SUBMIT)
    assert schema.is_valid(GOOD)
    for field, value, expected in SENDABLE:
        given = replaced(GOOD, field, value)
        with pytest.raises(RejectedError):
            check_submission(given)
        if expected not in (">= started_at", "ISO 8601 timestamp") and "\n" not in str(value):
            assert not schema.is_valid(given), field
