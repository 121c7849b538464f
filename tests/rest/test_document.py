"""The document: valid, complete, the same as what is checked; and the page that shows it."""

import re
from importlib.resources import files
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from srv.errors import KINDS, ZonedError
from srv.http.rest.answers import STATUSES
from srv.http.rest.openapi import document, failures
from srv.http.rest.route import Route
from srv.http.rest.schema import AnObject, ForTheStore, Named
from srv.http.rest.table import ROUTES
from tests.rest.tools import Rest
from tests.support.processes import ROOT

SPEC = (ROOT / "docs" / "specs" / "0010-rest.md").read_text(encoding="utf-8")
DOCUMENT = document(ROUTES)
BODIES = [route for route in ROUTES if route.body is not None]
NAMES = [route.name for route in BODIES]


def test_document_is_valid() -> None:
    OPENAPI_31_VALIDATOR.validate(DOCUMENT)
    for schema in all_schemas():
        jsonschema_rs.meta.validate(schema)


def all_schemas() -> list[Any]:
    components: Any = DOCUMENT["components"]
    return list(components["schemas"].values())


def test_document_of_the_daemon_is_this_one(rest: Rest) -> None:
    assert rest.document == DOCUMENT


def test_every_call_is_in_the_document_with_all_that_it_takes_and_answers() -> None:
    paths: Any = DOCUMENT["paths"]
    assert sum(map(len, paths.values())) == len(ROUTES)
    assert len({route.name for route in ROUTES}) == len(ROUTES)
    for route in ROUTES:
        told = paths[route.path][route.method.lower()]
        assert told["operationId"] == route.name
        assert set(told["responses"]) == {str(route.status), *map(str, failures(route))}
        places = set(re.findall(r"\{(\w+)\}", route.path))
        names = {(each["in"], each["name"]) for each in told["parameters"]}
        assert names == {("path", each) for each in places} | {
            ("query", each) for each in route.query
        } | {("header", each) for each in route.header}
        assert ("requestBody" in told) == (route.body is not None)
        assert all(each["description"] for each in told["responses"].values())


def test_names_that_are_referred_to_are_there() -> None:
    components: Any = DOCUMENT["components"]
    names = set(re.findall(r"#/components/schemas/(\w+)", str(DOCUMENT)))
    assert names == set(components["schemas"])


def test_every_call_is_in_the_spec_with_its_statuses() -> None:
    for route in ROUTES:
        line = re.search(rf"^\| `{route.method} {re.escape(route.path)}[`?].*$", SPEC, re.MULTILINE)
        assert line is not None, f"{route.method} {route.path}"
        for status in (route.status, *route.failures):
            assert str(status) in line[0], (route.name, status)
        for name in (*route.query, *fields_of(route)):
            assert name in line[0], (route.name, name)


def fields_of(route: Route) -> list[str]:
    body = route.body
    while isinstance(body, Named | ForTheStore):
        body = body.schema
    return list(body.fields) if isinstance(body, AnObject) else []


def test_every_kind_of_error_has_its_status_in_the_spec() -> None:
    assert STATUSES.keys() == KINDS.keys()
    for kind, status in STATUSES.items():
        assert re.search(rf"^\| .*`{kind}`.* \| {status} \|", SPEC, re.MULTILINE), kind


# -- what the document says, and what is checked


def schema_of(route: Route) -> dict[str, Any]:
    assert route.body is not None
    return {**route.body.document(), "components": DOCUMENT["components"]}


def is_valid(schema: dict[str, Any], value: object) -> bool:
    return bool(jsonschema_rs.Draft202012Validator(schema).is_valid(value))


@pytest.mark.parametrize("route", BODIES, ids=NAMES)
def test_example_is_as_the_document_says(route: Route) -> None:
    assert route.body is not None
    schema = route.body
    while isinstance(schema, Named | ForTheStore):
        schema = schema.schema
    assert isinstance(schema, AnObject)
    if schema.required:
        assert schema.example
    assert is_valid(schema_of(route), dict(schema.example))
    assert schema.check("", dict(schema.example)) == schema.example


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4)
    | st.sampled_from(["", " ", "text", "user", "agent", "x" * 1001, "a b"]),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.sampled_from(["type", "text", "partial", "more"]), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip


@pytest.mark.parametrize(
    "route", [each for each in BODIES if each.name not in ("startTranscript", "appendRow")],
    ids=lambda route: str(route.name),
)  # fmt: skip
@given(data=st.data())
def test_what_is_taken_is_what_the_document_allows(route: Route, data: st.DataObject) -> None:
    assert route.body is not None
    names = st.sampled_from([*fields_of(route), "more"])
    value = data.draw(st.dictionaries(names, VALUES, max_size=4))
    try:
        route.body.check("", value)
        is_taken = True
    except ZonedError:
        is_taken = False
    assert is_taken == is_valid(schema_of(route), value)


# -- the page


def test_page_is_our_own_and_lets_nothing_else_in(rest: Rest) -> None:
    page = rest.call("GET", "/api/docs", is_checked=False)
    assert page.status == 200
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    for target in re.findall(r'(?:src|href)="([^"]+)"', page.data.decode()):
        assert target.startswith("/api/")
        assert rest.call("GET", target, is_checked=False).status == 200, target
    assert "style=" not in page.data.decode()
    script = files("srv.http").joinpath("static", "docs.js").read_text(encoding="utf-8")
    for banned in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert banned not in script
