"""The writer of an agent's stream: every line once and in order, whatever happens to the rest."""

import asyncio
import random
from pathlib import Path

import pytest

from srv.client import Client, OutputWriter
from srv.client.output import BATCH_BYTES_MAX, BATCH_LINES_MAX
from srv.errors import ZonedError
from tests.client.daemon import Daemon
from tests.client.proxy import proxy, random_budget, unlimited
from tests.client.test_client import all_lines
from tests.support.faults import until

AGENT = "agent-1"


async def sessions_lines(client: Client) -> list[bytes]:
    """The lines of all sessions, the oldest first."""
    archives = await client.list_archives(AGENT, 100)
    found: list[bytes] = []
    for row in reversed(archives):
        found += await all_lines(client, row.archive_zoneid)
    return found + await all_lines(client, AGENT)


async def test_lines_are_stored_in_order_at_the_end_of_the_block(client: Client) -> None:
    count = 3 * BATCH_LINES_MAX + 1
    async with client.output(AGENT) as writer:
        for number in range(count):
            await writer.append(f"line {number}")
    assert writer.unacknowledged == []
    assert writer.buffered_bytes == 0
    assert await all_lines(client, AGENT) == [f"line {n}".encode() for n in range(count)]


async def test_flush_returns_when_all_before_it_is_stored(client: Client) -> None:
    async with client.output(AGENT) as writer:
        for number in range(10):
            await writer.append(str(number))
            await writer.flush()
            assert (await client.read_session(AGENT)).output_lines == number + 1


async def test_text_with_breaks_is_several_lines_and_blank_ones_are_dropped(
    client: Client,
) -> None:
    async with client.output(AGENT) as writer:
        await writer.append("one\n\n  \ntwo\n")
        await writer.append("")
        await writer.append(b"\xff\r\n")
        await writer.append("\u3000\n")
        await writer.append("three")
    assert await all_lines(client, AGENT) == [b"one", b"two", b"\xff\r", b"three"]


async def test_large_lines_go_out_in_batches_of_their_own(client: Client) -> None:
    lines = [bytes([65 + number]) * (BATCH_BYTES_MAX - 1) for number in range(4)]
    async with client.output(AGENT) as writer:
        for line in lines:
            await writer.append(line)
    assert await all_lines(client, AGENT) == lines


async def test_line_that_is_too_large_is_refused_alone(client: Client) -> None:
    async with client.output(AGENT, line_bytes_max=100) as writer:
        await writer.append("before")
        with pytest.raises(ZonedError) as caught:
            await writer.append("x" * 101)
        await writer.append("after")
    assert caught.value.kind == "TOO_LARGE"
    assert await all_lines(client, AGENT) == [b"before", b"after"]


async def test_several_tasks_append_in_the_order_of_their_calls(client: Client) -> None:
    async with client.output(AGENT, buffer_bytes_max=300) as writer:
        await asyncio.gather(*(writer.append(f"{number:03}") for number in range(100)))
    assert await all_lines(client, AGENT) == [f"{number:03}".encode() for number in range(100)]


async def test_writer_goes_on_behind_lines_that_were_there(client: Client) -> None:
    await client.append_output(AGENT, "same", "same")
    async with client.output(AGENT) as writer:
        await writer.append("same")
    async with client.output(AGENT) as writer:
        await writer.append("same")
    assert await all_lines(client, AGENT) == [b"same"] * 4


async def test_lines_of_another_are_neither_lost_nor_in_the_way(client: Client) -> None:
    async with client.output(AGENT) as writer:
        for number in range(50):
            await writer.append(f"mine {number}")
            if number % 10 == 5:
                await writer.flush()
                await client.append_output(AGENT, f"other {number}")
    found = await all_lines(client, AGENT)
    assert [line for line in found if b"mine" in line] == [f"mine {n}".encode() for n in range(50)]
    assert len(found) == 55


async def test_two_writers_lose_nothing_and_double_nothing(daemon: Daemon) -> None:
    async with Client(daemon.socket) as one, Client(daemon.socket) as two:

        async def write(client: Client, name: str) -> None:
            async with client.output(AGENT, buffer_bytes_max=1000) as writer:
                for number in range(300):
                    await writer.append(f"{name} {number}")

        await asyncio.gather(write(one, "a"), write(two, "b"))
        found = await all_lines(one, AGENT)
    for name in ("a", "b"):
        mine = [line for line in found if line.startswith(name.encode())]
        assert mine == [f"{name} {number}".encode() for number in range(300)]


async def test_lines_after_an_archive_come_into_the_next_session(client: Client) -> None:
    async with client.output(AGENT) as writer:
        await writer.append("first")
        await writer.flush()
        archived = await client.archive(AGENT)
        await writer.append("second")
        await writer.flush()
        await client.archive(AGENT)
        await client.write_state(AGENT, "a session without lines")
        await writer.append("third")
    assert archived is not None
    assert await all_lines(client, archived.archive_zoneid) == [b"first"]
    assert await sessions_lines(client) == [b"first", b"second", b"third"]
    assert await all_lines(client, AGENT) == [b"third"]


async def test_error_that_does_not_pass_ends_the_writer(daemon: Daemon) -> None:
    async with Client(daemon.socket) as client:
        with pytest.raises(ZonedError) as caught:
            async with client.output("no such:id") as writer:
                await writer.append("one")
        assert caught.value.kind == "INVALID_DEFINITION_ID"
        assert writer.unacknowledged == [b"one"]
        with pytest.raises(ZonedError):
            await writer.append("two")


