"""What a format step is.

A step is frozen once it is released: mistakes are repaired by the next step. So it carries its SQL
itself and shares none with the store, whose tables go on changing; a test holds the two together.
Each says in its docstring: precondition, effect, check after.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from filestore.engine.driver import Connection

Change = Callable[[Connection, Path, int], None]
"""Works inside a transaction that is not its own; told the data folder and the time."""


class Step(NamedTuple):
    """One step. `down` is None for the first: below it there is no store."""

    name: str
    up: Change
    down: Change | None
    after: Change
    """Removes what `up` or `down` has left beside the database, once that is committed."""


def nothing_after(_: Connection, __: Path, ___: int) -> None:
    """Nothing lies beside the database."""
