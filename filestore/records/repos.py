"""Repos: folders of code that sessions are about. Rows in the store; and the rule that a folder
must lie inside the workspace.
"""

import os
from pathlib import Path
from typing import NamedTuple

from filestore.engine.base import ReadTx, Row, Tx
from filestore.engine.schema import row_check
from filestore.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptionError,
    ForbiddenError,
    InvalidArgumentError,
    NotFoundError,
)
from filestore.journal.bodies import is_text

NAME_CHARS_MAX = 1000
_COLUMNS = "id, path, name, created_ms, row_check"


class Repo(NamedTuple):
    """A folder of code."""

    id: str
    path: str
    name: str
    created_ms: int


def confined(path: str, root: Path | None) -> str:
    """The folder `path` with all links followed, if it lies inside `root`. Looks at the disk.

    ForbiddenError for everything else, whatever the reason: nobody learns what there is outside.
    A relative path is one inside `root`.
    """
    if root is None:
        raise ForbiddenError(
            "repos cannot be used here", hint="set AGENT_WORKSPACE_ROOT to the folder of all repos"
        )
    refused = ForbiddenError("that is no folder inside the workspace")
    try:
        real_root = os.path.realpath(root, strict=True)
        real = os.path.realpath(os.path.join(real_root, path), strict=True)
    except (OSError, ValueError):
        raise refused from None
    if os.path.commonpath((real_root, real)) != real_root or not os.path.isdir(real):
        raise refused
    if not is_text(real):
        raise InvalidArgumentError("the name of that folder is no text")
    return real


async def add_repo(tx: Tx, repo: Repo) -> Repo:
    """Store a repo. AlreadyExistsError if its folder is one already."""
    row = await tx.fetch_one(f"SELECT {_COLUMNS} FROM repo WHERE path = ?", (repo.path,))
    if not is_text(repo.name) or len(repo.name) > NAME_CHARS_MAX:
        raise InvalidArgumentError(f"the name of a repo has at most {NAME_CHARS_MAX} characters")
    if row is not None:
        raise AlreadyExistsError(f"that folder is repo {_repo(row).id}")
    await tx.execute(
        f"INSERT INTO repo ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)", (*repo, row_check(*repo))
    )
    return repo


async def find_repo(tx: ReadTx, repo_id: str, operation: str) -> Repo:
    """A repo, or NotFoundError."""
    sql = f"SELECT {_COLUMNS} FROM repo WHERE id = ?"
    row = await tx.fetch_one(sql, (repo_id,)) if is_text(repo_id) else None
    if row is None:
        raise NotFoundError(f"there is no repo {ascii(repo_id)[:80]}", operation=operation)
    return _repo(row)


async def load_repos(tx: ReadTx) -> list[Repo]:
    """All repos, by name."""
    return [_repo(row) for row in await tx.fetch(f"SELECT {_COLUMNS} FROM repo ORDER BY name, id")]


async def remove_repo(tx: Tx, repo_id: str) -> None:
    """Delete a repo. ConflictError while sessions refer to it."""
    await find_repo(tx, repo_id, "delete_repo")
    used = await tx.fetch_one(
        "SELECT session_id, status FROM journal WHERE repo_id = ? LIMIT 1", (repo_id,)
    )
    if used is not None:
        raise ConflictError("sessions refer to that repo", status=used[1])
    await tx.execute("DELETE FROM repo WHERE id = ?", (repo_id,))


def _repo(row: Row) -> Repo:
    *values, check = row
    if check != row_check(*values):
        raise CorruptionError(f"the row of repo {row[0]!a} fails its check")
    return Repo(*values)
