"""The transcript as text: roles, tools on one line, wrapping by columns, nothing harmful."""

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filestore.replay import replay_bytes
from srv.cli.screen import Screen, columns, harmless
from srv.cli.transcript import Transcript, wrapped
from tests.replay.golden_streams import STREAMS, read_stream

CODES = re.compile(r"\x1b\[[0-9;]*m")


def screen(*, width: int = 0, is_coloured: bool = False, encoding: str = "utf-8") -> Screen:
    """A terminal of that width, or a pipe."""
    made = Screen({"TERM": "xterm"})
    made.out = io.BufferedWriter(io.BytesIO())
    made.is_terminal, made.is_coloured = bool(width), is_coloured
    made.width, made.encoding = width or 80, encoding
    return made


def shown(*nodes: dict[str, Any], width: int = 0, **more: Any) -> list[str]:
    return list(Transcript(screen(width=width, **more)).lines(nodes))


def tool(**more: object) -> dict[str, object]:
    return {
        "type": "tool",
        "id": "t",
        "tool": "Bash",
        "toolName": "Bash",
        "params": {},
        "status": "success",
        "summary": "make test",
        **more,
    }


def test_tool_is_one_line_with_mark_and_duration() -> None:
    assert shown(tool(duration=1234)) == ["✓ Bash  make test  1.2 s"]
    assert shown(tool(status="failed", duration=5, result="\n  Exit 2\nmore")) == [
        "✗ Bash  make test  5 ms · failed · Exit 2"
    ]
    assert shown(tool(status="denied")) == ["⊘ Bash  make test  denied"]
    assert shown(tool(status="canceled")) == ["– Bash  make test  canceled"]
    assert shown(tool(status="running")) == ["… Bash  make test"]
    assert shown(tool(duration=3_720_000)) == ["✓ Bash  make test  1 h 2 min"]
    assert shown(tool(), encoding="latin-1") == ["+ Bash  make test"]


def test_tools_stand_together_and_all_else_apart() -> None:
    said = {"type": "markdown", "id": "m", "content": "Hello", "metadata": {}}
    assert shown(tool(), tool(), said) == [
        "✓ Bash  make test", "✓ Bash  make test", "", "agent", "  Hello"
    ]  # fmt: skip


def test_long_tool_is_cut_to_the_width_and_keeps_its_end() -> None:
    node = tool(summary="x" * 200, status="failed", duration=10, result="y" * 200)
    (line,) = shown(node, width=60)
    assert columns(line) <= 60
    assert re.fullmatch(r"✗ Bash  x+…  10 ms · failed · y+…", line)


def test_thinking_is_dimmed_and_roles_are_marked() -> None:
    node = {"type": "markdown", "id": "m", "content": "Hm", "metadata": {"thinking": True}}
    assert shown(node, width=80, is_coloured=True) == [
        "\x1b[2mthinking\x1b[0m",
        "  \x1b[2mHm\x1b[0m",
    ]
    user = {"type": "user_message", "id": "u", "message": "Hello"}
    assert shown(user, width=80, is_coloured=True)[0] == "\x1b[1;36muser\x1b[0m"
    assert shown(user) == ["user", "  Hello"]


def test_times_are_told_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    import time

    time.tzset()
    user = {"type": "user_message", "id": "u", "message": "Hello", "timestamp": 1794992400000}
    assert shown(user, tool()) == [
        "2026-11-18",
        "09:00:00  user",
        "          Hello",
        "",
        "          ✓ Bash  make test",
    ]
    assert shown({**user, "timestamp": 10**30}) == ["user", "  Hello"]


def test_context_is_folded() -> None:
    node = {
        "type": "user_message",
        "id": "u",
        "message": "# Session Context\n" * 9,
        "isStartup": True,
    }
    assert shown(node) == ["context, 162 characters"]


