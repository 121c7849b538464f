"""One run of the migrations: the store, the folders, and what all steps need of them."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from filestore import BusyError, FileStore, Transaction
from filestore.clock import Clock, system_clock
from filestore.store import T, Unit
from migrations.stats import Failure, Stats

log = logging.getLogger("zoned.migrations")

BUSY_TRIES_MAX = 200
BUSY_WAIT_S = 0.05

Progress = Callable[[str, int, int], None]
"""Called with the name of a migration, how many items are done, and how many there are."""
Failpoint = Callable[[str], None]


def nothing_to_tell(_: str, __: int, ___: int) -> None:
    """Nobody wants to know how far it is."""


def nothing_to_prepare() -> None:
    """Nothing depends on what is there."""


def nothing_happens(_: str) -> None:
    """Nobody wants to be killed here."""


@dataclass(frozen=True, slots=True)
class Run:
    """`data_dir`: where markers, backups and scratch files go. `source_dir`: where the old
    databases are looked for; the same, but for a trial on a copy."""

    store: FileStore
    data_dir: Path
    source_dir: Path
    progress: Progress = nothing_to_tell
    hit: Failpoint = nothing_happens
    clock: Clock = field(default=system_clock)
    before_change: Callable[[], None] = nothing_to_prepare
    """Called before anything is brought in that a later migration may have to see."""
    is_trial: bool = False
    """True: on a copy that is thrown away, so there is nothing to back up."""

    async def transact(self, unit: Unit[Transaction, T], cost_bytes: int = 0) -> T:
        """Run a unit on the store, waiting for our turn while others keep it busy."""
        for _ in range(BUSY_TRIES_MAX):
            try:
                return await self.store.transact(unit, cost_bytes=cost_bytes)
            except BusyError:
                await asyncio.sleep(BUSY_WAIT_S)
        return await self.store.transact(unit, cost_bytes=cost_bytes)


def fail(stats: Stats, failure: Failure) -> None:
    """Count, name and log an item that failed."""
    stats.fail(failure)
    log.warning("not migrated: %s", failure)
