"""Step 1: the sessions of block zones come under their agents, once, and stay where users put
them."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from filestore import FileStore, Transaction
from filestore.check import check
from filestore.records import NewSession, Records
from filestore.sessions import Sessions
from migrations import Stats, migrate, migrate_block_zones_v1
from migrations.steps.parts import session_id_of
from tests.conftest import FakeClock, StoreOpener
from tests.support.old_folder import OUTPUT, STATE, OldFolder, snapshot

MARKER = "migration_agent_zones_v1.flag"
IMPORT_MARKER = "migration_import_legacy_v1.flag"
NAME = "migrate_block_zones_v1"


async def put_block(
    store: FileStore,
    oid: str,
    text: str,
    *,
    created: int = 1_000,
    modified: int = 2_000,
    output: bytes | None = b'{"n":1}\n',
    meta: dict[str, object] | None = None,
) -> None:
    """An agent block with its zone, as an import leaves it."""
    given = {"view": "agent", "agentId": "ada"} | (meta or {})
    record = json.dumps({"oid": oid, "version": 1, "meta": given}).encode()
    files = {STATE: snapshot(text)} | ({OUTPUT: output} if output is not None else {})
    prepared = {name: await store.prepare_stream(data) for name, data in files.items()}

    async def unit(tx: Transaction) -> None:
        await tx.write("objects:block", oid, record)
        for name, content in prepared.items():
            await tx.add_file(oid, name, content, created_ms=created, modified_ms=modified)

    await store.transact(unit)


async def run_again(store: FileStore, data_dir: Path) -> Stats:
    """Once more, without the marker."""
    (data_dir / MARKER).unlink()
    return await migrate_block_zones_v1(store, data_dir)


def counts(stats: Stats) -> tuple[int, ...]:
    """Scanned, written, present, seeded, skipped, failures."""
    return tuple(stats.values())


async def test_blocks_become_archives_and_the_newest_current(
    store: FileStore, data_dir: Path
) -> None:
    await put_block(store, "b1", "first", created=1_000, modified=5_000)
    await put_block(store, "b2", "second", created=2_000, modified=9_000)
    await put_block(store, "b3", "third", created=3_000, modified=7_000)
    stats = await migrate_block_zones_v1(store, data_dir)
    assert counts(stats) == (3, 3, 0, 1, 0, 0)
    sessions = Sessions(store)
    rows = await sessions.list_archives("ada")
    assert [(row.archived_at_ms, row.preview) for row in rows] == [
        (3_000, "third"),
        (2_000, "second"),
        (1_000, "first"),
    ]
    assert all((row.node_count, row.output_lines, row.state_bytes > 0) for row in rows)
    state = await sessions.read_state("ada")
    assert (state.content, state.output_lines) == (snapshot("second"), 1)
    ids = {state.session_id, *(row.session_id for row in rows)}
    assert len(ids) == 4
    assert UUID(state.session_id).version == 5
    info = await store.stat("agent:ada:archive:1000", OUTPUT)
    assert info is not None
    assert (info.created_ms, info.modified_ms) == (1_000, 5_000)
    assert await store.read("b1", STATE) == snapshot("first"), "block zones stay"
    assert json.loads((data_dir / MARKER).read_bytes())["stats"] == dict(stats)


async def test_sessions_stand_among_the_others_by_when_they_were_last_changed(
    open_store: StoreOpener, data_dir: Path
) -> None:
    """However early they began, or were archived: the sessions of a program last used today."""
    store = await open_store(clock=FakeClock(6_000))
    await Records(store).create(NewSession("cli", "between"))
    await put_block(store, "b1", "first", created=1_000, modified=5_000)
    await put_block(store, "b2", "second", created=2_000, modified=9_000)
    await migrate_block_zones_v1(store, data_dir)
    found = await Records(store).recent(10)
    assert [(info.zone or info.id, info.updated_ms) for info in found] == [
        ("agent:ada:current", 9_000),
        ("agent:ada:archive:2000", 9_000),
        ("between", 6_000),
        ("agent:ada:archive:1000", 5_000),
    ]
    assert [info.zone or info.id for info in await Records(store).recent(1)] == [
        "agent:ada:current"
    ], "the order is that of the rows"
    assert (await check(store, deep=True)).is_clean


async def test_second_run_is_nothing_and_without_the_marker_changes_nothing(
    store: FileStore, data_dir: Path
) -> None:
    await put_block(store, "b1", "first")
    await put_block(store, "b2", "second", modified=3_000)
    await migrate_block_zones_v1(store, data_dir)
    position = store.position
    assert set((await migrate_block_zones_v1(store, data_dir)).values()) == {0}
    assert counts(await run_again(store, data_dir)) == (2, 0, 2, 0, 0, 0)
    assert store.position == position


@pytest.mark.parametrize(
    ("blocks", "newest"),
    [
        ([("a", 1, 5), ("b", 1, 9), ("c", 9, 7)], "b"),
        ([("a", 3, 9), ("b", 5, 9), ("c", 4, 9)], "b"),
        ([("a", 5, 9), ("c", 5, 9), ("b", 5, 9)], "c"),
    ],
    ids=["modified", "created", "id"],
)
async def test_newest_block_seeds_the_current_session(
    store: FileStore, data_dir: Path, blocks: list[tuple[str, int, int]], newest: str
) -> None:
    for oid, created, modified in blocks:
        await put_block(store, oid, oid, created=created, modified=modified)
    stats = await migrate_block_zones_v1(store, data_dir)
    assert counts(stats) == (3, 3, 0, 1, 0, 0)
    assert (await Sessions(store).read_state("ada")).content == snapshot(newest)


async def test_time_of_an_archive_is_created_then_modified_then_now(
    open_store: StoreOpener, data_dir: Path
) -> None:
    store = await open_store(clock=FakeClock(77_000))
    await put_block(store, "b1", "1", created=5_000, modified=6_000)
    await put_block(store, "b2", "2", created=0, modified=7_000)
    await put_block(store, "b3", "3", created=5_000, modified=8_000)
    await migrate_block_zones_v1(store, data_dir)
    rows = await Sessions(store).list_archives("ada")
    assert {row.preview: row.archived_at_ms for row in rows} == {"1": 5_000, "2": 7_000, "3": 5_001}
    await put_block(store, "b4", "4", created=0, modified=0, meta={"agentId": "eve"})
    await run_again(store, data_dir)
    (row,) = await Sessions(store).list_archives("eve")
    assert row.archived_at_ms > 1_000_000


@pytest.mark.parametrize(
    ("meta", "agent"),
    [
        ({"agentId": "x"}, "x"),
        ({"agentId": "", "agent:id": "x"}, "x"),
        ({"agentId": None, "agent:id": "x"}, "x"),
        ({"agentId": "x", "agent:id": "y"}, "x"),
        ({"agentId": "not valid", "agent:id": "y"}, None),
        ({"agentId": 7}, None),
        ({"agentId": None}, None),
        ({"agentId": "", "agent:id": "a:b"}, None),
        ({"view": "term"}, None),
        ({"view": None}, None),
    ],
)
async def test_block_is_one_of_an_agent_or_ignored(
    store: FileStore, data_dir: Path, meta: dict[str, object], agent: str | None
) -> None:
    await put_block(store, "b1", "hi", meta=meta)
    stats = await migrate_block_zones_v1(store, data_dir)
    assert stats.blocks_scanned == (agent is not None)
    assert stats.failures == 0
    agents = [found.definition_id for found in await Sessions(store).list_agents()]
    assert agents == ([agent] if agent else [])


async def test_block_without_bytes_is_skipped(store: FileStore, data_dir: Path) -> None:
    await store.write("objects:block", "none", b'{"meta":{"view":"agent","agentId":"a"}}')
    await store.write("objects:block", "empty", b'{"meta":{"view":"agent","agentId":"a"}}')
    await store.write("empty", STATE, b"")
    await store.write("empty", "other", b"bytes of something else")
    await put_block(store, "stream", "unused", meta={"agentId": "a"})
    await store.delete_file("stream", STATE)
    stats = await migrate_block_zones_v1(store, data_dir)
    assert counts(stats) == (3, 1, 0, 1, 2, 0)


async def test_archive_with_the_same_content_is_not_written_again(
    store: FileStore, data_dir: Path
) -> None:
    """Whatever made it, and also if its stream was appended and never hashed as a whole."""
    await put_block(store, "b1", "same", output=b"1\n2\n")
    zone = "agent:ada:archive:500"
    await store.write(zone, STATE, snapshot("same"))
    await store.append(zone, OUTPUT, b"1\n")
    await store.append(zone, OUTPUT, b"2\n")
    stats = await migrate_block_zones_v1(store, data_dir)
    assert (stats.archives_written, stats.archives_already_present) == (0, 1)
    assert len((await store.zones("agent:ada:archive:")).zones) == 1


async def test_blocks_with_the_same_content_make_one_archive(
    store: FileStore, data_dir: Path
) -> None:
    await put_block(store, "b1", "same")
    await put_block(store, "b2", "same", created=9_000)
    stats = await migrate_block_zones_v1(store, data_dir)
    assert counts(stats) == (2, 1, 1, 1, 0, 0)


async def test_current_session_with_bytes_is_not_touched(store: FileStore, data_dir: Path) -> None:
    sessions = Sessions(store)
    await sessions.write_state("ada", b"mine")
    await put_block(store, "b1", "old")
    stats = await migrate_block_zones_v1(store, data_dir)
    assert counts(stats) == (1, 1, 0, 0, 0, 0)
    assert (await sessions.read_state("ada")).content == b"mine"
    await sessions.archive("ada")
    assert (await run_again(store, data_dir)).current_zones_seeded == 0
    assert (await sessions.read_state("ada")).content is None


async def test_current_session_without_bytes_is_seeded(store: FileStore, data_dir: Path) -> None:
    sessions = Sessions(store)
    await sessions.write_state("ada", b"")
    await put_block(store, "b1", "old")
    assert (await migrate_block_zones_v1(store, data_dir)).current_zones_seeded == 1
    assert (await sessions.read_state("ada")).content == snapshot("old")


@pytest.mark.parametrize("is_written_to", [False, True])
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_conversation_that_was_archived_does_not_come_back(
    store: FileStore, data_dir: Path, is_written_to: bool, is_deleted: bool
) -> None:
    sessions = Sessions(store)
    await put_block(store, "b1", "old")
    await migrate_block_zones_v1(store, data_dir)
    if is_written_to:
        await sessions.append_output("ada", "more")
    archived = await sessions.archive("ada")
    assert archived is not None
    if is_deleted:
        await sessions.delete_archive(archived.archive_zoneid)
        await sessions.delete_archive("agent:ada:archive:1000")
    before = await sessions.list_archives("ada")
    assert (await run_again(store, data_dir)).current_zones_seeded == 0
    assert (await sessions.read_state("ada")).content is None
    assert await sessions.list_archives("ada") == before


async def test_session_that_lost_its_files_keeps_its_id(store: FileStore, data_dir: Path) -> None:
    """What was said in it elsewhere is still there, so it does not begin anew."""
    current, archive = (session_id_of(zone, "b1") for zone in
                        ("agent:ada:current", "agent:ada:archive:1000"))  # fmt: skip
    for session_id in (current, archive):
        await Records(store).create(NewSession("rest", session_id, "other"))
    await put_block(store, "b1", "first")
    assert counts(await migrate_block_zones_v1(store, data_dir)) == (1, 1, 0, 0, 0, 0)
    (row,) = await Sessions(store).list_archives("ada")
    assert row.session_id not in (current, archive)
    assert (await check(store, deep=True)).is_clean


async def test_conversation_closed_in_the_old_program_does_not_come_back(
    store: FileStore, data_dir: Path
) -> None:
    """It was migrated there, went on, and was archived; the block still has its beginning."""
    with OldFolder(data_dir) as old:
        old.block("b1", agent="ada")
        old.session("b1", "long ago", created=1_000, modified=2_000)
        old.session("agent:ada:archive:1000", "long ago", created=1_000, modified=2_000)
        more = b'{"n":1}\n{"n":2}\n'
        old.session("agent:ada:archive:9000", "and more", output=more, modified=8_000)
    stats = await migrate(store, data_dir)
    assert counts(stats[NAME]) == (1, 0, 1, 0, 0, 0)
    assert (await Sessions(store).read_state("ada")).content is None


async def test_later_archive_of_another_conversation_does_not_count(
    store: FileStore, data_dir: Path
) -> None:
    with OldFolder(data_dir) as old:
        old.block("b1", agent="ada")
        old.session("b1", "mine", modified=2_000)
        old.session("agent:ada:archive:9000", "another", output=b'{"m":1}\n{"n":2}\n')
    stats = await migrate(store, data_dir)
    assert counts(stats[NAME]) == (1, 1, 0, 1, 0, 0)


async def test_damaged_records_fail_alone_and_are_retried(store: FileStore, data_dir: Path) -> None:
    await put_block(store, "good", "good")
    await store.write("objects:block", "bad", b"{nonsense")
    await store.write("objects:block", "list", b"[]")
    stats = await migrate_block_zones_v1(store, data_dir)
    assert counts(stats) == (1, 1, 0, 1, 0, 2)
    assert {item.zone for item in stats.failed} == {"bad", "list"}
    await put_block(store, "bad", "now good", meta={"agentId": "eve"})
    retried = await migrate_block_zones_v1(store, data_dir)
    assert counts(retried) == (1, 1, 0, 1, 0, 1)
    assert [item.zone for item in retried.failed] == ["list"]
    written = json.loads((data_dir / MARKER).read_bytes())
    assert written["retries"] == 1
    assert written["stats"]["archives_written"] == 2


async def test_import_makes_room_for_blocks_that_come_later(
    store: FileStore, data_dir: Path
) -> None:
    """A start without an old folder leaves markers; they do not stand in the way of the next."""
    await migrate(store, data_dir)
    with OldFolder(data_dir) as old:
        old.block("b1", agent="ada")
        old.session("b1", "hi")
    stats = await migrate(store, data_dir)
    assert counts(stats[NAME]) == (1, 1, 0, 1, 0, 0)


async def test_damaged_zone_in_the_store_fails_its_block_only(
    open_store: StoreOpener, data_dir: Path
) -> None:
    open_store.is_checked = False
    store = await open_store()
    await put_block(store, "b1", "one")
    await put_block(store, "b2", "two", modified=3_000)
    await store.transact(
        lambda tx: tx.rows.execute(
            "UPDATE file SET size = size + 1 WHERE zone_id IN (SELECT id FROM zone WHERE name = ?)",
            ("b1",),
        )
    )
    await store.close()
    store = await open_store()
    stats = await migrate_block_zones_v1(store, data_dir)
    assert counts(stats) == (2, 1, 0, 1, 0, 1)
    assert [item.zone for item in stats.failed] == ["b1"]
