"""The end of a connection that is closed in peace: after the goodbye the peer is heard out.

Closing on bytes unread resets a TCP connection, and what is on its way to the peer is lost: answers
to calls that were done, and the goodbye itself. So what still comes is read and dropped until the
peer is silent. One per connection, made and called by it, on its event loop.
"""

import asyncio

LINGER_S = 0.025
"""Whoever sends nothing for so long is silent."""
LINGER_S_MAX = 2.0
"""Whoever is never silent is closed on all the same."""


class Goodbye:
    """Closes a transport when its peer is silent."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._is_silent = False

    def heard(self) -> None:
        """Something has come."""
        self._is_silent = False

    def said(self, *, was_paused: bool) -> None:
        """The goodbye is written: read on, close soon. `was_paused`: reading stands still."""
        if was_paused and not self._transport.is_closing():
            self._transport.resume_reading()
        # Before the first look, too, the loop must have had the time to read what was there.
        self._look_later(self._loop.time() + LINGER_S_MAX)

    def _look_later(self, until: float) -> None:
        self._loop.call_later(LINGER_S, self._look, until)

    def _look(self, until: float) -> None:
        if self._is_silent or self._loop.time() > until:
            self._transport.close()
        else:
            self._is_silent = True
            self._look_later(until)
