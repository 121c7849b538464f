"""The Agent Client Protocol: JSON-RPC between an editor and an agent, both directions together.

Texts come in chunks without an id (or with a `messageId`); those of one kind that follow each other
are one text. They are open only while a prompt waits for its answer: a stream may hold the agent's
side alone, and then nobody says when a text ends. There are no times.

The protocol knows no sub-agents and names no tools. The adapter of Claude Code does, in `_meta`.
"""

from typing import cast

from filestore.replay.frames import Frame, as_text, frame_at, frames_at, text_at, text_of
from filestore.replay.nodes import Nodes, Status
from filestore.replay.tools import Kind, one_line

_KINDS: dict[str, Kind] = {
    "read": "Read",
    "edit": "Edit",
    "search": "Grep",
    "execute": "Bash",
}
_STATUS: dict[str, Status] = {
    "pending": "running",
    "in_progress": "running",
    "completed": "success",
    "failed": "failed",
}
_CHUNKS = frozenset(("user_message_chunk", "agent_message_chunk", "agent_thought_chunk"))
_MARKS = {"completed": "x", "in_progress": "~"}
_BOOKKEEPING = frozenset((
    "available_commands_update", "current_mode_update", "config_option_update",
    "session_info_update", "usage_update",
))  # fmt: skip
_METHODS = ("session/", "fs/", "terminal/", "initialize", "authenticate", "$/")


