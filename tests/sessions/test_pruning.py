"""Deleting many archives by rule, and what agents take: against plain lists."""

import itertools
import random
from collections.abc import Sequence

import pytest

from filestore import FileStore, InvalidArgumentError, InvalidDefinitionIdError
from filestore.sessions import Sessions, pruning
from filestore.sessions.pruning import DELETED_MAX, Rule, prune
from filestore.sessions.usage import usage
from tests.conftest import FakeClock
from tests.sessions.tools import all_zones, following, snapshot, take


async def fill(
    sessions: Sessions, clock: FakeClock, name: str, sizes: Sequence[int], *, every_ms: int = 10
) -> list[str]:
    """Archives with streams of so many bytes, oldest first. Returns their zones."""
    zones = []
    for size in sizes:
        clock.now_ms += every_ms
        await sessions.append_output(name, "x" * (size - 1))
        archived = await sessions.archive(name)
        assert archived is not None
        zones.append(archived.archive_zoneid)
    return zones


async def pruned(store: FileStore, name: str, rule: Rule, *, is_dry_run: bool = False) -> list[str]:
    """The zones that the rule deletes, by as many calls as it takes."""
    found: list[str] = []
    after_ms = -1
    for _ in itertools.count():
        page = await prune(store, name, rule, after_ms=after_ms, is_dry_run=is_dry_run)
        assert len(page.found) <= DELETED_MAX
        found += [row.archive_zoneid for row in page.found]
        if page.next_ms is None:
            return found
        assert page.next_ms > after_ms
        after_ms = page.next_ms
    raise AssertionError("it goes on for ever")


async def zones_of(sessions: Sessions, name: str) -> list[str]:
    rows = await sessions.list_archives(name, 100)
    return [row.archive_zoneid for row in rows][::-1]


async def test_rule_deletes_what_a_plain_list_says(
    store: FileStore, sessions: Sessions, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "DELETED_MAX", 3)
    monkeypatch.setattr(pruning, "ROWS_MAX", 4)
    chance = random.Random(7)
    for number in range(60):
        name = f"agent-{number}"
        sizes = [chance.choice([2, 50, 100]) for _ in range(chance.randrange(12))]
        start_ms = clock.now_ms
        zones = await fill(sessions, clock, name, sizes)
        kept_zone = await sessions.write_state(name, snapshot("current"))
        rule = Rule(
            chance.choice([None, start_ms, start_ms + 55, start_ms + 1000]),
            chance.choice([None, 0, 1, 3, 50]),
            chance.choice([None, 0, 50, 51]),
        )
        if rule == Rule():
            continue
        wanted = [
            zone
            for place, (zone, size) in enumerate(zip(zones, sizes, strict=True))
            if (rule.before_ms is None or start_ms + 10 * (place + 1) < rule.before_ms)
            and (rule.keep is None or place < len(zones) - rule.keep)
            and (rule.bytes_min is None or size >= rule.bytes_min)
        ]
        before = await all_zones(store)
        assert await pruned(store, name, rule, is_dry_run=True) == wanted, rule
        assert await all_zones(store) == before, "only looked at"
        assert await pruned(store, name, rule) == wanted, rule
        assert await zones_of(sessions, name) == [zone for zone in zones if zone not in wanted]
        assert await pruned(store, name, rule) == [], "a repeat finds its work done"
        assert (await sessions.read_state(name)).session_id == kept_zone.session_id


async def test_one_call_is_bounded_and_one_transaction(
    store: FileStore, sessions: Sessions, clock: FakeClock
) -> None:
    await fill(sessions, clock, "ada", [5] * (DELETED_MAX + 3))
    await fill(sessions, clock, "bob", [5])
    commits = store.stats.commits
    page = await prune(store, "ada", Rule(keep=0), is_dry_run=False)
    assert (len(page.found), store.stats.commits - commits) == (DELETED_MAX, 1)
    assert page.next_ms == page.found[-1].archived_at_ms
    assert len(await zones_of(sessions, "ada")) == 3
    assert len(await zones_of(sessions, "bob")) == 1


async def test_followers_hear_of_what_is_pruned(
    store: FileStore, sessions: Sessions, clock: FakeClock
) -> None:
    zones = await fill(sessions, clock, "ada", [5, 5, 5])
    async with following(sessions.subscribe("ada")) as changes:
        await prune(store, "ada", Rule(keep=1), is_dry_run=False)
        told = await take(changes, 2)
    assert [(change.kind, change.zone) for change in told] == [
        ("deleted", zone) for zone in zones[:2]
    ]


async def test_rule_without_a_condition_deletes_nothing(
    store: FileStore, sessions: Sessions, clock: FakeClock
) -> None:
    zones = await fill(sessions, clock, "ada", [5])
    with pytest.raises(InvalidArgumentError, match="no condition"):
        await prune(store, "ada", Rule(), is_dry_run=False)
    with pytest.raises(InvalidDefinitionIdError):
        await prune(store, "a/b", Rule(keep=0), is_dry_run=False)
    assert await zones_of(sessions, "ada") == zones


async def test_usage_counts_archives_and_the_current_session(
    store: FileStore, sessions: Sessions, clock: FakeClock
) -> None:
    assert await usage(store, since_ms=0) == []
    start_ms = clock.now_ms
    await fill(sessions, clock, "ada", [10, 20, 30])
    await sessions.append_output("ada", ["a", "b"])
    state = snapshot("current")
    await sessions.write_state("ada", state)
    await sessions.append_output("bob", "x")
    ada, bob = await usage(store, since_ms=start_ms + 20)
    assert ada[:8] == ("ada", 3, 60, 3, 4 + len(state), 2, start_ms + 10, 50)
    assert bob[:8] == ("bob", 0, 0, 0, 2, 1, 0, 0)
    assert (ada.records, bob.records) == (7, 1)
    ((length,),) = await store.read_unit(
        lambda tx: tx.fetch("SELECT sum(length(body)) FROM record")
    )
    assert ada.record_bytes + bob.record_bytes == length
    await prune(store, "ada", Rule(keep=0), is_dry_run=False)
    (after, _) = await usage(store, since_ms=0)
    assert (after.archives, after.records) == (0, 1), "records go with their archives"
    assert await usage(store, after="ada", since_ms=0) == [bob]
    assert [row.definition_id for row in await usage(store, limit=1, since_ms=0)] == ["ada"]
    with pytest.raises(InvalidDefinitionIdError):
        await usage(store, after="a/b", since_ms=0)
