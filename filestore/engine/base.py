"""The seam between the store and a database.

A **unit of work** is a coroutine over a `Tx`; it awaits nothing but that `Tx`. An embedded engine
can therefore run it to its end in one go on a thread of its own; a networked one can drive the same
coroutine from the event loop. SQL is kept to what SQLite and PostgreSQL both understand; parameters
are written `?`.

Bytes that were appended and are not sealed into chunks yet are the engine's to keep (`tail_*`),
because the best place differs: SQLite keeps them in a log, one row per commit, mirrored in memory.

**Who sees what.** A unit handed to `write` sees everything before it, committed or in the same
group. A unit handed to `read` sees one committed state, and may be run again from its start, so it
must have no side effect.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, NamedTuple, Protocol, TypeVar

from filestore.errors import CorruptionError
from filestore.lines import Open
from filestore.model import Change, Stats

T = TypeVar("T")
Value = int | str | bytes | None
Row = tuple[Any, ...]


def forward(before: Value | Row, after: Value | Row) -> None:
    """Refuse to read on from `after` unless it lies behind `before`.

    In a damaged table rows may stand out of order; whoever reads page by page, each from where the
    last one ended, would then read the same pages for ever.
    """
    try:
        is_forward = after > before  # type: ignore[operator]  # of one kind, unless damaged
    except TypeError:
        is_forward = False
    if not is_forward:
        raise CorruptionError("rows of a table are out of order")


class TailRecord(NamedTuple):
    """One append: `data` at `offset`; before it `line` lines have ended, in it `ended` more."""

    version: int
    offset: int
    line: int
    ended: int
    open: Open
    modified_ms: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Appended bytes that cannot be trusted: it matters while the file's own version is below
    `version`.

    `is_readable`: they can, but never be sealed, so no more are taken.
    """

    reason: str
    version: int
    file_id: int
    offset: int | None
    is_readable: bool = False


class ReadTx(Protocol):
    """What a unit may do while reading."""

    @property
    def heads(self) -> dict[tuple[str, str], Any]:
        """What units know of files from before; emptied when something is undone."""

    async def fetch(self, sql: LiteralString, params: Sequence[Value] = ()) -> list[Row]:
        """All rows."""

    async def fetch_one(self, sql: LiteralString, params: Sequence[Value] = ()) -> Row | None:
        """The first row, or None."""

    async def tail(self, file_id: int, after_version: int) -> Sequence[TailRecord]:
        """The appends of a file newer than `after_version`, oldest first."""

    async def tail_end(self, file_id: int, after_version: int) -> TailRecord | None:
        """The newest append of a file, if newer than `after_version`."""

    async def tail_damage(self, file_id: int) -> Damage | None:
        """Set when appended bytes of this file were found damaged."""

    async def table_flaws(self) -> list[str]:
        """What the database itself finds wrong with its tables and indexes; it reads all of it."""

    def hold_tails(self) -> None:
        """Keep all tails as they are until the unit ends, for a unit that takes long."""


class Tx(ReadTx, Protocol):
    """What a unit may do while writing."""

    @property
    def has_met_damage(self) -> bool:
        """True once stored bytes have failed their check, for whomever. From then on nothing that
        is stored is leaned on unseen."""

    def now_ms(self) -> int:
        """The clock."""

    def next_version(self) -> int:
        """The next number of the store-wide counter; never given twice."""

    async def execute(self, sql: LiteralString, params: Sequence[Value] = ()) -> None:
        """Run one statement."""

    async def execute_many(self, sql: LiteralString, rows: Sequence[Sequence[Value]]) -> None:
        """Run one statement for each row of parameters."""

    def tail_append(self, file_id: int, record: TailRecord) -> None:
        """Add bytes to a tail; durable when the unit is committed."""

    async def tail_drop(self, file_id: int, upto_version: int) -> None:
        """Forget appends up to and with `upto_version` once the unit is committed."""

    async def tail_close(self, file_id: int, reason: str) -> None:
        """Take no more appends to a tail that cannot be sealed. What is there stays, and the space
        that it holds is not held against others."""

    async def tails_to_seal(self, bytes_min: int) -> list[int]:
        """Files whose tail has `bytes_min` or more, or holds the engine's own space back."""

    async def tidy(self) -> bool:
        """Give back space that the engine holds, a little at a time. True if there is more."""

    async def shrink(self) -> bool:
        """Give free space back to the disk at once, a little at a time. True if there was some."""

    def publish(self, change: Change) -> None:
        """Announce `change` once the unit is committed."""


ReadUnit = Callable[[ReadTx], Coroutine[Any, Any, T]]
WriteUnit = Callable[[Tx], Coroutine[Any, Any, T]]
Shortcut = Callable[[Tx], T | None]
"""A plain function that does what a unit does if memory holds all it needs, and else does nothing
and returns None. It never raises. An engine that has no use for it runs the unit."""


class Engine(Protocol):
    """A database under a FileStore."""

    @property
    def position(self) -> int:
        """The position of the last committed change."""

    @property
    def trouble(self) -> str | None:
        """Why writes are refused now, or None."""

    @property
    def needs_sealing(self) -> bool:
        """True when the last commit left tails that should be sealed soon."""

    @property
    def stats(self) -> Stats:
        """Counters, for those who watch."""

    def write(
        self,
        unit: WriteUnit[T],
        cost_bytes: int,
        *,
        shortcut: Shortcut[T] | None = None,
        is_housekeeping: bool = False,
    ) -> Awaitable[T]:
        """Run `unit`, or its shortcut, in a transaction; durable when the result is there.

        Cancelling the caller never cancels a unit that was taken. BusyError when too much is
        waiting; housekeeping is let through, since it is what makes room.
        """

    def read(self, unit: ReadUnit[T]) -> Awaitable[T]:
        """Run `unit` on one committed state."""

    async def close(self) -> None:
        """Finish what was accepted, then close; nothing is left to recover."""


def undriven(unit: str) -> str:
    """The message for a unit that awaits something other than its transaction."""
    return f"the unit of work {unit} awaits something other than its transaction"
