"""The asyncio client against the daemon: every method, deadlines, cancelling, lost connections."""

import asyncio
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from srv.client import Client, caller
from srv.errors import ZonedError
from tests.client.daemon import Daemon
from tests.client.proxy import proxy, random_budget, unlimited
from tests.support.faults import until

if TYPE_CHECKING:
    from filestore.sessions.model import SessionChange

AGENT = "agent-1"


async def all_lines(client: Client, place: str) -> list[bytes]:
    found: list[bytes] = []
    while True:
        page = await client.read_output(place, from_line=len(found))
        found += page.lines
        if page.next_line >= page.total_lines:
            return found


async def test_state_round_trip_keeps_bytes_and_version(client: Client) -> None:
    written = await client.write_state(AGENT, b"\xff\x00", if_version=0)
    assert (written.bytes_written, written.unchanged) == (2, False)
    read = await client.read_session(AGENT)
    assert (read.content, read.version) == (b"\xff\x00", written.version)
    assert read.session_id == written.session_id
    again = await client.write_state(AGENT, b"\xff\x00", if_version=0)
    assert again.unchanged


async def test_error_answer_has_kind_and_data(client: Client) -> None:
    written = await client.write_state(AGENT, "one")
    with pytest.raises(ZonedError) as caught:
        await client.write_state(AGENT, "two", if_version=written.version + 1)
    assert caught.value.kind == "VERSION_CONFLICT"
    assert caught.value.data["current_version"] == written.version
    with pytest.raises(ZonedError) as invalid:
        await client.read_session("no such:id")
    assert invalid.value.kind == "INVALID_DEFINITION_ID"


async def test_life_of_a_session_by_all_methods(client: Client) -> None:
    appended = await client.append_output(AGENT, "one", b"\xfftwo")
    assert (appended.first_line, appended.lines) == (0, 2)
    await client.write_state(AGENT, '{"nodes": []}')
    assert (await client.read_output(AGENT, tail=1)).lines == [b"\xfftwo"]
    archived = await client.archive(AGENT)
    assert archived is not None
    assert await client.archive(AGENT) is None
    zone = archived.archive_zoneid
    (row,) = await client.list_archives(AGENT)
    assert (row.archive_zoneid, row.output_lines) == (zone, 2)
    assert (await client.read_archive(zone)).content == b'{"nodes": []}'
    assert (await client.read_output(zone, from_line=1)).lines == [b"\xfftwo"]
    copied = await client.fork(zone, "agent-2")
    assert (await client.read_session("agent-2")).session_id == copied
    restored = await client.restore(zone)
    assert (restored.session_id, restored.archived) == (row.session_id, "")
    assert {agent.definition_id for agent in await client.list_agents()} == {AGENT, "agent-2"}
    archived = await client.archive(AGENT, session_id=restored.session_id)
    assert archived is not None
    assert await client.delete_archive(archived.archive_zoneid)
    assert not await client.delete_archive(archived.archive_zoneid)
    assert (await client.info())["protocol"] == 1
    assert await client.health() == {"ok": True}


async def test_tcp_needs_the_token(daemon: Daemon) -> None:
    async with await Client.connect(url=daemon.url, token=daemon.token) as client:
        assert await client.health() == {"ok": True}
    with pytest.raises(ZonedError) as caught:
        await Client.connect(url=daemon.rpc, token="x" * 43)
    assert caught.value.kind == "UNAUTHORIZED"
    async with Client(url=daemon.url) as without:
        with pytest.raises(ZonedError) as lazily:
            await without.health()
    assert lazily.value.kind == "UNAUTHORIZED"


async def test_address_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(ZonedError, match="give the path"):
        Client()
    with pytest.raises(ZonedError, match="give the path"):
        Client(tmp_path / "s", url="http://127.0.0.1:1")


async def test_absent_daemon_fails_a_connect_at_once_and_a_call_at_its_deadline(
    tmp_path: Path,
) -> None:
    with pytest.raises(ZonedError) as caught:
        await Client.connect(tmp_path / "none.sock")
    assert (caught.value.kind, caught.value.data["daemon"]) == ("UNAVAILABLE", "absent")
    async with Client(tmp_path / "none.sock", timeout_s=0.2) as client:
        with pytest.raises(ZonedError, match="no daemon listens there") as late:
            await client.append_output(AGENT, "one")
        assert late.value.kind == "UNAVAILABLE"


async def test_many_calls_at_once_are_all_answered(client: Client) -> None:
    """More than the window, and more than the daemon takes in flight."""
    written = await asyncio.gather(
        *(client.write_state(f"agent-{number}", f"{number}") for number in range(600))
    )
    assert all(done.bytes_written for done in written)
    read = await asyncio.gather(*(client.read_session(f"agent-{n}") for n in range(600)))
    assert [state.content for state in read] == [str(n).encode() for n in range(600)]


