"""`append_lines` adds records: each ends with one line break, none is blank, none fuses."""

import itertools

import pytest

from filestore import (
    FileStore,
    InvalidArgumentError,
    Limits,
    LinePage,
    LinesAppended,
    TooLargeError,
)
from tests.conftest import StoreOpener
from tests.contract.tools import NOT_SPACES, ODD_SPACES


async def test_append_lines_to_missing_file_makes_it(store: FileStore) -> None:
    done = await store.append_lines("z", "f", ["one", "two"])
    assert done == LinesAppended(
        offset=0, first_line=0, lines=2, bytes_written=8, version=done.version
    )
    assert await store.read("z", "f") == b"one\ntwo\n"
    info = await store.stat("z", "f")
    assert info is not None
    assert (info.lines, info.size, info.version) == (2, 8, done.version)


async def test_append_lines_returns_offset_and_first_line(store: FileStore) -> None:
    await store.append_lines("z", "f", ["one", "two"])
    done = await store.append_lines("z", "f", ["three"])
    assert (done.offset, done.first_line, done.lines) == (8, 2, 1)
    assert await store.read_lines("z", "f", done.first_line, 1) == LinePage([b"three"], 3)


async def test_append_lines_takes_text_and_bytes(store: FileStore) -> None:
    done = await store.append_lines("z", "f", ["äöü", b"\xff\xfe raw", memoryview(b"view")])  # type: ignore[list-item]  # taken, if not promised
    assert done.lines == 3
    assert await store.read("z", "f") == "äöü\n".encode() + b"\xff\xfe raw\nview\n"


async def test_append_lines_takes_any_iterable(store: FileStore) -> None:
    done = await store.append_lines("z", "f", (f"line {number}" for number in range(3)))
    assert done.lines == 3


@pytest.mark.parametrize("given", ["one", "one\n", "one\n\n\n", "\none", "\n\n one\n"])
async def test_append_lines_ends_each_with_exactly_one_break(store: FileStore, given: str) -> None:
    await store.append_lines("z", "f", [given, "last"])
    assert await store.read("z", "f") in (b"one\nlast\n", b" one\nlast\n")


async def test_append_lines_splits_inner_breaks(store: FileStore) -> None:
    done = await store.append_lines("z", "f", ["a\nb\n\nc", b"d\ne"])
    assert done.lines == 5
    assert await store.read("z", "f") == b"a\nb\nc\nd\ne\n"


