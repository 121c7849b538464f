"""The bodies of records: JSON that comes back as it was given, numbers of any size included. Pure.

orjson would turn whole numbers beyond 64 bits into floats without a word, so a text that may hold
one goes the slower way.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import orjson

from filestore.errors import InvalidArgumentError, TooLargeError

BODY_BYTES_MAX = 8 << 20
DEPTH_MAX = 128
_LONG_NUMBER = re.compile(rb"[0-9]{19}")


def dump(body: Mapping[str, object], *, bytes_max: int = BODY_BYTES_MAX) -> bytes:
    """The JSON of a body, or InvalidArgumentError: too large, too deep, or no JSON."""
    _check_depth(body)
    try:
        data = to_json(body)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"this has no JSON form: {error}") from error
    if len(data) > bytes_max:
        raise TooLargeError(f"{len(data)} bytes are more than a record takes ({bytes_max})",
                            limit=bytes_max)  # fmt: skip
    return data


def to_json(value: object) -> bytes:
    """The JSON of a value, numbers of any size included. TypeError, ValueError."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()


def load(data: bytes) -> Any:  # noqa: ANN401  # JSON of any shape
    """What `dump` was given."""
    if len(data) >= 19 and _LONG_NUMBER.search(data):
        return json.loads(data)
    return orjson.loads(data)


def is_text(value: str) -> bool:
    """True if `value` can be stored: no half of a surrogate pair, as broken names of files have."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_depth(body: Mapping[str, object]) -> None:
    """Refuse what could not be written or read again; without recursion."""
    waiting: list[tuple[object, int]] = [(body, 1)]
    while waiting:
        value, depth = waiting.pop()
        inner: list[object] = []
        if isinstance(value, Mapping):
            inner = list(value.values())
        elif isinstance(value, list | tuple):
            inner = list(value)
        elif isinstance(value, float) and (value != value or value in (_INFINITY, -_INFINITY)):
            raise InvalidArgumentError("a number is not finite")
        if inner and depth >= DEPTH_MAX:
            raise InvalidArgumentError(f"nested more than {DEPTH_MAX} deep")
        waiting += [(each, depth + 1) for each in inner]


_INFINITY = float("inf")
