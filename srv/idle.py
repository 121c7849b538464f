"""What the daemon does with sessions by itself: those whose answer it was killed in are told at the
start, and those with a repo in which nothing happens any more are ended.

What fails is logged and, but for the start, tried again; the daemon goes on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from filestore.errors import StoreError

if TYPE_CHECKING:
    from filestore.records import Records

LOOK_S_MAX = 30.0
LOOKS = 4
"""In each idle time it is looked so often, so that none lasts much longer than it should."""

log = logging.getLogger("zoned.sessions")

Sleep = Callable[[float], Awaitable[None]]


async def tell_interrupted(records: "Records") -> None:
    """Before anybody is served: tell sessions whose answer will not come any more."""
    try:
        count = await records.recover()
    except StoreError as error:
        log.error("sessions were not told that their answer was interrupted: %s", error)
        return
    if count:
        log.warning("answers were interrupted by the last end", extra={"sessions": count})


async def end_idle(records: "Records", idle_s: int, *, sleep: Sleep = asyncio.sleep) -> None:
    """End idle sessions, until cancelled. Returns at once if none are to be ended."""
    while idle_s:
        await sleep(min(idle_s / LOOKS, LOOK_S_MAX))
        try:
            ended = await records.sweep(idle_s * 1000)
        except StoreError as error:
            log.error("idle sessions were not ended: %s", error)
            continue
        for session_id in ended:
            log.info("ended an idle session", extra={"session": session_id})
