"""Nodes as a transcript that people read: who said what, and tools folded to one line each.

On a terminal it is coloured and wrapped to the width. Into a pipe it is plain, and texts keep their
lines. It is harmless in both: what is behind the pipe may well be a terminal.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from srv.cli.screen import BOLD, DIM, GREEN, RED, Screen, columns, cut, harmless

CYAN, YELLOW = "36", "33"
TIME_COLUMNS = 10
"""`09:00:02` and two spaces; left out on narrow screens."""
NARROW = 50
INDENT = 2
TAB = 4
_USUAL = ("end_turn", "cancelled")
"""Reasons that tell no more than the status."""
_MARKS: Mapping[str, tuple[str, str, str]] = {
    "success": ("✓", "+", GREEN),
    "failed": ("✗", "x", RED),
    "denied": ("⊘", "!", YELLOW),
    "canceled": ("–", "-", YELLOW),
    "running": ("…", ".", CYAN),
}

Node = Mapping[str, object]


class Transcript:
    """Turns nodes into lines, one after another: a date is told when it changes."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._is_terminal = screen.is_terminal
        self._gutter = INDENT
        """How far texts are indented: less until the first time is told, for many streams have
        none at all."""
        self._is_plain_text = not screen.encoding.lower().startswith("utf")
        self._date = ""
        self._last = ""
        """The kind of the last node: tools that follow each other stand without a gap."""
        self._place = ("", "")
        """The id of the last node, and of the call that started the sub-agent it is of."""
        self._tasks: dict[str, str] = {}
        """What sub-agents were started for, by the ids of the calls."""

    def lines(self, nodes: Iterable[Node]) -> Iterator[str]:
        """The lines of these nodes, with the gaps between them."""
        for node in nodes:
            yield from self.node(node)

    def node(self, node: Node) -> Iterator[str]:
        """The lines of the next node."""
        kind = str(node.get("type"))
        at = node.get("timestamp")
        told, date = _moment(at) if type(at) is int else ("", "")
        task = self._task(node)
        is_joined = kind == self._last == "tool" and date in ("", self._date) and not task
        if self._last and not is_joined:
            yield ""
        if date and date != self._date:
            self._date = date
            yield self._style(date, DIM)
        self._last = kind
        if told and (not self._is_terminal or self._screen.width >= NARROW):
            self._gutter = TIME_COLUMNS
        has_times = self._gutter == TIME_COLUMNS
        head = self._style(told, DIM) + " " * (TIME_COLUMNS - len(told)) if has_times else ""
        indent = INDENT if node.get("parent") else 0
        width = indent + (TIME_COLUMNS if has_times else 0)
        if task:
            sign = "> " if self._is_plain_text else "↳ "
            yield " " * width + self._style(self._fit(f"{sign}{self._clean(task)}", width), DIM)
        body = _Body(head + " " * indent, width, self._gutter + indent)
        yield from self._body(kind, node, body)

    def _task(self, node: Node) -> str:
        """What the sub-agent of a node is for, where another one spoke last."""
        key, parent = str(node.get("id")), str(node.get("parent", ""))
        before, self._place = self._place, (key, parent)
        if node.get("tool") == "Task":
            self._tasks[key] = _first_line(node.get("summary"))
        # Right below the call it is plain.
        return self._tasks.get(parent, "") if parent not in before else ""

    def _body(self, kind: str, node: Node, body: "_Body") -> Iterator[str]:
        match kind:
            case "user_message" if node.get("isStartup"):
                text = str(node.get("message", ""))
                said = f"context, {len(text)} characters"
                yield body.head + self._style(said, DIM)
            case "user_message":
                yield body.head + self._style("user", f"{BOLD};{CYAN}")
                yield from self._text(node.get("message"), body.indent)
            case "markdown":
                yield from self._markdown(node, body)
            case "tool":
                yield self._tool(node, body)
            case "agent_error":
                yield body.head + self._style(f"{self._mark('failed')[0]} error", RED)
                yield from self._text(node.get("message"), body.indent, RED)
            case "session_outcome":
                yield self._outcome(node, body)
            case _:
                yield body.head + self._clean(kind)

    def _markdown(self, node: Node, body: "_Body") -> Iterator[str]:
        metadata = node.get("metadata")
        facts = metadata if isinstance(metadata, dict) else {}
        is_thinking = bool(facts.get("thinking"))
        name = self._style("thinking", DIM) if is_thinking else self._style("agent", BOLD)
        canceled = self._style(" (canceled)", YELLOW) if facts.get("canceled") else ""
        yield body.head + name + canceled
        yield from self._text(node.get("content"), body.indent, DIM if is_thinking else "")

    def _tool(self, node: Node, body: "_Body") -> str:
        status = str(node.get("status"))
        mark, colour = self._mark(status)
        name = self._clean(str(node.get("toolName") or node.get("tool")))
        facts = [_duration(node.get("duration"))]
        if status not in ("success", "running"):
            facts.append(status)
        if status == "failed":
            facts.append(_first_line(node.get("result")))
        told = " · ".join(self._clean(fact) for fact in facts if fact)
        summary = self._clean(_first_line(node.get("summary")))
        # Some agents give their calls no name but what they do.
        summary = "" if summary == name else summary
        if not self._is_terminal:
            shown = "  ".join(part for part in (name, summary, told) if part)
            return f"{body.head}{mark} {shown}"
        left = max(self._screen.width - body.head_columns - 2, 0)
        name = cut(name, left // 2)
        left -= columns(name)
        # How it ended matters more than all of what it was asked.
        told = cut(told, max(left // 2, left - columns(summary) - 4)) if told else ""
        summary = cut(summary, max(left - 2 - (columns(told) + 2 if told else 0), 0))
        shown = self._style(name, BOLD) + (f"  {summary}" if summary else "")
        return f"{body.head}{self._style(mark, colour)} {shown}" + (
            f"  {self._style(told, DIM if status == 'success' else colour)}" if told else ""
        )

    def _outcome(self, node: Node, body: "_Body") -> str:
        status = str(node.get("status"))
        mark, colour = self._mark(status)
        turns, cost = node.get("turns"), node.get("costUsd")
        facts = [
            "done" if status == "success" else status,
            "" if (reason := str(node.get("reason") or "")) in _USUAL else reason,
            f"{turns} turns" if type(turns) is int and turns != 1 else "",
            _duration(node.get("durationMs")),
            f"${cost:.4f}" if isinstance(cost, int | float) else "",
            _tokens(node, "inputTokens", "in"),
            _tokens(node, "outputTokens", "out"),
        ]
        told = " · ".join(self._clean(fact) for fact in facts if fact)
        told = self._fit(told, body.head_columns + 2)
        shown = DIM if status == "success" else colour
        return f"{body.head}{self._style(mark, colour)} {self._style(told, shown)}"

    def _text(self, value: object, indent: int, code: str = "") -> Iterator[str]:
        left = " " * indent
        for raw in str(value or "").rstrip("\n").split("\n"):
            line = harmless(raw.removesuffix("\r"))
            if not self._is_terminal:
                yield f"{left}{line}".rstrip(" ")
                continue
            for part in wrapped(line.expandtabs(TAB), max(self._screen.width - indent, 1)):
                yield left + self._style(part, code) if part and code else (left + part).rstrip()

    def _fit(self, text: str, used: int) -> str:
        """A line's text, cut to what a terminal has left."""
        return cut(text, max(self._screen.width - used, 0)) if self._is_terminal else text

    def _mark(self, status: str) -> tuple[str, str]:
        fine, plain, colour = _MARKS.get(status, ("·", "-", DIM))
        return plain if self._is_plain_text else fine, colour

    def _clean(self, text: str) -> str:
        return harmless(text.replace("\t", " "))

    def _style(self, text: str, code: str) -> str:
        return self._screen.style(text, code)


class _Body(NamedTuple):
    """How the first line of a node begins, and how far the others are indented."""

    head: str
    head_columns: int
    indent: int


def wrapped(line: str, width: int) -> list[str]:
    """A harmless line in parts that fit; broken between words, all with the indent of the line."""
    if columns(line) <= width:
        return [line]
    text = line.lstrip(" ")
    # A wide character needs two columns, however far the line is indented.
    indent = " " * min(len(line) - len(text), max(width - 2, 0) // 2)
    room = max(width - len(indent), 1)
    parts: list[str] = []
    now, used = "", 0
    for word in text.split(" "):
        size = columns(word)
        if used and used + 1 + size <= room:
            now, used = f"{now} {word}", used + 1 + size
            continue
        if used:
            parts.append(now)
        *whole, now = _pieces(word, room) if size > room else [word]
        parts += whole
        used = columns(now)
    return [(indent + part).rstrip(" ") for part in [*parts, now]]


def _pieces(word: str, room: int) -> list[str]:
    """A word that fits no line, cut where lines must end."""
    pieces, used = [""], 0
    for char in word:
        wide = columns(char)
        if used + wide > room and pieces[-1]:
            pieces.append("")
            used = 0
        pieces[-1] += char
        used += wide
    return pieces


def _moment(at_ms: int) -> tuple[str, str]:
    """Time and date, local; nothing for a time that no calendar has."""
    try:
        found = time.localtime(at_ms / 1000)
        return time.strftime("%H:%M:%S", found), time.strftime("%Y-%m-%d", found)
    except (OverflowError, ValueError, OSError):
        return "", ""


def _duration(value: object) -> str:
    if type(value) is not int:
        return ""
    if value < 1000:
        return f"{value} ms"
    if value < 60_000:
        return f"{value / 1000:.1f} s"
    minutes, seconds = divmod(value // 1000, 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _tokens(node: Node, key: str, name: str) -> str:
    count = node.get(key)
    return f"{count:,} {name}" if type(count) is int else ""


def _first_line(value: object) -> str:
    """The first line that says something."""
    text = str(value or "")[:4096]
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
