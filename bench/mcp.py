"""MCP over stdio: submitting and querying, against a tool of the same library that says a constant.

What is measured is the whole way of a call: the client, both ends of the pipes, the server, and
what we do in between: checking, the daemon over its socket, and a durable commit.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from bench.measure import Context, Row, Target, compare, in_turn

COMMAND = [sys.executable, "-m", "srv.cli.main"]
SUBMIT = Target("≤", 3.0)
QUERY = Target("≤", 3.0)
TOOLS = (
    ("submit_agent_session", "mcp_submit", SUBMIT),
    ("query_agent_history", "mcp_query", QUERY),
)
QUERIED = "queried"
"""A session of one observation: a query reads all that there are."""
Call = Callable[[int], Awaitable[object]]


async def mcp_calls(context: Context) -> list[Row]:
    """One client, one call after another, and 64 at a time."""
    count = context.pick(10, 100, 300)
    folder = context.fresh("mcp")
    with _daemon(folder):
        async with (
            Client(_server("serve", str(folder))) as ours,
            Client(_server("constant", "")) as theirs,
        ):
            await ours.call_tool("submit_agent_session", _document(0) | {"session_id": QUERIED})
            rows = []
            for at_a_time, suffix in ((1, ""), (64, "_64")):
                baseline = _timed(_constant_call(theirs), count, at_a_time)
                for tool, name, target in TOOLS:
                    mine = _timed(_call_of(ours, tool), count, at_a_time)
                    rows.append(await _against(context, name + suffix, target, mine, baseline))
            return rows


def _call_of(client: Client, tool: str) -> Call:
    async def call(number: int) -> object:
        return await client.call_tool(tool, _arguments(tool, number))

    return call


def _constant_call(client: Client) -> Call:
    async def call(number: int) -> object:
        return await client.call_tool("constant", _document(number))

    return call


async def _against(
    context: Context,
    name: str,
    target: Target,
    ours: Callable[[], Awaitable[float]],
    baseline: Callable[[], Awaitable[float]],
) -> Row:
    pairs = await in_turn(ours, baseline, context.rounds)
    mine, theirs = (1e6 / median(side) for side in zip(*pairs, strict=True))
    note = f"{mine:,.0f} calls/s against {theirs:,.0f}"
    return compare(name, pairs, "µs", target, note)


def _timed(call: Call, count: int, at_a_time: int) -> Callable[[], Awaitable[float]]:
    """Microseconds a call, of `count` calls."""

    async def lane(numbers: range) -> None:
        for number in numbers:
            await call(number)

    async def run() -> float:
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for first in range(at_a_time):
                group.create_task(lane(range(first, count, at_a_time)))
        return (time.perf_counter() - started) / count * 1e6

    return run


def _document(number: int) -> dict[str, Any]:
    return {
        "session_id": f"session-{number % 50}",
        "actions": [{"type": "edit", "result": "passed", "details": {"path": "a/b.py", "n": 1}}],
        "checkpoints": [{"name": "a", "timestamp": "2026-01-31T09:30:00Z", "state": {"n": 1}}],
        "started_at": "2026-01-31T09:00:00Z",
    }


def _arguments(tool: str, number: int) -> dict[str, Any]:
    return _document(number) if tool == TOOLS[0][0] else {"session_id": QUERIED}


def _server(what: str, folder: str) -> StdioServerParameters:
    if what == "constant":
        return StdioServerParameters(command=sys.executable, args=["-m", "bench.mcp"])
    words = [*COMMAND[1:], "mcp", "--data-dir", folder]
    return StdioServerParameters(command=COMMAND[0], args=words)


@contextmanager
def _daemon(folder: Path) -> Iterator[None]:
    words = [*COMMAND, "serve", "--data-dir", str(folder), "--port", "0"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["ready"]
        try:
            yield
        finally:
            process.terminate()


async def _constant() -> None:
    """The baseline: as much of the library as we use, and nothing behind it."""
    said = {"entity_id": "ent_0", "observation_count": 1, "warnings": []}
    text = json.dumps(said)

    async def list_tools(_: object, __: object) -> types.ListToolsResult:
        tool = types.Tool(name="constant", input_schema={"type": "object"})
        return types.ListToolsResult(tools=[tool])

    async def call_tool(_: object, __: object) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=said)

    server = Server("constant", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(_constant())
