"""What people see: tables that fit, human times, colour, and nothing that harms a terminal."""

import re

import pytest

from srv.cli.screen import columns
from tests.cli.tools import SNAPSHOT, Zoned, on_terminal

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = (
    b'{"nodes": [{"type": "user_message", "message": '
    b'"x\\u001b]0;owned\\u0007\\u009b31m \\u202eabc"}], "raw": "\xc2\x9b31m"}'
)


def test_agents_on_a_terminal_have_human_times_and_fit(alone: Zoned) -> None:
    text = '{"nodes": [{"type": "user_message", "message": "%s"}]}' % ("進捗を見せて " * 30)
    alone.ok("write-state", "ada", stdin=text.encode())
    code, shown = on_terminal(alone.words("agents"))
    assert code == 0
    head, ada = COLOUR.sub("", shown).splitlines()
    assert head.startswith("AGENT  SAVED ")
    assert re.match(r"ada    (just now|\d+ s ago) ", ada)
    assert ada.endswith("…")
    assert 76 <= columns(ada) <= 80
    code, narrow = on_terminal(alone.words("agents"), columns=60)
    assert max(columns(line) for line in COLOUR.sub("", narrow).splitlines()) <= 60


def test_long_name_takes_no_room_from_the_others(alone: Zoned) -> None:
    name = "n" * 78
    for agent in (name, "ada"):
        alone.ok("write-state", agent, stdin=b'{"nodes": []}')
    shown = COLOUR.sub("", on_terminal(alone.words("agents"))[1]).splitlines()
    assert [line.split()[0] for line in shown] == ["AGENT", "ada", name, "just"]
    assert shown[2] == name
    assert all(columns(line) <= 80 for line in shown)
    # In a pipe a row stays a line.
    assert len(alone.ok("agents").text.splitlines()) == 3


def test_empty_list_on_a_terminal_says_how_to_begin(alone: Zoned) -> None:
    assert "no agents yet" in on_terminal(alone.words("agents"))[1]
    assert "ada has no archives" in on_terminal(alone.words("archives", "ada"))[1]
    assert "ada has no lines yet" in on_terminal(alone.words("tail", "ada"))[1]


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_is_left_out_where_it_is_not_wanted(alone: Zoned, setting: dict[str, str]) -> None:
    zone = alone.fill()
    for words in (["agents"], ["status"], ["show", zone]):
        assert COLOUR.search(on_terminal(alone.words(*words))[1])
        assert "\x1b" not in on_terminal(alone.words(*words), settings=setting)[1]
        assert b"\x1b" not in alone(*words).out


def test_show_on_a_terminal_has_a_head_and_readable_json(alone: Zoned) -> None:
    alone.ok("append", "ada", stdin=b"one\n")
    alone.ok("write-state", "ada", stdin=SNAPSHOT)
    code, shown = on_terminal(alone.words("show", "ada"), settings={"NO_COLOR": "1"})
    lines = shown.splitlines()
    assert (code, lines[0]) == (0, "ada")
    facts = dict(line.split(maxsplit=1) for line in lines[1:5])
    assert list(facts) == ["session", "saved", "snapshot", "stream"]
    assert facts["snapshot"].startswith(f"{len(SNAPSHOT)} B, version ")
    assert facts["stream"] == "1 line, 4 B"
    assert lines[6:9] == ["{", '  "nodes": [', "    {"]
    assert '  "more": "ä"' in lines


def test_show_of_a_large_snapshot_is_cut_with_a_word(alone: Zoned) -> None:
    alone.ok("write-state", "ada", stdin=b"[" + b"1," * 5000 + b'"%s"]' % (b"x" * 500))
    _, shown = on_terminal(alone.words("show", "ada"), settings={"NO_COLOR": "1"})
    lines = shown.splitlines()
    assert len(lines) < 210
    assert lines[-1] == "… 4803 more lines; all of it: zoned show ada | less"
    alone.ok("write-state", "ada", stdin=b"no JSON " * 100)
    _, shown = on_terminal(alone.words("show", "ada"), settings={"NO_COLOR": "1"})
    assert shown.splitlines()[-1] == "… all of it: zoned show ada | less"
    assert max(map(len, shown.splitlines())) <= 80


def test_content_on_a_terminal_is_harmless_everywhere(alone: Zoned) -> None:
    alone.ok("write-state", "ada", stdin=HOSTILE)
    alone.ok("append", "ada", stdin=b"\x1b[2J\x1b]0;x\x07 \x9b31m \xe2\x80\xae\r\x00 end\n")
    for words in (["agents"], ["show", "ada"], ["tail", "ada"], ["agents", "--json"],
                  ["show", "ada", "--json"], ["tail", "ada", "--json"]):  # fmt: skip
        code, shown = on_terminal(alone.words(*words))
        assert code == 0
        rest = COLOUR.sub("", shown).replace("\n", "")
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", rest), words
    assert (
        r"\x1b[2J\x1b]0;x\x07 \x9b31m \u202e\r\x00 end"
        in on_terminal(alone.words("tail", "ada"))[1]
    )


def test_words_of_the_user_are_told_back_harmlessly(alone: Zoned) -> None:
    for words in (["show", "\x1b[31m"], ["\x1b[31m"], ["agents", "--\x1b[31m"], ["agents", "\x1b"]):
        answer = alone(*words)
        assert answer.code == 2
        assert "\x1b" not in answer.err


def test_delete_on_a_terminal_asks(alone: Zoned) -> None:
    zone = alone.fill()
    for typed in (b"n\n", b"\n", b"\x04"):
        code, shown = on_terminal(alone.words("delete", zone), typed)
        assert code == 1
        assert f"delete {zone} (2 lines of output) for good? [y/N]" in shown
        assert "nothing is deleted" in shown
    assert len(alone.json("archives", "ada")) == 1
    code, shown = on_terminal(alone.words("delete", zone), b"y\n")
    assert code == 0
    assert f"{zone} is deleted" in shown
    assert alone.json("archives", "ada") == []


def test_append_from_a_terminal_says_how_to_end(alone: Zoned) -> None:
    code, shown = on_terminal(alone.words("append", "ada"), b"typed\n\x04")
    assert code == 0
    assert "reading lines from the terminal; Ctrl-D ends them" in shown
    assert "ada: 1 line appended, 1 in all" in shown
