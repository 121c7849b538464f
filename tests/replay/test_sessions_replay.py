"""Replay of sessions from a store: equal to a fold of the bytes, in pages, without blocking."""

import asyncio
from itertools import pairwise
from pathlib import Path

import orjson
import pytest

from filestore import BusyError, ClosedError, FileStore, InvalidArgumentError, NotFoundError
from filestore.errors import InvalidDefinitionIdError, InvalidZoneError
from filestore.replay import Node, replay, replay_bytes
from filestore.sessions import Sessions, replaying
from tests.contract.tools import WAIT_S_MAX
from tests.replay.golden_streams import STREAMS, read_stream
from tests.replay.streams import NODES_PER_TURN, turns
from tests.sessions.tools import OUTPUT

ZONE = "agent:a:current"


async def all_nodes(sessions: Sessions, place: str, limit: int) -> list[Node]:
    """All pages of a replay, each no longer than the limit."""
    found: list[Node] = []
    after: int | None = 0
    while after is not None:
        page = await sessions.replays.read(place, after=after, limit=limit)
        assert len(page.nodes) <= limit
        assert page.next in (None, after + len(page.nodes))
        found += page.nodes
        after = page.next
    return found


@pytest.mark.parametrize("name", STREAMS)
async def test_replay_from_the_store_equals_the_fold_of_the_bytes(
    store: FileStore, sessions: Sessions, name: str
) -> None:
    data = read_stream(name)
    await store.append(ZONE, OUTPUT, data)
    page = await sessions.replays.read("a")
    folded = replay_bytes([data])
    assert page.nodes == folded.nodes()
    assert (page.provider, page.lines) == (folded.provider, folded.lines)
    assert (page.skipped, page.torn, page.next) == (folded.skipped, folded.is_torn, None)


async def test_pages_are_the_whole_once(sessions: Sessions) -> None:
    await sessions.append_output("a", turns(20))
    whole = (await sessions.replays.read("a")).nodes
    assert len(whole) == 20 * NODES_PER_TURN
    for limit in (1, 7, 60, 61):
        assert await all_nodes(sessions, "a", limit) == whole
    beyond = await sessions.replays.read("a", after=1000)
    assert (beyond.nodes, beyond.next, beyond.lines) == ([], None, 80)


