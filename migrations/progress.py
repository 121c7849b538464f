"""Progress for those who have no terminal: a line in the log now and then."""

import time
from collections.abc import Callable

from migrations.run import log

INTERVAL_S = 5.0


class ProgressLog:
    """Says how far it is, at most every few seconds. For `migrate(progress=…)`."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._told_at = monotonic()

    def __call__(self, name: str, done: int, total: int) -> None:
        now = self._monotonic()
        if now - self._told_at >= INTERVAL_S:
            self._told_at = now
            log.info("%s: %d of %d", name, done, total)
