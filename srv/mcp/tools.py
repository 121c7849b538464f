"""The tools: what they are called, what they are for, and which method answers them.

Knows no protocol: a tool takes arguments and gives its answer, or raises. What it calls is the same
table of methods that all commands use, through `Calls`.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from filestore.errors import InvalidArgumentError
from filestore.journal.bodies import load, to_json
from filestore.records.submission import check_submission
from srv.mcp import arguments, schemas

Arguments = Mapping[str, Any]


class Calls(Protocol):
    """Who answers methods: the daemon around us, the one of the data folder, or the folder."""

    async def call(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        """Call a method. Raises ZonedError."""

    async def changed(self, known: Mapping[str, str]) -> dict[str, str]:
        """The states of those sessions that are not as they are known to be; waits a moment."""


class Answer(NamedTuple):
    """An answer as JSON in a text, and as a value."""

    text: str
    value: Any


class Tool(NamedTuple):
    """One tool. An answer that is not an object (`is_wrapped`) is shown under `result`."""

    name: str
    title: str
    about: str
    input: schemas.Schema
    output: schemas.Schema
    run: Callable[[Calls, Arguments], Awaitable[Answer]]
    is_wrapped: bool = False
    is_writing: bool = False


async def submit(calls: Calls, given: Arguments) -> Answer:
    """Keep what an agent says of its session."""
    # Here too: who submits hears of its own value, exactly, whatever the way to the store bears.
    document = check_submission(dict(given)).fields
    try:
        content = to_json(document)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"this has no JSON form: {error}") from error
    # The name of the call makes a repeat after a lost answer harmless.
    params = {"content": content, "call_id": f"mcp-{uuid4()}"}
    done = await calls.call("session:submit", params)
    return Answer(json.dumps(done, ensure_ascii=False), done)


def _asking(
    method: str, checked: Callable[[Arguments], dict[str, object]]
) -> Callable[[Calls, Arguments], Awaitable[Answer]]:
    """A tool that asks one method, with arguments checked first."""

    async def run(calls: Calls, given: Arguments) -> Answer:
        answer = await calls.call(method, checked(given))
        content = answer["content"]
        return Answer(content, load(content.encode()))

    return run


TOOLS: tuple[Tool, ...] = (
    Tool(
        "submit_agent_session",
        "Submit a session",
        "Record what you did in a session: actions, checkpoints to go on from, outcomes. Submit "
        "again whenever there is more: each submit is kept for good, and a field that you leave "
        "out keeps its last value (null clears it). A submit with ended_at ends the session. "
        "Durable when it answers. Read the warnings: they tell of slips.",
        schemas.SUBMIT,
        schemas.SUBMITTED,
        submit,
        is_writing=True,
    ),
    Tool(
        "query_agent_history",
        "Query the history",
        "What is known of one session (session_id; null if there is none), or of the last ones "
        "(limit, order_by, order): its present snapshot and its newest observations. Also answers "
        "for sessions that nobody submitted.",
        schemas.HISTORY,
        schemas.HISTORIES,
        _asking("session:history", arguments.history),
        is_wrapped=True,
    ),
    Tool(
        "query_entity_timeline",
        "Query a timeline",
        "What happened, in order: sessions started and ended, checkpoints, changes of phase, "
        "outcomes. Of one session, or of all that have to do with something, as a ticket or a pull "
        "request, by its id.",
        schemas.TIMELINE,
        schemas.EVENTS,
        _asking("session:timeline", arguments.timeline),
        is_wrapped=True,
    ),
    Tool(
        "restore_checkpoint",
        "Restore a checkpoint",
        "The state of the latest checkpoint of that name, to go on from. Changes nothing.",
        schemas.RESTORE,
        schemas.CHECKPOINT,
        _asking("session:restore_checkpoint", arguments.checkpoint),
    ),
    Tool(
        "list_sessions",
        "List sessions",
        "Sessions in short, the last active first.",
        schemas.LIST,
        schemas.SESSIONS,
        _asking("session:overview", arguments.sessions),
        is_wrapped=True,
    ),
    Tool(
        "read_session",
        "Read a session",
        "What was said and done in a session, the newest first within max_chars; `before` of the "
        "answer reads on from there. Cheap: begin with little.",
        schemas.READ,
        schemas.SLICE,
        _asking("session:read", arguments.read),
    ),
)
BY_NAME: Mapping[str, Tool] = {tool.name: tool for tool in TOOLS}
