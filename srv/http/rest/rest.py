"""From a request to an answer: find the call in the table, check what is given, run it.

Who may ask was decided before (front.py). Whatever goes wrong is an answer with a kind: a traceback
goes to the log, never out.
"""

import time
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from aiohttp import web

from srv.errors import ZonedError
from srv.http.rest import body
from srv.http.rest.answers import answer, known, refusal
from srv.http.rest.body import Refused
from srv.http.rest.route import Call, Route
from srv.http.rest.schema import FromText, shown, wrong
from srv.http.rest.streams import Streams
from srv.http.rest.table import ROUTES
from srv.rpc.service import Service

PREFIX = "/api/"
QUERY_FIELDS_MAX = 100
PAGES = {
    "/api/docs": ("docs.html", "text/html"),
    "/api/docs.js": ("docs.js", "text/javascript"),
    "/api/docs.css": ("docs.css", "text/css"),
}


class Found(NamedTuple):
    """A call, and what stands in the places of its path."""

    route: Route
    path: Mapping[str, str]


class Rest:
    """All calls below `/api`."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._streams = Streams()

    def join(self, app: web.Application) -> None:
        """Serve as a part of this."""
        app.router.add_route("*", PREFIX + r"{rest:[\s\S]*}", self.handle)
        app.on_shutdown.append(self._end)

    def cut(self) -> None:
        """End what is streamed: who came by an old token has to come again."""
        self._streams.end()

    async def _end(self, _: web.Application) -> None:
        self._streams.end()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        started, kind, found = time.perf_counter(), None, None
        try:
            path, _, query = request.raw_path.partition("?")
            if path in PAGES and request.method == "GET":
                return _page(path)
            found = find(request.method, path)
            return await self._run(found, request, query)
        except Refused as error:
            kind = error.error.kind
            return refusal(error.error, error.status)
        except ConnectionError:
            # Of the client, who has gone: nobody reads this, and it is no fault that is logged.
            kind = "INVALID_REQUEST"
            return refusal(ZonedError(kind, "the body was cut off"))
        except Exception as error:  # the rim: answered, and what is a fault of ours is logged
            told = known(error)
            kind = told.kind
            return refusal(told)
        finally:
            name = f"{found.route.method} {found.route.path}" if found is not None else ""
            # How long somebody follows is not how long we take.
            is_stream = found is not None and found.route.is_stream and kind is None
            seconds = 0.0 if is_stream else time.perf_counter() - started
            self._service.metrics.answered(name, seconds, kind)

    async def _run(self, found: Found, request: web.Request, query: str) -> web.StreamResponse:
        route, service = found.route, self._service
        given = _query(query, route.query) | _headers(request, route.header)
        bytes_max = service.config.http_body_bytes_max
        async with body.held(request, service.budget, bytes_max) as data:
            call = Call(
                request,
                service.records,
                service.transcripts,
                service.config,
                self._streams,
                found.path,
                given,
                _body(route, request, data),
            )
            value = await route.run(call)
            return value if isinstance(value, web.StreamResponse) else answer(value, route.status)


def find(method: str, path: str) -> Found:
    """The call that a method and a path mean. Raises ZonedError."""
    segments = path.split("/")[1:]
    allowed = ["GET"] if path in PAGES else []
    for route in ROUTES:
        values = _match(route.segments, segments)
        if values is None:
            continue
        if route.method == method:
            return Found(route, values)
        allowed.append(route.method)
    if allowed:
        raise ZonedError("UNKNOWN_METHOD", f"{method} is not served here", allow=sorted(allowed))
    hint = "see /api/docs, or /api/openapi.json"
    raise ZonedError("NOT_FOUND", f"there is nothing at {shown(path)}", hint=hint)


def _match(pattern: tuple[str, ...], segments: list[str]) -> dict[str, str] | None:
    """What stands in the places of a path, decoded; None for another path."""
    if len(pattern) != len(segments):
        return None
    values = {}
    for wanted, segment in zip(pattern, segments, strict=True):
        if wanted.startswith("{"):
            if not segment:
                return None
            try:
                values[wanted[1:-1]] = unquote(segment, errors="strict")
            except UnicodeDecodeError:
                return None  # no id that there could be
        elif wanted != segment:
            return None
    return values


def _query(text: str, known_ones: Mapping[str, FromText]) -> dict[str, object]:
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX
        )
    except ValueError as error:
        what = f"is not UTF-8, or has more than {QUERY_FIELDS_MAX} parameters"
        raise ZonedError("INVALID_REQUEST", f"the query {what}") from error
    found: dict[str, object] = {}
    for name, value in pairs:
        if name not in known_ones:
            names = ", ".join(known_ones) or "none"
            raise wrong(name, f"is not a parameter here; known are: {names}")
        if name in found:
            raise wrong(name, "is given twice")
        found[name] = known_ones[name].parse(name, value)
    return found


def _headers(request: web.Request, known_ones: Mapping[str, FromText]) -> dict[str, object]:
    given = {name: request.headers.get(name, "") for name in known_ones}
    return {name: known_ones[name].parse(name, value) for name, value in given.items() if value}


def _body(route: Route, request: web.Request, data: bytes) -> dict[str, object]:
    if route.body is None:
        if data:
            raise ZonedError("INVALID_REQUEST", "this call takes no body")
        return {}
    if not data and route.is_body_optional:
        return {}
    if data:
        body.check_headers(request)
    value = route.body.check("", body.decode(data))
    assert isinstance(value, dict)
    return value


def _page(path: str) -> web.Response:
    name, kind = PAGES[path]
    content = files("srv.http").joinpath("static", name).read_bytes()
    return web.Response(body=content, content_type=kind, charset="utf-8")
