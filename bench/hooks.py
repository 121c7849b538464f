"""What hooks and session commands cost from start to end, with and without a daemon, against
`python -c pass`: whoever runs agents waits for them.
"""

import json
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from bench.measure import Context, Row, Target, compare, in_turn
from bench.rpc import daemon, run_ms
from filestore import FileStore
from filestore.records import NewSession, Records

BOUND = Target("≤", 12)
COMMAND = [sys.executable, "-m", "srv.cli.main"]
PASS = [sys.executable, "-c", "pass"]
Call = Callable[[], tuple[list[str], bytes]]
"""The words of a command, and what it is given on stdin."""


async def hooks(context: Context) -> list[Row]:
    """Each kind of command, on the folder itself and by its daemon."""
    folder = context.fresh("hooks")
    # Each run of subagent-stop ends one, the ones that warm up too.
    ending = [f"ending-{number}" for number in range(2 * (context.rounds + 2))]
    await _fill(folder, ending, context.pick(20, 1000, 1000))
    calls = _calls(iter(ending))
    rows = await _measure(calls, folder, "", context.rounds)
    with daemon(folder):
        rows += await _measure(calls, folder, "_daemon", context.rounds)
    return rows


async def _measure(calls: dict[str, Call], folder: Path, by: str, rounds: int) -> list[Row]:
    rows = []
    for name, call in calls.items():

        async def ours(call: Call = call) -> float:
            words, given = call()
            return run_ms([*COMMAND, *words, "--data-dir", str(folder)], given)

        async def baseline() -> float:
            return run_ms(PASS)

        pairs = await in_turn(ours, baseline, rounds)
        rows.append(compare(f"{name}{by}", pairs, "ms", BOUND))
    return rows


def _calls(ending: Iterator[str]) -> dict[str, Call]:
    """What is run. `ending` gives a session that goes on at each call."""
    numbers = count()

    def stop() -> tuple[list[str], bytes]:
        given = {"agent_id": next(ending), "exit_code": 0, "duration_ms": 1234, "output": "done"}
        return ["hook", "subagent-stop"], json.dumps(given).encode()

    def update() -> tuple[list[str], bytes]:
        metadata = json.dumps({"step": next(numbers)})
        return ["session", "update", "planned", "--metadata", metadata], b""

    pre = json.dumps({"agent_name": "coder", "task_id": "T-1"}).encode()
    return {
        "hook_pre_delegate": lambda: (["hook", "pre-delegate"], pre),
        "hook_subagent_stop": stop,
        "session_should_resume": lambda: (["session", "should-resume", "planned"], b""),
        "session_update": update,
    }


async def _fill(folder: Path, ending: list[str], others: int) -> None:
    """A session that is planned, those that will end, and others of other agents."""
    async with await FileStore.open(folder) as store:
        records = Records(store)
        for number in range(others):
            await records.create(NewSession("rest", agent_name=f"agent-{number % 10}"))
        for name in ending:
            await records.create(NewSession("cli", name, agent_name="tester"))
        await records.create(
            NewSession("cli", "planned", agent_name="coder", metadata={"task_id": "T-1"})
        )
        await records.update("planned", phase="planning")
