"""How the bytes of an old file lie in its parts. Pure.

Parts have 65 536 bytes, the last may be short. A circular file that has outgrown its `maxsize` goes
round: byte n of all that was ever written lies in part n // 65 536 modulo the number of parts, and
the last `maxsize` bytes are the file. A file whose parts do not add up to its size is taken for
what is there, and its flaw is named.
"""

from collections.abc import Sequence
from typing import NamedTuple

PART_BYTES = 1 << 16


class Part(NamedTuple):
    """A part that is there, and how many bytes it has."""

    number: int
    size: int


class Span(NamedTuple):
    """Bytes [start, stop) of one part."""

    number: int
    start: int
    stop: int


class Layout(NamedTuple):
    """The bytes of a file, in order. `flaw`: what is wrong with them, or empty."""

    spans: list[Span]
    size: int
    flaw: str


def lay_out(size: int | None, parts: Sequence[Part], circular_max: int = 0) -> Layout:
    """Find the bytes of a file. `size` None: not known. `circular_max` 0: it is not circular."""
    stored = sum(part.size for part in parts)
    known = stored if size is None else size
    if circular_max and known > circular_max:
        count = -(-circular_max // PART_BYTES)
        if parts and max(part.number for part in parts) < count:
            return _ring(known, parts, circular_max, count)
        return _last(_line(known, stored, parts), circular_max)
    return _line(known, stored, parts)


def _line(size: int, stored: int, parts: Sequence[Part]) -> Layout:
    spans = [Span(part.number, 0, part.size) for part in parts]
    flaw = ""
    if size != stored:
        flaw = f"its size says {size} bytes, its parts have {stored}"
    elif not _is_whole(parts):
        flaw = f"its {len(parts)} parts with {stored} bytes do not follow one another"
    return Layout(spans, stored, flaw)


def _is_whole(parts: Sequence[Part]) -> bool:
    return all(part.number == at for at, part in enumerate(parts)) and all(
        part.size == PART_BYTES for part in parts[:-1]
    )


def _last(line: Layout, size: int) -> Layout:
    """The last `size` bytes of a layout."""
    spans: list[Span] = []
    left = size
    for span in reversed(line.spans):
        if left <= 0:
            break
        start = max(span.start, span.stop - left)
        left -= span.stop - start
        spans.append(span._replace(start=start))
    return Layout(spans[::-1], size - max(left, 0), line.flaw)


def _ring(size: int, parts: Sequence[Part], circular_max: int, count: int) -> Layout:
    """The last `circular_max` of `size` bytes that went round in `count` parts."""
    spans: list[Span] = []
    at = size - circular_max
    first, last = at // PART_BYTES, (size - 1) // PART_BYTES
    # By what is there, not by what is wanted: a row may claim more than any disk has. The oldest
    # part may be wanted twice: its end first, and its beginning, written over since, last.
    places = ((number, part) for part in parts for number in _turns(part, first, last, count))
    for number, part in sorted(places):
        start = max(at - number * PART_BYTES, 0)
        stop = min(size - number * PART_BYTES, part.size, PART_BYTES)
        if stop > start:
            spans.append(Span(part.number, start, stop))
    found = sum(span.stop - span.start for span in spans)
    flaw = f"its last {circular_max} bytes are wanted, its parts have {found} of them"
    return Layout(spans, found, "" if found == circular_max else flaw)


def _turns(part: Part, first: int, last: int, count: int) -> range:
    """Which of the parts from `first` to `last`, counted from the beginning, lie in this one."""
    return range(first + (part.number - first) % count, last + 1, count)
