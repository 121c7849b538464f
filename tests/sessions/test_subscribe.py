"""`subscribe`: every committed change of one agent, in order, from a position; a gap is told."""

import asyncio

import pytest

from filestore import ClosedError, CorruptionError, FileStore, Limits, VersionConflictError
from filestore.sessions import SessionChange, Sessions
from filestore.transaction import Transaction
from tests.conftest import FakeClock, StoreOpener
from tests.contract.tools import turn
from tests.sessions.conftest import OpenSessions
from tests.sessions.tools import LARGE_BYTES, following, snapshot, take

DATA_BYTES_MAX = 64 << 10


def kinds(changes: list[SessionChange]) -> list[str]:
    return [change.kind for change in changes]


async def drain(store: FileStore, sessions: Sessions, name: str, since: int) -> list[SessionChange]:
    """All changes after `since`, up to one that is made here."""
    done = await sessions.write_state(name, b"the end at %d" % store.position)
    found: list[SessionChange] = []
    async with following(sessions.subscribe(name, since=since)) as changes:
        while not found or found[-1].version != done.version:
            found += await take(changes, 1)
    return found[:-1]


async def test_change_of_state_tells_its_version(sessions: Sessions) -> None:
    async with following(sessions.subscribe("a")) as changes:
        written = await sessions.write_state("a", b"x")
        assert await take(changes, 1) == [
            SessionChange(written.version, "state", version=written.version)
        ]


async def test_change_of_output_tells_where_and_what(sessions: Sessions) -> None:
    async with following(sessions.subscribe("a")) as changes:
        await sessions.append_output("a", "one")
        done = await sessions.append_output("a", ["two", "three"])
        first, second = await take(changes, 2)
    assert (first.kind, first.offset, first.size, first.data) == ("output", 0, 4, b"one\n")
    assert (first.first_line, first.lines) == (0, 1)
    assert (second.offset, second.size) == (done.offset, done.bytes_written) == (4, 10)
    assert (second.first_line, second.lines) == (done.first_line, done.lines) == (1, 2)
    assert second.data == b"two\nthree\n"
    assert second.position > first.position


@pytest.mark.parametrize(
    ("size", "has_data"), [(DATA_BYTES_MAX, True), (DATA_BYTES_MAX + 1, False), (1 << 20, False)]
)
async def test_change_of_output_carries_its_lines_when_small(
    sessions: Sessions, size: int, has_data: bool
) -> None:
    async with following(sessions.subscribe("a")) as changes:
        await sessions.append_output("a", b"x" * (size - 1))
        (change,) = await take(changes, 1)
    assert (change.offset, change.size) == (0, size)
    assert change.data == (b"x" * (size - 1) + b"\n" if has_data else None)


async def test_changes_of_each_kind_come_in_order(sessions: Sessions, clock: FakeClock) -> None:
    async with following(sessions.subscribe("a")) as changes:
        await sessions.append_output("a", "one")
        await sessions.write_state("a", b"x")
        first = await sessions.archive("a")
        assert first is not None
        await sessions.append_output("a", "two")
        restored = await sessions.restore(first.archive_zoneid)
        await sessions.delete_archive(restored.archived)
        found = await take(changes, 7)
    assert [(change.kind, change.zone) for change in found] == [
        ("output", ""),
        ("state", ""),
        ("archived", first.archive_zoneid),
        ("output", ""),
        ("archived", restored.archived),
        ("restored", first.archive_zoneid),
        ("deleted", restored.archived),
    ]
    positions = [change.position for change in found]
    assert positions == sorted(set(positions))


async def test_change_of_fork_reaches_the_target_only(sessions: Sessions) -> None:
    await sessions.append_output("a", "one")
    await sessions.append_output("b", "in the way")
    async with (
        following(sessions.subscribe("a")) as source,
        following(sessions.subscribe("b")) as target,
    ):
        await sessions.fork("a", "b", archive_first=True)
        await sessions.append_output("a", "two")
        assert kinds(await take(source, 1)) == ["output"]
        assert kinds(await take(target, 2)) == ["archived", "restored"]


async def test_what_changes_nothing_is_not_told(sessions: Sessions) -> None:
    written = await sessions.write_state("a", b"x")
    async with following(sessions.subscribe("a")) as changes:
        await sessions.write_state("a", b"x")
        await sessions.append_output("a", " ")
        await sessions.archive("none")
        with pytest.raises(VersionConflictError):
            await sessions.write_state("a", b"y", if_version=written.version + 1)
        with pytest.raises(VersionConflictError):
            await sessions.write_state("a", b"y", session_id="old")
        await sessions.delete_archive("agent:a:archive:7")
        await sessions.read_state("a")
        await sessions.append_output("a", "the end")
        assert kinds(await take(changes, 1)) == ["output"]


