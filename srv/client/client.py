"""The client for asyncio: every method of the daemon, typed, over connections that may be lost.

Reads are repeated until their deadline. Writes are repeated when it is certain that they were not
done, and otherwise only with a guard that makes a repeat harmless; the client adds guards where it
can. Writes to one agent are done in the order of their calls, all else side by side.

Every method raises ZonedError, with the daemon's kind; besides that UNAVAILABLE (no daemon within
the deadline) and, for writes, COMMIT_UNKNOWN (it may have been done). `timeout_s` is the deadline
of one call with all its tries; `srv.client.caller.FOREVER` is none.
"""

import os
import random
from collections.abc import Mapping
from types import TracebackType
from typing import Self
from uuid import uuid4

from filestore.sessions.model import (
    AgentInfo,
    Archived,
    ArchiveInfo,
    OutputAppended,
    OutputPage,
    ReplayPage,
    Restored,
    SessionState,
    StateWritten,
)
from srv.client import output, records, subscription
from srv.client.backoff import Backoff
from srv.client.caller import FOREVER, TIMEOUT_S, Caller, Repeat
from srv.client.link import WINDOW, Address
from srv.client.output import OutputWriter, Place
from srv.client.subscription import Subscription
from srv.client.transcripts import TranscriptCalls
from srv.errors import ZonedError


