"""`archive`: a session is finished whole, by one rename, under a name that is never taken."""

import asyncio
from collections import Counter

import pytest

from filestore import AlreadyExistsError, FileStore, NotFoundError
from filestore.sessions import Archived, ArchiveInfo, Sessions
from filestore.sessions.adopting import adopt
from filestore.sessions.names import ARCHIVED_MS_MAX, archive_zone
from filestore.sessions.preview import Summary
from filestore.sessions.pruning import Rule, prune
from filestore.transaction import Transaction
from tests.conftest import FakeClock, StoreOpener
from tests.sessions.conftest import OpenSessions
from tests.sessions.tools import OUTPUT, STATE, all_zones, everything, snapshot, streams_of

DAY_MS = 86_400_000


async def test_archive_of_nothing_is_none_and_makes_no_zone(
    store: FileStore, sessions: Sessions
) -> None:
    assert await sessions.archive("a") is None
    assert await all_zones(store) == []
    assert await sessions.list_agents() == []


async def test_archive_of_files_without_bytes_is_none_and_changes_nothing(
    store: FileStore, sessions: Sessions
) -> None:
    await sessions.write_state("a", b"")
    before = await everything(store)
    assert await sessions.archive("a") is None
    assert await everything(store) == before


async def test_archive_twice_makes_one(store: FileStore, sessions: Sessions) -> None:
    await sessions.append_output("a", "line")
    assert await sessions.archive("a") is not None
    assert await sessions.archive("a") is None
    assert len(await all_zones(store)) == 1


async def test_archive_moves_all_files(
    store: FileStore, sessions: Sessions, clock: FakeClock
) -> None:
    await sessions.write_state("a", b"state")
    await sessions.append_output("a", "line")
    await store.write("agent:a:current", "other", b"file of a later release")
    before = await sessions.read_state("a")
    archived = await sessions.archive("a")
    assert archived == Archived(f"agent:a:archive:{clock.now_ms}", clock.now_ms)
    assert [name for name, _ in await all_zones(store)] == [archived.archive_zoneid]
    files = await store.files(archived.archive_zoneid) or []
    assert [info.name for info in files] == ["other", OUTPUT, STATE]
    assert await store.read(archived.archive_zoneid, "other") == b"file of a later release"
    assert await sessions.read_archive(archived.archive_zoneid) == before
    assert (await sessions.read_state("a")).content is None


@pytest.mark.parametrize("files", [{STATE}, {OUTPUT}, {STATE, OUTPUT}])
async def test_archive_with_one_file_is_enough(sessions: Sessions, files: set[str]) -> None:
    if STATE in files:
        await sessions.write_state("a", b"x")
    if OUTPUT in files:
        await sessions.append_output("a", "x")
    archived = await sessions.archive("a")
    assert archived is not None
    state = await sessions.read_archive(archived.archive_zoneid)
    assert state.content == (b"x" if STATE in files else None)
    assert state.output_lines == (OUTPUT in files)


async def test_archive_row_tells_all(sessions: Sessions, clock: FakeClock) -> None:
    started = clock.now_ms
    await sessions.append_output("a", ["one", "two"])
    clock.now_ms += 1000
    content = snapshot("first words", "more", mark=1)
    written = await sessions.write_state("a", content)
    clock.now_ms += 1000
    archived = await sessions.archive("a")
    assert archived is not None
    assert await sessions.list_archives("a") == [
        ArchiveInfo(
            archived.archive_zoneid,
            started + 2000,
            "first words",
            2,
            written.session_id,
            started,
            len(content),
            8,
            2,
        )
    ]


async def test_archives_in_one_millisecond_do_not_collide(
    sessions: Sessions, clock: FakeClock
) -> None:
    found = []
    for number in range(5):
        await sessions.append_output("a", f"{number}")
        archived = await sessions.archive("a")
        assert archived is not None
        found.append(archived.archived_at_ms)
    assert found == [clock.now_ms + number for number in range(5)]
    streams = await streams_of(sessions, "a")
    assert list(streams.values()) == [[b"%d" % number] for number in range(5)]


async def test_archives_under_a_clock_that_goes_back_stay_in_order(
    sessions: Sessions, clock: FakeClock
) -> None:
    await sessions.append_output("a", "first")
    first = await sessions.archive("a")
    assert first is not None
    clock.now_ms -= DAY_MS
    await sessions.append_output("a", "second")
    second = await sessions.archive("a")
    assert second is not None
    assert second.archived_at_ms == first.archived_at_ms + 1
    clock.now_ms += 2 * DAY_MS
    await sessions.append_output("a", "third")
    third = await sessions.archive("a")
    assert third is not None
    assert third.archived_at_ms == clock.now_ms
    rows = await sessions.list_archives("a")
    assert [row.archived_at_ms for row in rows] == sorted(
        (row.archived_at_ms for row in rows), reverse=True
    )


async def test_archive_of_the_last_time_is_listed_and_let_go_but_nothing_comes_after_it(
    store: FileStore, sessions: Sessions
) -> None:
    """Such a name can only have come with old data: no clock gets there."""
    zone = archive_zone("a", ARCHIVED_MS_MAX)

    async def adopted(tx: Transaction) -> None:
        await tx.append_lines(zone, OUTPUT, ["old"])
        await adopt(tx, zone, "old", 1, Summary())

    await store.transact(adopted)
    await sessions.append_output("a", "new")
    before = await everything(store)
    with pytest.raises(AlreadyExistsError, match=f"delete {zone}"):
        await sessions.archive("a")
    assert await everything(store) == before
    assert [row.archive_zoneid for row in await sessions.list_archives("a")] == [zone]
    pruned = await prune(store, "a", Rule(bytes_min=0), is_dry_run=False)
    assert [row.archive_zoneid for row in pruned.found] == [zone]
    assert await sessions.archive("a") is not None


