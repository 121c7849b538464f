"""What the steps share."""

import asyncio

import pytest

from migrations.steps.parts import Room


async def test_room_is_never_overdrawn_and_one_alone_always_has_it() -> None:
    room, taken, done = Room(10), 0, 0

    async def work(size: int) -> None:
        nonlocal taken, done
        async with room.take(size):
            taken += size
            assert taken <= 10 or taken == size, "what is larger than the room is alone in it"
            await asyncio.to_thread(int)
            taken -= size
            done += 1

    async with asyncio.TaskGroup() as group:
        for size in (3, 4, 3, 0, 10, 25, 1, 9, 2, 8):
            group.create_task(work(size))
    assert (taken, done) == (0, 10)


async def test_room_of_who_gave_up_is_free_again() -> None:
    room = Room(10)
    async with room.take(10):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0), room.take(1):
                raise AssertionError("there was no room")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0), room.take(10):
            await asyncio.Event().wait()
    async with asyncio.timeout(60), room.take(10):
        pass
