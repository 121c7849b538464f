"""What the methods work on: the store, its sessions, and what the daemon tells of itself.

Knows no connection and no transport, so a command that opens the data folder itself calls the same
methods.
"""

import asyncio
import os
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from filestore import FileStore, Limits
from filestore.engine.schema import FORMAT_VERSION
from filestore.sessions import Sessions
from srv.config import Config, limits
from srv.errors import ZonedError
from srv.metrics import Metrics

if TYPE_CHECKING:
    from filestore.records import Records
    from filestore.records.observations import Observations
    from filestore.records.transcripts import Transcripts
    from filestore.records.watch import Watchers
    from srv.rpc.budget import Budget

PROTOCOL_VERSION = 1


def store_limits(config: Config) -> Limits:
    """The settings that are the store's own."""
    return Limits(queue_bytes_max=config.queue_bytes_max, ballast_bytes=config.ballast_bytes)


class Service:
    """One open store behind the methods."""

    def __init__(
        self,
        store: FileStore,
        sessions: Sessions,
        config: Config,
        *,
        url: str = "",
        drops: Callable[[], int] = lambda: 0,
        progress: Callable[[str, int, int], None] = lambda *_: None,
    ) -> None:
        self.store = store
        self.sessions = sessions
        self.config = config
        self.metrics = Metrics()
        self.drops = drops
        """How many log lines were lost."""
        self._started = time.monotonic()
        self.progress = progress
        """Told of long work: its name, how much is done, how much there is."""
        self.is_stopping = False
        self._url = url
        self.on_token: Callable[[str], None] = lambda _: None
        """Told of each new token."""
        self._token_lock = asyncio.Lock()

    async def rotate_token(self) -> Path:
        """Make a new token, durable on return, and let nobody in by the old one. Where it is."""
        from srv.token import TOKEN_NAME, make_token  # late: small commands do without

        data_dir = self.config.data_dir
        async with self._token_lock:
            self.on_token(await asyncio.to_thread(make_token, data_dir))
        return data_dir / TOKEN_NAME

    @cached_property
    def budget(self) -> "Budget":
        """The bytes of large requests that may be held."""
        from srv.rpc.budget import Budget  # late: small commands do without

        return Budget(self.config.held_bytes_max)

    @cached_property
    def records(self) -> "Records":
        """The sessions of the store by their records."""
        from filestore.records import Records  # late: small commands do without

        return Records(self.store, turns_max=self.config.turns_max)

    @cached_property
    def transcripts(self) -> "Transcripts":
        """The transcripts of the store."""
        from filestore.records.transcripts import Transcripts  # late, as above

        return Transcripts(self.store, turns_max=self.config.turns_max)

    @cached_property
    def observations(self) -> "Observations":
        """What agents said of the sessions of the store."""
        from filestore.records.observations import Observations  # late, as above

        return Observations(self.store)

    @cached_property
    def watchers(self) -> "Watchers":
        """Who waits for sessions to change."""
        from filestore.records.watch import Watchers  # late, as above

        return Watchers(self.store)

    @cached_property
    def _constant(self) -> dict[str, object]:
        from importlib.metadata import version  # late: it takes longer than a small command

        return {
            "version": version("zoned"),
            "protocol": PROTOCOL_VERSION,
            "data_format": FORMAT_VERSION,
            "pid": os.getpid(),
            "url": self._url,
            "data_dir": str(self.config.data_dir),
            "sync": self.config.sync,
            "limits": limits(self.config),
        }

    def info(self) -> dict[str, object]:
        """What this daemon is, and how it does."""
        metrics = self.metrics
        return {
            **self._constant,
            "uptime_ms": int((time.monotonic() - self._started) * 1000),
            "counts": {
                "connections": metrics.connections,
                "subscriptions": metrics.subscriptions,
                "requests": metrics.requests,
            },
        }

    def tell(self, name: str, done: int, total: int) -> None:
        """Report progress of work that can be left at any point; ends it when the daemon stops."""
        if self.is_stopping:
            raise ZonedError("UNAVAILABLE", "the daemon is stopping")
        self.progress(name, done, total)

    def health(self) -> dict[str, object]:
        """Whether writes are taken, and if not, why; a warning, if that may not last."""
        trouble = self.store.trouble
        if trouble is not None:
            return {"ok": False, "trouble": trouble}
        warning = self.low_space()
        return {"ok": True} if warning is None else {"ok": True, "warning": warning}

    def low_space(self) -> str | None:
        """A warning while there is little space left: less than the setting, and than a tenth."""
        found = os.statvfs(self.store.data_dir)
        free = found.f_bavail * found.f_frsize
        if free >= self.config.low_space_bytes or found.f_bavail * 10 >= found.f_blocks:
            return None
        return f"only {free >> 20} MiB are free on the disk"
