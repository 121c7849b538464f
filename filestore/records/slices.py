"""Slices of a session's messages: so many characters of text, so that reading the past is cheap."""

import json
from collections import deque
from typing import Any, NamedTuple

from filestore.engine.base import ReadTx
from filestore.journal.model import JournalRow
from filestore.records.entities import records_of
from filestore.records.messages import Message, ending_at
from filestore.times import iso

CHARS_DEFAULT = 8000
CHARS_MIN, CHARS_MAX = 100, 200_000
MESSAGES_MAX = 1000


class Said(NamedTuple):
    """One message as text."""

    seq: int
    role: str
    text: str
    timestamp: str | None


async def newest(
    tx: ReadTx, row: JournalRow, *, before_seq: int | None, chars_max: int
) -> list[Said]:
    """Messages before a seq, the newest that fill a budget and one more, in order."""
    found: list[Said] = []
    size = 0
    seen = row if before_seq is None else row._replace(records=min(row.records, before_seq))
    async for record in records_of(tx, seen, "message", is_latest_first=True):
        message = await ending_at(tx, row, record)
        if message is None:
            continue
        found.append(_said(message))
        if size >= chars_max or len(found) > MESSAGES_MAX:
            break
        size += len(found[-1].text)
    return found[::-1]


class Newest:
    """Of messages in order, the newest that fill a budget, and one more."""

    def __init__(self, chars_max: int) -> None:
        self._kept: deque[Said] = deque()
        self._chars_max = chars_max
        self._size = 0

    @property
    def found(self) -> list[Said]:
        """Them, in order."""
        return list(self._kept)

    def add(self, said: Said) -> None:
        """The next one."""
        self._kept.append(said)
        self._size += len(said.text)
        # The first one goes if those behind the second one fill the budget.
        while len(self._kept) > MESSAGES_MAX + 1 or (
            len(self._kept) > 2
            and self._size - len(self._kept[0].text) - len(self._kept[1].text) >= self._chars_max
        ):
            self._size -= len(self._kept.popleft().text)


def cut(found: list[Said], chars_max: int) -> dict[str, Any]:
    """What fits into the budget of messages in order, the newest; `before`: where those begin that
    do not. At least one message is shown, if there is any, of a long one its end.
    """
    shown: list[dict[str, Any]] = []
    left = chars_max
    for said in reversed(found):
        if (len(said.text) > left and shown) or len(shown) == MESSAGES_MAX:
            break
        row: dict[str, Any] = {"seq": said.seq, "role": said.role, "text": said.text[-left:]}
        if said.timestamp is not None:
            row["timestamp"] = said.timestamp
        if len(said.text) > left:
            row["cut_chars"] = len(said.text) - left
        left = max(0, left - len(said.text))
        shown.append(row)
    answer: dict[str, Any] = {"messages": shown[::-1]}
    if len(shown) < len(found):
        answer["before"] = shown[-1]["seq"]
    return answer


def _said(message: Message) -> Said:
    return Said(message.seq, message.role, text_of(message.content), iso(message.at_ms))


def text_of(content: dict[str, Any]) -> str:
    """A message as text: what was said, and tools in one line each."""
    match content.get("type"):
        case "text":
            return str(content.get("text", ""))
        case "tool":
            call = _line(content.get("tool"), content.get("args"))
            return f"{call}\n→ {_told(content.get('result'))}"
        case "parts":
            return "\n\n".join(_part(part) for part in content["parts"])
    return _told(content)


def _part(part: dict[str, Any]) -> str:
    match part["type"]:
        case "text" | "reasoning":
            return str(part["text"])
        case "tool_call":
            return _line(part["name"], part["args"])
        case "tool_result":
            return f"→ {_told(part['result'])}"
    return _told(part)


def _line(name: object, args: object) -> str:
    return f"[{name} {_told(args)}]" if args else f"[{name}]"


def _told(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def said_of_node(seq: int, node: dict[str, Any]) -> Said:
    """A node of a stream (docs/specs/0004-replay.md) as a message."""
    at = node.get("timestamp")
    timestamp = iso(at) if type(at) is int else None
    match node.get("type"):
        case "user_message":
            return Said(seq, "user", str(node.get("message", "")), timestamp)
        case "markdown":
            return Said(seq, "agent", str(node.get("content", "")), timestamp)
        case "tool":
            call = _line(node.get("toolName") or node.get("tool"), node.get("summary"))
            text = f"{call}\n→ {_told(node.get('result') or node.get('status'))}"
            return Said(seq, "system", text, timestamp)
    told = {name: value for name, value in node.items() if name not in ("id", "timestamp")}
    return Said(seq, "system", _told(told), timestamp)
