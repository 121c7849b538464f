"""Sessions under load in a process of its own, killed at a chosen moment of an operation.

    python -m tests.sessions.child DATA_DIR OPTIONS

OPTIONS is JSON: `operation` (archive, restore or fork), `turn` (which time it is done), `failpoint`
and `hit` (SIGKILL at that hit of that name, counted from when the operation is called). Several
tasks append numbered batches of lines to agent `a` and save its state, while its sessions are
archived, restored and forked into agent `f`. Each answer is one line on stdout, written after the
operation has returned: the acknowledgement. Without a kill it ends with 0 after TURNS turns.
"""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from filestore import FileStore, Limits, NotFoundError
from filestore.sessions import Sessions
from tests.sessions.tools import LARGE_BYTES, snapshot
from tests.support.child import say

LANES = 4
BATCH = 3
TURNS = 8
SMALL = Limits(seal_bytes=4096, log_bytes_soft=16384, wal_bytes_soft=65536, wal_bytes_hard=262144)
"""Bounds under which a short run causes background work too."""


class Load:
    """The tasks of one run."""

    def __init__(self, sessions: Sessions, options: dict[str, Any]) -> None:
        self._sessions = sessions
        self._options = options
        self._done: Counter[str] = Counter()
        self._is_over = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for lane in range(LANES):
                group.create_task(self._append(lane))
            group.create_task(self._save())
            group.create_task(self._move())

    async def _append(self, lane: int) -> None:
        number = 0
        while not self._is_over:
            lines = [f"{lane} {number} {part} " + "x" * (number % 90) for part in range(BATCH)]
            await self._sessions.append_output("a", lines)
            say(["appended", lane, number])
            number += 1

    async def _save(self) -> None:
        number = 0
        while not self._is_over:
            size = LARGE_BYTES if number % 5 == 4 else 0
            content = snapshot(f"save {number}", mark=number, pad_to=size)
            written = await self._sessions.write_state("a", content)
            say(["saved", number, written.session_id])
            number += 1

    async def _move(self) -> None:
        for _ in range(TURNS):
            self._begin("archive")
            archived = await self._sessions.archive("a")
            if archived is not None:
                say(["archived", archived.archive_zoneid])
            oldest = (await self._sessions.list_archives("a", 100))[-1]
            self._begin("restore")
            restored = await self._sessions.restore(oldest.archive_zoneid)
            say(["restored", restored.session_id])
            self._begin("fork")
            try:
                say(["forked", await self._sessions.fork("a", "f", archive_first=True)])
            except NotFoundError:
                continue
        self._is_over = True

    def _begin(self, operation: str) -> None:
        self._done[operation] += 1
        if operation == self._options.get("operation"):
            ARMED.is_on = ARMED.is_on or self._done[operation] == self._options["turn"]


class Armed:
    """The failpoint. Called from the writer thread; armed from the event loop."""

    def __init__(self) -> None:
        self.is_on = False
        self.options: dict[str, Any] = {}
        self._hits = 0

    def __call__(self, name: str) -> None:
        if self.is_on and name == self.options["failpoint"]:
            self._hits += 1
            if self._hits == self.options["hit"]:
                os.kill(os.getpid(), signal.SIGKILL)


ARMED = Armed()


async def _main(data_dir: str, options: dict[str, Any]) -> None:
    ARMED.options = options
    async with (
        await FileStore.open(Path(data_dir), limits=SMALL, failpoint=ARMED) as store,
        Sessions(store) as sessions,
    ):
        await Load(sessions, options).run()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], json.loads(sys.argv[2])))
