"""The hub behind `subscribe`: who is told what, how much waits for whom, and that nobody stays."""

import asyncio
import gc
import random

import pytest

from filestore import ClosedError, FileStore, InvalidArgumentError, Limits
from filestore.sessions import SessionChange, Sessions, Subscription
from filestore.sessions.subscription import Hub
from tests.conftest import StoreOpener
from tests.contract.tools import turn
from tests.sessions.conftest import OpenSessions
from tests.sessions.tools import following, lines_of, take


def hub_of(sessions: Sessions) -> Hub:
    return sessions._hub


def is_listening(store: FileStore, sessions: Sessions) -> bool:
    return hub_of(sessions) in store.feed._listeners


def numbers(changes: list[SessionChange]) -> list[int]:
    """The lines `0`, `1`, … that were appended."""
    return [int(change.data or b"-1") for change in changes]


async def rest(subscription: Subscription) -> list[SessionChange]:
    """What a subscription still gives once its store is closed."""
    return [change async for change in subscription]


# -- order and routing


async def test_each_follower_hears_of_its_own_agent_only(sessions: Sessions) -> None:
    names = [f"agent-{number}" for number in range(40)]
    followers = {name: [sessions.subscribe(name) for _ in range(2)] for name in names}
    picks = random.Random(1)
    wanted: dict[str, list[int]] = {name: [] for name in names}
    asked = []
    for number in range(800):
        name = picks.choice(names)
        wanted[name].append(number)
        asked.append(sessions.append_output(name, f"{number}"))
    await asyncio.gather(*asked)
    for name, both in followers.items():
        for follower in both:
            async with following(follower):
                assert numbers(await take(follower, len(wanted[name]))) == wanted[name]
    assert hub_of(sessions).subscribers == 0


async def test_changes_of_zones_without_sessions_are_passed_over(
    store: FileStore, sessions: Sessions
) -> None:
    """Whatever else is in the store, and whatever its names look like."""
    async with following(sessions.subscribe("a")) as changes:
        for zone in ("a", "agent:a", "agent:a:", "agent:a:other", "xagent:a:current", ":current"):
            await store.write(zone, "output.state.json", b"x")
            await store.append(zone, "output", b"x\n")
            await store.move_zone(zone, "moved")
            await store.delete_zone("moved")
        for zone in (":archive:", "agent::archive:7", "agent:a:archive:7:archive:8", "archive"):
            await store.write(zone, "f", b"x")
            await store.delete_zone(zone)
        await store.write("agent:a:current", "other", b"x")
        await store.append("agent:a:current", "other", b"x")
        await store.set_meta("agent:a:current", None, {"a": 1})
        await store.delete_file("agent:a:current", "other")
        await sessions.append_output("a", "7")
        assert numbers(await take(changes, 1)) == [7]


async def test_follower_begins_between_two_changes_of_one_turn(sessions: Sessions) -> None:
    """Registered by the call: what is committed afterwards comes, whenever it was asked for."""
    first = sessions.append_output("a", "1")
    changes = sessions.subscribe("a")
    await asyncio.gather(first, sessions.append_output("a", "2"))
    async with following(changes):
        assert numbers(await take(changes, 2)) == [1, 2]


# -- looking back


