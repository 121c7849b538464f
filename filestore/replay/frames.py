"""Frames: what one line of a stream says, before it is known who wrote it. Pure; never an error.

A provider reads frames through these functions only, so whatever shape a value has, it gets
something of the type it asked for.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

Frame = dict[str, Any]

DEPTH_MAX = 200
"""Deeper frames are not read: what can be parsed so deep can no longer be written."""
LINE_BYTES_MAX = 64 << 20
"""Longer lines are not read: an old stream may have one of any size, and memory is bounded."""
TIME_MS_MAX = (1 << 53) - 1
SECONDS_MAX = 100_000_000_000
"""Numbers below are seconds (to the year 5138), others milliseconds (from 1973 on)."""

IMAGE = "[image]"
"""Stands where a picture was."""
_PICTURES = frozenset(("image", "input_image", "image_url", "localImage", "local_image"))
_TEXTS = frozenset(("text", "input_text", "output_text", "summary_text", "reasoning_text"))

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def parse(text: bytes | str) -> Frame | None:
    """The JSON object in `text`, or None."""
    if len(text) > LINE_BYTES_MAX:
        return None
    try:
        frame = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(frame, dict):
        return None
    # Each level takes two brackets. To count them is cheap and rules out nearly every line; a text
    # may be full of them, though.
    if len(text) < DEPTH_MAX * 2:
        return frame
    if isinstance(text, bytes):
        brackets = text.count(b"{") + text.count(b"[")
    else:
        brackets = text.count("{") + text.count("[")
    if brackets > DEPTH_MAX and _is_deep(frame):
        return None
    return frame


def _is_deep(frame: Frame) -> bool:
    level: list[Any] = [frame]
    for _ in range(DEPTH_MAX):
        below: list[Any] = []
        for value in level:
            inner = value.values() if type(value) is dict else value
            below += [part for part in inner if type(part) is dict or type(part) is list]
        if not below:
            return False
        level = below
    return True


def text_at(frame: Frame, *keys: str) -> str:
    """The first text that is not empty under one of the keys; else empty."""
    for key in keys:
        value = frame.get(key)
        if type(value) is str and value:
            return value
    return ""


def frame_at(frame: Frame, key: str) -> Frame:
    """The object under a key; else an empty one."""
    value = frame.get(key)
    return value if type(value) is dict else {}


def frames_at(frame: Frame, key: str) -> list[Frame]:
    """The objects in the list under a key."""
    value = frame.get(key)
    return [part for part in value if type(part) is dict] if type(value) is list else []


def number_at(frame: Frame, key: str) -> int | float | None:
    """The number under a key."""
    value = frame.get(key)
    return value if type(value) is int or type(value) is float else None


def text_of(content: object) -> str:
    """The text of a message or result: a string, a block, or blocks joined by line breaks."""
    if type(content) is str:
        return content
    if type(content) is dict:
        return _block_text(content)
    if type(content) is not list:
        return ""
    texts = [_block_text(block) if type(block) is dict else "" for block in content]
    return "\n".join([text for text in texts if text])


def _block_text(block: Frame) -> str:
    kind = block.get("type")
    if type(kind) is not str:
        return ""
    if kind in _TEXTS:
        return text_at(block, "text")
    if kind in _PICTURES:
        return IMAGE
    if kind == "resource_link":
        return text_at(block, "uri", "name")
    if kind == "resource":
        return text_at(frame_at(block, "resource"), "text", "uri")
    return ""


def as_text(value: object) -> str:
    """A result as text: as it is, its blocks, or the JSON of whatever else it is."""
    if value is None:
        return ""
    text = text_of(value)
    return text or ("" if value in ("", [], {}) else orjson.dumps(value).decode())


def time_ms(value: object) -> int | None:
    """A time in Unix milliseconds; None if it is none, or does not say of which zone it is."""
    if type(value) is str:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        ms = (moment - _EPOCH) // _MILLISECOND if moment.tzinfo else -1
    elif type(value) is int or type(value) is float:
        if not 0 < value <= TIME_MS_MAX:
            return None
        ms = int(value) if value >= SECONDS_MAX else int(value * 1000)
    else:
        return None
    return ms if ms > 0 else None
