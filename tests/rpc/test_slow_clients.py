"""Clients that do not read, stop in the middle, or vanish: they cost the others nothing, and the
daemon no more than a bounded share of memory."""

import asyncio
import contextlib
import functools
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from srv import websocket
from srv.http.access import Access
from srv.http.front import Doors, Front
from srv.rpc import connection, goodbye
from srv.rpc.connection import Shared
from tests.rpc.tools import MIB, Transport, is_gone, joined
from tests.support.daemon import TEXT, Client, Daemon, frame, read_all, serving, upgrade
from tests.support.faults import until_sync


def open_connections(client: Client) -> int:
    count: int = client.call("srv:info")["counts"]["connections"]
    return count


def until_alone(client: Client) -> None:
    until_sync(lambda: open_connections(client) == 1, 10.0, 0.01)


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that may hold little, for few."""
    config = {"message_bytes_max": 4 * MIB, "state_bytes_max": 3 * MIB, "held_bytes_max": 8 * MIB,
              "queue_bytes_max": 8 * MIB, "connections_max": 20}  # fmt: skip
    with serving(tmp_path_factory.mktemp("tight") / "data", config=config) as daemon:
        yield daemon
        assert daemon.end() == 0
        assert [each for each in daemon.events() if each["level"] == "error"] == []


@pytest.mark.slow
def test_client_that_never_reads_holds_bounded_memory_and_nobody_up(tight: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(tight.client(is_unix=True))
        other.call("agent:session:write_state", definition_id="big", content="x" * (3 * MIB))
        deaf = [stack.enter_context(tight.client(is_unix=True)) for _ in range(8)]
        before = tight.rss_bytes
        for client in deaf:
            for _ in range(100):
                client.start("agent:session:read", definition_id="big")
        for _ in range(200):
            assert other.is_alive()
        other.call("agent:session:append_output", definition_id="a", line="written meanwhile")
        assert tight.rss_bytes - before < 150 * MIB
        # Reads wait until those who read nothing are cut off, which is soon.
        page = other.call("agent:session:read_output", definition_id="a")
        assert page["lines"] == ["written meanwhile"]
        for client in deaf:
            client.sock.close()
        until_alone(other)
        assert len(other.call("agent:session:read", definition_id="big")["content"]) == 3 * MIB


def test_small_requests_without_reading_are_not_read_for_ever(tight: Daemon) -> None:
    with tight.client(is_unix=True) as other, tight.client(is_unix=True) as deaf:
        before = tight.rss_bytes
        deaf.sock.settimeout(0.5)
        request = frame(TEXT, b'{"jsonrpc":"2.0","id":1,"method":"srv:info"}') * 1000
        with contextlib.suppress(TimeoutError):
            for _ in range(1000):
                deaf.sock.sendall(request)
            raise AssertionError("the daemon took fifty megabytes from one that does not listen")
        assert tight.rss_bytes - before < 60 * MIB
        assert other.is_alive()


def test_messages_in_fragments_do_not_wait_for_each_other_for_ever(tight: Daemon) -> None:
    """Each holds a part of the budget and wants more; together they want more than there is."""
    content = b"y" * (3 * MIB)
    payload = (
        b'{"jsonrpc":"2.0","id":1,"method":"agent:session:write_state","params":'
        b'{"definition_id":"NAME","content":"' + content + b'"}}'
    )
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(tight.client(is_unix=True)) for _ in range(6)]
        payloads = [payload.replace(b"NAME", b"f%d" % index) for index in range(6)]
        step = MIB // 2
        waiting = dict(enumerate(clients))
        rest = {index: _fragments(each, step) for index, each in enumerate(payloads)}
        for client in clients:
            client.sock.setblocking(False)
        left: dict[int, bytes] = dict.fromkeys(waiting, b"")
        started = time.monotonic()
        while waiting:
            assert time.monotonic() - started < 15, "they wait for each other"
            for index, client in list(waiting.items()):
                left[index] = left[index] or (rest[index].pop(0) if rest[index] else b"")
                with contextlib.suppress(BlockingIOError):
                    left[index] = left[index][client.sock.send(left[index]) :]
                if not left[index] and not rest[index]:
                    del waiting[index]
        for client in clients:
            client.sock.settimeout(20)
            assert client.result(1)["bytes_written"] == len(content)


def _fragments(payload: bytes, step: int) -> list[bytes]:
    parts = [payload[at : at + step] for at in range(0, len(payload), step)]
    return [
        frame(0 if index else TEXT, part, is_final=index == len(parts) - 1)
        for index, part in enumerate(parts)
    ]


def test_half_a_message_does_not_hold_others_up(tight: Daemon) -> None:
    with tight.client(is_unix=True) as half, tight.client(is_unix=True) as other:
        half.sock.sendall(frame(TEXT, b"{" * 1000, claimed=4 * MIB))
        for number in range(5):
            content = str(number) * (2 * MIB)
            other.call("agent:session:write_state", definition_id="h", content=content)
        half.sock.close()
        until_alone(other)


def test_connections_that_vanish_leave_nothing(tight: Daemon) -> None:
    with tight.client(is_unix=True) as other:
        until_alone(other)
        for index in range(300):
            client = tight.client(is_unix=index % 2 == 0)
            client.start("agent:session:append_output", definition_id="v", line=str(index))
            if index % 3 == 0:
                client.start("agent:session:subscribe", definition_id="v")
                client.start("agent:session:read", definition_id="big")
            if index % 2:
                # Gone with a reset instead of a goodbye.
                client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sock.close()
            if index % 10 == 9:
                until_alone(other)
        until_alone(other)
        assert other.call("srv:info")["counts"]["subscriptions"] == 0


def test_half_closed_client_hears_the_end_and_its_write_is_done(tight: Daemon) -> None:
    with tight.client(is_unix=True) as other:
        with tight.client() as client:
            client.start("agent:session:append_output", definition_id="half", line="done")
            client.sock.shutdown(socket.SHUT_WR)
            closed = client.closed()
            assert closed.code in (None, 1000)
        until_sync(
            lambda: other.call("agent:session:read", definition_id="half")["output_lines"] == 1, 5.0
        )


def test_connections_over_the_limit_are_refused_until_some_go(tight: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(tight.client(is_unix=True))
        until_alone(first)
        clients = [stack.enter_context(tight.client()) for _ in range(19)]
        assert tight.http(upgrade(tight)).status == 503
        with tight.open(is_unix=True) as sock:
            assert b" 503 " in read_all(sock)
        assert all(client.is_alive() for client in clients)
        clients[0].sock.close()
        until_sync(lambda: open_connections(first) == 19, 5.0, 0.01)
        with tight.client() as again:
            assert again.is_alive()


# -- what is about time, without waiting: a clock that a test sets


async def test_sweep_cuts_off_who_does_not_read(shared: Shared) -> None:
    link, transport = joined(shared)
    now = asyncio.get_running_loop().time()
    link.pause_writing()
    assert transport.is_paused
    link.sweep(now + connection.STUCK_S_MAX - 1)
    assert not is_gone(transport)
    link.sweep(now + connection.STUCK_S_MAX + 1)
    assert is_gone(transport)
    link.connection_lost(None)
    assert shared.budget.held_bytes == 0


async def test_sweep_spares_who_reads_slowly(shared: Shared) -> None:
    link, transport = joined(shared)
    now = asyncio.get_running_loop().time()
    link.pause_writing()
    for step in range(10):
        transport.unread -= 1
        link.sweep(now + step * 20)
    assert not is_gone(transport)
    link.sweep(now + 10 * 20 + connection.STUCK_S_MAX)
    assert is_gone(transport)
    link.connection_lost(None)


async def test_sweep_cuts_off_sooner_who_keeps_others_waiting(shared: Shared) -> None:
    link, transport = joined(shared)
    now = asyncio.get_running_loop().time()
    link.pause_writing()
    shared.budget.add(5 * MIB)
    room = shared.group.create_task(shared.budget.room())
    await _turns()
    link.sweep(now + connection.STUCK_SHORT_S_MAX + 0.1)
    assert is_gone(transport)
    link.connection_lost(None)
    shared.budget.give(5 * MIB)
    await room


@pytest.mark.parametrize("is_enough", [False, True])
async def test_sweep_cuts_off_who_reads_in_drops_what_others_wait_for(
    shared: Shared, is_enough: bool
) -> None:
    link, transport = joined(shared)
    now = asyncio.get_running_loop().time()
    link.pause_writing()
    shared.budget.add(5 * MIB)
    room = shared.group.create_task(shared.budget.room())
    await _turns()
    transport.unread = 48 * MIB
    for step in range(1, 6):
        link.sweep(now + step)
        transport.unread -= connection.READ_BYTES_MIN - (not is_enough)
    assert is_gone(transport) is not is_enough
    link.connection_lost(None)
    shared.budget.give(5 * MIB)
    await room


async def test_sweep_spares_who_reads_again(shared: Shared) -> None:
    link, transport = joined(shared)
    now = asyncio.get_running_loop().time()
    link.pause_writing()
    link.resume_writing()
    link.sweep(now + connection.STUCK_S_MAX + 1)
    assert not is_gone(transport)
    assert not transport.is_paused
    link.connection_lost(None)


async def test_sweep_pings_and_then_cuts_off_who_is_silent(shared: Shared) -> None:
    link, transport = joined(shared)
    now = asyncio.get_running_loop().time()
    link.sweep(now + connection.PING_S - 1)
    assert transport.written == b""
    link.sweep(now + connection.PING_S + 1)
    assert transport.written == websocket.encode(websocket.PING, b"")
    link.sweep(now + connection.SILENT_S_MAX + 1)
    assert is_gone(transport)
    link.connection_lost(None)


async def test_sweep_cuts_off_half_a_message_and_frees_its_share(shared: Shared) -> None:
    link, transport = joined(shared)
    now = asyncio.get_running_loop().time()
    link.data_received(frame(TEXT, b"{", claimed=MIB))
    assert shared.budget.held_bytes == MIB
    limit_s = connection.MESSAGE_S_MAX + MIB / connection.MESSAGE_BYTES_S_MIN
    link.sweep(now + limit_s - 1)
    assert not is_gone(transport)
    link.data_received(b" ")  # a byte now and then does not help
    link.sweep(now + limit_s + 1)
    assert is_gone(transport)
    link.connection_lost(None)
    assert shared.budget.held_bytes == 0


async def test_goodbye_is_followed_by_the_close_when_the_peer_is_silent(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing on requests unread resets a TCP connection: answers are lost, and the goodbye."""
    link, transport = joined(shared)
    looks: list[Callable[[], None]] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda _, call, *given: looks.append(
        functools.partial(call, *given)))  # fmt: skip
    link.pause_writing()
    link.drain("the daemon is stopping")
    assert b"the daemon is stopping" in transport.written
    assert not transport.is_paused, "what was sent before is read"
    for _ in range(3):
        link.data_received(b"more")
        looks.pop()()
        assert not is_gone(transport)
    looks.pop()()
    assert is_gone(transport)
    assert not looks
    link.connection_lost(None)