async def test_writes_of_one_agent_are_done_in_the_order_of_their_calls(client: Client) -> None:
    await asyncio.gather(*(client.append_output(AGENT, str(number)) for number in range(200)))
    assert await all_lines(client, AGENT) == [str(number).encode() for number in range(200)]


async def test_frozen_daemon_ends_calls_at_their_deadline(daemon: Daemon, client: Client) -> None:
    await client.health()
    daemon.freeze()
    with pytest.raises(ZonedError) as read:
        await client.read_session(AGENT, timeout_s=0.1)
    with pytest.raises(ZonedError) as write:
        await client.write_state(AGENT, "late", timeout_s=0.1)
    daemon.thaw()
    assert (read.value.kind, write.value.kind) == ("UNAVAILABLE", "COMMIT_UNKNOWN")
    # The late answers are let go, and the connection is as good as before.
    await client.write_state(AGENT, "later")
    assert (await client.read_session(AGENT)).content == b"later"


async def test_cancelled_callers_leave_the_connection_whole(daemon: Daemon) -> None:
    """Seeded: callers are cancelled at all stages; every other one must get its own answer."""
    rng = random.Random(7)
    async with await Client.connect(daemon.socket, window=8) as client:
        for number in range(20):
            await client.write_state(f"agent-{number}", f"{number}" * 1000)

        async def ask(number: int) -> None:
            state = await client.read_session(f"agent-{number}")
            assert state.content == f"{number}".encode() * 1000

        async with asyncio.TaskGroup() as group:
            for turn in range(2000):
                task = group.create_task(ask(turn % 20))
                if rng.random() < 0.5:
                    asyncio.get_running_loop().call_later(rng.uniform(0, 0.02), task.cancel)
                if rng.random() < 0.05:
                    await asyncio.wait([task])
        await ask(3)
        async with asyncio.timeout(20):
            await asyncio.gather(*(ask(number % 20) for number in range(64)))


async def test_append_without_guard_is_never_repeated(daemon: Daemon, tmp_path: Path) -> None:
    """The request gets through, its answer does not."""
    async with (
        proxy(tmp_path, daemon.socket, unlimited) as between,
        Client(between.path) as client,
    ):
        await client.health()
        daemon.freeze()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(expect_unknown(client))
            await until_sent(client)
            between.cut_all()
            daemon.thaw()
            await task
        assert len(await all_lines(client, AGENT)) <= 1


async def expect_unknown(client: Client) -> None:
    with pytest.raises(ZonedError) as caught:
        await client.append_output(AGENT, "one")
    assert caught.value.kind == "COMMIT_UNKNOWN"


async def until_sent(client: Client) -> None:
    """Another request behind it is out as well: its deadline tells."""
    with pytest.raises(ZonedError):
        await client.health(timeout_s=0.1)


async def test_calls_go_on_after_kill_and_restart(daemon: Daemon, client: Client) -> None:
    await client.write_state(AGENT, "before")
    daemon.kill()
    async with asyncio.TaskGroup() as group:
        read = group.create_task(client.read_session(AGENT))
        write = group.create_task(client.write_state("agent-2", "after"))
        daemon.start()
    assert read.result().content == b"before"
    assert write.result().bytes_written == 5


async def test_daemon_that_stops_in_order_is_waited_for(daemon: Daemon, client: Client) -> None:
    await client.write_state(AGENT, "before")
    assert daemon.end() == 0
    daemon.start()
    assert (await client.read_session(AGENT)).content == b"before"


async def test_closed_client_refuses(client: Client) -> None:
    changes = await client.subscribe(AGENT)
    await client.close()
    await client.close()
    with pytest.raises(ZonedError, match="this client is closed"):
        await client.health()
    with pytest.raises(ZonedError, match="this client is closed"):
        await anext(changes)


async def test_write_under_way_when_the_client_is_closed_is_unknown(
    daemon: Daemon, client: Client
) -> None:
    await client.health()
    daemon.freeze()

    async def write() -> None:
        with pytest.raises(ZonedError) as caught:
            await client.write_state(AGENT, "one")
        assert caught.value.kind == "COMMIT_UNKNOWN"

    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        await until_sent(client)
        await client.close()
    daemon.thaw()


async def test_message_that_is_too_large_is_refused_and_not_repeated(client: Client) -> None:
    with pytest.raises(ZonedError) as caught:
        await client.append_output(AGENT, *[bytes(1 << 20)] * 65, timeout_s=caller.FOREVER)
    assert caught.value.kind == "TOO_LARGE"
    with pytest.raises(ZonedError) as state:
        await client.write_state(AGENT, bytes(49 << 20), timeout_s=caller.FOREVER)
    assert state.value.kind == "TOO_LARGE"
    assert await client.health() == {"ok": True}


async def test_too_many_lines_are_refused_and_not_repeated(client: Client) -> None:
    with pytest.raises(ZonedError):
        await client.append_output(AGENT, *["x"] * 10_001, timeout_s=20)
    assert await client.health() == {"ok": True}


