"""The fold: lines of a stream in, nodes out. Pure: no clock, no randomness, no error on any bytes.

The state after n lines and the next line give the state after n + 1; nothing else is kept, so
memory is bounded by the nodes. Line numbers are the store's: they count from 0, and blank lines
have none.
"""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, Protocol, get_args

from filestore.lines import LineCounter, is_blank
from filestore.replay import frames
from filestore.replay.acp import Acp
from filestore.replay.claude import Claude
from filestore.replay.codex import Codex
from filestore.replay.frames import Frame, parse
from filestore.replay.gemini import Gemini
from filestore.replay.generic import Generic
from filestore.replay.journal import Journal
from filestore.replay.nodes import Node, Nodes
from filestore.replay.snapshot import Replayed, build_snapshot
from filestore.replay.user_messages import user_text

ProviderName = Literal["claude", "codex", "gemini", "acp", "journal", "generic"]
Reason = Literal["blank", "no object", "no JSON", "unknown"]

SKIPPED_KEPT_MAX = 1000
"""So many skipped lines are remembered by number; all are counted."""


class Provider(Protocol):
    """What a file of a provider offers: one function that takes in a frame."""

    def fold(self, frame: Frame, line: int) -> bool:
        """Take in one frame. False: it is not known."""


_PROVIDERS: dict[ProviderName, Callable[[Nodes], Provider]] = {
    "claude": Claude,
    "codex": Codex,
    "gemini": Gemini,
    "acp": Acp,
    "journal": Journal,
    "generic": Generic,
}
_RECOGNISERS: list[tuple[ProviderName, Callable[[Frame], bool]]] = [
    ("claude", Claude.recognises),
    ("codex", Codex.recognises),
    ("gemini", Gemini.recognises),
    ("acp", Acp.recognises),
    ("journal", Journal.recognises),
]
PROVIDERS: tuple[ProviderName, ...] = get_args(ProviderName)


class Skipped(NamedTuple):
    """A line from which nothing was taken. A blank one has the number of the line after it."""

    line: int
    reason: Reason