class Client:
    """A daemon, by the path of its unix socket or by URL and token.

    It connects when it is first used; `connect` does so at once. Belongs to one event loop and may
    be used by any number of its tasks. End it with `close`, or `async with`.
    """

    def __init__(
        self,
        path: "str | os.PathLike[str] | None" = None,
        *,
        url: str = "",
        token: str = "",
        timeout_s: float = TIMEOUT_S,
        window: int = WINDOW,
        rng: random.Random | None = None,
    ) -> None:
        if (path is None) == (not url):
            raise ZonedError("INVALID_PARAMS", "give the path of a socket, or a URL")
        address = Address(os.fspath(path) if path is not None else "", url, token)
        self._rng = rng or random.Random()
        self._caller = Caller(address, timeout_s=timeout_s, window=window, rng=self._rng)
        self.transcripts = TranscriptCalls(self._caller)

    @classmethod
    async def connect(
        cls,
        path: "str | os.PathLike[str] | None" = None,
        *,
        url: str = "",
        token: str = "",
        timeout_s: float = TIMEOUT_S,
        window: int = WINDOW,
        rng: random.Random | None = None,
    ) -> Self:
        """A client that is connected. Tries once: raises UNAVAILABLE or UNAUTHORIZED."""
        client = cls(path, url=url, token=token, timeout_s=timeout_s, window=window, rng=rng)
        await client._caller.link()
        return client

    async def close(self) -> None:
        """Hang up. Calls under way end with UNAVAILABLE or COMMIT_UNKNOWN. Safe to call twice."""
        self._caller.hang_up()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # -- the current session

    async def read_session(
        self, definition_id: str, *, timeout_s: float | None = None
    ) -> SessionState:
        """The current session; no snapshot and no session are no errors."""
        params = {"definition_id": definition_id}
        answer = await self._read("agent:session:read", params, timeout_s)
        return records.decode(records.session_state, answer)

    async def write_state(
        self,
        definition_id: str,
        content: str | bytes,
        *,
        if_version: int | None = None,
        session_id: str | None = None,
        timeout_s: float | None = None,
    ) -> StateWritten:
        """Save the snapshot. Durable on return; equal bytes change nothing.

        It is repeated when its answer is lost. With `if_version` that is exact. Without, and where
        others write too, a repeat may replace what another saved in between, or come into the next
        session: give `if_version` there, or at least `session_id`.
        """
        params = {
            "definition_id": definition_id,
            "content": _bytes(content),
            "if_version": if_version,
            "session_id": session_id,
        }
        answer = await self._write("agent:session:write_state", params, "guarded", timeout_s)
        return records.decode(records.state_written, answer)

    async def append_output(
        self,
        definition_id: str,
        *lines: str | bytes,
        at_line: int | None = None,
        session_id: str | None = None,
        timeout_s: float | None = None,
    ) -> OutputAppended:
        """Append lines to the stream. Durable on return, all or nothing.

        Repeated when its answer is lost only with `at_line` and `session_id`; otherwise that is
        COMMIT_UNKNOWN. `output` sees to all of this.
        """
        is_guarded = at_line is not None and bool(session_id)
        params = {
            "definition_id": definition_id,
            "lines": [_bytes(line) for line in lines],
            "at_line": at_line,
            "session_id": session_id,
        }
        repeat: Repeat = "guarded" if is_guarded else "never"
        answer = await self._write("agent:session:append_output", params, repeat, timeout_s)
        return records.decode(records.output_appended, answer)

    def output(
        self,
        definition_id: str,
        *,
        buffer_bytes_max: int = output.BUFFER_BYTES_MAX,
        line_bytes_max: int = output.LINE_BYTES_MAX,
    ) -> OutputWriter:
        """A writer of the agent's stream, with batches, back-pressure and every line exactly once:
        `async with client.output(…) as writer`.
        """

        async def append(place: Place, lines: list[bytes], repeat: Repeat) -> OutputAppended:
            params = {"definition_id": definition_id, "lines": lines, **place._asdict()}
            answer = await self._write("agent:session:append_output", params, repeat, FOREVER)
            return records.decode(records.output_appended, answer)

        return OutputWriter(
            self,
            append,
            definition_id,
            Backoff(self._rng),
            buffer_bytes_max=buffer_bytes_max,
            line_bytes_max=line_bytes_max,
        )

    async def archive(
        self,
        definition_id: str,
        *,
        session_id: str | None = None,
        timeout_s: float | None = None,
    ) -> Archived | None:
        """Finish the current session, or the one given. None if there is nothing to finish.

        Without `session_id` the current one is asked for first, so that a repeat cannot finish the
        one after it. If somebody else finishes it meanwhile, the answer is its archive.
        """
        if session_id is None:
            found = await self.read_session(definition_id, timeout_s=timeout_s)
            session_id = found.session_id
            if not session_id:
                return None
        params = {"definition_id": definition_id, "session_id": session_id}
        answer = await self._write("agent:session:archive", params, "guarded", timeout_s)
        return records.decode(records.archived, answer)

    # -- finished sessions

    async def list_archives(
        self,
        definition_id: str,
        limit: int = 0,
        *,
        before: int | None = None,
        timeout_s: float | None = None,
    ) -> list[ArchiveInfo]:
        """Finished sessions, newest first; `before` is the time of the last one of a page."""
        params = {"definition_id": definition_id, "limit": limit, "before": before}
        answer = await self._read("agent:session:list_archives", params, timeout_s)
        return records.decode_all(records.archive_info, answer)

    async def read_archive(
        self, archive_zoneid: str, *, timeout_s: float | None = None
    ) -> SessionState:
        """A finished session."""
        params = {"archive_zoneid": archive_zoneid}
        answer = await self._read("agent:session:read_archive", params, timeout_s)
        return records.decode(records.session_state, answer)

    async def restore(self, archive_zoneid: str, *, timeout_s: float | None = None) -> Restored:
        """Make a finished session the current one again; what was current is archived first."""
        params = {"archive_zoneid": archive_zoneid}
        answer = await self._write("agent:session:restore", params, "guarded", timeout_s)
        return records.decode(records.restored, answer)

    async def fork(
        self,
        place: str,
        to_definition_id: str,
        *,
        archive_first: bool = False,
        new_session_id: str | None = None,
        timeout_s: float | None = None,
    ) -> str:
        """Copy a session (an archive's zone, or an agent's current one). Returns the new id, which
        is made here if it is not given.
        """
        params = {
            "archive_zoneid" if ":" in place else "definition_id": place,
            "to_definition_id": to_definition_id,
            "archive_first": archive_first,
            "new_session_id": new_session_id or str(uuid4()),
        }
        answer = await self._write("agent:session:fork", params, "guarded", timeout_s)
        return records.decode(records.session_id, answer)

    async def delete_archive(self, archive_zoneid: str, *, timeout_s: float | None = None) -> bool:
        """Delete a finished session. False if there was none; so also if this is a repeat of a call
        whose answer was lost.
        """
        params = {"archive_zoneid": archive_zoneid}
        answer = await self._write("agent:session:delete_archive", params, "guarded", timeout_s)
        return records.decode(records.is_deleted, answer)

    # -- looking

    async def read_output(
        self,
        place: str,
        *,
        from_line: int | None = None,
        tail: int | None = None,
        limit: int | None = None,
        timeout_s: float | None = None,
    ) -> OutputPage:
        """A page of a stream (of an agent, or of an archive by its zone): from a line on, or the
        last `tail` lines.
        """
        params = {
            "archive_zoneid" if ":" in place else "definition_id": place,
            "from_line": from_line,
            "tail": tail,
            "limit": limit,
        }
        answer = await self._read("agent:session:read_output", params, timeout_s)
        return records.decode(records.output_page, answer)

    async def replay(
        self,
        place: str,
        *,
        provider: str | None = None,
        after: int = 0,
        limit: int | None = None,
        timeout_s: float | None = None,
    ) -> ReplayPage:
        """What the stream of a session shows (of an agent, or of an archive by its zone), folded
        whole by the daemon; a page of nodes. Go on with `after=page.next` until that is None.
        """
        params = {
            "archive_zoneid" if ":" in place else "definition_id": place,
            "provider": provider,
            "after": after,
            "limit": limit,
        }
        answer = await self._read("agent:session:replay", params, timeout_s)
        return records.decode(records.replay_page, answer)

    async def list_agents(
        self, limit: int = 0, *, after: str = "", timeout_s: float | None = None
    ) -> list[AgentInfo]:
        """Agents by definition id; `after` is the last one of a page."""
        answer = await self._read("agent:list", {"limit": limit, "after": after}, timeout_s)
        return records.decode_all(records.agent_info, answer)

    async def info(self, *, timeout_s: float | None = None) -> dict[str, object]:
        """What the daemon is: version, limits, counts."""
        return records.decode(records.whole, await self._read("srv:info", {}, timeout_s))

    async def health(self, *, timeout_s: float | None = None) -> dict[str, object]:
        """`ok`, and if not, `trouble`."""
        return records.decode(records.whole, await self._read("srv:health", {}, timeout_s))

    async def subscribe(
        self,
        definition_id: str,
        *,
        since: int | None = None,
        events_max: int = subscription.EVENTS_MAX,
        timeout_s: float | None = None,
    ) -> Subscription:
        """Follow an agent's changes after position `since`, or from this moment on: whatever
        happens after this has returned is told.
        """
        found = Subscription(
            self._caller, definition_id, Backoff(self._rng), since=since, events_max=events_max
        )
        try:
            await self._caller.within("agent:session:subscribe", found.begin(), timeout_s)
        except BaseException:
            found.close()
            raise
        return found

    # -- parts

    async def _read(
        self, method: str, params: Mapping[str, object], timeout_s: float | None
    ) -> object:
        return await self._caller.call(method, params, repeat="read", timeout_s=timeout_s)

    async def _write(
        self, method: str, params: Mapping[str, object], repeat: Repeat, timeout_s: float | None
    ) -> object:
        return await self._caller.call(
            method, params, repeat=repeat, agents=_agents(params), timeout_s=timeout_s
        )


def _bytes(content: str | bytes) -> bytes:
    if isinstance(content, bytes):
        return content
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ZonedError("INVALID_PARAMS", f"that is not valid text: {error.reason}") from error


def _agents(params: Mapping[str, object]) -> set[str]:
    """The agents that a write changes or looks at: an archive's zone is agent:<id>:archive:<ms>."""
    names = ("definition_id", "to_definition_id", "archive_zoneid")
    places = [str(params[name]) for name in names if name in params]
    return {place.split(":")[1] if ":" in place else place for place in places}
