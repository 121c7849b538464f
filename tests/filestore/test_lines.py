"""Lines by themselves: every split of any bytes counts and finds the same lines."""

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from filestore.lines import LineCounter, LineScanner, Open, is_blank, split_lines
from tests.contract.tools import NOT_SPACES, ODD_SPACES
from tests.support import child_model

ALPHABET = [b"\n", b"a", b" ", b"\t", b"\r", b"\xc2", b"\x85", b"\xa0", b"\x1c", b"\xe2", b"\x80"]
ALPHABET += [b"\xa8", b"\xe3", b"\xff", "\u2028".encode(), "\u3000".encode(), "€".encode()]

texts = st.lists(st.sampled_from(ALPHABET), max_size=24).map(b"".join)
cuts = st.lists(st.integers(0, 60), max_size=8)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Pieces of `data`, some of them empty."""
    marks = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(marks)]


def count(pieces: list[bytes]) -> tuple[list[int], Open]:
    """For each piece the lines that end in it, and what is open after the last."""
    counter = LineCounter()
    return [counter.feed(piece) for piece in pieces], counter.state


def counted(ended: list[int], state: Open) -> int:
    """Lines that have a number; an unterminated one counts unless it is blank so far."""
    return sum(ended) + state.counts


@pytest.mark.parametrize("space", ["", *ODD_SPACES, "\n", "".join(ODD_SPACES)], ids=ascii)
def test_line_of_white_space_is_blank(space: str) -> None:
    assert is_blank(space.encode())
    assert is_blank(f" {space}\t{space}".encode())
    assert not is_blank(f"{space}x{space}".encode())


@pytest.mark.parametrize("char", NOT_SPACES, ids=ascii)
def test_line_of_what_is_no_white_space_is_not_blank(char: str) -> None:
    assert not is_blank(char.encode())
    assert not is_blank(f" {char} ".encode())


def test_line_is_blank_exactly_for_unicode_white_space() -> None:
    """Every code point there is, against the list of the Unicode standard."""
    odd = [
        code
        for code in range(0x110000)
        if not 0xD800 <= code <= 0xDFFF
        and is_blank(chr(code).encode()) != (chr(code) in child_model.WHITE_SPACE)
    ]
    assert odd == []


@pytest.mark.parametrize("raw", [b"\xc2", b"\xe2\x80", b"\xe3\x80", b"\x85", b"\xa0", b" \xe2"])
def test_line_with_part_of_a_character_is_not_blank(raw: bytes) -> None:
    assert not is_blank(raw)


@given(texts)
def test_line_is_blank_like_the_model_says(line: bytes) -> None:
    for part in line.split(b"\n"):
        assert is_blank(part) == child_model.is_blank(part)


@given(texts, cuts)
@example(b"\xe2\x80\xa8\n", [2])
@example(b"\xe2\x80\xa8", [1, 2])
@example(b"  \xc2\x85", [3])
@example(b" a", [1])
def test_count_over_any_split_equals_the_count_of_the_whole(data: bytes, places: list[int]) -> None:
    pieces = cut(data, places)
    ended, state = count(pieces)
    assert len(ended) == len(pieces)
    assert counted(ended, state) == len(child_model.lines_of(data))
    assert sum(ended) == len(child_model.lines_of(data[: data.rfind(b"\n") + 1]))
    assert (state is Open.NOTHING) == (not data or data.endswith(b"\n"))


@given(texts, cuts)
@example(b"\xe2\x80\xa8\na\n", [2, 4])
def test_count_credits_each_piece_with_the_lines_that_end_in_it(
    data: bytes, places: list[int]
) -> None:
    pieces = cut(data, places)
    ended, _ = count(pieces)
    done = seen = 0
    for piece, number in zip(pieces, ended, strict=True):
        done += len(piece)
        seen += number
        whole = data[: data.rfind(b"\n", 0, done) + 1]
        assert seen == len(child_model.lines_of(whole))


@given(texts, texts)
@example(b"\xe2", b"\x80\xa8")
def test_line_that_is_decided_stays_so_whatever_follows(rest: bytes, more: bytes) -> None:
    """Only half a character needs to be looked at again."""
    rest, more = rest.replace(b"\n", b""), more.replace(b"\n", b"")
    counter = LineCounter()
    counter.feed(rest)
    assert counter.state.counts == (not is_blank(rest))
    if counter.state is Open.TEXT:
        counter.feed(more)
        assert counter.state is Open.TEXT
        assert not is_blank(rest + more)


@given(texts, cuts)
@example(b"\xe2\x80\xa8\na\n", [2, 4])
def test_counter_started_anew_from_what_it_left_goes_on_the_same(
    data: bytes, places: list[int]
) -> None:
    """As the store does it: state and half a character are all that is carried over."""
    pieces = cut(data, places)
    state, half, ended = Open.NOTHING, b"", []
    for piece in pieces:
        counter = LineCounter(state, half)
        ended.append(counter.feed(piece))
        state, half = counter.state, counter.half
    assert (ended, state) == count(pieces)


@given(texts, cuts)
@example(b"\xe2\x80\xa8\na\n", [2, 4])
def test_scanner_from_the_start_finds_all_lines(data: bytes, places: list[int]) -> None:
    scanner = LineScanner(0, None)
    found = [line for piece in cut(data, places) for line in scanner.feed(piece)]
    assert [*found, *scanner.finish()] == child_model.lines_of(data)


@given(texts, cuts, st.integers(0, 8))
@example(b"\xe2\x80\xa8\na\nb\n", [2, 4], 1)
@example(b"a \n\nb", [1], 1)
def test_scanner_from_the_middle_finds_the_lines_after_and_numbers_them(
    data: bytes, places: list[int], start: int
) -> None:
    """Started at a piece where a line ends, as the reader does to find the line after it."""
    pieces = cut(data, places)
    ended, _ = count(pieces)
    candidates = [index for index, number in enumerate(ended) if number]
    if not candidates:
        return
    first = candidates[start % len(candidates)]
    before = sum(ended[:first])
    scanner = LineScanner(before, ended[first])
    found = scanner.feed(pieces[first])
    number = scanner.number
    for piece in pieces[first + 1 :]:
        found += scanner.feed(piece)
    found += scanner.finish()
    wanted = child_model.lines_of(data)
    # It leaves out at most the line that was open where it started.
    assert number - before in (0, 1)
    assert found == wanted[number:]


@given(st.lists(texts, max_size=6))
def test_split_lines_gives_what_is_not_blank(lines: list[bytes]) -> None:
    wanted = [part for line in lines for part in child_model.lines_of(line)]
    assert split_lines(lines) == wanted


@given(st.lists(st.text(max_size=8), max_size=6))
def test_split_lines_of_text_equals_that_of_its_bytes(lines: list[str]) -> None:
    sound = [line for line in lines if not any(0xD800 <= ord(char) <= 0xDFFF for char in line)]
    assert split_lines(sound) == split_lines([line.encode() for line in sound])


def test_split_lines_of_lone_surrogate_raises() -> None:
    with pytest.raises(UnicodeEncodeError):
        split_lines(["\ud800"])


@pytest.mark.parametrize("space", [" ", "\u3000", "\x85"], ids=ascii)
def test_counter_in_long_white_space_carries_at_most_part_of_a_character(space: str) -> None:
    """Were it to carry it all, a few MiB of blanks would cost their square in time."""
    counter = LineCounter()
    data = space.encode() * 1000
    for at in range(0, len(data), 100):
        assert counter.feed(data[at : at + 100]) == 0
        assert len(counter.half) <= 2
    assert not counter.state.counts
