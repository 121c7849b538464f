"""NDJSON rules: what a line is, when it is blank, how lines are counted. Pure.

A line is the bytes between line breaks (`\\n` only); an unterminated last one counts. A line of
nothing but Unicode White_Space is blank: its bytes stay, it has no number. U+001C to U+001F are not
white space (`str.isspace` thinks they are, `bytes.isspace` does not).

Counting carries one fact from piece to piece: what the unterminated end of the file looks like so
far. A piece is credited with the lines that END in it, so the count of all pieces before is the
number of the line that is open at a piece's start, and a reader finds line n by starting at the
piece where line n-1 ends.
"""

import re
from collections.abc import Iterable
from enum import IntEnum
from io import BytesIO
from operator import itemgetter

_BLANK = re.compile(
    rb"(?:[\t-\r ]|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]"
    rb"|\xe2\x81\x9f|\xe3\x80\x80)*"
)


_HALF = re.compile(rb"(?:\xc2|\xe1\x9a?|\xe2[\x80\x81]?|\xe3\x80?)\Z")
"""The beginning of a white space character, at the end."""
HALF_BYTES_MAX = 2


_head = itemgetter(0)
_PLAIN = bytes(range(0x21, 0xC2))
"""No white space character begins so."""


class Open(IntEnum):
    """What stands after the last line break."""

    NOTHING = 0
    TEXT = 1
    """A line that counts, whatever follows."""
    BLANK = 2
    """White space only: no line yet."""
    HALF = 3
    """White space and the first bytes of more: a line that counts unless the rest follows."""

    @property
    def counts(self) -> bool:
        """True if it is a line that has a number."""
        return self is Open.TEXT or self is Open.HALF


def is_blank(line: bytes) -> bool:
    """True if `line` has no character outside Unicode White_Space."""
    if not line or line.isspace():
        return True
    # Nearly every line is settled by its first byte that is not ASCII white space.
    first = line.lstrip()[0] if line[0] <= 32 else line[0]
    return first >= 0xC2 and _BLANK.fullmatch(line) is not None


def half_of(rest: bytes) -> bytes:
    """The beginning of a white space character at the end of `rest`, if there is one."""
    found = _HALF.search(rest, max(0, len(rest) - HALF_BYTES_MAX))
    return found[0] if found else b""


class LineCounter:
    """Counts the lines that end in consecutive pieces.

    `state` is what is open before the next piece. Of the open bytes themselves only half a
    character matters, and only while all before it is blank: `half`, empty unless `state` is HALF.
    """

    __slots__ = ("half", "state")

    def __init__(self, state: Open = Open.NOTHING, half: bytes = b"") -> None:
        assert bool(half) == (state is Open.HALF), (state, half)
        self.state = state
        self.half = half

    def feed(self, piece: bytes) -> int:
        """How many lines end in `piece`."""
        ended, end = 0, piece.rfind(b"\n") + 1
        if end:
            first = piece.find(b"\n")
            ended = int(self.state is Open.TEXT or not is_blank(self.half + piece[:first]))
            if first + 1 < end:
                ended += _count(piece[first + 1 : end])
            self.half, self.state = b"", Open.NOTHING
        rest = piece[end:]
        if rest and self.state is not Open.TEXT:
            self._open(self.half + rest)
        return ended

    def _open(self, rest: bytes) -> None:
        """Classify what is open: `rest`, behind nothing but white space."""
        self.half = b""
        if is_blank(rest):
            self.state = Open.BLANK
            return
        half = half_of(rest)
        if half and is_blank(rest[: -len(half)]):
            self.half, self.state = half, Open.HALF
        else:
            self.state = Open.TEXT


def _count(lines: bytes) -> int:
    """How many of these terminated lines are not blank."""
    # How they begin settles it for all lines that agents write, and costs a tenth of a split.
    heads = bytes(map(_head, BytesIO(lines)))
    if not heads.translate(None, _PLAIN):
        return len(heads)
    return sum([not is_blank(line) for line in lines[:-1].split(b"\n")])


