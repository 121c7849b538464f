"""The fold: a session's row from its records. Pure; the same for one more record and for all.

Docs: docs/specs/0008-session-records.md. `check` folds every journal again and compares.
"""

from typing import assert_never

from filestore.journal.model import JournalRow, Record


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
        case "checkpoint" | "observation" | "note":
            return row
    assert_never(record.kind)


def _message(row: JournalRow, record: Record) -> JournalRow:
    body = record.body
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
    names = ("definition_id", "title", "agent_name", "purpose", "context")
    changed = {name: body[name] for name in names if name in body}
    return row._replace(**changed, metadata=row.metadata | body.get("metadata", {}))
