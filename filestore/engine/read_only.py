"""A database opened beside its writer, in whatever process. Takes no lock, writes nothing.

The tails are read from the log, as the writer wrote them: a snapshot sees exactly the records that
were committed with it.
"""

from collections.abc import Awaitable
from pathlib import Path

from filestore.engine import driver
from filestore.engine.base import ReadUnit, Shortcut, T, WriteUnit
from filestore.engine.database import connect_read_only, untouched
from filestore.engine.log import LOG_ROWS, Tails
from filestore.engine.readers import Readers
from filestore.errors import ReadOnlyError
from filestore.model import Limits, Stats

VIEW_BYTES_MIN = 1 << 20


class ReadOnlySqliteEngine:
    """A database opened beside its writer, in whatever process. Takes no lock, writes nothing."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.trouble: str | None = "opened read-only"
        self.needs_sealing = False
        self.stats = Stats()
        self._path = path
        self._views: dict[int, _LogView] = {}
        self._readers = Readers(
            self._connect, self._view, self._is_current, lambda: None, limits.readers
        )

    @property
    def position(self) -> int:
        return max((view.seq for view in self._views.values()), default=0)

    def write(
        self,
        unit: WriteUnit[T],
        cost_bytes: int,
        *,
        shortcut: Shortcut[T] | None = None,
        is_housekeeping: bool = False,
    ) -> Awaitable[T]:
        raise ReadOnlyError("the store was opened read-only")

    def read(self, unit: ReadUnit[T]) -> Awaitable[T]:
        return self._readers.read(unit)

    async def close(self) -> None:
        await self._readers.close()

    def _connect(self, index: int) -> driver.Connection:
        # With an empty WAL nothing changes but by a writer that starts later, and that is noticed;
        # without immutable=1 SQLite would have to create files, or fail on a read-only disk.
        state = untouched(self._path)
        connection = connect_read_only(self._path, is_immutable=state is not None)
        self._views[index] = _LogView(state)
        return connection

    def _view(self, index: int, connection: driver.Connection) -> Tails:
        return self._views[index].refresh(connection)

    def _is_current(self, index: int) -> bool:
        """False once a writer has come to a database that was opened as immutable."""
        found = self._views[index].untouched
        return found is None or found == untouched(self._path)


class _LogView:
    """The tails as one read-only connection sees them, brought up to date at each snapshot."""

    def __init__(self, untouched: tuple[int, int, int] | None) -> None:
        self.untouched = untouched
        self.seq = 0
        self._bytes = 0
        self._tails = Tails()

    def refresh(self, connection: driver.Connection) -> Tails:
        last, size = connection.execute("SELECT max(seq), sum(length(data)) FROM log").fetchone()
        if last == self.seq:
            return self._tails
        if self._bytes > VIEW_BYTES_MIN + 2 * size:
            # Most of it is sealed by now. To begin anew is simpler than to find out which.
            self.seq, self._bytes, self._tails = 0, 0, Tails()
        for seq, row in connection.execute(LOG_ROWS, (self.seq,)):
            self._tails.load(seq, row)
            self.seq = seq
            self._bytes += len(row or b"")
        return self._tails