async def test_changes_of_other_agents_are_not_told(sessions: Sessions) -> None:
    async with following(sessions.subscribe("a")) as changes:
        for name in ("aa", "A", "b", "a-"):
            await sessions.append_output(name, "other")
            await sessions.write_state(name, b"other")
            await sessions.archive(name)
        await sessions.append_output("a", "own")
        (change,) = await take(changes, 1)
    assert change.data == b"own\n"


async def test_data_comes_also_when_the_session_was_archived_meanwhile(
    sessions: Sessions,
) -> None:
    """The consumer is slower than the archive, and the current stream is another one by then."""
    async with following(sessions.subscribe("a")) as changes:
        for text in ("one", "two", "three"):
            await sessions.append_output("a", text)
            await sessions.archive("a")
        await sessions.append_output("a", "four")
        found = await take(changes, 7)
    assert [change.data for change in found if change.kind == "output"] == [
        b"one\n",
        b"two\n",
        b"three\n",
        b"four\n",
    ]


async def test_data_comes_also_when_the_stream_was_sealed_meanwhile(
    open_store: StoreOpener, on: OpenSessions
) -> None:
    store = await open_store(limits=Limits(seal_bytes=4096))
    sessions = on(store)
    async with following(sessions.subscribe("a")) as changes:
        for number in range(40):
            await sessions.append_output("a", f"{number} " + "x" * 1000)
        await store.tidy()
        found = await take(changes, 40)
    assert [change.data for change in found] == [
        b"%d " % number + b"x" * 1000 + b"\n" for number in range(40)
    ]


async def test_data_of_deleted_session_is_left_out(sessions: Sessions) -> None:
    async with following(sessions.subscribe("a")) as changes:
        await sessions.append_output("a", "one")
        archived = await sessions.archive("a")
        assert archived is not None
        await sessions.delete_archive(archived.archive_zoneid)
        found = await take(changes, 3)
    assert kinds(found) == ["output", "archived", "deleted"]
    assert (found[0].size, found[0].data) == (4, None)


async def test_data_that_is_damaged_is_left_out_and_the_changes_go_on(
    open_store: StoreOpener, on: OpenSessions
) -> None:
    open_store.is_checked = False
    store = await open_store(limits=Limits(seal_bytes=4096))
    sessions = on(store)

    async def damage(tx: Transaction) -> None:
        await tx.rows.execute("UPDATE chunk_data SET data = x'00'", ())

    async with following(sessions.subscribe("a")) as changes:
        await sessions.append_output("a", "x" * 8192)
        await store.tidy()
        await store.transact(damage)
        await sessions.append_output("a", "next")
        first, second = await take(changes, 2)
    assert (first.size, first.data, second.data) == (8193, None, b"next\n")
    with pytest.raises(CorruptionError):
        await sessions.read_output("a")


async def test_subscribers_see_the_same(sessions: Sessions) -> None:
    streams = [sessions.subscribe("a") for _ in range(5)]
    for number in range(10):
        await sessions.append_output("a", f"{number}")
        await sessions.write_state("a", b"%d" % number)
    found = [await take(stream, 20) for stream in streams]
    assert found[0] == found[1] == found[2] == found[3] == found[4]
    assert kinds(found[0]) == ["output", "state"] * 10
    for stream in streams:
        async with following(stream):
            pass


async def test_position_is_that_of_the_call(sessions: Sessions) -> None:
    """Not that of the first step of the iteration, which may come much later."""
    await sessions.append_output("a", "before")
    changes = sessions.subscribe("a")
    await sessions.append_output("a", "after")
    async with following(changes) as stream:
        assert (await take(stream, 1))[0].data == b"after\n"


async def test_resume_from_any_position_loses_and_doubles_nothing(
    store: FileStore, sessions: Sessions
) -> None:
    start = store.position
    first = None
    for number in range(5):
        await sessions.append_output("a", f"{number}")
        await sessions.append_output("b", f"{number}")
        await sessions.write_state("a", snapshot(f"{number}"))
        first = await sessions.archive("a") or first
    assert first is not None
    await sessions.append_output("a", "displaced")
    await sessions.restore(first.archive_zoneid)
    whole = await drain(store, sessions, "a", start)
    assert len(whole) == 18
    for index, change in enumerate(whole):
        async with following(sessions.subscribe("a", since=change.position)) as changes:
            rest = await take(changes, len(whole) - index - 1)
        assert rest == whole[index + 1 :]


