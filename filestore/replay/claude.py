"""Claude Code: the output of `--output-format stream-json` and the session files it keeps on disk.

Both say the same in the same way: a frame holds an API message. A message comes in pieces, one
content block a frame, all with the message's id; with partial messages each block has been streamed
before as deltas. So a block's node id is the message's id and the block's number, and a whole block
takes the place of the streamed one. Files on disk add times, and frames that are not the user's
although they say so (`isMeta`, summaries, echoes of commands).

Frames of a sub-agent name the call that started it. What they show is marked with that `parent`.
"""

import re

from filestore.replay.claude_blocks import Blocks
from filestore.replay.frames import (
    Frame,
    as_text,
    frame_at,
    frames_at,
    number_at,
    text_at,
    text_of,
    time_ms,
)
from filestore.replay.nodes import Nodes, Status

_BOOKKEEPING = frozenset((
    "summary", "file-history-snapshot", "queue-operation", "progress",
    "last-prompt", "ai-title", "custom-title", "agent-name", "agent-color", "tag", "mode",
    "permission-mode", "pr-link", "worktree-state", "control_request", "control_response",
    "control_cancel_request", "keep_alive", "rate_limit_event", "tool_progress",
    "tool_use_summary", "auth_status", "prompt_suggestion",
))  # fmt: skip
"""Types of frames that show nothing."""
_RECOGNISED = frozenset(("file-history-snapshot", "queue-operation", "stream_event"))

_DENIALS = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "Permission to use ",
    "Claude requested permissions to ",
    "User rejected tool use",
    "This command requires approval",
    "Permission for this tool use was denied",
)
_INTERRUPTED = "[Request interrupted by user"
_COMMAND = re.compile(r"<command-name>\s*(.*?)\s*</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>\s*(.*?)\s*</command-args>", re.DOTALL)
_INPUT = re.compile(r"<(bash|user-memory)-input>\s*(.*?)\s*</", re.DOTALL)
_INPUT_SIGNS = {"bash": "!", "user-memory": "#"}
_PRINTED = ("<local-command-", "<task-notification>", "<bash-stdout>", "<bash-stderr>")
_REMINDERS = ("<system-reminder>", "<ide_")
"""How blocks begin that the program, or the editor, puts beside what the user typed."""
_ERROR = re.compile(r"<tool_use_error>(.*)</tool_use_error>\s*\Z", re.DOTALL)
_COMPACTED = "Conversation compacted"


