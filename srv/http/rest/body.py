"""The body of a request: read within bounds, and one JSON value, or an error that says why not.

Nothing is read that is too large, nothing is guessed: a name that stands twice, a number that is
none, half of a character or a second document are errors. Whole numbers keep every digit.
"""

import asyncio
import codecs
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from filestore.journal.bodies import DEPTH_MAX
from srv.errors import ZonedError
from srv.http.rest.schema import shown
from srv.rpc.budget import SMALL_BYTES_MAX, Budget
from srv.rpc.protocol import check_values

BODY_S_MAX = 60.0
"""A body holds a share of the budget; so long does it have to come in."""
_MEDIA_TYPE = re.compile(r"application/json( *; *charset *= *\"?utf-?8\"?)?", re.IGNORECASE)
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class Refused(Exception):
    """The request is refused for its form, with a status of its own."""

    def __init__(self, status: int, error: ZonedError) -> None:
        super().__init__(str(error))
        self.status = status
        self.error = error


@asynccontextmanager
async def held(request: web.Request, budget: Budget, bytes_max: int) -> AsyncIterator[bytes]:
    """The bytes of the body. As long as they are needed they count among all that are held."""
    length = request.content_length
    if length is not None and length > bytes_max:
        raise _too_large(bytes_max)
    size = bytes_max if length is None else length
    is_counted = request.can_read_body and size > SMALL_BYTES_MAX
    if is_counted:
        await budget.take_later(size)
    try:
        yield await _read(request, bytes_max)
    finally:
        if is_counted:
            budget.give(size)


async def _read(request: web.Request, bytes_max: int) -> bytes:
    if not request.can_read_body:
        return b""
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_S_MAX):
            async for part in request.content.iter_any():
                size += len(part)
                if size > bytes_max:
                    raise _too_large(bytes_max)
                parts.append(part)
    except TimeoutError as error:
        message = f"the body did not come within {BODY_S_MAX:.0f} s"
        raise Refused(408, ZonedError("INVALID_REQUEST", message)) from error
    except (HttpProcessingError, web.RequestPayloadError) as error:
        raise ZonedError("INVALID_REQUEST", "the body breaks the rules of HTTP") from error
    return b"".join(parts)


def _too_large(bytes_max: int) -> ZonedError:
    message = f"the body is too large; at most {bytes_max} bytes are taken"
    return ZonedError("TOO_LARGE", message, limit=bytes_max)


def check_headers(request: web.Request) -> None:
    """Raise Refused unless the headers say that the body is plain JSON."""
    kind = request.headers.get("Content-Type", "")
    encoding = request.headers.get("Content-Encoding", "identity")
    if not _MEDIA_TYPE.fullmatch(kind.strip()):
        message = f"the body must be application/json; it is {shown(kind) if kind else 'untold'}"
        hint = "send the header Content-Type: application/json"
        raise Refused(415, ZonedError("INVALID_REQUEST", message, hint=hint))
    if encoding.lower() != "identity":
        message = f"the body must not be packed; its Content-Encoding is {shown(encoding)}"
        raise Refused(415, ZonedError("INVALID_REQUEST", message))


def decode(data: bytes) -> object:
    """The value in a body. Raises ZonedError."""
    if data.startswith(codecs.BOM_UTF8):
        raise _no_json("it begins with a byte order mark")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _no_json(f"byte {error.start} is not UTF-8") from error
    if not text.strip(" \t\r\n"):
        raise _no_json("the body is empty")
    check_values(data)
    try:
        value = _DECODER.decode(text)
        if _HALF.search(data):
            _check_text(value)
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise _no_json(reason) from error
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        # Of the interpreter: a whole number of thousands of digits.
        raise _no_json("a number has too many digits") from error
    _check_depth(data, value)
    return value


def _no_json(reason: str) -> ZonedError:
    return ZonedError("PARSE_ERROR", f"not valid JSON: {reason}")


def _too_deep() -> ZonedError:
    message = f"nested too deeply; at most {DEPTH_MAX} levels are taken"
    return ZonedError("INVALID_PARAMS", message)


def _once(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counted = Counter(name for name, _ in pairs)
        raise _no_json(f"the name {shown(counted.most_common(1)[0][0])} stands twice in one object")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _no_json(f"the number {shown(text)} is out of range")
    return value


def _no_constant(name: str) -> object:
    raise _no_json(f"{name} is no number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_once, parse_float=_finite, parse_constant=_no_constant
)


def _check_text(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise _no_json("a text has half of a surrogate pair") from error


def _check_depth(data: bytes, value: object) -> None:
    """Refuse what the store would not take; fewer brackets cannot be so deep."""
    if data.count(b"[") + data.count(b"{") <= DEPTH_MAX:
        return
    level: list[object] = [value]
    for _ in range(DEPTH_MAX + 1):
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        if not inner:
            return
        level = inner
    raise _too_deep()
