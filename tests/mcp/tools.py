"""Clients of the official library, over each transport and in each way to begin."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from tests.client.daemon import Daemon
from tests.support.processes import ROOT, environment

Way = Literal["stdio-legacy", "stdio-auto", "http-legacy", "http-auto"]
WAYS: tuple[Way, ...] = ("stdio-legacy", "stdio-auto", "http-legacy", "http-auto")
"""legacy: revisions that begin with a handshake; auto: the newest, without sessions."""
START = "2026-01-31T09:00:00Z"
PATIENCE_S = 20.0


def document(session_id: str, **more: Any) -> dict[str, Any]:
    """Something to submit."""
    actions = [{"type": "edit", "result": "passed"}]
    return {"session_id": session_id, "actions": actions, "started_at": START, **more}


def command(folder: Path, **more: str) -> StdioServerParameters:
    """How a client starts `zoned mcp`."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "srv.cli.main", "mcp", "--data-dir", str(folder)],
        cwd=ROOT,
        env=environment(**more),
    )


@asynccontextmanager
async def connected(
    way: Way, daemon: Daemon, folder: Path, told: Callable[[Any], None] = lambda _: None
) -> AsyncIterator[Client]:
    """A client. `told` hears all that the server says by itself."""

    async def hear(message: Any) -> None:
        told(message)

    transport, _, mode = way.partition("-")
    if transport == "stdio":
        async with Client(command(folder), mode=mode, message_handler=hear) as client:
            yield client
        return
    async with http_client(daemon) as http:
        streams = streamable_http_client(daemon.url + "mcp", http_client=http)
        async with Client(streams, mode=mode, message_handler=hear) as client:
            yield client


def http_client(daemon: Daemon) -> httpx2.AsyncClient:
    """A client of HTTP that has the token."""
    return httpx2.AsyncClient(
        headers={"Authorization": f"Bearer {daemon.token}"}, timeout=PATIENCE_S
    )


def answer(result: CallToolResult) -> Any:
    """What a tool answered: the same in both forms."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    value = json.loads(content.text)
    structured = result.structured_content
    assert structured in (value, {"result": value})
    return value


async def ask(client: Client, tool: str, **arguments: Any) -> Any:
    """What a tool answers that must succeed."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return answer(result)


class Heard:
    """What a server says by itself."""

    def __init__(self) -> None:
        self._said: asyncio.Queue[Any] = asyncio.Queue()

    def __call__(self, message: Any) -> None:
        self._said.put_nowait(message)

    async def uri(self) -> str:
        """The resource that the next notification says is another now."""
        async with asyncio.timeout(PATIENCE_S):
            message = await self._said.get()
        assert message.method == "notifications/resources/updated"
        uri: str = message.params.uri
        return uri
