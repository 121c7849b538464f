"""One model of a session: begun anywhere, its files come from panes, and its journal tells of what
became of its zone."""

import pytest

from filestore import AlreadyExistsError, FileStore, VersionConflictError
from filestore.check import check
from filestore.records import NewSession, Records
from filestore.sessions import Sessions
from filestore.sessions.adopting import drop_session, rename_session
from filestore.sessions.pruning import Rule, prune
from tests.conftest import FakeClock, StoreOpener
from tests.records.conftest import records_of

SNAPSHOT = b'{"nodes": [{"type": "user_message", "message": "hi"}]}'


async def kinds(records: Records, session_id: str) -> list[str]:
    return [each.kind for each in await records.records(session_id)]


async def archive(panes: Sessions, definition_id: str = "ada") -> str:
    done = await panes.archive(definition_id)
    assert done is not None
    return done.archive_zoneid


async def clean(store: FileStore) -> bool:
    return (await check(store, deep=True)).problems == []


@pytest.mark.parametrize("write", ["state", "output"])
@pytest.mark.parametrize("session_id", ["abc 123", "x" * 256, "é.\U0001f600"])
async def test_session_begun_elsewhere_gets_its_files_by_a_pane(
    records: Records, panes: Sessions, session_id: str, write: str
) -> None:
    made = await records.create(NewSession("mcp", session_id))
    agent = made.definition_id
    before = await panes.read_state(agent)
    assert (before.session_id, before.content, before.output_bytes) == (session_id, None, 0)
    assert await panes.archive(agent, session_id=session_id) is None
    assert (await panes.list_agents()) == []
    if write == "state":
        done = await panes.write_state(agent, SNAPSHOT, session_id=session_id)
        assert done.session_id == session_id
    else:
        await panes.append_output(agent, "x", at_line=0, session_id=session_id)
    info = await records.get(session_id)
    assert (info.zone, info.records, info.origin) == (f"agent:{agent}:current", 1, "mcp")
    again = await panes.archive(agent, session_id=session_id)
    assert again == await panes.archive(agent, session_id=session_id)
    assert again is not None
    assert (await panes.read_archive(again.archive_zoneid)).session_id == session_id
    assert (await panes.read_state(agent)).session_id == ""
    assert await kinds(records, session_id) == ["open", "end"]


async def test_guard_that_speaks_of_another_is_told_of_the_one_that_waits(
    records: Records, panes: Sessions
) -> None:
    await records.create(NewSession("cli", "s", "ada"))
    calls = (
        lambda: panes.write_state("ada", SNAPSHOT, session_id=""),
        lambda: panes.write_state("ada", SNAPSHOT, if_version=7),
        lambda: panes.append_output("ada", "x", session_id="other"),
        lambda: panes.append_output("ada", "x", at_line=3),
    )
    for call in calls:
        with pytest.raises(VersionConflictError) as caught:
            await call()
        assert caught.value.session_id == "s"
    assert (await records.get("s")).zone == ""


async def test_newest_that_waits_comes_first_and_the_ended_never(
    records: Records, panes: Sessions
) -> None:
    for session_id in ("first", "second", "third"):
        await records.create(NewSession("cli", session_id, "ada"))
    await records.finish("third", "completed")
    found = []
    for _ in range(3):
        await panes.append_output("ada", "x")
        found.append((await panes.read_state("ada")).session_id)
        await archive(panes)
    assert found[:2] == ["second", "first"]
    assert found[2] not in ("first", "second", "third")
    assert (await records.get("third")).zone == ""


async def test_id_that_waits_survives_a_restart(open_store: StoreOpener, clock: FakeClock) -> None:
    store = await open_store(clock=clock)
    await records_of(store, clock).create(NewSession("cli", "s", "ada"))
    await store.close()
    store = await open_store(clock=clock)
    async with Sessions(store) as panes:
        assert (await panes.read_state("ada")).session_id == "s"
        await panes.append_output("ada", "x", session_id="s")
        assert (await panes.read_state("ada")).session_id == "s"


async def test_restored_session_goes_on_and_the_other_one_is_told(
    records: Records, panes: Sessions, clock: FakeClock
) -> None:
    await panes.append_output("ada", "one")
    first = (await panes.read_state("ada")).session_id
    zone = await archive(panes)
    await records.create(NewSession("rest", "s", "ada"))
    await panes.append_output("ada", "two")
    clock.now_ms += 5
    restored = await panes.restore(zone)
    assert (await records.get("s")).zone == restored.archived
    assert (await records.get("s")).ended_ms == clock.now_ms
    info = await records.get(first)
    assert (info.status, info.reason, info.zone) == ("active", "restored", "agent:ada:current")
    assert await kinds(records, first) == ["open", "end", "open"]
    assert await panes.restore(zone) == restored, "a repeat adds nothing"
    assert await kinds(records, first) == ["open", "end", "open"]


