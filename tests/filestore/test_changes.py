"""The feed alone: ring, floor, gaps, and the end."""

import asyncio
from collections.abc import Sequence

import pytest

from filestore.changes import Feed, Subscription, subscribe
from filestore.errors import ClosedError
from filestore.model import Change
from tests.contract.tools import take, turn


def change(position: int, zone: str = "z", source: str | None = None) -> Change:
    return Change(position, "write", zone, "f", position, source=source)


def feed_of(*positions: int, kept: int = 100, start: int = 0) -> Feed:
    feed = Feed(kept)
    feed.start(start)
    for position in positions:
        feed.add([change(position)], position)
    return feed


async def positions(subscription: Subscription, count: int) -> list[int]:
    return [found.position for found in await take(subscription, count)]


class Notes:
    """A listener that remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def on_changes(self, changes: Sequence[Change]) -> None:
        self.heard.append([each.position for each in changes])

    def on_loss(self, position: int) -> None:
        self.heard.append(("loss", position))

    def on_close(self) -> None:
        self.heard.append("close")


async def test_listener_is_called_with_each_group_while_it_listens() -> None:
    feed, notes = feed_of(1), Notes()
    feed.listen(notes)
    feed.add([change(2), change(4)], 5)
    feed.add([], 6)
    feed.add([change(7)], 7)
    feed.lose(6)
    feed.add([change(8)], 8)
    feed.unlisten(notes)
    feed.add([change(9)], 9)
    feed.unlisten(notes)
    feed.listen(notes)
    feed.add([change(10)], 10)
    feed.close()
    assert notes.heard == [[2, 4], [7], ("loss", 7), [8], [10], "close"]
    with pytest.raises(ClosedError):
        feed.listen(notes)


async def test_listeners_may_come_and_go_while_they_are_called() -> None:
    class Turnstile(Notes):
        def on_changes(self, changes: Sequence[Change]) -> None:
            super().on_changes(changes)
            feed.unlisten(self)
            feed.listen(late)

    feed, first, last, late = Feed(100), Turnstile(), Notes(), Notes()
    feed.listen(first)
    feed.listen(last)
    feed.add([change(1)], 1)
    feed.add([change(2)], 2)
    assert (first.heard, last.heard, late.heard) == ([[1]], [[1], [2]], [[2]])


async def test_listener_hears_of_a_group_that_the_ring_cannot_hold() -> None:
    feed, notes = Feed(3), Notes()
    feed.listen(notes)
    feed.add([change(position) for position in range(1, 101)], 100)
    assert notes.heard == [list(range(1, 101))]


async def test_feed_gives_what_is_after_a_position() -> None:
    feed = feed_of(3, 5, 9)
    for since, wanted in [(0, [3, 5, 9]), (2, [3, 5, 9]), (3, [5, 9]), (4, [5, 9]), (9, [])]:
        found = feed.after(since)
        assert found is not None
        assert [each.position for each in found] == wanted


async def test_feed_knows_nothing_before_its_start_and_after_its_end() -> None:
    feed = feed_of(12, start=10)
    assert feed.after(9) is None
    assert feed.after(13) is None
    assert feed.after(10) == [change(12)]


async def test_feed_keeps_at_least_as_many_as_asked_and_not_many_more() -> None:
    feed = Feed(10)
    for position in range(1, 1001):
        feed.add([change(position)], position)
        recent = feed.after(max(0, position - 10))
        assert recent is not None
        assert len(recent) == min(10, position)
        known = max(len(feed.after(since) or ()) for since in range(position))
        assert known <= 21


async def test_feed_of_group_larger_than_the_ring_keeps_its_end() -> None:
    feed = Feed(10)
    feed.add([change(position) for position in range(1, 1001)], 1000)
    found = feed.after(990)
    assert found is not None
    assert [each.position for each in found] == list(range(991, 1001))
    assert feed.after(900) is None


async def test_feed_moves_its_position_without_changes() -> None:
    """Background work uses numbers of the counter too."""
    feed = feed_of(3)
    feed.add([], 8)
    assert feed.position == 8
    assert feed.after(8) == []
    subscription = subscribe(feed, "", None)
    feed.add([change(9)], 9)
    assert await positions(subscription, 1) == [9]


async def test_feed_position_never_goes_back() -> None:
    feed = feed_of(5)
    feed.add([], 3)
    assert feed.position == 5


async def test_subscription_gives_changes_in_order_across_groups() -> None:
    feed = feed_of(1)
    subscription = subscribe(feed, "", 0)
    feed.add([change(2), change(4)], 4)
    feed.add([change(6)], 7)
    assert await positions(subscription, 4) == [1, 2, 4, 6]


async def test_subscription_takes_only_its_prefix_in_zone_or_source() -> None:
    feed = Feed(100)
    subscription = subscribe(feed, "a/", None)
    feed.add(
        [
            change(1, "a/1"),
            change(2, "b/1"),
            change(3, "b/2", source="a/2"),
            change(4, "a/3", source="b/3"),
            change(5, "a"),
        ],
        5,
    )
    feed.close()
    assert [found.position async for found in subscription] == [1, 3, 4]


async def test_subscription_wakes_once_something_matches() -> None:
    feed = Feed(100)
    subscription = subscribe(feed, "a", None)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(positions(subscription, 1))
        await turn()
        feed.add([change(1, "b")], 1)
        await turn()
        assert not waiting.done()
        feed.add([change(2, "a")], 2)
    assert waiting.result() == [2]


async def test_subscription_that_fell_behind_gets_one_gap_and_goes_on() -> None:
    feed = Feed(5)
    subscription = subscribe(feed, "", None)
    for position in range(1, 100):
        feed.add([change(position)], position)
    assert await take(subscription, 1) == [Change(99, "gap")]
    feed.add([change(100)], 100)
    assert await positions(subscription, 1) == [100]


async def test_subscription_with_prefix_that_fell_behind_gets_a_gap_too() -> None:
    """What it missed may have matched; nobody knows any more."""
    feed = Feed(5)
    subscription = subscribe(feed, "other", None)
    for position in range(1, 100):
        feed.add([change(position)], position)
    assert (await take(subscription, 1))[0].kind == "gap"


async def test_subscription_that_keeps_up_without_matches_never_gets_a_gap() -> None:
    feed = Feed(5)
    subscription = subscribe(feed, "other", None)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(take(subscription, 1))
        for position in range(1, 100):
            await turn()
            feed.add([change(position)], position)
        await turn()
        feed.add([change(100, "other")], 100)
    assert waiting.result()[0].position == 100


async def test_lost_history_is_told_to_everyone_once() -> None:
    feed = feed_of(3, 5)
    up_to_date, behind = subscribe(feed, "", None), subscribe(feed, "", 3)
    feed.lose(7)
    for subscription in (up_to_date, behind):
        (gap,) = await take(subscription, 1)
        assert gap.kind == "gap"
        assert gap.position >= 7


async def test_change_right_after_lost_history_is_not_lost() -> None:
    """The next number of the counter may be the very next one."""
    feed = feed_of(3)
    subscription = subscribe(feed, "", None)
    feed.lose(3)
    assert (await take(subscription, 1))[0].kind == "gap"
    feed.add([change(4)], 4)
    assert await positions(subscription, 1) == [4]


async def test_change_after_lost_history_comes_after_the_gap() -> None:
    feed = feed_of(3)
    subscription = subscribe(feed, "", None)
    feed.lose(3)
    feed.add([change(4)], 4)
    feed.close()
    kinds = [found.kind async for found in subscription]
    assert kinds[0] == "gap"
    assert kinds in (["gap"], ["gap", "write"])


async def test_who_comes_after_lost_history_is_told_of_no_gap() -> None:
    feed = feed_of(3)
    feed.lose(3)
    subscription = subscribe(feed, "", None)
    feed.add([change(4)], 4)
    assert await positions(subscription, 1) == [4]


async def test_who_resumes_from_before_lost_history_gets_a_gap() -> None:
    feed = feed_of(3, 5)
    feed.lose(5)
    (gap,) = await take(subscribe(feed, "", 3), 1)
    assert gap.kind == "gap"


async def test_close_ends_subscriptions_after_what_is_there() -> None:
    feed = feed_of(1)
    subscription = subscribe(feed, "", 0)
    feed.add([change(2)], 2)
    feed.close()
    assert [found.position async for found in subscription] == [1, 2]
    with pytest.raises(StopAsyncIteration):
        await anext(subscription)
    with pytest.raises(ClosedError):
        subscribe(feed, "", None)
