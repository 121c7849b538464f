"""The fold itself: lines, what is skipped, torn or open, and who is recognised."""

import json
import tracemalloc
from typing import Any

import orjson
import pytest

from filestore.replay import (
    Replay,
    Skipped,
    build_snapshot,
    count_lines,
    frames,
    replay,
    replay_bytes,
)
from filestore.replay.fold import SKIPPED_KEPT_MAX
from filestore.replay.snapshot import Replayed

USER = b'{"type":"user","message":{"content":"hello"},"uuid":"u"}'


def line(frame: object) -> bytes:
    return json.dumps(frame).encode()


def event(kind: str, **more: object) -> bytes:
    return line({"type": "stream_event", "event": {"type": kind, **more}})


def text_delta(text: str) -> bytes:
    return event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


OPEN_TEXT = [
    event("message_start", message={"id": "m"}),
    event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    text_delta("a"),
]


def call(key: str, name: str = "Bash", **params: object) -> bytes:
    block = {"type": "tool_use", "id": key, "name": name, "input": params}
    return line({"type": "assistant", "message": {"content": [block]}})


def result(key: str, content: object = "ok", **more: object) -> bytes:
    block = {"type": "tool_result", "tool_use_id": key, "content": content, **more}
    return line({"type": "user", "message": {"content": [block]}})


def test_empty_stream_gives_an_empty_snapshot() -> None:
    assert orjson.loads(Replay().snapshot()) == {
        "schemaVersion": 1,
        "highWaterMark": 0,
        "historyOffset": 0,
        "nodes": [],
        "replayed": {"provider": "generic", "lines": 0, "skipped": 0, "torn": False},
    }


def test_time_of_saving_stands_in_a_snapshot_only_if_given() -> None:
    told = Replayed("acp", 7, 1, False)
    assert b"savedAt" not in build_snapshot([], 7, told)
    assert orjson.loads(build_snapshot([], 7, told, 1700))["savedAt"] == 1700
    assert orjson.loads(Replay().snapshot(saved_at_ms=5))["savedAt"] == 5


def test_skipped_lines_are_counted_and_named() -> None:
    folded = replay([b"text", USER, b"", b"{broken", b"[1]", b" \t", line({"type": "unheard"})])
    assert folded.skipped == 6
    assert folded.skipped_lines == [
        Skipped(0, "no object"),
        Skipped(2, "blank"),
        Skipped(2, "no JSON"),
        Skipped(3, "no object"),
        Skipped(4, "blank"),
        Skipped(4, "unknown"),
    ]
    assert folded.lines == folded.covered == 5


def test_skipped_lines_beyond_the_bound_are_counted_but_not_kept() -> None:
    folded = replay([b"text"] * (SKIPPED_KEPT_MAX + 5))
    assert folded.skipped == SKIPPED_KEPT_MAX + 5
    assert len(folded.skipped_lines) == SKIPPED_KEPT_MAX


def test_white_space_around_a_frame_is_trimmed() -> None:
    assert len(replay([b" \t" + USER + b" \r\n"]).nodes()) == 1


@pytest.mark.parametrize("rest", [USER[:-1], b"{", b"half a wo", b"[1]"])
def test_unterminated_line_that_does_not_parse_is_torn_and_not_covered(rest: bytes) -> None:
    folded = replay_bytes([USER + b"\n", rest])
    assert (folded.is_torn, folded.lines, folded.covered, folded.skipped) == (True, 2, 1, 0)
    assert orjson.loads(folded.snapshot())["replayed"]["torn"] is True


def test_unterminated_line_that_parses_is_a_line() -> None:
    folded = replay_bytes([USER[:10], USER[10:]])
    assert (folded.is_torn, folded.covered, len(folded.nodes())) == (False, 1, 1)


@pytest.mark.parametrize("rest", [b"", b" ", b"\r", b"\xe2\x80\xa8"])
def test_blank_rest_is_no_line(rest: bytes) -> None:
    folded = replay_bytes([USER + b"\n" + rest])
    assert (folded.is_torn, folded.lines, folded.skipped) == (False, 1, 0)


def test_open_text_and_tool_of_a_stream_that_is_over_are_canceled() -> None:
    folded = replay([*OPEN_TEXT, call("t")])
    text, tool = folded.nodes()
    assert text["metadata"] == {"canceled": True}
    assert tool["status"] == "canceled"


