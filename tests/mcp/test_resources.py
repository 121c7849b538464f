"""Sessions as resources, and being told of their changes, over both transports."""

import json
from pathlib import Path

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp.types import TextResourceContents

from srv.client.blocking import BlockingClient
from srv.errors import ZonedError
from srv.mcp.resources import session_of, uri_of
from tests.client.daemon import Daemon
from tests.mcp.tools import WAYS, Heard, Way, ask, connected, document

ODD = "ü /?#%{x}: one"


@pytest.mark.parametrize("name", ["a", "A.b-c_d~9", ODD, "a" * 256, "日本"])
def test_uri_of_a_session_names_it(name: str) -> None:
    assert session_of(uri_of(name)) == name
    assert uri_of(name).isascii()


@pytest.mark.parametrize(
    "uri",
    ["", "zoned://session/", "zoned://other/a", "https://a", "zoned://session/a b",
     "zoned://session/%61", "zoned://session/%ff", "zoned://session/a/b"],
)  # fmt: skip
def test_other_uris_are_refused(uri: str) -> None:
    with pytest.raises(ZonedError, match="no URI of a session"):
        session_of(uri)


@pytest.mark.parametrize("way", ["stdio-legacy", "http-auto"])
async def test_sessions_are_listed_and_read(way: Way, daemon: Daemon, folder: Path) -> None:
    name = f"{ODD} {way}"
    with BlockingClient(daemon.socket) as others:
        for number in range(101):
            content = json.dumps(document(f"one of many {number}"))
            others.call("session:submit", {"content": content})
    async with connected(way, daemon, folder) as client:
        await ask(client, "submit_agent_session", **document(name))
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "zoned://session/{session_id}"
        first = await client.list_resources()
        assert len(first.resources) == 100
        assert (first.resources[0].name, first.resources[0].uri) == (name, uri_of(name))
        second = await client.list_resources(cursor=first.next_cursor)
        assert not {each.uri for each in first.resources} & {each.uri for each in second.resources}
        assert len(second.resources) >= 2
        (read,) = (await client.read_resource(uri_of(name))).contents
        assert isinstance(read, TextResourceContents)
        found = json.loads(read.text)
        assert found["snapshot"] == document(name)
        assert found["session"]["session_id"] == name
        for uri in (uri_of("nobody"), "zoned://other/x"):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            assert caught.value.error.code == -32602
        with pytest.raises(MCPError, match="none of ours"):
            await client.list_resources(cursor="x")


async def subscribe(client: Client, uri: str, other: str) -> None:
    """Subscribe to one, and to another one for a moment: deprecated, and still in use."""
    await client.subscribe_resource(uri)
    await client.subscribe_resource(other)
    await client.unsubscribe_resource(other)


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("way", WAYS)
async def test_subscriber_is_told_of_changes_by_others(
    way: Way, daemon: Daemon, folder: Path
) -> None:
    """Of records and of a pane's stream; and not of what it has not asked for."""
    name, other, heard = f"watched {way}", f"other {way}", Heard()
    uri = uri_of(name)

    def change(session_id: str) -> None:
        with BlockingClient(daemon.socket) as others:
            content = json.dumps(document(session_id))
            others.call("session:submit", {"content": content})

    async with connected(way, daemon, folder, heard) as client:
        if way.endswith("auto"):
            async with client.listen(resource_subscriptions=[uri]) as events:
                change(other)
                change(name)
                assert await anext(aiter(events)) == ResourceUpdated(uri)
            return
        await subscribe(client, uri, uri_of(other))
        change(other)
        change(name)
        assert await heard.uri() == uri
        change(name)
        assert await heard.uri() == uri
