"""Times as text: ISO 8601 in UTC with three decimals and `Z`, and back. Pure."""

import re
from datetime import UTC, datetime, timedelta

from filestore.errors import InvalidArgumentError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORM = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?([Zz]|[+-]\d\d(:?\d\d)?)?")


def iso(at_ms: int) -> str:
    """A time as text. What no calendar holds is shown as the nearest that it does."""
    try:
        found = _EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:
        found = datetime.max.replace(tzinfo=UTC) if at_ms > 0 else datetime.min.replace(tzinfo=UTC)
    return found.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def parse(text: str, *, naive_is_utc: bool = False) -> int:
    """The time that a text tells. InvalidArgumentError for what is none, or has no zone."""
    if not _FORM.fullmatch(text):
        raise InvalidArgumentError(f"{ascii(text)[:80]} is no ISO 8601 time")
    try:
        found = datetime.fromisoformat(text.upper().replace(",", "."))
    except ValueError as error:
        raise InvalidArgumentError(f"{ascii(text)[:80]} is no ISO 8601 time: {error}") from error
    if found.tzinfo is None:
        if not naive_is_utc:
            raise InvalidArgumentError(
                f"{ascii(text)[:80]} has no zone", hint="end it with Z or an offset"
            )
        found = found.replace(tzinfo=UTC)
    return (found - _EPOCH) // timedelta(milliseconds=1)
