"""Requests, notifications, batches and ids; the order of writes; and the limits, each refused
loudly."""

import json
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest

from tests.support.daemon import BINARY, TEXT, Client, Daemon, Failed, frame, serving, upgrade

SMALL = {
    "message_bytes_max": 200_000,
    "state_bytes_max": 1000,
    "line_bytes_max": 100,
    "lines_per_append_max": 5,
    "requests_in_flight_max": 8,
    "batch_max": 10,
    "subscriptions_max": 2,
    "queue_bytes_max": 200_000,
    "held_bytes_max": 300_000,
}
INFO = {"jsonrpc": "2.0", "id": 1, "method": "srv:health"}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with small limits, all from its file."""
    with serving(tmp_path_factory.mktemp("small") / "data", config=SMALL) as daemon:
        yield daemon
        assert daemon.end() == 0


# -- requests


@pytest.mark.parametrize("number", [0, -1, 7, (1 << 64) - 1, -(1 << 63), "", "a", "é" * 256, None])
def test_id_comes_back_as_it_was(client: Client, number: Any) -> None:
    client.send(INFO | {"id": number})
    assert client.receive() == {"jsonrpc": "2.0", "id": number, "result": {"ok": True}}


def test_name_that_stands_twice_counts_as_it_stands_last(daemon: Daemon) -> None:
    agents = [b'"agent-twice"', b'"no such:id"']
    for names, kind in ((agents, "INVALID_DEFINITION_ID"), (agents[::-1], None)):
        with daemon.client() as pane:
            params = b",".join(b'"definition_id":' + name for name in names)
            pane.send_frame(
                TEXT,
                b'{"jsonrpc":"2.0","id":1,"method":"srv:none","id":2,"params":{%b},'
                b'"method":"agent:session:read"}' % params,
            )
            answer = pane.receive()
            assert answer["id"] == 2
            assert answer.get("error", {}).get("data", {}).get("kind") == kind
        with daemon.client(is_binary=True) as binary:
            packed = [msgpack.packb(json.loads(name)) for name in names]
            head = msgpack.packb({"jsonrpc": "2.0", "id": 2, "method": "agent:session:read"})
            twice = b"\x82" + b"".join(msgpack.packb("definition_id") + each for each in packed)
            payload = b"\x84" + head[1:] + msgpack.packb("params") + twice
            binary.send_frame(BINARY, payload)
            assert binary.receive().get("error", {}).get("data", {}).get("kind") == kind


def test_params_of_null_or_none_are_none_given(client: Client) -> None:
    cases: list[dict[str, Any]] = [{}, {"params": None}, {"params": {}}]
    for more in cases:
        client.send(INFO | more)
        assert client.receive()["result"] == {"ok": True}


def test_notification_is_done_and_not_answered(client: Client, agent: str) -> None:
    params = {"definition_id": agent, "line": "quiet"}
    note = {"jsonrpc": "2.0", "method": "agent:session:append_output", "params": params}
    client.send(note)
    client.send(note | {"method": "srv:nothing"})
    client.send(note | {"params": {"definition_id": "a b"}})
    client.call("agent:session:append_output", definition_id=agent, line="loud")
    page = client.call("agent:session:read_output", definition_id=agent)
    assert page["lines"] == ["quiet", "loud"]


# -- batches


def test_batch_is_answered_in_one_array_in_its_order(client: Client, agent: str) -> None:
    append = {"jsonrpc": "2.0", "method": "agent:session:append_output"}
    client.send([
        INFO,
        append | {"id": 2, "params": {"definition_id": agent, "line": "a"}},
        append | {"params": {"definition_id": agent, "line": "b"}},
        5,
        append | {"id": "x", "params": {"definition_id": agent, "nothing": 1}},
        INFO | {"id": 9, "method": "agent:session:read", "params": {"definition_id": "none"}},
    ])  # fmt: skip
    answers = client.receive()
    assert [each["id"] for each in answers] == [1, 2, None, "x", 9]
    assert ["error" in each for each in answers] == [False, False, True, True, False]
    assert answers[1]["result"]["first_line"] == 0
    page = client.call("agent:session:read_output", definition_id=agent)
    assert page["lines"] == ["a", "b"]


def test_batch_of_notifications_is_not_answered_at_all(client: Client) -> None:
    client.send([{"jsonrpc": "2.0", "method": "srv:info"}] * 3)
    assert client.is_alive()


def test_batch_over_the_limit_is_refused_whole(client: Client) -> None:
    client.send([INFO] * 100)
    assert len(client.receive()) == 100
    client.send([INFO] * 101)
    answer = client.receive()
    assert answer["error"]["data"] == {"kind": "TOO_LARGE", "limit": 100}


def test_batch_with_too_large_an_answer_leaves_out_what_does_not_fit(daemon: Daemon) -> None:
    """Its answers wait for each other; a hundred large states would be gigabytes."""
    with daemon.client(is_unix=True) as client:
        for number in range(2):
            client.call(
                "agent:session:write_state", definition_id=f"big{number}", content="x" * (40 << 20)
            )
        read = [
            Client.request("agent:session:read", number, {"definition_id": f"big{number % 2}"})
            for number in range(10)
        ]
        daemon.reset_peak()
        client.send(read)
        answers = client.receive()
        assert [each["id"] for each in answers] == list(range(10))
        fitting = [each for each in answers if "result" in each]
        assert len(fitting) == 1
        assert {each["error"]["data"]["kind"] for each in answers if "error" in each} == {
            "TOO_LARGE"
        }
        assert daemon.peak_bytes < 900 << 20
        assert client.is_alive()


# -- order


def test_writes_of_one_agent_keep_their_order(client: Client, agent: str) -> None:
    """A large snapshot prepares long; what follows must not overtake it."""
    large = "x" * 3_000_000
    started = [
        client.start("agent:session:write_state", definition_id=agent, content=large),
        client.start("agent:session:append_output", definition_id=agent, line="first"),
        client.start("agent:session:archive", definition_id=agent),
        client.start("agent:session:append_output", definition_id=agent, line="second"),
        client.start("agent:session:write_state", definition_id=agent, content="small"),
    ]
    answers = {answer["id"]: answer["result"] for answer in (client.receive() for _ in started)}
    zone = answers[started[2]]["archive_zoneid"]
    archived = client.call("agent:session:read_archive", archive_zoneid=zone)
    assert archived["content"] == large
    assert archived["output_lines"] == 1
    now = client.call("agent:session:read", definition_id=agent)
    assert (now["content"], now["output_lines"]) == ("small", 1)
    assert answers[started[4]]["session_id"] == now["session_id"]


def test_appends_behind_a_write_of_another_agent_keep_their_order(
    client: Client, agent: str
) -> None:
    client.start("agent:session:write_state", definition_id=f"{agent}x", content="y" * 2_000_000)
    for number in range(100):
        client.start("agent:session:append_output", definition_id=agent, line=str(number))
    for _ in range(101):
        assert "result" in client.receive()
    page = client.call("agent:session:read_output", definition_id=agent)
    assert page["lines"] == [str(number) for number in range(100)]


def test_thousands_of_pipelined_appends_keep_their_order(client: Client, agent: str) -> None:
    sent = answered = 0
    while answered < 4000:
        while sent < 4000 and sent - answered < 256:
            client.start("agent:session:append_output", definition_id=agent, line=str(sent))
            sent += 1
        assert client.receive()["result"]["first_line"] == answered
        answered += 1
    page = client.call("agent:session:read_output", definition_id=agent)
    assert page["lines"] == [str(number) for number in range(4000)]


def test_requests_are_answered_as_they_finish(client: Client, agent: str) -> None:
    client.call("agent:session:write_state", definition_id=agent, content="x" * 1_000_000)
    requests = [
        Client.request("agent:session:read", "slow", {"definition_id": agent}),
        Client.request("srv:health", "quick", {}),
    ]
    # Both at once, or the first may be answered before the second is there.
    if client.is_binary:
        frames = [frame(BINARY, msgpack.packb(each)) for each in requests]
    else:
        frames = [frame(TEXT, json.dumps(each).encode()) for each in requests]
    client.sock.sendall(b"".join(frames))
    assert client.result("quick") == {"ok": True}
    assert len(client.result("slow")["content"]) == 1_000_000


def test_read_after_an_acknowledged_write_sees_it(daemon: Daemon, agent: str) -> None:
    with daemon.client() as one, daemon.client(is_unix=True) as two:
        for number in range(50):
            one.call("agent:session:write_state", definition_id=agent, content=str(number))
            assert two.call("agent:session:read", definition_id=agent)["content"] == str(number)


# -- limits


def failed(client: Client, method: str, **params: Any) -> Failed:
    with pytest.raises(Failed) as caught:
        client.call(method, **params)
    return caught.value


def test_limits_of_the_file_are_shown(small: Daemon) -> None:
    with small.client() as client:
        assert client.call("srv:info")["limits"].items() >= SMALL.items()


@pytest.mark.parametrize(
    ("method", "params", "limit"),
    [
        ("write_state", {"content": "x" * 1001}, 1000),
        ("write_state", {"content": "é" * 501}, 1000),
        ("append_output", {"line": "x" * 101}, 100),
        ("append_output", {"line": "a\n" + "x" * 101}, 100),
        ("append_output", {"lines": ["a", "x" * 101]}, 100),
        ("append_output", {"lines": ["a"] * 6}, 5),
        ("append_output", {"lines": ["a\nb\nc", "d\ne\nf"]}, 5),
        ("append_output", {"line": "a\nb\nc\nd\ne\nf"}, 5),
    ],
)
def test_too_much_is_refused_with_the_limit(
    small: Daemon, method: str, params: dict[str, Any], limit: int
) -> None:
    with small.client() as client:
        error = failed(client, f"agent:session:{method}", definition_id="big", **params)
        assert (error.kind, error.code, error.data["limit"]) == ("TOO_LARGE", -32003, limit)
        assert error.data["field"] in params
        read = client.call("agent:session:read", definition_id="big")
        assert (read["version"], read["output_lines"]) == (0, 0), "nothing of it was done"


def test_just_not_too_much_is_taken(small: Daemon) -> None:
    with small.client() as client:
        client.call("agent:session:write_state", definition_id="fit", content="x" * 1000)
        client.call("agent:session:append_output", definition_id="fit", lines=["y" * 100] * 5)
        client.call("agent:session:append_output", definition_id="fit", line="z" * 100 + "\n")


def test_more_requests_than_allowed_in_flight_are_busy(small: Daemon) -> None:
    with small.client() as client:
        request = {"definition_id": "busy", "line": "x"}
        frames = [
            Client.request("agent:session:append_output", number, request) for number in range(200)
        ]
        client.sock.sendall(b"".join(frame(TEXT, json.dumps(each).encode()) for each in frames))
        answers = [client.receive() for _ in frames]
        assert sorted(each["id"] for each in answers) == list(range(200))
        refused = [each["error"] for each in answers if "error" in each]
        assert refused
        assert {each["data"]["kind"] for each in refused} == {"BUSY"}
        assert all(each["data"]["retry_after_ms"] > 0 for each in refused)
        lines = client.call("agent:session:read_output", definition_id="busy")["lines"]
        assert len(lines) == 200 - len(refused), "what was busy was not done, all else was"


def test_batch_over_a_small_limit_is_refused(small: Daemon) -> None:
    with small.client() as client:
        client.send([INFO] * 11)
        assert client.receive()["error"]["data"]["limit"] == 10


def test_message_over_the_limit_is_closed_with_1009_and_others_live_on(small: Daemon) -> None:
    with small.client() as other, small.client() as client:
        client.send_frame(TEXT, b"x" * 200_001)
        closed = client.closed()
        assert closed.code == 1009
        assert "200000" in closed.reason
        assert other.is_alive()


def test_message_of_just_the_limit_is_read(small: Daemon) -> None:
    with small.client() as client:
        payload = json.dumps(INFO).encode()
        client.send_frame(TEXT, payload + b" " * (200_000 - len(payload)))
        assert client.receive()["result"] == {"ok": True}


def test_message_with_too_many_values_is_refused(pane: Client, daemon: Daemon) -> None:
    """A few bytes each, they would take gigabytes, and the daemon's time."""
    daemon.reset_peak()
    before = daemon.peak_bytes
    for opcode, payload in (
        (TEXT, b"[" + b"[]," * 4_000_000 + b"[]]"),
        (TEXT, b'{"a":[' + b'"",' * 4_000_000 + b'""]}'),
        (TEXT, b"[" + b'{"a":1},' * 2_000_000 + b"[]]"),
        (BINARY, b"\xdc\x04\x00" + (b"\xdc\x27\x10" + b"\x90" * 10_000) * 1024),
        (BINARY, b"\xdc\x04\x00" + (b"\xdc\x27\x10" + b"\xa1x" * 10_000) * 1024),
    ):
        pane.is_binary = opcode == BINARY
        pane.send_frame(opcode, payload)
        error = pane.receive()["error"]
        assert error["data"]["kind"] == "TOO_LARGE", error
        assert pane.is_alive()
    assert daemon.peak_bytes - before < 300 << 20


