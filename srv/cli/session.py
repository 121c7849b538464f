"""`zoned session …`: sessions by their records, for agents and the scripts around them.

What is printed is fixed, word for word: scripts read it. docs/specs/0011-commands-and-hooks.md.
"""

import os
from collections.abc import Iterator

from srv.cli.backend import Backend, Json, connected, is_empty
from srv.cli.options import Invocation, UsageError
from srv.cli.screen import Screen, harmless, say_raw
from srv.errors import ZonedError, told
from srv.sessions import check_id, new_id, object_of

EXIT_NOT = 1
OUTCOMES = ("completed", "failed", "abandoned")
CANDIDATES_MAX = 100
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
"""What no shell takes for anything else."""


def create(call: Invocation) -> int:
    """`zoned session create`. Its id is chosen here, so that a repeat makes no second session."""
    session_id = check_id(given) if (given := _option(call, "id")) is not None else new_id()
    params: Json = {"session_id": session_id, "call_id": _new_call()}
    params |= _given(call, agent_name="agent", purpose="purpose", metadata="metadata")
    if "metadata" in params:
        object_of(params["metadata"])
    with connected(call, is_reading=False) as backend:
        done = backend.object("session:create", params)
    return _answer(call, done, f"Created session: {session_id}")


def update(call: Invocation) -> int:
    """`zoned session update <id>`. All of it or nothing."""
    session_id = _id(call)
    params: Json = {"session_id": session_id, "call_id": _new_call()}
    params |= _given(call, phase="phase", metadata="metadata", error="error")
    try:
        if "metadata" in params:
            object_of(params["metadata"])
        _refuse_unknown(call, session_id)
        with connected(call, is_reading=False) as backend:
            done = backend.object("session:update", params)
    except Exception as error:
        if (known := told(error)) is None:
            raise
        say_raw(f"Failed to update session: {harmless(f'{session_id}: {known}')}\n")
        return EXIT_NOT
    return _answer(call, done, f"Updated session: {session_id}")


def should_resume(call: Invocation) -> int:
    """`zoned session should-resume <id>`. A store that cannot be read is a reason not to."""
    session_id = _id(call)
    done: Json = {"should_resume": False, "reason": "there is no such session"}
    try:
        if not is_empty(call):
            with connected(call, is_reading=True) as backend:
                done = backend.object("session:should_resume", {"session_id": session_id})
    except Exception as error:
        if (known := told(error)) is None:
            raise
        call.screen.warn(str(known))
        done = {"should_resume": False, "reason": known.message}
    is_so = done["should_resume"]
    _answer(call, {"agent_id": session_id, **done}, f"Should resume {session_id}: {is_so}")
    return 0 if is_so else EXIT_NOT


def get(call: Invocation) -> int:
    """`zoned session get <id>`. JSON, with and without --json."""
    session_id = _id(call)
    _refuse_unknown(call, session_id)
    with connected(call, is_reading=True) as backend:
        call.screen.json(backend.object("session:get", {"session_id": session_id}))
    return 0


def list_(call: Invocation) -> int:
    """`zoned session list`."""
    params: Json = {"active_only": "active_only" in call.flags, **_given(call, agent_name="agent")}
    found: list[Json] = []
    if not is_empty(call):
        with connected(call, is_reading=True) as backend:
            found = _rows(backend, params, call.count("limit"))
    if call.is_json:
        call.screen.json(found)
    elif found:
        call.screen.line(f"Found {len(found)} sessions:")
        for row in found:
            _show(call.screen, row)
    else:
        call.screen.line("No sessions found")
    return 0


def finalize(call: Invocation) -> int:
    """`zoned session finalize <id> <outcome>`."""
    session_id, outcome = _id(call), call.arguments[1]
    if outcome not in OUTCOMES:
        told = f"the outcome must be {' or '.join(OUTCOMES)}, not {outcome[:60]!a}"
        raise UsageError(told, call.verb)
    params: Json = {"session_id": session_id, "outcome": outcome, "call_id": _new_call()}
    _refuse_unknown(call, session_id)
    with connected(call, is_reading=False) as backend:
        done = backend.object("session:finalize", {**params, **_given(call, summary="summary")})
    return _answer(call, done, f"Finalized session: {session_id}")


