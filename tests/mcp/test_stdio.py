"""`zoned mcp` as a process: its stdout, its end, its start, and the daemon under it."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.subscriptions import ResourceUpdated

from tests.cli.tools import Zoned, finish
from tests.client.daemon import Daemon
from tests.docs.test_readme import README, blocks
from tests.mcp.tools import Heard, ask, command, document
from tests.support.processes import COMMAND, END_S_MAX, ROOT, environment, running

INITIALIZE = {
    "jsonrpc": "2.0", "id": 0, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {},
               "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def lines(*messages: object) -> bytes:
    return b"".join(
        (each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n"
        for each in messages
    )


def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.fixture
def zoned(tmp_path: Path) -> Zoned:
    return Zoned(tmp_path / "data")


def test_what_was_read_is_answered_when_the_input_ends(zoned: Zoned) -> None:
    """And nothing but messages is on stdout, each in one line, whatever came in between."""
    submits = [call(n, "submit_agent_session", **document("piped")) for n in range(1, 51)]
    broken = [b"no json", b'{"jsonrpc": "2.0"}', b"[]", b"", b"\xff", b'{"id": NaN}']
    broken += [b'"\\ud800"', b"[" * 500 + b"]" * 500]
    broken += [b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}']
    done = zoned("mcp", stdin=lines(INITIALIZE, INITIALIZED, *broken, *submits)[:-1])
    assert (done.code, done.err) == (0, "")
    answers = [json.loads(line) for line in done.out.splitlines()]
    by_id = {each["id"]: each for each in answers if each["id"] is not None}
    assert by_id[0]["result"]["protocolVersion"] == "2025-06-18"
    counts = [by_id[n]["result"]["structuredContent"]["observation_count"] for n in range(1, 51)]
    assert sorted(counts) == list(range(1, 51))
    refused = [each["error"]["code"] for each in answers if each["id"] is None]
    assert refused == [-32700, -32600, -32600, -32700, -32700, -32700, -32700, -32600]


def test_line_that_is_too_long_is_refused_and_the_next_one_read(zoned: Zoned) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    long = b'{"x": "' + b"x" * (1 << 20) + b'"}'
    given = lines(INITIALIZE, long, ping)
    done = zoned("mcp", stdin=given, ZONED_MESSAGE_BYTES_MAX=str(64 << 10))
    answers = [json.loads(line) for line in done.out.splitlines()]
    by_id = {each["id"]: each for each in answers}
    assert by_id.keys() == {0, None, 1}
    assert by_id[1]["result"] == {}
    assert by_id[None]["error"] == {"code": -32600, "message": "the message is too large"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_is_a_clean_end(zoned: Zoned, number: signal.Signals) -> None:
    process = zoned.start("mcp")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines(INITIALIZE))
    process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(number)
    # The input is still open.
    assert process.wait(END_S_MAX) == 0
    assert finish(process) == (0, b"", "")


async def test_folder_is_free_again_when_there_is_nothing_to_do(zoned: Zoned) -> None:
    """Without a daemon; and a daemon can be started beside it."""
    async with Client(command(zoned.folder)) as client:
        await ask(client, "submit_agent_session", **document("alone"))
        await asyncio.to_thread(zoned.ok, "append", "ada", stdin=b"x\n")
        with Daemon(zoned.folder):
            done = await ask(client, "submit_agent_session", **document("alone"))
        assert done["observation_count"] == 2
        done = await ask(client, "submit_agent_session", **document("alone"))
        assert done["observation_count"] == 3


async def test_change_of_a_folder_without_daemon_is_told(zoned: Zoned) -> None:
    heard = Heard()

    async def hear(message: Any) -> None:
        heard(message)

    async with Client(command(zoned.folder), message_handler=hear) as client:
        await ask(client, "submit_agent_session", **document("alone"))
        async with client.listen(resource_subscriptions=["zoned://session/alone"]) as events:
            await ask(client, "submit_agent_session", **document("alone"))
            event = await anext(aiter(events))
    assert event == ResourceUpdated("zoned://session/alone")


async def test_restarted_and_killed_daemons_lose_and_double_nothing(tmp_path: Path) -> None:
    """Four submit one after another while the daemon is killed, again and again: what was answered
    is there, each once.
    """
    folder = tmp_path / "data"
    acknowledged = dict.fromkeys(("lane 0", "lane 1", "lane 2", "lane 3"), 0)
    is_over = asyncio.Event()
    answers: asyncio.Queue[str] = asyncio.Queue()

    async def submit(client: Client, name: str) -> None:
        while not is_over.is_set():
            done = await ask(client, "submit_agent_session", **document(name))
            acknowledged[name] += 1
            answers.put_nowait(name)
            assert done["observation_count"] == acknowledged[name]

    async def kill(daemon: Daemon) -> None:
        for is_killed in (True, False):
            for _ in range(20):
                await answers.get()
            if is_killed:
                daemon.kill()
            else:
                assert await asyncio.to_thread(daemon.end) == 0
            await asyncio.to_thread(daemon.start)
        is_over.set()

    with Daemon(folder) as daemon:
        async with Client(command(folder)) as client:
            async with asyncio.TaskGroup() as group:
                for name in acknowledged:
                    group.create_task(submit(client, name))
                group.create_task(kill(daemon))
            for name, count in acknowledged.items():
                known = await ask(client, "query_agent_history", session_id=name)
                assert known["observation_count"] == count


async def test_settings_in_readme_add_zoned_to_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a client would start it, with `zoned` on its path."""
    (settings,) = [each for each in blocks(README, "json") if "mcpServers" in each]
    server = json.loads(settings)["mcpServers"]["zoned"]
    script = tmp_path / "zoned"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {" ".join(COMMAND)} "$@"\n')
    script.chmod(0o755)
    params = command(tmp_path).model_copy(
        update={
            "command": str(tmp_path / server["command"]),
            "args": server["args"],
            "env": environment(**server["env"]),
            "cwd": tmp_path,
        }
    )
    async with Client(params) as client:
        assert len((await client.list_tools()).tools) == 6
        await ask(client, "list_sessions")
    assert (tmp_path / "tour" / "zoned.db").exists()


