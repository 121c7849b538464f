"""Bringing the tables of a store up to this release, down again, or just looking.

Each step and its marker (the row in `format_step`, and the number in `PRAGMA user_version`) are one
transaction: killed anywhere, a step is applied and noted, or neither. `status` never writes.

The caller holds the lock of the data folder and has no store open on it; `FileStore.open` calls
`up` just so when it is given as `upgrade`.
"""

from pathlib import Path
from typing import NamedTuple

from filestore.clock import Clock, system_clock
from filestore.engine import driver
from filestore.engine.database import (
    check_header,
    connect_read_only,
    refuse_unknown_steps,
    untouched,
    wal_bytes,
)
from filestore.errors import CorruptionError, InvalidArgumentError
from filestore.store import DATABASE_NAME
from migrations.format import f0001_first_tables, f0002_ledger, f0003_journal
from migrations.format.step import Step

STEPS: tuple[Step, ...] = (f0001_first_tables.STEP, f0002_ledger.STEP, f0003_journal.STEP)
NOTES_SINCE = 2
"""The format in which steps are noted in a table; before it the format's number alone tells."""


class StepStatus(NamedTuple):
    """One step. `applied_ms` is 0 where nobody noted when."""

    number: int
    name: str
    is_applied: bool
    applied_ms: int


def status(data_dir: Path) -> list[StepStatus]:
    """All steps this release knows, in order. Reads only; also beside a running daemon."""
    path = data_dir / DATABASE_NAME
    if not path.exists():
        return [StepStatus(number, step.name, False, 0) for number, step in enumerate(STEPS, 1)]
    connection = connect_read_only(
        path, is_immutable=untouched(path) is not None, may_be_older=True
    )
    try:
        with driver.translated("status"):
            version, noted = _known_version(connection), _noted(connection)
    finally:
        connection.close()
    return [
        StepStatus(number, step.name, number <= version, noted.get(number, 0))
        for number, step in enumerate(STEPS, 1)
    ]


def up(data_dir: Path, *, clock: Clock = system_clock) -> list[str]:
    """Apply the steps that are missing. Returns their names; none if there is no store yet."""
    path = data_dir / DATABASE_NAME
    if not path.exists() or check_header(path) == len(STEPS):
        return []
    connection = _connect(path)
    try:
        with driver.translated("up"):
            first = _known_version(connection)
            for number in range(first + 1, len(STEPS) + 1):
                _apply(connection, data_dir, number, clock())
            _checkpoint(connection)
    finally:
        connection.close()
    return [step.name for step in STEPS[first:]]


def down(data_dir: Path, to: int, *, clock: Clock = system_clock) -> list[str]:
    """Take back the steps after number `to`. Returns their names, the last one first."""
    if not 1 <= to <= len(STEPS):
        raise InvalidArgumentError(
            f"there is no format {to} to go down to: 1 to {len(STEPS)}", operation="down"
        )
    path = data_dir / DATABASE_NAME
    check_header(path)
    connection = _connect(path)
    try:
        with driver.translated("down"):
            first = _known_version(connection)
            for number in range(first, to, -1):
                _take_back(connection, data_dir, number, clock())
            _checkpoint(connection)
    finally:
        connection.close()
    return [step.name for step in reversed(STEPS[to:first])]


def _connect(path: Path) -> driver.Connection:
    """Connect to write, once it is sure that nobody newer has been here; see `open_engine`."""
    if wal_bytes(path):
        connect_read_only(path, is_immutable=False, may_be_older=True).close()
    return driver.connect(path, read_only=False)


def _apply(connection: driver.Connection, folder: Path, number: int, now_ms: int) -> None:
    step = STEPS[number - 1]
    connection.execute("BEGIN IMMEDIATE")
    try:
        step.up(connection, folder, now_ms)
        if number >= NOTES_SINCE:
            row = (number, step.name, now_ms)
            connection.execute("INSERT INTO format_step VALUES (?, ?, ?)", row)
        connection.execute(f"PRAGMA user_version = {number}")
        _check_after(connection, number)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    step.after(connection, folder, now_ms)


def _take_back(connection: driver.Connection, folder: Path, number: int, now_ms: int) -> None:
    step = STEPS[number - 1]
    assert step.down is not None, number
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("DELETE FROM format_step WHERE number = ?", (number,))
        step.down(connection, folder, now_ms)
        connection.execute(f"PRAGMA user_version = {number - 1}")
        _check_after(connection, number - 1)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_after(connection: driver.Connection, number: int) -> None:
    noted = _noted(connection)
    wanted = {at: step.name for at, step in enumerate(STEPS[:number], 1)}
    if _version(connection) != number or (number >= NOTES_SINCE and noted.keys() != wanted.keys()):
        raise CorruptionError(f"step {number} is not noted as it should be", operation="migrate")


def _known_version(connection: driver.Connection) -> int:
    """The number of the format, if no release newer than this one has been here."""
    version = _version(connection)
    if version >= NOTES_SINCE:
        refuse_unknown_steps(connection)
    return version


def _version(connection: driver.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _noted(connection: driver.Connection) -> dict[int, int]:
    """When each step was applied, by its number."""
    if _version(connection) < NOTES_SINCE:
        return {}
    return dict(connection.execute("SELECT number, applied_ms FROM format_step").fetchall())


def _checkpoint(connection: driver.Connection) -> None:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
