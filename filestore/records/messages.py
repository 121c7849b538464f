"""Messages: what the records of kind `message` say, the chunks of one answer as one message."""

from typing import Any, NamedTuple

from filestore.engine.base import ReadTx
from filestore.errors import CorruptionError, InvalidArgumentError
from filestore.journal import rows
from filestore.journal.model import JournalRow, Record

ROLES = ("user", "agent", "system")
ROLES_OF_ROWS = {"assistant": "agent", "tool": "system"}
"""What the roles of a transcript are called here, where they are called otherwise."""
RECORDS_PER_STEP = 500
MESSAGE_ID_CHARS_MAX = 128


class Message(NamedTuple):
    """One message, as of its last chunk: so far its text goes, and that chunk's time and seq."""

    id: str
    session_id: str
    role: str
    content: dict[str, Any]
    at_ms: int
    seq: int


def is_message_id(value: str) -> bool:
    """True if `value` can be the id of a message."""
    return 0 < len(value) <= MESSAGE_ID_CHARS_MAX and value.isprintable()


def check_content(content: object) -> dict[str, Any]:
    """The content of a message: an object with a `type`; a text stands for one of type text."""
    if isinstance(content, str):
        return {"type": "text", "text": content}
    if not isinstance(content, dict) or not isinstance(content.get("type"), str):
        raise InvalidArgumentError("content must be an object with a type, or a text")
    if content["type"] == "text" and not isinstance(content.get("text"), str):
        raise InvalidArgumentError("content of type text must have a text")
    return content


def take_partial(content: dict[str, Any]) -> bool:
    """Whether an agent's text says that more of it follows; taken out of it. Content of other types
    is kept as it is.
    """
    if content["type"] != "text":
        return False
    partial = content.pop("partial", False)
    if not isinstance(partial, bool):
        raise InvalidArgumentError("partial must be true or false")
    return partial


async def load_messages(
    tx: ReadTx, row: JournalRow, *, after_seq: int = -1, after_ms: int | None = None,
    limit: int | None = None,
) -> list[Message]:  # fmt: skip
    """Messages in order, each once, where its last chunk stands; those after a seq, or a time."""
    found: list[Message] = []
    while limit is None or len(found) < limit:
        records = await rows.load_kind(tx, row, after_seq + 1, RECORDS_PER_STEP, "message")
        for record in records:
            after_seq = record.seq
            message = await ending_at(tx, row, record)
            if message is not None and (after_ms is None or message.at_ms > after_ms):
                found.append(message)
                if limit is not None and len(found) == limit:
                    break
        if len(records) < RECORDS_PER_STEP:
            break
    return found


def refuse_missing(session_id: str, chunks: list[Record]) -> None:
    """Raise CorruptionError unless these are all records of one message, from its first on. Only
    the last ones may be missing: then it looks as it did before they came.
    """
    expected = 0
    for chunk in chunks:
        # Not all have their number: those of the first stores were only marked.
        part = chunk.body.get("part", max(expected, 1) if chunk.body.get("is_chunk") else 0)
        if part != expected:
            name = chunk.body["id"]
            raise CorruptionError(
                f"chunk {expected} of message {name!a} of session {session_id!a} is missing"
            )
        expected = part + chunk.body.get("stands_for", 1)


def message_of(session_id: str, chunks: list[Record]) -> Message:
    """The message that these records are, in order."""
    first, last = chunks[0].body, chunks[-1].body
    content = _content(last["content"])
    if content.get("type") == "text" and len(chunks) > 1:
        texts = [_content(each.body["content"]).get("text", "") for each in chunks]
        content["text"] = "".join(texts)
    is_partial = bool(last.get("partial"))
    if first["role"] == "agent" and (is_partial or content.get("type") == "text"):
        content["partial"] = is_partial
    at_ms, seq = chunks[-1].at_ms, chunks[-1].seq
    role = ROLES_OF_ROWS.get(last["role"], last["role"])
    return Message(last["id"], session_id, role, content, at_ms, seq)


def _content(content: object) -> dict[str, Any]:
    """The content of a message, or of the row of a transcript: a text, if that is all it says."""
    if isinstance(content, dict):
        return dict(content)
    assert isinstance(content, list)
    if content and all(part["type"] == "text" for part in content):
        return {"type": "text", "text": "\n\n".join(part["text"] for part in content)}
    return {"type": "parts", "parts": content}


async def ending_at(tx: ReadTx, row: JournalRow, record: Record) -> Message | None:
    """The message whose last chunk this record is, or None."""
    body = record.body
    if not (body.get("partial") or body.get("is_chunk")):
        return message_of(row.session_id, [record])
    # Chunks are many: all of them are read only once, at the last one.
    last_seq = await rows.last_seq(tx, row.id, body["id"], "message")
    if last_seq > record.seq:
        return None
    return message_of(row.session_id, await load_chunks(tx, row, body["id"], record.seq))


async def load_chunks(
    tx: ReadTx, row: JournalRow, message_id: str, last_seq: int | None = None
) -> list[Record]:
    """The records of one message, in order. CorruptionError if one is missing; if it is the last
    one, only where `last_seq` tells where that stands.
    """
    chunks = await rows.find_records(tx, row.id, message_id, "message")
    # What finds them by their id is an index, which may have lost some of them.
    if not chunks or last_seq not in (None, chunks[-1].seq):
        raise CorruptionError(
            f"message {message_id!a} of session {row.session_id!a} is not found whole by its id"
        )
    refuse_missing(row.session_id, chunks)
    return chunks
