"""Entities: what is known of a session by what agents said of it, or else by what it did itself.

The snapshot of a session is the fold of its observations. One that nobody submitted answers, too:
its actions are the tools that its messages tell of, its checkpoints are its records.
"""

import json
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

from filestore.engine.base import ReadTx
from filestore.journal import rows
from filestore.journal.fold import entity_id
from filestore.journal.model import JournalRow, Record, RecordKind
from filestore.records.submission import fields_of, fold_snapshot
from filestore.times import iso

ENTITY_TYPE = "agent_session"
TEXT_CHARS_MAX = 1000
"""Of what a tool answered, in an action that is derived."""
NO_RESULT = "no result"
BODIES_BYTES_MAX = 4 << 20


class Depth(NamedTuple):
    """How much is looked at and shown of one session: the newest, where there is more."""

    observations: int = 1000
    messages: int = 10_000


SHALLOW = Depth(observations=10, messages=200)
"""In a list of many."""


async def entity(tx: ReadTx, row: JournalRow, depth: Depth) -> dict[str, Any]:
    """A session as an entity, with its newest observations in order."""
    snapshot: dict[str, Any] = {}
    newest: deque[Record] = deque(maxlen=depth.observations)
    async for record in records_of(tx, row, "observation"):
        snapshot = fold_snapshot(snapshot, fields_of(record.body))
        newest.append(record)
    if not row.observations:
        snapshot = await _derived(tx, row, depth)
    return {
        "entity_id": entity_id(row.session_id),
        "entity_type": ENTITY_TYPE,
        "snapshot": snapshot,
        "observation_count": row.observations,
        "observations": _within_bounds(newest),
    }


async def records_of(
    tx: ReadTx, row: JournalRow, *kinds: RecordKind, is_latest_first: bool = False
) -> AsyncIterator[Record]:
    """All records of these kinds, in order or from the end, a few held at a time."""
    after, before = -1, row.records
    while True:
        found = await rows.load_of_kinds(
            tx, row.id, kinds, after_seq=after, before_seq=before, is_latest_first=is_latest_first
        )
        for record in found:
            yield record
        if len(found) < rows.PAGE_STEP:
            return
        if is_latest_first:
            before = found[-1].seq
        else:
            after = found[-1].seq


def _within_bounds(newest: deque[Record]) -> list[dict[str, Any]]:
    """Observations as they are shown, the newest that are not too large together."""
    shown: deque[dict[str, Any]] = deque()
    left = BODIES_BYTES_MAX
    for record in reversed(newest):
        fields = fields_of(record.body)
        left -= len(json.dumps(fields))
        if left < 0 and shown:
            break
        shown.appendleft({"seq": record.seq, "observed_at": iso(record.at_ms), "fields": fields})
    return list(shown)


# -- sessions that were never submitted


async def _derived(tx: ReadTx, row: JournalRow, depth: Depth) -> dict[str, Any]:
    actions = Actions()
    looked_at = 0
    async for record in records_of(tx, row, "message", is_latest_first=True):
        actions.before(record)
        looked_at += 1
        if looked_at == depth.messages or actions.size > BODIES_BYTES_MAX:
            break
    checkpoints: deque[dict[str, Any]] = deque(maxlen=depth.observations)
    async for record in records_of(tx, row, "checkpoint"):
        checkpoints.append(checkpoint_of(record))
    snapshot: dict[str, Any] = {"session_id": row.session_id, "actions": actions.in_order()}
    if checkpoints:
        snapshot["checkpoints"] = list(checkpoints)
    snapshot["started_at"] = iso(row.started_ms)
    if row.ended_ms is not None:
        snapshot["ended_at"] = iso(row.ended_ms)
    return snapshot


class Actions:
    """What tools did, by the messages of a session: those of its runner, and rows of a transcript.
    They are told from the last one on, so that the newest are there when it is enough.
    """

    def __init__(self) -> None:
        self.size = 0
        """About how many bytes all of it takes."""
        self._latest_first: list[dict[str, Any]] = []
        self._results: dict[str, dict[str, Any]] = {}

    def in_order(self) -> list[dict[str, Any]]:
        """The actions of the messages so far."""
        return self._latest_first[::-1]

    def before(self, record: Record) -> None:
        """Take in a message that came before all others."""
        content, at = record.body.get("content"), iso(record.at_ms)
        if isinstance(content, dict) and content.get("type") == "tool":
            name = content.get("tool")
            shown = name if isinstance(name, str) and name else "tool"
            self._add(shown, content.get("args"), {"result": content.get("result")}, at)
        elif isinstance(content, list):
            for part in reversed(content):
                self._part(part, record.body.get("timestamp", at))

    def _part(self, part: dict[str, Any], at: str) -> None:
        if part["type"] == "tool_result":
            told = {"result": _text(part["result"]), "isError": bool(part.get("isError"))}
            self._results[part["toolCallId"]] = told
        elif part["type"] == "tool_call":
            self._add(part["name"], part["args"], self._results.pop(part["id"], {}), at)

    def _add(self, name: str, args: object, result: dict[str, Any], at: str) -> None:
        details: dict[str, Any] = {} if args is None else {"args": args}
        if result.get("isError"):
            details["is_error"] = True
        self.size += len(json.dumps(details))
        self._latest_first.append(
            {
                "type": name,
                "result": _text(result.get("result")),
                "details": details,
                "timestamp": at,
            }
        )


def _text(result: object) -> str:
    """What a tool answered, as a text that is not empty."""
    if result is None:
        return NO_RESULT
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    return text[:TEXT_CHARS_MAX] or NO_RESULT


# -- checkpoints, wherever they stand


def checkpoint_of(record: Record) -> dict[str, Any]:
    """A record of kind checkpoint, as an agent would have submitted it."""
    body = record.body
    name, at, state = body.get("name"), body.get("timestamp"), body.get("state")
    return {
        "name": name if isinstance(name, str) and name else record.ref or "",
        "timestamp": at if isinstance(at, str) else iso(record.at_ms),
        "state": state,
    }


def checkpoints_in(record: Record) -> Iterator[dict[str, Any]]:
    """The checkpoints that a record tells of."""
    if record.kind == "checkpoint":
        yield checkpoint_of(record)
        return
    given = record.body.get("checkpoints")
    for each in given if isinstance(given, list) else ():
        if isinstance(each, dict) and isinstance(each.get("name"), str):
            yield each
