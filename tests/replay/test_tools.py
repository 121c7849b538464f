"""Kinds and summaries of tools; times and texts of frames."""

from typing import Any

import pytest

from filestore.replay.frames import as_text, parse, text_of, time_ms
from filestore.replay.tools import SUMMARY_CHARS_MAX, kind_of, one_line, summarise

KINDS = [
    ("Read", "Read"), ("read_file", "Read"), ("MultiEdit", "Edit"), ("apply_patch", "Edit"),
    ("Bash", "Bash"), ("exec_command", "Bash"), ("write_file", "Write"), ("Grep", "Grep"),
    ("search_file_content", "Grep"), ("LS", "Glob"), ("Agent", "Task"), ("mcp__x__y", "Other"),
    ("", "Other"),
]  # fmt: skip

SUMMARIES: list[tuple[str, dict[str, Any], str]] = [
    ("Bash", {"command": "ls\n  -la"}, "ls -la"),
    ("Bash", {"command": ["bash", "-lc", "ls -la"]}, "ls -la"),
    ("Bash", {"command": ["git", "log", 7]}, "git log"),
    ("Bash", {"command": "/bin/zsh -lc 'echo \"a\"'"}, 'echo "a"'),
    ("Bash", {"cmd": "ls"}, "ls"),
    ("Bash", {"command": {}}, ""),
    ("Read", {"file_path": "a.py", "limit": 3}, "a.py"),
    ("Grep", {"pattern": "x", "path": "src"}, "x in src"),
    ("Glob", {"pattern": "*.py"}, "*.py"),
    ("Glob", {"path": "src"}, "src"),
    ("Task", {"prompt": "long", "description": "short"}, "short"),
    ("Edit", {"input": "*** Begin Patch\n*** Add File: a b.txt\n+x"}, "a b.txt"),
    ("Edit", {"input": "no patch"}, "no patch"),
    ("Other", {"url": "http://x"}, "http://x"),
    ("Other", {"number": 1, "anything": "text"}, "text"),
    ("Other", {}, ""),
]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_kind_of_a_tool_is_found_by_its_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(("kind", "params", "summary"), SUMMARIES)
def test_summary_says_what_a_call_does(kind: Any, params: dict[str, Any], summary: str) -> None:
    assert summarise(kind, params) == summary


def test_long_summary_is_cut() -> None:
    line = one_line("word " * 10_000)
    assert len(line) == SUMMARY_CHARS_MAX
    assert line.endswith("…")


TIMES: list[tuple[object, int | None]] = [
    ("1970-01-01T00:00:01Z", 1000),
    ("2026-11-18T10:00:00.123456+02:00", 1794988800123),
    ("2026-11-18T10:00:00", None),
    ("1969-12-31T23:59:59Z", None),
    ("yesterday", None),
    ("", None),
    (1_700_000_000, 1_700_000_000_000),
    (1_700_000_000.5, 1_700_000_000_500),
    (1_700_000_000_000, 1_700_000_000_000),
    (0, None),
    (-5, None),
    (1e300, None),
    (-1e300, None),
    (True, None),
    (None, None),
    ([], None),
]


@pytest.mark.parametrize(("told", "ms"), TIMES, ids=str)
def test_time_is_milliseconds_or_missing(told: object, ms: int | None) -> None:
    assert time_ms(told) == ms


TEXTS: list[tuple[object, str]] = [
    ("a", "a"),
    ([{"type": "text", "text": "a"}, {"type": "output_text", "text": "b"}], "a\nb"),
    ({"type": "text", "text": "a"}, "a"),
    ([{"type": "image"}, {"type": "input_image"}], "[image]\n[image]"),
    ([{"type": "resource", "resource": {"uri": "u", "text": "t"}}], "t"),
    ([{"type": "resource_link", "uri": "u", "name": "n"}], "u"),
    ([{"type": "strange", "text": "no"}, {"text": "no"}, {"type": []}, "no", 7], ""),
    (7, ""),
    (None, ""),
]


@pytest.mark.parametrize(("content", "text"), TEXTS, ids=str)
def test_text_of_content(content: object, text: str) -> None:
    assert text_of(content) == text


def test_result_that_is_no_text_is_shown_as_json() -> None:
    assert as_text({"code": 2}) == '{"code":2}'
    nothing: list[object] = [None, "", [], {}]
    assert [as_text(value) for value in nothing] == ["", "", "", ""]
    assert as_text(0) == "0"


def test_text_full_of_brackets_is_not_deep() -> None:
    assert parse(b'{"a":"' + b"[{" * 1000 + b'"}') is not None
    assert parse(b'{"a":' * 199 + b"[]" + b"}" * 199) is not None
    assert parse(b'{"a":' * 200 + b"[]" + b"}" * 200) is None
    assert parse('{"a":' * 200 + "[]" + "}" * 200) is None
    assert parse(b"7") is None