# -- what is imported


LOADED = "import sys; print([name for name in sys.modules if name.split('.')[0] in {names}])"


@pytest.mark.parametrize(
    "modules",
    ["srv.daemon, srv.http.mcp, srv.cli.start, srv.rpc.table", "srv.cli.main, srv.cli.local"],
)
def test_nothing_else_imports_the_library(modules: str) -> None:
    names = ("mcp", "mcp_types", "starlette", "pydantic")
    code = f"import {modules}; {LOADED.format(names=names)}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_daemon_that_nobody_asked_by_mcp_has_not_loaded_it(tmp_path: Path) -> None:
    with running([*COMMAND, "serve", "--data-dir", str(tmp_path / "data"), "--port", "0"]) as one:
        assert one.stdout is not None
        assert json.loads(one.stdout.readline())["ready"]
        mapped = Path(f"/proc/{one.pid}/maps").read_text(encoding="utf-8")
        assert "aiohttp" in mapped
        assert "pydantic_core" not in mapped


def test_command_loads_no_web_server(zoned: Zoned) -> None:
    """It starts in the time that the library takes, and nothing else is in its way."""
    code = (
        "import sys; sys.argv = ['zoned', 'mcp']; from srv.cli.main import main; main(); "
        "print([n for n in ('aiohttp', 'uvloop', 'srv.daemon', 'srv.http.app') "
        "if n in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, input=lines(INITIALIZE), capture_output=True,
        env=environment(ZONED_DATA_DIR=str(zoned.folder)), check=True,
    )  # fmt: skip
    assert done.stderr == b"[]\n"
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "zoned"
