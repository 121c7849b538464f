"""Recovery of a whole store: what is found, what is done about it, and that it ends."""

from pathlib import Path

import pytest

from filestore import FileStore
from filestore.sessions import Finding, Sessions
from tests.conftest import StoreOpener
from tests.contract.tools import run_sql
from tests.replay.streams import turns
from tests.sessions.conftest import OpenSessions
from tests.sessions.tools import OUTPUT, everything, lines_of, snapshot

LINES = turns(2)


async def recover(
    sessions: Sessions, *, is_dry_run: bool = False, limit: int = 3
) -> tuple[int, dict[str, Finding]]:
    """All pages: how many sessions were looked at, and what was found by zone."""
    checked = 0
    found: dict[str, Finding] = {}
    after: int | None = 0
    while after is not None:
        page = await sessions.replays.recover(is_dry_run=is_dry_run, after=after, limit=limit)
        checked += page.checked
        assert page.checked <= limit
        found |= {each.zone: each for each in page.found}
        after = page.next
    return checked, found


async def filled(store: FileStore, sessions: Sessions) -> str:
    """Agents with every kind of trouble, and some with none. Returns the zone of a bad archive."""
    whole = len(LINES)
    states = {
        "behind": snapshot("hello", mark=3),
        "good": snapshot("hello", mark=whole),
        "overlay": b'{"overlays": []}',
        "unparsable": b"{ no JSON",
    }
    for name, state in states.items():
        await sessions.append_output(name, LINES)
        await sessions.write_state(name, state)
    await sessions.append_output("missing", LINES)
    await sessions.append_output("torn", LINES)
    await store.append("agent:torn:current", OUTPUT, b'{"type": "assi')
    await sessions.write_state("torn", snapshot("hello", mark=whole))
    await sessions.write_state("stateonly", b"{ no JSON, and no stream")
    await sessions.append_output("archived", LINES)
    await sessions.write_state("archived", b"")
    archived = await sessions.archive("archived")
    assert archived is not None
    return archived.archive_zoneid


def current(name: str) -> str:
    return f"agent:{name}:current"


async def test_dry_run_finds_everything_and_changes_nothing(
    store: FileStore, open_store: StoreOpener, on: OpenSessions
) -> None:
    zone = await filled(store, on(store))
    before = await everything(store)
    checked, found = await recover(on(store), is_dry_run=True)
    assert checked == 8
    assert {name: each.trouble for name, each in found.items()} == {
        current("behind"): "behind",
        current("unparsable"): "unparsable",
        current("missing"): "missing",
        current("torn"): "",
        zone: "unparsable",
    }
    assert found[current("behind")].uncovered == len(LINES) - 3
    assert found[current("torn")].torn
    assert [each.done for each in found.values()] == [""] * 5
    assert await everything(store) == before


async def test_run_mends_all_and_the_next_one_finds_only_what_cannot_be(
    store: FileStore, on: OpenSessions
) -> None:
    zone = await filled(store, on(store))
    sessions = on(store)
    _, found = await recover(sessions)
    assert {name: each.done for name, each in found.items()} == {
        current("behind"): "rebuilt",
        current("unparsable"): "rebuilt",
        current("missing"): "rebuilt",
        current("torn"): "",
        zone: "rebuilt",
    }
    for name in ("behind", "unparsable"):
        kept = found[current(name)].kept
        assert await lines_of(sessions, kept) == LINES
        assert (await sessions.read_archive(kept)).content
    assert found[current("missing")].kept == found[zone].kept == ""
    checked, left = await recover(sessions)
    assert list(left) == [current("torn")], "what was replaced is kept, not found again"
    assert checked == 10


async def test_kept_archive_that_was_restored_counts_again(sessions: Sessions) -> None:
    await sessions.append_output("a", LINES)
    await sessions.write_state("a", b"{ no JSON")
    kept = (await sessions.replays.write("a")).kept
    assert (await recover(sessions))[1] == {}
    await sessions.restore(kept)
    assert list((await recover(sessions, is_dry_run=True))[1]) == [current("a")]


async def test_lines_of_a_live_agent_are_no_finding(
    open_store: StoreOpener, on: OpenSessions
) -> None:
    """A pane saves behind its agent all the time; only what was left over is to be mended."""
    sessions = on(await open_store())
    await sessions.append_output("a", LINES)
    await sessions.write_state("a", snapshot("hello", mark=len(LINES)))
    await sessions.append_output("a", LINES)
    assert (await recover(sessions, is_dry_run=True))[1] == {}
    assert (await sessions.replays.write("a")).trouble == "behind", "who asks gets it"


async def test_empty_store_is_clean(sessions: Sessions) -> None:
    assert await recover(sessions) == (0, {})


async def test_damaged_stream_is_told_and_keeps_nobody_else_from_being_mended(
    open_store: StoreOpener, on: OpenSessions, database: Path
) -> None:
    open_store.is_checked = False
    store = await open_store()
    sessions = on(store)
    for name in ("a", "b"):
        await sessions.append_output(name, [*LINES, f'{{"text": "{name}"}}'])
    await sessions.close()
    await store.tidy()
    await store.copy_zone(current("a"), "sealed")
    await store.delete_zone("sealed")
    await store.close()
    run_sql(database, "UPDATE chunk_data SET data = zeroblob(length(data))")
    sessions = on(await open_store())
    _, found = await recover(sessions)
    assert {name: each.done for name, each in found.items()} == {
        current("a"): "failed",
        current("b"): "rebuilt",
    }
    assert "check" in found[current("a")].error
    assert (await sessions.read_state("a")).content is None


async def test_snapshot_over_the_limit_is_told_as_failed(sessions: Sessions) -> None:
    await sessions.append_output("a", LINES)
    page = await sessions.replays.recover(is_dry_run=False, state_bytes_max=10)
    (finding,) = page.found
    assert finding.done == "failed"
    assert "at most 10" in finding.error


@pytest.mark.parametrize("limit", [0, 1, 100])
async def test_progress_can_be_told_from_pages(sessions: Sessions, limit: int) -> None:
    for number in range(5):
        await sessions.append_output(f"a{number}", LINES)
    page = await sessions.replays.recover(is_dry_run=True, limit=limit)
    assert page.total == 5
    assert page.checked == min(limit or 5, 5)
