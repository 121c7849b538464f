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
    found: deque[Record] = deque()
    async for record in records_of(tx, row, "message", is_latest_first=True):
        found.appendleft(record)
        if len(found) == depth.messages:
            break
    snapshot: dict[str, Any] = {"session_id": row.session_id, "actions": derive_actions(found)}
    checkpoints = [
        checkpoint_of(record) async for record in records_of(tx, row, "checkpoint")
    ][-depth.messages :]  # fmt: skip
    if checkpoints:
        snapshot["checkpoints"] = checkpoints
    snapshot["started_at"] = iso(row.started_ms)
    if row.ended_ms is not None:
        snapshot["ended_at"] = iso(row.ended_ms)
    return snapshot


def derive_actions(messages: deque[Record]) -> list[dict[str, Any]]:
    """What tools did, by messages of a session: those of its runner, and rows of a transcript."""
    actions: list[dict[str, Any]] = []
    calls: dict[str, dict[str, Any]] = {}
    for record in messages:
        content = record.body.get("content")
        if isinstance(content, dict) and content.get("type") == "tool":
            actions.append(_action_of_tool(content, iso(record.at_ms)))
        elif isinstance(content, list):
            at = record.body.get("timestamp", iso(record.at_ms))
            for part in content:
                if part["type"] == "tool_call":
                    calls[part["id"]] = _action(part["name"], part["args"], None, at)
                    actions.append(calls[part["id"]])
                elif part["type"] == "tool_result" and part["toolCallId"] in calls:
                    _settle(calls[part["toolCallId"]], part)
    return actions


def _action_of_tool(content: dict[str, Any], at: str) -> dict[str, Any]:
    name = content.get("tool")
    shown = name if isinstance(name, str) and name else "tool"
    return _action(shown, content.get("args"), content.get("result"), at)


def _action(name: str, args: object, result: object, at: str) -> dict[str, Any]:
    details = {} if args is None else {"args": args}
    return {"type": name, "result": _text(result), "details": details, "timestamp": at}


def _settle(action: dict[str, Any], part: dict[str, Any]) -> None:
    action["result"] = _text(part["result"])
    if part.get("isError"):
        action["details"]["is_error"] = True


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
