"""Repos: each line of the table; and that no folder outside the workspace becomes one."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.rest.tools import Rest
from tests.support.daemon import serving

REPOS = "/api/repos"


def test_repo_is_made_listed_and_deleted(rest: Rest, workspace: Path) -> None:
    place = workspace / "made"
    place.mkdir()
    made = rest.ok("POST", REPOS, {"path": str(place), "name": "the first"}, status=201)
    assert made.keys() == {"id", "path", "name", "createdAt"}
    assert (made["path"], made["name"]) == (str(place), "the first")
    assert made in rest.ok("GET", REPOS)
    assert rest.ok("DELETE", f"{REPOS}/{made['id']}", status=204) is None
    assert made not in rest.ok("GET", REPOS)
    assert place.is_dir(), "only forgotten"


def test_repo_gets_the_real_path_and_the_name_of_its_folder(rest: Rest, workspace: Path) -> None:
    (workspace / "real" / "inner").mkdir(parents=True)
    (workspace / "link").symlink_to(workspace / "real")
    for given in ("real/inner", f"{workspace}/link/inner", "link/./inner"):
        made = rest.ok("POST", REPOS, {"path": given, "name": None}, status=201)
        assert (made["path"], made["name"]) == (str(workspace / "real" / "inner"), "inner")
        rest.ok("DELETE", f"{REPOS}/{made['id']}", status=204)


def test_folder_that_is_a_repo_already_is_told(rest: Rest, workspace: Path, repo: str) -> None:
    path = next(each["path"] for each in rest.ok("GET", REPOS) if each["id"] == repo)
    error = rest.fails(409, "ALREADY_EXISTS", "POST", REPOS, {"path": path})
    assert repo in error["message"]


def test_repo_with_sessions_cannot_be_deleted(rest: Rest, repo: str, session: str) -> None:
    rest.fails(409, "CONFLICT", "DELETE", f"{REPOS}/{repo}")
    rest.ok("POST", f"/api/sessions/{session}/complete")
    rest.fails(409, "CONFLICT", "DELETE", f"{REPOS}/{repo}")


def test_repo_that_is_not_there(rest: Rest) -> None:
    rest.fails(404, "NOT_FOUND", "DELETE", f"{REPOS}/nobody")


@pytest.fixture
def outside(workspace: Path) -> Path:
    """A folder beside the workspace whose path begins like it."""
    place = workspace.parent / "workspace-of-another"
    place.mkdir(exist_ok=True)
    link = workspace / "out"
    if not link.is_symlink():
        link.symlink_to(place)
    return place


def test_folder_outside_the_workspace_is_refused_and_logged(
    rest: Rest, workspace: Path, outside: Path
) -> None:
    (workspace / "file").write_text("x")
    (workspace / "deep").mkdir(exist_ok=True)
    (outside / "inner").mkdir(exist_ok=True)
    before = rest.ok("GET", REPOS)
    given = (
        str(outside), "out", "out/inner", "..", f"../{outside.name}", "deep/../../" + outside.name,
        "/", "/etc", str(workspace.parent), "file", "missing", "deep/\0", "x" * 4000, "out/../..",
    )  # fmt: skip
    for path in given:
        rest.fails(403, "FORBIDDEN", "POST", REPOS, {"path": path})
    assert rest.ok("GET", REPOS) == before
    refused = [each for each in rest.daemon.events() if each["logger"] == "zoned.security"]
    assert len(refused) == len(given)
    assert all(each["level"] == "warning" and each["path"] for each in refused)


def test_folder_that_changes_while_it_is_looked_at_is_inside_or_refused(
    rest: Rest, workspace: Path, outside: Path
) -> None:
    """A link is turned over, in and out, while many ask: what is stored was inside."""
    inside = workspace / "turning-inside"
    inside.mkdir()
    link = workspace / "turning"
    link.symlink_to(inside)

    def turn(times: int) -> None:
        for number in range(times):
            other = workspace / f"turning-{number % 2}"
            other.unlink(missing_ok=True)
            other.symlink_to(inside if number % 2 else outside)
            os.replace(other, link)

    with ThreadPoolExecutor(5) as pool:
        turning = pool.submit(turn, 400)
        calls = [pool.submit(rest.call, "POST", REPOS, {"path": "turning"}) for _ in range(40)]
        turning.result()
        statuses = {each.result().status for each in calls}
    assert statuses <= {201, 403, 409}
    for each in rest.ok("GET", REPOS):
        assert Path(each["path"]).is_relative_to(workspace), each


def test_session_in_a_folder_that_has_left_the_workspace_is_refused(
    rest: Rest, workspace: Path, outside: Path
) -> None:
    place = workspace / "moving"
    place.mkdir()
    repo = rest.repo(place)
    place.rmdir()
    place.symlink_to(outside)
    rest.fails(403, "FORBIDDEN", "POST", "/api/sessions", {"repoId": repo})
    place.unlink()
    rest.fails(403, "FORBIDDEN", "POST", "/api/sessions", {"repoId": repo})
    assert rest.ok("GET", f"/api/sessions?repoId={repo}")["total"] == 0
    place.mkdir()
    rest.session(repo)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "path"), ({"path": None}, "path"), ({"path": 5}, "path"), ({"path": ""}, "path"),
        ({"path": "x" * 4097}, "path"), ({"path": "a", "name": ""}, "name"),
        ({"path": "a", "name": "x" * 1001}, "name"), ({"path": "a", "more": 1}, "more"),
    ],
)  # fmt: skip
def test_body_that_is_none_names_the_field(rest: Rest, body: object, field: str) -> None:
    error = rest.fails(400, "INVALID_PARAMS", "POST", REPOS, body)
    assert error["details"]["field"] == field
    assert field in error["message"]


def test_without_a_workspace_there_are_no_repos(tmp_path: Path) -> None:
    with serving(tmp_path / "data", environ={"AGENT_WORKSPACE_ROOT": ""}) as daemon:
        rest = Rest(daemon)
        error = rest.fails(403, "FORBIDDEN", "POST", REPOS, {"path": str(tmp_path)})
        assert "AGENT_WORKSPACE_ROOT" in error["details"]["hint"]
        assert rest.ok("GET", REPOS) == []
