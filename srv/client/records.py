"""Answers of the daemon as the records that the store itself gives. Pure.

The daemon is trusted to send what its specification says; whatever is missing or of another type is
UNAVAILABLE with `daemon` "other", as if something else answered. Keys that are not known are let
go: a newer daemon may say more.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from filestore.sessions.model import (
    AgentInfo,
    Archived,
    ArchiveInfo,
    OutputAppended,
    OutputPage,
    ReplayPage,
    Restored,
    SessionChange,
    SessionState,
    StateWritten,
)
from srv.errors import ZonedError

T = TypeVar("T")
Answer = Mapping[str, object]


def _get(answer: Answer, key: str, kind: type[T]) -> T:
    value = answer[key]
    if not isinstance(value, kind):
        raise TypeError(f"{key} is a {type(value).__name__}")
    return value


def _number(answer: Answer, key: str) -> int:
    return _get(answer, key, int)


def _text(answer: Answer, key: str) -> str:
    return _get(answer, key, str)


def _maybe_number(answer: Answer, key: str) -> int | None:
    return None if answer.get(key) is None else _number(answer, key)


def as_bytes(value: object) -> bytes:
    """Content as it was stored: it travels as text where it is valid text."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(f"content is a {type(value).__name__}")


def decode(shape: Callable[[Answer], T], answer: object) -> T:
    """The record for one answer. Raises ZonedError."""
    try:
        if not isinstance(answer, Mapping):
            raise TypeError(f"the answer is a {type(answer).__name__}")
        return shape(answer)
    except (KeyError, TypeError) as error:
        message = f"the daemon's answer is not what it should be: {error}"
        raise ZonedError("UNAVAILABLE", message, daemon="other") from error


def decode_all(shape: Callable[[Answer], T], answer: object) -> list[T]:
    """The records for an answer that is a list of rows. Raises ZonedError."""
    rows = decode(lambda each: _get(each, "rows", list), {"rows": answer})
    return [decode(shape, row) for row in rows]


def session_state(answer: Answer) -> SessionState:
    return SessionState(
        content=as_bytes(answer["content"]) if "content" in answer else None,
        modts=_maybe_number(answer, "modts"),
        version=_number(answer, "version"),
        session_id=_text(answer, "session_id"),
        output_bytes=_number(answer, "output_bytes"),
        output_lines=_number(answer, "output_lines"),
        recovered=_maybe_number(answer, "recovered"),
    )


def state_written(answer: Answer) -> StateWritten:
    return StateWritten(
        bytes_written=_number(answer, "bytes_written"),
        version=_number(answer, "version"),
        modts=_number(answer, "modts"),
        session_id=_text(answer, "session_id"),
        unchanged=_get(answer, "unchanged", bool),
    )


def output_appended(answer: Answer) -> OutputAppended:
    return OutputAppended(
        bytes_written=_number(answer, "bytes_written"),
        offset=_number(answer, "offset"),
        first_line=_number(answer, "first_line"),
        lines=_number(answer, "lines"),
        duplicate=_get(answer, "duplicate", bool),
    )


def archived(answer: Answer) -> Archived | None:
    zone = _text(answer, "archive_zoneid")
    return Archived(zone, _number(answer, "archived_at_ms")) if zone else None


def archive_info(answer: Answer) -> ArchiveInfo:
    return ArchiveInfo(
        archive_zoneid=_text(answer, "archive_zoneid"),
        archived_at_ms=_number(answer, "archived_at_ms"),
        preview=_text(answer, "preview"),
        node_count=_number(answer, "node_count"),
        session_id=_text(answer, "session_id"),
        started_at_ms=_number(answer, "started_at_ms"),
        state_bytes=_number(answer, "state_bytes"),
        output_bytes=_number(answer, "output_bytes"),
        output_lines=_number(answer, "output_lines"),
    )


def restored(answer: Answer) -> Restored:
    return Restored(
        _text(answer, "session_id"), _number(answer, "version"), _text(answer, "archived")
    )


def agent_info(answer: Answer) -> AgentInfo:
    return AgentInfo(
        definition_id=_text(answer, "definition_id"),
        has_state=_get(answer, "has_state", bool),
        modts=_maybe_number(answer, "modts"),
        preview=_text(answer, "preview"),
        node_count=_number(answer, "node_count"),
        archives=_number(answer, "archives"),
        output_lines=_number(answer, "output_lines"),
    )


def output_page(answer: Answer) -> OutputPage:
    return OutputPage(
        lines=[as_bytes(line) for line in _get(answer, "lines", list)],
        first_line=_number(answer, "first_line"),
        total_lines=_number(answer, "total_lines"),
        next_line=_number(answer, "next_line"),
    )


def replay_page(answer: Answer) -> ReplayPage:
    return ReplayPage(
        nodes=[dict(node) for node in _get(answer, "nodes", list)],
        lines=_number(answer, "lines"),
        skipped=_number(answer, "skipped"),
        torn=_get(answer, "torn", bool),
        provider=_text(answer, "provider"),
        next=_maybe_number(answer, "next"),
    )


def session_id(answer: Answer) -> str:
    return _text(answer, "session_id")


def is_deleted(answer: Answer) -> bool:
    return _get(answer, "deleted", bool)


def whole(answer: Answer) -> dict[str, object]:
    return dict(answer)


def session_change(answer: Answer) -> SessionChange:
    kind = answer["kind"]
    # A kind that is not known here may mean anything: read again what matters.
    match kind:
        case "state" | "output" | "archived" | "restored" | "deleted":
            known = kind
        case _:
            return SessionChange(_number(answer, "seq"), "gap")
    return SessionChange(
        position=_number(answer, "seq"),
        kind=known,
        version=_maybe_number(answer, "version") or 0,
        offset=_maybe_number(answer, "offset"),
        size=_maybe_number(answer, "bytes"),
        data=as_bytes(answer["data"]) if "data" in answer else None,
        zone=str(answer.get("archive_zoneid", "")),
        first_line=_maybe_number(answer, "first_line"),
        lines=_maybe_number(answer, "lines"),
    )
