"""What the model tests write: bytes, names and meta chosen to be awkward, and few enough to come up again.

Values are put together from a small stock, so that equal ones, common prefixes and appends that continue an earlier value
come up by themselves: that is what deduplication, joining and "unchanged" live on.
"""

import random
from typing import Any

from hypothesis import strategies as st

from tests.support import child_model as ops
from tests.support.child_model import Op

ZONES = ("a", "a/1", "a/2", "a/é", "ab", "b", "～", "😀")
"""Prefixes of one another; the last two sort differently by code points and by UTF-16."""
NAMES = ("state", "log", "名")
PREFIXES = ("", "a", "a/", "b", "c", "～", "😀x")

_RNG = random.Random("values")
STOCK = (
    _RNG.randbytes(9_000),
    b"".join(b'{"line": %d}\n' % number for number in range(700)),
    b"\n" * 300 + b"x" + b" \n" * 300,
    "\u3000\u2028".encode() * 400,
    bytes(70_000),
)
"""Incompressible; lines; nearly all blank; blanks of several bytes each; larger than any chunk."""
SCRAPS = (
    *(b"", b"\n", b"\n\n", b" ", b"\t", b"\r\n", b"a", b"{}", b"line\n", b"two\nlines\n", b"\0"),
    *("\u2028".encode(), "\u3000\n".encode(), "\x85".encode(), b"\xa0", b"\xff", b"\x1c\n"),
    # Halves of white space that takes two or three bytes, and of something else.
    *(b"\xe2", b"\xe2\x80", b"\x80", b"\xa8", b"\xa8\n", b"\xc2", b"\xe3\x80", b"\xf0\x9f"),
)
LENGTHS = (1, 63, 64, 65, 700, 4_096, 5_000, 8_999)

scraps = st.lists(st.sampled_from(SCRAPS), max_size=8).map(b"".join)
pieces = st.builds(
    lambda value, start, length: value[start : start + length],
    st.sampled_from(STOCK),
    st.sampled_from((0, 0, 0, 100)),
    st.sampled_from(LENGTHS),
)
values = st.one_of(
    scraps,
    pieces,
    st.sampled_from(STOCK),
    st.builds(lambda first, last: first + last, pieces, scraps),
)
lines = st.lists(st.one_of(scraps, st.sampled_from((b"one", b"two\nthree", b"x" * 100))), max_size=4)
meta_values = st.sampled_from(
    [None, 0, False, 0.0, 1, True, 1.0, "", "é\n", [], [None, {"x": 1}], {"deep": {"er": None}}]
)
meta_changes = st.dictionaries(st.sampled_from(["k", "l", ""]), meta_values, max_size=3)

zones = st.sampled_from(ZONES)
names = st.sampled_from(NAMES)
guards = st.sampled_from((None, None, None, "current", "wrong", "absent"))


def guarded(op: Op, guard: str | None) -> Op:
    return op if guard is None else op | {"guard": guard}


def operations(guards: st.SearchStrategy[str | None]) -> st.SearchStrategy[Op]:
    """Any one operation but a transaction."""
    return st.one_of(
        st.builds(guarded, st.builds(ops.write, zones, names, values), guards),
        st.builds(ops.append, zones, names, values),
        st.builds(ops.append_lines, zones, names, lines),
        st.builds(ops.set_meta, zones, st.one_of(names, st.none()), meta_changes),
        st.builds(ops.delete_file, zones, names),
        st.builds(ops.delete_zone, zones),
        st.builds(ops.move_zone, zones, zones),
        st.builds(ops.copy_zone, zones, zones),
    )


def random_operation(rng: random.Random, zones: list[str]) -> Op:
    """The same for tests that are driven by a plain seed; JSON can carry every operation."""

    def value() -> bytes:
        scraps = b"".join(rng.choices(SCRAPS, k=rng.randrange(6)))
        start, length = rng.choice((0, 0, 100)), rng.choice(LENGTHS)
        piece = rng.choice(STOCK)[start : start + length]
        return rng.choice((scraps, piece, piece + scraps))

    zone, other, name = rng.choice(zones), rng.choice(zones), rng.choice(NAMES)
    meta: dict[str, Any] = {rng.choice("kl"): rng.choice((None, 1, True, "x", {"y": []}))}
    return rng.choice(
        (
            *[ops.write(zone, name, value())] * 3,
            *[ops.append(zone, name, value())] * 5,
            ops.append_lines(zone, name, [value()[:300], b"end"]),
            ops.set_meta(zone, rng.choice((name, None)), meta),
            ops.delete_file(zone, name),
            ops.delete_zone(zone),
            ops.move_zone(zone, other),
            ops.copy_zone(zone, other),
        )
    )
