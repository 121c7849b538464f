"""Records that come from elsewhere, checked before they are believed: whatever reads a journal
later may rely on the shapes that its own writers keep. Pure.
"""

from collections.abc import Mapping
from typing import Any, get_args

from filestore.errors import InvalidArgumentError, StoreError
from filestore.journal.bodies import dump, is_text
from filestore.journal.fold import fold, opened
from filestore.journal.mending import STATED
from filestore.journal.model import (
    OPEN_PHASES,
    PHASES,
    STATUS_OF,
    STATUSES,
    JournalRow,
    Origin,
    Record,
)
from filestore.journal.writing import ROW_BODY_BYTES_MAX, check_id, check_ref
from filestore.sessions.names import check_definition_id

_ORIGINS = get_args(Origin)
_ROLES = ("user", "agent", "system", "assistant", "tool")
_MARKS = ("is_prompt", "partial", "is_chunk", "is_interruption")
_NUMBERS = ("number", "part", "stands_for")
_NUMBER_MAX = 1 << 31
_TIME_MAX = 1 << 62
_TEXTS = ("agent_name", "repo_id", "purpose", "title", "summary", "reason", "last_error")
_COUNTS = ("error_count", "messages", "user_messages", "observations")
_OWN = ("transcript_seq", "asked", "answering")
"""What a row may not be stated to have, but only to have no more."""


def taken(row: JournalRow | None, record: Record) -> JournalRow:
    """The row after one more record. InvalidArgumentError if that is none of ours."""
    try:
        _check_body(row, record)
        folded = opened(0, record) if row is None else fold(row, record)
        _check_row(folded)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _bad(record, f"{type(error).__name__}: {error}") from error
    except StoreError as error:
        raise _bad(record, error.message) from error
    return folded


def _bad(record: Record, what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"record {record.seq} is no {record.kind} of ours: {what[:200]}")


def _require(is_so: object, what: str) -> None:
    if not is_so:
        raise ValueError(what)


def _check_body(row: JournalRow | None, record: Record) -> None:
    body = record.body
    _require(isinstance(body, dict), "its body is no object")
    _require((record.kind == "open") or row is not None, "the first record must be `open`")
    if record.ref is not None:
        check_ref(record.ref)
    if record.kind in ("open", "phase", "meta", "error", "end") and "stated" not in body:
        shown = {name: value for name, value in body.items() if name != "transcript"}
        dump(shown, bytes_max=ROW_BODY_BYTES_MAX)
    match record.kind:
        case "open" if row is None:
            check_id(body["id"])
            check_definition_id(body["definition_id"])
            _require(body["origin"] in _ORIGINS, "its origin is unknown")
        case "message":
            _check_message(record)
        case "phase":
            _require(body["to"] in OPEN_PHASES, "its phase is unknown")
        case "meta":
            _check_meta(row, body)
        case "error":
            _require(is_text(body["message"]), "its message is no text")
        case "end":
            _require(STATUS_OF.get(body["phase"]) == body["status"], "status and phase differ")


def _check_meta(row: JournalRow | None, body: Mapping[str, Any]) -> None:
    # Not at the top: small commands must not wait for it.
    from filestore.transcript.start import check_start

    _require(isinstance(body.get("metadata", {}), dict), "metadata is no object")
    if "transcript" in body:
        check_start(body["transcript"])
    if "definition_id" in body:
        check_definition_id(body["definition_id"])
    stated = body.get("stated", {})
    _require(
        isinstance(stated, dict) and stated.keys() <= set(STATED), "it states what is no row's"
    )
    for name in _OWN:
        value = stated.get(name)
        _require(value is None or value == getattr(row, name), f"{name} is that of nothing")


def _check_message(record: Record) -> None:
    from filestore.transcript.message import check_row

    body = record.body
    check_ref(body["id"])
    _require(record.ref == body["id"], "it cannot be found by its id")
    _require(body["role"] in _ROLES, "its role is unknown")
    for name in _MARKS:
        _require(type(body.get(name, False)) is bool, f"{name} is neither true nor false")
    for name in _NUMBERS:
        value = body.get(name, 0)
        _require(type(value) is int and 0 <= value < _NUMBER_MAX, f"{name} is no number")
    content = body["content"]
    if isinstance(content, list):
        fields = {name: value for name, value in body.items() if name != "number"}
        check_row(fields | {"sessionId": "s", "sequenceNumber": body["number"]})
    else:
        _require(isinstance(content, dict), "its content is no object")
        is_text_type = content.get("type") == "text"
        _require(not is_text_type or isinstance(content["text"], str), "its text is no text")


def _check_row(row: JournalRow) -> None:
    _require(row.status in STATUSES and row.phase in PHASES, "status or phase is unknown")
    _require(row.open_phase in OPEN_PHASES, "the phase to go on with is unknown")
    is_open = row.phase in OPEN_PHASES
    _require(is_open or STATUS_OF[row.phase] == row.status, "status and phase differ")  # type: ignore[index]  # an outcome
    _require(is_open == (row.status == "active"), "status and phase differ")
    _require(row.is_final == (row.ended_ms is not None), "its end has no time, or no end")
    check_definition_id(row.definition_id)
    for name in _TEXTS:
        value = getattr(row, name)
        _require(value is None or (isinstance(value, str) and is_text(value)), f"{name} is no text")
    for name in _COUNTS:
        value = getattr(row, name)
        _require(type(value) is int and 0 <= value <= _NUMBER_MAX, f"{name} is no number")
    for value in (row.started_ms, row.ended_ms or 0, row.created_ms):
        _require(type(value) is int and abs(value) <= _TIME_MAX, "a time is no time")
    _require(row.is_busy in (0, 1) and bool(row.is_busy) == (row.asked is not None), "who waits?")
    _require(isinstance(row.metadata, dict), "metadata is no object")
