"""Copying a live database by way of the database itself. Never as a file: opening and closing it
would drop the locks of every connection that this process has to it."""

import os
from collections.abc import Callable
from pathlib import Path

from filestore.engine import driver
from filestore.engine.database import connect_read_only, untouched
from filestore.files import FILE_MODE, sync_folder, translated_os_errors

STEP_PAGES = 1024
"""So many pages between two reports of progress."""

CopyProgress = Callable[[int, int], None]
"""Called with how many pages are copied, and of how many."""


def copy_database(
    source: Path, target: Path, progress: CopyProgress = lambda done, total: None
) -> None:
    """Copy a database as it is now, beside whoever writes it. `target` is made; durable on return.

    Holds one read transaction for as long as it takes. What `progress` raises ends it. The copy has
    the format of its source.
    """
    state = untouched(source)
    _copy(source, target, state is not None, progress)
    if state is not None and untouched(source) != state:
        # Nobody wrote it at first, so it was read without locks; then somebody came.
        with translated_os_errors("backup"):
            target.unlink()
        _copy(source, target, False, progress)
    with translated_os_errors("backup"):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_folder(target.parent)


def _copy(source: Path, target: Path, is_immutable: bool, progress: CopyProgress) -> None:
    with translated_os_errors("backup"):
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE_MODE))
    copy = driver.connect(target, read_only=False)
    try:
        origin = connect_read_only(
            source,
            is_immutable=is_immutable,
            may_be_older=True,
            # What a writer that was killed has left is recovered in memory.
            is_shm_read_only=source.with_name(source.name + "-shm").exists(),
        )
        try:
            with driver.translated("backup"):
                # Synced once, at the end.
                copy.execute("PRAGMA synchronous = OFF")
                # Held open, so that all steps copy one state and none begins again.
                origin.execute("BEGIN")
                origin.execute("SELECT count(*) FROM sqlite_master").fetchone()
                origin.backup(
                    copy,
                    pages=STEP_PAGES,
                    progress=lambda _, left, total: progress(total - left, total),
                )
        finally:
            origin.close()
    finally:
        copy.close()


def recover_database(path: Path) -> None:
    """Have SQLite bring what is in the write-ahead log into the database, as every start does."""
    connection = driver.connect(path, read_only=False)
    try:
        with driver.translated("open"):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.close()
