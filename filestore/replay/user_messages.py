"""What the user says in a frame, whoever wrote it. Pure; never an error.

Known are the streams of Claude Code, Codex (its rollout files: the output of `codex exec --json`
does not repeat the prompt), Gemini and the Agent Client Protocol. What is not recognised is passed
over.
"""

from typing import Any


def user_text(frame: dict[str, Any]) -> str:
    """What the user said in a frame; empty if it is not the user's."""
    return _text(_content(frame))


def _content(frame: dict[str, Any]) -> object:
    """What the user said in a frame: text or blocks of content; None if it is not the user's."""
    kind, payload = frame.get("type"), frame.get("payload")
    if kind == "user":
        message = frame.get("message")
        return message.get("content") if isinstance(message, dict) else message
    if kind == "message" and frame.get("role") == "user":
        return frame.get("content")
    if isinstance(payload, dict):
        if payload.get("type") == "user_message":
            return payload.get("message")
        is_message = payload.get("type") == "message" and payload.get("role") == "user"
        return payload.get("content") if is_message else None
    return _acp_content(frame)


def _acp_content(frame: dict[str, Any]) -> object:
    params = frame.get("params")
    if not isinstance(params, dict):
        return None
    if frame.get("method") == "session/prompt":
        return params.get("prompt")
    update = params.get("update")
    if frame.get("method") == "session/update" and isinstance(update, dict):
        is_user = update.get("sessionUpdate") == "user_message_chunk"
        return [update.get("content")] if is_user else None
    return None


def _text(content: object) -> str:
    """The text of a message; tool results and pictures have none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [
        block["text"]
        for block in content
        if isinstance(block, dict)
        and block.get("type") in ("text", "input_text")
        and isinstance(block.get("text"), str)
    ]
    return "\n".join(texts)
