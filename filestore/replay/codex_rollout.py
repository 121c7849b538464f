"""Codex's session files, `rollout-*.jsonl`.

A line is a time, a type and a payload. What is said stands there more than once: as
`response_item`, the item of the API, and as `event_msg`, what the terminal showed, in newer files
as turn items. Each may be missing, so all are read, and what was told in another way already is
dropped. Only items of the API hold the results of tools; only events tell the user's own words from
what the program put into the user's mouth. The oldest files have items without time and payload.
"""

import re
from hashlib import blake2b
from typing import Literal

from filestore.replay.codex_turn_items import call_in, said_in
from filestore.replay.frames import (
    IMAGE,
    Frame,
    as_text,
    frame_at,
    number_at,
    parse,
    text_at,
    text_of,
    time_ms,
)
from filestore.replay.nodes import Nodes, Status

_LINES = frozenset((
    "session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state",
    "inter_agent_communication_metadata",
))  # fmt: skip
_ITEMS = frozenset((
    "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
    "local_shell_call", "web_search_call", "tool_search_call", "tool_search_output",
    "image_generation_call", "reasoning",
))  # fmt: skip
_BOOKKEEPING = frozenset((
    "token_count", "task_started", "turn_started", "context_compacted", "entered_review_mode",
    "exited_review_mode", "undo_completed", "thread_rolled_back", "thread_name_updated",
    "ghost_snapshot", "compaction", "context_compaction", "other",
    "agent_reasoning_section_break", "turn_diff", "background_event", "mcp_startup_complete",
))  # fmt: skip
_INJECTED = re.compile(r"<[a-zA-Z_ ]+>|# AGENTS\.md instructions")
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_REJECTED = re.compile(r"(?:exec command |patch )?rejected by user")
_IMAGE_TAG = re.compile(r"</?image\b[^>]*>\Z")
_Way = Literal["item", "event", "turn item"]
_BITS: dict[_Way, int] = {"item": 1, "event": 2, "turn item": 4}
_HEAD_CHARS = 400
"""An exit code stands in the head of a result, before the output."""


