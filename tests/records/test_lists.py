"""Lists: filters, pages and totals without a scan, and the tallies that they rest on."""

import itertools
from typing import LiteralString

import pytest

from filestore import FileStore, InvalidArgumentError
from filestore.records import STATUSES, Filter, NewSession, Outcome, Records, Status
from filestore.sessions import Sessions
from tests.conftest import FakeClock

ENDS: dict[Status, Outcome] = {
    "completed": "completed", "error": "failed", "cancelled": "abandoned",
}  # fmt: skip


async def tallies(store: FileStore) -> dict[tuple[str, str, str], int]:
    found = await store.read_unit(
        lambda tx: tx.fetch("SELECT scope, key, status, count FROM tally WHERE count <> 0")
    )
    return {row[:3]: row[3] for row in found}


async def test_totals_are_those_of_any_filter(
    records: Records, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("root")
    repos: list[str | None] = [None]
    for name in ("a", "b"):
        (root / name).mkdir()
        repos.append((await records.add_repo(name, None, root)).id)
    agents = (None, "", "coder")
    made = list(itertools.product(STATUSES, repos, agents)) * 2
    ids = []
    for status, repo, agent in made:
        info = await records.create(NewSession("rest", repo_id=repo, agent_name=agent))
        if status != "active":
            await records.finish(info.id, ENDS[status])
        ids.append(info.id)
    some: list[tuple[Status, ...]] = [(), ("active",), ("error", "active"), STATUSES]
    for statuses, repo, agent in itertools.product(some, [*repos, "none"], [*agents, "none"]):
        wanted = [
            ids[number]
            for number, row in enumerate(made)
            if row[0] in (statuses or STATUSES) and repo in (None, row[1])
            and agent in (None, row[2])
        ][::-1]  # fmt: skip
        page = await records.page(Filter(statuses, repo, agent), limit=100)
        assert ([each.id for each in page.sessions], page.total) == (wanted, len(wanted))
        part = await records.page(Filter(statuses, repo, agent), limit=3, offset=2)
        assert ([each.id for each in part.sessions], part.total) == (wanted[2:5], len(wanted))


async def test_status_named_twice_counts_once(records: Records) -> None:
    await records.create(NewSession("cli", "s"))
    page = await records.page(Filter(("active", "error", "active")), limit=10)
    assert ([each.id for each in page.sessions], page.total) == (["s"], 1)


@pytest.mark.parametrize(("limit", "offset"), [(0, 0), (101, 0), (-1, 0), (1, -1), (1, 1 << 70)])
async def test_page_outside_of_the_limits_is_refused(
    records: Records, limit: int, offset: int
) -> None:
    with pytest.raises(InvalidArgumentError):
        await records.page(Filter(), limit=limit, offset=offset)


async def test_offset_behind_the_end_is_an_empty_page(records: Records) -> None:
    await records.create(NewSession("cli", "s"))
    for wanted in (Filter(), Filter(("active",))):
        page = await records.page(wanted, offset=1_000_000_000)
        assert (page.sessions, page.total) == ([], 1)


async def test_filter_that_is_no_text_is_refused(records: Records) -> None:
    for wanted in (Filter(agent_name="\ud800"), Filter(repo_id="\udfff")):
        with pytest.raises(InvalidArgumentError):
            await records.page(wanted)
    with pytest.raises(InvalidArgumentError):
        await records.recent(1, agent_name="\ud800")
    for limit in (-1, 1 << 70):
        with pytest.raises(InvalidArgumentError):
            await records.recent(limit)


async def test_latest_activity_comes_first(
    records: Records, panes: Sessions, clock: FakeClock
) -> None:
    for number, agent in enumerate(("a", "b", "a")):
        await records.create(NewSession("cli", f"s{number}", agent_name=agent))
        clock.now_ms += 1000
    assert [each.id for each in await records.recent(10)] == ["s2", "s1", "s0"]
    await panes.append_output("s0", "x")
    clock.now_ms += 120_000
    await records.finish("s1", "completed")
    assert [each.id for each in await records.recent(10)] == ["s1", "s0", "s2"]
    assert [each.id for each in await records.recent(10, active_only=True)] == ["s0", "s2"]
    assert [each.id for each in await records.recent(10, agent_name="a")] == ["s0", "s2"]
    assert [each.id for each in await records.recent(1)] == ["s1"]
    assert await records.recent(0) == []


async def test_tallies_leave_nothing_behind(
    records: Records, panes: Sessions, store: FileStore
) -> None:
    await records.create(NewSession("cli", "s", "ada", "coder"))
    await panes.append_output("ada", "x")
    assert await tallies(store) == {("all", "", "active"): 1, ("agent", "coder", "active"): 1}
    archived = await panes.archive("ada")
    assert archived is not None
    assert await tallies(store) == {
        ("all", "", "completed"): 1, ("agent", "coder", "completed"): 1,
    }  # fmt: skip
    await panes.restore(archived.archive_zoneid)
    assert await tallies(store) == {("all", "", "active"): 1, ("agent", "coder", "active"): 1}
    archived = await panes.archive("ada")
    assert archived is not None
    await panes.delete_archive(archived.archive_zoneid)
    assert await tallies(store) == {}


@pytest.mark.parametrize(
    ("index", "condition"),
    [("status", ""), ("repo", " AND j.repo_id = 'x'"), ("agent", " AND j.agent_name = 'x'")],
)
async def test_filters_are_found_by_an_index_and_in_order(
    store: FileStore, index: str, condition: LiteralString
) -> None:
    sql: LiteralString = "EXPLAIN QUERY PLAN SELECT j.id FROM journal j WHERE j.status = 'error'"
    order: LiteralString = " ORDER BY j.id DESC LIMIT 9"
    plan = await store.read_unit(lambda tx: tx.fetch(sql + condition + order))
    assert [row[3].split(" (")[0] for row in plan] == [
        f"SEARCH j USING COVERING INDEX journal_{index}"
    ]
