"""What holds for every stream, whatever its bytes."""

import json
from collections.abc import Sequence
from typing import Any, TypeVar

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filestore.lines import LineSkip, is_blank
from filestore.replay import PROVIDERS, Replay, count_lines, replay, replay_bytes
from tests.replay.golden_streams import STREAMS, read_stream

T = TypeVar("T")

golden_lines = [line for stream in STREAMS for line in read_stream(stream).split(b"\n")]
golden_frames = [line for line in golden_lines if line[:1] == b"{" and line[-1:] == b"}"]


def _words(value: object, keys: set[str], words: set[str]) -> None:
    """Collect what frames are made of: keys, and short texts, among them all types and names."""
    if isinstance(value, dict):
        keys.update(value)
        for inner in value.values():
            _words(inner, keys, words)
    elif isinstance(value, list):
        for inner in value:
            _words(inner, keys, words)
    elif isinstance(value, str) and len(value) < 30:
        words.add(value)


def _vocabulary() -> tuple[list[str], list[str]]:
    keys: set[str] = set()
    words = {"2026-11-18T10:00:00", '{"a":1}', '{"output":"a"', "exec_command_end", "declined"}
    for line in golden_frames:
        _words(json.loads(line), keys, words)
    return sorted(keys), sorted(words)


KEYS, WORDS = _vocabulary()


def picked(choices: Sequence[T]) -> st.SearchStrategy[T]:
    """One of many, by its place: a failure shows what was picked, not all there was to pick."""
    return st.integers(0, len(choices) - 1).map(lambda place: choices[place])


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.integers(0, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | picked(WORDS)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(picked(KEYS), inner, max_size=6),
    max_leaves=20,
)
random_frames = st.dictionaries(picked(KEYS), values, max_size=8)


@st.composite
def bent_frames(draw: st.DrawFn) -> Any:
    """A frame from a real stream in which one value, somewhere, is another."""
    frame = json.loads(draw(picked(golden_frames)))
    place = frame
    while True:
        key = draw(st.sampled_from(sorted(place))) if place else "type"
        inner = place.get(key)
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            inner = inner[0]
        if not isinstance(inner, dict) or draw(st.booleans()):
            place[key] = draw(values)
            return frame
        place = inner


def encoded(frame: object) -> bytes:
    return json.dumps(frame, ensure_ascii=True).encode()


lines = st.lists(
    picked(golden_lines)
    | bent_frames().map(encoded)
    | random_frames.map(encoded)
    | st.binary(max_size=20).map(lambda raw: raw.replace(b"\n", b""))
    | st.sampled_from([b"", b" ", b"\r", b"{", b"[1]", b"\xe2\x80\xa8", b'{"type":"user"', b"{}"]),
    max_size=12,
)
providers = st.none() | st.sampled_from(PROVIDERS)


@given(lines, providers)
def test_line_by_line_equals_all_at_once(stream: list[bytes], provider: Any) -> None:
    once = replay_bytes([b"".join(line + b"\n" for line in stream)], provider)
    followed = Replay(provider)
    for line in stream:
        followed.feed(line)
        # Whoever looks on the way must not change what comes of it.
        followed.nodes()
        followed.take_changed()
        followed.snapshot()
    assert followed.snapshot() == once.snapshot()
    assert followed.skipped_lines == once.skipped_lines


@given(lines, st.integers(1, 40))
def test_bytes_however_they_are_cut_give_the_same(stream: list[bytes], size: int) -> None:
    data = b"\n".join(stream)
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert replay_bytes(pieces).snapshot() == replay_bytes([data]).snapshot()


@given(lines, providers)
def test_every_snapshot_is_well_formed(stream: list[bytes], provider: Any) -> None:
    folded = replay(stream, provider)
    document = orjson.loads(folded.snapshot())
    nodes = document["nodes"]
    ids = [node["id"] for node in nodes]
    assert len(set(ids)) == len(ids)
    assert all(isinstance(key, str) and key for key in ids)
    assert [flaw for node in nodes for flaw in flaws(node)] == []
    told = document["replayed"]
    assert document["highWaterMark"] == told["lines"] == folded.lines
    assert told["provider"] in PROVIDERS
    assert told["skipped"] == len(folded.skipped_lines)


