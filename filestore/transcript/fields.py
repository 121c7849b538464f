"""Documents with named fields: one check a kind of field, each with the path in its error. Pure.

Every check returns the value it was given, with its type known, or raises InvalidFieldError. What
is not named is refused: a misspelt field must not pass silently.
"""

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NoReturn

from filestore.errors import InvalidFieldError
from filestore.transcript.values import flaw_of, flaw_of_text, step

NAME_CHARS_MAX = 1024
"""Ids, names of tools and models, paths of files."""
SEQUENCE_NUMBER_MAX = (1 << 53) - 1

_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})?"
)


def refuse(path: str, what: str) -> NoReturn:
    """Raise the error about the field at `path`."""
    raise InvalidFieldError(f"{path}: {what}", field=path)


def below(path: str, key: str | int) -> str:
    """The path of a field inside the one at `path`; the outermost document has none."""
    return (path + step(key)).removeprefix(".")


def an_object(value: object, path: str) -> dict[str, object]:
    if not isinstance(value, dict):
        refuse(path, "must be an object")
    return value


def fields_of(
    value: object, path: str, required: Collection[str], optional: Collection[str] = ()
) -> dict[str, object]:
    """An object with all of the required fields and none that is not named. `path` may be empty:
    the document itself, which errors call `document`."""
    fields = an_object(value, path or "document")
    for name in required:
        if name not in fields:
            refuse(below(path, name), "is missing")
    for name in fields:
        if name not in required and name not in optional:
            # A key that is no string would be no JSON: a mistake of whoever calls.
            refuse(below(path, str(name)), f"is not known; known are {_listed(required, optional)}")
    return fields


def _listed(required: Collection[str], optional: Collection[str]) -> str:
    return ", ".join([*required, *(f"{name}?" for name in optional)])


def a_text(value: object, path: str) -> str:
    """Any string, the empty one too."""
    if not isinstance(value, str):
        refuse(path, "must be a string")
    what = flaw_of_text(value)
    if what:
        refuse(path, what)
    return value


def a_name(value: object, path: str, chars_max: int = NAME_CHARS_MAX) -> str:
    """A string that is not empty and not long."""
    text = a_text(value, path)
    if not 0 < len(text) <= chars_max:
        refuse(path, f"must have 1 to {chars_max} characters, not {len(text)}")
    return text


def a_flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        refuse(path, "must be true or false")
    return value


def one_of(value: object, path: str, choices: Mapping[str, object] | Collection[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        refuse(path, f"must be one of {', '.join(choices)}")
    return value


def a_sequence_number(value: object, path: str) -> int:
    # True is an int to Python.
    if type(value) is not int or not 0 <= value <= SEQUENCE_NUMBER_MAX:
        refuse(path, f"must be a whole number from 0 to {SEQUENCE_NUMBER_MAX}")
    return value


def a_time(value: object, path: str) -> str:
    """ISO 8601 with date, time and zone. Kept as it is written: nothing is converted."""
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        refuse(path, "must be a time like 2026-01-31T09:30:00.000Z")
    if found[1] is None:
        refuse(path, "must say its zone: Z, or an offset like +02:00")
    try:
        datetime.fromisoformat(found[0])
    except ValueError:
        refuse(path, "must be a time that exists")
    return found[0]


def a_json(value: object, path: str) -> object:
    """Any JSON value that can be kept."""
    flaw = flaw_of(value)
    if flaw:
        refuse(path + flaw.path, flaw.what)
    return value
