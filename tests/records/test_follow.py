"""Followers of a session: every record once, in order, whoever writes meanwhile; and an end."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from filestore import FileStore, NotFoundError
from filestore.records import NewSession, Record, Records
from filestore.sessions import Sessions
from tests.conftest import FakeClock, StoreOpener
from tests.contract.tools import WAIT_S_MAX
from tests.records.conftest import records_of


async def taken(stream: AsyncIterator[list[Record]], upto: int) -> list[int]:
    """Seqs as they are told, until that of `upto`."""
    found: list[int] = []
    async with asyncio.timeout(WAIT_S_MAX):
        while not found or found[-1] < upto:
            found += [each.seq for each in await anext(stream)]
    return found


async def rest_of(stream: AsyncIterator[list[Record]]) -> list[Record]:
    """All that is told until the stream ends."""
    return [record async for some in stream for record in some]


async def test_every_record_is_told_once_to_everyone(records: Records, panes: Sessions) -> None:
    """Many followers, each from another place, while records are added in all ways there are."""
    await records.create(NewSession("rest", "s", "ada"))
    await records.create(NewSession("rest", "other"))
    streams = [records.follow("s", after_seq=after) for after in (-1, 0, 3, 20, 57)]

    async def add() -> None:
        for number in range(20):
            await records.update("s", phase="planning", metadata={"k": number})
            await records.add_message("s", "user", str(number))
            await records.add_message("other", "user", "not theirs")
            await panes.append_output("ada", "x")

    wanted = [list(range(after + 1, 61)) for after in (-1, 0, 3, 20, 57)]
    _, *found = await asyncio.gather(add(), *(taken(each, 60) for each in streams))
    assert found == wanted
    assert records.followers("s") == 5
    for each in streams:
        await each.aclose()
    assert records.followers("s") == 0


async def test_restart_and_cut_leave_neither_gap_nor_double(
    open_store: StoreOpener, clock: FakeClock
) -> None:
    store = await open_store(clock=clock)
    records = records_of(store, clock)
    await records.create(NewSession("rest", "s"))
    stream = records.follow("s")
    found = await taken(stream, 0)
    await records.add_message("s", "user", "a")
    await stream.aclose()
    await records.add_message("s", "user", "b")
    await store.close()
    store = await open_store(clock=clock)
    records = records_of(store, clock)
    stream = records.follow("s", after_seq=found[-1])
    await records.add_message("s", "user", "c")
    assert await taken(stream, 3) == [1, 2, 3]


async def test_many_records_come_in_pieces(records: Records) -> None:
    await records.create(NewSession("rest", "s"))
    for _ in range(5):
        await records.add_record("s", "note", {"large": "x" * 400_000})
    await asyncio.gather(*(records.add_record("s", "note", {}) for _ in range(700)))
    stream = records.follow("s")
    sizes: list[int] = []
    while sum(sizes) < 706:
        sizes.append(len(await anext(stream)))
    assert len(sizes) > 2
    assert max(sizes) <= 500


async def test_follower_of_nothing_is_told_so(records: Records) -> None:
    with pytest.raises(NotFoundError):
        await anext(records.follow("s"))
    assert records.followers("s") == 0


async def test_deleted_session_ends_what_follows_it(records: Records, panes: Sessions) -> None:
    await records.create(NewSession("rest", "s", "ada"))
    stream = records.follow("s")
    await anext(stream)
    await panes.append_output("ada", "x")
    async with asyncio.TaskGroup() as group:
        archiving = group.create_task(panes.archive("ada"))
        assert [each.kind for each in await anext(stream)] == ["end"]
    archived = archiving.result()
    assert archived is not None
    async with asyncio.TaskGroup() as group:
        group.create_task(panes.delete_archive(archived.archive_zoneid))
        with pytest.raises(NotFoundError):
            await anext(stream)


async def test_another_session_of_the_same_id_is_not_told_as_if_it_followed(
    records: Records, clock: FakeClock
) -> None:
    await records.create(NewSession("cli", "s"))
    stream = records.follow("s")
    await anext(stream)
    clock.now_ms += 5
    await records.cleanup(clock.now_ms)
    await records.create(NewSession("cli", "s"))
    await records.add_message("s", "user", "new")
    with pytest.raises(NotFoundError):
        await anext(stream)


async def test_followers_end_with_the_store(records: Records, store: FileStore) -> None:
    await records.create(NewSession("rest", "s"))
    streams = [records.follow("s") for _ in range(3)]
    for each in streams:
        await anext(each)
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(rest_of(each)) for each in streams]
        group.create_task(store.close())
    assert [each.result() for each in waiting] == [[], [], []]
