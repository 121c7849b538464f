"""The time seam: the store never asks the operating system for the time itself.

Times are integer Unix milliseconds, may repeat and may go back. Nothing is ever ordered by them:
order is the version counter. Tests pass a clock of their own.
"""

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Returns Unix milliseconds. Called from the writer thread."""


def system_clock() -> int:
    """Wall time in milliseconds."""
    return time.time_ns() // 1_000_000
