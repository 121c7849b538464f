"""Codex: the output of `codex exec --json`. Session files are in codex_rollout.py.

A turn is made of items that are started, updated and completed, each time told whole. Item ids
count from 0 in every run, and runs that resume a thread may follow each other in a stream; so the
ids of later runs carry the run's number. There are no times, and the prompt is not repeated.
"""

from filestore.replay.codex_rollout import Rollout
from filestore.replay.frames import Frame, as_text, frame_at, frames_at, number_at, text_at
from filestore.replay.nodes import Nodes, Status
from filestore.replay.tools import Kind, one_line

_STATUS: dict[object, Status] = {
    "in_progress": "running",
    "completed": "success",
    "failed": "failed",
    "declined": "denied",
}
_KINDS = frozenset((
    "thread.started", "turn.started", "turn.completed", "turn.failed", "item.started",
    "item.updated", "item.completed",
))  # fmt: skip
_CALLS = frozenset((
    "command_execution", "file_change", "mcp_tool_call", "collab_tool_call", "web_search",
))  # fmt: skip


class Codex:
    """Folds frames of Codex, as they are printed and as they are kept on disk."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._rollout = Rollout(nodes)
        self._run = 0

    @staticmethod
    def recognises(frame: Frame) -> bool:
        """True if nobody else writes such frames."""
        kind = frame.get("type")
        return (type(kind) is str and kind in _KINDS) or Rollout.recognises(frame)

    def fold(self, frame: Frame, line: int) -> bool:
        """Take in one frame. False: it is not known."""
        kind = frame.get("type")
        if type(kind) is not str:
            return self._rollout.fold(frame, line)
        if kind.startswith("item."):
            return self._item(frame_at(frame, "item"), kind == "item.completed", line)
        if kind == "thread.started":
            self._run += 1
        elif kind == "turn.completed":
            self._ended(frame, "success", line)
        elif kind == "turn.failed":
            message = text_at(frame_at(frame, "error"), "message") or "turn failed"
            self._nodes.agent_error(f"line:{line}:error", message, None)
            self._ended(frame, "failed", line)
        elif kind == "error":
            self._nodes.agent_error(f"line:{line}", text_at(frame, "message") or kind, None)
        elif kind != "turn.started":
            return self._rollout.fold(frame, line)
        return True

    def _ended(self, frame: Frame, status: Status, line: int) -> None:
        usage = frame_at(frame, "usage")
        facts: Frame = {
            "inputTokens": number_at(usage, "input_tokens"),
            "outputTokens": number_at(usage, "output_tokens"),
        }
        self._nodes.session_outcome(f"line:{line}", status, None, facts)

    def _item(self, item: Frame, is_complete: bool, line: int) -> bool:
        kind = text_at(item, "type", "item_type")
        key = text_at(item, "id") or f"line:{line}"
        if self._run > 1:
            key = f"{self._run}:{key}"
        if kind in ("agent_message", "assistant_message", "reasoning", "plan"):
            is_thinking = kind == "reasoning"
            text = text_at(item, "text")
            self._nodes.markdown(key, text, None, is_thinking=is_thinking, is_open=not is_complete)
        elif kind in _CALLS:
            self._call(key, kind, item, is_complete)
        elif kind == "todo_list":
            self._nodes.markdown(key, _checklist(item), None)
        elif kind == "error":
            self._nodes.agent_error(key, text_at(item, "message") or kind, None)
        else:
            return False
        return True

    def _call(self, key: str, kind: str, item: Frame, is_complete: bool) -> None:
        name, params, summary = _told(kind, item)
        call_kind: Kind | None = "Task" if kind == "collab_tool_call" else None
        old = self._nodes.find(key)
        if old is None or old.get("params") != params:
            self._nodes.tool(key, name, params, None, kind=call_kind, summary=summary)
        status = _STATUS.get(text_at(item, "status"), "success" if is_complete else "running")
        outcome = _outcome(item)
        if status != "running" or outcome:
            # A command that is never seen to end shows what it had printed.
            self._nodes.tool_result(key, status, outcome, None)


def _told(kind: str, item: Frame) -> tuple[str, Frame, str]:
    """Name, parameters and summary of a call; an empty summary is made from the parameters."""
    if kind == "command_execution":
        return kind, {"command": text_at(item, "command")}, ""
    if kind == "file_change":
        changes = frames_at(item, "changes")
        paths = [text_at(change, "path") for change in changes]
        return kind, {"changes": changes}, one_line(", ".join(paths))
    if kind == "mcp_tool_call":
        name = f"{text_at(item, 'server')}.{text_at(item, 'tool')}"
        return name, frame_at(item, "arguments"), ""
    if kind == "collab_tool_call":
        return text_at(item, "tool") or kind, {"prompt": text_at(item, "prompt")}, ""
    # A search has words; opening a page that was found, or searching in it, has none.
    query = text_at(item, "query") or text_at(frame_at(item, "action"), "url", "pattern")
    return kind, {"query": query}, ""


def _outcome(item: Frame) -> str | None:
    """The result of a call; None if it has none."""
    message = text_at(frame_at(item, "error"), "message")
    if message:
        return message
    if "aggregated_output" in item:
        return text_at(item, "aggregated_output")
    result = frame_at(item, "result")
    if result:
        return as_text(result.get("content")) or as_text(result.get("structured_content"))
    return None


def _checklist(item: Frame) -> str:
    items = frames_at(item, "items")
    marks = ["x" if entry.get("completed") is True else " " for entry in items]
    texts = [text_at(entry, "text") for entry in items]
    return "\n".join(f"- [{mark}] {text}" for mark, text in zip(marks, texts, strict=True))