class Replay:
    """A stream as far as it has been read.

    Feed whole lines (`feed`), or bytes as they come (`feed_bytes`, and `finish` at the end). Look
    at any time: `nodes` and `snapshot` change nothing. `provider` names who wrote the stream;
    without it the first frame that somebody recognises decides, and frames before are read as
    generic ones. `first_line` is the number of the first line that is fed: whoever starts in the
    middle sees the same numbers as in the whole stream.
    """

    def __init__(self, provider: ProviderName | None = None, *, first_line: int = 0) -> None:
        self._nodes = Nodes()
        self._name: ProviderName = provider or "generic"
        self._is_known = provider is not None
        self._provider = _PROVIDERS[self._name](self._nodes)
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._long: LineCounter | None = None
        """Of an open line that is too long all that is kept: whether it is blank."""
        self._first_line = first_line
        self.lines = 0
        """How many lines were read; blank ones do not count, a torn one does."""
        self.skipped = 0
        """How many lines nothing was taken from, blank ones among them."""
        self.skipped_lines: list[Skipped] = []
        """Which ones; the first of them, if there are very many."""
        self.is_torn = False
        """True if the stream ends in the middle of a line."""

    @property
    def provider(self) -> ProviderName:
        """Who wrote the stream, as far as is known."""
        return self._name

    @property
    def covered(self) -> int:
        """Up to which line the stream was read; a torn one may still be completed."""
        return self._first_line + self.lines - self.is_torn

    def feed(self, line: bytes) -> None:
        """Take in a whole line, with or without its line break."""
        frame = parse(line) if line[:1] == b"{" else None
        if frame is None:
            frame = self._second_look(line)
            if frame is None:
                return
        number = self._first_line + self.lines
        self.lines += 1
        if not self._is_known:
            self._recognise(frame)
        if not self._provider.fold(frame, number):
            self._stray(frame, number)

    def feed_lines(self, lines: Iterable[bytes]) -> None:
        """Take in whole lines."""
        feed = self.feed
        for line in lines:
            feed(line)

    def feed_bytes(self, piece: bytes) -> None:
        """Take in the next bytes of a stream, however they are cut. Follow with `finish`."""
        if b"\n" not in piece:
            self._hold(piece)
            return
        first, *lines, rest = piece.split(b"\n")
        self._hold(first)
        if self._long is None:
            self.feed(b"".join(self._rest))
        else:
            self._count_long()
        self.forget_open()
        self.feed_lines(lines)
        self._hold(rest)

    def forget_open(self) -> None:
        """The unterminated line will not be completed: something else follows."""
        self._rest, self._rest_bytes, self._long = [], 0, None

    def finish(self) -> None:
        """Say that no more bytes come. An unterminated last line that does not parse is torn."""
        rest, long = b"".join(self._rest), self._long
        self.forget_open()
        if is_blank(rest) if long is None else not long.state.counts:
            return
        if parse(rest.strip()) is None:
            self.lines += 1
            self.is_torn = True
        else:
            self.feed(rest)

    def nodes(self, *, is_over: bool = True) -> list[Node]:
        """The nodes so far. If the stream is over, what is open in it counts as canceled."""
        return self._nodes.view(is_over=is_over)

    def is_open(self, node: Node) -> bool:
        """True if a node of this stream is still going on: a running tool, a text that grows."""
        return self._nodes.is_open(str(node["id"]))

    def take_changed(self) -> list[Node]:
        """The nodes that are new or different since this was asked last; none is canceled."""
        return self._nodes.take_changed()

    def snapshot(self, *, saved_at_ms: int | None = None) -> bytes:
        """The rebuilt snapshot of a stream that is over."""
        told = Replayed(self._name, self.lines, self.skipped, self.is_torn)
        return build_snapshot(self.nodes(), self.covered, told, saved_at_ms)

    def _hold(self, piece: bytes) -> None:
        """Keep a part of an open line."""
        self._rest_bytes += len(piece)
        if self._long is None and self._rest_bytes > frames.LINE_BYTES_MAX:
            self._long = LineCounter()
            for part in self._rest:
                self._long.feed(part)
            self._rest = []
        if self._long is None:
            self._rest.append(piece)
        else:
            self._long.feed(piece)

    def _count_long(self) -> None:
        """Skip the line that was too long to be kept."""
        assert self._long is not None
        is_line = self._long.state.counts
        self._skip(self._first_line + self.lines, "no JSON" if is_line else "blank")
        self.lines += is_line

    def _second_look(self, line: bytes) -> Frame | None:
        """The frame in a line that does not plainly begin with one; else count it as skipped."""
        trimmed = line.strip()
        if not trimmed.startswith(b"{"):
            if is_blank(line):
                self._skip(self._first_line + self.lines, "blank")
                return None
            reason: Reason = "no object"
        else:
            frame = parse(trimmed)
            if frame is not None:
                return frame
            reason = "no JSON"
        self._skip(self._first_line + self.lines, reason)
        self.lines += 1
        return None

    def _recognise(self, frame: Frame) -> None:
        for name, is_recognised in _RECOGNISERS:
            if is_recognised(frame):
                self._name, self._is_known = name, True
                self._provider = _PROVIDERS[name](self._nodes)
                return

    def _stray(self, frame: Frame, line: int) -> None:
        """A frame its provider does not know: the user's words are kept, whoever wrote them."""
        text = user_text(frame)
        if text:
            self._nodes.user_message(f"line:{line}", text, None)
        else:
            self._skip(line, "unknown")

    def _skip(self, line: int, reason: Reason) -> None:
        self.skipped += 1
        if len(self.skipped_lines) < SKIPPED_KEPT_MAX:
            self.skipped_lines.append(Skipped(line, reason))


def replay(lines: Iterable[bytes], provider: ProviderName | None = None) -> Replay:
    """Fold whole lines."""
    folded = Replay(provider)
    folded.feed_lines(lines)
    return folded


def replay_bytes(pieces: Iterable[bytes], provider: ProviderName | None = None) -> Replay:
    """Fold the bytes of a whole stream, however they are cut into pieces."""
    folded = Replay(provider)
    for piece in pieces:
        folded.feed_bytes(piece)
    folded.finish()
    return folded
