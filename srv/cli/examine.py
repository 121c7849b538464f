"""What an operator should know of a data folder and of the machine below it. Looks, and writes
nothing but a nameless temporary file, whose syncs are measured.

Each part looks at one thing and gives lines: what it is, whether that is ok, worth a warning or
bad, and what to do then. A part that meets something it cannot read says so in its line; none keeps
the others from looking.
"""

import asyncio
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

from filestore import FileStore, StoreError
from filestore.backup import BACKUPS_NAME, read_note
from filestore.engine.database import RESTORED_SUFFIX, check_header, wal_bytes
from filestore.engine.driver import LIBRARY, SQLITE_VERSION
from filestore.files import (
    DISK_FULL,
    FILE_MODE,
    FOLDER_MODE,
    LOCK_NAME,
    NETWORK_FILE_SYSTEMS,
    file_system_of,
)
from filestore.restoring import SCRATCH_NAME as RESTORE_NAME
from filestore.store import DATABASE_NAME
from migrations import pending, status
from migrations.steps.import_legacy import SCRATCH_NAME
from srv.cli.words import duration, size
from srv.config import Config, socket_path

SQLITE_MIN = (3, 51, 3)
"""The first without the WAL-reset bug."""
FREE_BYTES_BAD, FREE_BYTES_LOW = 256 << 20, 2 << 30
WAL_BYTES_MANY = 256 << 20
SYNCS = 20
SYNC_S_BAD, SYNC_S_SLOW, SYNC_S_FAST = 0.5, 0.05, 20e-6
BACKUP_S_OLD = 7 * 24 * 3600
ROOMS = ("filestore", "migrations", "srv")
IN_MEMORY = frozenset(["tmpfs", "ramfs"])

Verdict = Literal["ok", "warn", "bad"]


class Line(NamedTuple):
    """One thing that was looked at. `hint`: what to do; empty if nothing need be done."""

    name: str
    verdict: Verdict
    fact: str
    hint: str = ""


class Place(NamedTuple):
    """What is looked at, and what is known of it beforehand. `info`: what a running daemon says of
    itself, empty if none does; `is_held`: some process writes the folder now.
    """

    config: Config
    info: dict[str, object]
    is_held: bool

    @property
    def folder(self) -> Path:
        return self.config.data_dir

    @property
    def database(self) -> Path:
        return self.config.data_dir / DATABASE_NAME


Part = Callable[[Place], Iterator[Line]]


def examine(place: Place) -> list[Line]:
    """Look at everything, in the order to show it."""
    lines: list[Line] = []
    for part in PARTS:
        try:
            lines += part(place)
        except (OSError, StoreError) as error:
            hint = getattr(error, "hint", "") or "see why it cannot be read"
            fact = error.message if isinstance(error, StoreError) else str(error)
            lines.append(Line(part.__name__.strip("_").replace("_", " "), "bad", fact, hint))
    return lines


def _engine(_: Place) -> Iterator[Line]:
    fact = f"SQLite {SQLITE_VERSION} by {LIBRARY}"
    if tuple(int(part) for part in SQLITE_VERSION.split(".")) >= SQLITE_MIN:
        yield Line("engine", "ok", fact)
    else:
        wanted = ".".join(map(str, SQLITE_MIN))
        hint = f"install pysqlite3 with {wanted} or newer: older ones have the WAL-reset bug"
        yield Line("engine", "warn", fact, hint)


def _import_names(_: Place) -> Iterator[Line]:
    owners = packages_distributions()
    root = Path(__file__).resolve().parents[2]
    wrong = []
    for name in ROOMS:
        found = find_spec(name)
        origin = found.origin if found else None
        others = set(owners.get(name, ())) - {"zoned"}
        if origin is None or not Path(origin).resolve().is_relative_to(root):
            wrong.append(f"{name} comes from {origin}")
        elif others:
            wrong.append(f"{name} also belongs to {', '.join(sorted(others))}")
    if wrong:
        hint = "give zoned an environment of its own"
        yield Line("import names", "bad", "; ".join(wrong), hint)
    else:
        yield Line("import names", "ok", "ours alone")


