"""`/mcp`: who may, its bounds, its end, and clients that come back."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from srv.client.blocking import BlockingClient
from srv.http.mcp import BODY_BYTES_MAX
from tests.client.daemon import Daemon
from tests.mcp.test_stdio import INITIALIZE, call
from tests.mcp.tools import PATIENCE_S, ask, connected, document, http_client
from tests.support.faults import until

ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with few sessions that soon are idle."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    (folder / "zoned.toml").write_text('mcp_sessions_max = 2\nmcp_idle = "1s"\n')
    return folder


async def begin(http: httpx2.AsyncClient, url: str) -> httpx2.Response:
    return await http.post(url, json=INITIALIZE, headers=ACCEPT)


async def begun(http: httpx2.AsyncClient, url: str) -> httpx2.Response:
    """A new session, as soon as there is room for one."""
    made: list[httpx2.Response] = []

    async def attempt() -> bool:
        made.append(await begin(http, url))
        return made[-1].status_code == 200

    await until(attempt, PATIENCE_S)
    assert {each.status_code for each in made[:-1]} <= {503}
    return made[-1]


@asynccontextmanager
async def listening(http: httpx2.AsyncClient, url: str) -> AsyncIterator[httpx2.Response]:
    """The stream of a session on which it is told of changes."""
    session = {"Mcp-Session-Id": (await begin(http, url)).headers["mcp-session-id"]}
    async with http.stream("GET", url, headers=ACCEPT | session) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        yield stream


async def ended(stream: httpx2.Response) -> None:
    """It ends, one way or the other."""
    async with asyncio.timeout(PATIENCE_S):
        try:
            async for _ in stream.aiter_raw():
                pass
        except httpx2.TransportError:
            return


async def test_front_judges_before_the_library(daemon: Daemon) -> None:
    url = daemon.url + "mcp"
    async with httpx2.AsyncClient() as nobody, http_client(daemon) as http:
        assert (await begin(nobody, url)).status_code == 401
        foreign = {"Origin": "http://evil.example"}
        assert (await http.post(url, json=INITIALIZE, headers=foreign)).status_code == 403
        foreign = {"Host": "evil.example"}
        assert (await http.post(url, json=INITIALIZE, headers=foreign)).status_code == 403


async def test_bad_requests_are_refused_and_harmless(daemon: Daemon) -> None:
    url = daemon.url + "mcp"
    async with http_client(daemon) as http:

        async def status(method: str, content: bytes = b"", **headers: str) -> int:
            more = {"Content-Type": "application/json"} | ACCEPT
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            found = await http.request(method, url, content=content, headers=more | named)
            assert found.headers["cache-control"] == "no-store"
            assert "Traceback" not in found.text
            return found.status_code

        assert await status("POST", b"{") == 400
        assert await status("POST", b"[]") == 400
        assert await status("POST", b"\xff") == 400
        assert await status("POST", json.dumps(call(1, "list_sessions")).encode()) == 400
        assert await status("POST", b"{}", Accept="text/html") == 406
        assert await status("PUT", b"{}") == 405
        assert await status("GET", mcp_session_id="none") == 404
        assert await status("DELETE", mcp_session_id="none") == 404
        assert await status("POST", b"{}", mcp_protocol_version="2999-01-01") == 400
        assert await status("POST", b"x" * (BODY_BYTES_MAX + 1)) == 413

        async def unsized() -> AsyncIterator[bytes]:
            for _ in range((BODY_BYTES_MAX >> 20) + 1):
                yield b" " * (1 << 20)

        assert (await http.post(url, content=unsized(), headers=ACCEPT)).status_code == 413
        assert (await begin(http, url)).status_code == 200


async def test_sessions_are_few_and_end_when_they_are_idle(own: Path) -> None:
    with Daemon(own) as daemon:
        url = daemon.url + "mcp"
        async with http_client(daemon) as http:
            async with listening(http, url), listening(http, url):
                # Who listens is not idle.
                refused = await begin(http, url)
                assert refused.status_code == 503
                assert refused.json()["error"]["message"] == "Too many open sessions"
            made = await begun(http, url)
            await begun(http, url)
            await begun(http, url)  # two there are: the first one has ended
            session = {"Mcp-Session-Id": made.headers["mcp-session-id"]}
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert (await http.post(url, json=ping, headers=ACCEPT | session)).status_code == 404


async def test_new_token_ends_streams_of_the_old_one(tmp_path: Path) -> None:
    with Daemon(tmp_path / "data") as daemon:
        async with http_client(daemon) as http, listening(http, daemon.url + "mcp") as stream:
            with BlockingClient(daemon.socket) as others:
                others.call("srv:rotate_token", {})
            await ended(stream)
            assert (await begin(http, daemon.url + "mcp")).status_code == 401


async def test_daemon_that_is_told_to_stop_ends_all_streams(tmp_path: Path) -> None:
    with Daemon(tmp_path / "data") as daemon:
        async with (
            http_client(daemon) as http,
            listening(http, daemon.url + "mcp") as stream,
            http_client(daemon) as other,
        ):
            streams = streamable_http_client(daemon.url + "mcp", http_client=other)
            async with (
                Client(streams) as client,
                client.listen(resource_subscriptions=["zoned://session/some"]),
            ):
                assert await asyncio.to_thread(daemon.end) == 0
                await ended(stream)


async def test_client_that_comes_back_after_a_kill_finds_what_was_answered(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    with Daemon(folder) as daemon:
        async with connected("http-legacy", daemon, folder) as client:
            await ask(client, "submit_agent_session", **document("again"))
            daemon.kill()
        daemon.start()
        async with connected("http-auto", daemon, folder) as client:
            done = await ask(client, "submit_agent_session", **document("again"))
            assert done["observation_count"] == 2


async def test_client_that_hangs_up_leaves_nothing_behind(tmp_path: Path) -> None:
    """Streams are connections, which are counted, and counted out when their clients have gone."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    (folder / "zoned.toml").write_text("connections_max = 4\n")
    with Daemon(folder) as daemon:
        for _ in range(3):
            async with http_client(daemon) as http, listening(http, daemon.url + "mcp"):
                pass
            async with connected("http-auto", daemon, folder) as client:
                async with client.listen(resource_subscriptions=["zoned://session/some"]):
                    pass
                assert await ask(client, "list_sessions") == []
