"""The OpenAPI document, made from the table; nothing in it is written by hand for one call."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from importlib.metadata import version

from srv.http.rest.answers import ERROR
from srv.http.rest.route import Call, Route
from srv.http.rest.schema import AnObject, Anything, Json, Named, Schema, Text

OPENAPI_VERSION = "3.1.0"
GROUPS = {
    "repos": "folders of code that sessions are about",
    "sessions": "sessions of every surface",
    "messages": "what is said in a session",
    "transcripts": "conversations row by row, for programs that go on with them",
    "api": "this document",
}
_ALWAYS = {
    400: "the request is not as this document says; `details.field` names what is wrong",
    401: "the token is missing or wrong",
    403: "this host or this origin is not served",
    500: "a fault of the daemon, or damage of the store; the log says more",
    503: "the daemon cannot do it now; try again later",
}
_WITH_BODY = {
    408: "the body did not come in time",
    413: "the body, or what it says, is too large; `details.limit` says what is taken",
    415: "the body is not application/json, or packed",
}
_WRITING = {507: "the disk is full; nothing was stored"}
_ABOUT = """\
Sessions of AI agents as JSON. Every error is an `Error`: its kind, what is wrong in words, and
details. A field or parameter that is not known is an error that names it. A null in the place of an
optional field is as good as nothing given, but for transcripts, where it is refused."""
_PLACE = re.compile(r"\{([a-z]+)\}")


def document(routes: tuple[Route, ...]) -> Json:
    """The document for these calls."""
    paths: dict[str, Json] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {"title": "zoned", "version": version("zoned"), "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "tags": [{"name": name, "description": about} for name, about in GROUPS.items()],
        "paths": paths,
        "components": {
            "schemas": {each.name: each.schema.document() for each in _named(routes)},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer",
                           "description": "the token in the data folder"},
            },
        },
    }  # fmt: skip


def failures(route: Route) -> Mapping[int, str]:
    """All the ways in which a call can fail, by status; its own reasons come first."""
    found = dict(_ALWAYS)
    if route.body is not None:
        found |= _WITH_BODY
    if route.writes:
        found |= _WRITING
    for status, reason in route.failures.items():
        found[status] = f"{reason}; {found[status]}" if status in found else reason
    return dict(sorted(found.items()))


def _operation(route: Route) -> Json:
    found: Json = {
        "operationId": route.name,
        "summary": route.about,
        "tags": [route.group],
        "parameters": list(_parameters(route)),
        "responses": _responses(route),
    }
    if route.body is not None:
        found["requestBody"] = {
            "required": not route.is_body_optional,
            "content": {"application/json": {"schema": route.body.document()}},
        }
    return found


def _parameters(route: Route) -> Iterator[Json]:
    for name in _PLACE.findall(route.path):
        schema: Schema = Text(
            1, about=f"the id of the {'repo' if route.group == 'repos' else 'session'}"
        )
        yield {"name": name, "in": "path", "required": True, "schema": schema.document()}
    for place, given in (("query", route.query), ("header", route.header)):
        for name, each in given.items():
            shape = each.document()
            about = shape.pop("description", "")
            style: Json = (
                {"style": "form", "explode": False} if shape.get("type") == "array" else {}
            )
            yield {"name": name, "in": place, "description": about, "schema": shape, **style}


def _responses(route: Route) -> Json:
    answer: Json = {"description": "done"}
    if route.answer is not None:
        answer["content"] = {route.media_type: {"schema": route.answer.document()}}
    found: Json = {str(route.status): answer}
    for status, reason in failures(route).items():
        content: Json = {"application/json": {"schema": ERROR.document()}}
        refused: Json = {"description": reason, "content": content}
        found[str(status)] = refused
        if status in (429, 503):
            seconds = {"description": "seconds to wait, if that is known",
                       "schema": {"type": "integer"}}  # fmt: skip
            refused["headers"] = {"Retry-After": seconds}
    return found


def _named(routes: tuple[Route, ...]) -> list[Named]:
    """All descriptions that have a name, each once."""
    found: dict[str, Named] = {ERROR.name: ERROR}
    for route in routes:
        for schema in (route.answer, route.body):
            for each in _inside(schema):
                assert found.setdefault(each.name, each) == each, f"two are called {each.name}"
    return list(found.values())


def _inside(value: object) -> Iterator[Named]:
    """The named ones in a description, however deep."""
    if isinstance(value, Named):
        yield value
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _inside(each)
    elif isinstance(value, tuple):
        for each in value:
            yield from _inside(each)
    elif hasattr(value, "__dataclass_fields__"):
        for part in fields(value):  # type: ignore[arg-type]  # it has just been asked
            yield from _inside(getattr(value, part.name))


@cache
def _document() -> Json:
    from srv.http.rest.table import ROUTES as ALL  # late: the table has this module's call, too

    return document(ALL)


async def _tell(_: Call) -> object:
    return _document()


ROUTES = (
    Route(
        "GET", "/api/openapi.json", "getDocument", "api",
        "This document",
        _tell, 200,
        AnObject({"openapi": Text(), "paths": Anything()}, ("openapi", "paths"), more=True),
    ),
)  # fmt: skip