@pytest.mark.parametrize("seed", range(4))
async def test_guarded_writes_through_cuts_are_done_once(
    daemon: Daemon, tmp_path: Path, seed: int
) -> None:
    """Every write gets its answer, and what is stored is what the answers say."""
    rng = random.Random(seed)
    async with proxy(tmp_path, daemon.socket, random_budget(rng, 4000)) as between:
        async with Client(between.path, timeout_s=60, rng=rng) as client:
            version, session_id = 0, ""
            for number in range(40):
                content = f"{seed}.{number}." * rng.randint(1, 60)
                written = await client.write_state(AGENT, content, if_version=version)
                assert written.version > version
                version, session_id = written.version, written.session_id
            archived = await client.archive(AGENT)
            assert archived is not None
            copied = await client.fork(archived.archive_zoneid, "agent-2")
            restored = await client.restore(archived.archive_zoneid)
            assert restored.session_id == session_id
        assert between.cuts > 0, seed
    async with Client(daemon.socket) as direct:
        assert (await direct.read_session(AGENT)).content == content.encode()
        assert (await direct.read_session("agent-2")).session_id == copied
        assert await direct.list_archives(AGENT) == []
        assert await direct.list_archives("agent-2") == []


# -- subscriptions


async def test_subscription_tells_what_happens_after_it_began(client: Client) -> None:
    changes = await client.subscribe(AGENT)
    written = await client.write_state(AGENT, "one")
    await client.append_output(AGENT, "line", b"\xff")
    archived = await client.archive(AGENT)
    assert archived is not None
    state, output, finished = [await anext(changes) for _ in range(3)]
    assert (state.kind, state.version) == ("state", written.version)
    assert (output.kind, output.data, output.lines) == ("output", b"line\n\xff\n", 2)
    assert (finished.kind, finished.zone) == ("archived", archived.archive_zoneid)
    again = await client.subscribe(AGENT, since=state.position)
    assert [await anext(again), await anext(again)] == [output, finished]
    assert again.position == finished.position


async def test_subscription_that_began_before_anything_happened_loses_nothing(
    daemon: Daemon, tmp_path: Path
) -> None:
    async with (
        proxy(tmp_path, daemon.socket, unlimited) as between,
        Client(between.path) as client,
        Client(daemon.socket) as other,
    ):
        changes = await client.subscribe(AGENT)
        between.cut_all()
        await other.write_state(AGENT, "one")
        assert (await anext(changes)).kind == "state"


async def test_subscription_after_restart_is_told_of_a_gap(daemon: Daemon, client: Client) -> None:
    changes = await client.subscribe(AGENT)
    await client.write_state(AGENT, "one")
    daemon.kill()
    daemon.start()
    await client.write_state(AGENT, "two")
    kinds = [(await anext(changes)).kind for _ in range(2)]
    assert kinds in (["state", "gap"], ["gap", "state"])


async def test_slow_consumer_finds_a_gap(client: Client) -> None:
    changes = await client.subscribe(AGENT, events_max=5)
    for number in range(20):
        await client.write_state(AGENT, str(number))
    # What comes after the answer to the last write is behind all of them.
    await client.health()
    first = await anext(changes)
    assert first.kind == "gap"


async def test_closed_subscription_ends_its_iteration(client: Client) -> None:
    changes = await client.subscribe(AGENT)
    await client.write_state(AGENT, "one")
    await changes.aclose()
    assert [change async for change in changes] == []

    async def is_forgotten() -> bool:
        counts = (await client.info())["counts"]
        assert isinstance(counts, dict)
        return bool(counts["subscriptions"] == 0)

    await until(is_forgotten, 20)


async def test_invalid_subscription_is_refused(client: Client) -> None:
    with pytest.raises(ZonedError) as caught:
        await client.subscribe("no such:id")
    assert caught.value.kind == "INVALID_DEFINITION_ID"


@pytest.mark.parametrize("seed", range(4))
async def test_subscription_through_cuts_tells_everything_once(
    daemon: Daemon, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    count = 150
    async with proxy(tmp_path, daemon.socket, random_budget(rng, 3000)) as between:
        async with Client(between.path, rng=rng) as client, Client(daemon.socket) as other:
            changes = await client.subscribe(AGENT, timeout_s=60)
            found: list[SessionChange] = []

            async def follow() -> None:
                async for change in changes:
                    found.append(change)
                    if change.data == f"{count - 1}\n".encode():
                        return

            async with asyncio.timeout(90), asyncio.TaskGroup() as group:
                group.create_task(follow())
                for number in range(count):
                    await other.append_output(AGENT, str(number))
        assert between.cuts > 0, seed
    assert [change.kind for change in found] == ["output"] * count
    assert [change.data for change in found] == [f"{n}\n".encode() for n in range(count)]
