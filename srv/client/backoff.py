"""How long to wait before the next try, and which errors are worth one. Pure."""

import random
from collections.abc import Mapping

FIRST_S = 0.02
MOST_S = 2.0
FACTOR = 2.0

NOTHING_DONE = frozenset(["BUSY"])
"""The daemon says that it did not do it: any call may be repeated."""
MAYBE_DONE = frozenset(["UNAVAILABLE", "COMMIT_UNKNOWN"])
"""It may have done it: only a call that can be repeated without harm is."""


class Backoff:
    """Waits that grow up to a bound. Each is drawn at random from its upper half, so that clients
    that were cut off together do not come back together.
    """

    def __init__(
        self, rng: random.Random, *, first_s: float = FIRST_S, most_s: float = MOST_S
    ) -> None:
        self._rng = rng
        self._first_s = first_s
        self._most_s = most_s
        self._next_s = first_s

    def next_s(self, data: Mapping[str, object] | None = None) -> float:
        """The next wait, in seconds; at least `retry_after_ms` of an error's data, if it says so,
        within the bound.
        """
        wait_s, self._next_s = self._next_s, min(self._next_s * FACTOR, self._most_s)
        wait_s *= self._rng.uniform(0.5, 1.0)
        asked_ms = (data or {}).get("retry_after_ms")
        if isinstance(asked_ms, int):
            wait_s = max(wait_s, min(asked_ms / 1000, self._most_s))
        return wait_s

    def reset(self) -> None:
        """It went well: begin again with short waits."""
        self._next_s = self._first_s
