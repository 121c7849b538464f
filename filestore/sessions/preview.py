"""What a snapshot tells about its session: preview, nodes, how much stream it covers. Pure.

Never an error: a snapshot is opaque to the store, and what cannot be read from it is left out.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import orjson

from filestore.errors import InvalidArgumentError

SNAPSHOT_BYTES_MAX = 4 << 20
"""Larger snapshots are not looked into."""
PREVIEW_CHARS_MAX = 240
LINES_COVERED_MAX = (1 << 53) - 1

# Unicode White_Space; `\s` would take U+001C to U+001F too.
_SPACES = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_RUN = re.compile(f"[{_SPACES}]+")


class Summary(NamedTuple):
    """What is known of a session without looking into its files."""

    preview: str = ""
    node_count: int = 0
    covered: int | None = None
    """The snapshot's highWaterMark: it covers so many lines of the stream. None: not known."""
    has_nodes: bool = False
    """False: the snapshot has none to look at, so the stream must tell."""


def snapshot_bytes(content: str | bytes) -> bytes:
    """A snapshot as it is stored. Raises InvalidArgumentError for text that is none."""
    if not isinstance(content, str):
        return content
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"the content is not valid text: {error}", operation="write_state"
        ) from error


def summarise(snapshot: bytes) -> Summary:
    """Look into a snapshot."""
    if len(snapshot) > SNAPSHOT_BYTES_MAX:
        return Summary()
    try:
        document = orjson.loads(snapshot)
    except orjson.JSONDecodeError:
        return Summary()
    if not isinstance(document, dict):
        return Summary()
    mark = document.get("highWaterMark")
    is_mark = type(mark) is int and 0 <= mark <= LINES_COVERED_MAX
    covered = mark if is_mark else None
    nodes = document.get("nodes")
    if not isinstance(nodes, list):
        return Summary(covered=covered)
    return Summary(preview_of(said(nodes)), len(nodes), covered, True)


def preview_of(messages: Iterable[str]) -> str:
    """The one line that tells a person which session it is, from its user messages in order.

    A first message that only sets the scene is passed over if another one follows.
    """
    from filestore.replay.nodes import CONTEXT_HEADING  # late, as below

    held = ""
    for message in messages:
        if held or not message.startswith(CONTEXT_HEADING):
            return collapse(message)
        held = message
    return collapse(held)


def preview_of_stream(lines: Iterable[bytes]) -> str:
    """The preview by the lines of a stream, or of the head of one."""
    from filestore.replay import replay  # late: who only lists must not wait for it

    return preview_of(said(replay(lines).nodes()))


def said(nodes: Iterable[object]) -> Iterator[str]:
    """The user's messages among nodes that may be anything; blank ones say nothing."""
    for node in nodes:
        if isinstance(node, dict) and node.get("type") == "user_message":
            message = node.get("message")
            if isinstance(message, str) and not is_blank(message):
                yield message


def collapse(text: str) -> str:
    """White space run together, and cut to a length that fits a list."""
    line = _RUN.sub(" ", text).lstrip(" ")
    return line if len(line) <= PREVIEW_CHARS_MAX else line[:PREVIEW_CHARS_MAX] + "…"


def is_blank(text: str) -> bool:
    """True if there is nothing but white space."""
    return not _RUN.sub("", text)
