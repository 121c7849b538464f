"""Backups: a whole copy of a store, made beside its writer and looked at before anyone relies on
it. See docs/specs/0006-backup-and-repair.md."""

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson

from filestore.check import Progress, check
from filestore.clock import Clock, system_clock
from filestore.engine.backup import copy_database
from filestore.engine.database import wal_bytes
from filestore.errors import AlreadyExistsError, BusyError, CorruptionError, InvalidArgumentError
from filestore.files import (
    FOLDER_MODE,
    make_private_folder,
    replace_file,
    sync_folder,
    translated_os_errors,
)
from filestore.store import DATABASE_NAME, FileStore

BACKUPS_NAME = "backups"
NOTE_NAME = "last.json"
log = logging.getLogger("zoned.backup")


@dataclass(frozen=True, slots=True)
class BackupNote:
    """The last backup that was made of a store to a file; None of its past is kept."""

    file: str
    taken_ms: int
    bytes: int


def nobody(*_: object) -> None:
    """For those who do not want to be told of progress."""


async def back_up(store: FileStore, folder: Path) -> None:
    """Copy the store into `folder`, which must not exist, and check the copy.

    A crash leaves no folder or a whole, checked backup. Writers go on meanwhile. Raises
    CorruptionError if the copy is not clean, which means that the store is not either.
    """
    beside = folder.with_name(folder.name + ".new")
    with translated_os_errors("backup"):
        await asyncio.to_thread(shutil.rmtree, beside, ignore_errors=True)
        make_private_folder(beside)
    try:
        await copy_store(store, beside)
        await check_copy(beside, deep=False)
        with translated_os_errors("backup"):
            os.rename(beside, folder)
            sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


async def back_up_to_file(
    store: FileStore,
    file: Path,
    *,
    is_replacing: bool = False,
    progress: Progress = nobody,
    clock: Clock = system_clock,
) -> int:
    """Copy the store into one file and check every byte of the copy. Returns its size.

    A crash leaves nothing under that name, or what was there, or a whole, checked backup; and
    beside it perhaps `.<name>.zoned-new`, which the next backup to that file takes away. Raises
    AlreadyExistsError, also for a write-ahead log that lies there, and CorruptionError if the store
    is damaged: then what was there stays.
    """
    beside = file.with_name(f".{file.name}.zoned-new")
    with translated_os_errors("backup"):
        refuse_target(store.data_dir, file, is_replacing=is_replacing)
        _refuse_log(file)
    with translated_os_errors("backup"), own_folder(beside):
        taken_ms = clock()
        await copy_store(store, beside, partial(progress, "pages copied"))
        await check_copy(beside, deep=True, progress=progress)
        size = (beside / DATABASE_NAME).stat().st_size
        _refuse_log(file)
        place_file(beside / DATABASE_NAME, file, is_replacing)
        sync_folder(file.parent)
    _note(store.data_dir, BackupNote(str(file), taken_ms, size))
    return size


async def copy_store(
    store: FileStore, folder: Path, progress: Callable[[int, int], None] = nobody
) -> None:
    """Copy the store's database into `folder` as it is now, unchecked."""
    source, target = store.data_dir / DATABASE_NAME, folder / DATABASE_NAME
    await asyncio.to_thread(copy_database, source, target, progress)


async def check_copy(folder: Path, *, deep: bool, progress: Progress = nobody) -> None:
    """Check a store that nobody writes. Raises CorruptionError with the first problem."""
    async with await FileStore.open(folder, read_only=True) as copy:
        report = await check(copy, deep=deep, progress=progress)
    if not report.is_clean:
        raise CorruptionError(f"the copy is not clean: {report.problems[0]}", operation="backup")


def read_note(data_dir: Path) -> BackupNote | None:
    """The last backup to a file, or None if none is known."""
    try:
        found = orjson.loads((data_dir / BACKUPS_NAME / NOTE_NAME).read_bytes())
        return BackupNote(str(found["file"]), int(found["taken_ms"]), int(found["bytes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _note(data_dir: Path, note: BackupNote) -> None:
    try:
        make_private_folder(data_dir / BACKUPS_NAME)
        replace_file(data_dir / BACKUPS_NAME / NOTE_NAME, orjson.dumps(note))
    except OSError as error:
        # The backup is there all the same; only `zoned doctor` will not know of it.
        log.warning("the backup could not be noted: %s", error)


def refuse_target(data_dir: Path, file: Path, *, is_replacing: bool) -> None:
    """Refuse to put a file where it would harm the store, or something else that is there."""
    if file.parent.resolve() == data_dir.resolve():
        message = "the file does not go among those of the store itself"
        hint = f"give another place, if only {data_dir / BACKUPS_NAME / file.name}"
        raise InvalidArgumentError(message, operation="write", hint=hint)
    if file.is_dir():
        raise InvalidArgumentError(f"{str(file)!a} is a folder", operation="write")
    if os.path.lexists(file) and not is_replacing:
        raise _exists(file)
    if file.parent == data_dir / BACKUPS_NAME:
        make_private_folder(file.parent)
    if not file.parent.is_dir():
        message = f"there is no folder {str(file.parent)!a}"
        raise InvalidArgumentError(message, operation="write", hint="make it first")


def _refuse_log(file: Path) -> None:
    """Refuse a place with the write-ahead log of another database: whoever opens the backup, or
    restores it, would apply that to it."""
    if wal_bytes(file):
        log_file = file.with_name(file.name + "-wal")
        message = f"{str(log_file)!a} is there, the log of what was {str(file)!a} before"
        hint = f"give another name; or, if nobody needs it, remove {str(log_file)!a}"
        raise AlreadyExistsError(message, operation="write", hint=hint)


def _exists(file: Path) -> AlreadyExistsError:
    hint = "give another name, or --force to replace it"
    return AlreadyExistsError(f"{str(file)!a} exists", operation="write", hint=hint)


@contextlib.contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """An empty folder that no other backup uses, gone at the end."""
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = "somebody else is making that already"
            raise BusyError(message, operation="backup", hint="wait for it") from None
        for left in folder.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        try:
            yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def place_file(made: Path, file: Path, is_replacing: bool) -> None:
    """Give the finished file its name; one that somebody else has taken meanwhile stays."""
    if is_replacing:
        os.replace(made, file)
        return
    try:
        os.link(made, file)
    except FileExistsError:
        raise _exists(file) from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        # A file system without hard links, so without a renaming that never replaces.
        os.rename(made, file)