def test_content_full_of_marks_is_not_taken_for_many_values(pane: Client, agent: str) -> None:
    content = '[{"a": "b\\\\", "c": []}, ' * 150_000
    wrote = pane.call("agent:session:write_state", definition_id=agent, content=content)
    assert wrote["bytes_written"] == len(content)


def test_answer_is_in_the_encoding_of_its_request(daemon: Daemon) -> None:
    with daemon.client() as client:
        client.send_frame(TEXT, json.dumps(INFO).encode())
        opcode, payload = client.receive_frame()
        assert (opcode, json.loads(payload)["id"]) == (TEXT, 1)
        client.send_frame(BINARY, msgpack.packb(INFO))
        opcode, payload = client.receive_frame()
        assert (opcode, msgpack.unpackb(payload)["id"]) == (BINARY, 1)


def test_writes_over_the_bytes_of_the_queue_are_busy(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Refused with a time to come back; nothing that was refused is there, nothing else is lost."""
    config = {"message_bytes_max": 100_000, "queue_bytes_max": 100_000}
    with serving(tmp_path_factory.mktemp("queue") / "data", config=config) as daemon:
        with daemon.client(is_unix=True) as client:
            requests = [
                Client.request(
                    "agent:session:append_output",
                    number,
                    {"definition_id": "a", "line": f"{number} " + "x" * 5000},
                )
                for number in range(200)
            ]
            client.sock.sendall(
                b"".join(frame(TEXT, json.dumps(each).encode()) for each in requests)
            )
            answers = [client.receive() for _ in requests]
            refused = {each["id"]: each["error"]["data"] for each in answers if "error" in each}
            assert refused
            assert {data["kind"] for data in refused.values()} == {"BUSY"}
            assert all(data["retry_after_ms"] > 0 for data in refused.values())
            page = client.call("agent:session:read_output", definition_id="a")
            kept = [int(line.split()[0]) for line in page["lines"]]
            assert kept == [number for number in range(200) if number not in refused]
        assert daemon.end() == 0


def test_messages_sent_along_with_the_upgrade_are_answered(daemon: Daemon) -> None:
    payload = json.dumps(INFO).encode()
    head = upgrade(daemon) + frame(TEXT, payload).decode("latin-1") * 3
    with Client(daemon.open(), head) as client:
        for _ in range(3):
            assert client.receive()["result"] == {"ok": True}
