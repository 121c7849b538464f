"""Our own records: `seq`, `at`, `kind` and a body, as sessions keep and export them."""

from filestore.replay.frames import Frame, as_text, frame_at, frames_at, text_at, text_of, time_ms
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
            self._message(body, key, at)
        elif kind == "error":
            self._nodes.agent_error(key, text_at(body, "message", "error", "text") or "error", at)
        elif kind == "observation":
            self._nodes.markdown(key, text_at(body, "text", "content", "observation"), at)
        elif kind == "end":
            status = _STATUS.get(text_at(body, "status", "outcome"), "success")
            facts = {"reason": text_at(body, "reason"), "summary": text_at(body, "summary")}
            self._nodes.session_outcome(key, status, at, facts)
        else:
            return type(kind) is str and kind in _KINDS
        return True

    def _message(self, body: Frame, key: str, at: int | None) -> None:
        key = text_at(body, "messageId", "id") or key
        content = body.get("content")
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
            if text_of(told):
                self._nodes.user_message(key, text_of(told), at)
        else:
            # The chunks of an answer carry its id; the last one is not partial.
            self._nodes.grow(key, text_of(told), at)
            if told.get("partial") is not True:
                self._nodes.close(key)


def _steps(content: Frame) -> str:
    steps = content.get("steps")
    plain = [step for step in steps if type(step) is str] if type(steps) is list else []
    told = [text_at(step, "text", "title", "content") for step in frames_at(content, "steps")]
    return "\n".join(f"- {step}" for step in plain + told if step)
