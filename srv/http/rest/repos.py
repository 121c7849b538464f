"""Repos: folders of code inside the workspace."""

import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from filestore.errors import ForbiddenError
from filestore.records.repos import NAME_CHARS_MAX
from srv.config import Config
from srv.http.rest.route import Call, Route
from srv.http.rest.schema import AnObject, ListOf, Named, Text, shown
from srv.http.rest.shapes import REPO, repo_shape

PATH_CHARS_MAX = 4096

log = logging.getLogger("zoned.security")


def workspace(config: Config) -> Path | None:
    """The folder that all repos must lie in, or None: there are to be none."""
    return Path(config.workspace_root) if config.workspace_root else None


async def confined(call: Call, path: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:  # noqa: ANN401  # whatever the work gives
    """Do what is refused for a folder outside the workspace; a refusal is logged."""
    try:
        return await work()
    except ForbiddenError as error:
        log.warning("refused a folder outside the workspace",
                    extra={"path": shown(path), "call": call.request.path})  # fmt: skip
        raise error


async def _add(call: Call) -> object:
    path, name = call.body["path"], call.body.get("name")
    repo = await confined(
        call, path, lambda: call.records.add_repo(path, name, workspace(call.config))
    )
    return repo_shape(repo)


async def _list(call: Call) -> object:
    return [repo_shape(repo) for repo in await call.records.list_repos()]


async def _delete(call: Call) -> object:
    await call.records.delete_repo(call.path["id"])
    return None


ROUTES = (
    Route(
        "POST", "/api/repos", "addRepo", "repos",
        "Make a folder inside the workspace a repo",
        _add, 201, REPO,
        {
            403: "the folder is not inside AGENT_WORKSPACE_ROOT, or that is not set",
            409: "the folder is a repo already",
        },
        body=Named("NewRepo", AnObject(
            {
                "path": Text(1, PATH_CHARS_MAX,
                             "the folder, absolute or inside the workspace; links are followed"),
                "name": Text(1, NAME_CHARS_MAX, "by default that of the folder"),
            },
            required=("path",),
            example={"path": "shop", "name": "the shop"},
        )),
    ),
    Route(
        "GET", "/api/repos", "listRepos", "repos",
        "All repos, by name",
        _list, 200, ListOf(REPO),
    ),
    Route(
        "DELETE", "/api/repos/{id}", "deleteRepo", "repos",
        "Forget a repo; its folder stays",
        _delete, 204, None,
        {404: "there is no such repo", 409: "sessions refer to it"},
    ),
)  # fmt: skip
