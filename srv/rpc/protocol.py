"""Messages as bytes: requests in, replies and notifications out. Pure; docs/specs/0003-rpc.md.

A text frame is JSON, a binary frame the same object in MessagePack, answered in kind. Bytes are
decoded once, here; what a method's parameters must be is in params.py.
"""

import base64
import codecs
import json
from collections.abc import Iterable, Sized
from typing import NamedTuple, TypeVar

import msgpack
import orjson

from srv.errors import KINDS, ZonedError, told

ID_CHARS_MAX = 256
MAP_KEYS_MAX = 64
"""No object in this protocol has more keys."""
VALUES_MAX = 1 << 20
"""Values in one message, all arrays and objects together: each may take fifty times its bytes."""

Id = str | int | None
Container = TypeVar("Container", bound=Sized)


class Call(NamedTuple):
    """One request. Without an id (`is_notification`) nobody waits for an answer."""

    id: Id
    method: str
    params: dict[str, object]
    is_notification: bool = False


class Refused(NamedTuple):
    """What is no request, and what to answer."""

    id: Id
    error: ZonedError


Item = Call | Refused


_PARSER_WITHOUT_MEMORY = "Not enough memory"
"""How orjson's error begins that is not about the message."""


def decode(payload: bytes, *, is_binary: bool, array_max: int) -> object:
    """The value in a frame. Raises ZonedError (PARSE_ERROR, TOO_LARGE, UNAVAILABLE).

    `array_max`: elements in one array of MessagePack; without a bound a few bytes take gigabytes.
    """
    # Fewer bytes than that cannot hold more values.
    hook = _Counted() if len(payload) > VALUES_MAX else None
    try:
        if not is_binary:
            if hook is not None:
                hook.add(_json_values(payload))
            return orjson.loads(payload)
        return msgpack.unpackb(
            payload,
            ext_hook=_refuse_extension,
            list_hook=hook,
            object_hook=hook,
            # What an array claims to have is set aside at once; each element has a byte at least.
            max_array_len=min(array_max, len(payload)),
            max_map_len=MAP_KEYS_MAX,
        )
    except MemoryError as error:
        raise _no_memory() from error
    except (ValueError, msgpack.UnpackException) as error:
        if str(error).startswith(_PARSER_WITHOUT_MEMORY):
            raise _no_memory() from error
        reason = _binary_flaw(error) if is_binary else _text_flaw(payload, error)
        what = "MessagePack" if is_binary else "JSON"
        raise ZonedError("PARSE_ERROR", f"not valid {what}: {reason}") from error


def check_values(payload: bytes) -> None:
    """Raise TOO_LARGE for a JSON document of more values than are taken."""
    if len(payload) > VALUES_MAX:
        _Counted().add(_json_values(payload))


def _no_memory() -> ZonedError:
    found = told(MemoryError())
    assert found is not None
    return found


def _binary_flaw(error: Exception) -> str:
    """What is wrong: some of the parser's errors have no text of their own."""
    match error:
        case msgpack.StackError():
            return "too many arrays and objects in one another"
        case msgpack.FormatError():
            return "a byte that begins no value"
    return str(error)


def _text_flaw(payload: bytes, error: Exception) -> str:
    """What is wrong and where: what the parser says of bytes that are no text misleads."""
    if not payload:
        return "the message is empty"
    if payload.startswith(codecs.BOM_UTF8):
        return "it begins with a byte order mark"
    try:
        payload.decode()
    except UnicodeDecodeError as found:
        return f"byte {found.start} is not UTF-8"
    return str(error)


def read_batch(values: list[object], batch_max: int) -> list[Item]:
    """The requests in an array. Raises ZonedError if there is none, or too many."""
    if not values:
        raise ZonedError("INVALID_REQUEST", "an empty batch")
    if len(values) > batch_max:
        message = f"a batch of {len(values)} requests; at most {batch_max} are taken"
        raise ZonedError("TOO_LARGE", message, limit=batch_max)
    return [read(each) for each in values]


