"""A bar on stderr for work that takes long; without a terminal there is none."""

import contextlib
import threading
import time
from collections.abc import Iterator

from srv.cli.screen import Screen

AFTER_S = 0.5
EVERY_S = 0.1
BAR_COLUMNS = 30


class Bar:
    """How far the work is. `tell` may be called as often as one likes."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._next = time.monotonic() + AFTER_S

    def tell(self, done: int, total: int, text: str) -> None:
        """So much of so much is done; a `total` of 0 is not known."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY_S
        if total:
            filled = BAR_COLUMNS * min(done, total) // total
            text = f"[{'#' * filled}{'.' * (BAR_COLUMNS - filled)}] {text}"
        self._screen.progress(text)

    def step(self, name: str, done: int, total: int) -> None:
        """The same, for work that comes in steps with names."""
        self.tell(done, total, f"{name}: {done} of {total}" if total else f"{name}: {done}")

    def end(self) -> None:
        """Take it away."""
        self._screen.end_progress()


@contextlib.contextmanager
def waiting(screen: Screen, text: str) -> Iterator[None]:
    """Tells how long it has been waited for somebody who does not say how far he is."""
    bar, is_over, started = Bar(screen), threading.Event(), time.monotonic()

    def tell() -> None:
        while not is_over.wait(EVERY_S):
            bar.tell(0, 0, f"{text}, {time.monotonic() - started:.0f} s")

    teller = threading.Thread(target=tell, daemon=True)
    if screen.is_error_terminal:
        teller.start()
    try:
        yield
    finally:
        is_over.set()
        if screen.is_error_terminal:
            teller.join()
        bar.end()