async def test_archive_time_is_that_of_the_end_whatever_the_clock_says(
    records: Records, panes: Sessions, clock: FakeClock
) -> None:
    await records.create(NewSession("rest", "one", "ada"))
    await panes.append_output("ada", "x")
    first = await archive(panes)
    clock.now_ms -= 60_000
    await records.create(NewSession("rest", "two", "ada"))
    await panes.append_output("ada", "x")
    second = await archive(panes)
    for session_id, zone in (("one", first), ("two", second)):
        assert (await records.get(session_id)).ended_ms == int(zone.rpartition(":")[2])


@pytest.mark.parametrize("has_records", [False, True])
@pytest.mark.parametrize("how", ["restore", "fork"])
async def test_empty_current_is_dropped_with_what_only_its_zone_knew(
    records: Records, panes: Sessions, store: FileStore, how: str, has_records: bool
) -> None:
    await panes.append_output("ada", "x")
    zone = await archive(panes)
    done = await panes.write_state("ada", b"")
    if has_records:
        await records.prompt(done.session_id, "keep me")
    if how == "restore":
        await panes.restore(zone)
    else:
        await panes.fork(zone, "ada")
    known = {each.id: each.zone for each in await records.recent(10)}
    assert (done.session_id in known) == has_records
    if has_records:
        assert known[done.session_id] == ""
        assert (await records.get(done.session_id)).status == "active"
        assert [each.content["text"] for each in await records.messages(done.session_id)] == [
            "keep me"
        ]
    assert await clean(store)


async def test_fork_and_rebuilt_copy_begin_journals_of_their_own(
    records: Records, panes: Sessions
) -> None:
    await records.create(NewSession("rest", "s", "ada", "coder", title="mine"))
    await records.prompt("s", "hello")
    await panes.append_output("ada", '{"type": "user", "message": {"content": "hi"}}')
    await panes.write_state("ada", b'{"nodes": [], "highWaterMark": 0}')
    copy = await panes.fork("ada", "bob")
    rebuilt = await panes.replays.write("ada", force=True)
    assert rebuilt.written
    kept = (await panes.read_archive(rebuilt.kept)).session_id
    for session_id, reason, wanted in (
        (copy, "forked", ["open"]),
        (kept, "rebuilt", ["open", "end"]),
    ):
        first = (await records.records(session_id))[0]
        assert first.body["reason"] == reason
        assert await kinds(records, session_id) == wanted
        info = await records.get(session_id)
        assert (info.origin, info.agent_name, info.title) == ("pane", None, None)
    assert (await records.get(kept)).reason == "archived"
    assert await kinds(records, "s") == ["open", "message"]


async def test_fork_onto_the_id_of_a_session_without_files_is_refused(
    records: Records, panes: Sessions, store: FileStore
) -> None:
    await records.create(NewSession("rest", "s", "bob"))
    await panes.append_output("ada", "x")
    with pytest.raises(AlreadyExistsError):
        await panes.fork("ada", "bob", new_session_id="s")
    assert await store.zone("agent:bob:current") is None
    assert (await records.get("s")).records == 1


async def test_deleted_and_pruned_sessions_take_their_records_with_them(
    records: Records, panes: Sessions, store: FileStore
) -> None:
    for number in range(5):
        await records.create(NewSession("rest", f"s{number}", "ada"))
        await records.prompt(f"s{number}", "hello")
        await panes.append_output("ada", "x")
        zone = await archive(panes)
    assert await panes.delete_archive(zone)
    page = await prune(store, "ada", Rule(keep=1), is_dry_run=False)
    assert len(page.found) == 3
    assert [each.id for each in await records.recent(10)] == ["s3"]
    left = await store.read_unit(lambda tx: tx.fetch("SELECT count(*) FROM record"))
    assert left == [(3,)]
    assert await clean(store)


