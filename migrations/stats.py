"""What a migration did: counts by name, and the items that failed, each with its error."""

from typing import NamedTuple

FAILED_MAX = 10_000
"""So many failed items are named; all are counted."""


class Failure(NamedTuple):
    """An item that could not be migrated, or not wholly."""

    source: str
    zone: str
    name: str
    error: str

    def __str__(self) -> str:
        place = "/".join(part for part in (self.source, self.zone, self.name) if part)
        return f"{place}: {self.error}"


class Stats(dict[str, int]):
    """Counts by name, also readable as attributes. `failures` is always among them."""

    def __init__(self, *names: str) -> None:
        super().__init__(dict.fromkeys((*names, "failures"), 0))
        self.failed: list[Failure] = []
        self.error = ""
        """Why it ended before its time; empty if it did not."""

    def __getattr__(self, name: str) -> int:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def is_cut(self) -> bool:
        """True if more items failed than are named."""
        return self["failures"] > len(self.failed)

    def details(self) -> dict[str, object]:
        """Everything, for people and tools: counts, failed items, and what ended it early."""
        found: dict[str, object] = {**self, "failed": [item._asdict() for item in self.failed]}
        return found | {"error": self.error} if self.error else found

    def count(self, name: str, more: int = 1) -> None:
        """Count something done."""
        assert name in self, name
        self[name] += more

    def fail(self, failure: Failure) -> None:
        """Count and name an item that failed."""
        self["failures"] += 1
        if len(self.failed) < FAILED_MAX:
            self.failed.append(failure)
