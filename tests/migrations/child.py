"""The migrations in a process of its own, killed at a chosen moment.

    python -m tests.migrations.child DATA_DIR OPTIONS

OPTIONS is JSON: `failpoint` and `hit` (SIGKILL at that hit of that name, be it a moment of the
store's writer or of the migrations), `counts` (write how often each was hit to that file). Bounds
are lowered so that a small folder makes every kind of work, and the clock stands still, so that two
runs differ in nothing but where they were killed.
"""

import asyncio
import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from filestore import FileStore, Limits, building
from migrations import Stats, migrate
from migrations.steps import block_zones, import_zones
from tests.support.clock import FakeClock

SMALL = Limits(seal_bytes=4096, log_bytes_soft=16384, wal_bytes_soft=65536, wal_bytes_hard=262144)


def lower_bounds() -> None:
    """Make small things large."""
    building.BATCH_PIECES = 2
    import_zones.ZONE_BYTES_MAX = 16 << 10
    import_zones.ZONES_PER_READ = 4
    block_zones.BLOCKS_PER_COMMIT = 2


class Hits:
    """Counts moments, and kills at one of them. Called from any thread."""

    def __init__(self, name: str | None = None, hit: int = 0) -> None:
        self.counts: Counter[str] = Counter()
        self._name = name
        self._hit = hit
        self._lock = threading.Lock()

    def __call__(self, name: str) -> None:
        with self._lock:
            self.counts[name] += 1
            if name == self._name and self.counts[name] == self._hit:
                os.kill(os.getpid(), signal.SIGKILL)


async def run(data_dir: Path, hits: Hits) -> dict[str, Stats]:
    """One run of all migrations."""
    lower_bounds()
    async with await FileStore.open(
        data_dir, limits=SMALL, failpoint=hits, clock=FakeClock()
    ) as store:
        return await migrate(store, data_dir, failpoint=hits)


def main(data_dir: str, options: dict[str, Any]) -> None:
    hits = Hits(options.get("failpoint"), options.get("hit", 0))
    asyncio.run(run(Path(data_dir), hits))
    if "counts" in options:
        Path(options["counts"]).write_text(json.dumps(hits.counts))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
