"""The ballast: a file of nothing, so that a full disk has room for what frees it.

On a full disk not even a delete can be committed. When the store finds the disk full it gives the
ballast back: calls that cost nothing (a delete, an archive) go on in its room, everything else is
refused until there is as much space again, and the ballast with it. It is worth nothing and may be
removed at any time. A store that is small has nothing to delete that would help, and none.

Used by the writer thread, and before that begins.
"""

import contextlib
import logging
import os
import stat
from pathlib import Path

from filestore.files import FILE_MODE, SPACE_BYTES_MIN, free_bytes

BALLAST_NAME = "zoned.ballast"
SHARE = 4
"""The database is at least so many times as large."""
BLOCK_BYTES = 512
"""What `st_blocks` counts, whatever the file system."""
SPARE_BYTES_MIN = 4 << 20
"""So much room within the database is enough on a disk that has none."""
UNKNOWN_BYTES = 1 << 60
"""Where the disk does not say what is free, a commit has to tell."""

log = logging.getLogger("zoned.store")


class Ballast:
    """The ballast of one data folder; `size` 0 means none."""

    def __init__(self, folder: Path, size: int) -> None:
        self._path = folder / BALLAST_NAME
        self._size = size
        self._is_there = False
        self.is_given = False
        """True while its room is lent to what frees space."""

    def take(self, database_bytes: int) -> None:
        """Have it there, if the database is large and the disk has much more room than that."""
        if not self._size:
            with contextlib.suppress(OSError):
                self._path.unlink()
        elif not (self._is_there or self.is_given) and database_bytes >= SHARE * self._size:
            self._is_there = self._fill()

    def give(self) -> None:
        """Give its room to the disk, if it is there."""
        try:
            self._path.unlink()
        except OSError:
            return  # there is none, or it cannot be helped
        self.is_given, self._is_there = True, False
        log.warning("the disk is full: the ballast is given up, so that deleting works")

    def has_room(self, spare_bytes: int) -> bool:
        """True if writes may be tried again. While the ballast is lent that takes twice its size;
        then it is taken back, now if the disk has the room, or else by a later `take`.

        `spare_bytes`: what is free within the database itself.
        """
        free = self._free_bytes()
        if not self.is_given:
            # A little room within the database is soon gone, and the disk was full all along.
            return free >= SPACE_BYTES_MIN or spare_bytes >= SPARE_BYTES_MIN
        if free + spare_bytes < 2 * self._size:
            return False
        self.is_given, self._is_there = False, self._fill()
        return True

    def _free_bytes(self) -> int:
        try:
            return free_bytes(self._path.parent)
        except OSError:
            return UNKNOWN_BYTES

    def _fill(self) -> bool:
        """Make it. True if it is there now; a disk that would have little left goes without."""
        try:
            flags = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(self._path, flags, FILE_MODE)
            try:
                there = os.fstat(descriptor)
                if not stat.S_ISREG(there.st_mode):
                    return False
                missing = self._size - there.st_blocks * BLOCK_BYTES
                if missing > 0 and self._free_bytes() < missing + self._size:
                    self._path.unlink()
                    return False
                os.posix_fallocate(descriptor, 0, self._size)
                os.ftruncate(descriptor, self._size)
            finally:
                os.close(descriptor)
        except OSError as error:
            # The store does without; a file half made must not hold space back.
            log.info("no ballast: %s", error)
            with contextlib.suppress(OSError):
                self._path.unlink()
            return False
        return True
