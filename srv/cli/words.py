"""Numbers as people read them: times, sizes, counts. Pure but for the time zone."""

import time

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def ago(time_ms: int | None, now_ms: int) -> str:
    """`2 min ago` for what was today, the local date and time for what is older, - for nothing."""
    if time_ms is None:
        return "-"
    seconds = (now_ms - time_ms) // 1000
    if not 0 <= seconds < _DAY:
        return date(time_ms)[:16]
    if seconds < 5:
        return "just now"
    return duration(seconds) + " ago"


def duration(seconds: int) -> str:
    """`42 s`, `2 min`, `3 h`, `5 days`: one unit is enough to know."""
    if seconds < _MINUTE:
        return f"{seconds} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE} min"
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR} h"
    return f"{seconds // _DAY} days"


def date(time_ms: int | None) -> str:
    """`2026-11-18 17:47:48`, local; a time that no calendar has is shown as it is."""
    if time_ms is None:
        return "-"
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ms / 1000))
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"


def size(count: int) -> str:
    """`512 B`, `1.5 KiB`, `48 MiB`."""
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1023.95 or unit == "TiB":
            return f"{value:.1f} {unit}".replace(".0 ", " ")
    raise AssertionError("the last unit takes all")


def several(count: int, one: str) -> str:
    """`1 line`, `3 lines`."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"
