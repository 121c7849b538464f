"""Gemini CLI: the output of `--output-format stream-json`.

Every frame has a type and a time. Texts of the agent come as deltas without an id: those that
follow each other without anything between them are one text, and what comes next ends it.
"""

from filestore.replay.frames import Frame, frame_at, number_at, text_at, text_of, time_ms
from filestore.replay.nodes import Nodes, Status

_DENIED = frozenset(("policy_violation", "permission_denied", "path_not_in_workspace"))
_ROLES = ("user", "assistant", "model")


class Gemini:
    """Folds frames of Gemini CLI."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._growing = ""

    @staticmethod
    def recognises(frame: Frame) -> bool:
        """True if nobody else writes such frames."""
        kind = frame.get("type")
        if kind == "init":
            return "session_id" in frame
        if kind == "message":
            return frame.get("role") in _ROLES and type(frame.get("content")) is str
        if kind == "tool_use" or kind == "tool_result":
            return "tool_id" in frame
        if kind == "result":
            return "status" in frame and "subtype" not in frame
        return kind == "error" and "severity" in frame

    def fold(self, frame: Frame, line: int) -> bool:
        """Take in one frame. False: it is not known."""
        kind = frame.get("type")
        at = time_ms(frame.get("timestamp"))
        if kind == "message":
            return self._message(frame, at, line)
        self._end_text()
        if kind == "tool_use":
            key = text_at(frame, "tool_id") or f"line:{line}"
            params = frame_at(frame, "parameters")
            self._nodes.tool(key, text_at(frame, "tool_name"), params, at)
        elif kind == "tool_result":
            self._tool_result(frame, at, line)
        elif kind == "result":
            self._result(frame, at, line)
        elif kind == "error":
            self._nodes.agent_error(f"line:{line}", text_at(frame, "message") or kind, at)
        else:
            return kind == "init"
        return True

    def _end_text(self) -> None:
        if self._growing:
            self._nodes.close(self._growing)
            self._growing = ""

    def _message(self, frame: Frame, at: int | None, line: int) -> bool:
        role, text = frame.get("role"), text_of(frame.get("content"))
        if role not in _ROLES:
            return False
        if role == "user":
            self._end_text()
            if text:
                self._nodes.user_message(f"line:{line}", text, at)
        elif frame.get("delta") is True:
            self._growing = self._growing or f"line:{line}"
            self._nodes.grow(self._growing, text, at)
        else:
            self._end_text()
            self._nodes.markdown(f"line:{line}", text, at)
        return True

    def _tool_result(self, frame: Frame, at: int | None, line: int) -> None:
        error = frame_at(frame, "error")
        status: Status = "success"
        if error or frame.get("status") == "error":
            status = "denied" if text_at(error, "type") in _DENIED else "failed"
        result = text_of(frame.get("output")) or text_at(error, "message")
        key = text_at(frame, "tool_id") or f"line:{line}"
        self._nodes.tool_result(key, status, result or None, at)

    def _result(self, frame: Frame, at: int | None, line: int) -> None:
        error, stats = frame_at(frame, "error"), frame_at(frame, "stats")
        is_failed = bool(error) or frame.get("status") == "error"
        if error:
            message = text_at(error, "message", "type") or "error"
            self._nodes.agent_error(f"line:{line}:error", message, at)
        facts: Frame = {
            "reason": text_at(error, "type"),
            "durationMs": number_at(stats, "duration_ms"),
            "inputTokens": number_at(stats, "input_tokens"),
            "outputTokens": number_at(stats, "output_tokens"),
        }
        status: Status = "failed" if is_failed else "success"
        self._nodes.session_outcome(f"line:{line}", status, at, facts)
