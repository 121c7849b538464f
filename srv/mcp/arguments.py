"""What tools that ask are asked with: the rules of their arguments, in order. Pure.

Broken rules are told as those of a submit: RejectedError about the first field.
"""

from collections.abc import Mapping
from typing import Any

from filestore.errors import InvalidArgumentError
from filestore.records.lists import ROWS_MAX
from filestore.records.slices import CHARS_MAX, CHARS_MIN
from filestore.records.submission import ID_CHARS_MAX, TIMESTAMP, a_text, reject
from filestore.records.timeline import bound

Given = Mapping[str, Any]
SEQ_MAX = 1 << 62
_STATUSES = ("active", "completed", "cancelled", "error")


def history(given: Given) -> dict[str, object]:
    """Of query_agent_history: one session, or how many and in which order."""
    found = _known(given, "session_id", "limit", "order_by", "order")
    if "session_id" in found:
        return {"session_id": a_text("session_id", found["session_id"], 1, ID_CHARS_MAX)}
    return _wanted(found)


def sessions(given: Given) -> dict[str, object]:
    """Of list_sessions."""
    found = _known(given, "limit", "order_by", "order", "status", "agent_name")
    wanted: dict[str, object] = {"order_by": "updated_at", **_wanted(found)}
    if "status" in found:
        wanted["status"] = _one_of("status", found["status"], _STATUSES)
    if "agent_name" in found:
        wanted["agent_name"] = a_text("agent_name", found["agent_name"], 0)
    return wanted


def timeline(given: Given) -> dict[str, object]:
    """Of query_entity_timeline."""
    found = _known(given, "entity_id", "start_date", "end_date")
    wanted: dict[str, object] = {"entity_id": a_text("entity_id", found.get("entity_id"))}
    # Longer than any id that is kept: nothing can have it.
    wanted["entity_id"] = str(wanted["entity_id"])[: ID_CHARS_MAX + 1]
    for name in ("start_date", "end_date"):
        if name in found:
            wanted[name] = _bound(name, found[name])
    return wanted


def checkpoint(given: Given) -> dict[str, object]:
    """Of restore_checkpoint."""
    found = _known(given, "session_id", "name")
    return {
        "session_id": a_text("session_id", found.get("session_id"), 1, ID_CHARS_MAX),
        "name": a_text("name", found.get("name")),
    }


def read(given: Given) -> dict[str, object]:
    """Of read_session."""
    found = _known(given, "session_id", "max_chars", "before")
    wanted: dict[str, object] = {
        "session_id": a_text("session_id", found.get("session_id"), 1, ID_CHARS_MAX)
    }
    if "max_chars" in found:
        wanted["chars_max"] = _count("max_chars", found["max_chars"], CHARS_MIN, CHARS_MAX)
    if "before" in found:
        wanted["before"] = _count("before", found["before"], 0, SEQ_MAX)
    return wanted


def _known(given: Given, *names: str) -> dict[str, Any]:
    """The arguments that are given; a null is as good as nothing. A slip must not pass silently."""
    for name, value in given.items():
        if name not in names:
            expected = f"one of: {', '.join(names)}"
            reject(name, value, expected, f"is not an argument of this tool; known are {expected}")
    return {name: value for name, value in given.items() if value is not None}


def _wanted(found: Given) -> dict[str, object]:
    wanted: dict[str, object] = {}
    if "limit" in found:
        wanted["limit"] = _count("limit", found["limit"], 1, ROWS_MAX)
    if "order_by" in found:
        wanted["order_by"] = _one_of("order_by", found["order_by"], ("started_at", "updated_at"))
    if "order" in found:
        wanted["order"] = _one_of("order", found["order"], ("asc", "desc"))
    return wanted


def _count(name: str, value: object, least: int, most: int) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)  # some clients know but one kind of number
    if type(value) is not int:
        reject(name, value, "integer", "must be a whole number")
    if value < least:
        reject(name, value, f">= {least}", f"must be at least {least}")
    if value > most:
        reject(name, value, f"<= {most}", f"must be at most {most}")
    return value


def _one_of(name: str, value: object, words: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in words:
        shown = ", ".join(words)
        reject(name, value, f"one of: {shown}", f"must be one of {shown}")
    return value


def _bound(name: str, value: object) -> str:
    text = a_text(name, value)
    try:
        bound(text, is_end=False)
    except InvalidArgumentError:
        reject(name, value, TIMESTAMP, f"must be a date or an {TIMESTAMP} with Z or an offset")
    return text