FIELDS: dict[str, dict[str, type]] = {
    "user_message": {"message": str},
    "markdown": {"content": str, "metadata": dict},
    "tool": {
        "tool": str,
        "toolName": str,
        "params": dict,
        "status": str,
        "summary": str,
        "collapsed": bool,
    },
    "agent_error": {"message": str},
    "session_outcome": {"status": str},
}
OPTIONAL: dict[str, dict[str, type]] = {
    "user_message": {"isStartup": bool},
    "markdown": {"parent": str},
    "tool": {"result": str, "duration": int, "parent": str},
    "agent_error": {},
    "session_outcome": {
        "reason": str,
        "summary": str,
        "durationMs": object,
        "turns": object,
        "costUsd": object,
        "inputTokens": object,
        "outputTokens": object,
    },
}


def flaws(node: dict[str, Any]) -> list[str]:
    """What in a node is not as the spec says."""
    kind = node["type"]
    wanted = {"type": str, "id": str} | FIELDS[kind]
    allowed = wanted | OPTIONAL[kind] | {"timestamp": int}
    found = [f"{kind} lacks {key}" for key in wanted if key not in node]
    for key, value in node.items():
        if key not in allowed or not isinstance(value, allowed[key]):
            found.append(f"{kind}.{key} is {value!r}")
    if node.get("status") == "running" or (kind == "tool" and "\n" in node["summary"]):
        found.append(f"{kind} {node['status']}")
    if node.get("timestamp", 1) <= 0 or node.get("duration", 0) < 0:
        found.append(f"{kind} has a time that is none")
    return found


@given(st.lists(st.binary(max_size=60), max_size=6), providers)
def test_no_bytes_raise(pieces: list[bytes], provider: Any) -> None:
    orjson.loads(replay_bytes(pieces, provider).snapshot())


@given(lines)
def test_prefix_of_a_stream_gives_a_prefix_of_its_ids(stream: list[bytes]) -> None:
    """Nodes keep the place where they were first seen, so a longer stream only adds at the end."""
    whole = [node["id"] for node in replay(stream).nodes()]
    half = [node["id"] for node in replay(stream[: len(stream) // 2]).nodes()]
    assert whole[: len(half)] == half


@given(lines, st.integers(1, 40))
def test_scan_counts_what_the_fold_counts(stream: list[bytes], size: int) -> None:
    data = b"".join(line + b"\n" for line in stream)
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    scan = count_lines(pieces)
    folded = replay_bytes([data])
    # Without its line break the last line counts too, unless it is blank.
    assert count_lines([data[:-1]]).lines == replay_bytes([data[:-1]]).lines == scan.lines
    reasons = [skipped.reason for skipped in folded.skipped_lines]
    found = (scan.lines, scan.blank, scan.strange)
    assert found == (folded.lines, reasons.count("blank"), reasons.count("no object"))


@given(lines, st.integers(0, 10), st.integers(1, 40))
def test_skip_leaves_what_stands_behind_the_lines(
    stream: list[bytes], count: int, size: int
) -> None:
    data = b"".join(line + b"\n" for line in stream)
    skip = LineSkip(count)
    rest = b"".join(skip.rest_of(data[at : at + size]) for at in range(0, len(data), size))
    assert data.endswith(rest)
    passed = data[: len(data) - len(rest)]
    assert count_lines([passed]).lines == min(count, count_lines([data]).lines)
    # It passes over no more than it must: the last line it took is one that counts.
    assert not passed or not is_blank(passed.split(b"\n")[-2]) or not rest


@pytest.mark.parametrize("name", STREAMS)
def test_every_prefix_of_a_real_stream_is_valid(name: str) -> None:
    followed = Replay()
    for line in read_stream(name).splitlines():
        followed.feed(line)
        document = orjson.loads(followed.snapshot())
        assert [flaw for node in document["nodes"] for flaw in flaws(node)] == []


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","input":'
        + b'{"a":' * 300
        + b"1"
        + b"}" * 300
        + b"}]}}",
        b'{"type":"response_item","payload":{"type":"function_call","call_id":"c","arguments":"'
        + b'{\\"a\\":' * 300
        + b"1"
        + b"}" * 300
        + b'"}}',
    ],
    ids=["lists", "objects", "call", "arguments"],
)
def test_frame_of_any_depth_gives_a_snapshot(line: bytes) -> None:
    document = orjson.loads(replay([line]).snapshot())
    assert document["highWaterMark"] == 1