async def test_session_moved_to_another_agent_says_so_also_when_it_has_ended(
    records: Records, panes: Sessions, store: FileStore
) -> None:
    await records.create(NewSession("rest", "s", "ada"))
    await panes.append_output("ada", "x")
    zone = await archive(panes)
    moved = zone.replace("ada", "bob")
    await store.transact(lambda tx: rename_session(tx, zone, moved, "unused", 0, None))
    info = await records.get("s")
    assert (info.definition_id, info.zone, info.status) == ("bob", moved, "completed")
    assert (await records.records("s"))[-1].body == {"definition_id": "bob"}
    assert await clean(store)


@pytest.mark.parametrize("has_records", [False, True])
async def test_zone_that_gives_way_takes_no_records_with_it(
    records: Records, panes: Sessions, store: FileStore, has_records: bool
) -> None:
    await panes.append_output("ada", "x")
    session_id = (await panes.read_state("ada")).session_id
    if has_records:
        await records.prompt(session_id, "keep me")
    await store.transact(lambda tx: drop_session(tx, "agent:ada:current"))
    assert [each.id for each in await records.recent(10)] == [session_id] * has_records
    assert await clean(store)


async def test_files_that_change_move_the_time_on_a_record_or_not(
    records: Records, panes: Sessions, store: FileStore, clock: FakeClock
) -> None:
    await records.create(NewSession("rest", "s", "ada"))
    await panes.append_output("ada", "x")
    rows = []
    for _ in range(4):
        clock.now_ms += 25_000
        await panes.append_output("ada", "x")
        assert (await records.get("s")).updated_ms == clock.now_ms
        ((row,),) = await store.read_unit(lambda tx: tx.fetch("SELECT updated_ms FROM journal"))
        rows.append(clock.now_ms - row)
    assert max(rows) < 60_000, "lists are in the order of a minute ago"
    assert rows[-1] < rows[1]
    await panes.write_state("ada", SNAPSHOT)
    clock.now_ms += 100_000
    before = await records.get("s")
    await panes.write_state("ada", SNAPSHOT)
    assert await records.get("s") == before, "what changes nothing is no change"
    assert (await records.get("s")).records == 1


async def test_session_that_ended_elsewhere_keeps_its_zone_and_can_be_archived(
    records: Records, panes: Sessions
) -> None:
    await records.create(NewSession("cli", "s", "ada"))
    await panes.append_output("ada", "x")
    await records.finish("s", "abandoned", reason="enough")
    await panes.append_output("ada", "y")
    assert (await panes.read_state("ada")).session_id == "s"
    zone = await archive(panes)
    info = await records.get("s")
    assert (info.status, info.reason, info.zone) == ("cancelled", "enough", zone)
    assert await kinds(records, "s") == ["open", "end"]


async def test_changes_of_sessions_are_not_those_of_records(
    records: Records, panes: Sessions, store: FileStore
) -> None:
    """An id can look like the name of a zone."""
    with pytest.raises(Exception, match="must be 1 to 128"):
        await panes.read_state("agent:ada:current")
    seen = store.changes("journal:")
    await records.create(NewSession("rest", "agent:ada:current", "ada"))
    change = await anext(seen)
    assert (change.kind, change.zone, change.offset) == ("record", "journal:agent:ada:current", 0)
    follower = panes.subscribe("ada")
    await records.prompt("agent:ada:current", "hello")
    await panes.append_output("ada", "x")
    assert (await anext(follower)).kind == "output"
    follower.close()


async def test_pane_hears_that_its_session_was_cleaned_up(
    records: Records, panes: Sessions, clock: FakeClock
) -> None:
    await records.create(NewSession("cli", "s", "ada"))
    await panes.append_output("ada", "x")
    before = clock.now_ms + 1
    clock.now_ms += 100_000
    start = panes.subscribe("ada")
    assert await records.cleanup(before, force=True) == ["s"]
    change = await anext(start)
    assert (change.kind, change.zone) == ("deleted", "agent:ada:current")
    start.close()
    again = panes.subscribe("ada", since=change.position - 1)
    assert await anext(again) == change, "looking back, too"
    again.close()


async def test_pane_hears_that_its_session_is_another_agents_now(
    panes: Sessions, store: FileStore
) -> None:
    await panes.append_output("ada", "x")
    changes = [panes.subscribe("ada"), panes.subscribe("bob")]
    zones = "agent:ada:current", "agent:bob:current"
    await store.transact(lambda tx: rename_session(tx, *zones, "unused", 0, None))
    found = [await anext(each) for each in changes]
    assert [(each.kind, each.zone) for each in found] == [
        ("deleted", zones[0]), ("restored", zones[0]),
    ]  # fmt: skip
    for each in changes:
        each.close()