def split_lines(lines: Iterable[str | bytes]) -> list[bytes]:
    """Turn the caller's lines into lines without breaks: split at `\\n` only, blank ones dropped.

    Raises UnicodeEncodeError for text with lone surrogates, TypeError for what is no line.
    """
    kept: list[bytes] = []
    for line in lines:
        if isinstance(line, str):
            raw = line.encode()
        elif isinstance(line, (bytes, bytearray, memoryview)):
            raw = bytes(line)
        else:
            raise TypeError(f"a line is {type(line).__name__}")
        if b"\n" in raw:
            kept += [part for part in raw.split(b"\n") if not is_blank(part)]
        elif not is_blank(raw):
            kept.append(raw)
    return kept


class LineScanner:
    """Finds whole lines in consecutive pieces of a stream.

    Started in the middle (`number` lines end before the first piece, `ended` in it), it skips what
    is left of the line that is open there, and works out from `ended` whether that rest completes a
    line that counts: it may look blank.
    """

    def __init__(self, number: int, ended: int | None) -> None:
        self.number = number
        """The number of the next line that `feed` or `finish` returns."""
        self._ended_first = ended
        self._held: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines that end in `piece`, blank ones left out."""
        first, *others = piece.split(b"\n")
        if not others:
            if self._ended_first is None:
                self._held.append(first)
            return []
        lines = [line for line in others[:-1] if not is_blank(line)]
        if self._ended_first is not None:
            self.number += self._ended_first - len(lines)
            self._ended_first = None
        else:
            line = b"".join([*self._held, first])
            if not is_blank(line):
                lines.insert(0, line)
        self._held = [others[-1]]
        return lines

    def finish(self) -> list[bytes]:
        """Return the unterminated last line, if it counts."""
        line = b"".join(self._held)
        return [] if is_blank(line) else [line]


class LineGatherer:
    """Collects the wanted lines from consecutive pieces, up to `limit` lines and `bytes_max` bytes
    (one line always fits)."""

    def __init__(self, from_line: int, limit: int, bytes_max: int | None) -> None:
        self.lines: list[bytes] = []
        self.is_started = False
        self._from_line = from_line
        self._limit = limit
        self._bytes_left = bytes_max
        self._scanner = LineScanner(0, None)

    def feed(self, piece: bytes, number: int, ended: int) -> bool:
        """Take in a piece; True when there is enough."""
        if not self.is_started:
            self.is_started = True
            self._scanner = LineScanner(number, ended if self._from_line else None)
        return self._take(self._scanner.feed(piece))

    def finish(self) -> None:
        """Take in an unterminated last line."""
        self._take(self._scanner.finish())

    def _take(self, found: list[bytes]) -> bool:
        skipped = max(0, self._from_line - self._scanner.number)
        self._scanner.number += len(found)
        for line in found[skipped:]:
            is_over = self._bytes_left is not None and len(line) > self._bytes_left
            if len(self.lines) == self._limit or (is_over and self.lines):
                return True
            self.lines.append(line)
            if self._bytes_left is not None:
                self._bytes_left -= len(line)
        return len(self.lines) == self._limit


class LineSkip:
    """Passes over the first lines of a stream; blank ones have no number."""

    def __init__(self, lines: int) -> None:
        self.left = lines
        self._counter = LineCounter()

    def rest_of(self, piece: bytes) -> bytes:
        """What is left of the piece behind those lines."""
        if not self.left:
            return piece
        if piece.count(b"\n") < self.left:
            # Fewer lines than are to be passed over: to count them is enough.
            self.left -= self._counter.feed(piece)
            return b""
        at = 0
        while self.left and (end := piece.find(b"\n", at)) >= 0:
            self.left -= self._counter.feed(piece[at : end + 1])
            at = end + 1
        if self.left:
            self._counter.feed(piece[at:])
            return b""
        return piece[at:]

    def forget_open(self) -> None:
        """The unterminated line will not be completed: something else follows."""
        self._counter = LineCounter()
