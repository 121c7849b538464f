"""Timelines: what happened in a session, or in all that have to do with something, in order.

Events are made of the records at each question. Sessions begun by any surface have them.
"""

import json
from typing import Any, NamedTuple, TypeVar

from blake3 import blake3

from filestore.engine.base import ReadTx
from filestore.errors import InvalidArgumentError, TooLargeError
from filestore.journal.fold import entity_id
from filestore.journal.model import JournalRow, Record, RecordKind
from filestore.records.entities import checkpoints_in, records_of
from filestore.times import iso, parse

T = TypeVar("T")

TimedEvent = tuple[int, dict[str, Any]]
"""An event as it is shown, behind its time in ms."""
EVENTS_MAX = 10_000
EVENTS_BYTES_MAX = 16 << 20
EVENT_BYTES = 200
"""About what each takes besides what is its own."""
SESSIONS_MAX = 1000
DAY_MS = 86_400_000
_KINDS: tuple[RecordKind, ...] = ("open", "phase", "checkpoint", "observation", "end")


class Window(NamedTuple):
    """From when to when, both included."""

    first_ms: int
    last_ms: int

    def has(self, at_ms: int) -> bool:
        """True if it is in there."""
        return self.first_ms <= at_ms <= self.last_ms


def bound(text: str, *, is_end: bool) -> int:
    """The time that a bound tells; a date alone is its whole day in UTC. InvalidArgumentError."""
    if len(text) == len("2026-01-31"):
        return parse(text + "T00:00:00Z") + (DAY_MS - 1 if is_end else 0)
    return parse(text)


async def events_of(
    tx: ReadTx, row: JournalRow, window: Window, bytes_max: int = EVENTS_BYTES_MAX
) -> tuple[list[TimedEvent], int]:
    """The events of one session within a window, in order, and about how many bytes they take."""
    told = _Told(row, window, bytes_max)
    async for record in records_of(tx, row, *_KINDS):
        told.record(record)
    # By time, and what is of one time in the order in which it was told.
    return sorted(told.all(), key=lambda each: each[0]), told.size


def too_many() -> TooLargeError:
    """The error about a timeline that is too long to be told at once."""
    return TooLargeError(
        f"that is more than {EVENTS_MAX} events, or {EVENTS_BYTES_MAX} bytes",
        limit=EVENTS_MAX,
        hint="ask for fewer with start_date and end_date",
    )


class _Told:
    """The events of a session, made of its records one at a time. Agents tell all they did again
    and again: what is the same is one event.
    """

    def __init__(self, row: JournalRow, window: Window, bytes_max: int) -> None:
        self.size = 0
        self._bytes_max = bytes_max
        self._row = row
        self._window = window
        self._events: list[TimedEvent] = []
        self._seen: set[bytes] = set()
        self._ended_ms = row.ended_ms
        self._end: Record | None = None
        self._add(row.started_ms, "session_started", {"origin": row.origin})

    def record(self, record: Record) -> None:
        """Tell what one record tells."""
        body, at_ms = record.body, record.at_ms
        match record.kind:
            case "phase" if body["from"] != body["to"]:
                self._add(at_ms, "phase_changed", {"from": body["from"], "to": body["to"]})
            case "open" if record.seq:
                self._add(at_ms, "phase_changed", {"reason": body.get("reason")})
            case "end":
                self._take_back_end()
                self._end = record
            case "checkpoint" | "observation":
                self._parts(record)

    def all(self) -> list[TimedEvent]:
        """All that was told."""
        row = self._row
        if not row.is_final:
            self._take_back_end()
        elif self._ended_ms is not None:
            shown = {"status": row.status, "phase": row.phase, "reason": row.reason}
            self._add(self._ended_ms, "session_ended", shown)
        return self._events

    def _take_back_end(self) -> None:
        """An end that was not the last word."""
        if self._end is not None:
            self._add(self._end.at_ms, "phase_changed", {"to": self._end.body["phase"]})

    def _parts(self, record: Record) -> None:
        body, at_ms = record.body, record.at_ms
        for each in checkpoints_in(record):
            when = _time(each.get("timestamp"), at_ms)
            if self._is_new("checkpoint", [each["name"], when]):
                shown = {"name": each["name"], "has_state": each.get("state") is not None}
                self._add(when, "checkpoint", shown)
        if record.kind != "observation":
            return
        if "ended_at" in body:
            self._ended_ms = _time(body["ended_at"], self._row.ended_ms)
        given = body.get("outcomes")
        for each in given if isinstance(given, list) else ():
            if isinstance(each, dict) and self._is_new("outcome", each):
                self._add(_time(body.get("ended_at"), at_ms), "outcome", {"outcome": each})

    def _is_new(self, kind: str, what: object) -> bool:
        key = blake3((kind + json.dumps(what, sort_keys=True)).encode()).digest()
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new

    def _add(self, at_ms: int, kind: str, more: dict[str, Any]) -> None:
        if not self._window.has(at_ms):
            return
        self.size += EVENT_BYTES + len(json.dumps(more))
        if len(self._events) == EVENTS_MAX or self.size > self._bytes_max:
            raise too_many()
        shown = {
            "timestamp": iso(at_ms),
            "type": kind,
            "session_id": self._row.session_id,
            "entity_id": entity_id(self._row.session_id),
        }
        shown |= {name: each for name, each in more.items() if each is not None}
        self._events.append((at_ms, shown))


def _time(value: object, other_ms: T) -> int | T:
    """The time that a field tells; what stands in a record may be anything."""
    if isinstance(value, str):
        try:
            return parse(value)
        except InvalidArgumentError:
            return other_ms
    return other_ms
