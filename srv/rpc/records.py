"""The operators' methods on sessions by their records: what `zoned session` and `zoned hook` call.

Answers are the documents that the commands print. Docs: docs/specs/0011-commands-and-hooks.md.
Imports little: hooks wait for it, with and without a daemon.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from filestore.clock import system_clock
from filestore.errors import NotFoundError
from filestore.times import iso
from srv.rpc.method import Caller, Json, Method
from srv.rpc.params import (
    INTEGER_MAX,
    Field,
    Spec,
    an_object,
    any_text,
    boolean,
    count,
    text,
    wrong,
)
from srv.sessions import check_id, object_of

if TYPE_CHECKING:
    from filestore.journal.model import Outcome, SessionInfo
    from filestore.records.states import State

LIST_ROWS_MAX = 50
"""Sessions of one answer: each may have 64 KiB of metadata, and a purpose of more."""
HOUR_MS = 3_600_000
HOURS_MAX = 1 << 32
RESUMABLE = "it can be taken up again"
OUTCOMES = ("completed", "failed", "abandoned")
_SESSION: Mapping[str, Field] = {"session_id": text}
_CALL: Mapping[str, Field] = {**_SESSION, "call_id": text}


def new_session(name: str, value: object) -> str:
    """The id of a session that the command line begins."""
    return check_id(text(name, value))


def metadata(name: str, value: object) -> dict[str, Any]:
    """An object, or the JSON of one, in which whole numbers of any size are exact."""
    return object_of(value) if isinstance(value, str) else an_object(name, value)


def outcome(name: str, value: object) -> str:
    """How a session ends."""
    given = text(name, value)
    if given not in OUTCOMES:
        raise wrong(name, f"{name} must be one of {', '.join(OUTCOMES)}, not {given[:80]!a}")
    return given


def place(name: str, value: object) -> tuple[int, int]:
    """Where a page ended."""
    if isinstance(value, list) and len(value) == 2:
        at_ms, key = value
        if type(at_ms) is type(key) is int and max(abs(at_ms), abs(key)) <= INTEGER_MAX:
            return at_ms, key
    raise wrong(name, f"{name} must be what was told as next")


def methods() -> Mapping[str, Method]:
    """The methods by name."""
    one = Spec(_SESSION, ("session_id",))
    create = {
        **_CALL,
        "session_id": new_session,
        "agent_name": any_text,
        "purpose": any_text,
        "metadata": metadata,
    }
    update = {**_CALL, "phase": text, "metadata": metadata, "error": any_text}
    finalize = {**_CALL, "outcome": outcome, "summary": any_text, "note": an_object}
    page = {"active_only": boolean, "agent_name": any_text, "limit": count, "after": place}
    task = {**_SESSION, "agent_name": any_text, "task_id": any_text, "for_resume": boolean}
    cleanup = {"hours": count, "force": boolean, "dry_run": boolean}
    return {
        "session:create": _write(Spec(create, ("session_id",)), _create),
        "session:update": _write(Spec(update, ("session_id",)), _update),
        "session:finalize": _write(Spec(finalize, ("session_id", "outcome")), _finalize),
        "session:get": Method(one, _get, shape=state_shape, is_operators=True),
        "session:should_resume": Method(one, _should_resume, is_operators=True),
        "session:find": Method(Spec(task), _find, shape=found_shape, is_operators=True),
        "session:list": Method(Spec(page), _list, is_operators=True),
        "session:cleanup": Method(Spec(cleanup), _cleanup, "write", is_operators=True),
    }


def _write(spec: Spec, run: Callable[..., Awaitable["SessionInfo"]]) -> Method:
    return Method(spec, run, "write", session_shape, is_operators=True)


# -- what they call


async def _create(
    caller: Caller,
    session_id: str,
    agent_name: str | None = None,
    purpose: str | None = None,
    metadata: dict[str, Any] | None = None,
    call_id: str | None = None,
) -> "SessionInfo":
    from filestore.records.records import NewSession

    new = NewSession(
        "cli", session_id, agent_name=agent_name, purpose=purpose, metadata=metadata or {}
    )
    return await caller.service.records.create(new, call_id=call_id)


async def _update(
    caller: Caller,
    session_id: str,
    phase: str | None = None,
    metadata: dict[str, Any] | None = None,
    error: str | None = None,
    call_id: str | None = None,
) -> "SessionInfo":
    return await caller.service.records.update(
        session_id, phase=phase, metadata=metadata, error=error, call_id=call_id
    )


async def _finalize(
    caller: Caller,
    session_id: str,
    outcome: "Outcome",
    summary: str | None = None,
    note: dict[str, Any] | None = None,
    call_id: str | None = None,
) -> "SessionInfo":
    return await caller.service.records.finish(
        session_id, outcome, summary=summary, note=note, call_id=call_id
    )


async def _get(caller: Caller, session_id: str) -> "State":
    from filestore.records.states import load_state

    now_ms = system_clock()
    return await caller.service.records.view(lambda tx: load_state(tx, session_id, now_ms))


async def _should_resume(caller: Caller, session_id: str) -> Json:
    from filestore.records.info import why_not_resume

    try:
        session = await caller.service.records.get(session_id)
    except NotFoundError:
        why_not = "there is no such session"
    else:
        why_not = why_not_resume(session, system_clock())
    return {"should_resume": not why_not, "reason": why_not or RESUMABLE}


async def _find(
    caller: Caller,
    session_id: str | None = None,
    agent_name: str | None = None,
    task_id: str | None = None,
    for_resume: bool = False,
) -> "State | None":
    from filestore.records.states import Wanted, find_for_task, load_state

    now_ms, view = system_clock(), caller.service.records.view
    if session_id is None:
        wanted = Wanted(agent_name, task_id, for_resume)
        return await view(lambda tx: find_for_task(tx, wanted, now_ms))
    try:
        return await view(lambda tx: load_state(tx, session_id, now_ms))
    except NotFoundError:
        return None


async def _list(
    caller: Caller,
    active_only: bool = False,
    agent_name: str | None = None,
    limit: int = LIST_ROWS_MAX,
    after: tuple[int, int] | None = None,
) -> Json:
    from filestore.records.lists import recent_page

    page = await caller.service.records.view(
        lambda tx: recent_page(
            tx, min(limit, LIST_ROWS_MAX), after, agent_name=agent_name, active_only=active_only
        )
    )
    answer: dict[str, object] = {"sessions": [session_shape(each) for each in page.sessions]}
    return answer if page.next is None else {**answer, "next": page.next}


async def _cleanup(
    caller: Caller, hours: int = 24, force: bool = False, dry_run: bool = False
) -> Json:
    before_ms = system_clock() - min(hours, HOURS_MAX) * HOUR_MS
    gone = await caller.service.records.cleanup(before_ms, force=force, dry_run=dry_run)
    return {"sessions": gone}


# -- what they answer


def session_shape(session: "SessionInfo") -> dict[str, object]:
    """A session as `session get` prints it, without its history."""
    answer: dict[str, object] = {
        "agent_id": session.id,
        "agent_name": session.agent_name,
        "purpose": session.purpose,
        "created_at": iso(session.created_ms),
        "last_updated": iso(session.updated_ms),
        "phase": session.phase,
        "metadata": session.metadata,
        "resume_ready": session.is_resumable,
        "error_count": session.error_count,
        "last_error": session.last_error,
    }
    if session.ended_ms is not None:
        answer["finalized_at"] = iso(session.ended_ms)
        answer["duration_seconds"] = (session.ended_ms - session.created_ms) / 1000
    if session.summary is not None:
        answer["summary"] = session.summary
    return answer


def state_shape(state: "State") -> dict[str, object]:
    """A session as `session get` prints it."""
    history = [
        {"from_phase": each.from_phase, "to_phase": each.to_phase, "timestamp": iso(each.at_ms)}
        for each in state.history
    ]
    return {**session_shape(state.session), "history": history}


def found_shape(state: "State | None") -> dict[str, object]:
    """What was found, if anything, and whether it should be taken up again."""
    if state is None:
        return {}
    why_not = state.why_not
    return {
        "session": state_shape(state),
        "should_resume": not why_not,
        "reason": why_not or RESUMABLE,
    }
