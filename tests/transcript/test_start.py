"""The call that starts a transcript."""

import copy
from typing import Any

import pytest

from filestore.errors import InvalidFieldError, SecretRefusedError
from filestore.transcript import Start, check_start

GOOD: dict[str, Any] = {
    "agentSlug": "code-reviewer-2",
    "title": "Fix the login",
    "context": {
        "workingDir": "/srv/app",
        "fsScopeTier": "project",
        "activeFile": "src/a.py",
        "selection": {"start": 1, "end": 2},
        "gitRef": "main",
        "variables": {"LANG": "en", "depth": 3, "list": ["a", {"b": None}]},
    },
    "agentSnapshot": {"model": "model-1", "tools": []},
}
LEAST: dict[str, Any] = {"agentSlug": "a", "context": {"workingDir": ".", "fsScopeTier": "1"}}
TOKEN = "gh" + "p_" + "a1B2c3D4" * 5


def test_start_is_taken_as_it_is() -> None:
    before = copy.deepcopy(GOOD)
    found = check_start(GOOD)
    assert found == Start(
        "code-reviewer-2", "Fix the login", GOOD["context"], GOOD["agentSnapshot"]
    )
    assert before == GOOD
    assert check_start(LEAST) == Start("a", None, LEAST["context"], None)


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("agentSlug", None, "agentSlug"),
        ("agentSlug", "", "agentSlug"),
        ("agentSlug", "Coder", "agentSlug"),
        ("agentSlug", "a--b", "agentSlug"),
        ("agentSlug", "-a", "agentSlug"),
        ("agentSlug", "a_b", "agentSlug"),
        ("agentSlug", "a\n", "agentSlug"),
        ("agentSlug", "ä", "agentSlug"),
        ("agentSlug", "a" * 129, "agentSlug"),
        ("title", None, "title"),
        ("title", 1, "title"),
        ("title", "\ud800", "title"),
        ("title", "x" * 1001, "title"),
        ("more", 1, "more"),
        ("agentSnapshot", [], "agentSnapshot"),
        ("agentSnapshot", {"a": float("nan")}, "agentSnapshot.a"),
        ("context", None, "context"),
        ("context", {}, "context.workingDir"),
        ("context.workingDir", "", "context.workingDir"),
        ("context.fsScopeTier", 1, "context.fsScopeTier"),
        ("context.activeFile", 1, "context.activeFile"),
        ("context.selection", 1, "context.selection"),
        ("context.selection", {"a": "\ud800"}, "context.selection.a"),
        ("context.gitRef", [], "context.gitRef"),
        ("context.variables", [], "context.variables"),
        ("context.variables", {"a": {"b": 1 << 10_000}}, "context.variables.a.b"),
        ("context.working_dir", "/", "context.working_dir"),
    ],
)
def test_start_with_a_flaw_is_refused_with_its_path(path: str, value: object, field: str) -> None:
    start: Any = copy.deepcopy(GOOD)
    *way, last = path.split(".")
    place = start
    for each in way:
        place = place[each]
    place[last] = value
    with pytest.raises(InvalidFieldError) as caught:
        check_start(start)
    assert caught.value.field == field
    assert not isinstance(caught.value, SecretRefusedError)


@pytest.mark.parametrize("name", ["agentSlug", "context"])
def test_start_without_what_it_needs_is_refused(name: str) -> None:
    with pytest.raises(InvalidFieldError, match=f"{name}: is missing"):
        check_start({key: value for key, value in GOOD.items() if key != name})


@pytest.mark.parametrize(
    ("variables", "field"),
    [
        ({"DEPLOY": TOKEN}, "context.variables.DEPLOY"),
        ({"a": ["x", {"b c": f"use {TOKEN} for it"}]}, 'context.variables.a[1]["b c"]'),
        ({"dbPassword": "x7Gq2-Lm9"+"fR4v"}, "context.variables.dbPassword"),
        ({"secret": ["x7Gq2-Lm9"+"fR4v"]}, "context.variables.secret[0]"),
        ({TOKEN: "x"}, "context.variables"),
        ({"a": {"b": {TOKEN: 1}}}, "context.variables.a.b"),
    ],
)  # fmt: skip
def test_secret_is_refused_by_name_and_never_shown(variables: Any, field: str) -> None:
    start = {**LEAST, "context": {**LEAST["context"], "variables": variables}}
    with pytest.raises(SecretRefusedError) as caught:
        check_start(start)
    assert caught.value.field == field
    told = str(caught.value) + repr(caught.value) + caught.value.field
    assert "a1B2c3D4" not in told
    assert "fR4v" not in told
