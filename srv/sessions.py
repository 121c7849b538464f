"""What commands and daemon must agree on about sessions of the command line: the form of their ids,
and metadata as text. Imports next to nothing: hooks wait for it.
"""

import json
import os
import re
import time
from typing import Any

from srv.errors import ZonedError

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SHOWN_CHARS_MAX = 80


def check_id(value: str) -> str:
    """Return `value` if a session of the command line can have it as its id. INVALID_PARAMS."""
    if _ID.fullmatch(value):
        return value
    shown = ascii(value[:_SHOWN_CHARS_MAX])
    message = (
        "a session's id must be 1 to 128 of A-Z a-z 0-9 . _ -, a letter or digit first, "
        f"not {shown}"
    )
    raise ZonedError("INVALID_PARAMS", message, field="session_id")


def new_id() -> str:
    """An id of the time, UTC, and chance: `agent-20261119-223500-1a2b3c4d`."""
    return f"agent-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"


def object_of(text: str) -> dict[str, Any]:
    """The object that a JSON text is. INVALID_PARAMS. Numbers of any size come as they are."""
    try:
        found = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        message = f"metadata must be a JSON object: {why}"
        raise ZonedError("INVALID_PARAMS", message, field="metadata") from error
    if not isinstance(found, dict):
        message = f'metadata must be a JSON object, as {{"step": 2}}, not {text[:40]!a}'
        raise ZonedError("INVALID_PARAMS", message, field="metadata")
    return found


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON")
