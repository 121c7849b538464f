"""A session with all that is shown of it at once."""

from typing import NamedTuple

from filestore.journal.model import SessionInfo
from filestore.reading import ReadTransaction
from filestore.records.info import find, info
from filestore.records.messages import Message, load_messages
from filestore.records.repos import Repo, find_repo


class WholeSession(NamedTuple):
    """As of one moment. `repo` is None for a session without one."""

    session: SessionInfo
    repo: Repo | None
    messages: list[Message]


async def load_whole(tx: ReadTransaction, session_id: str) -> WholeSession:
    """A session with its repo and all its messages. NotFoundError."""
    row = await find(tx, session_id, "whole")
    repo = None if row.repo_id is None else await find_repo(tx.rows, row.repo_id, "whole")
    return WholeSession(await info(tx, row), repo, await load_messages(tx.rows, row))
