"""The data folder as commands look at it before anything is opened: is it there, who runs on it.

Imports nothing of the store: a command that only talks to the daemon does not wait for it.
"""

import json
import os
import stat
from pathlib import Path
from typing import NamedTuple

from srv.cli.screen import Screen
from srv.errors import ZonedError

LOCK_NAME = "zoned.lock"
DATABASE_NAME = "zoned.db"
HOLDER_BYTES_MAX = 8192


class Holder(NamedTuple):
    """Who has the folder's lock, or had it last, as it says itself."""

    pid: int = 0
    kind: str = ""
    socket: str = ""

    @property
    def daemon_socket(self) -> str:
        """Where the daemon listens, if there is one with a socket that is still there."""
        is_there = self.kind == "daemon" and self.socket and os.path.exists(self.socket)
        return self.socket if is_there else ""


def prepare(folder: Path, screen: Screen) -> None:
    """Make the folder if it is missing; tighten one that is open to others, and say so."""
    try:
        mode = os.stat(folder).st_mode
    except FileNotFoundError:
        from filestore.files import make_private_folder, translated_os_errors

        with translated_os_errors("open"):
            make_private_folder(folder)
        return
    except OSError as error:
        hint = "make it accessible, or give another with --data-dir"
        message = f"cannot look at {str(folder)!r}: {error.strerror}"
        raise ZonedError("UNAVAILABLE", message, hint=hint) from error
    if not stat.S_ISDIR(mode):
        hint = "give another with --data-dir"
        raise ZonedError("UNAVAILABLE", f"{str(folder)!r} is not a folder", hint=hint)
    if stat.S_IMODE(mode) & 0o077:
        try:
            os.chmod(folder, 0o700)
        except OSError:
            # Somebody else's, or on a disk that is read-only: looking is allowed all the same.
            screen.warn(f"{folder} is open to others, and its mode cannot be changed")
        else:
            screen.warn(f"{folder} was open to others; its mode is now 0700")


def read_holder(folder: Path) -> Holder:
    """Who holds the lock, or held it last; nobody if that cannot be read.

    The same as `filestore.files.read_holder`, which needs the store's imports.
    """
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            found = json.loads(file.read(HOLDER_BYTES_MAX))
        return Holder(int(found["pid"]), str(found["kind"]), str(found["socket"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Holder()


def is_locked(folder: Path) -> bool:
    """True if a process writes this folder now, whatever the lock's file says."""
    import fcntl

    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        # Shared and for a moment: whoever wants it meanwhile polls, as for any command.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def disk_bytes(folder: Path) -> int:
    """What the files of the folder take on the disk."""
    try:
        with os.scandir(folder) as entries:
            return sum(entry.stat(follow_symlinks=False).st_blocks * 512 for entry in entries)
    except OSError:
        return 0
