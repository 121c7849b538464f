"""Transcripts: conversations row by row. What a row may be is the store's to say."""

from filestore.journal.model import STATUSES
from filestore.transcript.fields import NAME_CHARS_MAX, SEQUENCE_NUMBER_MAX
from filestore.transcript.media import MIME_TYPE, REF
from filestore.transcript.message import PARTS_MAX
from filestore.transcript.start import PATH_CHARS_MAX, SLUG_CHARS_MAX, TITLE_CHARS_MAX
from srv.http.rest.route import Call, Route
from srv.http.rest.schema import (
    AnObject,
    AnyOf,
    Anything,
    Fields,
    Flag,
    ForTheStore,
    Json,
    ListOf,
    Named,
    Text,
    Whole,
)
from srv.http.rest.sessions import ENDED, TEXT_CHARS_MAX
from srv.http.rest.shapes import time_text
from srv.rpc.transcripts import loaded_shape, resumed_shape, started_shape

_NAME = Text(1, NAME_CHARS_MAX)
_PATH = Text(1, PATH_CHARS_MAX)
_OBJECT = AnObject({}, more=True)


class Parts(ListOf):
    """A list of parts, of which there may be only so many."""

    def document(self) -> Json:
        return super().document() | {"maxItems": PARTS_MAX}


def _part(kind: str, fields: Fields, required: tuple[str, ...], prefix: str = "") -> Named:
    name = prefix + "".join(word.title() for word in kind.split("_")) + "Part"
    all_fields: Fields = {"type": Text(choices=(kind,)), **fields}
    return Named(name, AnObject(all_fields, ("type", *required), is_exact=True))


_SOURCE = AnObject(
    {"kind": Text(choices=("handle",)), "ref": Text(pattern=REF.pattern)},
    ("kind", "ref"),
    is_exact=True,
)
_PARTS = (
    _part("text", {"text": Text()}, ("text",)),
    _part("tool_call", {"id": _NAME, "name": _NAME, "args": Anything()}, ("id", "name", "args")),
    _part(
        "tool_result",
        {"toolCallId": _NAME, "result": Anything(), "isError": Flag()},
        ("toolCallId", "result"),
    ),
    _part(
        "media",
        {"mimeType": Text(pattern=MIME_TYPE.pattern), "source": _SOURCE, "name": _NAME},
        ("mimeType", "source"),
    ),
)
_THOUGHT: Fields = {"text": Text(), "redacted": Flag()}
PART = Named(
    "Part", AnyOf((*_PARTS, _part("reasoning", _THOUGHT, ("text",))), rule="a part of a message")
)
NEW_PART = Named(
    "NewPart",
    AnyOf(
        (
            *_PARTS,
            _part("reasoning", {**_THOUGHT, "signature": Anything("dropped")}, ("text",), "Signed"),
        ),
        rule="a part of a message",
    ),
)

_TIME = Text(about="ISO 8601 with a zone", format="date-time", example="2026-01-31T09:30:00.000Z")
_MESSAGE: Fields = {
    "id": _NAME,
    "sessionId": _NAME,
    "sequenceNumber": Whole(0, SEQUENCE_NUMBER_MAX),
    "role": Text(choices=("system", "user", "assistant", "tool")),
    "content": Parts(PART),
    "modelId": _NAME,
    "timestamp": _TIME,
}
ROW = Named(
    "SessionMessage",
    AnObject(
        _MESSAGE,
        ("id", "sessionId", "sequenceNumber", "role", "content", "timestamp"),
        "a row of a transcript",
        is_exact=True,
    ),
)
NEW_ROW = Named(
    "NewSessionMessage",
    AnObject(
        _MESSAGE | {"content": Parts(NEW_PART)},
        ("role", "content", "timestamp"),
        "`id` and `sequenceNumber` are given to it if it has none",
        is_exact=True,
        example={
            "role": "user",
            "content": [{"type": "text", "text": "Why does the checkout fail?"}],
            "timestamp": "2026-01-31T09:30:00.000Z",
        },
    ),
)