class Rollout:
    """Folds lines of session files."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        # By who said what: the ways in which it was told. One that tells it again says it again.
        self._told: dict[bytes, int] = {}

    @staticmethod
    def recognises(frame: Frame) -> bool:
        """True if nobody else writes such lines."""
        kind = frame.get("type")
        if type(kind) is not str:
            return "record_type" in frame or ("instructions" in frame and "id" in frame)
        if kind in _LINES:
            return type(frame.get("payload")) is dict
        return kind in _ITEMS or (kind == "message" and type(frame.get("content")) is list)

    def fold(self, frame: Frame, line: int) -> bool:
        """Take in one line. False: it is not known."""
        kind = frame.get("type")
        if type(kind) is not str:
            return Rollout.recognises(frame)
        at = time_ms(frame.get("timestamp"))
        payload = frame_at(frame, "payload")
        if kind == "response_item":
            return self._item(payload, at, line)
        if kind == "event_msg":
            return self._event(payload, at, line)
        if kind == "compacted":
            text = text_at(payload, "message") or "Conversation compacted"
            self._nodes.markdown(f"line:{line}", text, at)
            return True
        return kind in _LINES or self._item(frame, at, line)

    def _item(self, item: Frame, at: int | None, line: int) -> bool:
        kind = text_at(item, "type")
        key = text_at(item, "call_id", "id") or f"line:{line}"
        if kind == "message":
            self._message(item, at, line)
        elif kind == "reasoning":
            # Events tell the parts of a summary one by one.
            found = _texts(item.get("summary")) or _texts(item.get("content"))
            for part, text in enumerate(found):
                self._say("thinking", text, at, line, "item", part=part)
        elif kind == "function_call":
            self._nodes.tool(key, text_at(item, "name"), _arguments(item), at)
        elif kind == "custom_tool_call":
            params = {"input": text_at(item, "input")}
            self._nodes.tool(key, text_at(item, "name"), params, at)
        elif kind in ("local_shell_call", "web_search_call"):
            name = kind.removesuffix("_call")
            self._nodes.tool(key, name, frame_at(item, "action"), at)
            if kind == "web_search_call" and item.get("status") == "completed":
                self._nodes.tool_result(key, "success", None, None)
        elif kind == "tool_search_call":
            self._nodes.tool(key, "tool_search", _arguments(item), at)
            if not text_at(item, "call_id"):
                # The server searched: nothing ties what it found to the call.
                self._nodes.tool_result(key, "success", None, None)
        elif kind == "tool_search_output":
            if text_at(item, "call_id"):
                self._output(key, item.get("tools"), at)
        elif kind == "image_generation_call":
            params = {"prompt": text_at(item, "revised_prompt")}
            self._nodes.tool(key, "image_generation", params, at)
            if item.get("result"):
                self._nodes.tool_result(key, "success", IMAGE, None)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._output(key, item.get("output"), at)
        else:
            return kind in _BOOKKEEPING
        return True

    def _message(self, item: Frame, at: int | None, line: int) -> None:
        role, content = item.get("role"), item.get("content")
        if role == "assistant":
            self._say("agent", text_of(content), at, line, "item")
        elif role == "user":
            # A picture stands between tags of its own; events tell pictures and text apart.
            blocks = content if type(content) is list else [content]
            texts = [text_of([block]) for block in blocks if not _is_image_tag(block)]
            text = "\n".join(text for text in texts if text and text != IMAGE)
            if not _INJECTED.match(text):
                self._say("user", text, at, line, "item", pictures=texts.count(IMAGE))

    def _say(
        self,
        who: str,
        text: str,
        at: int | None,
        line: int,
        way: _Way,
        *,
        part: int = 0,
        pictures: int = 0,
    ) -> None:
        """Show what was said, unless it was told in another way already."""
        shown = "\n".join([text] * bool(text) + [IMAGE] * pictures)
        if not shown:
            return
        # Not all ways keep the white space between the parts of a message.
        words = f"{who} {''.join(shown.split())}"
        digest = blake2b(words.encode(), digest_size=16).digest()
        told = self._told.get(digest, 0)
        if told and not told & _BITS[way]:
            self._told[digest] = told | _BITS[way]
            return
        self._told[digest] = _BITS[way]
        key = f"line:{line}:{part}" if part else f"line:{line}"
        if who == "user":
            self._nodes.user_message(key, shown, at)
        else:
            self._nodes.markdown(key, shown, at, is_thinking=who == "thinking")

    def _output(self, key: str, output: object, at: int | None) -> None:
        """The result of a call: text, blocks, or JSON of text and figures."""
        told = parse(output) if type(output) is str and output.startswith('{"output"') else None
        if told is None and type(output) is dict:
            told = output
        text = as_text(told.get("output", told.get("content"))) if told else as_text(output)
        figures = frame_at(told or {}, "metadata")
        code = number_at(figures, "exit_code")
        if code is None and (found := _EXIT.search(text[:_HEAD_CHARS])):
            code = int(found[1])
        is_failed = bool(code) or bool(told and told.get("success") is False)
        status: Status = "failed" if is_failed else "success"
        if _REJECTED.match(text):
            status = "denied"
        seconds = number_at(figures, "duration_seconds")
        duration = int(seconds * 1000) if seconds is not None and abs(seconds) < 1e9 else None
        self._nodes.tool_result(key, status, text, at, duration_ms=duration)

    def _event(self, event: Frame, at: int | None, line: int) -> bool:
        kind = text_at(event, "type")
        if kind == "user_message":
            lists = [event.get(key) for key in ("images", "local_images")]
            pictures = sum(len(found) for found in lists if type(found) is list)
            text = text_at(event, "message")
            self._say("user", text, at, line, "event", pictures=pictures)
        elif kind == "agent_message":
            self._say("agent", text_at(event, "message"), at, line, "event")
        elif kind in ("agent_reasoning", "agent_reasoning_raw_content"):
            self._say("thinking", text_at(event, "text"), at, line, "event")
        elif kind in ("error", "stream_error"):
            self._nodes.agent_error(f"line:{line}", text_at(event, "message") or kind, at)
        elif kind in ("task_complete", "turn_complete"):
            facts: Frame = {"durationMs": number_at(event, "duration_ms")}
            self._nodes.session_outcome(f"line:{line}", "success", at, facts)
        elif kind == "turn_aborted":
            facts = {"reason": text_at(event, "reason")}
            self._nodes.session_outcome(f"line:{line}", "canceled", at, facts)
        elif kind == "item_completed":
            self._turn_item(frame_at(event, "item"), at, line)
        elif kind.endswith("_end"):
            self._end(event, at)
        else:
            # Everything else that events tell is told by items too.
            return kind in _BOOKKEEPING or kind.endswith(("_begin", "_delta", "_request"))
        return True

    def _turn_item(self, item: Frame, at: int | None, line: int) -> None:
        """What is told whole; calls only if no item of the API has begun them."""
        key = text_at(item, "id") or f"line:{line}"
        if said := said_in(item):
            for part, text in enumerate(said.texts):
                way: _Way = "turn item"
                self._say(said.who, text, at, line, way, part=part, pictures=said.pictures)
        elif self._nodes.find(key):
            self._end({**item, "call_id": key}, at)
        elif call := call_in(item):
            self._nodes.tool(key, call.name, call.params, at, summary=call.summary)
            self._nodes.tool_result(key, call.status, call.result or None, None)

    def _end(self, event: Frame, at: int | None) -> None:
        """The end of a call that an item has begun: it alone may know that it was declined."""
        key = text_at(event, "call_id")
        call = self._nodes.find(key)
        if call is None or call["type"] != "tool":
            return
        if event.get("status") == "declined":
            self._nodes.deny(key)
        elif call["status"] == "running" and "aggregated_output" in event:
            status: Status = "failed" if event.get("exit_code") else "success"
            self._nodes.tool_result(key, status, text_at(event, "aggregated_output"), at)


def _texts(content: object) -> list[str]:
    """The texts of a summary, one by one."""
    found = content if type(content) is list else [content]
    return [text for part in found if (text := text_of([part]))]


def _arguments(item: Frame) -> Frame:
    """The parameters of a call: an object, or as JSON."""
    arguments = text_at(item, "arguments")
    told = {"input": arguments} if arguments else frame_at(item, "arguments")
    return parse(arguments) or told


def _is_image_tag(block: object) -> bool:
    return type(block) is dict and _IMAGE_TAG.match(text_at(block, "text")) is not None
