"""`read_output`: pages of a stream, by lines and by bytes."""

from typing import TypedDict

import pytest

from filestore import FileStore, InvalidArgumentError, NotFoundError
from filestore.sessions import OutputPage, Sessions
from tests.conftest import StoreOpener
from tests.contract.tools import noise
from tests.sessions.conftest import OpenSessions
from tests.sessions.tools import all_zones, snapshot

PAGE_LINES = 10_000
PAGE_BYTES = 8 << 20


class Asked(TypedDict, total=False):
    """What `read_output` takes besides the place."""

    from_line: int
    tail: int
    limit: int


TEN = [b"%d" % number for number in range(10)]


@pytest.mark.parametrize(
    ("asked", "lines", "first", "following"),
    [
        (Asked(), TEN, 0, 10),
        (Asked(from_line=0), TEN, 0, 10),
        (Asked(from_line=4), TEN[4:], 4, 10),
        (Asked(from_line=4, limit=3), TEN[4:7], 4, 7),
        (Asked(from_line=9), TEN[9:], 9, 10),
        (Asked(from_line=10), [], 10, 10),
        (Asked(limit=2), TEN[:2], 0, 2),
        (Asked(limit=1 << 40), TEN, 0, 10),
        (Asked(tail=3), TEN[7:], 7, 10),
        (Asked(tail=10), TEN, 0, 10),
        (Asked(tail=11), TEN, 0, 10),
        (Asked(tail=1 << 40), TEN, 0, 10),
        (Asked(tail=0), [], 10, 10),
        (Asked(tail=5, limit=2), TEN[8:], 8, 10),
    ],
    ids=str,
)
async def test_page_is_what_was_asked_for(
    sessions: Sessions, asked: Asked, lines: list[bytes], first: int, following: int
) -> None:
    await sessions.append_output("a", TEN)
    assert await sessions.read_output("a", **asked) == OutputPage(lines, first, 10, following)


async def test_page_far_behind_the_end_is_empty(sessions: Sessions) -> None:
    await sessions.append_output("a", TEN)
    page = await sessions.read_output("a", from_line=1 << 70)
    assert (page.lines, page.total_lines) == ([], 10)


async def test_page_of_no_session_is_empty(store: FileStore, sessions: Sessions) -> None:
    for asked in (Asked(), Asked(tail=5), Asked(limit=0)):
        assert await sessions.read_output("a", **asked) == OutputPage([], 0, 0, 0)
    assert await all_zones(store) == []


async def test_page_of_session_without_output_is_empty(sessions: Sessions) -> None:
    await sessions.write_state("a", snapshot("hello"))
    assert await sessions.read_output("a") == OutputPage([], 0, 0, 0)
    archived = await sessions.archive("a")
    assert archived is not None
    assert await sessions.read_output(archived.archive_zoneid) == OutputPage([], 0, 0, 0)


async def test_page_of_archive_that_is_missing_is_not_found(sessions: Sessions) -> None:
    await sessions.append_output("a", "line")
    with pytest.raises(NotFoundError):
        await sessions.read_output("agent:a:archive:7")


async def test_page_of_archive_is_that_of_the_session(sessions: Sessions) -> None:
    await sessions.append_output("a", TEN)
    archived = await sessions.archive("a")
    assert archived is not None
    await sessions.append_output("a", "other")
    page = await sessions.read_output(archived.archive_zoneid, tail=2)
    assert page == OutputPage(TEN[8:], 8, 10, 10)


@pytest.mark.parametrize(
    "asked",
    [Asked(from_line=-1), Asked(tail=-1), Asked(limit=-1), Asked(from_line=0, tail=1)],
    ids=str,
)
async def test_page_that_makes_no_sense_is_refused(sessions: Sessions, asked: Asked) -> None:
    await sessions.append_output("a", TEN)
    with pytest.raises(InvalidArgumentError):
        await sessions.read_output("a", **asked)


async def test_page_holds_at_most_10_000_lines(sessions: Sessions) -> None:
    lines = [b"%d" % number for number in range(PAGE_LINES + 500)]
    await sessions.append_output("a", lines)
    for asked in (Asked(), Asked(limit=PAGE_LINES + 1), Asked(from_line=100)):
        page = await sessions.read_output("a", **asked)
        assert len(page.lines) == PAGE_LINES
        assert page.next_line == page.first_line + PAGE_LINES
    page = await sessions.read_output("a", tail=PAGE_LINES + 100)
    assert page == OutputPage(lines[500:], 500, len(lines), len(lines))


@pytest.mark.parametrize("line_bytes", [1 << 20, 3 << 20, (8 << 20) - 1, 8 << 20])
async def test_page_holds_at_most_8_mib(sessions: Sessions, line_bytes: int) -> None:
    lines = [b"%d" % number + b"x" * (line_bytes - 1) for number in range(9)]
    for line in lines:
        await sessions.append_output("a", line)
    found: list[bytes] = []
    while len(found) < len(lines):
        page = await sessions.read_output("a", from_line=len(found))
        assert 0 < sum(map(len, page.lines)) <= PAGE_BYTES
        assert page.next_line == len(found) + len(page.lines)
        found += page.lines
    assert found == lines


async def test_line_over_8_mib_comes_alone(sessions: Sessions) -> None:
    large = b"x" * (PAGE_BYTES + 1)
    await sessions.append_output("a", ["before", large, "after"])
    pages = []
    at = 0
    while at < 3:
        page = await sessions.read_output("a", from_line=at)
        assert page.next_line > at
        at = page.next_line
        pages.append(page.lines)
    assert pages == [[b"before"], [large], [b"after"]]


@pytest.mark.parametrize("limit", [1, 7, 64, PAGE_LINES])
async def test_walk_by_next_line_reads_everything_once(
    open_store: StoreOpener, on: OpenSessions, limit: int
) -> None:
    """Through sealed chunks, the tail, and lines that span both."""
    store = await open_store()
    sessions = on(store)
    wanted = []
    for number in range(300):
        wanted.append(b"%d " % number + noise(number * 37 % 5000, number).replace(b"\n", b"-"))
        await sessions.append_output("a", wanted[-1])
        if number == 150:
            await store.tidy()
    found: list[bytes] = []
    at = 0
    while True:
        page = await sessions.read_output("a", from_line=at, limit=limit)
        assert page.first_line == at
        assert page.total_lines == len(wanted)
        if not page.lines:
            break
        found += page.lines
        at = page.next_line
    assert found == wanted


async def test_walk_goes_on_with_what_is_appended_meanwhile(sessions: Sessions) -> None:
    await sessions.append_output("a", TEN)
    page = await sessions.read_output("a")
    await sessions.append_output("a", ["new", "er"])
    page = await sessions.read_output("a", from_line=page.next_line)
    assert page == OutputPage([b"new", b"er"], 10, 12, 12)