def cleanup(call: Invocation) -> int:
    """`zoned session cleanup`. Done again, it goes on."""
    from srv.cli.replay import operate

    given = call.count("hours")
    hours = 24 if given is None else given
    is_trial = "dry_run" in call.flags
    params: Json = {"hours": hours, "force": "force" in call.flags, "dry_run": is_trial}
    with connected(call, is_reading=is_trial) as backend:
        gone: list[str] = operate(backend, "session:cleanup", params)["sessions"]
    did = "Would clean up" if is_trial else "Cleaned up"
    answer: Json = {"sessions": gone, "hours": hours, "dry_run": is_trial}
    _answer(call, answer, f"{did} {len(gone)} sessions older than {hours}h")
    if is_trial and not call.is_json:
        for session_id in gone:
            call.screen.line(f"  {session_id}")
    return 0


def session_ids(backend: Backend) -> list[str]:
    """Ids for completion: of the latest sessions, those that a shell takes as they are."""
    rows = _rows(backend, {}, CANDIDATES_MAX)
    ids = [str(row["agent_id"]) for row in rows]
    return [each for each in ids if set(each) <= _PLAIN]


def _rows(backend: Backend, params: Json, limit: int | None) -> list[Json]:
    """Sessions, those of latest activity first; each once, also if it moved meanwhile."""
    found: dict[str, Json] = {}
    for row in _pages(backend, dict(params), limit):
        found.setdefault(row["agent_id"], row)
    rows = sorted(found.values(), key=lambda row: row["last_updated"], reverse=True)
    return rows[:limit]


def _pages(backend: Backend, params: Json, limit: int | None) -> Iterator[Json]:
    left = limit
    while left is None or left > 0:
        if left is not None:
            params["limit"] = left
        answer = backend.object("session:list", params)
        yield from answer["sessions"]
        if "next" not in answer:
            return
        params["after"] = answer["next"]
        left = None if left is None else left - len(answer["sessions"])


def _show(screen: Screen, row: Json) -> None:
    """A block of its own."""
    phase = f"{row['phase']} (may be resumed)" if row["resume_ready"] else row["phase"]
    told = {
        "agent": row["agent_name"],
        "purpose": row["purpose"],
        "phase": phase,
        "created": row["created_at"],
        "updated": row["last_updated"],
        "ended": row.get("finalized_at"),
        "summary": row.get("summary"),
        "errors": row["error_count"] and f"{row['error_count']}, last: {row['last_error']}",
    }
    screen.line()
    screen.line(harmless(row["agent_id"]))
    for name, value in told.items():
        if value:
            screen.line(f"  {name:<9}{harmless(str(value))}")


def _answer(call: Invocation, done: Json, line: str) -> int:
    if call.is_json:
        call.screen.json(done)
    else:
        call.screen.line(line)
    return 0


def _refuse_unknown(call: Invocation, session_id: str) -> None:
    """Where there is no store no session is known, and none is made by asking."""
    if is_empty(call):
        raise ZonedError("NOT_FOUND", f"there is no session {session_id[:300]!a}")


def _id(call: Invocation) -> str:
    return _checked(call, call.arguments[0])


def _given(call: Invocation, **flags: str) -> Json:
    """The parameters that were given, each by its flag."""
    found = {name: _option(call, flag) for name, flag in flags.items()}
    return {name: value for name, value in found.items() if value is not None}


def _option(call: Invocation, flag: str) -> str | None:
    value = call.text(flag)
    return None if value is None else _checked(call, value)


def _checked(call: Invocation, value: str) -> str:
    """Bytes that are no text cannot be stored, nor be anybody's id."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{value[:60]!a} is not valid text", call.verb) from None
    return value


def _new_call() -> str:
    """A name for this call: a repeat after a lost answer is recognised by it."""
    return os.urandom(16).hex()
