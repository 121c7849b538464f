"""`recovered`: the lines behind the snapshot's mark that were there when the daemon started."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from filestore.sessions import Sessions
from filestore.sessions import sessions as module
from tests.conftest import StoreOpener
from tests.contract.tools import WAIT_S_MAX
from tests.sessions.conftest import OpenSessions
from tests.sessions.tools import LARGE_BYTES, snapshot
from tests.support.faults import until

Restart = Callable[[], Awaitable[Sessions]]


@pytest.fixture
def restart(open_store: StoreOpener, on: OpenSessions) -> Restart:
    """Starts the daemon, again and again on the same folder."""
    ends: list[Callable[[], Awaitable[None]]] = []

    async def start() -> Sessions:
        for end in ends:
            await end()
        store = await open_store()
        sessions = on(store)
        ends.extend([sessions.close, store.close])
        return sessions

    return start


async def recovered(sessions: Sessions, name: str = "a") -> int | None:
    return (await sessions.read_state(name)).recovered


async def left(sessions: Sessions, lines: int, mark: object, name: str = "a") -> Sessions:
    """A session whose snapshot has a mark, with so many lines."""
    await sessions.append_output(name, [f"{number}" for number in range(lines)])
    await sessions.write_state(name, snapshot("hello", mark=mark))
    return sessions


async def test_lines_behind_the_mark_at_start_are_recovered(restart: Restart) -> None:
    await left(await restart(), 5, 2)
    sessions = await restart()
    assert await recovered(sessions) == 3
    assert await recovered(sessions) == 3, "reading does not use it up"


async def test_lines_appended_since_the_start_are_not_recovered(restart: Restart) -> None:
    await left(await restart(), 5, 2)
    sessions = await restart()
    await sessions.append_output("a", ["x", "y"])
    assert await recovered(sessions) == 3
    await sessions.append_output("a", " ")
    assert await recovered(sessions) == 3


async def test_lines_of_a_session_that_began_since_the_start_are_not_recovered(
    restart: Restart,
) -> None:
    sessions = await left(await restart(), 5, 2)
    assert await recovered(sessions) == 0
    await sessions.append_output("a", "x")
    assert await recovered(sessions) == 0


@pytest.mark.parametrize(("mark", "expected"), [(4, 1), (5, 0), (6, 0), (7, 0), (100, 0)])
async def test_lines_covered_by_a_new_save_are_recovered_no_more(
    restart: Restart, mark: int, expected: int
) -> None:
    await left(await restart(), 5, 2)
    sessions = await restart()
    await sessions.append_output("a", ["x"])
    await sessions.write_state("a", snapshot("hello", mark=mark))
    assert await recovered(sessions) == expected


async def test_mark_beyond_the_stream_recovers_nothing(restart: Restart) -> None:
    await left(await restart(), 5, 99)
    assert await recovered(await restart()) == 0


@pytest.mark.parametrize("mark", [None, 0, True, False, 1.0, 2.5, -1, "2", [2], 10**30])
async def test_mark_that_is_none_is_unknown(restart: Restart, mark: object) -> None:
    await left(await restart(), 5, mark)
    assert await recovered(await restart()) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"{}", b'{"nodes":[]}'])
async def test_snapshot_without_mark_is_unknown(restart: Restart, content: bytes) -> None:
    sessions = await restart()
    await sessions.append_output("a", "line")
    await sessions.write_state("a", content)
    assert await recovered(await restart()) is None


async def test_no_session_and_no_snapshot_are_unknown(restart: Restart) -> None:
    sessions = await restart()
    assert await recovered(sessions) is None
    await sessions.append_output("a", "line")
    assert await recovered(await restart()) is None


async def test_mark_in_overlays_only_counts(restart: Restart) -> None:
    sessions = await restart()
    await sessions.append_output("a", ["1", "2", "3"])
    await sessions.write_state("a", b'{"overlays":[],"highWaterMark":1}')
    assert await recovered(await restart()) == 2


async def test_mark_that_is_taken_away_is_unknown_again(restart: Restart) -> None:
    await left(await restart(), 5, 2)
    sessions = await restart()
    await sessions.write_state("a", b"{}")
    assert await recovered(sessions) is None


async def test_each_start_counts_anew(restart: Restart) -> None:
    await left(await restart(), 5, 2)
    sessions = await restart()
    await sessions.append_output("a", ["x", "y"])
    assert await recovered(sessions) == 3
    assert await recovered(await restart()) == 5


async def test_recovered_follows_through_archive_and_restore(restart: Restart) -> None:
    await left(await restart(), 5, 2)
    sessions = await restart()
    await sessions.append_output("a", "x")
    archived = await sessions.archive("a")
    assert archived is not None
    assert (await sessions.read_archive(archived.archive_zoneid)).recovered == 3
    await sessions.append_output("a", ["other"] * 9)
    await sessions.restore(archived.archive_zoneid)
    assert await recovered(sessions) == 3


async def test_recovered_of_a_fork_is_that_of_its_source(restart: Restart) -> None:
    """The copied lines were there at the start, or were not, as in the original."""
    await left(await restart(), 5, 2)
    sessions = await restart()
    await sessions.append_output("a", ["x", "y"])
    await sessions.fork("a", "b")
    assert await recovered(sessions, "a") == 3
    assert await recovered(sessions, "b") == 3


async def test_recovered_of_agents_does_not_mix(restart: Restart) -> None:
    sessions = await restart()
    await left(sessions, 5, 2, "a")
    await left(sessions, 7, 1, "b")
    sessions = await restart()
    await sessions.append_output("a", ["x"] * 3)
    assert await recovered(sessions, "a") == 3
    assert await recovered(sessions, "b") == 6


async def test_recovered_of_large_snapshot_is_known_after_a_start_that_found_it_unread(
    restart: Restart,
) -> None:
    """The daemon died before the background came to it: whoever reads next is told all the same."""
    sessions = await restart()
    await sessions.append_output("a", ["1", "2", "3"])
    await sessions.write_state("a", snapshot("large", mark=1, pad_to=LARGE_BYTES))
    assert await recovered(sessions) == 0
    assert await recovered(await restart()) == 2


async def test_preview_that_a_start_found_unread_is_made_when_agents_are_listed(
    restart: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = await restart()
    await sessions.write_state("a", snapshot("small"))
    await sessions.write_state("a", snapshot("large", pad_to=LARGE_BYTES))
    monkeypatch.setattr(module, "REFRESH_S", 0.0)
    sessions = await restart()

    async def is_known() -> bool:
        return [each.preview for each in await sessions.list_agents()] == ["large"]

    await until(is_known, WAIT_S_MAX)


class Stop:
    """A failpoint that holds the writer right behind a commit."""

    def __init__(self) -> None:
        self.is_armed = False
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, name: str) -> None:
        if self.is_armed and name == "commit.after":
            self.is_armed = False
            self.reached.set()
            self.opened.wait(WAIT_S_MAX)

    @asynccontextmanager
    async def held(self, work: Awaitable[object]) -> AsyncIterator[None]:
        """Inside the block `work` is committed, but its caller has not heard of it."""

        async def run() -> None:
            await work

        self.is_armed = True
        async with asyncio.TaskGroup() as group:
            group.create_task(run())
            assert await asyncio.to_thread(self.reached.wait, WAIT_S_MAX)
            try:
                yield
            finally:
                self.opened.set()


async def test_line_that_is_committed_but_not_answered_is_not_recovered(
    open_store: StoreOpener, on: OpenSessions
) -> None:
    """Another pane reads in the very moment in which a line is appended."""
    store = await open_store()
    await left(on(store), 5, 2)
    await store.close()
    stop = Stop()
    sessions = on(await open_store(failpoint=stop))
    async with stop.held(sessions.append_output("a", ["x", "y"])):
        assert await recovered(sessions) == 3
    assert await recovered(sessions) == 3