async def test_page_is_bounded_by_bytes(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sessions.append_output("a", turns(20))
    whole = (await sessions.replays.read("a")).nodes
    monkeypatch.setattr(replaying, "PAGE_BYTES_MAX", 1000)
    page = await sessions.replays.read("a")
    assert 0 < len(page.nodes) < len(whole)
    assert sum(len(orjson.dumps(node)) for node in page.nodes) <= 1000
    assert await all_nodes(sessions, "a", 1000) == whole


async def test_node_larger_than_any_page_is_cut_and_says_so(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaying, "NODE_BYTES_MAX", 1000)
    monkeypatch.setattr(replaying, "TEXT_CHARS_MAX", 10)
    await sessions.append_output("a", orjson.dumps({"text": "x" * 2000}))
    (node,) = (await sessions.replays.read("a")).nodes
    assert node["content"] == "x" * 10
    assert node["truncated"] == len(
        orjson.dumps(replay([b'{"text":"%b"}' % (b"x" * 2000)]).nodes()[0])
    )


async def test_replay_goes_on_with_the_lines_that_came(sessions: Sessions) -> None:
    """The fold is kept between two calls; what it gives may not differ from a fresh one."""
    lines = turns(30)
    for start, end in pairwise(range(0, len(lines) + 1, 5)):
        await sessions.append_output("a", lines[start:end])
        page = await sessions.replays.read("a")
        assert page.nodes == replay(lines[:end]).nodes()
        assert page.lines == end


async def test_archive_in_between_is_no_mixture(sessions: Sessions) -> None:
    await sessions.append_output("a", turns(3))
    before = await sessions.replays.read("a")
    archived = await sessions.archive("a")
    assert archived is not None
    await sessions.append_output("a", turns(1))
    assert len((await sessions.replays.read("a")).nodes) == NODES_PER_TURN
    assert await sessions.replays.read(archived.archive_zoneid) == before


@pytest.mark.parametrize(
    ("tail", "torn", "lines"),
    [(b'{"text": "half', True, 2), (b'{"text": "whole"}', False, 2), (b"  ", False, 1)],
)
async def test_end_without_line_break_is_torn_unless_it_parses(
    store: FileStore, sessions: Sessions, tail: bytes, torn: bool, lines: int
) -> None:
    await store.append(ZONE, OUTPUT, b'{"text": "one"}\n' + tail)
    for _ in range(2):
        page = await sessions.replays.read("a")
        assert (page.torn, page.lines) == (torn, lines)
    await sessions.append_output("a", '{"text": "next"}')
    page = await sessions.replays.read("a")
    assert not page.torn
    assert page.nodes[-1]["content"] == "next"


async def test_provider_may_be_named_and_is_checked(sessions: Sessions) -> None:
    await sessions.append_output("a", turns(1))
    assert (await sessions.replays.read("a", "generic")).provider == "generic"
    assert (await sessions.replays.read("a")).provider == "claude"
    with pytest.raises(InvalidArgumentError, match="no provider 'cobol'; known are: claude, "):
        await sessions.replays.read("a", "cobol")


async def test_places_that_are_none_are_refused(sessions: Sessions) -> None:
    assert (await sessions.replays.read("nobody")).nodes == []
    with pytest.raises(NotFoundError):
        await sessions.replays.read("agent:a:archive:7")
    with pytest.raises(InvalidZoneError):
        await sessions.replays.read("agent:a:current")
    with pytest.raises(InvalidDefinitionIdError):
        await sessions.replays.read("a b")
    with pytest.raises(InvalidArgumentError):
        await sessions.replays.read("a", after=-1)


async def test_too_many_at_a_time_are_refused(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sessions.append_output("a", turns(1))
    monkeypatch.setattr(replaying, "FOLDS_MAX", 0)
    with pytest.raises(BusyError) as caught:
        await sessions.replays.read("a")
    assert caught.value.retry_after_ms > 0


async def test_event_loop_goes_on_while_a_stream_is_folded(sessions: Sessions) -> None:
    """Turns of the loop are counted while megabytes are folded: on the loop itself there would be
    a handful of them for each piece that is read.
    """
    lines = turns(1000)
    for _ in range(10):
        await sessions.append_output("a", lines)
    beats = 0
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(sessions.replays.read("a"))
        while not reading.done():
            beats += 1
            await asyncio.wait([reading], timeout=0.001)
    assert reading.result().lines == 40_000
    assert beats > 20


async def test_store_opened_to_look_beside_the_writer_replays_the_same(
    store: FileStore, sessions: Sessions
) -> None:
    await sessions.append_output("a", turns(5))
    wanted = await sessions.replays.read("a")
    async with await FileStore.open(Path(store.data_dir), read_only=True) as beside:
        found = await replaying.fold_stream(beside, "a")
        assert found is not None
        assert found.nodes() == wanted.nodes
        later = await replaying.fold_stream(beside, "a", first_line=16)
        assert later is not None
        assert (later.lines, later.covered) == (4, 20)
        assert later.nodes() == wanted.nodes[-NODES_PER_TURN:]
        assert await replaying.fold_stream(beside, "nobody") is None


async def test_lines_are_passed_over_by_number_also_among_blank_ones(
    store: FileStore, sessions: Sessions
) -> None:
    lines = [b'{"text": "%d"}' % number for number in range(5)]
    await store.append(ZONE, OUTPUT, b"\n \n" + b"\n\n".join(lines) + b"\n")
    for first in range(7):
        found = await replaying.fold_stream(store, "a", first_line=first)
        assert found is not None
        assert [node["content"] for node in found.nodes()] == [f"{n}" for n in range(first, 5)]


async def test_stop_ends_a_replay_under_way_and_the_next_ones(sessions: Sessions) -> None:
    for _ in range(3):
        await sessions.append_output("a", turns(2000))
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(asyncio.wait_for(_closed(sessions), WAIT_S_MAX))
        beats = 0
        while beats < 3:
            beats += 1
            await asyncio.wait([reading], timeout=0.001)
        sessions.stop_replays()
    with pytest.raises(ClosedError):
        await sessions.replays.recover(is_dry_run=False)


async def _closed(sessions: Sessions) -> None:
    """Read again and again until it is refused."""

    async def read() -> None:
        while True:
            await sessions.replays.read("a", "generic")

    with pytest.raises(ClosedError):
        await read()
