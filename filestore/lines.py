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

_BLANK = re.compile(
    rb"(?:[\t-\r ]|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]"
    rb"|\xe2\x81\x9f|\xe3\x80\x80)*"
)


class Open(IntEnum):
    """What stands after the last line break."""

    NOTHING = 0
    TEXT = 1
    BLANK = 2
    """Bytes, all blank so far; read back when more is added, for they may end in half a space."""


def is_blank(line: bytes) -> bool:
    """True if `line` has no character outside Unicode White_Space."""
    if not line or line.isspace():
        return True
    # Nearly every line is settled by its first byte that is not ASCII white space.
    first = line.lstrip()[0] if line[0] <= 32 else line[0]
    return first >= 0xC2 and _BLANK.fullmatch(line) is not None


def open_state(rest: bytes) -> Open:
    """Classify the bytes after the last line break."""
    if not rest:
        return Open.NOTHING
    return Open.BLANK if is_blank(rest) else Open.TEXT


def count_ended(data: bytes, before: bytes, state: Open) -> tuple[int, Open]:
    """Count the lines that end in `data`, and say what is open after it.

    `state` is what was open before `data`, and `before` are those open bytes when `state` is BLANK
    (else empty).
    """
    if b"\n" not in data:
        if state is Open.TEXT:
            return 0, Open.TEXT
        return 0, open_state(before + data)
    head, *middle, rest = data.split(b"\n")
    ended = 1 if state is Open.TEXT or not is_blank(before + head) else 0
    ended += sum(1 for line in middle if not is_blank(line))
    return ended, open_state(rest)


def count_pieces(pieces: Iterable[tuple[bytes, bool]], state: Open) -> tuple[list[int], Open]:
    """`count_ended` over consecutive pieces: the count of each, and what is open after the last.

    Each piece comes with whether there is a line break in it.
    """
    counts: list[int] = []
    before = b""
    for piece, has_break in pieces:
        if state is Open.TEXT and not has_break:
            counts.append(0)
            continue
        ended, state = count_ended(piece, before, state)
        counts.append(ended)
        if state is Open.BLANK:
            # Only a stretch of white space across a cut comes here.
            rest = piece.rpartition(b"\n")[2]
            before = before + rest if len(rest) == len(piece) else rest
        else:
            before = b""
    return counts, state


def split_lines(lines: Iterable[str | bytes]) -> list[bytes]:
    """Turn the caller's lines into lines without breaks: split at `\\n` only, blank ones dropped.

    Raises UnicodeEncodeError for text with lone surrogates.
    """
    kept: list[bytes] = []
    for line in lines:
        raw = line.encode() if isinstance(line, str) else bytes(line)
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
