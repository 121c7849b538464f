"""What an agent submits of its session: one document, its rules, and what is odd about it. Pure.

The rules are tried in a fixed order and the first one that is broken is told, as RejectedError; see
docs/specs/0012-mcp.md. Fields that are not known are kept as they came: nothing that an agent says
is dropped, but it is told of them, for one may be a slip.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from filestore.errors import InvalidArgumentError, RejectedError
from filestore.journal.bodies import is_text
from filestore.times import iso, parse

ID_CHARS_MIN, ID_CHARS_MAX = 5, 256
WARNINGS_MAX = 20
DERIVED = frozenset(("started_ms",))
"""Names in an observation's record that are not the agent's."""
FIELDS = (
    "session_id", "actions", "checkpoints", "outcomes", "duration", "started_at", "ended_at",
)  # fmt: skip
ACTION = ("type", "result", "details", "timestamp")
CHECKPOINT = ("name", "timestamp", "state")
OUTCOME = ("type", "id", "details")
TIMESTAMP = "ISO 8601 timestamp"


class Submission(NamedTuple):
    """A document that meets the rules. `fields` is it, as it came."""

    session_id: str
    fields: dict[str, Any]
    started_ms: int
    ended_ms: int | None
    warnings: list[str]


def check_submission(given: object) -> Submission:
    """The document, or RejectedError about the first field that breaks a rule."""
    fields = an_object("", given)
    session_id = check_session_id("session_id", fields.get("session_id"))
    _check_actions(fields.get("actions"))
    checkpoints = _check_checkpoints(fields.get("checkpoints"))
    _check_outcomes(fields.get("outcomes"))
    duration = fields.get("duration")
    if duration is not None:
        _check_duration(duration)
    started_ms = a_time("started_at", fields.get("started_at"))
    ended_ms = None
    if fields.get("ended_at") is not None:
        ended_ms = a_time("ended_at", fields["ended_at"])
        if ended_ms < started_ms:
            reject("ended_at", fields["ended_at"], ">= started_at", "must not be before started_at")
    warnings = [
        *_unknown(fields),
        *_odd_duration(duration, started_ms, ended_ms),
        *_outside(checkpoints, started_ms, ended_ms),
    ]
    kept = {name: value for name, value in fields.items() if name not in DERIVED}
    return Submission(session_id, kept, started_ms, ended_ms, _few(warnings))


def body_of(submission: Submission) -> dict[str, Any]:
    """The body of the record that keeps it."""
    return submission.fields | {"started_ms": submission.started_ms}


def fields_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """What the agent said, of the body of such a record."""
    return {name: value for name, value in body.items() if name not in DERIVED}


def fold_snapshot(snapshot: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The snapshot after one more observation: what it says holds, and a null clears the field."""
    merged = {**snapshot, **fields}
    return {name: value for name, value in merged.items() if value is not None}


# -- kinds of fields, which other documents of agents have, too


def reject(path: str, value: object, expected: str, what: str) -> NoReturn:
    """Raise the error about the field at `path`."""
    raise RejectedError(
        f"{path or 'the document'} {what}", field=path, value=value, expected=expected
    )


def a_text(path: str, value: object, least: int = 1, most: int | None = None) -> str:
    """A string of `least` to `most` characters."""
    if not isinstance(value, str) or not is_text(value):
        reject(path, value, "string", _missing(value) or "must be a string")
    if len(value) < least:
        what = f"must have at least {least} characters" if least > 1 else "must not be empty"
        reject(path, value, f"min_length: {least}", what)
    if most is not None and len(value) > most:
        reject(path, value, f"max_length: {most}", f"must have at most {most} characters")
    return value


def check_session_id(path: str, value: object) -> str:
    """The id of a session, exact: case and spaces count."""
    found = a_text(path, value, ID_CHARS_MIN, ID_CHARS_MAX)
    if not found.isprintable():
        reject(path, value, "string", "must have printable characters only")
    return found


def an_object(path: str, value: object) -> dict[str, Any]:
    """An object with any fields."""
    if not isinstance(value, dict):
        reject(path, value, "object", _missing(value) or "must be an object")
    return value


