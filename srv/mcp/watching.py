"""Who wants to hear when which session changes: one task asks for all of them.

It asks again and again whether they still are as they were, and the answer comes as soon as one is
not. So nothing is missed while a daemon restarts, and nobody is asked while nobody wants to hear.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from srv.errors import ZonedError
from srv.mcp.tools import Calls

WATCHED_MAX = 1000
AGAIN_S = 0.2
"""Between two answers: a session that changes all the time is told of five times a second."""
UNKNOWN = "?"

log = logging.getLogger("zoned.mcp")


class Watch:
    """The sessions that are watched. `tell` is called with each that has changed."""

    def __init__(self, calls: Calls, tell: Callable[[str], Awaitable[None]]) -> None:
        self._calls = calls
        self._tell = tell
        self._states: dict[str, str] = {}
        self._wanted: dict[str, int] = {}
        self._any = asyncio.Event()

    async def add(self, session_id: str) -> None:
        """Watch a session from now on; one that is not there yet, too. As often as it is added, it
        must be dropped.
        """
        if session_id not in self._wanted and len(self._wanted) >= WATCHED_MAX:
            raise ZonedError("LIMIT_REACHED", f"{WATCHED_MAX} sessions are watched already")
        self._wanted[session_id] = self._wanted.get(session_id, 0) + 1
        try:
            if session_id not in self._states:
                found = await self._calls.call(
                    "session:wait", {"known": {session_id: UNKNOWN}, "timeout_ms": 0}
                )
                self._states.setdefault(session_id, found[session_id])
        except BaseException:
            self.drop(session_id)
            raise
        self._any.set()

    def drop(self, session_id: str) -> None:
        """Watch it no more, if nobody else does."""
        left = self._wanted.pop(session_id) - 1
        if left:
            self._wanted[session_id] = left
        else:
            self._states.pop(session_id, None)

    async def run(self) -> None:
        """Watch, until cancelled."""
        while True:
            if not self._states:
                self._any.clear()
                await self._any.wait()
            try:
                changed = await self._calls.changed(dict(self._states))
            except ZonedError as error:
                log.warning("cannot hear of changes: %s", error)
                await asyncio.sleep(1)
                continue
            for session_id, state in changed.items():
                if session_id in self._states:
                    self._states[session_id] = state
                    await self._tell(session_id)
            await asyncio.sleep(AGAIN_S)