async def test_resume_while_changes_arrive_loses_and_doubles_nothing(
    store: FileStore, sessions: Sessions
) -> None:
    """A consumer that hangs up after every few changes and comes back with its position."""
    count = 200
    found: list[bytes] = []

    async def writer() -> None:
        for number in range(count):
            await sessions.append_output("a", f"{number}")
            if number % 17 == 0:
                await sessions.archive("a")

    async def consumer(since: int) -> None:
        while len(found) < count:
            async with following(sessions.subscribe("a", since=since)) as changes:
                for change in await take(changes, 3 if len(found) < count - 3 else 1):
                    since = change.position
                    assert change.kind != "gap"
                    if change.kind == "output":
                        assert change.data is not None
                        found.append(change.data)

    await asyncio.gather(writer(), consumer(store.position))
    assert found == [b"%d\n" % number for number in range(count)]


@pytest.mark.parametrize("since", [0, -1, 1 << 40])
async def test_position_that_is_not_known_is_a_gap(
    open_store: StoreOpener, on: OpenSessions, since: int
) -> None:
    """From before the start, from nowhere, and from the future."""
    store = await open_store()
    await on(store).append_output("a", "line")
    await store.close()
    sessions = on(await open_store())
    async with following(sessions.subscribe("a", since=since)) as changes:
        assert kinds(await take(changes, 1)) == ["gap"]
        await sessions.append_output("a", "next")
        assert (await take(changes, 1))[0].data == b"next\n"


async def test_resume_after_restart_from_the_last_position_has_no_gap(
    open_store: StoreOpener, on: OpenSessions
) -> None:
    store = await open_store()
    await on(store).append_output("a", "line")
    position = store.position
    await store.close()
    sessions = on(await open_store())
    async with following(sessions.subscribe("a", since=position)) as changes:
        await sessions.append_output("a", "next")
        assert (await take(changes, 1))[0].data == b"next\n"


async def test_subscription_that_waits_ends_when_the_store_closes(
    store: FileStore, sessions: Sessions
) -> None:
    async def follow() -> list[SessionChange]:
        return [change async for change in sessions.subscribe("a")]

    async with asyncio.TaskGroup() as group:
        task = group.create_task(follow())
        await turn()
        await store.close()
    assert task.result() == []


@pytest.mark.parametrize("kind", ["state", "output"])
async def test_subscription_that_is_behind_ends_when_the_store_closes(
    store: FileStore, sessions: Sessions, kind: str
) -> None:
    """It tells what it still knows, and then ends; it does not fail."""
    changes = sessions.subscribe("a")
    if kind == "state":
        await sessions.write_state("a", b"x")
    else:
        await sessions.append_output("a", "line")
    await store.close()
    found = [change async for change in changes]
    assert kinds(found) in ([kind], ["gap"], [])


async def test_subscribe_on_closed_store_is_refused(store: FileStore, sessions: Sessions) -> None:
    await store.close()
    with pytest.raises(ClosedError):
        sessions.subscribe("a")


async def test_subscription_that_is_cancelled_leaves_the_others(sessions: Sessions) -> None:
    async def follow() -> None:
        async for _ in sessions.subscribe("a"):
            pass

    async with following(sessions.subscribe("a")) as changes:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(follow())
            await turn()
            task.cancel()
        await sessions.append_output("a", "line")
        assert kinds(await take(changes, 1)) == ["output"]


async def test_two_panes_see_each_other_through_the_feed(sessions: Sessions) -> None:
    """One saves with its version, the other hears of it and saves with the new one."""
    async with following(sessions.subscribe("a")) as changes:
        first = await sessions.write_state("a", b"pane one", if_version=0)
        (heard,) = await take(changes, 1)
        assert heard.version == first.version
        second = await sessions.write_state("a", b"pane two", if_version=heard.version)
        assert (await take(changes, 1))[0].version == second.version


async def test_large_snapshot_is_told_once(sessions: Sessions) -> None:
    """What the background finds out is no change."""
    async with following(sessions.subscribe("a")) as changes:
        await sessions.write_state("a", snapshot("large", pad_to=LARGE_BYTES))
        await sessions.archive("a")
        assert kinds(await take(changes, 2)) == ["state", "archived"]


async def test_changes_under_load_tell_every_line_once_in_order(sessions: Sessions) -> None:
    tasks, count = 5, 40

    async def appender(name: int) -> None:
        for number in range(count):
            await sessions.append_output("a", f"{name} {number}")

    async def archiver() -> None:
        for _ in range(20):
            await sessions.archive("a")

    found: list[bytes] = []
    async with following(sessions.subscribe("a")) as changes, asyncio.TaskGroup() as group:
        for name in range(tasks):
            group.create_task(appender(name))
        group.create_task(archiver())
        while len(found) < tasks * count:
            (change,) = await take(changes, 1)
            if change.kind == "output":
                assert change.data is not None
                found.append(change.data)
    for name in range(tasks):
        own = [line for line in found if line.startswith(b"%d " % name)]
        assert own == [b"%d %d\n" % (name, number) for number in range(count)]
