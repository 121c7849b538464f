"""The parameters of methods: what each must be, and how it is told when it is not. Pure.

A `Field` takes the name and the value of a parameter and gives the value as the method takes it, or
raises INVALID_PARAMS that names the parameter.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from filestore.errors import StoreError
from filestore.sessions.names import check_definition_id, check_session_id, parse_archive
from srv.errors import ZonedError, told

INTEGER_MAX = (1 << 63) - 1
TEXT_CHARS_MAX = 1024
SHOWN_CHARS_MAX = 60

Field = Callable[[str, object], object]


class Spec(NamedTuple):
    """The parameters of one method. Of those in `one_of` exactly one must be given, unless that is
    optional.
    """

    fields: Mapping[str, Field]
    required: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    is_one_optional: bool = False


def check(params: Mapping[str, object], spec: Spec) -> dict[str, object]:
    """The parameters as the method takes them. A null is as good as nothing given."""
    values: dict[str, object] = {}
    fields = spec.fields
    for name, value in params.items():
        field = fields.get(name)
        if field is None:
            known = ", ".join(fields) or "none"
            raise wrong(name, f"unknown parameter {_shown(name)}; known are: {known}")
        if value is not None:
            values[name] = field(name, value)
    for name in spec.required:
        if name not in values:
            raise wrong(name, f"{name} is missing")
    if spec.one_of:
        _check_one_of(values, spec)
    return values


def _check_one_of(values: Mapping[str, object], spec: Spec) -> None:
    given = [name for name in spec.one_of if name in values]
    if len(given) > 1 or (not given and not spec.is_one_optional):
        count = "at most" if spec.is_one_optional else "exactly"
        raise wrong(spec.one_of[0], f"give {count} one of {' and '.join(spec.one_of)}")


def text(name: str, value: object) -> str:
    """A text, short as ids and zones are."""
    given = _text(name, value)
    if len(given) > TEXT_CHARS_MAX:
        raise wrong(name, f"{name} must have at most {TEXT_CHARS_MAX} characters")
    return given


def _text(name: str, value: object) -> str:
    if type(value) is not str:
        raise wrong(name, f"{name} must be a text, not {_type(value)}")
    return value


def any_text(name: str, value: object) -> str:
    """A text of any length: what is kept has bounds of its own."""
    return _text(name, value)


def an_object(name: str, value: object) -> dict[str, Any]:
    """An object; what may be in it is for others to say."""
    if not isinstance(value, dict):
        raise wrong(name, f"{name} must be an object")
    return value


def agent(name: str, value: object) -> str:
    """The id of an agent."""
    return _in_form(name, value, check_definition_id)


def agent_before(name: str, value: object) -> str:
    """The last agent of the page before; empty for the first page."""
    return "" if value == "" else agent(name, value)


def archive(name: str, value: object) -> str:
    """The zone of an archive."""
    return _in_form(name, value, parse_archive)


def session(name: str, value: object) -> str:
    """What can become the id of a session."""
    return _in_form(name, value, check_session_id)


def guard(name: str, value: object) -> str:
    """The session that a caller means to change: its id, or empty for none yet."""
    return "" if value == "" else session(name, value)


def _in_form(name: str, value: object, checked: Callable[[object], object]) -> str:
    """A text of the form that the store wants, refused with the name of the parameter. One that is
    too long is refused by that form, too, so with its own kind.
    """
    given = _text(name, value)
    try:
        checked(given)
    except StoreError as error:
        found = told(error)
        assert found is not None
        found.data["field"] = name
        raise found from error
    return given


def boolean(name: str, value: object) -> bool:
    """True or false, and nothing that merely looks like it."""
    if type(value) is not bool:
        raise wrong(name, f"{name} must be true or false, not {_type(value)}")
    return value


def count(name: str, value: object) -> int:
    """A whole number that is not negative."""
    if type(value) is not int:
        raise wrong(name, f"{name} must be a whole number, not {_type(value)}")
    if not 0 <= value <= INTEGER_MAX:
        raise wrong(name, f"{name} must be from 0 to {INTEGER_MAX}")
    return value


def content(bytes_max: int) -> Field:
    """Bytes up to a limit: text, raw bytes, or {"base64": text}."""

    def field(name: str, value: object) -> bytes:
        return _within(name, _bytes(name, value), bytes_max)

    return field


def line(bytes_max: int, lines_max: int) -> Field:
    """One line, or text with line breaks, as a list of one."""

    def field(name: str, value: object) -> list[bytes]:
        data = _line(name, value, bytes_max)
        return [data] if b"\n" not in data else _few(name, [data], lines_max)

    return field


def lines(bytes_max: int, lines_max: int) -> Field:
    """A list of lines."""

    def field(name: str, value: object) -> list[bytes]:
        if type(value) is not list:
            raise wrong(name, f"{name} must be a list of lines, not {_type(value)}")
        return _few(name, [_line(name, each, bytes_max) for each in value], lines_max)

    return field


def _few(name: str, found: list[bytes], lines_max: int) -> list[bytes]:
    # A line break at the end of a text ends its last line, and begins none.
    total = len(found) + sum(each.count(b"\n", 0, -1) for each in found if b"\n" in each)
    if total > lines_max:
        raise _too_large(name, f"{total} lines", lines_max, "send them in several calls")
    return found


def _line(name: str, value: object, bytes_max: int) -> bytes:
    data = _bytes(name, value)
    if len(data) > bytes_max:
        # The limit is for what becomes one line.
        for part in data.split(b"\n"):
            _within(name, part, bytes_max)
    return data


def _bytes(name: str, value: object) -> bytes:
    if type(value) is str:
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise wrong(name, f"{name} is not valid text: {error.reason}") from error
    if type(value) is bytes:
        return value
    if type(value) is dict and list(value) == ["base64"]:
        return _decoded(name, value["base64"])
    raise wrong(name, f'{name} must be text, bytes or {{"base64": text}}, not {_type(value)}')


def _decoded(name: str, value: object) -> bytes:
    try:
        if type(value) is str:
            return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise wrong(name, f"{name} is not valid base64: {error}") from error
    raise wrong(name, f"{name}: base64 must be a text, not {_type(value)}")


def _within(name: str, data: bytes, bytes_max: int) -> bytes:
    if len(data) > bytes_max:
        raise _too_large(name, f"{len(data)} bytes", bytes_max, "")
    return data


def _too_large(name: str, what: str, limit: int, hint: str) -> ZonedError:
    message = f"{name} has {what}; at most {limit} are taken"
    return ZonedError("TOO_LARGE", message, field=name, limit=limit, hint=hint)


def wrong(name: str, message: str) -> ZonedError:
    """The error about one parameter."""
    return ZonedError("INVALID_PARAMS", message, field=name[:SHOWN_CHARS_MAX])


def _type(value: object) -> str:
    names = {str: "a text", bool: "a boolean", int: "a whole number", float: "a number",
             list: "a list", dict: "an object", bytes: "bytes"}  # fmt: skip
    return names.get(type(value), f"a {type(value).__name__}")


def _shown(name: str) -> str:
    shown = ascii(name)
    return shown if len(shown) <= SHOWN_CHARS_MAX else shown[:SHOWN_CHARS_MAX] + "…"
