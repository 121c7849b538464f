"""The ledger: what became of each item that a migration has brought into the store or passed over.

One row for each item, written in the transaction of the copy itself, so an item is listed if and
only if its copy was made. A listed item is not touched again, whatever users have done to the copy
since; an item counts as the same while its size and modified time are. Rows are checked like all
others.
"""

from collections.abc import Callable
from typing import NamedTuple

from filestore.engine.base import ReadTx, Row, Tx, forward
from filestore.engine.schema import row_check
from filestore.errors import CorruptionError

ROWS_PER_STEP = 1000
_COLUMNS = "source, zone, name, size, modified_ms, outcome, target, version, stored, row_check"


class LedgerRow(NamedTuple):
    """What became of one item: a file of an old database, a record, a block."""

    source: str
    zone: str
    name: str
    size: int
    modified_ms: int
    outcome: str
    target: str = ""
    """The zone it went to; empty if to none."""
    version: int = 0
    """The version of the copy, by which it is known whether it was written since."""
    stored: int = 0
    """How many bytes the source really had; differs from `size` in what is damaged."""

    def is_same(self, size: int, modified_ms: int) -> bool:
        """True if the row is about an item with this size and time."""
        return (self.size, self.modified_ms) == (size, modified_ms)


async def load(tx: ReadTx, source: str, zone: str) -> dict[str, LedgerRow]:
    """The rows about one zone of one source, by name."""
    rows = await tx.fetch(
        f"SELECT {_COLUMNS} FROM ledger WHERE source = ? AND zone = ?", (source, zone)
    )
    return {row[2]: _checked(row) for row in rows}


async def load_one(tx: ReadTx, source: str, zone: str, name: str) -> LedgerRow | None:
    """The row about one item."""
    row = await tx.fetch_one(
        f"SELECT {_COLUMNS} FROM ledger WHERE source = ? AND zone = ? AND name = ?",
        (source, zone, name),
    )
    return _checked(row) if row else None


async def save(tx: Tx, row: LedgerRow) -> None:
    """Note what became of an item, in place of what was noted before."""
    await tx.execute(
        f"INSERT INTO ledger ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (source, zone, name) DO UPDATE SET size = excluded.size, "
        "modified_ms = excluded.modified_ms, outcome = excluded.outcome, "
        "target = excluded.target, version = excluded.version, stored = excluded.stored, "
        "row_check = excluded.row_check",
        (*row, row_check(*row)),
    )


async def check_ledger(tx: ReadTx, tell: Callable[[str], None]) -> None:
    """Call `tell` with a message for every row that is damaged."""
    after = ("", "", "")
    while rows := await tx.fetch(
        f"SELECT {_COLUMNS} FROM ledger WHERE (source, zone, name) > (?, ?, ?) "
        "ORDER BY source, zone, name LIMIT ?",
        (*after, ROWS_PER_STEP),
    ):
        for row in rows:
            try:
                _checked(row)
            except CorruptionError as error:
                tell(error.message)
        forward(after, rows[-1][:3])
        after = rows[-1][:3]


def _checked(row: Row) -> LedgerRow:
    *values, check = row
    found = LedgerRow(*values)
    if check != row_check(*found):
        raise CorruptionError(f"the ledger's row for {found.zone!a}/{found.name!a} fails its check")
    return found
