"""`list_archives` and `list_agents`: pages, order, counts."""

import pytest

from filestore import FileStore, InvalidArgumentError, NotFoundError
from filestore.sessions import AgentInfo, Sessions
from tests.conftest import FakeClock
from tests.sessions.tools import all_zones, snapshot


async def archive_at(sessions: Sessions, clock: FakeClock, name: str, ms: int) -> str:
    clock.now_ms = ms
    await sessions.append_output(name, f"{name} {ms}")
    archived = await sessions.archive(name)
    assert archived is not None
    assert archived.archived_at_ms == ms
    return archived.archive_zoneid


async def times(
    sessions: Sessions, name: str, limit: int = 0, before: int | None = None
) -> list[int]:
    return [row.archived_at_ms for row in await sessions.list_archives(name, limit, before=before)]


async def test_archives_of_unknown_agent_are_none(store: FileStore, sessions: Sessions) -> None:
    assert await sessions.list_archives("a") == []
    assert await all_zones(store) == []


async def test_archives_are_paged_newest_first(sessions: Sessions, clock: FakeClock) -> None:
    for ms in range(1000, 1130):
        await archive_at(sessions, clock, "a", ms)
    newest_first = list(range(1129, 999, -1))
    assert await times(sessions, "a") == newest_first[:20]
    assert await times(sessions, "a", 0) == newest_first[:20]
    assert await times(sessions, "a", 1) == newest_first[:1]
    assert await times(sessions, "a", 100) == newest_first[:100]
    assert await times(sessions, "a", 101) == newest_first[:100]
    assert await times(sessions, "a", 1 << 70) == newest_first[:100]
    assert await times(sessions, "a", 20, before=1110) == newest_first[20:40]


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
async def test_archives_walked_by_before_come_once_each(
    sessions: Sessions, clock: FakeClock, limit: int
) -> None:
    wanted = [9, 10, 99, 100, 999, 1000, 1001, 99_999, 1_700_000_000_000, 10**18]
    for ms in wanted:
        await archive_at(sessions, clock, "a", ms)
    found: list[int] = []
    while page := await times(sessions, "a", limit, found[-1] if found else None):
        assert len(page) <= limit
        found += page
    assert found == wanted[::-1], "by number, not by text"


async def test_archives_before_a_time_between_two_begin_with_the_older(
    sessions: Sessions, clock: FakeClock
) -> None:
    for ms in (10, 20, 30):
        await archive_at(sessions, clock, "a", ms)
    assert await times(sessions, "a", before=25) == [20, 10]
    assert await times(sessions, "a", before=20) == [10]
    assert await times(sessions, "a", before=10) == []
    assert await times(sessions, "a", before=0) == []
    assert await times(sessions, "a", before=-5) == []


@pytest.mark.parametrize("before", [(1 << 63) - 1, 1 << 63, 1 << 64, 10**30])
async def test_archives_before_a_time_beyond_all_are_all(
    sessions: Sessions, clock: FakeClock, before: int
) -> None:
    await archive_at(sessions, clock, "a", 10)
    assert await times(sessions, "a", before=before) == [10]


@pytest.mark.parametrize("before", [-(1 << 63) - 1, -(10**30)])
async def test_archives_before_a_time_below_all_are_none(
    sessions: Sessions, clock: FakeClock, before: int
) -> None:
    await archive_at(sessions, clock, "a", 10)
    assert await times(sessions, "a", before=before) == []


async def test_negative_limit_is_refused(sessions: Sessions) -> None:
    with pytest.raises(InvalidArgumentError):
        await sessions.list_archives("a", -1)
    with pytest.raises(InvalidArgumentError):
        await sessions.list_agents(-1)


async def test_archives_of_other_agents_do_not_show(sessions: Sessions, clock: FakeClock) -> None:
    for name in ("a", "b", "aa", "A"):
        for ms in (10, 20):
            clock.now_ms = ms
            await sessions.append_output(name, name)
            await sessions.archive(name)
    for name in ("a", "b", "aa", "A"):
        rows = await sessions.list_archives(name)
        assert [row.archive_zoneid for row in rows] == [
            f"agent:{name}:archive:20",
            f"agent:{name}:archive:10",
        ]


async def test_current_session_is_not_among_the_archives(sessions: Sessions) -> None:
    await sessions.append_output("a", "line")
    assert await sessions.list_archives("a") == []


async def test_rows_of_archives_do_not_touch_the_files(
    sessions: Sessions, store: FileStore, clock: FakeClock
) -> None:
    """The list is answered from rows: it stays the same when a file changes behind its back."""
    zone = await archive_at(sessions, clock, "a", 10)
    before = await sessions.list_archives("a")
    await store.append(zone, "output", b"more\n")
    assert await sessions.list_archives("a") == before


# -- delete


