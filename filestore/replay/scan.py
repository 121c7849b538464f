"""Counting the lines of a stream without looking into them. Pure.

Nearly all lines of a stream begin with `{`. How a line begins is all that is taken of it, by
iterators that run at the speed of memory; only pieces with other lines are taken apart.
"""

from collections.abc import Iterable
from io import BytesIO
from operator import itemgetter

from filestore.lines import half_of, is_blank

_head = itemgetter(0)


class LineScan:
    """How many lines there are, and how many of them cannot be frames.

    The numbers are those that a fold of the same bytes would find before it looks into a line:
    `lines` have a number, `blank` ones have none, `strange` ones do not begin with `{`.
    """

    def __init__(self) -> None:
        self.lines = 0
        self.blank = 0
        self.strange = 0
        self._rest = b""
        """The line that is open, or as much of its beginning as tells what it is."""

    def feed(self, piece: bytes) -> None:
        """Count the lines that end in the next bytes of the stream."""
        # It shares the bytes of the piece, and finds line breaks by searching for one at a time:
        # with lines as long as those of agents that is faster than counting all.
        stream = BytesIO(piece)
        first = stream.readline()
        if not first.endswith(b"\n"):
            self._open(first)
            return
        self._count(self._rest + first[:-1])
        heads = bytes(map(_head, stream))
        end = piece.rfind(b"\n") + 1
        if heads.count(b"{") == len(heads):
            self.lines += len(heads) - (end < len(piece))
        elif end > len(first):
            for line in piece[len(first) : end - 1].split(b"\n"):
                self._count(line)
        self._rest = b""
        self._open(piece[end:])

    def finish(self) -> None:
        """Count an unterminated last line. Blank bytes after the last line break are none."""
        if not is_blank(self._rest):
            self._count(self._rest)
        self._rest = b""

    def _open(self, rest: bytes) -> None:
        # Once it is plain how the line begins, the rest of it does not matter.
        if is_blank(self._rest.removesuffix(half_of(self._rest))):
            self._rest += rest

    def _count(self, line: bytes) -> None:
        if is_blank(line):
            self.blank += 1
            return
        self.lines += 1
        self.strange += line.lstrip()[:1] != b"{"


def count_lines(pieces: Iterable[bytes]) -> LineScan:
    """Count the lines of a whole stream, however its bytes are cut into pieces."""
    scan = LineScan()
    for piece in pieces:
        scan.feed(piece)
    scan.finish()
    return scan
