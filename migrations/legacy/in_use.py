"""Whether anybody has a file open. Linux: asked of the kernel, without a trace in the file.

The processes that we may look at are looked at; those of other users show themselves by the locks
that SQLite keeps (in WAL mode for as long as a database is open). Where neither can be told, the
answer is no.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_FLOCK = struct.Struct("hhqqi4x")
"""`struct flock` on 64-bit Linux: type, whence, start, length, pid."""


def is_in_use(*paths: Path) -> bool:
    """True if a process, also this one, has one of these files open or locked."""
    files = {found for path in paths if (found := _identity(path)) is not None}
    return _is_open(files) or any(_is_locked(path) for path in paths)


def _identity(path: str | Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None


def _is_open(files: set[tuple[int, int]]) -> bool:
    return any(_identity(link) in files for link in _descriptors()) if files else False


def _descriptors() -> Iterator[str]:
    with suppress(OSError):
        for process in os.listdir("/proc"):
            if process.isdigit():
                # It may end while we look, or not be ours to look at.
                with suppress(OSError):
                    folder = f"/proc/{process}/fd"
                    yield from [f"{folder}/{number}" for number in os.listdir(folder)]


def _is_locked(path: Path) -> bool:
    """True if another process holds a lock on any part of the file.

    Only for files that this process has not open: closing ours would drop its locks.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
        kind: int = _FLOCK.unpack(answer)[0]
        return kind != fcntl.F_UNLCK
    except OSError:
        return False
    finally:
        os.close(descriptor)