def test_outcome_is_one_line() -> None:
    node = {"type": "session_outcome", "id": "o", "status": "success", "turns": 3}
    assert shown({**node, "turns": 1, "reason": "end_turn"}) == ["✓ done"]
    facts = {"durationMs": 61_000, "costUsd": 0.5, "inputTokens": 1200, "outputTokens": 3}
    assert shown({**node, **facts}) == ["✓ done · 3 turns · 1 min 1 s · $0.5000 · 1,200 in · 3 out"]


HOSTILE = "\x1b[2J\x1b]0;title\x07\u202eevil\u2066\x9b31m\rfake\x7f"


def hostile(kind: str) -> dict[str, object]:
    node = {"type": kind, "id": HOSTILE, "metadata": {}, "timestamp": 0}
    texts = ("message", "content", "toolName", "summary", "result", "status", "reason", "tool")
    return {**node, **dict.fromkeys(texts, f"{HOSTILE}\n{HOSTILE}")}


@pytest.mark.parametrize(
    "kind", ["user_message", "markdown", "tool", "agent_error", "session_outcome", HOSTILE]
)
@pytest.mark.parametrize("status", ["failed", HOSTILE])
def test_nothing_in_a_node_reaches_the_terminal_as_a_command(kind: str, status: str) -> None:
    node = {**hostile(kind), "status": status}
    task = tool(id="a", tool="Task", summary=HOSTILE)
    nodes = [task, tool(id="b"), {**node, "parent": "a"}]
    for line in shown(*nodes, width=80, is_coloured=True):
        plain = CODES.sub("", line)
        assert harmless(plain) == plain
        assert columns(plain) <= 80
    assert all(harmless(line) == line for line in shown(*nodes)), "a terminal may be behind a pipe"


def test_pipe_gets_texts_unwrapped_with_their_tabs() -> None:
    node = {"type": "markdown", "id": "m", "content": "a\tb" + "x" * 300, "metadata": {}}
    assert shown(node) == ["agent", "  a\tb" + "x" * 300]


def test_nodes_of_sub_agents_say_whose_they_are_unless_they_stand_below_the_call() -> None:
    def task(key: str) -> dict[str, object]:
        return tool(id=key, tool="Task", toolName="Task", summary=f"for {key}")

    one, two = tool(id="1", parent="a"), tool(id="2", parent="b")
    said = {"type": "markdown", "id": "m", "content": "Hello", "metadata": {}, "parent": "b"}
    assert shown(task("a"), one, task("b"), one, one, two, said, tool(), said) == [
        "✓ Task  for a", "  ✓ Bash  make test", "✓ Task  for b",
        "", "  ↳ for a", "  ✓ Bash  make test", "  ✓ Bash  make test",
        "", "  ↳ for b", "  ✓ Bash  make test",
        "", "  agent", "    Hello",
        "", "✓ Bash  make test",
        "", "  ↳ for b", "  agent", "    Hello",
    ]  # fmt: skip
    assert shown(task("a"), tool(), one, encoding="latin-1")[3] == "  > for a"


def test_call_that_is_named_by_what_it_does_says_it_once() -> None:
    assert shown(tool(toolName="Read a.py", summary="Read a.py")) == ["✓ Read a.py"]


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_golden_streams_fit_the_screen(name: str, width: int) -> None:
    lines = shown(*replay_bytes([read_stream(name)]).nodes(), width=width, is_coloured=True)
    assert max(columns(CODES.sub("", line)) for line in lines) <= width


def test_lines_are_broken_between_words_with_their_indent() -> None:
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("    indented code here", 14) == ["    indented", "    code here"]
    assert wrapped("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert wrapped("漢字漢字漢", 5) == ["漢字", "漢字", "漢"]
    assert wrapped("a  b", 10) == ["a  b"]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), st.integers(2, 40))
def test_wrapping_fits_and_loses_nothing_but_spaces(text: str, width: int) -> None:
    line = harmless(text.expandtabs(4))
    parts = wrapped(line, width)
    assert all(columns(part) <= width for part in parts)
    assert "".join(parts).replace(" ", "") == line.replace(" ", "")
