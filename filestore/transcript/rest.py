"""Messages of the REST surface as rows of a transcript. Pure; never an error of the message's.

    text (user, agent, system)    a row with the text; `agent` is `assistant` here
    tool                          one row of role tool: the call and, once it is there, its result
    plan                          a system row: its steps as lines
    anything else                 a system row: its content as JSON

One message is one row, so ids and places stay what they were. These messages were taken by the
rules of REST, so what they hold is not held to the rule on media.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from filestore.transcript.message import Part, Role, Row

if TYPE_CHECKING:
    from filestore.model import Json

_ROLES: Mapping[object, Role] = {"user": "user", "agent": "assistant"}
_STEP_TEXTS = ("text", "title", "step", "description", "content", "name")


def row_of_message(message: Mapping[str, object], sequence_number: int) -> Row:
    """The row of one message `{id, sessionId, role, content, timestamp, …}`.

    Chunks of one answer are one message here; one that is still `partial` shows what there is.
    """
    key, content = str(message["id"]), message["content"]
    role, parts = _told(key, message["role"], content)
    return {
        "id": key,
        "sessionId": str(message["sessionId"]),
        "sequenceNumber": sequence_number,
        "role": role,
        "content": parts,
        "timestamp": str(message["timestamp"]),
    }


def _told(key: str, role: object, content: object) -> tuple[Role, list[Part]]:
    spoken = _ROLES.get(role, "system")
    if isinstance(content, str):
        return spoken, [_text(content)]
    if isinstance(content, dict):
        kind, tool, steps = content.get("type"), content.get("tool"), content.get("steps")
        if kind == "tool" and isinstance(tool, str) and tool:
            return "tool", _tool(key, tool, content)
        if kind == "plan" and isinstance(steps, list):
            return "system", [_text(_plan(steps))]
        if isinstance(content.get("text"), str):
            return spoken, [_text(content["text"])]
    return "system", [_text(_json(content))]


def _tool(key: str, tool: str, content: Mapping[str, object]) -> list[Part]:
    args = cast("Json", content.get("args", {}))
    parts: list[Part] = [{"type": "tool_call", "id": key, "name": tool, "args": args}]
    if "result" in content:
        result = cast("Json", content["result"])
        parts.append({"type": "tool_result", "toolCallId": key, "result": result})
    return parts


def _plan(steps: list[object]) -> str:
    return "\n".join(["Plan:", *(f"{place}. {_step(each)}" for place, each in enumerate(steps, 1))])


def _step(step: object) -> str:
    if isinstance(step, str):
        return step
    if isinstance(step, dict):
        texts = (step.get(name) for name in _STEP_TEXTS)
        text = next((text for text in texts if isinstance(text, str) and text), "")
        status = step.get("status")
        if text:
            return f"{text} ({status})" if isinstance(status, str) and status else text
    return _json(step)


def _text(text: str) -> Part:
    return {"type": "text", "text": text}


def _json(value: object) -> str:
    # Not orjson: it has no integers of more than 64 bits.
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