def test_folding_goes_on_after_a_look_at_what_is_open() -> None:
    folded = replay([*OPEN_TEXT, call("t")])
    assert b"canceled" in folded.snapshot()
    folded.feed_lines([text_delta("b"), event("content_block_stop", index=0), result("t")])
    text, tool = folded.nodes()
    assert (text["content"], text["metadata"]) == ("ab", {})
    assert tool["status"] == "success"


def test_live_view_shows_what_is_running() -> None:
    folded = replay([*OPEN_TEXT, call("t")])
    text, tool = folded.nodes(is_over=False)
    assert text["metadata"] == {}
    assert tool["status"] == "running"


def test_changes_are_told_once_and_as_they_are() -> None:
    folded = replay([*OPEN_TEXT, call("t")])
    assert [node["id"] for node in folded.take_changed()] == ["m:0", "t"]
    assert folded.take_changed() == []
    folded.feed_lines([text_delta("b"), text_delta("c")])
    assert [node["content"] for node in folded.take_changed()] == ["abc"]


def test_node_that_was_handed_out_never_changes() -> None:
    folded = replay([*OPEN_TEXT, call("t")])
    before = folded.nodes(is_over=False)
    kept = json.dumps(before)
    folded.feed_lines([text_delta("b"), result("t")])
    folded.nodes()
    assert json.dumps(before) == kept


def test_result_completes_its_call_where_the_call_stands() -> None:
    folded = replay([call("a"), call("b"), result("b"), result("a", "no", is_error=True)])
    found = [(node["id"], node["status"], node["result"]) for node in folded.nodes()]
    assert found == [("a", "failed", "no"), ("b", "success", "ok")]


def test_result_without_its_call_is_shown() -> None:
    (node,) = replay([result("lost")]).nodes()
    assert (node["id"], node["tool"], node["result"]) == ("lost", "Other", "ok")


def test_call_told_again_after_its_result_keeps_the_result() -> None:
    (node,) = replay([call("a"), result("a"), call("a", command="ls")]).nodes()
    assert (node["status"], node["result"], node["summary"]) == ("success", "ok", "ls")


def test_text_that_is_told_anew_and_longer_replaces_the_shorter() -> None:
    def told(*texts: str) -> bytes:
        blocks = [{"type": "text", "text": text} for text in texts]
        return line({"type": "assistant", "message": {"id": "m", "content": blocks}})

    folded = replay([told("He"), told("Hello"), told("Hello", "wor"), told("Hello", "world")])
    assert [node["content"] for node in folded.nodes()] == ["Hello", "world"]


def test_missing_times_stay_missing() -> None:
    for node in replay([USER, call("a"), result("a")]).nodes():
        assert "timestamp" not in node
        assert "duration" not in node


RECOGNISED: list[tuple[str, Any]] = [
    ("claude", {"type": "system", "subtype": "init"}),
    ("claude", {"type": "user", "message": {"content": "x"}}),
    ("claude", {"type": "summary", "summary": "x", "leafUuid": "u"}),
    ("claude", {"type": "result", "subtype": "success", "status": "x"}),
    ("codex", {"type": "thread.started", "thread_id": "x"}),
    ("codex", {"type": "session_meta", "payload": {"id": "x"}}),
    ("codex", {"id": "x", "timestamp": "2025-05-07T17:24:21.123Z", "instructions": None}),
    ("codex", {"type": "message", "role": "user", "content": [{"type": "input_text"}]}),
    ("gemini", {"type": "init", "session_id": "x", "model": "m"}),
    ("gemini", {"type": "message", "role": "user", "content": "x"}),
    ("gemini", {"type": "result", "status": "success"}),
    ("gemini", {"type": "error", "severity": "warning", "message": "x"}),
    ("acp", {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {}}),
    ("acp", {"jsonrpc": "2.0", "method": "initialize", "params": {"protocolVersion": 1}}),
    ("journal", {"seq": 0, "at": 1, "kind": "open"}),
    ("generic", {"jsonrpc": "2.0", "method": "initialize", "params": {"protocolVersion": "2025"}}),
    ("generic", {"type": "error", "message": "x"}),
    ("generic", {"type": ["user"], "kind": {}, "method": 7}),
    ("generic", {"seq": 0, "at": 1, "kind": "unheard"}),
]


