"""Backups that the daemon makes by itself: one every so often, the last few kept.

Their names tell when they were made, and always rise, also when the clock does not: so the newest
is the last name, and what is removed is only ever what there are too many of. A backup that fails
is logged and tried again; the daemon goes on.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from filestore import FileStore, StoreError
from filestore.backup import BACKUPS_NAME, back_up_to_file
from filestore.check import Progress
from filestore.clock import Clock, system_clock
from filestore.files import make_private_folder
from srv.config import Config
from srv.errors import ZonedError

RETRY_S_MAX = 600
_NAME = re.compile(r"zoned-[0-9]{8}T[0-9]{6}Z\.db")
_TIME = "zoned-%Y%m%dT%H%M%SZ.db"

log = logging.getLogger("zoned.backup")

Sleep = Callable[[float], Awaitable[None]]


class Schedule:
    """The backups of one folder."""

    def __init__(self, store: FileStore, config: Config, progress: Progress) -> None:
        self._store = store
        self._every_s = config.backup_every
        self._keep = config.backup_keep
        self._folder = Path(config.backup_dir or config.data_dir / BACKUPS_NAME)
        self._progress = progress

    async def run(self, *, clock: Clock = system_clock, sleep: Sleep = asyncio.sleep) -> None:
        """Make them, until cancelled. Returns at once if none are wanted."""
        while self._every_s:
            try:
                await sleep(self.due_in_s(clock() // 1000))
                await self._make(clock() // 1000)
            except (StoreError, ZonedError, OSError, ValueError) as error:
                log.error("no backup was made: %s", error)
                await sleep(min(self._every_s, RETRY_S_MAX))

    def due_in_s(self, now_s: int) -> int:
        """When the next one is due. A clock that jumps delays it by one turn at the most."""
        newest = self._newest_s()
        return 0 if newest is None else min(max(newest + self._every_s - now_s, 0), self._every_s)

    def made(self) -> list[Path]:
        """The backups that are there, oldest first. What has another name is not ours."""
        if not self._folder.is_dir():
            return []
        return sorted(each for each in self._folder.iterdir() if _time_s(each.name) is not None)

    def _newest_s(self) -> int | None:
        found = self.made()
        return _time_s(found[-1].name) if found else None

    async def _make(self, now_s: int) -> None:
        if not self._folder.is_dir():
            # One that is there may be for others, too: its mode is not ours to change.
            make_private_folder(self._folder)
        newest = self._newest_s()
        at_s = now_s if newest is None else max(now_s, newest + 1)
        file = self._folder / datetime.fromtimestamp(at_s, UTC).strftime(_TIME)
        size = await back_up_to_file(self._store, file, progress=self._progress)
        log.info("backup made", extra={"file": str(file), "bytes": size})
        for old in self.made()[: -self._keep]:
            old.unlink()
            log.info("old backup removed", extra={"file": str(old)})


def _time_s(name: str) -> int | None:
    """When the backup of that name was made; None if it is not a name of ours."""
    if not _NAME.fullmatch(name):
        return None
    try:
        return int(datetime.strptime(name, _TIME).replace(tzinfo=UTC).timestamp())
    except ValueError:  # no such day
        return None
