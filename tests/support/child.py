"""A store in a process of its own, to be killed, traced or starved.

    python -m tests.support.child DATA_DIR OPTIONS

OPTIONS is JSON: `sync`, `limits` (fields of Limits), `writer` (constants of engine/writer_tx.py
to lower, so that small workloads reach the work that big ones cause), `failpoint` and `hit`
(SIGKILL at that hit of that name).

Commands come on stdin, one JSON object a line. Those of one `lane` run one after another, lanes run
side by side. Each is answered by one line on stdout, written in one write(2) after the operation
has returned: that line is the acknowledgement. At the end of stdin the store is closed and the
process ends with 0.

This module is the child's side and the parent's (`Child`).
"""

import asyncio
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from filestore import FileStore, Limits, StoreError
from filestore.engine import writer, writer_tx
from tests.support import child_model
from tests.support.child_model import Op

FAILPOINTS = (
    "begun",
    "unit.done",
    "commit.before",
    "commit.after",
    "acknowledged",
    "checkpoint.before",
    "checkpoint.after",
)
"""Every durable moment of the writer; `failpoints_in_source` proves that none is missing."""

ROOT = Path(__file__).resolve().parents[2]
ANSWER_S_MAX = 30.0
SMALL: dict[str, Any] = {
    "limits": {
        "seal_bytes": 4096,
        "log_bytes_soft": 16384,
        "wal_bytes_soft": 65536,
        "wal_bytes_hard": 262144,
    },
    "writer": {"TRIM_BYTES_MIN": 4096, "SHRINK_FREE_PAGES_MIN": 8, "SHRINK_PAGES": 4},
}
"""Options under which a few hundred KiB cause every kind of background work."""


def failpoints_in_source() -> set[str]:
    """The names that the engine really hits."""
    source = Path(writer.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(source.glob("*.py")))
    return set(re.findall(r"_hit\(\s*[\"']([^\"']+)[\"']", text))


def writer_bounds(name: str) -> ModuleType:
    """The module of the writer that has the bound of this name."""
    (found,) = [module for module in (writer, writer_tx) if hasattr(module, name)]
    return found


# -- the child


async def open_store(data_dir: str | Path, options: dict[str, Any], **more: Any) -> FileStore:
    """Open as the options say; also for tests that look at what a child left."""
    for name, value in options.get("writer", {}).items():
        setattr(writer_bounds(name), name, value)
    return await FileStore.open(
        data_dir,
        sync=options.get("sync", "full"),
        limits=Limits(**options.get("limits", {})),
        **more,
    )


class _Server:
    """Carries out commands until stdin ends."""

    def __init__(self, store: FileStore, hits: Counter[str]) -> None:
        self._store = store
        self._hits = hits

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1 << 26)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        lanes: dict[int, asyncio.Queue[Op | None]] = {}
        async with asyncio.TaskGroup() as group:
            while line := await reader.readline():
                op = json.loads(line)
                lane = op.get("lane", 0)
                if lane not in lanes:
                    lanes[lane] = asyncio.Queue()
                    group.create_task(self._run_lane(lanes[lane]))
                lanes[lane].put_nowait(op)
            for queue in lanes.values():
                queue.put_nowait(None)

    async def _run_lane(self, queue: "asyncio.Queue[Op | None]") -> None:
        while (op := await queue.get()) is not None:
            try:
                answer = {"ok": await self._do(op)}
            except (StoreError, child_model.UnitFailedError) as error:
                answer = {"error": type(error).__name__, "message": str(error)}
            say({"id": op.get("id"), **answer})

    async def _do(self, op: Op) -> Any:
        store = self._store
        if op["op"] == "storm":
            return await self._storm(op)
        if op["op"] == "trouble":
            return store.trouble
        if op["op"] == "hits":
            return dict(self._hits)
        if op["op"] == "read":
            return child_model.pack(await store.read(op["zone"], op["name"]))
        await child_model.apply(store, op)
        return None

    async def _storm(self, op: Op) -> None:
        """Append numbered lines from several tasks, each to its own file and to a shared one, until
        killed."""

        async def appender(lane: int, number: int) -> None:
            while True:
                line = f"{lane} {number} " + "x" * (number * 37 % 300)
                await self._store.append_lines(op["zone"], f"lane-{lane}", [line])
                say([lane, number, "own"])
                await self._store.append_lines(op["zone"], "shared", [line])
                say([lane, number, "shared"])
                number += 1

        async with asyncio.TaskGroup() as group:
            for lane, start in enumerate(op["starts"]):
                group.create_task(appender(lane, start))