def _daemon(place: Place) -> Iterator[Line]:
    if place.info:
        health = place.info.get("health")
        is_well = isinstance(health, dict) and health.get("ok")
        fact = f"runs as process {place.info.get('pid')}"
        if is_well:
            yield Line("daemon", "ok", fact)
        else:
            trouble = health.get("trouble") if isinstance(health, dict) else "it does not answer"
            hint = "look into its log, restart it"
            if trouble == DISK_FULL:
                hint = "free some space, or zoned prune; it takes writes again by itself"
            yield Line("daemon", "bad", f"{fact}: {trouble}", hint)
    elif place.is_held:
        yield Line("daemon", "ok", "a command has the folder now")
    else:
        yield Line("daemon", "ok", "none runs")
    sync = str(place.info.get("sync") or place.config.sync)
    if sync == "full":
        yield Line("sync", "ok", "full: what is acknowledged survives power loss")
    else:
        hint = "remove the setting sync, unless the last moments may be lost"
        yield Line("sync", "warn", f"{sync}: power loss may take the last moments", hint)


def _folder(place: Place) -> Iterator[Line]:
    if not place.folder.exists():
        yield Line("folder", "ok", f"{place.folder} is not there yet; the first start makes it")
        return
    if not place.folder.is_dir():
        hint = "give another with --data-dir"
        yield Line("folder", "bad", f"{place.folder} is not a folder", hint)
        return
    wrong = list(_too_open(place))
    if wrong:
        yield Line("permissions", "bad", "; ".join(wrong), f"chmod -R go= {place.folder}")
    else:
        yield Line("permissions", "ok", "only you can read and write it")


def _too_open(place: Place) -> Iterator[str]:
    """Which of our files others could read or change."""
    names = (DATABASE_NAME, f"{DATABASE_NAME}-wal", f"{DATABASE_NAME}-shm", LOCK_NAME, "token")
    paths = [place.folder, *(place.folder / name for name in names)]
    if socket := socket_path(place.config):
        paths.append(socket)
    for path in paths:
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue
        wanted = FOLDER_MODE if path == place.folder else FILE_MODE
        if found.st_uid not in (os.geteuid(), 0):
            yield f"{path.name} belongs to user {found.st_uid}"
        elif stat.S_IMODE(found.st_mode) & ~wanted & 0o077:
            yield f"{path.name} has mode {stat.S_IMODE(found.st_mode):04o}"


def _disk(place: Place) -> Iterator[Line]:
    folder = _nearest(place.folder)
    kind = file_system_of(folder)
    if kind in NETWORK_FILE_SYSTEMS:
        hint = "move the data folder to a local disk"
        yield Line("file system", "bad", f"{kind}, over the network", hint)
    elif kind in IN_MEMORY:
        hint = "move the data folder to a disk"
        yield Line("file system", "warn", f"{kind}: gone when the machine restarts", hint)
    else:
        yield Line("file system", "ok", kind or "not known")
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    stored = place.database.lstat().st_size if place.database.exists() else 0
    fact = f"{size(free)}; the database has {size(stored)}"
    if free < FREE_BYTES_BAD:
        yield Line("free space", "bad", fact, "free some, or move the data folder; then zoned gc")
    elif free < max(FREE_BYTES_LOW, stored):
        yield Line("free space", "warn", fact, "free some: a backup or a migration may need more")
    else:
        yield Line("free space", "ok", fact)


def _sync_time(place: Place) -> Iterator[Line]:
    # Without a name from the beginning: nothing of it is left, however this ends.
    times = []
    with tempfile.TemporaryFile(dir=_nearest(place.folder), buffering=0) as file:
        for number in range(SYNCS):
            os.pwrite(file.fileno(), bytes(4096), number * 4096)
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - start)
    typical, worst = median(times), max(times)
    fact = f"{typical * 1000:.2f} ms, at most {worst * 1000:.2f} ms; every write waits for one"
    if typical > SYNC_S_SLOW:
        verdict: Verdict = "bad" if typical > SYNC_S_BAD else "warn"
        yield Line("sync time", verdict, fact, "move the data folder to a faster disk")
    elif typical < SYNC_S_FAST:
        hint = "see whether this disk really syncs; durability rests on it"
        yield Line("sync time", "warn", f"{typical * 1e6:.0f} µs, faster than any disk", hint)
    else:
        yield Line("sync time", "ok", fact)