async def test_closed_writer_refuses(client: Client) -> None:
    async with client.output(AGENT) as writer:
        await writer.append("one")
        await writer.close()
        with pytest.raises(ZonedError, match="this writer is closed"):
            await writer.append("two")
    assert await all_lines(client, AGENT) == [b"one"]


async def test_error_in_the_block_is_raised_and_lines_are_stored(client: Client) -> None:
    async def fail() -> None:
        async with client.output(AGENT) as writer:
            await writer.append("one")
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await all_lines(client, AGENT) == [b"one"]


# -- the daemon is slow, gone, or cut off


async def fill(writer: OutputWriter, lines: list[bytes], taken: list[bytes]) -> None:
    for line in lines:
        await writer.append(line)
        taken.append(line)


async def test_frozen_daemon_holds_the_writer_back_within_its_memory(
    daemon: Daemon, client: Client
) -> None:
    bytes_max = 200_000
    lines = [f"{number:06} ".encode() + b"x" * 1000 for number in range(1000)]
    taken: list[bytes] = []
    async with client.output(AGENT, buffer_bytes_max=bytes_max) as writer:
        for line in (b"first", b"second"):
            await writer.append(line)
            await writer.flush()
        daemon.freeze()
        await writer.append(lines[0])
        async with asyncio.TaskGroup() as group:
            group.create_task(fill(writer, lines[1:], taken))
            with pytest.raises(ZonedError, match="not acknowledged"):
                await writer.flush(timeout_s=0.3)
            count = len(taken)
            assert 0 < count < 200
            assert writer.buffered_bytes <= bytes_max
            # Cancelled while it waits, a line is not taken.
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(writer.append("never"), 0.1)
            assert len(taken) == count
            # Other writes of this agent have to wait for it, but not beyond their own deadline.
            with pytest.raises(ZonedError) as late:
                await client.write_state(AGENT, "late", timeout_s=0.1)
            assert late.value.kind == "UNAVAILABLE"
            daemon.thaw()
    assert await all_lines(client, AGENT) == [b"first", b"second", *lines]


@pytest.mark.parametrize("seed", range(6))
async def test_lines_through_cuts_are_there_once_and_in_order(
    daemon: Daemon, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    # Equal lines, too: what stands there already must not be taken for what is to come.
    lines = [rng.choice([b"same", f"{n} ".encode() * rng.randint(1, 50)]) for n in range(600)]
    async with proxy(tmp_path, daemon.socket, random_budget(rng, 8000)) as between:
        client = Client(between.path, rng=rng)
        bytes_max = rng.randint(500, 5000)
        async with client, client.output(AGENT, buffer_bytes_max=bytes_max) as writer:
            for number, line in enumerate(lines):
                await writer.append(line)
                if number % 50 == 49:
                    await client.write_state(AGENT, f"state {number}", timeout_s=60)
            await writer.flush()
        assert between.cuts > 0, seed
    async with Client(daemon.socket) as direct:
        assert await all_lines(direct, AGENT) == lines
        assert (await direct.read_session(AGENT)).content == b"state 599"


@pytest.mark.parametrize("seed", range(6))
async def test_lines_through_cuts_and_archives_are_there_once_and_in_order(
    daemon: Daemon, tmp_path: Path, seed: int
) -> None:
    """Somebody else finishes the session again and again while the writer is cut off."""
    rng = random.Random(seed)
    lines = [f"{number}".encode() for number in range(400)]
    async with (
        # Enough for the longest list of archives, or it would never get through.
        proxy(tmp_path, daemon.socket, random_budget(rng, 12_000)) as between,
        Client(daemon.socket) as direct,
        Client(between.path, rng=rng) as client,
    ):
        async with client.output(AGENT, buffer_bytes_max=1000) as writer:
            for line in lines:
                await writer.append(line)
                if rng.random() < 0.05:
                    await direct.archive(AGENT)
                if rng.random() < 0.05:
                    between.cut_all()
            await writer.flush()
        assert between.cuts > 0, seed
        assert await sessions_lines(direct) == lines


@pytest.mark.parametrize("is_archived", [False, True])
async def test_first_lines_of_a_session_whose_answer_is_lost_are_found(
    daemon: Daemon, tmp_path: Path, is_archived: bool
) -> None:
    """The writer does not know the session's id yet, and the session may be finished by then."""
    async with (
        proxy(tmp_path, daemon.socket, unlimited) as between,
        Client(daemon.socket) as direct,
        Client(between.path) as client,
    ):
        between.muted_by = b"append_output"

        async def is_there() -> bool:
            return (await direct.read_session(AGENT)).output_lines > 0

        async with client.output(AGENT) as writer:
            await writer.append("one")
            await writer.append("two")
            await until(is_there, 20)
            if is_archived:
                await direct.archive(AGENT)
            between.cut_all()
            between.muted_by = b""
            await writer.append("three")
        assert await sessions_lines(direct) == [b"one", b"two", b"three"]
        assert len(await direct.list_archives(AGENT)) == is_archived


@pytest.mark.parametrize("seed", range(3))
async def test_killed_daemon_under_a_writer_has_every_line_once(daemon: Daemon, seed: int) -> None:
    rng = random.Random(seed)
    lines = [f"{number} ".encode() * rng.randint(1, 30) for number in range(4000)]
    async with Client(daemon.socket, rng=rng) as client:
        async with client.output(AGENT, buffer_bytes_max=20_000) as writer:
            kills = set(rng.sample(range(100, 4000), 3))
            for number, line in enumerate(lines):
                await writer.append(line)
                if number in kills:
                    daemon.kill()
                    daemon.start()
            await writer.flush()
        assert await all_lines(client, AGENT) == lines