async def test_delete_archive_says_whether_it_was_there(
    store: FileStore, sessions: Sessions, clock: FakeClock
) -> None:
    zone = await archive_at(sessions, clock, "a", 10)
    assert await sessions.delete_archive(zone) is True
    assert await sessions.delete_archive(zone) is False
    assert await all_zones(store) == []
    with pytest.raises(NotFoundError):
        await sessions.read_archive(zone)
    with pytest.raises(NotFoundError):
        await sessions.read_output(zone)


async def test_delete_archive_leaves_the_others(sessions: Sessions, clock: FakeClock) -> None:
    zones = [await archive_at(sessions, clock, "a", ms) for ms in (10, 20, 30)]
    await sessions.append_output("a", "current")
    await archive_at(sessions, clock, "b", 20)
    assert await sessions.delete_archive(zones[1])
    assert await times(sessions, "a") == [30, 10]
    assert await times(sessions, "b") == [20]
    assert (await sessions.read_output("a")).lines == [b"current"]


async def test_delete_archive_of_a_fork_leaves_the_copy(
    sessions: Sessions, clock: FakeClock
) -> None:
    zone = await archive_at(sessions, clock, "a", 10)
    await sessions.fork(zone, "b")
    await sessions.delete_archive(zone)
    assert (await sessions.read_output("b")).lines == [b"a 10"]


# -- agents


async def test_agents_of_empty_store_are_none(sessions: Sessions) -> None:
    assert await sessions.list_agents() == []


async def test_agent_row_tells_all(sessions: Sessions, clock: FakeClock) -> None:
    await sessions.write_state("state", snapshot("hello", "more"))
    await sessions.append_output("output", ["one", "two"])
    await archive_at(sessions, clock, "archive", clock.now_ms)
    for _ in range(3):
        await sessions.append_output("all", "line")
        await sessions.archive("all")
    await sessions.append_output("all", "line")
    await sessions.write_state("all", b"{}")
    await sessions.write_state("zero", b"")
    now = clock.now_ms
    assert await sessions.list_agents() == [
        AgentInfo("all", True, now, "", 0, 3, 1),
        AgentInfo("archive", False, None, "", 0, 1, 0),
        AgentInfo("output", False, None, "", 0, 0, 2),
        AgentInfo("state", True, now, "hello", 2, 0, 0),
        AgentInfo("zero", True, now, "", 0, 0, 0),
    ]


async def test_agents_are_paged_by_definition_id(sessions: Sessions) -> None:
    names = sorted([f"agent-{number}" for number in range(120)] + ["A", "_", "-", "0", "z"])
    for name in names:
        await sessions.append_output(name, "line")
    assert [row.definition_id for row in await sessions.list_agents()] == names[:20]
    assert [row.definition_id for row in await sessions.list_agents(1000)] == names[:100]
    for limit in (1, 7, 100):
        found: list[str] = []
        while page := await sessions.list_agents(limit, after=found[-1] if found else ""):
            assert len(page) <= limit
            found += [row.definition_id for row in page]
        assert found == names


async def test_agents_after_one_that_is_gone_go_on(sessions: Sessions) -> None:
    for name in ("a", "c"):
        await sessions.append_output(name, "line")
    assert [row.definition_id for row in await sessions.list_agents(after="b")] == ["c"]
    assert await sessions.list_agents(after="c") == []


async def test_agent_disappears_with_its_last_archive(sessions: Sessions, clock: FakeClock) -> None:
    zones = [await archive_at(sessions, clock, "a", ms) for ms in (10, 20)]
    assert [row.archives for row in await sessions.list_agents()] == [2]
    await sessions.delete_archive(zones[0])
    assert [row.archives for row in await sessions.list_agents()] == [1]
    await sessions.delete_archive(zones[0])
    assert [row.archives for row in await sessions.list_agents()] == [1]
    await sessions.delete_archive(zones[1])
    assert await sessions.list_agents() == []
    await sessions.append_output("a", "line")
    assert [row.archives for row in await sessions.list_agents()] == [0]


async def test_agent_with_a_current_session_stays_without_archives(
    sessions: Sessions, clock: FakeClock
) -> None:
    zone = await archive_at(sessions, clock, "a", 10)
    await sessions.append_output("a", "line")
    await sessions.delete_archive(zone)
    assert [(row.definition_id, row.archives) for row in await sessions.list_agents()] == [("a", 0)]


async def test_counts_of_archives_follow_restore_and_fork(
    sessions: Sessions, clock: FakeClock
) -> None:
    async def counts() -> dict[str, int]:
        return {row.definition_id: row.archives for row in await sessions.list_agents()}

    zones = [await archive_at(sessions, clock, "a", ms) for ms in (10, 20)]
    await sessions.restore(zones[0])
    assert await counts() == {"a": 1}
    await sessions.restore(zones[1])
    assert await counts() == {"a": 1}
    await sessions.fork("a", "b")
    assert await counts() == {"a": 1, "b": 0}
    await sessions.fork("b", "a", archive_first=True)
    assert await counts() == {"a": 2, "b": 0}
