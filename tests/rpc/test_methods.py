"""Every method over the wire, on both transports and in both encodings: shapes and failures."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from filestore import FileStore
from tests.support.daemon import Client, Daemon, Failed, serving

READ = {"version", "session_id", "output_bytes", "output_lines"}
"""What is always there; `recovered` only where it is known."""
ZONE = re.compile(r"agent:[A-Za-z0-9_-]+:archive:[0-9]+")
NO_ARCHIVE = "agent:nobody:archive:1"


def failure(client: Client, method: str, **params: Any) -> Failed:
    with pytest.raises(Failed) as caught:
        client.call(method, **params)
    error = caught.value
    assert error.message.startswith(f"{method}: {error.kind}: "), error.message
    return error


# -- the first five, as an existing pane sees them


def test_read_of_nothing_leaves_content_and_modts_out(client: Client, agent: str) -> None:
    assert client.call("agent:session:read", definition_id=agent) == {
        "version": 0, "session_id": "", "output_bytes": 0, "output_lines": 0,
    }  # fmt: skip


def test_write_state_and_read_give_what_was_written(client: Client, agent: str) -> None:
    content = '{"nodes": [{"text": "grüße \\u0000 \u2028"}]}'
    wrote = client.call("agent:session:write_state", definition_id=agent, content=content)
    assert set(wrote) == {"bytes_written", "version", "modts", "session_id", "unchanged"}
    assert wrote["bytes_written"] == len(content.encode())
    assert wrote["version"] > 0
    assert wrote["unchanged"] is False
    assert wrote["modts"] > 1_600_000_000_000
    read = client.call("agent:session:read", definition_id=agent)
    assert set(read) - {"recovered"} == READ | {"content", "modts"}
    assert read["content"] == content
    assert read["modts"] == wrote["modts"]
    assert read["session_id"] == wrote["session_id"] != ""
    again = client.call("agent:session:write_state", definition_id=agent, content=content)
    assert again == wrote | {"unchanged": True}


def test_append_output_tells_where_the_lines_stand(client: Client, agent: str) -> None:
    first = client.call("agent:session:append_output", definition_id=agent, line="one")
    assert first == {"bytes_written": 4, "offset": 0, "first_line": 0, "lines": 1,
                     "duplicate": False}  # fmt: skip
    more = client.call(
        "agent:session:append_output", definition_id=agent, lines=["two", "", "three\nfour\n"]
    )
    assert more == {"bytes_written": 15, "offset": 4, "first_line": 1, "lines": 3,
                    "duplicate": False}  # fmt: skip
    blank = client.call("agent:session:append_output", definition_id=agent, line="  ")
    assert blank["lines"] == blank["bytes_written"] == 0
    read = client.call("agent:session:read", definition_id=agent)
    assert (read["output_lines"], read["output_bytes"]) == (4, 19)
    assert set(read) - {"recovered"} == READ


def test_archive_of_nothing_is_empty_text_and_zero(client: Client, agent: str) -> None:
    nothing = client.call("agent:session:archive", definition_id=agent)
    assert nothing == {"archive_zoneid": "", "archived_at_ms": 0}


def test_archive_is_listed_and_read(client: Client, agent: str) -> None:
    assert client.call("agent:session:list_archives", definition_id=agent) == []
    zones = []
    for number in range(3):
        content = f'{{"n": {number}}}'
        client.call("agent:session:write_state", definition_id=agent, content=content)
        client.call("agent:session:append_output", definition_id=agent, line="a line")
        done = client.call("agent:session:archive", definition_id=agent)
        assert set(done) == {"archive_zoneid", "archived_at_ms"}
        assert done["archive_zoneid"] == f"agent:{agent}:archive:{done['archived_at_ms']}"
        zones.append(done["archive_zoneid"])
    rows = client.call("agent:session:list_archives", definition_id=agent)
    assert [row["archive_zoneid"] for row in rows] == zones[::-1]
    assert set(rows[0]) == {
        "archive_zoneid", "archived_at_ms", "preview", "node_count", "session_id", "started_at_ms",
        "state_bytes", "output_bytes", "output_lines",
    }  # fmt: skip
    page = client.call("agent:session:list_archives", definition_id=agent, limit=1)
    assert page == rows[:1]
    rest = client.call(
        "agent:session:list_archives", definition_id=agent, before=page[0]["archived_at_ms"]
    )
    assert rest == rows[1:]
    read = client.call("agent:session:read_archive", archive_zoneid=zones[0])
    assert read["content"] == '{"n": 0}'
    assert set(read) - {"recovered"} == READ | {"content", "modts"}


# -- the others


def test_archive_goes_on_forks_and_is_deleted(client: Client, agent: str) -> None:
    client.call("agent:session:write_state", definition_id=agent, content="[1]")
    zone = client.call("agent:session:archive", definition_id=agent)["archive_zoneid"]
    client.call("agent:session:write_state", definition_id=agent, content="[2]")
    restored = client.call("agent:session:restore", archive_zoneid=zone)
    assert set(restored) == {"session_id", "version", "archived"}
    assert ZONE.fullmatch(restored["archived"])
    assert client.call("agent:session:read", definition_id=agent)["content"] == "[1]"
    other = f"{agent}-b"
    fork = client.call(
        "agent:session:fork",
        definition_id=agent,
        to_definition_id=other,
        new_session_id="mine" + agent,
    )
    assert fork == {"session_id": "mine" + agent}
    again = client.call(
        "agent:session:fork", archive_zoneid=restored["archived"], to_definition_id=other,
        archive_first=True,
    )  # fmt: skip
    assert (
        client.call("agent:session:read", definition_id=other)["session_id"] == again["session_id"]
    )
    assert (
        failure(client, "agent:session:fork", definition_id=agent, to_definition_id=other).kind
        == "ALREADY_EXISTS"
    )
    for wanted in (True, False):
        gone = client.call("agent:session:delete_archive", archive_zoneid=restored["archived"])
        assert gone == {"deleted": wanted}
    rows = client.call("agent:list", after=agent[:-1], limit=100)
    mine = [row for row in rows if row["definition_id"] in (agent, other)]
    assert [row["archives"] for row in mine] == [0, 1]
    assert set(mine[0]) == {"definition_id", "has_state", "modts", "preview", "node_count",
                            "archives", "output_lines"}  # fmt: skip


def test_read_output_pages_from_a_line_and_from_the_end(client: Client, agent: str) -> None:
    lines = [f"line {number}" for number in range(10)]
    client.call("agent:session:append_output", definition_id=agent, lines=lines)
    whole = client.call("agent:session:read_output", definition_id=agent)
    assert whole == {"lines": lines, "first_line": 0, "total_lines": 10, "next_line": 10}
    page = client.call("agent:session:read_output", definition_id=agent, from_line=3, limit=2)
    assert page == {"lines": lines[3:5], "first_line": 3, "total_lines": 10, "next_line": 5}
    tail = client.call("agent:session:read_output", definition_id=agent, tail=2)
    assert tail["lines"] == lines[8:]
    past = client.call("agent:session:read_output", definition_id=agent, from_line=1 << 62)
    assert past["lines"] == []
    nothing = client.call("agent:session:read_output", definition_id="nobody")
    assert nothing == {"lines": [], "first_line": 0, "total_lines": 0, "next_line": 0}
    zone = client.call("agent:session:archive", definition_id=agent)["archive_zoneid"]
    assert client.call("agent:session:read_output", archive_zoneid=zone)["lines"] == lines


def test_info_and_health_tell_of_the_daemon(client: Client, daemon: Daemon) -> None:
    info = client.call("srv:info")
    assert set(info) == {"version", "protocol", "data_format", "pid", "url", "data_dir", "sync",
                         "limits", "uptime_ms", "counts"}  # fmt: skip
    assert info["pid"] == daemon.pid
    assert info["data_dir"] == str(daemon.data_dir)
    assert info["limits"]["message_bytes_max"] == 64 << 20
    assert info["counts"]["connections"] >= 1
    assert client.call("srv:health") == {"ok": True}


# -- guards over the wire


def test_guards_answer_a_repeat_as_the_first_time(client: Client, agent: str) -> None:
    first = client.call("agent:session:append_output", definition_id=agent, line="x", at_line=0)
    again = client.call("agent:session:append_output", definition_id=agent, line="x", at_line=0)
    assert again == first | {"duplicate": True}
    error = failure(client, "agent:session:append_output", definition_id=agent, line="y", at_line=0)
    assert error.kind == "VERSION_CONFLICT"
    assert error.code == -32002
    assert error.data["current_lines"] == 1
    session = client.call("agent:session:read", definition_id=agent)["session_id"]
    assert error.data["session_id"] == session
    error = failure(client, "agent:session:archive", definition_id="nobody", session_id=session)
    assert error.data["session_id"] == "", "there is none"
    done = client.call("agent:session:archive", definition_id=agent, session_id=session)
    assert client.call("agent:session:archive", definition_id=agent, session_id=session) == done
    late = client.call(
        "agent:session:append_output", definition_id=agent, line="x", at_line=0, session_id=session
    )
    assert late["duplicate"]


def test_if_version_that_is_stale_tells_the_current_one(client: Client, agent: str) -> None:
    first = client.call("agent:session:write_state", definition_id=agent, content="1", if_version=0)
    error = failure(
        client, "agent:session:write_state", definition_id=agent, content="2", if_version=0
    )
    assert (error.kind, error.data["current_version"]) == ("VERSION_CONFLICT", first["version"])
    assert client.call("agent:session:read", definition_id=agent)["content"] == "1"


def test_if_version_that_is_stale_tells_the_session(pane: Client, agent: str) -> None:
    pane.call("agent:session:write_state", definition_id=agent, content="1")
    error = failure(
        pane, "agent:session:write_state", definition_id=agent, content="2", if_version=0
    )
    assert error.data["session_id"]


# -- bytes


def test_bytes_that_are_no_text_go_both_ways(client: Client, agent: str) -> None:
    data = b"\xff\x00caf\xe9"
    shape: Any = data if client.is_binary else {"base64": base64.b64encode(data).decode()}
    wrote = client.call("agent:session:write_state", definition_id=agent, content=shape)
    assert wrote["bytes_written"] == len(data)
    assert client.call("agent:session:read", definition_id=agent)["content"] == shape
    client.call("agent:session:append_output", definition_id=agent, lines=[shape, "text"])
    page = client.call("agent:session:read_output", definition_id=agent)
    assert page["lines"] == [shape, "text"]
    # Base64 is understood in either encoding, and text comes back as text however it was sent.
    sent = {"base64": base64.b64encode(b"plain").decode()}
    client.call("agent:session:write_state", definition_id=agent, content=sent)
    assert client.call("agent:session:read", definition_id=agent)["content"] == "plain"


@pytest.mark.parametrize("wrong", ["a", "YQ", "YQ=", "Y Q==", "_-8=", "é", 5, None, ["YQ=="]])
def test_bad_base64_is_refused_by_name(pane: Client, agent: str, wrong: Any) -> None:
    error = failure(
        pane, "agent:session:write_state", definition_id=agent, content={"base64": wrong}
    )
    assert (error.kind, error.data["field"]) == ("INVALID_PARAMS", "content")


async def test_imported_line_over_the_limit_comes_cut_with_its_size(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    store = await FileStore.open(folder)
    long = b"x" * 5000
    await store.append("agent:a:current", "output", b"short\n" + long + b"\nend\n")
    await store.close()
    limits = {"line_bytes_max": 1000}
    with serving(folder, config=limits) as daemon, daemon.client() as client:
        page = client.call("agent:session:read_output", definition_id="a")
        assert page["lines"] == ["short", "x" * 1000, "end"]
        assert page["truncated"] == [{"line": 1, "bytes": 5000}]
        later = client.call("agent:session:read_output", definition_id="a", from_line=2)
        assert later["lines"] == ["end"]
        assert "truncated" not in later


# -- failures

NAMES = ["", " ", ".", "..", "a/b", "../../etc/passwd", "a:b", "agent:a:archive:1", "a\x00b", "é",
         "a b", "x" * 129, "\u0430", "\u202e", "$(id)", "a'; DROP TABLE t;--", "con.", "~root",
         "\ud83d\ude00"]  # fmt: skip
ZONES = ["", "a", "agent:a:current", "agent:a:archive:", "agent:a:archive:-1", "agent:a:archive:01",
         "agent:a:archive:1x", f"agent:a:archive:{1 << 63}", "agent:../x:archive:1",
         "agent:a:archive:1\n", "AGENT:a:archive:1"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_definition_id_that_is_none_is_refused_everywhere(pane: Client, name: str) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("agent:session:read", {}),
        ("agent:session:write_state", {"content": "1"}),
        ("agent:session:append_output", {"line": "1"}),
        ("agent:session:archive", {}),
        ("agent:session:list_archives", {}),
        ("agent:session:read_output", {}),
        ("agent:session:subscribe", {}),
        ("agent:session:fork", {"to_definition_id": "good"}),
    ]
    for method, params in calls:
        error = failure(pane, method, definition_id=name, **params)
        assert (error.kind, error.code) == ("INVALID_DEFINITION_ID", -32602), method
    target = failure(pane, "agent:session:fork", definition_id="a", to_definition_id=name)
    assert target.kind == "INVALID_DEFINITION_ID"


@pytest.mark.parametrize("zone", ZONES)
def test_zone_that_is_no_archive_is_refused_everywhere(pane: Client, zone: str) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("agent:session:read_archive", {}),
        ("agent:session:restore", {}),
        ("agent:session:delete_archive", {}),
        ("agent:session:read_output", {}),
        ("agent:session:fork", {"to_definition_id": "good"}),
    ]
    for method, params in calls:
        error = failure(pane, method, archive_zoneid=zone, **params)
        assert (error.kind, error.code) == ("INVALID_ZONE", -32602), method


def test_archive_that_is_missing_is_not_found(client: Client) -> None:
    for method in ("read_archive", "restore", "read_output"):
        error = failure(client, f"agent:session:{method}", archive_zoneid=NO_ARCHIVE)
        assert (error.kind, error.code) == ("NOT_FOUND", -32001), method
    error = failure(
        client, "agent:session:fork", archive_zoneid=NO_ARCHIVE, to_definition_id="other"
    )
    assert error.kind == "NOT_FOUND"
    error = failure(client, "agent:session:unsubscribe", subscription=77)
    assert error.kind == "NOT_FOUND"


COUNTS: list[Any] = [-1, 1 << 63, "10", 1.5, True, [], {}, 1e300]
WRONG: list[tuple[str, str, dict[str, Any]]] = [
    ("agent:session:read", "definition_id", {}),
    ("agent:session:read", "definition_id", {"definition_id": None}),
    ("agent:session:read", "definition_id", {"definition_id": 5}),
    ("agent:session:read", "definitionId", {"definitionId": "a"}),
    ("agent:session:read", "extra", {"definition_id": "a", "extra": None}),
    ("agent:session:write_state", "content", {"definition_id": "a"}),
    ("agent:session:write_state", "content", {"definition_id": "a", "content": 5}),
    ("agent:session:write_state", "content", {"definition_id": "a", "content": ["x"]}),
    ("agent:session:write_state", "content", {"definition_id": "a", "content": {"x": 1}}),
    ("agent:session:append_output", "line", {"definition_id": "a"}),
    ("agent:session:append_output", "line", {"definition_id": "a", "line": "x", "lines": ["y"]}),
    ("agent:session:append_output", "lines", {"definition_id": "a", "lines": "x"}),
    ("agent:session:append_output", "lines", {"definition_id": "a", "lines": ["x", 5]}),
    ("agent:session:append_output", "lines", {"definition_id": "a", "lines": [["x"]]}),
    ("agent:session:fork", "to_definition_id", {"definition_id": "a"}),
    ("agent:session:fork", "definition_id", {"to_definition_id": "a"}),
    ("agent:session:fork", "archive_first",
     {"definition_id": "a", "to_definition_id": "b", "archive_first": 1}),
    ("agent:session:read_output", "definition_id", {}),
    ("agent:session:read_output", "definition_id",
     {"definition_id": "a", "archive_zoneid": NO_ARCHIVE}),
    ("srv:info", "x", {"x": 1}),
    ("srv:health", "token", {"token": ""}),
    *(("agent:session:list_archives", "limit", {"definition_id": "a", "limit": each})
      for each in COUNTS),
    *(("agent:session:list_archives", "before", {"definition_id": "a", "before": each})
      for each in COUNTS),
    *(("agent:session:append_output", "at_line",
       {"definition_id": "a", "line": "x", "at_line": each}) for each in COUNTS),
    *(("agent:session:write_state", "if_version",
       {"definition_id": "a", "content": "x", "if_version": each}) for each in COUNTS),
    *(("agent:session:read_output", name, {"definition_id": "a", name: each})
      for each in COUNTS for name in ("from_line", "tail", "limit")),
    *(("agent:session:subscribe", "since", {"definition_id": "a", "since": each})
      for each in COUNTS),
]  # fmt: skip


def test_wrong_params_are_refused_by_name(client: Client) -> None:
    for method, field, params in WRONG:
        if client.is_binary and 1 << 63 in params.values():
            continue  # refused as well, but 2**63 is an integer there
        error = failure(client, method, **params)
        assert (error.kind, error.code) == ("INVALID_PARAMS", -32602), (method, params)
        assert error.data["field"] == field, (method, params)
    assert client.is_alive()


def test_from_line_and_tail_together_are_refused(client: Client, agent: str) -> None:
    error = failure(client, "agent:session:read_output", definition_id=agent, from_line=1, tail=1)
    assert error.kind == "INVALID_PARAMS"


def test_unknown_method_is_named_and_shortened(client: Client) -> None:
    for method in ("agent:session:reed", "rpc.discover", "agent:session:rewind"):
        error = failure(client, method)
        assert (error.kind, error.code) == ("UNKNOWN_METHOD", -32601)
    with pytest.raises(Failed) as caught:
        client.call("x\x1b[2J\n" * 10_000)
    assert len(caught.value.message) < 400
    assert caught.value.message.isprintable()
