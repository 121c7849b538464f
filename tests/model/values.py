"""What the model tests write: awkward bytes, names and meta, few enough to come up again.

Values are put together from a small stock, so that equal ones, common prefixes and appends that
continue an earlier value come up by themselves: that is what deduplication, joining and "unchanged"
live on.
"""

import random
from typing import Any

from hypothesis import strategies as st

from tests.support import child_model as ops
from tests.support.child_model import Op

ZONES = ("a", "a/1", "a/2", "a/é", "ab", "b", "\uff5e", "😀")
"""Prefixes of one another; the last two sort differently by code points and by UTF-16."""
NAMES = ("state", "log", "名")
PREFIXES = ("", "a", "a/", "b", "c", "\uff5e", "😀x")

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


class Value(bytes):
    """Bytes that say in a failing test where they come from instead of showing themselves."""

    recipe = ""

    def __repr__(self) -> str:
        return self.recipe


def value(stock: int, start: int, length: int | None, scraps: list[bytes]) -> Value:
    """A part of STOCK[stock], and some scraps behind it."""
    end = None if length is None else start + length
    made = Value(STOCK[stock][start:end] + b"".join(scraps))
    made.recipe = f"value({stock}, {start}, {length}, {scraps})"
    return made


scraps = st.lists(st.sampled_from(SCRAPS), max_size=8).map(b"".join)


def any_value(lengths: tuple[int | None, ...]) -> st.SearchStrategy[bytes]:
    ends: st.SearchStrategy[list[bytes]] = st.one_of(
        st.just([]), st.lists(st.sampled_from(SCRAPS), max_size=4)
    )
    stock, starts = st.sampled_from(range(len(STOCK))), st.sampled_from((0, 0, 0, 100))
    return st.one_of(scraps, st.builds(value, stock, starts, st.sampled_from(lengths), ends))


values = any_value((*LENGTHS, None))
small_values = any_value(LENGTHS)
"""Small enough to be prepared on the event loop, so that units arrive in the order of the calls."""
lines = st.lists(
    st.one_of(scraps, st.sampled_from((b"one", b"two\nthree", b"x" * 100))), max_size=4
)
meta_values = st.sampled_from(
    [None, 0, False, 0.0, 1, True, 1.0, "", "é\n", [], [None, {"x": 1}], {"deep": {"er": None}}]
)
meta_changes = st.dictionaries(st.sampled_from(["k", "l", ""]), meta_values, max_size=3)

zones = st.sampled_from(ZONES)
names = st.sampled_from(NAMES)
guards = st.sampled_from((None, None, None, "current", "wrong", "absent"))


def guarded(op: Op, guard: str | None) -> Op:
    return op if guard is None else op | {"guard": guard}


def write(zone: str, name: str, data: bytes, guard: str | None) -> Op:
    return guarded(ops.write(zone, name, data), guard)


def operations(
    values: st.SearchStrategy[bytes], guards: st.SearchStrategy[str | None]
) -> st.SearchStrategy[Op]:
    """Any one operation but a transaction."""
    return st.one_of(
        st.builds(write, zones, names, values, guards),
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

    def data() -> bytes:
        scraps = rng.choices(SCRAPS, k=rng.randrange(6))
        length = rng.choice((0, *LENGTHS))
        return value(rng.randrange(len(STOCK)), rng.choice((0, 0, 100)), length, scraps)

    zone, other, name = rng.choice(zones), rng.choice(zones), rng.choice(NAMES)
    meta: dict[str, Any] = {rng.choice("kl"): rng.choice((None, 1, True, "x", {"y": []}))}
    return rng.choice(
        (
            *[ops.write(zone, name, data())] * 3,
            *[ops.append(zone, name, data())] * 5,
            ops.append_lines(zone, name, [data()[-300:], b"end"]),
            ops.set_meta(zone, rng.choice((name, None)), meta),
            ops.delete_file(zone, name),
            ops.delete_zone(zone),
            ops.move_zone(zone, other),
            ops.copy_zone(zone, other),
        )
    )
