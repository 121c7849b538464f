"""Subscriptions over the wire: what is told, in which order, and how one goes on after a break."""

import re
from typing import Any

import pytest

from tests.support.daemon import Client, Daemon, Failed, serving
from tests.support.faults import until_sync


def subscribe(client: Client, agent: str, **more: Any) -> int:
    answer = client.call("agent:session:subscribe", definition_id=agent, **more)
    assert set(answer) == {"subscription", "seq"}
    number: int = answer["subscription"]
    return number


def do_everything(client: Client, agent: str) -> str:
    """One change of each kind. Returns the zone of the archive that is gone at the end."""
    client.call("agent:session:write_state", definition_id=agent, content="{}")
    client.call("agent:session:append_output", definition_id=agent, lines=["a", "b"])
    return put_away(client, agent)


def put_away(client: Client, agent: str) -> str:
    """Archive, restore, archive, delete. Returns the zone that is gone."""
    zone: str = client.call("agent:session:archive", definition_id=agent)["archive_zoneid"]
    client.call("agent:session:restore", archive_zoneid=zone)
    zone = client.call("agent:session:archive", definition_id=agent)["archive_zoneid"]
    client.call("agent:session:delete_archive", archive_zoneid=zone)
    return zone


def test_every_kind_is_told_in_order(client: Client, daemon: Daemon, agent: str) -> None:
    number = subscribe(client, agent)
    with daemon.client() as other:
        other.call("agent:session:write_state", definition_id=agent, content="{}")
        other.call("agent:session:append_output", definition_id=agent, lines=["a", "b"])
        # Before its session is deleted: what is gone by then comes without its bytes.
        notes = [client.note() for _ in range(2)]
        zone = put_away(other, agent)
    notes += [client.note() for _ in range(4)]
    assert {note["subscription"] for note in notes} == {number}
    kinds = [note["kind"] for note in notes]
    assert kinds == ["state", "output", "archived", "restored", "archived", "deleted"]
    seqs = [note["seq"] for note in notes]
    assert seqs == sorted(set(seqs))
    state, output, archived, _, _, deleted = notes
    assert set(state) == {"subscription", "seq", "kind", "version"}
    assert output | {"seq": 0} == {
        "subscription": number, "seq": 0, "kind": "output", "offset": 0, "bytes": 4,
        "first_line": 0, "lines": 2, "data": "a\nb\n",
    }  # fmt: skip
    assert set(archived) == {"subscription", "seq", "kind", "archive_zoneid"}
    assert re.fullmatch(rf"agent:{agent}:archive:[0-9]+", archived["archive_zoneid"])
    assert deleted["archive_zoneid"] == zone


def test_since_goes_on_where_another_connection_ended(daemon: Daemon, agent: str) -> None:
    with daemon.client() as first:
        subscribe(first, agent)
        do_everything(first, agent)
        seen = [first.note() for _ in range(2)]
    with daemon.client() as second:
        subscribe(second, agent, since=seen[-1]["seq"])
        rest = [second.note()["kind"] for _ in range(4)]
        assert rest == ["archived", "restored", "archived", "deleted"]
        second.call("agent:session:append_output", definition_id=agent, line="now")
        assert second.note()["data"] == "now\n"


def test_answer_to_subscribe_is_a_since_before_anything_was_told(
    daemon: Daemon, client: Client, agent: str
) -> None:
    with daemon.client() as first:
        seq = first.call("agent:session:subscribe", definition_id=agent)["seq"]
        repeat = first.call("agent:session:subscribe", definition_id=agent, since=seq)
        assert repeat["seq"] == seq
    do_everything(client, agent)
    with daemon.client() as second:
        assert second.call("agent:session:subscribe", definition_id=agent, since=seq)["seq"] == seq
        kinds = [second.note()["kind"] for _ in range(6)]
        assert kinds == ["state", "output", "archived", "restored", "archived", "deleted"]


def test_since_that_is_not_known_is_a_gap(daemon: Daemon, client: Client, agent: str) -> None:
    answer = client.call("agent:session:subscribe", definition_id=agent, since=1 << 60)
    assert client.note() == {**answer, "kind": "gap"}, "what is told begins behind the gap"
    client.call("agent:session:append_output", definition_id=agent, line="after")
    assert client.note()["kind"] == "output"