async def test_archive_time_of_one_agent_does_not_move_another(
    sessions: Sessions, clock: FakeClock
) -> None:
    for name in ("a", "ab", "b"):
        await sessions.append_output(name, "line")
        archived = await sessions.archive(name)
        assert archived is not None
        assert archived.archived_at_ms == clock.now_ms


async def test_archive_time_before_1970_is_a_name_all_the_same(
    sessions: Sessions, clock: FakeClock
) -> None:
    clock.now_ms = -DAY_MS
    for number in range(2):
        await sessions.append_output("a", "line")
        archived = await sessions.archive("a")
        assert archived is not None
        assert archived.archived_at_ms == number
        assert (await sessions.read_archive(archived.archive_zoneid)).output_lines == 1


async def test_new_session_gets_a_new_id_and_the_old_one_stays_with_the_archive(
    sessions: Sessions,
) -> None:
    ids = []
    for _ in range(3):
        await sessions.append_output("a", "line")
        ids.append((await sessions.read_state("a")).session_id)
        await sessions.archive("a")
        assert (await sessions.read_state("a")).session_id == ""
    assert len(set(ids)) == 3
    assert [row.session_id for row in await sessions.list_archives("a")] == ids[::-1]


async def test_archives_side_by_side_make_one(sessions: Sessions) -> None:
    await sessions.append_output("a", "line")
    answers = await asyncio.gather(*(sessions.archive("a") for _ in range(20)))
    assert len([answer for answer in answers if answer is not None]) == 1
    assert len(await sessions.list_archives("a")) == 1


async def test_archive_of_a_zone_that_was_filled_without_sessions_makes_its_row(
    store: FileStore, sessions: Sessions
) -> None:
    """An import writes files; the first operation on sessions finds them."""
    await store.write("agent:a:current", STATE, snapshot("imported"))
    await store.append_lines("agent:a:current", OUTPUT, ["line"])
    archived = await sessions.archive("a")
    assert archived is not None
    (row,) = await sessions.list_archives("a")
    assert (row.preview, row.output_lines, bool(row.session_id)) == ("imported", 1, True)


async def test_read_of_archive_that_is_missing_is_not_found(sessions: Sessions) -> None:
    await sessions.append_output("a", "line")
    for zone in ("agent:a:archive:7", "agent:none:archive:7"):
        with pytest.raises(NotFoundError):
            await sessions.read_archive(zone)


async def test_archive_survives_close_and_open(
    open_store: StoreOpener, on: OpenSessions, clock: FakeClock
) -> None:
    store = await open_store(clock=clock)
    await on(store).append_output("a", "line")
    archived = await on(store).archive("a")
    assert archived is not None
    rows = await on(store).list_archives("a")
    await store.close()
    again = on(await open_store(clock=clock))
    assert await again.list_archives("a") == rows
    await again.append_output("a", "line")
    second = await again.archive("a")
    assert second is not None
    assert second.archived_at_ms == archived.archived_at_ms + 1


async def test_appends_during_archives_land_wholly_in_one_session(sessions: Sessions) -> None:
    """Many tasks append batches of lines and save snapshots while the session is archived again and
    again. The clock stands still, so that every archive competes for the same name."""
    tasks, batches, size = 6, 25, 4
    is_done = False

    async def appender(name: int) -> None:
        for number in range(batches):
            lines = [f"{name} {number} {part}" for part in range(size)]
            assert (await sessions.append_output("a", lines)).lines == size

    async def saver(name: int) -> None:
        for number in range(batches):
            await sessions.write_state("a", snapshot(f"pane {name} {number}"))

    async def archiver() -> int:
        count = 0
        while not is_done:
            count += await sessions.archive("a") is not None
        return count

    async with asyncio.TaskGroup() as group:
        archiving = [group.create_task(archiver()) for _ in range(2)]
        await asyncio.gather(*map(appender, range(tasks)), *map(saver, range(2)))
        is_done = True
    archives = sum(task.result() for task in archiving)
    assert archives > 1
    streams = await streams_of(sessions, "a")
    assert len(await sessions.list_archives("a", 100)) == min(100, archives)

    counts = Counter(line for lines in streams.values() for line in lines)
    assert counts == Counter(
        b"%d %d %d" % (name, number, part)
        for name in range(tasks)
        for number in range(batches)
        for part in range(size)
    )
    together = [line for lines in streams.values() for line in lines]
    for name in range(tasks):
        own = [line for line in together if line.startswith(b"%d " % name)]
        assert own == [
            b"%d %d %d" % (name, number, part) for number in range(batches) for part in range(size)
        ]
    for lines in streams.values():
        batch_counts = Counter(line.rsplit(b" ", 1)[0] for line in lines)
        assert set(batch_counts.values()) <= {size}, "a batch was torn between two sessions"


async def test_saves_during_archives_have_their_own_preview(sessions: Sessions) -> None:
    """The summary in an archive is that of the snapshot in it, however fast the pane saves."""
    is_done = False

    async def saver() -> None:
        number = 0
        while not is_done:
            number += 1
            await sessions.write_state("a", snapshot(f"save {number}"))

    async with asyncio.TaskGroup() as group:
        savers = [group.create_task(saver()) for _ in range(2)]
        for _ in range(30):
            await sessions.archive("a")
        is_done = True
    assert all(task.done() for task in savers)
    rows = await sessions.list_archives("a", 100)
    assert rows
    for row in rows:
        content = (await sessions.read_archive(row.archive_zoneid)).content
        assert content == snapshot(row.preview)
