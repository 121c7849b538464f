"""Sessions as resources: their URIs, and what is read of them."""

import json
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from srv.errors import ZonedError
from srv.mcp.tools import Calls

PREFIX = "zoned://session/"
TEMPLATE = PREFIX + "{session_id}"
MIME_TYPE = "application/json"
CHARS = 20_000
"""Of its messages, the newest."""
PAGE = 100


def uri_of(session_id: str) -> str:
    """The URI of a session: whatever its id has in it, all but letters, digits and `-._~` is
    percent-encoded.
    """
    return PREFIX + quote(session_id, safe="")


def session_of(uri: str) -> str:
    """The session that a URI names. INVALID_PARAMS."""
    if uri.startswith(PREFIX):
        try:
            session_id = unquote_to_bytes(uri.removeprefix(PREFIX)).decode()
        except UnicodeDecodeError:
            session_id = ""
        # What is spelled otherwise is the same session, but changes are told by one name only.
        if session_id and uri_of(session_id) == uri:
            return session_id
    message = f"{ascii(uri)[:200]} is no URI of a session"
    raise ZonedError("INVALID_PARAMS", message, hint=f"they look like {PREFIX}<id>")


async def page(calls: Calls, cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
    """Sessions in short, newest first, and the cursor of the next page."""
    params: dict[str, object] = {"limit": PAGE}
    if cursor is not None:
        if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 19):
            raise ZonedError("INVALID_PARAMS", "that cursor is none of ours", hint="begin anew")
        params["before"] = int(cursor)
    answer = await calls.call("session:index", params)
    more = answer.get("next")
    return answer["sessions"], None if more is None else str(more)


async def read(calls: Calls, uri: str) -> str:
    """A session as JSON: in short, its snapshot, its newest messages."""
    session_id = session_of(uri)
    told = await calls.call("session:read", {"session_id": session_id, "chars_max": CHARS})
    found = json.loads(told["content"])
    known = await calls.call("session:history", {"session_id": session_id})
    entity = json.loads(known["content"])
    if entity is not None:
        found["snapshot"] = entity["snapshot"]
    return json.dumps(found, ensure_ascii=False)
