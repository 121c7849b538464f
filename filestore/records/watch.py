"""Waiting for sessions to change: their records, and their files.

The change feed only wakes. Who waits says what it knows of each session, as a short text (its
state), and is told which are not so any more; so nothing is missed between two calls, nor by a
restart.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from filestore.errors import TooLargeError
from filestore.journal import rows
from filestore.journal.bodies import is_text
from filestore.journal.writing import FEED_PREFIX
from filestore.model import Change
from filestore.reading import ReadTransaction
from filestore.records.info import zone_name
from filestore.sessions.names import OUTPUT, STATE, current_zone
from filestore.store import FileStore

WATCHED_MAX = 1000
GONE = ""
"""The state of a session that is not there."""


class _Found(NamedTuple):
    state: str
    zones: frozenset[str]


class Watchers:
    """Who waits for changes of which sessions. Listens to the feed only while anybody does."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._waiting: set[_Watcher] = set()
        self._is_stopped = False

    async def wait(self, known: Mapping[str, str], *, timeout_s: float) -> dict[str, str]:
        """The states of those sessions that are not as they are known to be; waits for one if
        there is none, and gives none when the time is over.
        """
        if len(known) > WATCHED_MAX:
            raise TooLargeError(f"more than {WATCHED_MAX} sessions", limit=WATCHED_MAX)
        watcher = _Watcher()
        self._store.feed.listen(watcher)
        self._waiting.add(watcher)
        try:
            deadline = asyncio.get_running_loop().time() + timeout_s
            while True:
                watcher.moved.clear()
                changed = await self._changed(known, watcher)
                if changed or self._is_stopped or watcher.is_over:
                    return changed
                async with asyncio.timeout_at(deadline):
                    await watcher.moved.wait()
        except TimeoutError:
            return {}
        finally:
            self._waiting.discard(watcher)
            self._store.feed.unlisten(watcher)

    def stop(self) -> None:
        """Let nobody wait any more."""
        self._is_stopped = True
        for watcher in self._waiting:
            watcher.moved.set()

    async def _changed(self, known: Mapping[str, str], watcher: "_Watcher") -> dict[str, str]:
        found = await self._store.view(lambda tx: _states(tx, list(known)))
        watcher.zones = frozenset().union(*(each.zones for each in found.values()))
        return {name: each.state for name, each in found.items() if each.state != known[name]}


class _Watcher:
    """What the feed calls. Without zones yet, everything may matter."""

    def __init__(self) -> None:
        self.moved = asyncio.Event()
        self.zones: frozenset[str] | None = None
        self.is_over = False

    def on_changes(self, changes: Sequence[Change]) -> None:
        if self.zones is None or any(change.zone in self.zones for change in changes):
            self.moved.set()

    def on_loss(self, _: int) -> None:
        self.moved.set()

    def on_close(self) -> None:
        self.is_over = True
        self.moved.set()


async def _states(tx: ReadTransaction, session_ids: Sequence[str]) -> dict[str, _Found]:
    return {each: await _state(tx, each) for each in session_ids}


async def _state(tx: ReadTransaction, session_id: str) -> _Found:
    zones = {FEED_PREFIX + session_id}
    row = await rows.find(tx.rows, session_id) if is_text(session_id) else None
    if row is None:
        return _Found(GONE, frozenset(zones))
    # The files that it may get later, too.
    zones.add(current_zone(row.definition_id))
    zone = await zone_name(tx, session_id)
    versions = []
    if zone:
        zones.add(zone)
        files = [await tx.stat(zone, name) for name in (STATE, OUTPUT)]
        versions = [file.version if file else 0 for file in files]
    state = ".".join(map(str, (row.id, row.records, *versions)))
    return _Found(state, frozenset(zones))
