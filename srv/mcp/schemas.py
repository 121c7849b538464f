"""The JSON schemas of tools: what they take, and what they answer. Data only.

They are for those who call. What is refused, and in which words, is decided by the rules themselves
(filestore/records/submission.py, arguments.py); a test holds both against each other.
"""

from typing import Any

from filestore.records.entities import ENTITY_TYPE
from filestore.records.submission import ID_CHARS_MAX, ID_CHARS_MIN

Schema = dict[str, Any]


def _object(properties: Schema, required: tuple[str, ...] = (), about: str = "") -> Schema:
    found: Schema = {"type": "object", "properties": properties}
    if required:
        found["required"] = list(required)
    if about:
        found["description"] = about
    return found


def _text(about: str = "", **more: object) -> Schema:
    return {"type": "string", **({"description": about} if about else {}), **more}


def _array(items: Schema, **more: object) -> Schema:
    return {"type": "array", "items": items, **more}


def _or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


def _result(schema: Schema) -> Schema:
    """Answers that are no objects stand under `result`: older revisions take objects only."""
    return _object({"result": schema}, ("result",))


_ANY: Schema = {"type": "object"}
_WHEN = _text("ISO 8601 with Z or an offset", format="date-time")
_COUNT: Schema = {"type": "integer", "minimum": 0}
SESSION_ID = _text(
    "the id of the session, exact: case and spaces count",
    minLength=ID_CHARS_MIN,
    maxLength=ID_CHARS_MAX,
)
_ANY_SESSION = _text("the id of a session, exact", minLength=1, maxLength=ID_CHARS_MAX)

_ACTION = _object(
    {
        "type": _text("what kind of action, as `edit` or `test`", minLength=1),
        "result": _text("how it ended, in any word, as `passed`", minLength=1),
        "details": _or_null(_ANY),
        "timestamp": _or_null(_WHEN),
    },
    ("type", "result"),
)
_CHECKPOINT = _object(
    {
        "name": _text("by which it is restored", minLength=1),
        "timestamp": _WHEN,
        "state": _or_null({**_ANY, "description": "whatever is needed to go on from there"}),
    },
    ("name", "timestamp"),
)
_OUTCOME = _object(
    {
        "type": _text("what came of it, as `pull_request`", minLength=1),
        "id": _or_null(_text("of what came of it; sessions are found by it", minLength=1)),
        "details": _or_null(_ANY),
    },
    ("type",),
)
SUBMIT = _object(
    {
        "session_id": SESSION_ID,
        "actions": _array(_ACTION, minItems=1, description="what was done"),
        "checkpoints": _or_null(_array(_CHECKPOINT)),
        "outcomes": _or_null(_array(_OUTCOME)),
        "duration": _or_null({"type": "number", "exclusiveMinimum": 0, "description": "seconds"}),
        "started_at": _WHEN,
        "ended_at": _or_null({**_WHEN, "description": "not before started_at; ends the session"}),
    },
    ("session_id", "actions", "started_at"),
)
SUBMITTED = _object(
    {
        "entity_id": _text(pattern="^ent_[0-9a-f]{24}$"),
        "observation_count": {"type": "integer", "minimum": 1},
        "warnings": _array(_text()),
    },
    ("entity_id", "observation_count", "warnings"),
)

_WANTED: Schema = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
    "order_by": _text(enum=["started_at", "updated_at"], default="started_at"),
    "order": _text(enum=["asc", "desc"], default="desc"),
}
HISTORY = _object({"session_id": _text("one session; without it, many", maxLength=256), **_WANTED})
_ENTITY = _object(
    {
        "entity_id": _text(),
        "entity_type": _text(const=ENTITY_TYPE),
        "snapshot": {**_ANY, "description": "per field the latest observation that carries it"},
        "observation_count": _COUNT,
        "observations": _array(
            _object(
                {"seq": _COUNT, "observed_at": _WHEN, "fields": _ANY},
                ("seq", "observed_at", "fields"),
            )
        ),
    },
    ("entity_id", "entity_type", "snapshot", "observation_count", "observations"),
)
HISTORIES = _result({"anyOf": [_ENTITY, {"type": "null"}, _array(_ENTITY)]})

_BOUND = "a date, meaning all of that day in UTC, or an ISO 8601 time with Z or an offset"
TIMELINE = _object(
    {
        "entity_id": _text(
            "a session's entity_id or session_id, or any id that sessions named: of an outcome, or "
            "a value under a key ending in _id",
            minLength=1,
        ),
        "start_date": _text(_BOUND),
        "end_date": _text(_BOUND),
    },
    ("entity_id",),
)
EVENT_TYPES = ("session_started", "checkpoint", "phase_changed", "outcome", "session_ended")
EVENTS = _result(
    _array(
        _object(
            {
                "timestamp": _WHEN,
                "type": _text(enum=list(EVENT_TYPES)),
                "session_id": _text(),
                "entity_id": _text(),
            },
            ("timestamp", "type", "session_id", "entity_id"),
        )
    )
)

RESTORE = _object({"session_id": _ANY_SESSION, "name": _text(minLength=1)}, ("session_id", "name"))
CHECKPOINT = _object(
    {"session_id": _text(), "name": _text(), "timestamp": _WHEN, "state": {}},
    ("session_id", "name", "timestamp", "state"),
)

LIST = _object(
    {
        **_WANTED,
        "order_by": {**_WANTED["order_by"], "default": "updated_at"},
        "status": _text(enum=["active", "completed", "cancelled", "error"]),
        "agent_name": _text("only sessions of this agent"),
    }
)
_SESSION = _object(
    {
        "session_id": _text(),
        "entity_id": _text(),
        "status": _text(),
        "phase": _text(),
        "origin": _text("the surface that began it"),
        "started_at": _WHEN,
        "updated_at": _WHEN,
        "ended_at": _WHEN,
        "messages": _COUNT,
        "observations": _COUNT,
    },
    ("session_id", "entity_id", "status", "phase", "origin", "started_at", "updated_at"),
)
SESSIONS = _result(_array(_SESSION))

READ = _object(
    {
        "session_id": _ANY_SESSION,
        "max_chars": {
            "type": "integer",
            "minimum": 100,
            "maximum": 200_000,
            "default": 8000,
            "description": "how much text to answer with; of a longer message its end",
        },
        "before": {**_COUNT, "description": "what `before` was in the last answer: read on there"},
    },
    ("session_id",),
)
SLICE = _object(
    {
        "session": _SESSION,
        "messages": _array(
            _object(
                {
                    "seq": _COUNT,
                    "role": _text(),
                    "text": _text(),
                    "timestamp": _WHEN,
                    "cut_chars": {**_COUNT, "description": "so many are missing at its beginning"},
                },
                ("seq", "role", "text"),
            )
        ),
        "before": {**_COUNT, "description": "there is more before this; give it to read on"},
    },
    ("session", "messages"),
)
