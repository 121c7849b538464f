"""Repos, sessions and messages as REST shows them: the shapes, and the document's word for each."""

from typing import TYPE_CHECKING

from filestore.journal.model import PHASES, STATUSES
from filestore.records.messages import ROLES
from filestore.times import iso
from srv.http.rest.schema import AnObject, Anything, Fields, Flag, ListOf, Named, Text, Whole

if TYPE_CHECKING:
    from filestore.records import Message, Repo, SessionInfo

ORIGINS = ("pane", "rest", "cli", "mcp", "transcript")
NAME_CHARS_MAX = 1000
UUID = "7f3c1f0e-58c1-4d0e-9a53-0d4a1a2b3c4d"


def time_text(about: str) -> Text:
    """A time as it is shown: UTC, three decimals, `Z`."""
    return Text(about=about, format="date-time", example="2026-01-31T09:30:00.000Z")


REPO = Named(
    "Repo",
    AnObject(
        {
            "id": Text(),
            "path": Text(about="the folder, absolute, all links followed"),
            "name": Text(),
            "createdAt": time_text("when it was made a repo"),
        },
        required=("id", "path", "name", "createdAt"),
        is_exact=True,
        about="a folder of code inside the workspace",
    ),
)

_SESSION_FIELDS: Fields = {
    "id": Text(),
    "definitionId": Text(about="the agent definition by which a pane opens it"),
    "origin": Text(choices=ORIGINS, about="the surface that began it"),
    "repoId": Text(about="left out for a session without a repo"),
    "agent": Text(about="the name of the agent"),
    "title": Text(),
    "purpose": Text(),
    "context": Anything("what the surface that began it said of it"),
    "status": Text(choices=STATUSES),
    "phase": Text(choices=PHASES),
    "createdAt": time_text("when it was begun"),
    "updatedAt": time_text("the last record or file change"),
    "endedAt": time_text("when it ended"),
    "summary": Text(),
    "reason": Text(about="why it ended"),
    "metadata": AnObject({}, more=True),
    "errorCount": Whole(),
    "lastError": Text(),
    "busy": Flag("a prompt waits for its answer"),
    "resumable": Flag("its phase can be taken up again"),
    "archived": Flag("its files are an archive"),
}
_SESSION_REQUIRED = ("id", "definitionId", "origin", "status", "phase", "createdAt", "updatedAt",
                     "metadata", "errorCount", "busy", "resumable", "archived")  # fmt: skip

SESSION = Named(
    "Session",
    AnObject(_SESSION_FIELDS, _SESSION_REQUIRED, "a session, whichever surface began it",
             is_exact=True),
)  # fmt: skip

MESSAGE = Named(
    "Message",
    AnObject(
        {
            "id": Text(about="a UUID, unless its sender named it"),
            "sessionId": Text(),
            "role": Text(choices=ROLES),
            "content": AnObject(
                {"type": Text(about="text, tool, plan, or any other")},
                required=("type",),
                about="text: `text`, of an agent also `partial`; tool: `tool`, `args`, `result`; "
                "plan: `steps`; others as they came",
                more=True,
            ),
            "timestamp": time_text("of its last chunk"),
            "seq": Whole(about="the place of its last chunk among the records of the session"),
        },
        required=("id", "sessionId", "role", "content", "timestamp", "seq"),
        is_exact=True,
    ),
)

WHOLE_SESSION = Named(
    "WholeSession",
    AnObject(
        {**_SESSION_FIELDS, "repo": REPO, "messages": ListOf(MESSAGE)},
        (*_SESSION_REQUIRED, "messages"),
        "a session with its repo, if it has one, and all its messages in order",
        is_exact=True,
    ),
)

SESSION_PAGE = Named(
    "SessionPage",
    AnObject(
        {
            "sessions": ListOf(SESSION),
            "total": Whole(about="how many there are in all"),
            "limit": Whole(),
            "offset": Whole(),
        },
        required=("sessions", "total", "limit", "offset"),
        is_exact=True,
    ),
)


def repo_shape(repo: "Repo") -> dict[str, object]:
    """A repo."""
    return {"id": repo.id, "path": repo.path, "name": repo.name, "createdAt": iso(repo.created_ms)}


def session_shape(session: "SessionInfo") -> dict[str, object]:
    """A session. What it does not have is left out."""
    ended_ms = session.ended_ms
    found = {
        "id": session.id,
        "definitionId": session.definition_id,
        "origin": session.origin,
        "repoId": session.repo_id,
        "agent": session.agent_name,
        "title": session.title,
        "purpose": session.purpose,
        "context": session.context,
        "status": session.status,
        "phase": session.phase,
        "createdAt": iso(session.created_ms),
        "updatedAt": iso(session.updated_ms),
        "endedAt": None if ended_ms is None else iso(ended_ms),
        "summary": session.summary,
        "reason": session.reason,
        "metadata": session.metadata,
        "errorCount": session.error_count,
        "lastError": session.last_error,
        "busy": session.is_busy,
        "resumable": session.is_resumable,
        "archived": session.is_archived,
    }
    return {name: value for name, value in found.items() if value is not None}


def message_shape(message: "Message") -> dict[str, object]:
    """A message."""
    return {
        "id": message.id,
        "sessionId": message.session_id,
        "role": message.role,
        "content": message.content,
        "timestamp": iso(message.at_ms),
        "seq": message.seq,
    }
