"""Backups before a migration changes or moves what users have: one for each migration and version,
in `<data_dir>/backups`, whole or not there, reused by retries and removed after 30 days."""

import asyncio
import shutil
from pathlib import Path

from filestore.backup import back_up
from migrations.run import Run, log

FOLDER_NAME = "backups"
PREFIX = "before-"
KEPT_MS = 30 * 24 * 3600 * 1000


async def ensure_backup(run: Run, name: str, version: int) -> None:
    """Make the backup of a migration, unless there is one. Raises if it cannot be made."""
    if run.is_trial:
        return
    folder = backup_folder(run.data_dir, name, version)
    if folder.exists():
        return
    run.hit("backup.before")
    await back_up(run.store, folder)
    run.hit("backup.after")
    log.info("backup before %s: %s", name, folder)


def backup_folder(data_dir: Path, name: str, version: int) -> Path:
    """Where the backup of a migration lies."""
    return data_dir / FOLDER_NAME / f"{PREFIX}{name}.{version}"


async def prune_backups(run: Run) -> None:
    """Remove backups that are too old, and what a crash has left of unfinished ones.

    Only those of migrations: what else lies there is not ours to remove.
    """
    if run.is_trial:
        return
    try:
        for found in sorted((run.data_dir / FOLDER_NAME).glob(PREFIX + "*")):
            age_ms = run.clock() - found.stat().st_mtime_ns // 1_000_000
            if age_ms > KEPT_MS or found.name.endswith(".new"):
                await asyncio.to_thread(shutil.rmtree, found)
                log.info("backup removed: %s", found)
    except OSError as error:
        # It takes up space, and that is all.
        log.warning("old backups could not be removed: %s", error)
