"""Nodes: what a stream shows, in the order in which it was first seen. Pure.

The core that all providers build with. A node is a plain JSON object; it is never changed in place
but replaced by another one at its first position, so whoever holds a node holds it for good. The
formats are in docs/specs/0004-replay.md.

What is still going on (a running tool, a text that grows) is *open*. Open things are kept as they
are; only a view of a stream that is over shows them as canceled, so folding can always go on.
"""

from typing import Literal

from filestore.replay.frames import Frame
from filestore.replay.tools import Kind, kind_of, summarise

Node = dict[str, object]
Status = Literal["running", "success", "failed", "denied", "canceled"]

CONTEXT_HEADING = "# Session Context"
"""How a message begins that only sets the scene."""


class Nodes:
    """The nodes of one stream."""

    __slots__ = ("_changed", "_growing", "_nodes", "_open")

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        # In the order of opening, which a set would lose.
        self._open: dict[str, None] = {}
        # Growing texts are kept in parts: to copy all of it for each word takes quadratic time.
        self._growing: dict[str, list[str]] = {}
        self._changed: dict[str, None] = {}

    def user_message(self, key: str, message: str, at: int | None) -> None:
        """What the user said."""
        node: Node = {"type": "user_message", "id": key, "message": message}
        if message.startswith(CONTEXT_HEADING):
            node["isStartup"] = True
        self._put(key, node, at)

    def markdown(
        self,
        key: str,
        content: str,
        at: int | None,
        *,
        is_thinking: bool = False,
        is_open: bool = False,
        is_canceled: bool = False,
        parent: str = "",
    ) -> None:
        """What the agent said or thought. Nothing is shown of an empty text."""
        if not content:
            if key in self._nodes:
                self.close(key)
            return
        metadata: Node = {}
        if is_thinking:
            metadata["thinking"] = True
        if is_canceled:
            metadata["canceled"] = True
        node: Node = {"type": "markdown", "id": key, "content": content, "metadata": metadata}
        if parent:
            node["parent"] = parent
        self._put(key, node, at)
        if is_open:
            self._open[key] = None

    def grow(
        self, key: str, delta: str, at: int | None, *, is_thinking: bool = False, parent: str = ""
    ) -> None:
        """Add to a text; the first part opens it."""
        if not delta:
            return
        parts = self._growing.get(key)
        if parts is not None:
            parts.append(delta)
            self._changed[key] = None
            return
        old = self._nodes.get(key)
        before = old.get("content") if old else ""
        text = before if type(before) is str else ""
        self.markdown(key, text + delta, at, is_thinking=is_thinking, is_open=True, parent=parent)
        self._growing[key] = [text + delta]

    def close(self, key: str) -> None:
        """Say that a text is complete."""
        self._gather(key)
        self._growing.pop(key, None)
        self._open.pop(key, None)

    def settle(self, key: str) -> None:
        """Say that a text may be complete; it can still grow."""
        self._open.pop(key, None)

    def tool(
        self,
        key: str,
        name: str,
        params: Frame,
        at: int | None,
        *,
        kind: Kind | None = None,
        summary: str = "",
        parent: str = "",
    ) -> None:
        """A tool is called. What is known of its end, if the call is told again, stays."""
        kind = kind or kind_of(name)
        node: Node = {
            "type": "tool",
            "id": key,
            "tool": kind,
            "toolName": name,
            "params": params,
            "status": "running",
            "summary": summary or summarise(kind, params),
            "collapsed": True,
        }
        if parent:
            node["parent"] = parent
        old = self._nodes.get(key)
        if old is not None and old["type"] == "tool":
            kept = ("status", "result", "duration")
            node |= {field: old[field] for field in kept if field in old}
        self._put(key, node, at)
        if node["status"] == "running":
            self._open[key] = None

    def tool_result(
        self,
        key: str,
        status: Status,
        result: str | None,
        at: int | None,
        *,
        duration_ms: int | None = None,
    ) -> None:
        """A tool has ended. What was denied stays denied, whatever error follows from it."""
        old = self._nodes.get(key)
        if old is None or old["type"] != "tool":
            # The call is not in the stream: its beginning is missing, or was never written.
            self.tool(key, "", {}, None)
            old = self._nodes[key]
        node = dict(old)
        if not (old["status"] == "denied" and status == "failed"):
            node["status"] = status
        if result is not None:
            node["result"] = result
        started = old.get("timestamp")
        if duration_ms is None and at is not None and type(started) is int:
            duration_ms = at - started
        if duration_ms is not None and duration_ms >= 0:
            node["duration"] = duration_ms
        self._put(key, node, None)
        if status == "running":
            self._open[key] = None

    def deny(self, key: str) -> None:
        """A tool was not allowed; its result may be known already."""
        old = self._nodes.get(key)
        if old is not None and old["type"] == "tool":
            self._put(key, {**old, "status": "denied"}, None)

    def agent_error(self, key: str, message: str, at: int | None) -> None:
        """Something went wrong. The same thing said twice running is shown once."""
        last = self._nodes[next(reversed(self._nodes))] if self._nodes else {}
        if not (last.get("type") == "agent_error" and last["message"] == message):
            self._put(key, {"type": "agent_error", "id": key, "message": message}, at)

    def session_outcome(self, key: str, status: Status, at: int | None, facts: Frame) -> None:
        """A turn or the session is over. Of the facts those that are known are kept."""
        known = {name: fact for name, fact in facts.items() if fact is not None and fact != ""}
        self._put(key, {"type": "session_outcome", "id": key, "status": status, **known}, at)

    def find(self, key: str) -> Node | None:
        """The node with this id, as it is now."""
        self._gather(key)
        return self._nodes.get(key)

    def is_open(self, key: str) -> bool:
        """True if the node is still going on."""
        return key in self._open

    def running(self) -> list[Node]:
        """The tools that have not ended, in order of their calls."""
        found = [self._nodes[key] for key in self._open]
        return [node for node in found if node["type"] == "tool"]

    def view(self, *, is_over: bool) -> list[Node]:
        """All nodes. If the stream is over, what is open in it has been canceled."""
        for key in self._growing:
            self._gather(key)
        if not is_over or not self._open:
            return list(self._nodes.values())
        return [_canceled(node) if key in self._open else node for key, node in self._nodes.items()]

    def take_changed(self) -> list[Node]:
        """The nodes that are new or different since this was asked last, as they are now."""
        for key in self._changed:
            self._gather(key)
        found = [self._nodes[key] for key in self._changed]
        self._changed.clear()
        return found

    def _put(self, key: str, node: Node, at: int | None) -> None:
        """Add a node, or replace the one with its id. A time that was known stays the first one."""
        old = self._nodes.get(key)
        if old is not None:
            self._growing.pop(key, None)
            self._open.pop(key, None)
            at = old.get("timestamp", at)  # type: ignore[assignment]  # only times stand there
        if at is not None:
            node["timestamp"] = at
        self._nodes[key] = node
        self._changed[key] = None

    def _gather(self, key: str) -> None:
        """Bring a growing text's node up to date."""
        parts = self._growing.get(key)
        if parts is not None and len(parts) > 1:
            parts[:] = ["".join(parts)]
            self._nodes[key] = {**self._nodes[key], "content": parts[0]}


def _canceled(node: Node) -> Node:
    if node["type"] == "tool":
        return {**node, "status": "canceled"}
    metadata = node["metadata"]
    assert type(metadata) is dict
    return {**node, "metadata": {**metadata, "canceled": True}}
