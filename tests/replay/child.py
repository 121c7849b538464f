"""Snapshots broken and rebuilt in a process of its own, killed at a chosen moment.

    python -m tests.replay.child DATA_DIR OPTIONS

OPTIONS is JSON: `turn` (which rebuilding), `failpoint` and `hit` (SIGKILL at that hit of that name,
counted from when that rebuilding is called). Each turn appends lines to agent `a`, saves a broken
snapshot, large every second time, and has it rebuilt. Each answer is one line on stdout, written
after the operation has returned: the acknowledgement. Without a kill it ends with 0 after TURNS.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from filestore import FileStore
from filestore.sessions import Sessions
from tests.replay.streams import turn
from tests.sessions.child import ARMED, SMALL
from tests.sessions.tools import LARGE_BYTES
from tests.support.child import say

TURNS = 6


def broken(number: int) -> bytes:
    """The snapshot of a turn: no JSON, and like no other."""
    return b"{ broken %d " % number + b"x" * (LARGE_BYTES if number % 2 else 10)


async def _main(data_dir: str, options: dict[str, Any]) -> None:
    ARMED.options = options
    async with (
        await FileStore.open(Path(data_dir), limits=SMALL, failpoint=ARMED) as store,
        Sessions(store) as sessions,
    ):
        for number in range(TURNS):
            await sessions.append_output("a", turn(number))
            say(["appended", number])
            await sessions.write_state("a", broken(number))
            say(["saved", number])
            ARMED.is_on = ARMED.is_on or number == options.get("turn")
            done = await sessions.replays.write("a")
            say(["rebuilt", number, done.kept])


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], json.loads(sys.argv[2])))
