"""One lifelike conversation as each provider would have written it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

from bench.data import Ndjson

DELTA_CHARS = 24
"""So much of a text comes in one delta: a handful of tokens."""

Frames = Iterator[dict[str, Any]]


def written_by(provider: str, size: int) -> list[bytes]:
    """Lines of together about `size` bytes."""
    told = _TELLERS[provider]()
    found: list[bytes] = []
    for line in Ndjson(6).lines():
        for frame in told(orjson.loads(line)):
            found.append(orjson.dumps(frame))
            size -= len(found[-1]) + 1
        if size <= 0:
            break
    return found


def _block(frame: dict[str, Any]) -> dict[str, Any]:
    """The one block of content that each frame of the source holds; nothing for the first."""
    message = frame.get("message")
    return message["content"][0] if message else {"type": "init"}


def _parts(text: str) -> list[str]:
    return [text[at : at + DELTA_CHARS] for at in range(0, len(text), DELTA_CHARS)]


def _time(frame: dict[str, Any]) -> str:
    moment = datetime.fromtimestamp(frame["timestamp"] / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _claude(frame: dict[str, Any]) -> Frames:
    yield frame | {"timestamp": _time(frame)}


def _claude_partial(frame: dict[str, Any]) -> Frames:
    block = _block(frame)
    ids = {"parent_tool_use_id": None, "session_id": frame["session_id"], "uuid": frame["uuid"]}

    def event(kind: str, **more: object) -> dict[str, Any]:
        return {"type": "stream_event", "event": {"type": kind, **more}, **ids}

    if block["type"] in ("text", "tool_use"):
        yield event("message_start", message={**frame["message"], "content": []})
        is_text = block["type"] == "text"
        start = {"type": "text", "text": ""} if is_text else {**block, "input": {}}
        yield event("content_block_start", index=0, content_block=start)
        kind, key = ("text_delta", "text") if is_text else ("input_json_delta", "partial_json")
        for part in _parts(block["text"] if is_text else orjson.dumps(block["input"]).decode()):
            yield event("content_block_delta", index=0, delta={"type": kind, key: part})
        yield frame
        yield event("content_block_stop", index=0)
        yield event("message_stop")
    else:
        yield frame


class _Codex:
    """Knows the calls, because their ends tell them again."""

    def __init__(self) -> None:
        self._calls: dict[str, dict[str, Any]] = {}

    def __call__(self, frame: dict[str, Any]) -> Frames:
        block = _block(frame)
        if block["type"] == "text":
            item = {"id": frame["uuid"], "type": "agent_message", "text": block["text"]}
            yield {"type": "item.completed", "item": item}
        elif block["type"] == "tool_use":
            command = {"command": orjson.dumps(block["input"]).decode(), "aggregated_output": ""}
            call = {"id": block["id"], "type": "command_execution", **command, "exit_code": None}
            self._calls[block["id"]] = call
            yield {"type": "item.started", "item": {**call, "status": "in_progress"}}
        elif block["type"] == "tool_result":
            end = {"aggregated_output": block["content"], "exit_code": 0, "status": "completed"}
            yield {"type": "item.completed", "item": self._calls.pop(block["tool_use_id"]) | end}


def _codex_rollout(frame: dict[str, Any]) -> Frames:
    block = _block(frame)
    item: dict[str, Any] = {"type": "message", "role": "assistant"}
    if block["type"] == "text":
        told = {"type": "agent_message", "message": block["text"]}
        yield {"timestamp": _time(frame), "type": "event_msg", "payload": told}
        item["content"] = [{"type": "output_text", "text": block["text"]}]
    elif block["type"] == "tool_use":
        arguments = orjson.dumps(block["input"]).decode()
        item = {"type": "function_call", "name": "exec_command", "arguments": arguments}
        item["call_id"] = block["id"]
    elif block["type"] == "tool_result":
        item = {"type": "function_call_output", "call_id": block["tool_use_id"]}
        item["output"] = f"Process exited with code 0\nOutput:\n{block['content']}"
    else:
        return
    yield {"timestamp": _time(frame), "type": "response_item", "payload": item}


def _gemini(frame: dict[str, Any]) -> Frames:
    block, at = _block(frame), {"timestamp": _time(frame)}
    if block["type"] == "text":
        for part in _parts(block["text"]):
            said = {"role": "assistant", "content": part, "delta": True}
            yield {"type": "message", **at, **said}
    elif block["type"] == "tool_use":
        call = {"tool_name": block["name"], "tool_id": block["id"], "parameters": block["input"]}
        yield {"type": "tool_use", **at, **call}
    elif block["type"] == "tool_result":
        end = {"tool_id": block["tool_use_id"], "status": "success", "output": block["content"]}
        yield {"type": "tool_result", **at, **end}


def _acp(frame: dict[str, Any]) -> Frames:
    def update(name: str, **more: object) -> dict[str, Any]:
        params = {"sessionId": frame["session_id"], "update": {"sessionUpdate": name, **more}}
        return {"jsonrpc": "2.0", "method": "session/update", "params": params}

    block = _block(frame)
    if block["type"] == "text":
        for part in _parts(block["text"]):
            yield update("agent_message_chunk", content={"type": "text", "text": part})
    elif block["type"] == "tool_use":
        told = {"title": block["name"], "kind": "execute", "rawInput": block["input"]}
        yield update("tool_call", toolCallId=block["id"], status="pending", **told)
    elif block["type"] == "tool_result":
        text = {"type": "content", "content": {"type": "text", "text": block["content"]}}
        key = block["tool_use_id"]
        yield update("tool_call_update", toolCallId=key, status="completed", content=[text])


class _Journal:
    """Counts the records."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, frame: dict[str, Any]) -> Frames:
        block = _block(frame)
        if block["type"] == "tool_result":
            content = {"type": "tool", "tool": "Bash", "args": {}, "result": block["content"]}
            body = {"messageId": frame["uuid"], "role": "system", "content": content}
        elif block["type"] == "text":
            body = {"messageId": frame["uuid"], "role": "agent", "content": block}
        else:
            return
        yield {"seq": self._number, "at": frame["timestamp"], "kind": "message", "body": body}
        self._number += 1


def _generic(frame: dict[str, Any]) -> Frames:
    block = _block(frame)
    text = block.get("text", block.get("content", ""))
    yield {"level": "info", "time": _time(frame), "logger": frame["session_id"], "msg": text}


_TELLERS: dict[str, Callable[[], Callable[[dict[str, Any]], Frames]]] = {
    "claude": lambda: _claude,
    "claude_partial": lambda: _claude_partial,
    "codex": _Codex,
    "codex_rollout": lambda: _codex_rollout,
    "gemini": lambda: _gemini,
    "acp": lambda: _acp,
    "journal": _Journal,
    "generic": lambda: _generic,
}
PROVIDERS = tuple(_TELLERS)
