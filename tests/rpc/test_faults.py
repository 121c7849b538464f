"""What is a fault of ours: answered without a word of it, logged with the same id, and the end of
nothing."""

import asyncio
import json
import logging
from typing import Any

import pytest

from srv.rpc.budget import SMALL_BYTES_MAX
from srv.rpc.connection import Connection, Shared
from srv.rpc.methods import Method
from srv.rpc.params import Spec
from tests.rpc.tools import Transport, joined
from tests.support.daemon import TEXT, Client, frame


def fail(*_: object) -> object:
    raise RuntimeError("secret of ours")


async def fail_later(*_: object) -> object:
    raise RuntimeError("secret of ours")


def give_what_cannot_be_sent(*_: object) -> object:
    return object()


async def give_it_later(*_: object) -> object:
    return object()


def ask(link: Connection, method: str) -> None:
    link.data_received(frame(TEXT, json.dumps(Client.request(method, 1, {})).encode()))


def answers(transport: Transport) -> list[Any]:
    """What was sent, of messages of less than 64 KiB."""
    found, data = [], transport.written
    while data:
        start, size = (2, data[1]) if data[1] < 126 else (4, int.from_bytes(data[2:4], "big"))
        found.append(json.loads(data[start : start + size]))
        data = data[start + size :]
    return found


@pytest.mark.parametrize("lane", ["now", "read", "write"])
async def test_fault_of_ours_is_answered_as_internal_and_logged_with_its_id(
    shared: Shared, caplog: pytest.LogCaptureFixture, lane: Any
) -> None:
    run = fail if lane == "now" else fail_later
    shared.methods = {**shared.methods, "bad": Method(Spec({}), run, lane)}
    link, transport = joined(shared)
    with caplog.at_level(logging.ERROR):
        ask(link, "bad")
        while not transport.written:
            await shared.service.sessions.read_state("a")
    [answer] = answers(transport)
    error = answer["error"]
    assert error["code"] == -32603
    assert error["data"]["kind"] == "INTERNAL"
    assert "secret" not in json.dumps(answer)
    assert "Traceback" not in json.dumps(answer)
    [record] = caplog.records
    assert vars(record)["error_id"] == error["data"]["error_id"]
    assert record.exc_info is not None
    ask(link, "srv:health")
    assert answers(transport)[1]["result"] == {"ok": True}
    link.connection_lost(None)


@pytest.mark.parametrize("lane", ["now", "read", "write"])
@pytest.mark.parametrize("others", [None, 0, 1], ids=["alone", "batch of one", "batch"])
async def test_answer_that_cannot_be_sent_is_an_error_once(
    shared: Shared, lane: Any, others: int | None
) -> None:
    run = give_what_cannot_be_sent if lane == "now" else give_it_later
    shared.methods = {**shared.methods, "bad": Method(Spec({}), run, lane)}
    link, transport = joined(shared)
    asked = [Client.request("bad", 1, {}), *[Client.request("srv:health", 2, {})] * (others or 0)]
    text = json.dumps(asked[0] if others is None else asked).encode()
    large = text + b" " * SMALL_BYTES_MAX
    link.data_received(frame(TEXT, large))
    async with asyncio.timeout(10):
        while not transport.written:
            await shared.service.sessions.read_state("a")
    [answer] = answers(transport)
    found = [answer] if others is None else answer
    assert [each["id"] for each in found] == [each["id"] for each in asked]
    assert found[0]["error"]["data"]["kind"] == "INTERNAL"
    assert shared.budget.held_bytes == 0
    assert link._in_flight == 0
    link.drain("the end")
    assert transport.written.endswith(b"the end"), "nothing is under way any more"
