"""What a disk may hold after a power cut, worked out from the system calls of a real process.

The method is that of ALICE: a process runs under strace with all the bytes it writes; its calls are
then played on a model of the disk, and at chosen moments the model gives states that a power cut
there could leave. What was synced is always in them. What was not may be there or not:

    lost     none of it
    kept     all of it
    subset   any of the writes, each as a whole
    torn     any of the sectors, each as it was at any time since the last sync; the length too
    prefix   the writes up to one of them, and that one up to some sector

Names follow one of two rules. Either creating, renaming and removing lasts at once, or it lasts
only when the folder was synced, until when any first part of it may have happened.

Assumed is what SQLite assumes too: a sector of 512 bytes is written whole or not at all, and a sync
that has returned has told the truth. Files whose names end in `-shm` are left out: they are shared
memory, and made anew.
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from tests.support.faults import Call, strace

SECTOR_BYTES = 512
DATA_BYTES_MAX = 1 << 20
"""The longest write that is recorded whole; a longer one fails the test, it is not cut."""

How: TypeAlias = Literal["lost", "kept", "subset", "torn", "prefix"]
HOWS: tuple[How, ...] = ("lost", "kept", "subset", "torn", "prefix")

_MODELLED = "openat,write,pwrite64,ftruncate,unlink,rename,mkdir,fsync,fdatasync"
_SENT = "writev,sendto,sendmsg"
"""How else a daemon answers its clients."""
_NOT_MODELLED = (
    "open,creat,pwritev,pwritev2,truncate,fallocate,unlinkat,renameat,renameat2,link,linkat,"
    "symlink,symlinkat,mkdirat,rmdir,copy_file_range,sendfile,sync_file_range,sync,syncfs"
)
"""Traced as well, so that a store which starts to use one of them does not slip through."""
_DELETED = re.compile(r"\d+<[^>]*>\(deleted\)")


def record(trace: Path) -> list[str]:
    """The command prefix under which a process leaves a trace to play."""
    return strace(trace, calls=f"{_MODELLED},{_SENT},{_NOT_MODELLED}", data_bytes=DATA_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class _Write:
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Resize:
    size: int


_Change: TypeAlias = _Write | _Resize


def _apply(content: bytearray, change: _Change) -> None:
    if isinstance(change, _Resize):
        size, data = change.size, b""
        del content[size:]
    else:
        size, data = change.offset + len(change.data), change.data
    content.extend(bytes(max(0, size - len(content))))
    if isinstance(change, _Write):
        content[change.offset : change.offset + len(data)] = data


@dataclass(slots=True)
class _File:
    """One file: its bytes as last synced, and what happened to them since."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[_Change] = field(default_factory=list)

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.synced, change)
        self.pending.clear()

    def after_cut(self, how: How, rng: random.Random) -> bytes:
        """Bytes that a power cut now may leave."""
        if how == "torn":
            return self._torn(rng)
        content = bytearray(self.synced)
        if how == "lost":
            return bytes(content)
        if how == "prefix" and self.pending:
            stop = rng.randrange(len(self.pending))
            kept = [*self.pending[:stop], _first_sectors(self.pending[stop], rng)]
        elif how == "subset":
            share = rng.choice((0.1, 0.5, 0.9))
            kept = [change for change in self.pending if rng.random() < share]
        else:
            kept = self.pending
        for change in kept:
            _apply(content, change)
        return bytes(content)

    def _torn(self, rng: random.Random) -> bytes:
        """Every sector, and the length, as of a moment of its own since the last sync."""
        content = bytearray(self.synced)
        sizes = [len(content)]
        versions: dict[int, list[bytes]] = {}
        for change in self.pending:
            sectors = _sectors(change, len(content))
            for sector in sectors:
                versions.setdefault(sector, [_sector(content, sector)])
            _apply(content, change)
            sizes.append(len(content))
            for sector in sectors:
                versions[sector].append(_sector(content, sector))
        size = rng.choice(sizes)
        found = self.synced.ljust(size, b"\0")
        for sector, known in versions.items():
            start = sector * SECTOR_BYTES
            found[start : start + SECTOR_BYTES] = rng.choice(known)
        return bytes(found[:size])


def _sector(content: bytearray, sector: int) -> bytes:
    start = sector * SECTOR_BYTES
    return bytes(content[start : start + SECTOR_BYTES]).ljust(SECTOR_BYTES, b"\0")


