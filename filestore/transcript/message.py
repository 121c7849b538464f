"""One message of a transcript: what it may be, checked on write and on read. Pure.

    {"id", "sessionId", "sequenceNumber", "role", "content": [part, …], "modelId"?, "timestamp"}

A stored message is called a row. It is kept as it came: no value is converted, and what no rule
names is refused with its path. Only a `signature` of reasoning, which proves something to one
provider for a while, is dropped.
"""

from typing import Literal, NotRequired, TypeAlias, TypedDict, cast

from filestore.model import Json
from filestore.transcript.fields import (
    a_flag,
    a_json,
    a_name,
    a_sequence_number,
    a_text,
    a_time,
    an_object,
    below,
    fields_of,
    one_of,
    refuse,
)
from filestore.transcript.media import MIME_TYPE, REF, inline_media

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")
PARTS_MAX = 10_000


class TextPart(TypedDict):
    """What somebody says."""

    type: Literal["text"]
    text: str


class ToolCallPart(TypedDict):
    """A tool is to be used."""

    type: Literal["tool_call"]
    id: str
    name: str
    args: Json


class ToolResultPart(TypedDict):
    """What came of it."""

    type: Literal["tool_result"]
    toolCallId: str
    result: Json
    isError: NotRequired[bool]


class ReasoningPart(TypedDict):
    """What a model thought; never text of a turn."""

    type: Literal["reasoning"]
    text: str
    redacted: NotRequired[bool]


class MediaSource(TypedDict):
    """Where a medium is stored: by the hash of its bytes."""

    kind: Literal["handle"]
    ref: str


class MediaPart(TypedDict):
    """A picture, a recording, a file."""

    type: Literal["media"]
    mimeType: str
    source: MediaSource
    name: NotRequired[str]


Part: TypeAlias = TextPart | ToolCallPart | ToolResultPart | ReasoningPart | MediaPart


class Row(TypedDict):
    """A message as it is stored."""

    id: str
    sessionId: str
    sequenceNumber: int
    role: Role
    content: list[Part]
    modelId: NotRequired[str]
    timestamp: str


class NewMessage(TypedDict):
    """A message as it comes: its id and place may be left for the store to give."""

    id: NotRequired[str]
    sessionId: str
    sequenceNumber: NotRequired[int]
    role: Role
    content: list[Part]
    modelId: NotRequired[str]
    timestamp: str


_GIVEN = ("role", "content", "timestamp")
_ASSIGNED = ("id", "sessionId", "sequenceNumber")
_PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "text": (("type", "text"), ()),
    "tool_call": (("type", "id", "name", "args"), ()),
    "tool_result": (("type", "toolCallId", "result"), ("isError",)),
    "reasoning": (("type", "text"), ("redacted", "signature")),
    "media": (("type", "mimeType", "source"), ("name",)),
}
"""The fields of every type of part: required, optional."""


def check_new_message(value: object, session_id: str) -> NewMessage:
    """A message that is to be appended to a session, as it will be stored.

    A sessionId that is left out is filled in. The parts that change are copies, the rest is
    shared with `value`, which is left as it is. Raises InvalidFieldError.
    """
    fields = fields_of(value, "", _GIVEN, (*_ASSIGNED, "modelId"))
    message = _checked({"sessionId": session_id} | fields, session_id)
    return cast("NewMessage", message)


def check_row(value: object, session_id: str | None = None) -> Row:
    """A message as it must be where it is stored; of this session, if one is named.

    Raises InvalidFieldError: to whoever reads a store, that is damage.
    """
    fields = fields_of(value, "", (*_ASSIGNED, *_GIVEN), ("modelId",))
    return cast("Row", _checked(dict(fields), session_id))


def numbered(message: NewMessage, message_id: str, sequence_number: int) -> Row:
    """The row of a new message: what it says of itself, else what it is given."""
    given = {"id": message_id, "sequenceNumber": sequence_number}
    return cast("Row", given | message)


def _checked(fields: dict[str, object], session_id: str | None) -> dict[str, object]:
    if "id" in fields:
        a_name(fields["id"], "id")
    if a_name(fields["sessionId"], "sessionId") != session_id and session_id is not None:
        refuse("sessionId", "is not that of this session")
    if "sequenceNumber" in fields:
        a_sequence_number(fields["sequenceNumber"], "sequenceNumber")
    one_of(fields["role"], "role", ROLES)
    a_time(fields["timestamp"], "timestamp")
    if "modelId" in fields:
        a_name(fields["modelId"], "modelId")
    fields["content"] = _content(fields["content"])
    return fields


def _content(value: object) -> list[dict[str, object]]:
    if not isinstance(value, list):
        refuse("content", "must be a list of parts")
    if len(value) > PARTS_MAX:
        refuse("content", f"must have at most {PARTS_MAX} parts, not {len(value)}")
    return [_part(part, below("content", place)) for place, part in enumerate(value)]


def _part(value: object, path: str) -> dict[str, object]:
    fields = an_object(value, path)
    if "type" not in fields:
        refuse(below(path, "type"), "is missing")
    kind = one_of(fields["type"], below(path, "type"), _PARTS)
    if kind == "media" and "source" in fields:
        # Before the names of its fields: whoever sends bytes is told that bytes are not taken.
        _check_source(fields["source"], below(path, "source"))
    fields_of(fields, path, *_PARTS[kind])
    for name, inner in fields.items():
        _check_field(kind, name, inner, below(path, name))
    return {name: inner for name, inner in fields.items() if name != "signature"}


def _check_field(kind: str, name: str, value: object, path: str) -> None:
    match name:
        case "text":
            a_text(value, path)
        case "isError" | "redacted":
            a_flag(value, path)
        case "args" | "result":
            a_json(value, path)
            found = inline_media(value)
            if found:
                refuse(path + found.path, found.what)
        case "id" | "name" | "toolCallId":
            a_name(value, path)
        case "mimeType":
            if not MIME_TYPE.fullmatch(a_text(value, path)):
                refuse(path, "must be a type like image/png")
        case _:
            # Checked already, or dropped unread.
            assert name in ("type", "source", "signature"), (kind, name)


def _check_source(value: object, path: str) -> None:
    source = an_object(value, path)
    if source.get("kind") != "handle":
        refuse(
            below(path, "kind"), 'must be "handle": bytes and addresses are not taken, store them'
        )
    fields_of(source, path, ("kind", "ref"))
    if not REF.fullmatch(a_text(source["ref"], below(path, "ref"))):
        refuse(below(path, "ref"), "must be media://sha256- and 64 digits in lower-case hex")