def say(answer: Any) -> None:
    line = json.dumps(answer).encode() + b"\n"
    # A pipe takes up to 4096 bytes whole; no answer is longer but those to `read`, which nobody
    # traces.
    while line:
        line = line[os.write(1, line) :]


async def _main(data_dir: str, options: dict[str, Any]) -> None:
    hits: Counter[str] = Counter()

    def failpoint(name: str) -> None:
        hits[name] += 1
        if name == options.get("failpoint") and hits[name] == options["hit"]:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        store = await open_store(data_dir, options, failpoint=failpoint)
    except StoreError as error:
        say({"id": "open", "error": type(error).__name__, "message": str(error)})
        return
    say({"id": "open", "ok": None})
    await _Server(store, hits).serve()
    try:
        await store.close()
    except StoreError as error:
        say({"id": "close", "error": type(error).__name__, "message": str(error)})
        return
    say({"id": "close", "ok": None})


# -- the parent


class ChildDied(Exception):
    """The child's stdout ended before the answer came."""


class Child:
    """A running child process. Use as a context manager: it is killed and reaped at the end."""

    def __init__(
        self,
        data_dir: Path,
        options: dict[str, Any] | None = None,
        *,
        under: Sequence[str] = (),
        failpoint: str | None = None,
        hit: int = 0,
    ) -> None:
        given = {**(options or {})}
        if failpoint is not None:
            given |= {"failpoint": failpoint, "hit": hit}
        self._process = subprocess.Popen(
            [
                *under,
                sys.executable,
                "-m",
                "tests.support.child",
                str(data_dir),
                json.dumps(given),
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._next_id = 0
        self._held = b""
        self.stderr = ""

    def __enter__(self) -> "Child":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self.reap()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def send(self, op: Op, lane: int = 0) -> int:
        """Hand over one command. Returns its id. A dead child is noticed when reading."""
        self._next_id += 1
        assert self._process.stdin is not None
        line = json.dumps({**op, "id": self._next_id, "lane": lane}).encode() + b"\n"
        try:
            while line:
                line = line[self._process.stdin.write(line) or 0 :]
        except BrokenPipeError:
            pass
        return self._next_id

    def receive(self, timeout_s: float = ANSWER_S_MAX) -> Any:
        """The next answer. Raises ChildDied when there will be none."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._held:
            self._fill(deadline)
        line, _, self._held = self._held.partition(b"\n")
        return json.loads(line)

    def call(self, op: Op, timeout_s: float = ANSWER_S_MAX) -> Any:
        """Send and wait for the answer: {"ok": …} or {"error": …, "message": …}."""
        wanted = self.send(op)
        answer = self.receive(timeout_s)
        assert answer["id"] == wanted, answer
        return answer

    def opened(self) -> Any:
        """Wait until the store is open, or could not be opened."""
        answer = self.receive()
        assert answer["id"] == "open", answer
        return answer

    def finish(self) -> Any:
        """Close the store and end. Returns the answer of the close."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        answer = self.receive()
        assert answer["id"] == "close", answer
        self.reap()
        return answer

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()

    def reap(self) -> list[Any]:
        """Wait for the end. Returns the answers that were still under way."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        if not self._process.stdout.closed:
            if not self._process.stdin.closed:
                self._process.stdin.close()
            self._held += self._process.stdout.read()
            self.stderr += self._process.stderr.read().decode(errors="replace")
            self._process.stdout.close()
            self._process.stderr.close()
        self._process.wait(ANSWER_S_MAX)
        # A line without its end was never wholly printed, so it acknowledges nothing.
        *whole, self._held = self._held.split(b"\n")
        return [json.loads(line) for line in whole if line]

    def _fill(self, deadline: float) -> None:
        assert self._process.stdout is not None
        left = max(0.0, deadline - time.monotonic())
        if not select.select([self._process.stdout], [], [], left)[0]:
            raise TimeoutError("the child does not answer")
        data = self._process.stdout.read(1 << 16)
        if not data:
            raise ChildDied
        self._held += data


def spin(count: int) -> int:
    """Burn a little time without giving up the processor; finer than any sleep."""
    total = 0
    for number in range(count):
        total += number
    return total


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], json.loads(sys.argv[2])))