_START: Fields = {
    "agentSlug": Text(1, SLUG_CHARS_MAX, pattern="[a-z0-9]+(?:-[a-z0-9]+)*", rule="kebab-case"),
    "title": Text(0, TITLE_CHARS_MAX),
    "context": AnObject(
        {
            "workingDir": _PATH,
            "fsScopeTier": _PATH,
            "activeFile": _PATH,
            "selection": AnyOf((Text(), _OBJECT), rule="a text or an object"),
            "gitRef": _PATH,
            "variables": AnObject({}, more=True, about="none that looks like a secret"),
        },
        ("workingDir", "fsScopeTier"),
        is_exact=True,
    ),
    "agentSnapshot": _OBJECT,
}
START = Named(
    "TranscriptStart",
    AnObject(
        _START,
        ("agentSlug", "context"),
        is_exact=True,
        example={
            "agentSlug": "coder",
            "title": "Fix the checkout",
            "context": {"workingDir": "shop", "fsScopeTier": "repo"},
        },
    ),
)
_RECORD: Fields = {
    "sessionId": Text(),
    "status": Text(choices=STATUSES),
    "createdAt": time_text("when the session was begun"),
    "updatedAt": time_text("the last record or file change"),
}
RECORD = Named(
    "TranscriptRecord",
    AnObject(
        {**_RECORD, **_START}, (*_RECORD, "agentSlug", "context"), "of a transcript", is_exact=True
    ),
)
TRANSCRIPT = Named(
    "Transcript",
    AnObject({"record": RECORD, "messages": ListOf(ROW)}, ("record", "messages"), is_exact=True),
)
RESUMED = Named(
    "Resumed",
    AnObject(
        {
            "turns": Whole(about="how many are completed"),
            "messages": ListOf(
                AnObject(
                    {
                        "role": Text(choices=("user", "assistant")),
                        "text": Text(),
                        "sequenceNumber": Whole(),
                        "turn": Whole(1),
                    },
                    ("role", "text", "sequenceNumber", "turn"),
                    is_exact=True,
                )
            ),
        },
        ("turns", "messages"),
        "what an agent is told that goes on: completed turns only",
        is_exact=True,
    ),
)


async def _start(call: Call) -> object:
    session = await call.transcripts.start(call.path["id"], call.body)
    return started_shape(session) | call.body


async def _append(call: Call) -> object:
    return await call.transcripts.append(call.path["id"], call.body)


async def _load(call: Call) -> object:
    return loaded_shape(await call.transcripts.load(call.path["id"]))


async def _resume(call: Call) -> object:
    return resumed_shape(await call.transcripts.resume(call.path["id"]))


async def _end(call: Call) -> object:
    session_id = call.path["id"]
    await call.transcripts.load(session_id)
    session = await call.records.finish(session_id, "completed", summary=call.body.get("summary"))
    return started_shape(session)


_PLACE = "/api/sessions/{id}/transcript"
_MISSING = {404: "there is no such session, or it has no transcript"}

ROUTES = (
    Route(
        "POST", _PLACE, "startTranscript", "transcripts",
        "Start the transcript of a session, and the session if there is none",
        _start, 201, RECORD,
        {409: "it was started already, or the session has ended"},
        body=ForTheStore(START),
    ),
    Route(
        "POST", f"{_PLACE}/messages", "appendRow", "transcripts",
        "Append a row",
        _append, 201, ROW,
        _MISSING | {
            409: "the session has ended; or the sequenceNumber is not the next one; or a row of "
            "that id is there and is another; or the cap of turns is met (`TURN_LIMIT`)",
        },
        body=ForTheStore(NEW_ROW),
    ),
    Route(
        "GET", _PLACE, "loadTranscript", "transcripts",
        "A transcript with all its rows, as of one moment",
        _load, 200, TRANSCRIPT, _MISSING,
    ),
    Route(
        "GET", f"{_PLACE}/resume", "resumeTranscript", "transcripts",
        "What an agent is told that goes on with the conversation",
        _resume, 200, RESUMED, _MISSING,
    ),
    Route(
        "POST", f"{_PLACE}/end", "endTranscript", "transcripts",
        "End the session of a transcript: it is completed",
        _end, 200,
        Named("TranscriptEnd", AnObject(_RECORD, tuple(_RECORD), is_exact=True)),
        _MISSING | {409: ENDED[409]},
        body=Named("TranscriptEnding", AnObject({"summary": Text(0, TEXT_CHARS_MAX)})),
        is_body_optional=True,
    ),
)  # fmt: skip