def _stale_files(place: Place) -> Iterator[Line]:
    if place.is_held:
        yield Line("stale files", "ok", "not looked for: they may be in use")
        return
    folder, backups = place.folder, place.folder / BACKUPS_NAME
    found = [
        path
        for path in (*_listed(folder), *_listed(backups))
        if path.name.endswith((".new", ".new-journal", ".zoned-new"))
        or path.name in (SCRATCH_NAME, RESTORE_NAME, DATABASE_NAME + RESTORED_SUFFIX)
    ]
    socket = socket_path(place.config)
    if socket is not None and socket.exists():
        found.append(socket)
    names = ", ".join(path.name for path in found)
    if not found:
        yield Line("stale files", "ok", "none")
    elif not place.database.exists() and folder / (DATABASE_NAME + RESTORED_SUFFIX) in found:
        hint = "zoned restore-backup <file> again; what was there is in the folder backups"
        yield Line("stale files", "bad", f"{names}: a restore was cut short", hint)
    else:
        hint = "they do no harm; remove them, or leave it to the next start, backup or restore"
        yield Line("stale files", "warn", names, hint)


def _database(place: Place) -> Iterator[Line]:
    if not place.database.exists():
        yield Line("database", "ok", "not there yet")
        if due := asyncio.run(pending(None, place.folder)):
            yield _due(due)
        return
    version = check_header(place.database)
    wal = wal_bytes(place.database)
    if wal and not place.is_held:
        # To look into it would mean to recover it, and that is to write.
        fact = f"format {version}; was not closed, the next start recovers {size(wal)}"
        yield Line("database", "ok", fact)
        return
    missing = [step.name for step in status(place.folder) if not step.is_applied]
    if missing:
        hint = "zoned migrate up, or leave it to the next start"
        yield Line("migrations", "warn", f"format {version}: {', '.join(missing)} to come", hint)
        return
    yield from asyncio.run(_opened(place, version))
    if wal > WAL_BYTES_MANY:
        hint = "a long read holds it back; end that, or restart the daemon"
        yield Line("write-ahead log", "warn", size(wal), hint)


async def _opened(place: Place, version: int) -> list[Line]:
    async with await FileStore.open(place.folder, read_only=True) as store:
        due = await pending(store, place.folder)
    lines = [Line("database", "ok", f"format {version}; zoned check looks for damage")]
    return [*lines, _due(due) if due else Line("migrations", "ok", "nothing to do")]


def _due(due: list[str]) -> Line:
    hint = "zoned migrate --retry-failed, or leave it to the next start"
    return Line("migrations", "warn", "; ".join(due), hint)


def _backups(place: Place) -> Iterator[Line]:
    note = read_note(place.folder)
    hint = "zoned backup <file>, to another disk"
    if note is None:
        if place.database.exists():
            yield Line("backups", "warn", "none is known", hint)
        return
    age_s = max(0, int(time.time() - note.taken_ms / 1000))
    fact = f"{note.file}, {size(note.bytes)}, {duration(age_s)} old"
    if not os.path.exists(note.file):
        yield Line("backups", "warn", f"{fact}: it is not there any more", hint)
    elif age_s > BACKUP_S_OLD:
        yield Line("backups", "warn", fact, hint)
    else:
        yield Line("backups", "ok", fact)


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _nearest(folder: Path) -> Path:
    """The folder, or the one that it would be made in."""
    return next(path for path in (folder, *folder.absolute().parents) if path.is_dir())


PARTS: tuple[Part, ...] = (
    _engine, _import_names, _daemon, _folder, _disk, _sync_time, _database, _backups, _stale_files,
)  # fmt: skip