def test_what_happens_to_others_is_not_told(client: Client, agent: str) -> None:
    subscribe(client, agent)
    client.call("agent:session:append_output", definition_id=f"{agent}-b", line="theirs")
    client.call("agent:session:append_output", definition_id=agent, line="ours")
    assert client.note()["data"] == "ours\n"


def test_bytes_in_a_change_come_in_the_encoding_of_the_subscriber(
    client: Client, agent: str
) -> None:
    subscribe(client, agent)
    shape: Any = b"\xff" if client.is_binary else {"base64": "/w=="}
    client.call("agent:session:append_output", definition_id=agent, line=shape)
    wanted: Any = b"\xff\n" if client.is_binary else {"base64": "/wo="}
    assert client.note()["data"] == wanted


def test_large_output_is_told_without_its_bytes(pane: Client, agent: str) -> None:
    subscribe(pane, agent)
    pane.call("agent:session:append_output", definition_id=agent, line="x" * 100_000)
    note = pane.note()
    assert "data" not in note
    assert note["bytes"] == 100_001


def test_unsubscribe_ends_it_and_counts_are_right(daemon: Daemon, agent: str) -> None:
    with daemon.client() as client:
        # Those of clients that have just gone may still be counted.
        until_sync(lambda: client.call("srv:info")["counts"]["subscriptions"] == 0, 5.0, 0.01)
        number = subscribe(client, agent)
        kept = subscribe(client, agent)
        assert client.call("srv:info")["counts"]["subscriptions"] == 2
        assert client.call("agent:session:unsubscribe", subscription=number) == {}
        client.call("agent:session:append_output", definition_id=agent, line="x")
        assert client.note()["subscription"] == kept
        with pytest.raises(Failed, match="NOT_FOUND"):
            client.call("agent:session:unsubscribe", subscription=number)
        assert client.notes == []
        # In one message: ended before it has begun.
        client.send([
            Client.request("agent:session:subscribe", 1, {"definition_id": agent}),
            Client.request("agent:session:unsubscribe", 2, {"subscription": kept + 1}),
        ])  # fmt: skip
        assert all("result" in each for each in client.receive())
        assert client.call("srv:info")["counts"]["subscriptions"] == 1


def test_two_panes_hear_of_each_other(daemon: Daemon, agent: str) -> None:
    with daemon.client() as one, daemon.client(is_unix=True, is_binary=True) as two:
        subscribe(one, agent)
        subscribe(two, agent)
        for number in range(100):
            writer = (one, two)[number % 2]
            writer.call("agent:session:append_output", definition_id=agent, line=str(number))
        heard = [[client.note()["data"] for _ in range(100)] for client in (one, two)]
        assert heard[0] == heard[1] == [f"{number}\n" for number in range(100)]


def test_subscriptions_over_the_limit_are_refused(daemon: Daemon, agent: str) -> None:
    with daemon.client() as client:
        numbers = [subscribe(client, agent) for _ in range(256)]
        with pytest.raises(Failed) as caught:
            subscribe(client, agent)
        assert caught.value.kind == "TOO_LARGE"
        assert caught.value.data["limit"] == 256
        client.call("agent:session:unsubscribe", subscription=numbers[0])
        subscribe(client, agent)
        client.call("agent:session:write_state", definition_id=agent, content="1")
        assert sorted(client.note()["subscription"] for _ in range(256)) == [
            *numbers[1:],
            numbers[-1] + 1,
        ]


def test_subscriber_that_stops_reading_gets_a_gap_and_costs_little(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("flood") / "data"
    with serving(folder, config={"subscriber_events_max": 50}) as daemon:
        with daemon.client(is_unix=True) as deaf, daemon.client(is_unix=True) as busy:
            subscribe(deaf, "a")
            before = daemon.rss_bytes
            line = "x" * 60_000
            for _ in range(600):
                busy.call("agent:session:append_output", definition_id="a", line=line)
            assert daemon.rss_bytes - before < 120 << 20
            assert busy.call("srv:health") == {"ok": True}
            kinds, last = [], 0
            while True:
                note = deaf.note()
                kinds.append(note["kind"])
                assert note["seq"] > last
                last = note["seq"]
                if note["kind"] == "output" and note["first_line"] == 599:
                    break
            assert "gap" in kinds
            assert len(kinds) < 600
        assert daemon.end() == 0
