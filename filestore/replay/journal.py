"""Our own records: `seq`, `at`, `kind` and a body, as docs/specs/0008-session-records.md has them.

A message comes from REST and its like, with one `content`, in chunks while it is `partial`; or it
is the row of a transcript, whose content is a list of parts.
"""

from filestore.replay.frames import (
    IMAGE,
    Frame,
    as_text,
    frame_at,
    frames_at,
    text_at,
    text_of,
    time_ms,
)
from filestore.replay.nodes import Nodes, Status

_KINDS = frozenset((
    "open", "message", "phase", "meta", "error", "checkpoint", "observation", "end", "note",
))  # fmt: skip
_STATUS: dict[str, Status] = {
    "completed": "success",
    "error": "failed",
    "failed": "failed",
    "cancelled": "canceled",
    "abandoned": "canceled",
}
_SAID = frozenset(("text", "media"))
"""Types of the parts that somebody says."""
_STEP_TEXTS = ("text", "title", "step", "description", "content", "name")


class Journal:
    """Folds records."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    @staticmethod
    def recognises(frame: Frame) -> bool:
        """True if nobody else writes such frames."""
        kind = frame.get("kind")
        is_numbered = type(frame.get("seq")) is int and "at" in frame
        return is_numbered and type(kind) is str and kind in _KINDS

    def fold(self, frame: Frame, line: int) -> bool:
        """Take in one record. False: it is not known."""
        kind = frame.get("kind")
        at = time_ms(frame.get("at"))
        body = frame_at(frame, "body") or frame
        key = f"record:{frame.get('seq')}" if type(frame.get("seq")) is int else f"line:{line}"
        if kind == "message":
            self._message(body, text_at(body, "id", "messageId") or key, at)
        elif kind == "error":
            self._nodes.agent_error(key, text_at(body, "message", "error", "text") or "error", at)
        elif kind == "observation":
            self._nodes.markdown(key, _observed(body), at)
        elif kind == "end":
            status = _STATUS.get(text_at(body, "status", "outcome"), "success")
            facts = {"reason": text_at(body, "reason"), "summary": text_at(body, "summary")}
            self._nodes.session_outcome(key, status, at, facts)
        else:
            return type(kind) is str and kind in _KINDS
        return True

    def _message(self, body: Frame, key: str, at: int | None) -> None:
        content = body.get("content")
        if type(content) is list:
            self._row(body, key, time_ms(body.get("timestamp")) or at)
            return
        told = content if type(content) is dict else {"type": "text", "text": text_of(content)}
        kind = text_at(told, "type")
        if kind == "tool":
            self._nodes.tool(key, text_at(told, "tool"), frame_at(told, "args"), at)
            if told.get("result") is not None:
                # Call and result are one record: how long it took is not told.
                self._nodes.tool_result(key, "success", as_text(told["result"]), None)
        elif kind == "plan":
            self._nodes.markdown(key, _steps(told), at)
        elif body.get("role") == "user":
            self._user(key, _text(told), at)
        else:
            # The chunks of an answer carry its id; the last one is not partial.
            self._nodes.grow(key, _text(told), at)
            if body.get("partial") is not True and told.get("partial") is not True:
                self._nodes.close(key)

    def _row(self, body: Frame, key: str, at: int | None) -> None:
        """The row of a transcript. Its texts are one, unless the agent also does something."""
        parts = frames_at(body, "content")
        is_user = body.get("role") == "user"
        is_one = is_user or all(text_at(part, "type") in _SAID for part in parts)
        if is_one:
            said = "\n\n".join(filter(None, map(_said, parts)))
            if is_user:
                self._user(key, said, at)
            else:
                self._nodes.markdown(key, said, at)
        for number, part in enumerate(parts):
            name = f"{key}:{number}"
            if text_at(part, "type") not in _SAID:
                self._part(part, name, at)
            elif not is_one:
                self._nodes.markdown(name, _said(part), at)

    def _part(self, part: Frame, key: str, at: int | None) -> None:
        kind = text_at(part, "type")
        if kind == "reasoning":
            self._nodes.markdown(key, text_at(part, "text"), at, is_thinking=True)
        elif kind == "tool_call":
            call = text_at(part, "id") or key
            self._nodes.tool(call, text_at(part, "name"), frame_at(part, "args"), at)
        elif kind == "tool_result":
            status: Status = "failed" if part.get("isError") is True else "success"
            call = text_at(part, "toolCallId") or key
            self._nodes.tool_result(call, status, as_text(part.get("result")), at)

    def _user(self, key: str, text: str, at: int | None) -> None:
        if text:
            self._nodes.user_message(key, text, at)


def _text(content: Frame) -> str:
    """What is said; contents of other types are shown as they are."""
    text = text_at(content, "text") or text_of(content)
    return text if text or content.get("type") == "text" else as_text(content)


def _said(part: Frame) -> str:
    """What a part says; a picture shows as one, other media by their type."""
    kind, media = text_at(part, "type"), text_at(part, "mimeType")
    if kind == "media":
        return IMAGE if media.startswith("image/") or not media else f"[{media}]"
    return text_at(part, "text") if kind == "text" else ""


def _observed(body: Frame) -> str:
    """What an agent says that it has done; an observation may be any object."""
    text = text_at(body, "text", "content", "observation")
    actions = [(text_at(each, "type"), text_at(each, "result")) for each in
               frames_at(body, "actions")]  # fmt: skip
    return text or "\n".join(f"- {': '.join(filter(None, each))}" for each in actions if any(each))


def _steps(content: Frame) -> str:
    steps = content.get("steps")
    told = [
        text_at(step, *_STEP_TEXTS) if type(step) is dict else text_of(step)
        for step in (steps if type(steps) is list else [])
    ]
    return "\n".join(f"- {step}" for step in told if step)
