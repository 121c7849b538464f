"""Turn items of Codex: what its newer session files tell as `item_completed`, whole.

Nearly all of it stands there as an item of the API too. What does not are the calls that a script
makes which the agent has written, instead of calling tools one by one, and the user's own commands.
"""

from typing import NamedTuple

from filestore.replay.frames import Frame, as_text, frame_at, frames_at, text_at
from filestore.replay.nodes import Status
from filestore.replay.tools import one_line

_STATUS: dict[str, Status] = {"failed": "failed", "declined": "denied", "inProgress": "running"}
_PICTURES = ("image", "local_image")


class Said(NamedTuple):
    """What somebody said: the user, the agent, or the agent to itself."""

    who: str
    texts: list[str]
    pictures: int = 0


class Call(NamedTuple):
    """A call of a tool that has ended."""

    name: str
    params: Frame
    summary: str
    status: Status
    result: str


def said_in(item: Frame) -> Said | None:
    """What is said in an item; None if it is no talk."""
    kind, blocks = text_at(item, "type"), frames_at(item, "content")
    text = "".join(text_at(block, "text") for block in blocks)
    if kind == "UserMessage":
        return Said("user", [text], sum(block.get("type") in _PICTURES for block in blocks))
    if kind == "AgentMessage":
        return Said("agent", [text])
    if kind == "Reasoning":
        return Said("thinking", texts_at(item, "summary_text") or texts_at(item, "raw_content"))
    return None


def call_in(item: Frame) -> Call | None:
    """The call that an item tells of; None if it tells of none."""
    kind = text_at(item, "type")
    summary = ""
    if kind == "CommandExecution":
        name, params = "exec_command", {"command": item.get("command")}
        result = text_at(item, "aggregated_output", "stdout", "stderr")
    elif kind == "McpToolCall":
        name = f"{text_at(item, 'server')}.{text_at(item, 'tool')}"
        params = frame_at(item, "arguments")
        result = text_at(frame_at(item, "error"), "message")
        result = result or as_text(frame_at(item, "result").get("content"))
    elif kind == "FileChange":
        changes = frame_at(item, "changes")
        name, params, summary = "apply_patch", {"changes": changes}, one_line(", ".join(changes))
        result = text_at(item, "stdout", "stderr")
    else:
        return None
    return Call(name, params, summary, _STATUS.get(text_at(item, "status"), "success"), result)


def texts_at(frame: Frame, key: str) -> list[str]:
    """The texts in the list under a key."""
    value = frame.get(key)
    return [text for text in value if type(text) is str] if type(value) is list else []