class Acp:
    """Folds messages of the Agent Client Protocol."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._chunk = ("", "")
        """Kind and node id of the text that is growing."""
        self._turn = 0
        self._prompts: set[object] = set()
        # What the user may answer, by the id of the question: the call, and which answers allow it.
        self._questions: dict[object, tuple[str, dict[str, str]]] = {}
        self._sessions: dict[str, int] = {}

    @staticmethod
    def recognises(frame: Frame) -> bool:
        """True if nobody else writes such messages."""
        method = frame.get("method")
        if type(method) is not str or "jsonrpc" not in frame:
            return False
        # Others begin with `initialize` too, but their versions are no numbers.
        version = frame_at(frame, "params").get("protocolVersion")
        return method.startswith("session/") or (method == "initialize" and type(version) is int)

    def fold(self, frame: Frame, line: int) -> bool:
        """Take in one message. False: it is not known."""
        method = frame.get("method")
        if type(method) is not str:
            return self._answer(frame, line)
        params = frame_at(frame, "params")
        if method == "session/update":
            return self._update(frame_at(params, "update"), self._scope(params), line)
        if method == "session/prompt":
            self._end_text()
            self._turn += 1
            self._prompts.add(_id(frame))
            text = text_of(params.get("prompt"))
            if text:
                self._nodes.user_message(f"line:{line}", text, None)
        elif method == "session/request_permission":
            self._ask(frame, params, line)
        return method.startswith(_METHODS)

    def _scope(self, params: Frame) -> str:
        """What sets ids of one session apart from those of another in the same stream."""
        session = text_at(params, "sessionId")
        number = self._sessions.setdefault(session, len(self._sessions) + 1)
        return f"{number}:" if number > 1 else ""

    def _end_text(self) -> None:
        if self._chunk[1]:
            self._nodes.close(self._chunk[1])
            self._chunk = ("", "")

    def _update(self, update: Frame, scope: str, line: int) -> bool:
        kind = text_at(update, "sessionUpdate")
        if kind in _CHUNKS:
            self._text(kind, update, scope, line)
        elif kind in ("tool_call", "tool_call_update"):
            self._end_text()
            self._tool(update, scope, line)
        elif kind == "plan":
            self._end_text()
            self._nodes.markdown(f"{scope}plan:{self._turn}", _plan(update), None)
        else:
            return kind in _BOOKKEEPING
        return True

    def _text(self, kind: str, update: Frame, scope: str, line: int) -> None:
        text = text_of(update.get("content"))
        told = text_at(update, "messageId")
        parent = _parent(update, scope)
        before, key = self._chunk
        if before != kind + parent or (told and key != scope + told):
            self._end_text()
            key = scope + told if told else f"line:{line}"
            self._chunk = (kind + parent, key)
        if not text:
            return
        if kind == "user_message_chunk":
            node = self._nodes.find(key)
            said = node.get("message", "") if node else ""
            self._nodes.user_message(key, f"{said}{text}", None)
            return
        is_thinking = kind == "agent_thought_chunk"
        self._nodes.grow(key, text, None, is_thinking=is_thinking, parent=parent)
        if not self._prompts:
            self._nodes.settle(key)

    def _tool(self, update: Frame, scope: str, line: int) -> None:
        told = text_at(update, "toolCallId")
        key = scope + told if told else f"line:{line}"
        old = self._nodes.find(key)
        old = old if old and old["type"] == "tool" else {}
        title = text_at(update, "title")
        # Later titles tell how far the call is; it keeps the name it was given first.
        told_name = text_at(update, "name") or text_at(_of_claude(update), "toolName")
        name = told_name or str(old.get("toolName", title))
        params = frame_at(update, "rawInput") or old.get("params") or _params(update)
        assert type(params) is dict
        kind = _KINDS.get(text_at(update, "kind")) or cast("Kind | None", old.get("tool"))
        summary = one_line(title or str(old.get("summary", "")))
        parent = _parent(update, scope) or str(old.get("parent", ""))
        self._nodes.tool(key, name, params, None, kind=kind, summary=summary, parent=parent)
        status = _STATUS.get(text_at(update, "status"))
        result = _result(update, params)
        if status is not None or result is not None:
            self._nodes.tool_result(key, status or "running", result, None)

    def _ask(self, frame: Frame, params: Frame, line: int) -> None:
        call = frame_at(params, "toolCall")
        if call:
            self._tool(call, self._scope(params), line)
        options = frames_at(params, "options")
        kinds = {text_at(option, "optionId"): text_at(option, "kind") for option in options}
        self._questions[_id(frame)] = (self._scope(params) + text_at(call, "toolCallId"), kinds)

    def _answer(self, frame: Frame, line: int) -> bool:
        """The answer to a prompt or to a question; others show nothing."""
        if "result" not in frame and "error" not in frame:
            return False
        key, result = _id(frame), frame_at(frame, "result")
        outcome = frame_at(result, "outcome")
        if outcome and key in self._questions:
            call, kinds = self._questions.pop(key)
            if outcome.get("outcome") == "cancelled":
                self._nodes.tool_result(call, "canceled", None, None)
            elif kinds.get(text_at(outcome, "optionId"), "").startswith("reject"):
                self._nodes.deny(call)
        elif key in self._prompts and ("stopReason" in result or "error" in frame):
            self._prompts.discard(key)
            self._end_text()
            self._ended(frame, text_at(result, "stopReason"), line)
        return True

    def _ended(self, frame: Frame, reason: str, line: int) -> None:
        status: Status = "canceled" if reason == "cancelled" else "success"
        if "error" in frame:
            status = "failed"
            message = text_at(frame_at(frame, "error"), "message") or "error"
            self._nodes.agent_error(f"line:{line}:error", message, None)
        elif reason == "refusal":
            status = "failed"
        self._nodes.session_outcome(f"line:{line}", status, None, {"reason": reason})


def _id(frame: Frame) -> object:
    """The id of a request; lists and objects are none."""
    key = frame.get("id")
    return key if type(key) is str or type(key) is int else None


def _of_claude(update: Frame) -> Frame:
    return frame_at(frame_at(update, "_meta"), "claudeCode")


def _parent(update: Frame, scope: str) -> str:
    """The call that started the sub-agent an update is of."""
    parent = text_at(_of_claude(update), "parentToolUseId")
    return scope + parent if parent else ""


def _params(update: Frame) -> Frame:
    """What a call that does not show its parameters is about: the change it makes, or a file."""
    for part in frames_at(update, "content"):
        if part.get("type") == "diff":
            return {key: part[key] for key in ("path", "oldText", "newText") if key in part}
    paths = [text_at(place, "path") for place in frames_at(update, "locations")]
    return {"path": paths[0]} if paths and paths[0] else {}


def _result(update: Frame, params: Frame) -> str | None:
    """What a call has produced; None: nothing is said of it."""
    texts = []
    for part in frames_at(update, "content"):
        if part.get("type") == "diff":
            if part.get("newText") != params.get("newText"):
                texts.append(f"{text_at(part, 'path')}\n{text_at(part, 'newText')}")
        else:
            texts.append(text_of(part.get("content")))
    text = "\n".join(text for text in texts if text)
    if text:
        return text
    return as_text(update["rawOutput"]) if update.get("rawOutput") is not None else None


def _plan(update: Frame) -> str:
    entries = frames_at(update, "entries")
    marks = [_MARKS.get(text_at(entry, "status"), " ") for entry in entries]
    texts = [text_at(entry, "content") for entry in entries]
    return "\n".join(f"- [{mark}] {text}" for mark, text in zip(marks, texts, strict=True))
