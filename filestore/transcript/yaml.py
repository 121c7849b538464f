"""YAML of one form: the same value is always the same bytes, and every reader reads it alike. Pure.

Block style, two spaces, keys sorted by code point at every depth, lists indented under their key;
`[]` and `{}` where there is nothing to stand in a block. No anchors, no tags, no comments, no line
that goes on in the next one.

A string stands bare only if it begins with a letter, holds nothing but ASCII letters, digits,
single spaces and `_ - . , / ( ) +`, and is no word that stands for something else (`yes`, `null`,
…). Every other one is double-quoted, on one line, with all that is invisible escaped.
"""

import math
import re

from filestore.errors import InvalidArgumentError
from filestore.transcript.values import INTEGER_BITS_MAX

LEVELS_MAX = 140
"""Deeper values are refused: readers call themselves for each level. All that a record of a session
can hold is within it."""
BARE_KEY_CHARS_MAX = 1000
"""Readers look no further than 1024 characters for the colon of a key; a longer key is announced
with a question mark."""
_STEP = "  "

_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_.,/()+-]*(?: [A-Za-z0-9_.,/()+-]+)*")
_WORDS = frozenset([
    "y", "yes", "n", "no", "on", "off", "true", "false", "null", "nil", "none", "undefined",
    "nan", "inf", "infinity",
])  # fmt: skip
# Controls, separators of lines that are none in JSON, marks of direction, what no font shows, and
# code points that are no characters. Fixed, so that no version of Unicode changes an export.
_INVISIBLE = (
    "\x00-\x1f\x7f-\xa0\xad\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufdd0-\ufdef\ufeff"
    "\ufff0-\ufffb\ufffe\uffff\U000e0000-\U000e007f"
) + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(1, 17))
_ESCAPED = re.compile(f'["\\\\{_INVISIBLE}]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}


def to_yaml(value: object) -> bytes:
    """The value as a document. What a reader of YAML makes of it gives the same bytes again.

    Takes what JSON can hold, and the subclasses of those types that readers make. Raises
    InvalidArgumentError for anything else: nesting over LEVELS_MAX, numbers that are not finite,
    keys that are no strings, halves of surrogate pairs.
    """
    out: list[str] = []
    _node(out, value, "", "", LEVELS_MAX)
    try:
        return "".join(out).encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError("half of a surrogate pair has no YAML") from error


def _node(out: list[str], value: object, first: str, rest: str, levels: int) -> None:
    """One value from the place `first` on; lines after its first one begin with `rest`."""
    if not value or not isinstance(value, dict | list):
        out.append(f"{first}{_scalar(value)}\n")
    elif not levels:
        raise InvalidArgumentError(f"more than {LEVELS_MAX} levels have no YAML that can be read")
    elif isinstance(value, dict):
        _map(out, value, first, rest, levels - 1)
    else:
        for item in value:
            _node(out, item, f"{first}- ", rest + _STEP, levels - 1)
            first = rest


def _map(out: list[str], value: dict[object, object], first: str, rest: str, levels: int) -> None:
    below = rest + _STEP
    for key in sorted(map(_key, value)):
        name = _string(key)
        lead = f"{first}{name}:"
        if len(name) > BARE_KEY_CHARS_MAX:
            lead = f"{first}? {name}\n{rest}:"
        inner = value[key]
        if inner and isinstance(inner, dict | list):
            out.append(f"{lead}\n")
            _node(out, inner, below, below, levels)
        else:
            out.append(f"{lead} {_scalar(inner)}\n")
        first = rest


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise InvalidArgumentError(f"a key that is {type(key).__name__} has no YAML here")
    return key


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return _string(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, dict | list):
        return "{}" if isinstance(value, dict) else "[]"
    raise InvalidArgumentError(f"{type(value).__name__} has no YAML here")


def _integer(value: int) -> str:
    if value.bit_length() > INTEGER_BITS_MAX:
        raise InvalidArgumentError(f"an integer of more than {INTEGER_BITS_MAX} bits")
    return int.__repr__(value)


def _number(value: float) -> str:
    """The shortest digits that give this number again, in the form that YAML 1.1 knows as well:
    with a point always, and a sign in front of the exponent.
    """
    if not math.isfinite(value):
        raise InvalidArgumentError("a number that is not finite has no JSON and no YAML here")
    digits, mark, exponent = float.__repr__(value).partition("e")
    return f"{digits}{'' if '.' in digits else '.0'}{mark}{exponent}"


def _string(text: str) -> str:
    if _BARE.fullmatch(text) and text.lower() not in _WORDS:
        # A reader's own kind of string would carry itself along.
        return str(text)
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in _SHORT:
        return _SHORT[char]
    point = ord(char)
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