class Claude:
    """Folds frames of Claude Code."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._blocks = Blocks(nodes)
        self._is_compacted = False
        # Session files tell a sub-agent's frames only by their chain: frame id to the call's id.
        self._chains: dict[str, str] = {}

    @staticmethod
    def recognises(frame: Frame) -> bool:
        """True if nobody else writes such frames."""
        kind = frame.get("type")
        if kind == "assistant" or kind == "user":
            return "message" in frame
        if kind == "system" or kind == "result":
            return type(frame.get("subtype")) is str
        if kind == "summary":
            return "leafUuid" in frame
        return type(kind) is str and kind in _RECOGNISED

    def fold(self, frame: Frame, line: int) -> bool:
        """Take in one frame. False: it is not known."""
        kind = frame.get("type")
        if kind == "stream_event":
            self._blocks.stream(frame_at(frame, "event"), self._parent(frame))
        elif kind == "assistant":
            self._assistant(frame, line)
        elif kind == "user":
            self._user(frame, line)
        elif kind == "system":
            self._system(frame, line)
        elif kind == "result":
            self._result(frame, line)
        elif kind == "attachment":
            self._attachment(frame, line)
        else:
            return type(kind) is str and kind in _BOOKKEEPING
        return True

    def _parent(self, frame: Frame) -> str:
        """The call that started the sub-agent a frame is of; empty for the agent itself."""
        parent = text_at(frame, "parent_tool_use_id")
        if parent or frame.get("isSidechain") is not True:
            return parent
        before = text_at(frame, "parentUuid")
        parent = self._chains.get(before, "")
        if before not in self._chains:
            # The first frame of a chain is the prompt, word for word as in the call.
            prompt = text_of(frame_at(frame, "message").get("content"))
            calls = [call for call in self._nodes.running() if call["tool"] == "Task"]
            asked = [call for call in calls if _prompt(call) == prompt]
            parent = str((asked or calls)[-1]["id"]) if calls else ""
        self._chains[text_at(frame, "uuid")] = parent
        return parent

    def _assistant(self, frame: Frame, line: int) -> None:
        message = frame_at(frame, "message")
        content = message.get("content")
        at = time_ms(frame.get("timestamp"))
        parent = self._parent(frame)
        if frame.get("isApiErrorMessage") is True or text_at(frame, "error"):
            key = text_at(frame, "uuid") or f"line:{line}"
            self._nodes.agent_error(key, text_of(content) or text_at(frame, "error"), at)
            return
        blocks = [{"type": "text", "text": content}] if type(content) is str else content
        if type(blocks) is list:
            uuid = text_at(frame, "uuid")
            key = text_at(message, "id") or uuid or f"line:{line}"
            self._blocks.whole(key, uuid, blocks, at, parent)

    def _user(self, frame: Frame, line: int) -> None:
        message = frame.get("message")
        content = message.get("content") if type(message) is dict else message
        at = time_ms(frame.get("timestamp"))
        parent = self._parent(frame)
        if type(content) is list:
            for block in content:
                if type(block) is dict and block.get("type") == "tool_result":
                    self._tool_result(block, frame, at)
            content = [block for block in content if not _is_reminder(block)]
        text = text_of(content)
        was_compacted, self._is_compacted = self._is_compacted, False
        if not text or parent:
            return
        key = text_at(frame, "uuid") or f"line:{line}"
        if frame.get("isCompactSummary") is True or (was_compacted and _is_synthetic(frame)):
            self._nodes.markdown(key, text, at)
        elif text.startswith(_INTERRUPTED):
            self._nodes.markdown(key, text, at, is_canceled=True)
        elif not _is_synthetic(frame):
            typed = _typed(text)
            if typed:
                self._nodes.user_message(key, typed, at)

    def _attachment(self, frame: Frame, line: int) -> None:
        """What the user typed while the agent was busy never becomes a frame of the user's."""
        attached = frame_at(frame, "attachment")
        is_prompt = attached.get("commandMode", "prompt") == "prompt"
        text = text_of(attached.get("prompt"))
        if attached.get("type") == "queued_command" and is_prompt and text:
            key = text_at(frame, "uuid") or f"line:{line}"
            self._nodes.user_message(key, text, time_ms(frame.get("timestamp")))

    def _tool_result(self, block: Frame, frame: Frame, at: int | None) -> None:
        key = text_at(block, "tool_use_id")
        if not key:
            return
        result = as_text(block.get("content"))
        if wrapped := _ERROR.match(result):
            result = wrapped[1]
        status: Status = "success"
        if block.get("is_error") is True:
            is_denied = result.startswith(_DENIALS) or frame.get("toolUseResult") in _DENIALS
            status = "denied" if is_denied else "failed"
        self._nodes.tool_result(key, status, result, at)

    def _system(self, frame: Frame, line: int) -> None:
        subtype = frame.get("subtype")
        key = text_at(frame, "uuid") or f"line:{line}"
        at = time_ms(frame.get("timestamp"))
        content = text_at(frame, "content")
        if subtype == "compact_boundary":
            self._is_compacted = True
            self._nodes.markdown(key, content or _COMPACTED, at)
        elif subtype == "permission_denied":
            self._nodes.deny(text_at(frame, "tool_use_id"))
        elif subtype == "local_command" and (typed := _typed(content)):
            self._nodes.user_message(key, typed, at)

    def _result(self, frame: Frame, line: int) -> None:
        key = text_at(frame, "uuid") or f"line:{line}"
        at = time_ms(frame.get("timestamp"))
        for denial in frames_at(frame, "permission_denials"):
            self._nodes.deny(text_at(denial, "tool_use_id"))
        subtype = text_at(frame, "subtype")
        is_failed = frame.get("is_error") is True or subtype.startswith("error")
        if is_failed:
            errors = frame.get("errors")
            texts = [text for text in errors if type(text) is str] if type(errors) is list else []
            message = "\n".join(texts) or text_at(frame, "result") or subtype
            self._nodes.agent_error(f"{key}:error", message, at)
        usage = frame_at(frame, "usage")
        facts: Frame = {
            "reason": "" if subtype == "success" else subtype,
            "durationMs": number_at(frame, "duration_ms"),
            "turns": number_at(frame, "num_turns"),
            "costUsd": number_at(frame, "total_cost_usd"),
            "inputTokens": number_at(usage, "input_tokens"),
            "outputTokens": number_at(usage, "output_tokens"),
        }
        self._nodes.session_outcome(key, "failed" if is_failed else "success", at, facts)


def _prompt(call: dict[str, object]) -> str:
    params = call["params"]
    return text_at(params, "prompt") if type(params) is dict else ""


def _is_synthetic(frame: Frame) -> bool:
    """True if the program wrote what stands there in the user's name."""
    return frame.get("isMeta") is True or frame.get("isSynthetic") is True


def _is_reminder(block: object) -> bool:
    """True if the program put a block of text beside the user's."""
    return type(block) is dict and text_at(block, "text").startswith(_REMINDERS)


def _typed(text: str) -> str:
    """What the user typed: a command is recorded in tags, and so is what it printed."""
    if text.startswith(_PRINTED):
        return ""
    if entered := _INPUT.match(text):
        return _INPUT_SIGNS[entered[1]] + entered[2]
    command = _COMMAND.search(text) if text.startswith("<command-") else None
    if command is None:
        return text
    arguments = _ARGUMENTS.search(text)
    return f"{command[1]} {arguments[1] if arguments else ''}".strip()
