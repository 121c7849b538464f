"""Sessions under load in a process of its own, killed at a chosen moment of an operation.

    python -m tests.records.child DATA_DIR OPTIONS

OPTIONS is JSON: `operation` (one of OPERATIONS), `turn` (which time it is done), `failpoint` and
`hit` (SIGKILL at that hit of that name, counted from when the operation is called). Lanes update
one session side by side; another task begins sessions, lets panes write to them, archives,
restores and finishes them. Each answer is one line on stdout, written after the operation has
returned: the acknowledgement. Without a kill it ends with 0 after TURNS turns.
"""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from filestore import FileStore
from filestore.records import NewSession, Records
from filestore.sessions import Sessions
from tests.sessions.child import SMALL
from tests.support.child import say

OPERATIONS = ("create", "update", "prompt", "finish", "append", "archive", "restore", "delete")
LANES = 4
TURNS = 5
SHARED = "shared"


class Load:
    """The tasks of one run."""

    def __init__(self, records: Records, panes: Sessions, options: dict[str, Any]) -> None:
        self._records = records
        self._panes = panes
        self._options = options
        self._done: Counter[str] = Counter()
        self._is_over = False

    async def run(self) -> None:
        await self._records.create(NewSession("rest", SHARED))
        async with asyncio.TaskGroup() as group:
            for lane in range(LANES):
                group.create_task(self._update(lane))
            group.create_task(self._live())

    async def _update(self, lane: int) -> None:
        """Three records a call: a phase, metadata, an error."""
        number = 0
        while not self._is_over:
            metadata = {f"lane {lane}": number}
            await self._records.update(
                SHARED, phase="planning", metadata=metadata, error=f"{lane} {number}"
            )
            say(["updated", lane, number])
            number += 1

    async def _live(self) -> None:
        for turn in range(TURNS):
            name = f"s{turn}"
            await self._do("create", name, self._create(name))
            await self._do("update", name, self._records.update(name, metadata={"k": turn}))
            await self._do("prompt", name, self._records.prompt(name, "hello"))
            await self._do("append", name, self._panes.append_output(name, f"line {turn}"))
            archived = await self._do("archive", name, self._panes.archive(name))
            await self._do("restore", name, self._panes.restore(archived.archive_zoneid))
            say_it = {"type": "text", "text": "over"}
            finish = self._records.finish(name, "failed", error="e", say=say_it, note={"n": 1})
            await self._do("finish", name, finish)
            archived = await self._do("archive again", name, self._panes.archive(name))
            if turn % 2:
                zone = archived.archive_zoneid
                await self._do("delete", name, self._panes.delete_archive(zone))
        self._is_over = True

    async def _create(self, name: str) -> None:
        await self._records.create(
            NewSession("rest", name, agent_name="coder", metadata={"first": True})
        )

    async def _do(self, operation: str, name: str, call: Any) -> Any:
        self._done[operation] += 1
        if operation == self._options.get("operation"):
            ARMED.is_on = ARMED.is_on or self._done[operation] == self._options["turn"]
        done = await call
        say([operation, name])
        return done


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
        Sessions(store) as panes,
    ):
        await Load(Records(store), panes, options).run()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], json.loads(sys.argv[2])))
