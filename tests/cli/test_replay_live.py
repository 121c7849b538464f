"""What --follow draws on a terminal, and the bar of long work: without waiting for either."""

import io
import threading
from collections.abc import Callable

import pytest

from filestore.replay import Replay
from srv.cli import progress
from srv.cli.options import Invocation
from srv.cli.replay_follow import OPEN_ROWS_MAX, Live
from srv.cli.screen import Screen
from tests.cli.test_transcript import screen
from tests.replay.streams import turn


class Shown:
    """A terminal, or a pipe, and a stream that is followed on it."""

    def __init__(self, *, is_terminal: bool = True) -> None:
        self._sink = io.BytesIO()
        made = screen(width=80 if is_terminal else 0, is_coloured=is_terminal)
        made.out = io.BufferedWriter(self._sink)
        call = Invocation("replay", {}, ["-"])
        call.screen = made
        self.live = Live(call, Replay())

    def feed(self, *lines: bytes) -> str:
        """What is written when these lines come."""
        before = len(self._sink.getvalue())
        self.live.replay.feed_lines(lines)
        self.live.show()
        return self._sink.getvalue()[before:].decode()

    def end(self) -> str:
        before = len(self._sink.getvalue())
        self.live.end()
        return self._sink.getvalue()[before:].decode()


def delta(text: str) -> bytes:
    return b'{"type":"message","role":"assistant","delta":true,"content":"%b"}' % text.encode()


GEMINI = b'{"type":"init","session_id":"s","model":"m"}'


def test_running_tool_is_drawn_again_when_it_ends() -> None:
    shown = Shown()
    said, call, result, answer = turn(0)
    assert "Question 0" in shown.feed(said)
    assert "…\x1b[0m \x1b[1mBash" in shown.feed(call)
    ended = shown.feed(result)
    # Two rows stood at the bottom: the gap to what is above, and the tool.
    assert ended.startswith("\x1b[2A\r\x1b[J")
    assert "✓\x1b[0m \x1b[1mBash" in ended
    assert "\x1b[J" not in shown.feed(answer)


def test_text_that_grows_is_drawn_again_and_stays_once_it_is_over() -> None:
    shown = Shown()
    shown.feed(GEMINI, delta("Hel"))
    grown = shown.feed(delta("lo"))
    assert grown.startswith("\x1b[2A\r\x1b[J")
    assert "  Hello" in grown
    over = shown.feed(b'{"type":"message","role":"user","content":"Next"}')
    assert over.startswith("\x1b[2A\r\x1b[J")
    assert over.index("Hello") >= 0
    assert over.index("Next") >= 0
    assert "\x1b[J" not in shown.feed(b'{"type":"message","role":"user","content":"More"}')


def test_what_is_going_on_is_drawn_like_what_is_over() -> None:
    """A text that grows has no time of its own, but stands where the others do."""
    shown = Shown()
    shown.feed(*turn(0))
    start = b'{"type":"stream_event","event":{"type":"%b","index":0%b}}'
    block = b',"content_block":{"type":"text"}'
    shown.feed(start % (b"message_start", b',"message":{"id":"g"}'))
    shown.feed(start % (b"content_block_start", block))
    grown = b',"delta":{"type":"text_delta","text":"Hel"}'
    drawn = shown.feed(start % (b"content_block_delta", grown))
    assert drawn == f"\n{' ' * 10}\x1b[1magent\x1b[0m\n{' ' * 10}Hel\n"


def test_drawing_never_reaches_above_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown()
    shown.feed(GEMINI, delta("one\\n" * 100))
    assert shown.feed(delta("two")).startswith(f"\x1b[{OPEN_ROWS_MAX}A\r\x1b[J")
    monkeypatch.setattr("srv.cli.pager.rows", lambda: 5)
    shown.feed(delta("three"))
    assert shown.feed(delta("four")).startswith("\x1b[4A\r\x1b[J")


def test_line_without_news_writes_nothing() -> None:
    shown = Shown()
    shown.feed(*turn(0))
    assert shown.feed(b'{"type":"system","subtype":"status"}', b"no JSON") == ""


def test_pipe_gets_texts_when_they_are_over_and_no_commands() -> None:
    shown = Shown(is_terminal=False)
    assert shown.feed(GEMINI, delta("Hel"), delta("lo")) == ""
    assert shown.feed(b'{"type":"message","role":"user","content":"Next"}').count("Hello") == 1
    assert shown.feed(delta("rest")) == ""
    assert shown.end() == "\nagent\n  rest\n"


@pytest.fixture
def error_terminal(monkeypatch: pytest.MonkeyPatch) -> Screen:
    made = screen()
    made.is_error_terminal = True
    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    return made


def test_bar_fills_and_is_taken_away(
    error_terminal: Screen, capfd: pytest.CaptureFixture[str]
) -> None:
    bar = progress.Bar(error_terminal)
    for done in (0, 50, 100, 200):
        bar.tell(done, 100, "ada")
    bar.tell(7, 0, "no end in sight")
    bar.end()
    shown = capfd.readouterr().err.split("\r")
    assert shown[1].startswith(f"[{'.' * 30}] ada")
    assert shown[2].startswith(f"[{'#' * 15}{'.' * 15}] ada")
    assert shown[3] == shown[4] == f"[{'#' * 30}] ada\x1b[K"
    assert shown[5:] == ["no end in sight\x1b[K", "\x1b[K"]


def test_bar_waits_before_it_shows(
    error_terminal: Screen, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "AFTER_S", 3600.0)
    bar = progress.Bar(error_terminal)
    bar.tell(1, 2, "ada")
    bar.end()
    assert capfd.readouterr().err == ""


def test_waiting_tells_how_long_it_has_been_until_it_is_over(
    error_terminal: Screen, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = threading.Event()
    monkeypatch.setattr(error_terminal, "progress", _also(error_terminal.progress, told.set))
    with progress.waiting(error_terminal, "rebuilding ada"):
        assert told.wait(10)
    shown = capfd.readouterr().err.split("\r")
    assert shown[1] == "rebuilding ada, 0 s\x1b[K"
    assert shown[-1] == "\x1b[K"


def _also(action: Callable[[str], None], then: Callable[[], None]) -> Callable[[str], None]:
    def both(text: str) -> None:
        action(text)
        then()

    return both


def test_waiting_in_a_pipe_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    made = screen()
    made.is_error_terminal = False
    with progress.waiting(made, "rebuilding ada"):
        pass
    assert capfd.readouterr().err == ""
