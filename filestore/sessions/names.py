"""How sessions are named: definition ids, and the zones of a definition. Pure.

    agent:<defId>:current            the session that goes on
    agent:<defId>:archive:<ms>       a finished one; ms is a plain decimal: one name a zone

Everything that takes an id or a zone from outside goes through here first, so there is no way to
name a zone that is not a session's.
"""

import re

from filestore.errors import (
    InvalidArgumentError,
    InvalidDefinitionIdError,
    InvalidZoneError,
    NotFoundError,
)
from filestore.journal.model import SESSION_ID_CHARS_MAX

STATE = "output.state.json"
OUTPUT = "output"
DEFINITION_ID_CHARS_MAX = 128
ARCHIVED_MS_MAX = (1 << 63) - 2
"""One less than a column holds: AFTER_ALL_MS is later than all."""
AFTER_ALL_MS = ARCHIVED_MS_MAX + 1

_DEFINITION_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{DEFINITION_ID_CHARS_MAX}}}")
_ARCHIVE = re.compile(rf"agent:({_DEFINITION_ID.pattern}):archive:(0|[1-9][0-9]{{0,18}})")
_CURRENT = re.compile(rf"agent:({_DEFINITION_ID.pattern}):current")
_SHOWN_CHARS_MAX = 80


def is_definition_id(value: str) -> bool:
    """True if `value` can be the id of a definition."""
    return _DEFINITION_ID.fullmatch(value) is not None


def check_definition_id(value: object) -> str:
    """Return `value` if it is a definition id, else raise InvalidDefinitionIdError."""
    if isinstance(value, str) and is_definition_id(value):
        return value
    raise InvalidDefinitionIdError(
        f"INVALID_DEFINITION_ID: must be 1 to {DEFINITION_ID_CHARS_MAX} of A-Z a-z 0-9 _ -, "
        f"not {_shown(value)}"
    )


def parse_archive(zone: object) -> tuple[str, int]:
    """The definition id and time in the name of an archive, else raise InvalidZoneError."""
    found = _ARCHIVE.fullmatch(zone) if isinstance(zone, str) else None
    if found and int(found[2]) <= ARCHIVED_MS_MAX:
        return found[1], int(found[2])
    raise InvalidZoneError(
        f"INVALID_ZONE: must be agent:<definition id>:archive:<ms>, not {_shown(zone)}"
    )


def parse_session(zone: str) -> tuple[str, int | None] | None:
    """Whose session a zone holds, and since when it is archived (None: it goes on).

    None if the name is not that of a session.
    """
    found = _CURRENT.fullmatch(zone)
    if found:
        return found[1], None
    try:
        return parse_archive(zone)
    except InvalidZoneError:
        return None


def check_session_id(value: object) -> str:
    """Return `value` if it can be the id of a session, else raise InvalidArgumentError."""
    if isinstance(value, str) and 0 < len(value) <= SESSION_ID_CHARS_MAX and value.isprintable():
        return value
    raise InvalidArgumentError(
        f"a session id must be 1 to {SESSION_ID_CHARS_MAX} printable characters, "
        f"not {_shown(value)}"
    )


def check_guard_id(value: object) -> str | None:
    """Return `value` if a caller may mean a session by it: its id, or empty for none yet; None for
    whichever it is.
    """
    return value if value is None or value == "" else check_session_id(value)


def current_zone(definition_id: str) -> str:
    """The zone of the session that goes on."""
    return f"agent:{definition_id}:current"


def archive_zone(definition_id: str, archived_ms: int) -> str:
    """The zone of a finished session."""
    return f"agent:{definition_id}:archive:{archived_ms}"


def missing(zone: str, operation: str) -> NotFoundError:
    """The error about a session that is not there."""
    found = parse_session(zone)
    what, command = "session", "zoned agents"
    if found is not None and found[1] is not None:
        what, command = "archive", f"zoned archives {found[0]}"
    hint = f"{command} lists those there are"
    return NotFoundError(f"no such {what}", operation=operation, zone=zone, hint=hint)


def zone_of(place: object) -> str:
    """The zone that a caller means by an archive's zone, or by a definition id (its current)."""
    if isinstance(place, str) and ":" in place:
        parse_archive(place)
        return place
    return current_zone(check_definition_id(place))


def _shown(value: object) -> str:
    # No more of it is looked at than is shown: it may be as long as a message.
    shown = ascii(value[: _SHOWN_CHARS_MAX + 1] if isinstance(value, str) else value)
    return shown if len(shown) <= _SHOWN_CHARS_MAX else shown[:_SHOWN_CHARS_MAX] + "…"