async def test_peer_that_goes_on_after_the_goodbye_is_closed_on(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(goodbye, "LINGER_S", 0.0)
    monkeypatch.setattr(goodbye, "LINGER_S_MAX", 0.0)
    link, transport = joined(shared)
    link.drain("the daemon is stopping")
    while not is_gone(transport):
        link.data_received(b"more")
        await _turns()
    link.connection_lost(None)


async def test_message_that_does_not_fit_waits_and_is_not_swept(shared: Shared) -> None:
    links = [joined(shared) for _ in range(4)]
    now = asyncio.get_running_loop().time()
    for link, _ in links:
        link.data_received(frame(TEXT, b"{", claimed=2 * MIB))
    assert [transport.is_paused for _, transport in links] == [False, False, True, True]
    assert shared.budget.held_bytes == 4 * MIB
    links[2][0].sweep(now + 1000)
    assert not links[2][1].is_aborted, "it is the daemon that holds it up"
    links[0][0].connection_lost(None)
    await asyncio.wait_for(_turns(), 1)
    assert [transport.is_paused for _, transport in links[2:]] == [False, True]
    links[3][0].connection_lost(None)
    for link, _ in links[1:3]:
        link.connection_lost(None)
    await _turns()
    assert shared.budget.held_bytes == 0


async def test_fragmented_message_takes_its_whole_share_at_once(shared: Shared) -> None:
    one, two = joined(shared)[0], joined(shared)[0]
    for link in (one, two):
        link.data_received(frame(TEXT, b"x" * 100_000, is_final=False))
    assert shared.budget.held_bytes == 4 * MIB, "what the largest message would take, each"
    for link in (one, two):
        link.data_received(frame(0, b"x" * 100_000, is_final=False) * 5)
    assert shared.budget.held_bytes == 4 * MIB
    for link in (one, two):
        link.connection_lost(None)
    assert shared.budget.held_bytes == 0


async def _turns() -> None:
    """Let everything that is due happen."""
    loop = asyncio.get_running_loop()
    for _ in range(5):
        future = loop.create_future()
        loop.call_soon(future.set_result, None)
        await future


async def test_front_sweep_closes_who_says_nothing(shared: Shared) -> None:
    config = shared.service.config
    doors = Doors(shared, Access(config, "t" * 43, 1), cast("type[asyncio.Protocol]", None), 0)
    front, transport = Front(doors), Transport()
    front.connection_made(transport)
    doors.sweep(front.since + config.header_timeout_s - 0.1)
    assert not is_gone(transport)
    doors.sweep(front.since + config.header_timeout_s + 0.1)
    assert is_gone(transport)
    front.connection_lost(None)
    assert not doors.waiting


async def test_call_of_a_client_that_vanished_runs_to_its_end(shared: Shared) -> None:
    link, _ = joined(shared)
    for number in range(3):
        request = Client.request("agent:session:append_output", number,
                                 {"definition_id": "gone", "line": str(number)})  # fmt: skip
        link.data_received(frame(TEXT, json.dumps(request).encode()))
    link.connection_lost(ConnectionResetError())
    sessions = shared.service.sessions
    while (await sessions.read_state("gone")).output_lines < 3:
        await _turns()
    assert (await sessions.read_output("gone")).lines == [b"0", b"1", b"2"]


async def test_batches_that_fill_the_budget_do_not_wait_for_room_that_they_hold(
    shared: Shared,
) -> None:
    """Their reads waited until less was held, and what was held was theirs: for ever."""
    transports = []
    for number in range(3):
        link, transport = joined(shared)
        agent = {"definition_id": f"agent-{number}"}
        batch = [
            Client.request("agent:session:write_state", 1, {**agent, "content": "x" * 1_900_000}),
            Client.request("agent:session:read_output", 2, agent),
        ]
        link.data_received(frame(TEXT, json.dumps(batch).encode()))
        transports.append(transport)
    assert shared.budget.held_bytes > 4 * MIB
    try:
        async with asyncio.timeout(10):
            while not all(transport.written for transport in transports):
                await shared.service.sessions.read_state("a")
        assert shared.budget.held_bytes == 0
    finally:
        shared.budget.give(shared.budget.held_bytes)  # or those who wait would not let the test end
