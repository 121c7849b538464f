"""One call of REST, and what it is handed."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp import web

from srv.http.rest.schema import FromText, Schema

if TYPE_CHECKING:
    from filestore.records import Records
    from filestore.records.transcripts import Transcripts
    from srv.config import Config
    from srv.http.rest.streams import Streams


JSON = "application/json"
EVENT_STREAM = "text/event-stream"


class Call(NamedTuple):
    """One request, checked: what stands in its path, its query and its body."""

    request: web.Request
    records: "Records"
    transcripts: "Transcripts"
    config: "Config"
    streams: "Streams"
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: dict[str, Any]


Handler = Callable[[Call], Awaitable[object]]
"""Gives the value to answer with; or a whole response, if the answer is no JSON."""


class Route(NamedTuple):
    """One line of the table. `name` is the id of the operation. `failures`: the statuses of its
    own, with their reasons; those that any call may have are added in the document.
    """

    method: str
    path: str
    name: str
    group: str
    about: str
    run: Handler
    status: int
    answer: Schema | None
    failures: Mapping[int, str] = {}
    query: Mapping[str, FromText] = {}
    header: Mapping[str, FromText] = {}
    body: Schema | None = None
    is_body_optional: bool = False
    media_type: str = JSON
    """Of the answer."""

    @property
    def segments(self) -> tuple[str, ...]:
        """The path in pieces; `{id}` stands for any one."""
        return tuple(self.path.split("/")[1:])

    @property
    def writes(self) -> bool:
        """True if it changes something."""
        return self.method != "GET"

    @property
    def is_stream(self) -> bool:
        """True if its answer has no end."""
        return self.media_type == EVENT_STREAM