@pytest.mark.parametrize("mark", ["\r", "\r\n", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"])
async def test_append_lines_splits_at_line_feed_only(store: FileStore, mark: str) -> None:
    done = await store.append_lines("z", "f", [f"a{mark}b"])
    assert done.lines == 1 + mark.count("\n")
    assert await store.read("z", "f") == f"a{mark}b\n".encode()


async def test_append_lines_keeps_carriage_returns(store: FileStore) -> None:
    """CRLF: the carriage return belongs to the line; alone it is a blank line."""
    done = await store.append_lines("z", "f", [b"a\r\nb\r\n\r\n", b"\r", b"c\r"])
    assert done.lines == 3
    assert (await store.read_lines("z", "f", 0, 9)).lines == [b"a\r", b"b\r", b"c\r"]


@pytest.mark.parametrize("space", [*ODD_SPACES, "", "\n", "\n\n"], ids=ascii)
async def test_append_lines_drops_blank_lines(store: FileStore, space: str) -> None:
    done = await store.append_lines("z", "f", [space, "a", space * 3, f" {space}\t", "b"])
    assert done.lines == 2
    assert await store.read("z", "f") == b"a\nb\n"


@pytest.mark.parametrize("char", NOT_SPACES, ids=ascii)
async def test_append_lines_keeps_what_is_no_white_space(store: FileStore, char: str) -> None:
    done = await store.append_lines("z", "f", [char, f" {char} "])
    assert done.lines == 2
    assert await store.read("z", "f") == f"{char}\n {char} \n".encode()


@pytest.mark.parametrize("space", ODD_SPACES, ids=ascii)
async def test_append_lines_keeps_white_space_around_text(store: FileStore, space: str) -> None:
    await store.append_lines("z", "f", [f"{space}x{space}"])
    assert (await store.read_lines("z", "f", 0, 1)).lines == [f"{space}x{space}".encode()]


@pytest.mark.parametrize("raw", [b"\xe2\x80", b"\xc2", b" \xe3\x80", b"\x85", b"\xa0"], ids=repr)
async def test_append_lines_keeps_part_of_a_white_space_character(
    store: FileStore, raw: bytes
) -> None:
    """Not UTF-8, so not white space: no byte of a caller is dropped by a guess."""
    done = await store.append_lines("z", "f", [raw])
    assert done.lines == 1
    assert (await store.read_lines("z", "f", 0, 1)).lines == [raw]


@pytest.mark.parametrize("lines", [[], [""], ["\n", b" ", "\u3000"]], ids=repr)
async def test_append_lines_of_nothing_to_missing_file_makes_nothing(
    store: FileStore, lines: list[str | bytes]
) -> None:
    assert await store.append_lines("z", "f", lines) == LinesAppended(0, 0, 0, 0, 0)
    assert await store.zone("z") is None


async def test_append_lines_of_nothing_to_present_file_changes_nothing(store: FileStore) -> None:
    await store.append("z", "f", b"one\ntorn")
    before = await store.stat("z", "f")
    assert before is not None
    done = await store.append_lines("z", "f", ["  ", "\n"])
    assert done == LinesAppended(8, 2, 0, 0, before.version)
    assert await store.stat("z", "f") == before
    assert await store.read("z", "f") == b"one\ntorn"


async def test_append_lines_after_torn_line_closes_it_first(store: FileStore) -> None:
    await store.append("z", "f", b'one\n{"torn": ')
    done = await store.append_lines("z", "f", ["new"])
    assert await store.read("z", "f") == b'one\n{"torn": \nnew\n'
    assert (done.offset, done.first_line, done.lines, done.bytes_written) == (14, 2, 1, 4)
    found = await store.read_lines("z", "f", 0, 9)
    assert found == LinePage([b"one", b'{"torn": ', b"new"], 3)


@pytest.mark.parametrize("space", [*ODD_SPACES, " \u2028 "], ids=ascii)
async def test_append_lines_after_blank_torn_line_closes_it_without_number(
    store: FileStore, space: str
) -> None:
    torn = space.encode()
    await store.append("z", "f", b"one\n" + torn)
    done = await store.append_lines("z", "f", ["new"])
    assert await store.read("z", "f") == b"one\n" + torn + b"\nnew\n"
    assert (done.offset, done.first_line) == (4 + len(torn) + 1, 1)
    assert await store.read_lines("z", "f", 0, 9) == LinePage([b"one", b"new"], 2)
    assert await store.read_lines("z", "f", 1, 9) == LinePage([b"new"], 2)


async def test_append_lines_after_written_torn_line_closes_it(store: FileStore) -> None:
    await store.write("z", "f", b"torn")
    done = await store.append_lines("z", "f", ["new"])
    assert (done.offset, done.first_line) == (5, 1)
    assert await store.read("z", "f") == b"torn\nnew\n"


async def test_append_lines_after_torn_line_that_was_sealed_closes_it(
    open_store: StoreOpener,
) -> None:
    store = await open_store(limits=Limits(seal_bytes=16))
    await store.append("z", "f", b"one\n" + b"torn" * 20)
    await store.tidy()
    done = await store.append_lines("z", "f", ["new"])
    assert done.first_line == 2
    assert (await store.read_lines("z", "f", 0, 9)).lines == [b"one", b"torn" * 20, b"new"]


async def test_append_lines_after_torn_line_and_reopen_closes_it(open_store: StoreOpener) -> None:
    store = await open_store()
    await store.append("z", "f", b"torn")
    await store.close()
    store = await open_store()
    done = await store.append_lines("z", "f", ["new"])
    assert (done.offset, done.first_line) == (5, 1)
    assert await store.read("z", "f") == b"torn\nnew\n"


async def test_append_lines_between_appends_counts_like_the_whole(store: FileStore) -> None:
    """Every order of three ways to add to a file; the numbers must be those of the joined bytes."""
    pieces = [b"raw", b"tail\n", b" ", b"\n"]
    for number, order in enumerate(itertools.product(pieces, repeat=3)):
        name = f"f{number}"
        wanted = b""
        for piece in order:
            await store.append("z", name, piece)
            wanted += piece
            done = await store.append_lines("z", name, ["line"])
            if not wanted.endswith(b"\n"):
                wanted += b"\n"
            assert done.offset == len(wanted)
            assert done.first_line == sum(1 for line in wanted.split(b"\n") if line.strip())
            wanted += b"line\n"
        assert await store.read("z", name) == wanted


async def test_append_lines_over_limit_raises_and_adds_nothing(open_store: StoreOpener) -> None:
    store = await open_store(limits=Limits(append_bytes_max=10))
    await store.append_lines("z", "f", ["12345", "789"])
    with pytest.raises(TooLargeError) as caught:
        await store.append_lines("z", "f", ["12345", "7890"])
    assert caught.value.limit == 10
    assert await store.read("z", "f") == b"12345\n789\n"


async def test_append_lines_with_lone_surrogate_raises_and_adds_nothing(store: FileStore) -> None:
    with pytest.raises(InvalidArgumentError):
        await store.append_lines("z", "f", ["fine", "half \ud800"])
    assert await store.zone("z") is None


@pytest.mark.parametrize("lines", ["text", b"bytes", None, 5], ids=repr)
async def test_append_lines_of_what_is_no_list_raises(store: FileStore, lines: object) -> None:
    """A lone string would be taken apart into characters, lone bytes into runs of NUL."""
    with pytest.raises(InvalidArgumentError):
        await store.append_lines("z", "f", lines)  # type: ignore[arg-type]  # wrong on purpose
    assert await store.zone("z") is None


@pytest.mark.parametrize("line", [None, 5, ["a"], {"a": 1}], ids=repr)
async def test_append_lines_with_what_is_no_line_raises(store: FileStore, line: object) -> None:
    """A number would become that many NUL bytes."""
    with pytest.raises(InvalidArgumentError):
        await store.append_lines("z", "f", ["fine", line])  # type: ignore[list-item]  # on purpose
    assert await store.zone("z") is None
