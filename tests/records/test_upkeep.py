"""Upkeep with a clock that tests set: idle sessions end, old ones of the command line go."""

import pytest

from filestore import FileStore
from filestore.records import NewSession, Origin, Records, upkeep
from filestore.sessions import Sessions
from tests.conftest import FakeClock

MINUTE = 60_000
IDLE = 30 * MINUTE
HOUR = 3_600_000


@pytest.fixture
async def repo(records: Records, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of a repo."""
    return (await records.add_repo(".", None, tmp_path_factory.mktemp("root"))).id


async def test_idle_sessions_with_a_repo_end_at_their_time(
    records: Records, clock: FakeClock, repo: str
) -> None:
    await records.create(NewSession("rest", "idle", repo_id=repo))
    await records.create(NewSession("rest", "no repo"))
    await records.create(NewSession("cli", "cli"))
    await records.create(NewSession("rest", "ended", repo_id=repo))
    await records.finish("ended", "failed")
    clock.now_ms += IDLE - 1
    assert await records.sweep(IDLE) == []
    clock.now_ms += 1
    assert await records.sweep(IDLE) == ["idle"]
    assert await records.sweep(IDLE) == []
    info = await records.get("idle")
    assert (info.status, info.phase, info.reason) == ("completed", "completed", "idle_timeout")
    assert info.metadata == {"reason": "idle_timeout"}


@pytest.mark.parametrize("sign", ["prompt", "message", "update", "line", "state", "checkpoint"])
async def test_any_sign_of_life_puts_it_off(
    records: Records, panes: Sessions, clock: FakeClock, repo: str, sign: str
) -> None:
    """Also by a file that was written a moment after another, and not noted in the row."""
    await records.create(NewSession("rest", "s", "ada", repo_id=repo))
    await panes.append_output("ada", "first")
    await panes.write_state("ada", b"1")
    clock.now_ms += MINUTE - 1
    match sign:
        case "prompt":
            await records.prompt("s", "x")
        case "message":
            await records.add_message("s", "system", "x")
        case "update":
            await records.update("s", phase="initializing")
        case "line":
            await panes.append_output("ada", "x")
        case "state":
            await panes.write_state("ada", b"2")
        case _:
            await records.add_record("s", "checkpoint", {})
    assert (await records.get("s")).updated_ms == clock.now_ms
    clock.now_ms += IDLE - 1
    assert await records.sweep(IDLE) == []
    clock.now_ms += 1
    assert await records.sweep(IDLE) == ["s"]


async def test_many_idle_sessions_end_in_batches_and_a_full_one_keeps_none_from_it(
    records: Records, panes: Sessions, clock: FakeClock, repo: str
) -> None:
    """Among them some that only their files keep awake, more than a batch."""
    full = {"k": "x" * ((64 << 10) - len('{"k":""}'))}
    for number in range(upkeep.BATCH + 5):
        await records.create(NewSession("rest", f"awake-{number}", repo_id=repo))
        await panes.append_output(f"awake-{number}", "x")
    for number in range(2 * upkeep.BATCH + 5):
        metadata = full if number == 7 else {}
        await records.create(NewSession("rest", f"idle-{number}", repo_id=repo, metadata=metadata))
    clock.now_ms += MINUTE - 1
    for number in range(upkeep.BATCH + 5):
        await panes.append_output(f"awake-{number}", "x")
    clock.now_ms += IDLE - 1
    ended = await records.sweep(IDLE)
    assert set(ended) == {f"idle-{number}" for number in range(2 * upkeep.BATCH + 5)}
    assert (await records.get("idle-7")).reason == "idle_timeout"


async def test_old_sessions_of_the_command_line_go_with_all_that_is_theirs(
    records: Records, panes: Sessions, store: FileStore, clock: FakeClock
) -> None:
    origins: tuple[Origin, ...] = ("cli", "rest", "mcp", "pane", "transcript")
    for origin in origins:
        await records.create(NewSession(origin, f"{origin} s", f"d-{origin}"))
        await panes.append_output(f"d-{origin}", "x")
    await panes.archive("d-cli")
    await records.create(NewSession("cli", "current", "d-cli"))
    await panes.append_output("d-cli", "x")
    await records.create(NewSession("cli", "planning"))
    await records.update("planning", phase="planning")
    before = clock.now_ms + 1
    clock.now_ms += HOUR
    await records.create(NewSession("cli", "new"))
    assert await records.cleanup(before - 1) == [], "strictly before"
    for dry_run in (True, False):
        assert sorted(await records.cleanup(before, dry_run=dry_run)) == ["cli s", "current"]
    assert await records.cleanup(before) == []
    assert await records.cleanup(before, force=True) == ["planning"]
    zones = {zone.name for zone in (await store.zones(limit=100)).zones}
    assert zones == {f"agent:d-{origin}:current" for origin in origins[1:]}
    assert {each.id for each in await records.recent(100)} == {
        "new", *(f"{origin} s" for origin in origins[1:]),
    }  # fmt: skip
    assert [each.definition_id for each in await panes.list_agents()] == [
        f"d-{origin}" for origin in sorted(origins[1:])
    ]


async def test_files_keep_a_session_from_being_cleaned_up(
    records: Records, panes: Sessions, clock: FakeClock
) -> None:
    await records.create(NewSession("cli", "s"))
    await panes.append_output("s", "x")
    clock.now_ms += MINUTE - 1
    await panes.append_output("s", "x")
    assert await records.cleanup(clock.now_ms) == []
    assert await records.cleanup(clock.now_ms + 1) == ["s"]


async def test_clean_up_of_more_than_a_batch_deletes_all(
    records: Records, panes: Sessions, clock: FakeClock
) -> None:
    wanted = set()
    for number in range(3 * upkeep.BATCH):
        await records.create(NewSession("cli", f"s{number}"))
        if number % 3 == 0:
            await records.update(f"s{number}", phase="approval")
        else:
            wanted.add(f"s{number}")
        clock.now_ms += number % 2
    clock.now_ms += HOUR
    assert set(await records.cleanup(clock.now_ms, dry_run=True)) == wanted
    assert set(await records.cleanup(clock.now_ms)) == wanted
    assert len(await records.recent(1000)) == upkeep.BATCH


@pytest.mark.parametrize("far", [1 << 63, 1 << 80, -(1 << 63), -(1 << 80)])
async def test_times_beyond_all_bounds_are_taken(records: Records, repo: str, far: int) -> None:
    await records.create(NewSession("cli", "s", repo_id=repo))
    assert await records.sweep(far) == ([] if far > 0 else ["s"])
    assert await records.cleanup(far) == (["s"] if far > 0 else [])


async def test_idle_sessions_are_found_without_looking_at_others(store: FileStore) -> None:
    plan = await store.read_unit(
        lambda tx: tx.fetch(
            "EXPLAIN QUERY PLAN SELECT j.more FROM journal j WHERE j.status = 'active' "
            "AND j.repo_id IS NOT NULL AND j.updated_ms <= 9 AND (j.updated_ms, j.id) > (1, 1) "
            "ORDER BY j.updated_ms, j.id LIMIT 5"
        )
    )
    assert [row[3].split(" (")[0] for row in plan] == ["SEARCH j USING INDEX journal_idle"]