async def test_looking_back_goes_over_into_the_present_without_a_seam(
    store: FileStore, sessions: Sessions
) -> None:
    start = store.position
    count = 300
    followers = []
    for number in range(count):
        asked = sessions.append_output("a", f"{number}")
        followers.append(sessions.subscribe("a", since=start))
        await asked
    for follower in followers[:: count // 20]:
        assert numbers(await take(follower, count)) == list(range(count))
    for follower in followers:
        follower.close()


async def test_looking_back_over_more_than_fits_is_a_gap_and_the_newest(
    store: FileStore, sessions: Sessions
) -> None:
    start = store.position
    for number in range(25):
        await sessions.append_output("a", f"{number}")
    async with following(sessions.subscribe("a", since=start, events_max=10)) as changes:
        gap, *found = await take(changes, 5)
    assert gap.kind == "gap"
    assert numbers(found) == [21, 22, 23, 24]
    async with following(sessions.subscribe("a", since=gap.position)) as changes:
        assert numbers(await take(changes, 4)) == [21, 22, 23, 24]


async def test_looking_back_counts_only_what_concerns_the_agent(
    store: FileStore, sessions: Sessions
) -> None:
    start = store.position
    await sessions.append_output("a", "0")
    for number in range(50):
        await sessions.append_output("b", f"{number}")
    async with following(sessions.subscribe("a", since=start, events_max=1)) as changes:
        assert numbers(await take(changes, 1)) == [0]


async def test_position_that_the_ring_has_dropped_is_a_gap(
    open_store: StoreOpener, on: OpenSessions
) -> None:
    store = await open_store(limits=Limits(changes_kept=10))
    sessions = on(store)
    start = store.position
    for number in range(100):
        await sessions.append_output("b", f"{number}")
    async with following(sessions.subscribe("a", since=start)) as changes:
        assert await take(changes, 1) == [SessionChange(store.position, "gap")]
        await sessions.append_output("a", "1")
        assert numbers(await take(changes, 1)) == [1]


# -- slow consumers


async def test_slow_consumer_is_told_one_gap_with_the_newest_position(sessions: Sessions) -> None:
    async with following(sessions.subscribe("a", events_max=10)) as changes:
        for number in range(11):
            await sessions.append_output("a", f"{number}")
        last = await sessions.read_state("a")
        (gap,) = await take(changes, 1)
        assert gap.kind == "gap"
        assert last.output_lines == 11
        await sessions.append_output("a", "11")
        assert numbers(await take(changes, 1)) == [11]
        assert gap.position < (await sessions.write_state("a", b"x")).version


@pytest.mark.parametrize("count", [10, 11, 12, 20, 21, 22, 1000])
async def test_slow_consumer_misses_nothing_behind_the_gap(sessions: Sessions, count: int) -> None:
    """What it is told after the gap is all there was after the gap's position."""
    changes, whole = sessions.subscribe("a", events_max=10), sessions.subscribe("a")
    await asyncio.gather(*[sessions.append_output("a", f"{number}") for number in range(count)])
    queue = changes._queue.events
    assert len(queue) <= 10
    found = await take(changes, len(queue))
    everything = await take(whole, count)
    gaps = [change for change in found if change.kind == "gap"]
    assert len(gaps) == (count > 10)
    after = gaps[0].position if gaps else 0
    assert found[len(gaps) :] == [change for change in everything if change.position > after]
    assert len(await lines_of(sessions, "a")) == count
    changes.close()
    whole.close()


async def test_slow_consumer_is_nothing_to_the_others(sessions: Sessions) -> None:
    slow, quick = sessions.subscribe("a", events_max=1), sessions.subscribe("a")
    other = sessions.subscribe("b", events_max=1)
    await sessions.append_output("b", "0")
    for number in range(50):
        await sessions.append_output("a", f"{number}")
    assert [change.kind for change in await take(slow, 1)] == ["gap"]
    assert numbers(await take(quick, 50)) == list(range(50))
    assert numbers(await take(other, 1)) == [0]
    for each in (slow, quick, other):
        each.close()


async def test_bound_of_the_sessions_is_that_of_their_subscribers(store: FileStore) -> None:
    sessions = Sessions(store, events_max=2)
    async with following(sessions.subscribe("a")) as changes:
        for number in range(3):
            await sessions.append_output("a", f"{number}")
        assert [change.kind for change in await take(changes, 1)] == ["gap"]


@pytest.mark.parametrize("events_max", [0, -1])
async def test_bound_without_room_for_a_gap_is_refused(sessions: Sessions, events_max: int) -> None:
    with pytest.raises(InvalidArgumentError):
        sessions.subscribe("a", events_max=events_max)
    assert hub_of(sessions).subscribers == 0


# -- lost history


async def test_lost_history_is_told_to_everyone_in_its_place(
    store: FileStore, sessions: Sessions
) -> None:
    followers = [sessions.subscribe(name) for name in ("a", "a", "b")]
    await sessions.append_output("a", "1")
    await sessions.append_output("b", "1")
    store.feed.lose(store.position)
    await sessions.append_output("a", "2")
    await sessions.append_output("b", "2")
    for follower in followers:
        before, gap, after = await take(follower, 3)
        assert (before.data, gap.kind, after.data) == (b"1\n", "gap", b"2\n")
        assert before.position <= gap.position < after.position
        follower.close()


# -- the end


async def test_nobody_is_called_while_nobody_follows(store: FileStore, sessions: Sessions) -> None:
    assert not is_listening(store, sessions)
    first, second = sessions.subscribe("a"), sessions.subscribe("b")
    assert is_listening(store, sessions)
    first.close()
    assert is_listening(store, sessions)
    second.close()
    assert not is_listening(store, sessions)
    third = sessions.subscribe("a")
    await sessions.append_output("a", "3")
    assert numbers(await take(third, 1)) == [3]
    third.close()


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_close_ends_the_iteration_at_once(sessions: Sessions, is_waiting: bool) -> None:
    changes = sessions.subscribe("a")
    async with asyncio.TaskGroup() as group:
        if is_waiting:
            task = group.create_task(rest(changes))
            await turn()
        else:
            await sessions.append_output("a", "1")
            task = None
        changes.close()
        assert hub_of(sessions).subscribers == 0
        changes.close()
        await changes.aclose()
    assert await rest(changes) == []
    assert task is None or task.result() == []


async def test_cancelled_task_leaves_nothing_behind(sessions: Sessions) -> None:
    changes = sessions.subscribe("a")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(rest(changes))
        await turn()
        task.cancel()
    assert task.cancelled()
    assert hub_of(sessions).subscribers == 0
    with pytest.raises(StopAsyncIteration):
        await anext(changes)


async def test_task_cancelled_while_bytes_are_fetched_leaves_nothing_behind(
    sessions: Sessions,
) -> None:
    changes = sessions.subscribe("a")
    await sessions.append_output("a", "1")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(rest(changes))
        await turn()
        task.cancel()
    assert task.cancelled()
    assert hub_of(sessions).subscribers == 0


async def test_iteration_that_is_left_by_break_leaves_nothing_behind(
    store: FileStore, sessions: Sessions
) -> None:
    asked = sessions.append_output("a", "1")
    async for change in sessions.subscribe("a"):
        assert change.data == b"1\n"
        break
    await asked
    await turn()
    assert hub_of(sessions).subscribers == 0
    assert not is_listening(store, sessions)


async def test_subscription_dropped_by_another_thread_leaves_nothing_behind(
    sessions: Sessions,
) -> None:
    """The garbage collector runs wherever it likes."""

    class Ring:
        def __init__(self) -> None:
            self.changes, self.own = sessions.subscribe("a"), self

    gc.collect()
    Ring()
    assert hub_of(sessions).subscribers == 1
    await asyncio.to_thread(gc.collect)
    await turn()
    assert hub_of(sessions).subscribers == 0


async def test_second_task_that_waits_is_refused(sessions: Sessions) -> None:
    changes = sessions.subscribe("a")
    async with asyncio.TaskGroup() as group:
        first = group.create_task(take(changes, 1))
        await turn()
        with pytest.raises(RuntimeError, match="already"):
            await anext(changes)
        await sessions.append_output("a", "1")
    assert numbers(first.result()) == [1]
    changes.close()


async def test_store_that_closes_ends_all_after_what_waits(
    store: FileStore, sessions: Sessions
) -> None:
    behind, waiting = sessions.subscribe("a"), sessions.subscribe("b")
    await sessions.write_state("a", b"x")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(rest(waiting))
        await turn()
        await store.close()
    assert task.result() == []
    assert [change.kind for change in await rest(behind)] == ["state"]
    assert hub_of(sessions).subscribers == 0
    with pytest.raises(ClosedError):
        sessions.subscribe("a")
    behind.close()


async def test_many_come_and_go_and_nobody_stays(store: FileStore, sessions: Sessions) -> None:
    picks = random.Random(3)
    present: list[Subscription] = []
    for number in range(2000):
        if present and picks.random() < 0.5:
            present.pop(picks.randrange(len(present))).close()
        else:
            present.append(sessions.subscribe(f"agent-{number % 7}"))
        assert hub_of(sessions).subscribers == len(present)
    for changes in present:
        changes.close()
    assert not is_listening(store, sessions)
    assert hub_of(sessions)._queues == {}