@pytest.mark.parametrize(("provider", "frame"), RECOGNISED, ids=lambda value: str(value)[:40])
def test_provider_is_recognised_by_its_frames(provider: str, frame: Any) -> None:
    assert replay([line(frame)]).provider == provider


def test_first_recognised_frame_decides_for_good() -> None:
    gemini = line({"type": "message", "role": "assistant", "content": "no"})
    folded = replay([line({"msg": "starting"}), USER, gemini])
    assert folded.provider == "claude"
    assert [node["type"] for node in folded.nodes()] == ["markdown", "user_message"]
    assert folded.skipped_lines == [Skipped(2, "unknown")]


def test_words_of_the_user_are_kept_whoever_wrote_the_frame() -> None:
    started = line({"type": "thread.started"})
    folded = replay([started, USER])
    assert folded.provider == "codex"
    assert folded.nodes() == [{"type": "user_message", "id": "line:1", "message": "hello"}]


def test_provider_named_by_the_caller_is_not_questioned() -> None:
    folded = replay([USER], "generic")
    assert folded.provider == "generic"
    assert [node["type"] for node in folded.nodes()] == ["user_message"]


def test_fold_from_the_middle_has_the_numbers_of_the_whole() -> None:
    gemini = [line({"type": "message", "role": "user", "content": text}) for text in "abc"]
    whole, part = replay([b"x", *gemini, b"x"]), Replay(first_line=2)
    part.feed_lines([*gemini[1:], b"x"])
    assert part.nodes() == whole.nodes()[1:]
    assert part.skipped_lines == whole.skipped_lines[1:] == [Skipped(4, "no object")]
    assert (part.lines, part.covered) == (3, 5)


def test_scan_counts_lines_without_looking_into_them() -> None:
    scan = count_lines([b'{"a":1}\n{broken\n\n \xc2', b'\xa0\ntext\n  {"b', b'":2}\n{"c'])
    assert (scan.lines, scan.blank, scan.strange) == (5, 2, 1)


def test_line_that_begins_far_back_is_judged_by_its_beginning() -> None:
    scan = count_lines([b"  ", b"\xe2\x80", b"\xa8", b"x{", b"y" * 9, b"\n \n", b"{", b"\n"])
    assert (scan.lines, scan.blank, scan.strange) == (2, 1, 1)


def test_message_told_again_and_again_takes_no_more_memory() -> None:
    """What is kept of a message is bounded by its blocks, however often it is told."""
    block = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    whole = line({"type": "assistant", "message": {"id": "m", "content": [block]}})
    told = [*OPEN_TEXT, event("content_block_stop", index=0), whole]
    folded = Replay()
    sizes = []
    tracemalloc.start()
    try:
        for _ in range(2):
            folded.feed_lines(told * 200 + [whole] * 200)
            folded.take_changed()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert [node["id"] for node in folded.nodes()] == ["m:0", "t"]
    # The text itself has grown: it was streamed, and never told whole.
    assert sizes[1] - sizes[0] < 2000


def test_line_too_long_to_be_read_is_skipped_by_number_and_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frames, "LINE_BYTES_MAX", 1000)
    user = b'{"type":"user","message":{"role":"user","content":"hi"}}'
    long = b'{"type":"' + b"x" * 5000 + b'"}'
    lines = [user, long, b" " * 5000, user]
    whole = replay_bytes([b"\n".join([*lines, b"{" * 5000])])
    assert [tuple(each) for each in whole.skipped_lines] == [(1, "no JSON"), (2, "blank")]
    assert (whole.lines, whole.is_torn, len(whole.nodes())) == (4, True, 2)
    for size in (1, 7, 999, 1001, 4000):
        data = b"\n".join([*lines, b"{" * 5000])
        cut = replay_bytes([data[at : at + size] for at in range(0, len(data), size)])
        assert cut.snapshot() == whole.snapshot()
        assert cut.skipped_lines == whole.skipped_lines
    followed = Replay()
    for _ in range(200):
        followed.feed_bytes(b"x" * 999)
    assert sum(map(len, followed._rest)) < 1000
    followed.forget_open()
    followed.feed_bytes(user + b"\n")
    assert (followed.lines, len(followed.nodes())) == (1, 1)
