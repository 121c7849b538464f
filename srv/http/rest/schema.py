"""What values may be: one description that checks them and that the document shows. Pure.

A `Schema` is a part of JSON Schema. `check` gives the value as a handler takes it, or raises
INVALID_PARAMS that names the field and says what it must be; `document` says the same to machines.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from srv.errors import ZonedError

INTEGER_MAX = (1 << 63) - 1
SHOWN_CHARS_MAX = 60
_WHOLE = re.compile(r"-?[0-9]{1,1000}")

Json = dict[str, object]
Fields = dict[str, "Schema"]


class Schema(Protocol):
    """One description."""

    def check(self, path: str, value: object) -> object:
        """The value as it is taken. Raises ZonedError."""

    def document(self) -> Json:
        """The same as JSON Schema."""


class FromText(Schema, Protocol):
    """A description of what also stands in a query, where everything is text."""

    def parse(self, path: str, text: str) -> object:
        """The value that a text means. Raises ZonedError."""


@dataclass(frozen=True)
class Anything:
    """Any JSON."""

    about: str = ""

    def check(self, path: str, value: object) -> object:
        return value

    def document(self) -> Json:
        return _told(self.about)


@dataclass(frozen=True)
class Text:
    """A text; of these characters, or one of these choices, if they are given."""

    least: int = 0
    most: int = 1 << 30
    about: str = ""
    pattern: str = ""
    """As a whole; only what Python and ECMAScript understand alike."""
    rule: str = ""
    """The pattern in words."""
    choices: tuple[str, ...] = ()
    format: str = ""
    example: str = ""

    def check(self, path: str, value: object) -> str:
        if not isinstance(value, str):
            raise wrong(path, f"must be a text, not {kind_of(value)}")
        if self.choices and value not in self.choices:
            raise wrong(path, f"must be one of {', '.join(self.choices)}; it is {shown(value)}")
        if not self.least <= len(value) <= self.most:
            raise wrong(path, f"must have {self.least} to {self.most} characters, not {len(value)}")
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise wrong(path, f"must be {self.rule}; it is {shown(value)}")
        return value

    def parse(self, path: str, text: str) -> str:
        return self.check(path, text)

    def document(self) -> Json:
        found = _told(self.about) | {"type": "string"}
        if self.choices:
            return found | {"enum": list(self.choices)}
        if self.least:
            found["minLength"] = self.least
        if self.most < Text.most:
            found["maxLength"] = self.most
        if self.pattern:
            found["pattern"] = f"^(?:{self.pattern})$"
        if self.format:
            found["format"] = self.format
        if self.example:
            found["examples"] = [self.example]
        return found


@dataclass(frozen=True)
class Whole:
    """A whole number. 1.0 and true are none."""

    least: int = 0
    most: int = INTEGER_MAX
    about: str = ""
    default: int | None = None

    def check(self, path: str, value: object) -> int:
        if type(value) is not int:
            raise wrong(path, f"must be a whole number, not {kind_of(value)}")
        if not self.least <= value <= self.most:
            raise wrong(path, f"must be from {self.least} to {self.most}")
        return value

    def parse(self, path: str, text: str) -> int:
        if not _WHOLE.fullmatch(text):
            raise wrong(path, f"must be a whole number; it is {shown(text)}")
        return self.check(path, int(text))

    def document(self) -> Json:
        bounds: Json = {"type": "integer", "minimum": self.least, "maximum": self.most}
        default: Json = {} if self.default is None else {"default": self.default}
        return _told(self.about) | bounds | default


@dataclass(frozen=True)
class Flag:
    """True or false, and nothing that merely looks like it."""

    about: str = ""

    def check(self, path: str, value: object) -> bool:
        if type(value) is not bool:
            raise wrong(path, f"must be true or false, not {kind_of(value)}")
        return value

    def document(self) -> Json:
        return _told(self.about) | {"type": "boolean"}


@dataclass(frozen=True)
class Words:
    """Some of these words, in a query with commas between them."""

    choices: tuple[str, ...]
    about: str = ""

    def check(self, path: str, value: object) -> tuple[str, ...]:
        assert isinstance(value, list)
        if not value or set(value) - set(self.choices):
            shown_ones = shown(",".join(value))
            rule = f"must be one or more of {', '.join(self.choices)}, with commas between them"
            raise wrong(path, f"{rule}; it is {shown_ones}")
        return tuple(dict.fromkeys(value))

    def parse(self, path: str, text: str) -> tuple[str, ...]:
        return self.check(path, text.split(","))

    def document(self) -> Json:
        item: Json = {"type": "string", "enum": list(self.choices)}
        return _told(self.about) | {"type": "array", "items": item, "minItems": 1}


@dataclass(frozen=True)
class ListOf:
    """A list, each element of which is so."""

    item: Schema
    about: str = ""

    def check(self, path: str, value: object) -> list[object]:
        if not isinstance(value, list):
            raise wrong(path, f"must be a list, not {kind_of(value)}")
        return [self.item.check(f"{path}[{at}]", each) for at, each in enumerate(value)]

    def document(self) -> Json:
        return _told(self.about) | {"type": "array", "items": self.item.document()}


@dataclass(frozen=True)
class AnObject:
    """An object with these fields. A null in the place of one that is not required is as good as
    nothing given, unless `is_exact`. `more`: others may be there, too.
    """

    fields: Mapping[str, Schema]
    required: tuple[str, ...] = ()
    about: str = ""
    more: bool = False
    is_exact: bool = False
    example: Mapping[str, object] = field(default_factory=dict)

    def check(self, path: str, value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise wrong(path, f"must be an object, not {kind_of(value)}")
        found: dict[str, object] = {}
        for name, inner in value.items():
            schema, place = self.fields.get(name), f"{path}.{name}" if path else name
            if schema is None and not self.more:
                known = ", ".join(self.fields) or "none"
                raise wrong(place, f"is not a field here; known are: {known}")
            if inner is None and name not in self.required and not self.is_exact and schema:
                continue
            found[name] = inner if schema is None else schema.check(place, inner)
        for name in self.required:
            if name not in found:
                raise wrong(f"{path}.{name}" if path else name, "is missing")
        return found

    def document(self) -> Json:
        properties = {
            name: schema.document()
            if name in self.required or self.is_exact
            else _or_null(schema.document())
            for name, schema in self.fields.items()
        }
        found = _told(self.about) | {"type": "object", "properties": properties}
        if self.required:
            found["required"] = list(self.required)
        if not self.more:
            found["additionalProperties"] = False
        if self.example:
            found["examples"] = [dict(self.example)]
        return found


@dataclass(frozen=True)
class AnyOf:
    """What at least one of these takes. `rule` says it in words."""

    choices: Sequence[Schema]
    rule: str
    about: str = ""

    def check(self, path: str, value: object) -> object:
        for schema in self.choices:
            try:
                return schema.check(path, value)
            except ZonedError:
                continue
        raise wrong(path, f"must be {self.rule}")

    def document(self) -> Json:
        return _told(self.about) | {"anyOf": [each.document() for each in self.choices]}


@dataclass(frozen=True)
class Named:
    """A description with a name, which the document has once."""

    name: str
    schema: Schema

    def check(self, path: str, value: object) -> object:
        return self.schema.check(path, value)

    def document(self) -> Json:
        return {"$ref": f"#/components/schemas/{self.name}"}


@dataclass(frozen=True)
class ForTheStore:
    """What the store checks itself, field by field: here it only has to be an object. The document
    says more than is asked here.
    """

    schema: Schema

    def check(self, path: str, value: object) -> dict[str, object]:
        if not isinstance(value, dict):
            raise wrong(path, f"must be an object, not {kind_of(value)}")
        return value

    def document(self) -> Json:
        return self.schema.document()


def wrong(path: str, what: str) -> ZonedError:
    """The error about one field; an empty path is the body itself."""
    name = path[:SHOWN_CHARS_MAX] if path.isprintable() else ascii(path)[1:-1][:SHOWN_CHARS_MAX]
    return ZonedError("INVALID_PARAMS", f"{name or 'the body'} {what}", field=name)


def kind_of(value: object) -> str:
    """What a value is, in words."""
    names = {str: "a text", bool: "a boolean", int: "a whole number", float: "a number",
             list: "a list", dict: "an object", type(None): "null"}  # fmt: skip
    return names[type(value)]


def shown(text: str) -> str:
    """A text for a message: never long, and nothing that a terminal obeys."""
    return ascii(text if len(text) <= SHOWN_CHARS_MAX else text[:SHOWN_CHARS_MAX] + "…")


def _told(about: str) -> Json:
    return {"description": about} if about else {}


def _or_null(document: Json) -> Json:
    """The same, or null."""
    if isinstance(document.get("type"), str) and "enum" not in document:
        return document | {"type": [document["type"], "null"]}
    return (
        {"anyOf": [document, {"type": "null"}]} if document.keys() - {"description"} else document
    )
