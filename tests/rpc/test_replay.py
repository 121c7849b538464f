"""The methods of replay over both transports: what they take and give, and who may call which."""

from pathlib import Path

import pytest

from filestore.replay import replay
from srv.client import Client
from srv.errors import ZonedError
from tests.client.conftest import client, daemon
from tests.client.daemon import Daemon
from tests.replay.streams import NODES_PER_TURN, turns

__all__ = ["client", "daemon"]

LINES = turns(4)


async def call(client: Client, method: str, **params: object) -> object:
    """A method that the client has no name for."""
    return await client._caller.call(method, params, repeat="read")


def by_tcp(daemon: Daemon) -> Client:
    return Client(url=daemon.rpc, token=daemon.token)


async def test_replay_gives_the_nodes_in_pages_over_both_transports(
    daemon: Daemon, client: Client
) -> None:
    await client.append_output("ada", *LINES)
    wanted = replay(LINES)
    async with by_tcp(daemon) as other:
        for each in (client, other):
            page = await each.replay("ada")
            assert page.nodes == wanted.nodes()
            assert (page.lines, page.skipped, page.torn) == (16, 0, False)
            assert (page.provider, page.next) == ("claude", None)
            first = await each.replay("ada", limit=5)
            rest = await each.replay("ada", after=first.next or 0)
            assert first.nodes + rest.nodes == wanted.nodes()
            assert first.next == 5
    archived = await client.archive("ada")
    assert archived is not None
    assert (await client.replay(archived.archive_zoneid)).nodes == wanted.nodes()
    assert (await client.replay("ada")).nodes == []


async def test_answer_has_just_the_fields_that_the_spec_names(client: Client) -> None:
    await client.append_output("ada", *LINES)
    whole = await call(client, "agent:session:replay", definition_id="ada")
    assert isinstance(whole, dict)
    assert list(whole) == ["nodes", "lines", "skipped", "torn", "provider"]
    part = await call(client, "agent:session:replay", definition_id="ada", limit=1)
    assert isinstance(part, dict)
    assert part["next"] == 1


@pytest.mark.parametrize(
    ("params", "field", "said"),
    [
        (
            {"definition_id": "ada", "provider": "cobol"},
            "provider",
            "provider 'cobol' is not known",
        ),
        ({"definition_id": "ada", "provider": 7}, "provider", "must be a text"),
        ({"definition_id": "ada", "after": -1}, "after", "must be from 0"),
        ({"definition_id": "ada", "limit": "1"}, "limit", "whole number"),
        ({}, "definition_id", "exactly one of"),
        (
            {"definition_id": "a", "archive_zoneid": "agent:a:archive:1"},
            "definition_id",
            "exactly one of",
        ),
        ({"definition_id": "ada", "from": 1}, "from", "unknown parameter"),
    ],
)
async def test_wrong_params_are_named(
    client: Client, params: dict[str, object], field: str, said: str
) -> None:
    with pytest.raises(ZonedError, match=said) as caught:
        await call(client, "agent:session:replay", **params)
    assert (caught.value.kind, caught.value.data["field"]) == ("INVALID_PARAMS", field)


async def test_archive_that_is_not_there_is_not_found(client: Client) -> None:
    with pytest.raises(ZonedError) as caught:
        await client.replay("agent:ada:archive:7")
    assert caught.value.kind == "NOT_FOUND"


@pytest.mark.parametrize("method", ["srv:replay_write", "srv:recover"])
async def test_methods_of_operators_are_refused_over_tcp(
    daemon: Daemon, client: Client, method: str
) -> None:
    """Also with wrong params: whoever may not call learns nothing."""
    await client.append_output("ada", *LINES)
    async with by_tcp(daemon) as other:
        for params in ({"definition_id": "ada"} if method == "srv:replay_write" else {}, {"x": 1}):
            with pytest.raises(ZonedError) as caught:
                await call(other, method, **params)
            assert caught.value.kind == "UNAUTHORIZED"
        assert (await other.read_session("ada")).content is None
        assert (await other.health())["ok"], "the connection lives on"


async def test_replay_write_and_recover_over_the_socket(client: Client) -> None:
    await client.append_output("ada", *LINES)
    await client.write_state("ada", b"{ no JSON")
    found = await call(client, "srv:recover", dry_run=True)
    assert isinstance(found, dict)
    assert (found["checked"], found["total"]) == (1, 1)
    (row,) = found["found"]
    assert (row["zone"], row["trouble"], "done" in row) == (
        "agent:ada:current",
        "unparsable",
        False,
    )
    done = await call(client, "srv:replay_write", definition_id="ada")
    assert isinstance(done, dict)
    assert (done["written"], done["trouble"], done["covered"]) == (True, "unparsable", 16)
    assert done["node_count"] == 4 * NODES_PER_TURN
    assert (await client.read_archive(str(done["kept"]))).content == b"{ no JSON"
    assert (await client.read_session("ada")).version == done["version"]
    again = await call(client, "srv:replay_write", definition_id="ada", force=True)
    assert isinstance(again, dict)
    assert not again["written"]
    assert await call(client, "srv:recover") == {"checked": 2, "total": 2, "found": []}


async def test_others_are_served_while_a_long_stream_is_replayed(
    daemon: Daemon, client: Client, tmp_path: Path
) -> None:
    """More replays than may run at a time: some are told to come again, and the client does."""
    import asyncio

    for _ in range(5):
        await client.append_output("big", *turns(1000))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(client.replay("big", limit=1)) for _ in range(8)]
        while not all(task.done() for task in tasks):
            assert (await client.health())["ok"]
    assert {task.result().lines for task in tasks} == {20_000}
