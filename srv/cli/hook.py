"""`zoned hook …`: what programs that run agents call, with a JSON object on stdin, for another on
stdout. Law: docs/specs/0011-commands-and-hooks.md.

A hook never breaks its caller: whatever becomes of the store, it answers in time and exits with 0,
with a reason. Only of what is no JSON nothing can be said.
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from srv.cli.backend import Json, connected, is_empty
from srv.cli.options import Invocation
from srv.cli.screen import say_raw, standard_input
from srv.errors import ZonedError, told

DAEMON_S = 2.0
"""How long a daemon has to answer."""
STDIN_BYTES_MAX = 16 << 20
NUMBER_MAX = 1 << 62
OUTPUT_CHARS_KEPT = 4000
"""Of what an agent has said last."""


class InputError(Exception):
    """A field that cannot be taken."""


def pre_delegate(call: Invocation) -> int:
    """`zoned hook pre-delegate`. Changes nothing."""
    return _answered(call, _pre_delegate, {"should_resume": False})


def subagent_stop(call: Invocation) -> int:
    """`zoned hook subagent-stop`."""
    return _answered(
        call, _subagent_stop, {"success": False, "status": "error", "finalized": False}
    )


def _answered(call: Invocation, hook: "Hook", answer: Json) -> int:
    """Read and answer: with what the hook has made of `answer` until it failed, if it did."""
    if os.isatty(0):
        call.screen.warn("reading a JSON object from the terminal; Ctrl-D ends it")
    data = standard_input().read(STDIN_BYTES_MAX + 1)
    given: object = {}
    try:
        if len(data) > STDIN_BYTES_MAX:
            raise InputError(f"stdin has more than {STDIN_BYTES_MAX >> 20} MiB")
        given = _parsed(data)
        if not isinstance(given, dict):
            raise InputError("stdin must hold a JSON object")
        hook(call, given, answer)
    except _NoJsonError:
        say_raw('{"reason": "invalid_json"}\n')
        return 1
    except Exception as error:  # the rim: the caller goes on, whatever it is
        is_of_store = told(error) is not None or isinstance(error, OSError)
        answer["reason"] = "store_unavailable" if is_of_store else "error"
        call.screen.warn(str(error) or type(error).__name__)
    if "should_resume" in answer:
        answer["original_context"] = given
    # Plain ASCII, so that whatever was given can be given back.
    call.screen.line(json.dumps(answer))
    return 0


Hook = Callable[[Invocation, Json, Json], None]
"""Is handed what was given, and fills in what there is to say."""


class _NoJsonError(Exception):
    """Stdin is no JSON."""


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise _NoJsonError from error


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON")


def _pre_delegate(call: Invocation, given: Json, answer: Json) -> None:
    _check(given, agent_name=str, agent_id=str, task_id=str, task_description=str, metadata=dict)
    found = _find(call, _wanted(given), for_resume=True)
    if not found:
        answer["reason"] = "no_existing_session"
        return
    session = found["session"]
    answer["should_resume"] = found["should_resume"]
    answer["reason"] = "session_not_resumable"
    answer["agent_id"] = session["agent_id"]
    if found["should_resume"]:
        answer["reason"] = "session_resumable"
        answer["resume_metadata"] = {
            "previous_phase": session["phase"],
            "created_at": session["created_at"],
            "last_updated": session["last_updated"],
            "history": session["history"],
            "session_metadata": session["metadata"],
        }


def _subagent_stop(call: Invocation, given: Json, answer: Json) -> None:
    _check(given, agent_id=str, agent_name=str, task_id=str, exit_code=int)
    _check(given, duration_ms=(int, float))
    wanted = _wanted(given)
    # The exit code alone decides: what an agent says of failures may be about anything.
    answer["status"] = "failed" if given.get("exit_code") else "completed"
    found = _find(call, wanted, for_resume=False)
    if not found:
        answer |= {"success": True, "reason": "unknown_session"}
        return
    session_id = answer["session_id"] = found["session"]["agent_id"]
    params: Json = {
        "session_id": session_id,
        "outcome": answer["status"],
        "note": _note(given),
        "call_id": os.urandom(16).hex(),
    }
    try:
        with connected(call, is_reading=False, daemon_s=DAEMON_S) as backend:
            backend.object("session:finalize", params)
    except ZonedError as error:
        if error.kind != "CONFLICT":
            raise
        # It has ended before, by whomever.
        answer |= {"success": True, "reason": "already_final"}
    else:
        answer |= {"success": True, "finalized": True}


def _wanted(given: Json) -> Json:
    """What tells which session is meant."""
    named = {"session_id": "agent_id", "agent_name": "agent_name", "task_id": "task_id"}
    found: Json = {name: given[key] for name, key in named.items() if given.get(key)}
    for name, value in found.items():
        if not _is_text(value):
            raise InputError(f"{named[name]} is not valid text")
    return found


def _find(call: Invocation, wanted: Json, *, for_resume: bool) -> Json:
    """The session that is meant, if there is one."""
    if not wanted or is_empty(call):
        return {}
    with connected(call, is_reading=True, daemon_s=DAEMON_S) as backend:
        return backend.object("session:find", {**wanted, "for_resume": for_resume})


def _note(given: Json) -> Json:
    """The figures, and the end of what was said."""
    note: Json = {"hook": "subagent-stop"}
    for name in ("agent_name", "task_id", "exit_code", "duration_ms"):
        if given.get(name) is not None:
            note[name] = given[name]
    output = given.get("output")
    if output is not None:
        text = output if isinstance(output, str) else json.dumps(output)
        note["output_chars"] = len(text)
        # Halves of surrogate pairs cannot be stored.
        kept = text[-OUTPUT_CHARS_KEPT:]
        note["output"] = kept.encode(errors="backslashreplace").decode()
    return note


def _check(given: Mapping[str, Any], **kinds: type | tuple[type, ...]) -> None:
    """Refuse fields of other types. null is as good as nothing given."""
    for name, kind in kinds.items():
        value = given.get(name)
        if value is None:
            continue
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InputError(f"{name} must be {_NAMES[kind]}")
        if isinstance(value, int | float) and not abs(value) < NUMBER_MAX:
            raise InputError(f"{name} is out of bounds")


_NAMES: Mapping[type | tuple[type, ...], str] = {
    str: "a text", int: "a whole number", dict: "an object", (int, float): "a number",
}  # fmt: skip


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
