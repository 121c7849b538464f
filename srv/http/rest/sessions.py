"""Sessions: begin, list, look at, end."""

from typing import TYPE_CHECKING

from filestore.journal.model import STATUSES
from filestore.records import Filter, NewSession
from filestore.records.lists import OFFSET_MAX, ROWS_MAX
from filestore.records.whole import load_whole
from srv.http.rest.repos import confined, workspace
from srv.http.rest.route import Call, Route
from srv.http.rest.schema import AnObject, Anything, Named, Text, Whole, Words
from srv.http.rest.shapes import (
    NAME_CHARS_MAX,
    SESSION,
    SESSION_PAGE,
    UUID,
    WHOLE_SESSION,
    message_shape,
    repo_shape,
    session_shape,
)

if TYPE_CHECKING:
    from filestore.records import Repo

TEXT_CHARS_MAX = 10_000
"""Of a summary, a reason, an error: the session's row holds them, and rows are read by the page."""
PAGE = 20

ENDED = {404: "there is no such session", 409: "it has ended already; `status` says how"}


async def _create(call: Call) -> object:
    repo_id: str = call.body["repoId"]
    root = workspace(call.config)
    repo: Repo = await confined(call, repo_id, lambda: call.records.check_repo(repo_id, root))
    new = NewSession(
        "rest",
        agent_name=call.body.get("agent"),
        title=call.body.get("title"),
        repo_id=repo.id,
    )
    return session_shape(await call.records.create(new, active_max=call.config.sessions_max))


async def _list(call: Call) -> object:
    query = call.query
    wanted = Filter(query.get("status", ()), query.get("repoId"), query.get("agent"))
    limit, offset = query.get("limit", PAGE), query.get("offset", 0)
    page = await call.records.page(wanted, limit=limit, offset=offset)
    sessions = [session_shape(each) for each in page.sessions]
    return {"sessions": sessions, "total": page.total, "limit": limit, "offset": offset}


async def _get(call: Call) -> object:
    found = await call.records.view(lambda tx: load_whole(tx, call.path["id"]))
    shape = session_shape(found.session)
    if found.repo is not None:
        shape["repo"] = repo_shape(found.repo)
    return shape | {"messages": [message_shape(each) for each in found.messages]}


async def _complete(call: Call) -> object:
    session_id, summary = call.path["id"], call.body.get("summary")
    return session_shape(await call.records.finish(session_id, "completed", summary=summary))


async def _fail(call: Call) -> object:
    message = call.body["message"]
    say = {"type": "error", "text": message}
    if "details" in call.body:
        say["details"] = call.body["details"]
    found = await call.records.finish(call.path["id"], "failed", error=message, say=say)
    return session_shape(found)


async def _cancel(call: Call) -> object:
    reason = call.query.get("reason")
    say = None if reason is None else {"type": "text", "text": reason}
    found = await call.records.finish(call.path["id"], "abandoned", reason=reason, say=say)
    return session_shape(found)


ROUTES = (
    Route(
        "POST", "/api/sessions", "createSession", "sessions",
        "Begin a session in a repo",
        _create, 201, SESSION,
        {
            403: "the repo is not inside AGENT_WORKSPACE_ROOT any more",
            404: "there is no such repo",
            429: "as many sessions with a repo are active as may be (`sessions_max`)",
        },
        body=Named("NewSession", AnObject(
            {
                "repoId": Text(1, NAME_CHARS_MAX, "the repo that it is about"),
                "agent": Text(1, NAME_CHARS_MAX, "the name of the agent, to find it by"),
                "title": Text(0, NAME_CHARS_MAX),
            },
            required=("repoId",),
            example={"repoId": UUID, "agent": "coder", "title": "Fix the checkout"},
        )),
    ),
    Route(
        "GET", "/api/sessions", "listSessions", "sessions",
        "Sessions of every surface, the newest first, without their messages",
        _list, 200, SESSION_PAGE,
        query={
            "repoId": Text(1, NAME_CHARS_MAX, "only those with this repo"),
            "status": Words(STATUSES, "only those that are one of these"),
            "agent": Text(1, NAME_CHARS_MAX, "only those of the agent with this name"),
            "limit": Whole(1, ROWS_MAX, "how many at most", PAGE),
            "offset": Whole(0, OFFSET_MAX, "how many to leave out before", 0),
        },
    ),
    Route(
        "GET", "/api/sessions/{id}", "getSession", "sessions",
        "A session with its repo and all its messages",
        _get, 200, WHOLE_SESSION,
        {404: "there is no such session"},
    ),
    Route(
        "POST", "/api/sessions/{id}/complete", "completeSession", "sessions",
        "End a session: it is completed",
        _complete, 200, SESSION, ENDED,
        body=Named("Completion", AnObject(
            {"summary": Text(0, TEXT_CHARS_MAX)}, example={"summary": "The checkout works again."}
        )),
        is_body_optional=True,
    ),
    Route(
        "POST", "/api/sessions/{id}/error", "failSession", "sessions",
        "End a session with an error; a system message tells of it",
        _fail, 200, SESSION, ENDED,
        body=Named("Failure", AnObject(
            {
                "message": Text(1, TEXT_CHARS_MAX, "what went wrong"),
                "details": Anything("more of it"),
            },
            required=("message",),
            example={"message": "the agent ended with code 1", "details": {"code": 1}},
        )),
    ),
    Route(
        "DELETE", "/api/sessions/{id}", "cancelSession", "sessions",
        "Cancel a session; a system message holds the reason. Nothing of it is deleted",
        _cancel, 200, SESSION, ENDED,
        query={"reason": Text(1, TEXT_CHARS_MAX, "why")},
    ),
)  # fmt: skip
