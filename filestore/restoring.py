"""Putting a backup in the place of a store. The backup is copied and checked before anything is
touched; what is there now is kept aside, whole, before it is taken away.

The steps of `Restoring.finish`, and what a crash between any two leaves, are the table in
docs/specs/0006-backup-and-repair.md. What makes them safe: while the database is missing, the
finished copy stands beside its place as `zoned.db.restored`, and with that no start makes an empty
store.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from filestore.backup import BACKUPS_NAME, check_copy, nobody
from filestore.check import Progress
from filestore.clock import Clock, system_clock
from filestore.engine.backup import recover_database
from filestore.engine.database import RESTORED_SUFFIX, check_header, wal_bytes
from filestore.engine.writer import Failpoint
from filestore.errors import BusyError, NotFoundError
from filestore.files import (
    FILE_MODE,
    FOLDER_MODE,
    LOCK_NAME,
    FolderLock,
    make_private_folder,
    refuse_network_file_system,
    sync_folder,
    translated_os_errors,
)
from filestore.store import DATABASE_NAME

SCRATCH_NAME = "zoned.restore"
ASIDE_PREFIX = "replaced-"
COPY_BYTES = 4 << 20


class Restoring:
    """A backup that was found good, ready to take its place. Belongs to who holds the lock."""

    def __init__(self, data_dir: Path, made: Path, clock: Clock, failpoint: Failpoint) -> None:
        self._data_dir = data_dir
        self._made = made
        self._clock = clock
        self._hit = failpoint

    @property
    def replaces(self) -> int:
        """How many bytes of a database are there now; 0: there is none."""
        path = self._data_dir / DATABASE_NAME
        return path.lstat().st_size if os.path.lexists(path) else 0

    def finish(self) -> Path | None:
        """Put it in place. Returns where what was there before is kept; None if nothing was."""
        path = self._data_dir / DATABASE_NAME
        restored = _beside(path, RESTORED_SUFFIX)
        assert not wal_bytes(self._made), "a checked copy is one file"
        with translated_os_errors("restore"):
            os.rename(self._made, restored)
            sync_folder(self._data_dir)
            self._hit("restore.ready")
            aside = self._keep_aside(path)
            self._hit("restore.kept")
            for suffix in ("", "-wal", "-shm", "-journal"):
                _beside(path, suffix).unlink(missing_ok=True)
                self._hit("restore.removed")
                # Each by itself: without its log, the old database would open, short of its end.
                sync_folder(self._data_dir)
            os.rename(restored, path)
            self._hit("restore.placed")
            sync_folder(self._data_dir)
        return aside

    def _keep_aside(self, path: Path) -> Path | None:
        """A second name for the database and for what belongs to it: no byte is copied or moved."""
        kept = [
            each
            for suffix in ("", "-wal", "-journal")
            if os.path.lexists(each := _beside(path, suffix))
        ]
        if not kept:
            return None
        backups = self._data_dir / BACKUPS_NAME
        make_private_folder(backups)
        number = self._clock()
        while (aside := backups / f"{ASIDE_PREFIX}{number}").exists():
            number += 1
        beside = aside.with_name(aside.name + ".new")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(mode=FOLDER_MODE)
        for each in kept:
            os.link(each, beside / each.name, follow_symlinks=False)
            self._hit("restore.linked")
        sync_folder(beside)
        os.rename(beside, aside)
        sync_folder(backups)
        return aside


@contextlib.asynccontextmanager
async def restoring(
    file: Path,
    data_dir: Path,
    *,
    upgrade: Callable[[Path], object] = nobody,
    lock_wait_ms: int = 0,
    progress: Progress = nobody,
    clock: Clock = system_clock,
    failpoint: Failpoint = nobody,
) -> AsyncIterator[Restoring]:
    """Copy a backup into the data folder and check every byte of it, with the folder locked.

    Nothing is put in place but by `finish` of what this gives. `upgrade` is called with the folder
    of the copy, to bring it up to this format. Raises LockedError, and what is wrong with the file:
    NotFoundError, ForeignDatabaseError, NewerFormatError, CorruptionError.
    """
    with translated_os_errors("restore"):
        make_private_folder(data_dir)
        refuse_network_file_system(data_dir)
        lock = await FolderLock.take(data_dir, "command", "", lock_wait_ms)
    scratch = data_dir / SCRATCH_NAME
    try:
        with translated_os_errors("restore"):
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
            scratch.mkdir(mode=FOLDER_MODE)
            await asyncio.to_thread(_copy_backup, file, scratch / DATABASE_NAME, progress)
        await asyncio.to_thread(upgrade, scratch)
        await check_copy(scratch, deep=True, progress=progress)
        yield Restoring(data_dir, scratch / DATABASE_NAME, clock, failpoint)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        lock.release()


def _copy_backup(file: Path, target: Path, progress: Progress) -> None:
    """Copy a backup, or a store that nobody has open. It is never opened as a database itself, so
    it stays as it is, whatever is wrong with it."""
    if not file.exists():
        raise NotFoundError(f"there is no file {str(file)!a}", operation="restore")
    check_header(file)
    with unused(file.parent):
        copy_file(file, target, progress)
        if wal_bytes(file):
            copy_file(_beside(file, "-wal"), _beside(target, "-wal"), progress)
    if wal_bytes(target):
        recover_database(target)
    sync_folder(target.parent)


@contextlib.contextmanager
def unused(folder: Path) -> Iterator[None]:
    """Nobody writes the store in this folder, if there is one, nor begins to."""
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        message = f"the store in {str(folder)!a} is in use"
        hint = "stop who uses it; or make a backup: zoned backup --data-dir <its folder> <file>"
        raise BusyError(message, operation="copy", hint=hint) from None
    finally:
        os.close(descriptor)


def copy_file(file: Path, target: Path, progress: Progress) -> None:
    """Copy a database as a file. Only for one that no connection of this process has open."""
    total, done = file.stat().st_size, 0
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    with file.open("rb") as source, os.fdopen(descriptor, "wb") as copy:
        while piece := source.read(COPY_BYTES):
            copy.write(piece)
            done += len(piece)
            progress("MiB copied", done >> 20, total >> 20)
        copy.flush()
        os.fsync(copy.fileno())


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
