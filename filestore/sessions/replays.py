"""What replay does for sessions: show a stream, rebuild a snapshot, recover a store.

The face of replaying.py, rebuilding.py and recovery.py; `Sessions.replays` is the one of a store.
"""

from collections.abc import Callable

from filestore.clock import Clock
from filestore.sessions import recovery
from filestore.sessions.covering import Covering
from filestore.sessions.model import Rebuilt, RecoveryPage, ReplayPage
from filestore.sessions.names import zone_of
from filestore.sessions.rebuilding import STATE_BYTES_MAX, Rebuilder
from filestore.sessions.replaying import Folds
from filestore.store import FileStore


class Replays:
    """Replay on the sessions of one store, on its event loop.

    `new_id` makes ids of sessions. `lines_at_start` tells, for the id of a zone and its lines now,
    how many were there when the process started.
    """

    def __init__(
        self,
        store: FileStore,
        new_id: Callable[[], str],
        clock: Clock,
        lines_at_start: Callable[[int, int], int],
    ) -> None:
        self._store = store
        self._new_id = new_id
        self._lines_at_start = lines_at_start
        self._folds = Folds(store)
        self._rebuilder = Rebuilder(store, self._folds, clock)

    def stop(self) -> None:
        """End what is under way, by ClosedError, and take nothing more. Nothing stays half done."""
        self._folds.stop()

    async def read(
        self, place: str, provider: str | None = None, *, after: int = 0, limit: int = 0
    ) -> ReplayPage:
        """What the stream of a session shows, folded whole; a page of nodes from `after` on.

        BusyError when several are being folded already, or when the session is archived meanwhile.
        """
        return await self._folds.page(place, provider, after=after, limit=limit)

    async def write(
        self,
        place: str,
        provider: str | None = None,
        *,
        force: bool = False,
        state_bytes_max: int = STATE_BYTES_MAX,
    ) -> Rebuilt:
        """Store the snapshot that the stream gives, if the present one is missing, unparsable,
        damaged or behind, or if forced. What it replaces is kept as an archive. Durable on return.
        """
        return await self._rebuilder.rebuild(
            zone_of(place),
            self._new_id(),
            provider,
            is_forced=force,
            state_bytes_max=state_bytes_max,
        )

    async def recover(
        self,
        *,
        is_dry_run: bool,
        after: int = 0,
        limit: int = 0,
        state_bytes_max: int = STATE_BYTES_MAX,
    ) -> RecoveryPage:
        """Look at a page of all sessions of the store, and rebuild what needs it. A session that is
        behind only by lines that came since the start does not: its pane is about to save.
        """

        def left_behind(found: Covering) -> int:
            at_start = self._lines_at_start(found.row.zone_id, found.lines)
            return max(0, at_start - found.is_torn - (found.mark or 0))

        return await recovery.recover(
            self._store,
            self._rebuilder,
            self._new_id,
            left_behind,
            self._folds.refuse_if_stopped,
            is_dry_run=is_dry_run,
            after=after,
            limit=limit,
            state_bytes_max=state_bytes_max,
        )