def read(value: object) -> Item:
    """The request in a message."""
    if type(value) is not dict:
        return _refused(None, "a request is an object")
    number = value.get("id")
    if number is not None and not _is_id(number):
        return _refused(None, f"id must be a text of at most {ID_CHARS_MAX}, or a whole number")
    method, params = value.get("method"), value.get("params")
    if value.get("jsonrpc") != "2.0":
        return _refused(number, 'jsonrpc must be "2.0"')
    if type(method) is not str:
        return _refused(number, "method must be a text")
    if params is None:
        params = {}
    elif type(params) is not dict:
        message = "params must be an object with named values"
        return Refused(number, ZonedError("INVALID_PARAMS", message))
    return Call(number, method, params, "id" not in value)


def _is_id(value: object) -> bool:
    # Not isinstance: True is an int, too, and 2**70 cannot be answered in JSON as it came.
    if type(value) is str:
        return len(value) <= ID_CHARS_MAX
    return type(value) is int and -(1 << 63) <= value < 1 << 64


def _refused(number: Id, message: str) -> Refused:
    return Refused(number, ZonedError("INVALID_REQUEST", message))


def result_of(number: Id, result: object) -> dict[str, object]:
    """The reply to a request that went well."""
    return {"jsonrpc": "2.0", "id": number, "result": result}


def error_of(number: Id, method: str, error: ZonedError) -> dict[str, object]:
    """The reply to a request that did not."""
    where = f"{method}: " if method else ""
    body = {
        "code": KINDS[error.kind].code,
        "message": f"{where}{error.kind}: {error.message}",
        "data": error.data,
    }
    return {"jsonrpc": "2.0", "id": number, "error": body}


def left_out(reply: dict[str, object], limit: int) -> dict[str, object]:
    """The reply in place of one that makes the answer to a batch too large."""
    message = "the answers to this batch are too large; this one was left out"
    error = ZonedError("TOO_LARGE", message, limit=limit, hint="ask for it by itself")
    return error_of(None, "", error) | {"id": reply["id"]}


def notification(method: str, params: dict[str, object]) -> dict[str, object]:
    """A message that the daemon sends by itself."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def encode(value: object, *, is_binary: bool) -> bytes:
    """A value as the payload of a frame. Bytes that are no text are raw, or base64 in JSON."""
    if is_binary:
        packed: bytes = msgpack.packb(value)
        return packed
    try:
        return orjson.dumps(value, default=_as_base64)
    except TypeError:
        # A whole number of more than 64 bits: what agents have stored may hold one.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_as_base64)
        return text.encode()


def join(parts: Iterable[bytes], *, is_binary: bool) -> bytes:
    """Encoded values as the payload that has them in one array."""
    if not is_binary:
        return b"[%b]" % b",".join(parts)
    values = list(parts)
    head: bytes = msgpack.Packer().pack_array_header(len(values))
    return head + b"".join(values)


def text_or_bytes(data: bytes) -> str | bytes:
    """Stored bytes as they travel: text where they are valid UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _as_base64(value: object) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} cannot be sent")


class _Counted:
    """Refuses too many values; called with each array and object of MessagePack."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, container: Container) -> Container:
        self.add(len(container))
        return container

    def add(self, count: int) -> None:
        self._count += count
        if self._count > VALUES_MAX:
            message = f"a message of more than {VALUES_MAX} values"
            raise ZonedError("TOO_LARGE", message, limit=VALUES_MAX, hint="send it in parts")


def _json_values(payload: bytes) -> int:
    """About how many values a document has; never fewer than half of them."""
    if (count := _marks(payload)) <= VALUES_MAX:
        return count
    # Those within texts are no marks, but it takes a while to be sure: without what is escaped,
    # texts are what stands between two quotes, and each is a value, too.
    plain = payload.replace(b"\\\\", b"").replace(b'\\"', b"")
    texts = plain.count(b'"') // 2
    return texts if texts > VALUES_MAX else _marks(b"".join(plain.split(b'"')[::2]))


def _marks(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _refuse_extension(code: int, _: bytes) -> object:
    raise ValueError(f"extension type {code} is not known")
