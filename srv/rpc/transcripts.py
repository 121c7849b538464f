"""The methods of transcripts: for whoever runs an agent, over TCP too; and the export."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from filestore.times import iso
from srv.rpc.methods import Caller, Json, Method
from srv.rpc.params import Field, Spec, an_object, text

if TYPE_CHECKING:
    # Small commands must not wait for their import.
    from filestore.journal.model import SessionInfo
    from filestore.records.transcripts import Loaded, Transcripts
    from filestore.transcript import Row, Said

_SESSION: Mapping[str, Field] = {"session_id": text}


def methods() -> Mapping[str, Method]:
    """The methods by name."""
    session = Spec(_SESSION, ("session_id",))
    start = {**_SESSION, "transcript": an_object, "call_id": text}
    message = {**_SESSION, "message": an_object}
    end = {**_SESSION, "summary": text, "call_id": text}
    return {
        "transcript:start": Method(
            Spec(start, ("session_id", "transcript")), _start, "write", started_shape
        ),
        "transcript:append": Method(Spec(message, ("session_id", "message")), _append, "write"),
        "transcript:load": Method(session, _load, shape=loaded_shape),
        "transcript:resume": Method(session, _resume, shape=resumed_shape),
        "transcript:end": Method(Spec(end, ("session_id",)), _end, "write", started_shape),
        "session:export": Method(session, _export, is_operators=True),
    }


def _of(caller: Caller) -> "Transcripts":
    return caller.service.transcripts


async def _start(
    caller: Caller, session_id: str, transcript: dict[str, Any], call_id: str | None = None
) -> "SessionInfo":
    return await _of(caller).start(session_id, transcript, call_id=call_id)


async def _append(caller: Caller, session_id: str, message: dict[str, Any]) -> "Row":
    return await _of(caller).append(session_id, message)


async def _load(caller: Caller, session_id: str) -> "Loaded":
    return await _of(caller).load(session_id)


async def _resume(caller: Caller, session_id: str) -> "list[Said]":
    return await _of(caller).resume(session_id)


async def _end(
    caller: Caller, session_id: str, summary: str | None = None, call_id: str | None = None
) -> "SessionInfo":
    await _of(caller).load(session_id)
    return await caller.service.records.finish(
        session_id, "completed", summary=summary, call_id=call_id
    )


async def _export(caller: Caller, session_id: str) -> Json:
    name, document = await _of(caller).export(session_id)
    return {"session_id": session_id, "workflow_id": name, "content": document.decode()}


def started_shape(session: "SessionInfo") -> dict[str, object]:
    """The session of a transcript, in short."""
    return {
        "sessionId": session.id,
        "status": session.status,
        "createdAt": iso(session.created_ms),
        "updatedAt": iso(session.updated_ms),
    }


def loaded_shape(loaded: "Loaded") -> dict[str, object]:
    """A transcript: its record, and its rows in order."""
    record = {**started_shape(loaded.session), **(loaded.start or {})}
    return {"record": record, "messages": loaded.rows}


def resumed_shape(said: "list[Said]") -> dict[str, object]:
    """What is said to an agent that goes on."""
    messages = [
        {
            "role": each.role,
            "text": each.text,
            "sequenceNumber": each.sequence_number,
            "turn": each.turn,
        }
        for each in said
    ]
    return {"turns": said[-1].turn if said else 0, "messages": messages}
