"""What callers hand in to be written: refused if it breaks a limit, or made ready. Pure."""

from collections.abc import Iterable

from filestore.errors import InvalidArgumentError, TooLargeError
from filestore.lines import split_lines
from filestore.model import Limits


def join_lines(lines: Iterable[str | bytes], limits: Limits) -> tuple[bytes, int]:
    """Turn the caller's lines into the bytes to append, and their count."""
    if isinstance(lines, (str, bytes)):
        raise InvalidArgumentError("lines must be a list of lines", operation="append_lines")
    try:
        kept = split_lines(lines)
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidArgumentError(
            f"lines must be a list of valid text or bytes: {error}", operation="append_lines"
        ) from error
    if not kept:
        return b"", 0
    kept.append(b"")
    return _within(b"\n".join(kept), limits.append_bytes_max, "append"), len(kept) - 1


def check_append(data: bytes, limits: Limits) -> bytes:
    """Refuse an append over the limit, or of something that is not bytes."""
    return _check_bytes(data, limits.append_bytes_max, "append")


def check_write(data: bytes, limits: Limits) -> bytes:
    """Refuse a write over the limit, or of something that is not bytes."""
    return _check_bytes(data, limits.write_bytes_max, "write")


def _check_bytes(data: bytes, limit: int, operation: str) -> bytes:
    # bytes() of an int would be that many zeros, and of a buffer must be taken before it changes.
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidArgumentError(
            f"data must be bytes, not {type(data).__name__}", operation=operation
        )
    return _within(bytes(data), limit, operation)


def _within(data: bytes, limit: int, operation: str) -> bytes:
    if len(data) > limit:
        raise TooLargeError(
            f"{len(data)} bytes are more than one {operation} takes ({limit})",
            limit=limit,
            operation=operation,
            hint="store it in smaller parts",
        )
    return data
