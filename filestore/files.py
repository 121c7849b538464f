"""The data folder: permissions, the lock, atomic small files, and where it may lie. No database
here.

The lock is a kernel lock (`flock`) on `<data_dir>/zoned.lock`, released by the kernel when its
holder ends, however it ends; the file's content names the holder for people and tools and is never
trusted for more.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import orjson

from filestore.errors import (
    BackendError,
    LockedError,
    NetworkFileSystemError,
    ReadOnlyError,
    StorageFullError,
)

LOCK_NAME = "zoned.lock"
HOLDER_BYTES_MAX = 8192
LOCK_LOOK_S = 0.25
"""How often who waits for the lock looks whether a daemon has it now."""
FILE_MODE = 0o600
SPACE_BYTES_MIN = 256 << 10
DISK_FULL = "the disk is full"
"""What callers are told then; it passes by itself, once there is space."""
FOLDER_MODE = 0o700

HolderKind = Literal["daemon", "command"]

NETWORK_FILE_SYSTEMS = frozenset(
    [
        *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.glusterfs", "fuse.rclone"),
        *("fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4"),
        *("ocfs2", "orangefs", "smb3", "smbfs", "virtiofs"),
    ]
)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has the lock, as it says itself. `pid` 0: unknown."""

    pid: int
    kind: str
    socket: str


class FolderLock:
    """The right to write a data folder. Held from `take` to `release` or the end of the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    async def take(cls, folder: Path, kind: HolderKind, socket: str, wait_ms: int) -> "FolderLock":
        """Take the lock. Raises LockedError naming the holder.

        A command is waited for up to `wait_ms`, a daemon not at all: it will not go soon.
        """
        path = folder / LOCK_NAME
        deadline = time.monotonic() + wait_ms / 1000
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, FILE_MODE)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                raise OSError(errno.EINVAL, "it is not a regular file", str(path))
            if not _try_lock(descriptor) and not await _wait_for_lock(descriptor, folder, deadline):
                raise _locked(folder, read_holder(folder))
            lock = cls(descriptor)
            # Someone may have removed the file between open and lock: then the lock guards nothing.
            if _is_same_file(descriptor, path):
                lock._say(Holder(os.getpid(), kind, socket))
                return lock
            lock.release()

    def _say(self, holder: Holder) -> None:
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, orjson.dumps(holder), 0)
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """Give the lock back. Safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _wait_for_lock(descriptor: int, folder: Path, deadline: float) -> bool:
    """Wait in the kernel's queue: where many want the lock, who tries now and then may never meet
    the moment. False, and the file is closed, when it is too late, or a daemon has it.
    """
    waiting: _LockQueue | None = None
    try:
        while waiting is None or not waiting.is_taken:
            holder = read_holder(folder)
            # What a daemon that has died wrote may stand there until the next one writes.
            is_daemon = holder.kind == "daemon" and _is_alive(holder.pid)
            left_s = deadline - time.monotonic()
            if is_daemon or left_s <= 0:
                if waiting is None:
                    os.close(descriptor)
                return False
            waiting = waiting or _LockQueue(descriptor)
            await waiting.sleep(min(left_s, LOCK_LOOK_S))
        waiting = None
        return True
    finally:
        if waiting is not None:
            waiting.leave()