def a_time(path: str, value: object) -> int:
    """A time with its zone, in ms."""
    if not isinstance(value, str):
        reject(path, value, TIMESTAMP, _missing(value) or f"must be an {TIMESTAMP}")
    try:
        return parse(value)
    except InvalidArgumentError:
        reject(path, value, TIMESTAMP, f"must be an {TIMESTAMP} with Z or an offset")


def _array(path: str, value: object, least: int = 0) -> list[Any]:
    if not isinstance(value, list):
        reject(path, value, "array", _missing(value) or "must be an array")
    if len(value) < least:
        reject(path, value, f"min_length: {least}", "must not be empty")
    return value


def _missing(value: object) -> str:
    return "is missing" if value is None else ""


# -- the parts of the document


def _check_actions(given: object) -> None:
    for number, action in enumerate(_array("actions", given, 1)):
        path = f"actions[{number}]"
        fields = an_object(path, action)
        a_text(f"{path}.type", fields.get("type"))
        a_text(f"{path}.result", fields.get("result"))
        _object_or_none(f"{path}.details", fields.get("details"))
        if fields.get("timestamp") is not None:
            a_time(f"{path}.timestamp", fields["timestamp"])


def _check_checkpoints(given: object) -> Sequence[tuple[str, int]]:
    """The names and times of checkpoints."""
    found = []
    for number, checkpoint in enumerate([] if given is None else _array("checkpoints", given)):
        path = f"checkpoints[{number}]"
        fields = an_object(path, checkpoint)
        name = a_text(f"{path}.name", fields.get("name"))
        found.append((name, a_time(f"{path}.timestamp", fields.get("timestamp"))))
        _object_or_none(f"{path}.state", fields.get("state"))
    return found


def _check_outcomes(given: object) -> None:
    for number, outcome in enumerate([] if given is None else _array("outcomes", given)):
        path = f"outcomes[{number}]"
        fields = an_object(path, outcome)
        a_text(f"{path}.type", fields.get("type"))
        if fields.get("id") is not None:
            a_text(f"{path}.id", fields["id"])
        _object_or_none(f"{path}.details", fields.get("details"))


def _object_or_none(path: str, value: object) -> None:
    if value is not None:
        an_object(path, value)


def _check_duration(value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not value > 0 or value == math.inf:  # type: ignore[operator]  # a number
        reject("duration", value, "> 0", "must be a number greater than 0")


# -- what is odd


def _unknown(fields: Mapping[str, Any]) -> Iterable[str]:
    yield from _slips("", fields, FIELDS)
    for name, known in (("actions", ACTION), ("checkpoints", CHECKPOINT), ("outcomes", OUTCOME)):
        for number, each in enumerate(fields.get(name) or ()):
            yield from _slips(f"{name}[{number}].", each, known)


def _slips(where: str, fields: Mapping[str, Any], known: Sequence[str]) -> Iterable[str]:
    for name in fields:
        if name not in known:
            yield f"{where}{name} is not a known field; known are {', '.join(known)}"


def _odd_duration(duration: float | None, started_ms: int, ended_ms: int | None) -> Iterable[str]:
    """Agents tell seconds, and some milliseconds; whatever is neither is odd."""
    if duration is None or ended_ms is None:
        return
    took_ms = ended_ms - started_ms
    if duration != took_ms and abs(duration * 1000 - took_ms) >= 1:
        yield f"duration is {duration}, but ended_at is {took_ms / 1000:g} s after started_at"


def _outside(
    checkpoints: Sequence[tuple[str, int]], started_ms: int, ended_ms: int | None
) -> Iterable[str]:
    for name, at_ms in checkpoints:
        if at_ms < started_ms or (ended_ms is not None and at_ms > ended_ms):
            side = "before started_at" if at_ms < started_ms else "after ended_at"
            yield f"checkpoint {name[:80]!r} at {iso(at_ms)} is {side}"


def _few(warnings: list[str]) -> list[str]:
    if len(warnings) <= WARNINGS_MAX:
        return warnings
    return [*warnings[:WARNINGS_MAX], f"and {len(warnings) - WARNINGS_MAX} more"]
