"""Turns: which rows belong together, and what was said in them. Pure.

The one grouping that resume and export share. A turn is what a user asks and what an agent answers
to it, however many rows that takes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from filestore.errors import InvalidArgumentError, TurnLimitError
from filestore.transcript.message import Row

TURNS_MAX = 50
"""The cap where none is given."""
_BLANK_LINE = "\n\n"


@dataclass(slots=True)
class Turn:
    """The rows of one turn in order, tool and system rows among them."""

    rows: list[Row] = field(default_factory=list)
    is_answered: bool = False
    """It has an assistant row, whatever that says: the next user row opens another turn."""

    @property
    def is_completed(self) -> bool:
        """True if the assistant said anything. White space is something, reasoning is not."""
        return any(row["role"] == "assistant" and text_of(row) for row in self.rows)

    @property
    def prompt(self) -> str:
        """What the user said."""
        return joined(text_of(row) for row in self.rows if row["role"] == "user")

    @property
    def tools(self) -> list[str]:
        """The names of the tools that were called, each once, in the order of their first use."""
        parts = (part for row in self.rows for part in row["content"])
        return list(dict.fromkeys(part["name"] for part in parts if part["type"] == "tool_call"))


class Said(NamedTuple):
    """What one row of a completed turn says. `turn` counts from 1, as in the export."""

    role: Literal["user", "assistant"]
    text: str
    sequence_number: int
    turn: int


def joined(texts: Iterable[str]) -> str:
    """Texts with a blank line between them; an empty one leaves no trace."""
    return _BLANK_LINE.join(text for text in texts if text)


def text_of(row: Row) -> str:
    """What a row says: its parts of text."""
    return joined(part["text"] for part in row["content"] if part["type"] == "text")


def in_order(rows: Iterable[Row]) -> list[Row]:
    """The rows by sequence number. InvalidArgumentError if two have the same: there is no order."""
    ordered = sorted(rows, key=lambda row: row["sequenceNumber"])
    for before, after in pairwise(ordered):
        if before["sequenceNumber"] == after["sequenceNumber"]:
            raise InvalidArgumentError(f"two rows have the number {after['sequenceNumber']}")
    return ordered


def turns_of(ordered: Sequence[Row]) -> list[Turn]:
    """All turns, completed or not. Tool and system rows before the first belong to none."""
    turns: list[Turn] = []
    for row in ordered:
        role = row["role"]
        is_open = bool(turns)
        if role == "user":
            is_open = is_open and not turns[-1].is_answered
        if not is_open:
            if role not in ("user", "assistant"):
                continue
            turns.append(Turn())
        turns[-1].rows.append(row)
        turns[-1].is_answered |= role == "assistant"
    return turns


def completed_turns(rows: Iterable[Row]) -> list[Turn]:
    """The turns in which something was answered, of rows in any order."""
    return [turn for turn in turns_of(in_order(rows)) if turn.is_completed]


def resume(rows: Iterable[Row]) -> list[Said]:
    """What an agent is to be told of a conversation that it goes on with: user and assistant rows
    with text, of completed turns only. What was interrupted is as if it had not been.
    """
    said: list[Said] = []
    for number, turn in enumerate(completed_turns(rows), 1):
        for row in turn.rows:
            role, text = row["role"], text_of(row)
            if text and (role == "user" or role == "assistant"):
                said.append(Said(role, text, row["sequenceNumber"], number))
    return said


def turn_cap(wanted: int | None) -> int:
    """How many messages of the user a session takes: as wanted, or as usual."""
    return wanted if wanted is not None and wanted > 0 else TURNS_MAX


def count_user_rows(rows: Iterable[Row]) -> int:
    """What the cap counts. Every user row, for one that joins an open turn is a message too: else a
    client that never waits for an answer would have no cap."""
    return sum(row["role"] == "user" for row in rows)


def check_turn_limit(user_rows: int, wanted: int | None = None) -> None:
    """Raise TurnLimitError if one more user row would be past the cap."""
    cap = turn_cap(wanted)
    if user_rows >= cap:
        raise TurnLimitError(f"the session has had its {cap} messages of the user", limit=cap)