def _sectors(change: _Change, size_before: int) -> range:
    if isinstance(change, _Write):
        start, stop = change.offset, change.offset + len(change.data)
    else:
        start, stop = sorted((change.size, size_before))
    return range(start // SECTOR_BYTES, -(-stop // SECTOR_BYTES))


def _first_sectors(change: _Change, rng: random.Random) -> _Change:
    if isinstance(change, _Resize):
        return change
    stops = [sector * SECTOR_BYTES - change.offset for sector in _sectors(change, 0)][1:]
    return _Write(change.offset, change.data[: rng.choice([0, *stops])])


_Names: TypeAlias = dict[str, _File]


@dataclass(slots=True)
class Disk:
    """One folder on a disk, as the calls played so far have left it."""

    folder: Path
    names: _Names = field(default_factory=dict)
    _synced_names: _Names = field(default_factory=dict)
    _renamings: list[Callable[[_Names], object]] = field(default_factory=list)
    _positions: dict[str, int] = field(default_factory=dict)
    """Where the next `write` to a descriptor goes."""
    is_folder_made: bool = False
    is_folder_synced: bool = False
    """The folder's own name, which lies in its parent."""
    is_honest: Callable[[str], bool] = lambda _: True
    """By name of the file: does a sync do what it says? A control run has one that lies."""

    def play(self, call: Call) -> bool:
        """Carry out one call. False if it has nothing to do with this disk."""
        path = self._path_of(call)
        if path is None or call.result < 0 or path.name.endswith("-shm"):
            return False
        if path == self.folder or path == self.folder.parent:
            return self._play_on_folder(call, path)
        if path.parent != self.folder or _DELETED.match(call.arguments):
            return False
        assert call.name in _MODELLED.split(","), (
            f"not modelled: {call.name}({call.arguments[:200]})"
        )
        play: Callable[[Call, str], bool] = getattr(self, "_play_" + call.name)
        return play(call, path.name)

    def _path_of(self, call: Call) -> Path | None:
        if call.name in ("openat", "unlink", "rename", "mkdir"):
            return Path(call.names[-1])
        assert call.name not in ("sync", "syncfs"), f"not modelled: {call.name}"
        return Path(call.path) if call.path else None

    def _play_on_folder(self, call: Call, path: Path) -> bool:
        if call.name == "mkdir" and path == self.folder:
            self.is_folder_made = True
        elif call.name == "fsync" and path == self.folder:
            self._synced_names = dict(self.names)
            self._renamings.clear()
        elif call.name == "fsync":
            self.is_folder_synced = self.is_folder_made
        else:
            return False
        return True

    def _rename(self, renaming: Callable[[_Names], object]) -> bool:
        renaming(self.names)
        self._renamings.append(renaming)
        return True

    def _play_openat(self, call: Call, name: str) -> bool:
        self._positions[str(call.result)] = 0
        if name not in self.names:
            assert "O_CREAT" in call.arguments, f"{name} was there before the trace began"
            file = _File()
            return self._rename(lambda names: names.__setitem__(name, file))
        if "O_TRUNC" in call.arguments:
            self.names[name].pending.append(_Resize(0))
            return True
        return False

    def _play_unlink(self, _: Call, name: str) -> bool:
        return self._rename(lambda names: names.pop(name, None))

    def _play_rename(self, call: Call, name: str) -> bool:
        old = Path(call.names[0])
        assert old.parent == self.folder, old
        file = self.names[old.name]

        def rename(names: _Names) -> None:
            names.pop(old.name, None)
            names[name] = file

        return self._rename(rename)

    def _play_pwrite64(self, call: Call, name: str) -> bool:
        return self._write(call, name, call.offset)

    def _play_write(self, call: Call, name: str) -> bool:
        descriptor = call.arguments.partition("<")[0]
        offset = self._positions[descriptor]
        self._positions[descriptor] += len(call.data)
        return self._write(call, name, offset)

    def _write(self, call: Call, name: str, offset: int) -> bool:
        assert call.result == len(call.data), (
            f"{name}: the trace does not hold all that was written"
        )
        self.names[name].pending.append(_Write(offset, call.data))
        return True

    def _play_ftruncate(self, call: Call, name: str) -> bool:
        self.names[name].pending.append(_Resize(call.offset))
        return True

    def _play_fsync(self, _: Call, name: str) -> bool:
        if self.is_honest(name):
            self.names[name].sync()
        return True

    _play_fdatasync = _play_fsync

    def after_cut(
        self, how: How, *, are_names_lasting: bool, rng: random.Random
    ) -> dict[str, bytes]:
        """The files that a power cut now may leave."""
        names = self.names
        if not are_names_lasting:
            names = dict(self._synced_names)
            count = len(self._renamings)
            done = {"lost": 0, "kept": count}.get(how, rng.randint(0, count))
            for renaming in self._renamings[:done]:
                renaming(names)
        return {name: file.after_cut(how, rng) for name, file in sorted(names.items())}


def is_acknowledgement(call: Call) -> bool:
    """Written to stdout: somebody outside has heard it."""
    return call.name == "write" and call.arguments.startswith("1<") and call.result > 0


@dataclass(frozen=True, slots=True)
class Cut:
    """A moment of a trace: how many calls were over, and what had been acknowledged."""

    moment: int
    acknowledged: tuple[bytes, ...]


def printed(call: Call) -> list[bytes]:
    """The acknowledgements of a process that prints them."""
    return call.data.splitlines() if is_acknowledgement(call) else []


def play(
    disk: Disk, calls: Iterable[Call], heard: Callable[[Call], list[bytes]] = printed
) -> Iterator[Cut]:
    """Play the calls; yields at every moment at which the disk or the acknowledgements changed."""
    acknowledged: list[bytes] = []
    for moment, call in enumerate(calls):
        if told := heard(call):
            acknowledged += told
            yield Cut(moment, tuple(acknowledged))
        elif disk.play(call):
            yield Cut(moment, tuple(acknowledged))


def put(files: dict[str, bytes], folder: Path) -> None:
    """Make a state real."""
    folder.mkdir(mode=0o700)
    for name, content in files.items():
        (folder / name).write_bytes(content)