class _LockQueue:
    """A thread that waits for a lock. It cannot be called back from there: who leaves before has
    it give the lock up as soon as it comes.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._mutex = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._is_left = False
        self.is_taken = False
        # Not one of a pool, which would be waited for at the end of the process.
        threading.Thread(target=self._wait, name="zoned-lock", daemon=True).start()

    async def sleep(self, seconds: float) -> None:
        """Until the lock is taken, or for so long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)

    def leave(self) -> None:
        """Wait no more, and close the file; the lock goes with it, now or when it comes."""
        with self._mutex:
            self._is_left = True
            if self.is_taken:
                os.close(self._descriptor)

    def _wait(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        with self._mutex:
            if self._is_left:
                os.close(self._descriptor)
                return
            self.is_taken = True
        # An event loop that has ended waits for nothing; its process is about to end.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._woken.set)


def read_holder(folder: Path) -> Holder:
    """Who holds the lock, or held it last."""
    try:
        # Not to wait for ever, if it is a pipe.
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            content = orjson.loads(file.read(HOLDER_BYTES_MAX))
        return Holder(int(content["pid"]), str(content["kind"]), str(content["socket"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Holder(0, "unknown", "")


def _locked(folder: Path, holder: Holder) -> LockedError:
    who = f"process {holder.pid} ({holder.kind})" if holder.pid else "another process"
    hint = f"stop process {holder.pid} first" if holder.pid else "try again"
    if holder.socket:
        hint = f"stop process {holder.pid} first, or use its socket {holder.socket}"
    return LockedError(
        f"{str(folder)!r} is being written by {who}",
        pid=holder.pid,
        kind=holder.kind,
        socket=holder.socket,
        hint=hint,
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's, so it is there
        return True
    return pid > 0


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


@contextlib.contextmanager
def translated_os_errors(operation: str) -> Iterator[None]:
    """Turn the operating system's errors into ours."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError(DISK_FULL, operation=operation) from error
        what = f"{error.filename!a}: {error.strerror}" if error.filename else str(error)
        if error.errno == errno.EROFS:
            hint = "mount it for writing; what only reads works as it is"
            raise ReadOnlyError(what, operation=operation, hint=hint) from error
        raise BackendError(what, operation=operation) from error


def is_disk_full(folder: Path) -> bool:
    """True if there is hardly any space left."""
    return free_bytes(folder) < SPACE_BYTES_MIN


def free_bytes(folder: Path) -> int:
    """What is left for us on the disk that `folder` lies on."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def make_private_folder(folder: Path) -> bool:
    """Make `folder` if missing. True if an existing one was wider than 0700 and was tightened."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):  # somebody else was faster
            path.mkdir(mode=FOLDER_MODE)
            path.chmod(FOLDER_MODE)  # whatever the umask
        sync_folder(path.parent)  # or a power cut could take the name, and all below it
    is_wider = bool(stat.S_IMODE(folder.stat().st_mode) & 0o077)
    if is_wider:
        folder.chmod(FOLDER_MODE)
    return is_wider


def sync_folder(folder: Path) -> None:
    """Make renames and new names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a small file: a crash leaves the old or the new one, whole. Durable on return."""
    replace_file_with(path, (content,))


_BESIDE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Follows no link and waits for nobody, whatever lies beside the file already."""


def replace_file_with(path: Path, parts: Iterable[bytes]) -> None:
    """The same for content that comes in parts."""
    beside = path.with_name(path.name + ".new")
    descriptor = os.open(beside, _BESIDE, FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    sync_folder(path.parent)


def refuse_network_file_system(folder: Path) -> None:
    """Raise NetworkFileSystemError if `folder` lies on one; allowed where nobody can tell."""
    kind = file_system_of(folder)
    if kind in NETWORK_FILE_SYSTEMS:
        raise NetworkFileSystemError(
            f"{str(folder)!r} lies on a network file system ({kind})", operation="open"
        )


def file_system_of(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """The type of the file system that holds `folder`, None where the system does not say."""
    with contextlib.suppress(OSError):
        lines = mounts.read_bytes().splitlines()
        real = os.path.realpath(folder)
        # The longest mount point above the folder wins; of equals, the one mounted last.
        found = [
            (len(point), index, kind)
            for index, (point, kind) in enumerate(_mounts(lines))
            if real == point or real.startswith(point.rstrip("/") + "/")
        ]
        if found:
            return max(found)[2]
    return None


def _mounts(lines: list[bytes]) -> Iterator[tuple[str, str]]:
    for line in lines:
        left, _, right = line.partition(b" - ")
        fields, kinds = left.split(), right.split()
        if len(fields) > 4 and kinds:
            # Blanks in a mount point are written as octal escapes.
            point = (
                fields[4]
                .decode("unicode_escape")
                .encode("latin-1")
                .decode(errors="surrogateescape")
            )
            yield point, kinds[0].decode()
