"""What time it is for a store under test. Imports nothing: processes that are killed a thousand
times start with it."""


class FakeClock:
    """Time as a test sets it; it may stand still and go back. Called from the writer thread."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms
