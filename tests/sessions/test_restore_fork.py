"""`restore` and `fork`: an old session goes on, or a copy of it does; nothing is ever lost."""

import asyncio

import pytest

from filestore import (
    AlreadyExistsError,
    FileStore,
    NotFoundError,
    StoreError,
    VersionConflictError,
)
from filestore.sessions import Restored, Sessions
from tests.conftest import FakeClock, StoreOpener
from tests.sessions.conftest import OpenSessions
from tests.sessions.tools import all_zones, everything, lines_of, snapshot, streams_of


async def make_archive(sessions: Sessions, name: str, text: str) -> str:
    """A finished session with a snapshot and a line that say `text`."""
    await sessions.append_output(name, text)
    await sessions.write_state(name, snapshot(text))
    archived = await sessions.archive(name)
    assert archived is not None
    return archived.archive_zoneid


async def test_restore_onto_nothing_makes_the_archive_current(
    store: FileStore, sessions: Sessions
) -> None:
    zone = await make_archive(sessions, "a", "old")
    before = await sessions.read_archive(zone)
    assert await sessions.restore(zone) == Restored(before.session_id, before.version, "")
    assert await sessions.read_state("a") == before
    assert [name for name, _ in await all_zones(store)] == ["agent:a:current"]
    assert await sessions.list_archives("a") == []
    with pytest.raises(NotFoundError):
        await sessions.read_archive(zone)


async def test_restore_archives_what_is_current_first(sessions: Sessions, clock: FakeClock) -> None:
    zone = await make_archive(sessions, "a", "old")
    await sessions.append_output("a", "new")
    await sessions.write_state("a", snapshot("new", "two"))
    old, new = await sessions.read_archive(zone), await sessions.read_state("a")
    clock.now_ms += 5
    restored = await sessions.restore(zone)
    assert restored == Restored(old.session_id, old.version, f"agent:a:archive:{clock.now_ms}")
    assert await sessions.read_state("a") == old
    assert await sessions.read_archive(restored.archived) == new
    (row,) = await sessions.list_archives("a")
    assert (row.preview, row.node_count, row.output_lines) == ("new", 2, 1)
    assert (row.session_id, row.archive_zoneid) == (new.session_id, restored.archived)


async def test_restore_under_a_clock_that_stands_still_does_not_collide(
    sessions: Sessions,
) -> None:
    """What is displaced may not take the name that is just being given up."""
    zone = await make_archive(sessions, "a", "old")
    await sessions.append_output("a", "new")
    restored = await sessions.restore(zone)
    assert restored.archived != zone
    assert await lines_of(sessions, restored.archived) == [b"new"]
    assert await lines_of(sessions, "a") == [b"old"]


async def test_restore_over_a_current_without_bytes_drops_it(
    store: FileStore, sessions: Sessions
) -> None:
    zone = await make_archive(sessions, "a", "old")
    await sessions.write_state("a", b"")
    assert (await sessions.restore(zone)).archived == ""
    assert await lines_of(sessions, "a") == [b"old"]
    assert len(await all_zones(store)) == 1


async def test_restore_repeated_answers_as_the_first_time(
    store: FileStore, sessions: Sessions
) -> None:
    zone = await make_archive(sessions, "a", "old")
    await sessions.append_output("a", "new")
    first = await sessions.restore(zone)
    before = await everything(store)
    assert await sessions.restore(zone) == first
    await sessions.append_output("a", "more")
    assert await sessions.restore(zone) == first
    assert await lines_of(sessions, "a") == [b"old", b"more"]
    assert len(await everything(store)) == len(before)


async def test_restore_repeated_after_open_answers_as_the_first_time(
    open_store: StoreOpener, on: OpenSessions
) -> None:
    store = await open_store()
    zone = await make_archive(on(store), "a", "old")
    await on(store).append_output("a", "new")
    first = await on(store).restore(zone)
    await store.close()
    assert await on(await open_store()).restore(zone) == first


async def test_restore_after_the_restored_was_finished_is_not_found(
    sessions: Sessions, clock: FakeClock
) -> None:
    zone = await make_archive(sessions, "a", "old")
    await sessions.restore(zone)
    clock.now_ms += 1
    assert await sessions.archive("a") is not None
    with pytest.raises(NotFoundError):
        await sessions.restore(zone)
    await sessions.append_output("a", "new")
    with pytest.raises(NotFoundError):
        await sessions.restore(zone)
    assert await lines_of(sessions, "a") == [b"new"]


async def test_restore_of_unknown_changes_nothing(store: FileStore, sessions: Sessions) -> None:
    await make_archive(sessions, "a", "old")
    await sessions.append_output("a", "new")
    before = await everything(store)
    for zone in ("agent:a:archive:7", "agent:b:archive:7"):
        with pytest.raises(NotFoundError):
            await sessions.restore(zone)
    assert await everything(store) == before


async def test_restores_side_by_side_answer_alike(sessions: Sessions) -> None:
    zone = await make_archive(sessions, "a", "old")
    await sessions.append_output("a", "new")
    answers = await asyncio.gather(*(sessions.restore(zone) for _ in range(10)))
    assert len(set(answers)) == 1
    assert sorted((await streams_of(sessions, "a")).values()) == [[b"new"], [b"old"]]


async def test_restores_of_two_archives_in_turn_lose_nothing(
    sessions: Sessions, clock: FakeClock
) -> None:
    zones = {text: await make_archive(sessions, "a", text) for text in ("one", "two")}
    ids = {row.preview: row.session_id for row in await sessions.list_archives("a")}
    for turn in range(6):
        text, other = ("one", "two") if turn % 2 else ("two", "one")
        clock.now_ms -= 1000
        restored = await sessions.restore(zones[text])
        assert restored.session_id == ids[text]
        if restored.archived:
            zones[other] = restored.archived
        assert await lines_of(sessions, "a") == [text.encode()]
        assert len(await streams_of(sessions, "a")) == 2


async def test_session_id_follows_through_archive_and_restore(sessions: Sessions) -> None:
    """A pane that held on to its session may save again once it is back."""
    old = await sessions.write_state("a", b"old")
    archived = await sessions.archive("a")
    assert archived is not None
    await sessions.write_state("a", b"new")
    await sessions.restore(archived.archive_zoneid)
    again = await sessions.write_state(
        "a", b"old and more", if_version=old.version, session_id=old.session_id
    )
    assert again.session_id == old.session_id


async def test_started_time_follows_through_archive_and_restore(
    sessions: Sessions, clock: FakeClock
) -> None:
    started = clock.now_ms
    zone = await make_archive(sessions, "a", "old")
    clock.now_ms += 5000
    await sessions.restore(zone)
    await sessions.archive("a")
    assert [row.started_at_ms for row in await sessions.list_archives("a")] == [started]


async def test_pane_of_the_displaced_session_never_overwrites_the_restored(
    sessions: Sessions,
) -> None:
    zone = await make_archive(sessions, "a", "old")
    new = await sessions.write_state("a", b"new")
    await sessions.restore(zone)
    before = await sessions.read_state("a")
    with pytest.raises(VersionConflictError) as caught:
        await sessions.write_state("a", b"late", session_id=new.session_id)
    assert caught.value.session_id == before.session_id
    with pytest.raises(VersionConflictError):
        await sessions.write_state("a", b"late", if_version=new.version)
    assert await sessions.read_state("a") == before


async def test_append_after_restore_goes_on_behind_the_old_lines(sessions: Sessions) -> None:
    zone = await make_archive(sessions, "a", "old")
    await sessions.restore(zone)
    done = await sessions.append_output("a", "more")
    assert (done.offset, done.first_line) == (4, 1)
    assert await lines_of(sessions, "a") == [b"old", b"more"]


# -- fork


async def test_fork_of_archive_copies_it_and_leaves_it(
    store: FileStore, sessions: Sessions, clock: FakeClock
) -> None:
    zone = await make_archive(sessions, "a", "old")
    source, row = await sessions.read_archive(zone), (await sessions.list_archives("a"))[0]
    clock.now_ms += 9
    made = await sessions.fork(zone, "b")
    copy = await sessions.read_state("b")
    assert (copy.content, copy.output_bytes, copy.output_lines) == (snapshot("old"), 4, 1)
    assert copy.session_id == made != source.session_id
    assert await lines_of(sessions, "b") == [b"old"]
    assert await sessions.read_archive(zone) == source
    assert await sessions.list_archives("a") == [row]
    assert len(await all_zones(store)) == 2


async def test_fork_of_current_copies_it_and_leaves_it(sessions: Sessions) -> None:
    await sessions.append_output("a", "old")
    await sessions.write_state("a", snapshot("old"))
    source = await sessions.read_state("a")
    await sessions.fork("a", "b")
    await sessions.append_output("b", "only in the copy")
    await sessions.write_state("b", snapshot("other"))
    assert await sessions.read_state("a") == source
    await sessions.append_output("a", "only in the original")
    assert await lines_of(sessions, "a") == [b"old", b"only in the original"]
    assert await lines_of(sessions, "b") == [b"old", b"only in the copy"]


async def test_fork_has_preview_and_start_of_its_own(sessions: Sessions, clock: FakeClock) -> None:
    zone = await make_archive(sessions, "a", "old")
    clock.now_ms += 1000
    await sessions.fork(zone, "b")
    rows = {row.definition_id: row for row in await sessions.list_agents()}
    assert (rows["b"].preview, rows["b"].node_count) == ("old", 1)
    clock.now_ms += 1000
    await sessions.archive("b")
    (row,) = await sessions.list_archives("b")
    assert (row.preview, row.started_at_ms) == ("old", clock.now_ms - 1000)


async def test_fork_onto_a_session_is_refused(store: FileStore, sessions: Sessions) -> None:
    zone = await make_archive(sessions, "a", "old")
    await sessions.append_output("b", "in the way")
    await sessions.append_output("a", "current")
    before = await everything(store)
    for place, to in ((zone, "b"), ("a", "b"), (zone, "a"), ("a", "a")):
        with pytest.raises(AlreadyExistsError):
            await sessions.fork(place, to)
    assert await everything(store) == before


async def test_fork_with_archive_first_archives_the_target(
    sessions: Sessions, clock: FakeClock
) -> None:
    zone = await make_archive(sessions, "a", "old")
    await sessions.write_state("b", snapshot("in the way"))
    displaced = await sessions.read_state("b")
    made = await sessions.fork(zone, "b", archive_first=True)
    assert (await sessions.read_state("b")).session_id == made
    assert await lines_of(sessions, "b") == [b"old"]
    (row,) = await sessions.list_archives("b")
    assert (row.preview, row.session_id) == ("in the way", displaced.session_id)
    assert row.archived_at_ms == clock.now_ms


@pytest.mark.parametrize("is_archiving", [False, True])
async def test_fork_onto_a_target_without_bytes_replaces_it(
    store: FileStore, sessions: Sessions, is_archiving: bool
) -> None:
    zone = await make_archive(sessions, "a", "old")
    await sessions.write_state("b", b"")
    await sessions.fork(zone, "b", archive_first=is_archiving)
    assert await lines_of(sessions, "b") == [b"old"]
    assert await sessions.list_archives("b") == []
    assert len(await all_zones(store)) == 2


async def test_fork_onto_itself_archives_the_original_and_goes_on_with_a_copy(
    sessions: Sessions,
) -> None:
    await sessions.append_output("a", "line")
    await sessions.write_state("a", snapshot("hello"))
    before = await sessions.read_state("a")
    made = await sessions.fork("a", "a", archive_first=True)
    (row,) = await sessions.list_archives("a")
    assert await sessions.read_archive(row.archive_zoneid) == before
    after = await sessions.read_state("a")
    assert after.session_id == made != before.session_id
    assert (after.content, after.output_lines) == (before.content, 1)
    with pytest.raises(VersionConflictError):
        await sessions.write_state("a", b"late", session_id=before.session_id)


async def test_fork_of_a_session_without_bytes_onto_itself_keeps_it(
    store: FileStore, sessions: Sessions
) -> None:
    """Nothing to copy and nothing in the way: refused or done, but never half."""
    await sessions.write_state("a", b"")
    before = await everything(store)
    try:
        made = await sessions.fork("a", "a", archive_first=True)
    except StoreError:
        assert await everything(store) == before
        return
    state = await sessions.read_state("a")
    assert (state.content, state.session_id) == (b"", made)


async def test_fork_of_own_archive_onto_current(sessions: Sessions) -> None:
    zone = await make_archive(sessions, "a", "old")
    await sessions.append_output("a", "new")
    await sessions.fork(zone, "a", archive_first=True)
    streams = await streams_of(sessions, "a")
    assert sorted(streams.values()) == [[b"new"], [b"old"], [b"old"]]
    assert await lines_of(sessions, "a") == [b"old"]


async def test_fork_repeated_with_its_id_makes_one_copy(
    store: FileStore, sessions: Sessions
) -> None:
    zone = await make_archive(sessions, "a", "old")
    await sessions.append_output("b", "in the way")
    first = await sessions.fork(zone, "b", archive_first=True, new_session_id="mine")
    before = await everything(store)
    assert first == "mine"
    for is_archiving in (True, False):
        again = await sessions.fork(zone, "b", archive_first=is_archiving, new_session_id="mine")
        assert again == "mine"
    assert await everything(store) == before


async def test_fork_repeated_after_source_and_copy_moved_on_answers_the_same(
    sessions: Sessions,
) -> None:
    zone = await make_archive(sessions, "a", "old")
    await sessions.fork(zone, "b", new_session_id="mine")
    await sessions.archive("b")
    await sessions.delete_archive(zone)
    assert await sessions.fork(zone, "b", new_session_id="mine") == "mine"
    assert (await sessions.read_state("b")).session_id == ""


async def test_fork_with_the_id_of_another_session_is_refused(
    store: FileStore, sessions: Sessions
) -> None:
    await sessions.append_output("a", "line")
    await sessions.fork("a", "b", new_session_id="mine")
    before = await everything(store)
    with pytest.raises(AlreadyExistsError):
        await sessions.fork("a", "c", new_session_id="mine")
    assert await everything(store) == before


async def test_fork_of_unknown_changes_nothing(store: FileStore, sessions: Sessions) -> None:
    await sessions.append_output("b", "in the way")
    before = await everything(store)
    for place in ("a", "agent:a:archive:7", "agent:b:archive:7"):
        for is_archiving in (False, True):
            for to in ("b", "c"):
                with pytest.raises((NotFoundError, AlreadyExistsError)) as caught:
                    await sessions.fork(place, to, archive_first=is_archiving)
                assert isinstance(caught.value, NotFoundError)
    assert await everything(store) == before


async def test_fork_while_lines_arrive_copies_whole_appends(sessions: Sessions) -> None:
    async def appender() -> None:
        for number in range(60):
            await sessions.append_output("a", [f"{number} {part}" for part in range(3)])

    async def forker() -> None:
        for number in range(15):
            await sessions.fork("a", f"copy-{number}")

    await sessions.append_output("a", ["start 0", "start 1", "start 2"])
    await asyncio.gather(appender(), forker())
    whole = await lines_of(sessions, "a")
    assert len(whole) == 183
    for number in range(15):
        copy = await lines_of(sessions, f"copy-{number}")
        assert len(copy) % 3 == 0
        assert copy == whole[: len(copy)]
