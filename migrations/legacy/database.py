"""An old database, read without leaving a trace: its bytes stay as they are, and no `-wal` or
`-shm` comes to lie beside it.

How it is opened depends on who else is there:

    nobody, no or empty -wal, no -journal    as it lies (`immutable=1`)
    somebody has it open                     beside them (`mode=ro`); not if it is in WAL mode and
                                             has no -shm: they do not use it, and SQLite would make
                                             one, and a -wal, and leave both behind
    nobody, but a -wal or a -journal         a copy of both in a scratch folder, where SQLite
                                             recovers them; `immutable=1` would miss the rows
                                             of the one and see the half-done work of the other

Who comes while it is read as it lies is noticed: what was read since is read again. Text is handed
out as bytes, because nobody has promised that it is UTF-8. Any thread may call, one at a time.

No cursor may have a name here: an error would keep it, in its traceback, past the lock, and to drop
it in one thread while another closes the connection makes the driver free its statement twice.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeVar

from filestore.engine import driver
from filestore.errors import StoreError
from migrations.legacy.in_use import is_in_use

T = TypeVar("T")
Access = Literal["as it lies", "beside others", "copy"]
TRIES_MAX = 5
BESIDE = ("-wal", "-journal")
BUSY_TIMEOUT_MS = 30_000
"""Who writes without a WAL shuts readers out whenever it commits, and may do little else."""
HEADER_WAL_AT = 19
"""Where in its header a database says how it is to be read: 2 means by way of a WAL."""


class UnreadableError(Exception):
    """The database cannot be read at all."""


class OldDatabase:
    """One old database that is open. `scratch` is where copies may be made; it need not exist."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self.path = path.resolve()  # beside it, not beside a link to it, lie its -wal and -shm
        self._scratch = scratch
        self._lock = threading.Lock()
        self.access: Access
        self._connection: driver.Connection
        self._seen: object = None
        self._open()

    def read(self, unit: Callable[[driver.Connection], T]) -> T:
        """Run `unit` on one state of the database. It may be run again, on a newer one."""
        with self._lock:
            for _ in range(TRIES_MAX):
                with _transaction(self._connection):
                    found = unit(self._connection)
                if not self._has_changed():
                    return found
                self._connection.close()
                self._open()
        raise UnreadableError(f"{str(self.path)!r} changes all the time")

    @contextmanager
    def snapshot(self) -> Iterator[driver.Connection]:
        """A connection of its own on one state, for what takes long.

        Raises UnreadableError at the end if that state was not one.
        """
        connection = self._connect(self.access)
        try:
            with _transaction(connection):
                yield connection
            if self._has_changed():
                raise UnreadableError(f"{str(self.path)!r} was changed while it was read")
        finally:
            connection.close()

    def close(self) -> None:
        """Close it, and remove the copy if there was one."""
        with self._lock:
            self._connection.close()
            if self.access == "copy":
                shutil.rmtree(self._scratch, ignore_errors=True)

    def _open(self) -> None:
        for _ in range(TRIES_MAX):
            seen = _state(self.path)
            try:
                self.access = self._choose()
                if self.access == "copy":
                    self._copy()
                self._connection = self._connect(self.access)
                self._probe()
            except (OSError, StoreError) as error:
                if _state(self.path) != seen:
                    continue
                # Without its hint: what it says of our own store is no help with this one.
                what = error.message if isinstance(error, StoreError) else str(error)
                message = (
                    f"{str(self.path)!r} cannot be read: {what}; put a whole copy in its place"
                )
                raise UnreadableError(message) from error
            if self.access == "beside others" or _state(self.path) == seen:
                self._seen = seen
                return
            self._connection.close()
        raise UnreadableError(f"{str(self.path)!r} changes all the time")

    def _probe(self) -> None:
        """Raise if nothing can be read from it."""
        try:
            with driver.translated("read"):
                self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        except BaseException:
            self._connection.close()
            raise

    def _choose(self) -> Access:
        beside = [self.path.with_name(self.path.name + end) for end in (*BESIDE, "-shm")]
        if is_in_use(self.path, *beside) and (beside[-1].exists() or not _is_wal(self.path)):
            return "beside others"
        return "copy" if any(_size(path) for path in beside[:-1]) else "as it lies"

    def _copy(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(mode=0o700, parents=True)
        for end in ("", *BESIDE):
            with suppress(FileNotFoundError):
                name = self.path.name + end
                shutil.copyfile(self.path.with_name(name), self._scratch / name)

    def _connect(self, access: Access) -> driver.Connection:
        if access == "copy":
            # Recovering it means writing to it.
            connection = driver.connect(self._scratch / self.path.name, read_only=False)
        else:
            connection = driver.connect(
                self.path,
                read_only=True,
                immutable=access == "as it lies",
                # Theirs to write, as all of it.
                is_shm_read_only=True,
            )
        connection.text_factory = bytes
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        return connection

    def _has_changed(self) -> bool:
        """True if what was read as it lies does not lie there any more."""
        return self.access == "as it lies" and _state(self.path) != self._seen


@contextmanager
def _transaction(connection: driver.Connection) -> Iterator[None]:
    with driver.translated("read"):
        connection.execute("BEGIN")
        try:
            yield
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _state(path: Path) -> object:
    """What changes when anybody writes the database."""
    found = path.stat()
    beside = [_size(path.with_name(path.name + end)) for end in BESIDE]
    return found.st_ino, found.st_size, found.st_mtime_ns, beside


def _is_wal(path: Path) -> bool:
    """True if the header says that it is in WAL mode."""
    with path.open("rb") as file:
        return file.read(HEADER_WAL_AT + 1)[HEADER_WAL_AT:] == b"\x02"


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def columns(connection: driver.Connection, table: str) -> list[str]:
    """The columns of a table; none if there is no such table."""
    rows = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
    return [row[1].decode(errors="replace") for row in rows]
