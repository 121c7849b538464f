"""The fold: a session's row from its records. Pure; the same for one more record and for all.

Docs: docs/specs/0008-session-records.md. `check` folds every journal again and compares.
"""

import hashlib
from typing import Any, assert_never

from filestore.journal.model import JournalRow, Record

RELATED_CHARS_MAX = 256
RELATED_MAX = 1000
"""Of one record: the first ones in order."""
TIME_MS_MAX = 1 << 62


def opened(journal_id: int, record: Record) -> JournalRow:
    """The row after the first record, which is of kind `open`."""
    body = record.body
    return JournalRow(
        journal_id,
        body["id"],
        body["definition_id"],
        "active",
        "initializing",
        body["origin"],
        record.at_ms,
        record.at_ms,
        record.at_ms,
        body.get("agent_name"),
        body.get("repo_id"),
        records=1,
        purpose=body.get("purpose"),
        title=body.get("title"),
        context=body.get("context"),
        metadata=body.get("metadata") or {},
    )


def fold(row: JournalRow, record: Record) -> JournalRow:
    """The row after one more record."""
    row = row._replace(records=record.seq + 1, updated_ms=max(row.updated_ms, record.at_ms))
    body = record.body
    match record.kind:
        case "open":
            return row._replace(
                status="active", phase=row.open_phase, ended_ms=None, reason=body.get("reason")
            )
        case "message":
            return _message(row, record)
        case "phase":
            return row._replace(phase=body["to"], open_phase=body["to"])
        case "meta":
            return _meta(row, record)
        case "error":
            return row._replace(error_count=row.error_count + 1, last_error=body["message"])
        case "end":
            return row._replace(
                status=body["status"],
                phase=body["phase"],
                ended_ms=record.at_ms,
                summary=body.get("summary", row.summary),
                reason=body.get("reason"),
                is_busy=0,
                asked=None,
                answering=None,
            )
        case "observation":
            given = body.get("started_ms")
            # What stands in an observation is its caller's; only a time is taken for one.
            started_ms = row.started_ms
            if type(given) is int and abs(given) <= TIME_MS_MAX:
                started_ms = given
            return row._replace(observations=row.observations + 1, started_ms=started_ms)
        case "checkpoint" | "note":
            return row
    assert_never(record.kind)


def _message(row: JournalRow, record: Record) -> JournalRow:
    body = record.body
    if not body.get("is_chunk"):
        row = row._replace(
            messages=body.get("number", row.messages) + 1,
            user_messages=row.user_messages + (body["role"] == "user"),
        )
    if body.get("is_prompt"):
        return row._replace(is_busy=1, asked=body["id"], answering=None)
    if body.get("is_interruption"):
        return row._replace(is_busy=0, asked=None, answering=None)
    if body["role"] not in ("agent", "assistant"):
        return row
    if body.get("partial"):
        return row._replace(answering=body["id"])
    return row._replace(is_busy=0, asked=None, answering=None)


def _meta(row: JournalRow, record: Record) -> JournalRow:
    body = record.body
    if "stated" in body:
        return row._replace(**body["stated"])
    names = ("definition_id", "title", "agent_name", "purpose", "context")
    changed = {name: body[name] for name in names if name in body}
    if "transcript" in body:
        changed["transcript_seq"] = record.seq
    return row._replace(**changed, metadata=row.metadata | body.get("metadata", {}))


def related_ids(session_id: str, record: Record) -> set[str]:
    """What a session can be found by because of a record: by the first one the id of its entity; by
    observations and checkpoints the ids of outcomes, and values under keys that end in `_id`.
    Bodies of these may be any JSON.
    """
    return set(sorted(filter(_is_ref, _related(session_id, record)))[:RELATED_MAX])


def _related(session_id: str, record: Record) -> set[str]:
    body = record.body
    match record.kind:
        case "open" if record.seq == 0:
            return {entity_id(session_id)}
        case "observation":
            outcomes = _objects(body.get("outcomes"))
            found = {str(each["id"]) for each in outcomes if _is_id(each.get("id"))}
            for each in (*_objects(body.get("actions")), *outcomes):
                found |= _ids_in(each.get("details"))
            for each in _objects(body.get("checkpoints")):
                found |= _ids_in(each.get("state"))
            return found
        case "checkpoint":
            return _ids_in(body.get("state"))
    return set()


def entity_id(session_id: str) -> str:
    """The id of a session's entity."""
    return "ent_" + hashlib.sha256(f"agent_session:{session_id}".encode()).hexdigest()[:24]


def _ids_in(value: object) -> set[str]:
    """The values under keys that end in `_id`, at any depth."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            for key, inner in each.items():
                if key.endswith("_id") and _is_id(inner):
                    found.add(str(inner))
                waiting.append(inner)
    return found


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _is_ref(value: str) -> bool:
    return 0 < len(value) <= RELATED_CHARS_MAX


def _objects(value: object) -> list[dict[str, Any]]:
    found = value if isinstance(value, list) else []
    return [each for each in found if isinstance(each, dict)]
