"""JSON values of any shape: whether they can be kept, and where in them the first flaw is. Pure.

A flaw carries a path relative to the value that was looked at; whoever knows where the value stands
puts that before it. Messages never show a value: it may be a secret.
"""

import math
import re
from collections.abc import Callable
from typing import NamedTuple

DEPTH_MAX = 100
"""Deeper values are refused: the readers of what we export call themselves once a level."""
INTEGER_BITS_MAX = 10_000
"""Python takes no more than 4300 digits from a text."""
_STEP_CHARS_MAX = 64

_PLAIN_STEP = re.compile(rf"[A-Za-z_$][A-Za-z0-9_$-]{{0,{_STEP_CHARS_MAX - 1}}}")


class Flaw(NamedTuple):
    """What is wrong, and at which path: empty, or beginning with `.` or `[`."""

    path: str
    what: str

    def below(self, key: str | int) -> "Flaw":
        """The same flaw, seen from one level higher."""
        return Flaw(step(key) + self.path, self.what)


def step(key: str | int) -> str:
    """One step of a path: `.name`, `[0]`, or `["any text"]`, escaped and cut."""
    if isinstance(key, int):
        return f"[{key}]"
    if _PLAIN_STEP.fullmatch(key):
        return f".{key}"
    shown = ascii(key[:_STEP_CHARS_MAX])[1:-1].replace('"', '\\"')
    return f'["{shown}…"]' if len(key) > _STEP_CHARS_MAX else f'["{shown}"]'


def flaw_of_text(text: str) -> str:
    """What is wrong with a text; empty if nothing is."""
    if text.isascii():
        return ""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "must be valid Unicode: it has half of a surrogate pair"
    return ""


def flaw_of(value: object, levels: int = DEPTH_MAX) -> Flaw | None:
    """The first thing in a value that JSON or its readers cannot carry; None if all is well."""
    if isinstance(value, str):
        what = flaw_of_text(value)
        return Flaw("", what) if what else None
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        is_kept = value.bit_length() <= INTEGER_BITS_MAX
        return None if is_kept else Flaw("", f"is an integer of more than {INTEGER_BITS_MAX} bits")
    if isinstance(value, float):
        return None if math.isfinite(value) else Flaw("", "must be a finite number")
    if not isinstance(value, dict | list):
        return Flaw("", f"must be JSON, not {type(value).__name__}")
    if not levels:
        return Flaw("", f"is nested more than {DEPTH_MAX} levels deep")
    if isinstance(value, dict):
        bad_key = next((flaw for key in value if (flaw := _flaw_of_key(key))), None)
        if bad_key:
            return bad_key
    return first_inside(value, lambda inner: flaw_of(inner, levels - 1))


def _flaw_of_key(key: object) -> Flaw | None:
    if not isinstance(key, str):
        return Flaw("", f"has a key that is {type(key).__name__}, not a string")
    what = flaw_of_text(key)
    return Flaw(step(key), f"has a key that {what}") if what else None


def first_inside(
    value: dict[str, object] | list[object], look: Callable[[object], Flaw | None]
) -> Flaw | None:
    """What `look` finds first among the values directly inside, with the step that leads there."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in inside:
        flaw = look(inner)
        if flaw is not None:
            return flaw.below(key)
    return None
