"""Messages of a session: what the user asks, what the runner of the agent says; looking back."""

import re

from filestore.errors import InvalidArgumentError
from filestore.journal.model import RECORDS_MAX
from filestore.records.messages import MESSAGE_ID_CHARS_MAX, ROLES
from filestore.times import parse
from srv.http.rest.route import Call, Route
from srv.http.rest.schema import (
    AnObject,
    AnyOf,
    Flag,
    Json,
    ListOf,
    Named,
    Text,
    Whole,
    shown,
    wrong,
)
from srv.http.rest.shapes import MESSAGE, UUID, message_shape

PAGE_MAX = 1000

CONTENT = AnyOf(
    (
        Text(),
        AnObject(
            {"type": Text(choices=("text",)), "text": Text(), "partial": Flag()},
            required=("type", "text"),
            more=True,
        ),
        AnObject(
            {"type": Text(pattern=r"(?!text(?![\s\S]))[\s\S]*", rule="any other")},
            required=("type",),
            more=True,
        ),
    ),
    rule="a text, or an object with a type; one of type text has a text, and partial is a boolean",
    about="a text alone stands for one of type text; kept as it is, whatever its type",
)


class Since:
    """A time, or `seq:N`: after which messages are told."""

    _SEQ = re.compile(r"seq:([0-9]{1,8})")
    _OFFSET = re.compile(r" (?=[0-9:]{2,5}$)")

    def check(self, path: str, value: object) -> tuple[int, int | None]:
        """The seq and the time, of which one is given."""
        assert isinstance(value, str)
        if found := self._SEQ.fullmatch(value):
            return min(int(found[1]), RECORDS_MAX), None
        try:
            # A plus that nobody escaped comes as a blank.
            return -1, parse(self._OFFSET.sub("+", value))
        except InvalidArgumentError as error:
            rule = "must be a time with its zone, or seq: and a number"
            raise wrong(path, f"{rule}; it is {shown(value)}") from error

    parse = check

    def document(self) -> Json:
        about = "a time with its zone, or `seq:` and the seq of a message"
        choices = [{"type": "string", "pattern": "^seq:[0-9]{1,8}$"},
                   {"type": "string", "format": "date-time"}]  # fmt: skip
        return {"description": about, "anyOf": choices, "examples": ["seq:12"]}


async def _prompt(call: Call) -> object:
    session_id = call.path["id"]
    message = await call.records.prompt(session_id, call.body["text"])
    return {"messageId": message.id, "delivered": call.records.followers(session_id) > 0}


async def _add(call: Call) -> object:
    body = call.body
    if body.get("partial") and body["role"] != "agent":
        raise wrong("partial", "is for an agent's message: no other comes in chunks")
    message = await call.records.add_message(
        call.path["id"],
        body["role"],
        body["content"],
        partial=body.get("partial", False),
        message_id=body.get("messageId"),
    )
    return message_shape(message)


async def _list(call: Call) -> object:
    after_seq, after_ms = call.query.get("since", (-1, None))
    limit = call.query.get("limit", PAGE_MAX)
    found = await call.records.messages(
        call.path["id"], after_seq=after_seq, after_ms=after_ms, limit=limit
    )
    return [message_shape(each) for each in found]


_NO_SESSION = "there is no such session"

ROUTES = (
    Route(
        "POST", "/api/sessions/{id}/prompt", "promptSession", "messages",
        "Ask the agent: stored, and told to whoever follows the events of the session",
        _prompt, 202,
        Named(
            "Prompted",
            AnObject(
                {
                    "messageId": Text(about="of the message of the user"),
                    "delivered": Flag("somebody follows the events now"),
                },
                required=("messageId", "delivered"),
                is_exact=True,
            ),
        ),
        {
            404: _NO_SESSION,
            409: "it has ended, as `status` says; or a prompt is unanswered; or the cap of its "
            "transcript is met",
        },
        body=Named("NewPrompt", AnObject(
            {"text": Text(1, pattern=r"[\s\S]*\S[\s\S]*", rule="more than blanks")},
            required=("text",),
            example={"text": "Why does the checkout fail?"},
        )),
    ),
    Route(
        "POST", "/api/sessions/{id}/messages", "addMessage", "messages",
        "Add a message, or a chunk of an answer: for the runner of the agent",
        _add, 201, MESSAGE,
        {
            404: _NO_SESSION,
            409: "it has ended, as `status` says; or a message of that id is there and is "
            "another; or the cap of its transcript is met",
        },
        body=Named("NewMessage", AnObject(
            {
                "role": Text(choices=ROLES),
                "content": CONTENT,
                "partial": Flag("more chunks follow; only an agent's message comes in chunks"),
                "messageId": Text(
                    1, MESSAGE_ID_CHARS_MAX, "the same for all chunks of an answer",
                    pattern="[!-~]+", rule="printable, without blanks",
                ),
            },
            required=("role", "content"),
            example={
                "role": "agent",
                "content": {"type": "text", "text": "Because "},
                "partial": True,
                "messageId": UUID,
            },
        )),
    ),
    Route(
        "GET", "/api/sessions/{id}/messages", "listMessages", "messages",
        "Messages in order, the chunks of one as one",
        _list, 200, ListOf(MESSAGE),
        {404: _NO_SESSION},
        query={
            "since": Since(),
            "limit": Whole(1, PAGE_MAX, "how many at most", PAGE_MAX),
        },
    ),
)  # fmt: skip
