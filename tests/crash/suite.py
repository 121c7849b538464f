"""What all fault suites share: how long, with which seed, and what they have to tell.

A suite is a function `(folder, plan) -> Row`. It goes on after a finding, so that one row tells all
of them; whoever runs it decides what a finding means.
"""

import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.seeds import seed_of_run

SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of a suite to run: for about `seconds`, everything repeatable from `seed`."""

    seed: int
    seconds: float
    is_short: bool = False
    """A look in passing: a sample of what is tried one by one."""

    @classmethod
    def short(cls, seconds: float) -> "Plan":
        """For `make test`."""
        return cls(seed_of_run(), seconds, is_short=True)

    def rng(self, *names: object) -> random.Random:
        """Chance of its own for each use."""
        return random.Random(" ".join(map(str, (self.seed, *names))))


@dataclass(slots=True)
class Row:
    """What one suite found. `wrong` is what was lost, altered or accepted wrongly."""

    suite: str
    tried: str
    seed: int
    count: int = 0
    wrong: list[str] = field(default_factory=list)
    control: str = "–"
    more: list[str] = field(default_factory=list)
    """Figures that have no column."""
    seconds: float = 0.0
    started: float = field(default_factory=time.monotonic)

    def found(self, what: str) -> None:
        if len(self.wrong) < SHOWN_MAX:
            print(f"WRONG, {self.suite}, seed {self.seed}: {what}", flush=True)
        self.wrong.append(what)

    def is_due(self, plan: Plan, share: float = 1.0) -> bool:
        """True when that share of the time has gone."""
        return time.monotonic() - self.started >= plan.seconds * share

    def ended(self) -> "Row":
        self.seconds = time.monotonic() - self.started
        return self


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder in memory if there is one: what is only opened and looked at needs no disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)
