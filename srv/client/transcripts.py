"""Transcripts, for Python programs that run an agent: `client.transcripts`.

Every call that changes something carries a guard of its own, so it is repeated until its answer is
known: a message without an id gets one here, a start and an end the name of their call.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from srv.client import records
from srv.client.caller import Caller


class TranscriptCalls:
    """The calls on transcripts of one client. Messages are documents as in spec 0009."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def start(self, session_id: str, transcript: Mapping[str, Any]) -> dict[str, object]:
        """Start a transcript, and the session if there is none. CONFLICT if it was started."""
        params = {"session_id": session_id, "transcript": transcript, "call_id": str(uuid4())}
        return await self._write("transcript:start", params)

    async def append(self, session_id: str, message: Mapping[str, Any]) -> dict[str, object]:
        """Append a message, durable on return; as it was stored. TURN_LIMIT past the cap."""
        whole = {"id": str(uuid4()), **message}
        return await self._write("transcript:append", {"session_id": session_id, "message": whole})

    async def load(self, session_id: str) -> dict[str, object]:
        """`record` and all `messages`, as of one moment."""
        return await self._read("transcript:load", session_id)

    async def resume(self, session_id: str) -> dict[str, object]:
        """What was said in completed turns, for an agent that goes on."""
        return await self._read("transcript:resume", session_id)

    async def end(self, session_id: str, *, summary: str | None = None) -> dict[str, object]:
        """End the session as completed. CONFLICT if it has ended."""
        params = {"session_id": session_id, "summary": summary, "call_id": str(uuid4())}
        return await self._write("transcript:end", params)

    async def _read(self, method: str, session_id: str) -> dict[str, object]:
        answer = await self._caller.call(method, {"session_id": session_id}, repeat="read")
        return records.decode(records.whole, answer)

    async def _write(self, method: str, params: Mapping[str, object]) -> dict[str, object]:
        # As if the session were an agent: its calls stay in order.
        agents = (str(params["session_id"]),)
        answer = await self._caller.call(method, params, repeat="guarded", agents=agents)
        return records.decode(records.whole, answer)
