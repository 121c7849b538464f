"""Step 2: templates own no sessions; whatever is in the way survives."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from filestore import FileStore, Transaction
from filestore.check import check
from filestore.records import Records
from filestore.sessions import Sessions
from migrations import Stats, migrate_promote_template_sessions_v1
from migrations.backups import FOLDER_NAME, KEPT_MS, backup_folder
from migrations.runner import PROMOTE_TEMPLATES
from tests.conftest import FakeClock, StoreOpener
from tests.support.old_folder import OUTPUT, STATE, snapshot

TARGET = "template-promote-v1-tpl"
NOW = 1_700_000_000_000


@pytest.fixture
async def store(open_store: StoreOpener) -> FileStore:
    return await open_store(clock=FakeClock(NOW))


async def put_session(
    store: FileStore, zone: str, text: str, *, modified: int = 2_000, output: bytes = b"1\n"
) -> None:
    """A zone as an import leaves it, but without a session: that is made when it is moved."""
    state, stream = await store.prepare_stream(snapshot(text)), await store.prepare_stream(output)

    async def unit(tx: Transaction) -> None:
        await tx.add_file(zone, STATE, state, created_ms=1_000, modified_ms=modified)
        await tx.add_file(zone, OUTPUT, stream, created_ms=1_000, modified_ms=1_500)

    await store.transact(unit)


async def put_record(store: FileStore, zone: str, key: str, /, **record: object) -> None:
    await store.write(zone, key, json.dumps({"id": key} | record).encode())


async def put_template(store: FileStore, key: str = "tpl", /, **record: object) -> None:
    given = {"name": "Template", "icon": "i", "provider": "p", "is_seeded": 1, "slug": "s"}
    await put_record(store, "objects:definition", key, **given | record)


async def record(store: FileStore, zone: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await store.read(zone, name))
    return found


async def sessions_of(store: FileStore, definition_id: str) -> dict[str, bytes | None]:
    """The state of each session by the rest of its zone's name."""
    prefix = f"agent:{definition_id}:"
    return {
        zone.name.removeprefix(prefix): await store.read(zone.name, STATE)
        for zone in (await store.zones(prefix)).zones
    }


def counts(stats: Stats) -> tuple[int, ...]:
    """Scanned, promoted, archives moved, instances repointed, failures."""
    return tuple(stats.values())


async def test_template_with_sessions_is_promoted(store: FileStore, data_dir: Path) -> None:
    await put_template(
        store, description="d", environment="e", accounts="[1]", agent_bus_id="bus", shell="zsh"
    )
    await put_record(store, "objects:definition", "own", is_seeded=0)
    await put_record(store, "objects:instance", "i1", definition_id="tpl", status="x")
    await put_record(store, "objects:instance", "i2", definition_id="own")
    await put_session(store, "agent:tpl:archive:100", "one")
    await put_session(store, "agent:own:archive:100", "stays")
    await put_session(store, "agent:unknown:current", "stays")
    sessions = Sessions(store)
    await sessions.write_state("tpl", snapshot("now"))
    session_id = (await sessions.read_state("tpl")).session_id
    stats = await migrate_promote_template_sessions_v1(store, data_dir)
    assert counts(stats) == (1, 1, 1, 1, 0)
    assert await sessions_of(store, "tpl") == {}
    assert await sessions_of(store, TARGET) == {
        "archive:100": snapshot("one"),
        "current": snapshot("now"),
    }
    assert (await sessions.read_state(TARGET)).session_id == session_id
    (row,) = await sessions.list_archives(TARGET)
    assert (row.preview, row.output_lines, row.started_at_ms) == ("one", 1, 1_000)
    assert (await record(store, "objects:instance", "i1")) == {
        "id": "i1",
        "definition_id": TARGET,
        "status": "x",
    }
    assert await record(store, "objects:definition", TARGET) == {
        "id": TARGET, "name": "Template", "icon": "i", "provider": "p", "description": "d",
        "environment": "e", "shell": "zsh", "slug": "", "working_directory": "",
        "agent_bus_id": "", "accounts": "", "branch_label": "", "auto_start": 0, "is_seeded": 0,
        "user_hidden": 0, "parent_id": "tpl", "created_at": NOW, "updated_at": NOW,
    }  # fmt: skip
    assert (await record(store, "objects:definition", "tpl"))["is_seeded"] == 1
    position = store.position
    again = await migrate_promote_template_sessions_v1(store, data_dir)
    assert set(again.values()) == {0}
    assert store.position == position


async def test_unknown_and_own_definitions_are_left_alone(store: FileStore, data_dir: Path) -> None:
    await put_template(store, "other", is_seeded=0)
    await put_template(store, "idle")
    await put_session(store, "agent:other:current", "x")
    await put_session(store, "agent:unknown:archive:3", "x")
    (data_dir / "migration_template_promote_v1.flag").write_text("{}")
    stats = await migrate_promote_template_sessions_v1(store, data_dir)
    assert set(stats.values()) == {0}
    assert not (data_dir / FOLDER_NAME).exists(), "nothing to do needs no backup"


async def test_name_is_that_of_the_last_started_named_instance(
    store: FileStore, data_dir: Path
) -> None:
    await put_template(store)
    await put_session(store, "agent:tpl:current", "x")
    for name, started, shown, hidden in [
        ("a", 5, "Five", 0),
        ("b", 9, "", 0),
        ("c", 8, "Eight", 1),
        ("d", 7, "Seven", 0),
        ("e", 6, "  ", 0),
    ]:
        await put_record(
            store,
            "objects:instance",
            name,
            definition_id="tpl",
            started_at=started,
            instance_name=shown,
            display_hidden=hidden,
            parent_instance_id="a",
        )
    stats = await migrate_promote_template_sessions_v1(store, data_dir)
    assert stats.instances_repointed == 5
    assert (await record(store, "objects:definition", TARGET))["name"] == "Seven"


async def test_target_that_exists_is_reused_as_it_is(store: FileStore, data_dir: Path) -> None:
    await put_template(store)
    await put_record(store, "objects:definition", TARGET, name="Renamed", is_seeded=0)
    await put_session(store, "agent:tpl:current", "x")
    await migrate_promote_template_sessions_v1(store, data_dir)
    assert (await record(store, "objects:definition", TARGET))["name"] == "Renamed"


@pytest.mark.parametrize("suffix", ["current", "archive:100"])
@pytest.mark.parametrize(
    ("ours", "theirs", "place"),
    [
        (("a", 10), ("a", 99), {"": "a"}),
        (("a", 10), ("b", 99), {"": "b", "archive:{ours}": "a"}),
        (("a", 99), ("b", 10), {"": "a", "archive:{theirs}": "b"}),
        (("a", 50), ("b", 50), {"": "b", "archive:{ours}": "a"}),
    ],
    ids=["same", "target newer", "source newer", "equal times"],
)
async def test_zone_in_the_way_is_decided_as_a_whole(
    store: FileStore,
    data_dir: Path,
    suffix: str,
    ours: tuple[str, int],
    theirs: tuple[str, int],
    place: dict[str, str],
) -> None:
    await put_template(store)
    for definition, (text, modified) in (("tpl", ours), (TARGET, theirs)):
        await put_session(
            store, f"agent:{definition}:{suffix}", text, modified=modified + 10_000,
            output=text.encode() + b"\n",
        )  # fmt: skip
    stats = await migrate_promote_template_sessions_v1(store, data_dir)
    assert stats.templates_promoted == 1
    wanted = {
        key.format(ours=10_000 + ours[1], theirs=10_000 + theirs[1]) or suffix: snapshot(text)
        for key, text in place.items()
    }
    assert await sessions_of(store, TARGET) == wanted
    assert await sessions_of(store, "tpl") == {}
    for zone in wanted:
        found = await store.read(f"agent:{TARGET}:{zone}", OUTPUT)
        assert json.loads(wanted[zone])["nodes"][0]["message"].encode() + b"\n" == found
    assert set((await migrate_promote_template_sessions_v1(store, data_dir)).values()) == {0}


async def test_both_conversations_survive_when_both_were_used(
    store: FileStore, data_dir: Path
) -> None:
    sessions = Sessions(store)
    await put_template(store)
    await put_record(store, "objects:definition", TARGET, is_seeded=0)
    for definition_id in ("tpl", TARGET):
        await sessions.write_state(definition_id, snapshot(f"of {definition_id}"))
        await sessions.append_output(definition_id, definition_id)
    ids = {(await sessions.read_state(name)).session_id for name in ("tpl", TARGET)}
    stats = await migrate_promote_template_sessions_v1(store, data_dir)
    assert counts(stats) == (1, 1, 0, 0, 0)
    (row,) = await sessions.list_archives(TARGET)
    state = await sessions.read_state(TARGET)
    assert {state.session_id, row.session_id} == ids
    assert (row.preview, state.content) == ("of tpl", snapshot(f"of {TARGET}"))
    assert (row.output_lines, row.archived_at_ms) == (1, NOW)


@pytest.mark.parametrize("empty", ["tpl", TARGET])
async def test_zone_without_bytes_gives_way(store: FileStore, data_dir: Path, empty: str) -> None:
    sessions = Sessions(store)
    await put_template(store)
    used = TARGET if empty == "tpl" else "tpl"
    await sessions.write_state(empty, b"")
    await sessions.write_state(used, snapshot("x"))
    await migrate_promote_template_sessions_v1(store, data_dir)
    assert await sessions_of(store, TARGET) == {"current": snapshot("x")}
    assert await sessions_of(store, "tpl") == {}


async def test_records_go_with_their_session_and_tell_where_it_went(
    open_store: StoreOpener, data_dir: Path
) -> None:
    clock = FakeClock(NOW)
    store = await open_store(clock=clock)
    await put_template(store)
    sessions, records = Sessions(store), Records(store)
    ids = []
    for name, text in ((TARGET, "the copy's"), ("tpl", "the template's, newer")):
        clock.now_ms += 1_000
        await sessions.write_state(name, snapshot(text))
        ids.append((await sessions.read_state(name)).session_id)
        await records.prompt(ids[-1], text)
    await migrate_promote_template_sessions_v1(store, data_dir)
    found = [await records.get(session_id) for session_id in ids]
    assert [(info.definition_id, info.status) for info in found] == [
        (TARGET, "completed"),
        (TARGET, "active"),
    ]
    assert [info.is_archived for info in found] == [True, False]
    kinds = [[each.kind for each in await records.records(session_id)] for session_id in ids]
    assert kinds == [["open", "message", "end"], ["open", "message", "meta"]]
    assert (await check(store, deep=True)).is_clean


async def test_archive_with_a_malformed_name_is_moved_too(store: FileStore, data_dir: Path) -> None:
    await put_template(store)
    await put_session(store, "agent:tpl:archive:007", "odd")
    stats = await migrate_promote_template_sessions_v1(store, data_dir)
    assert stats.archives_moved == 1
    assert await sessions_of(store, TARGET) == {"archive:007": snapshot("odd")}


async def test_template_that_fails_leaves_no_trace_and_the_others_go_on(
    store: FileStore, data_dir: Path
) -> None:
    long = "x" * 120
    await put_template(store, long)
    await put_template(store)
    await put_session(store, f"agent:{long}:current", "stays")
    await put_session(store, "agent:tpl:current", "goes")
    stats = await migrate_promote_template_sessions_v1(store, data_dir)
    assert counts(stats) == (2, 1, 0, 0, 1)
    assert [item.zone for item in stats.failed] == [long]
    assert await sessions_of(store, long) == {"current": snapshot("stays")}


async def test_backup_is_made_before_reused_by_retries_and_removed_after_30_days(
    open_store: StoreOpener, data_dir: Path
) -> None:
    store = await open_store()
    await put_template(store)
    await put_session(store, "agent:tpl:current", "x")
    await migrate_promote_template_sessions_v1(store, data_dir)
    folder = backup_folder(data_dir, PROMOTE_TEMPLATES.name, PROMOTE_TEMPLATES.version)
    async with await FileStore.open(folder, read_only=True) as backup:
        assert await backup.read("agent:tpl:current", STATE) == snapshot("x")
    made = (folder / "zoned.db").stat()
    await put_session(store, "agent:tpl:archive:7", "y")
    await migrate_promote_template_sessions_v1(store, data_dir)
    assert (folder / "zoned.db").stat() == made
    _age(folder, KEPT_MS + 1000)
    await migrate_promote_template_sessions_v1(store, data_dir)
    assert not folder.exists()


async def test_backup_is_private_whatever_the_umask(store: FileStore, data_dir: Path) -> None:
    await put_template(store)
    await put_session(store, "agent:tpl:current", "x")
    before = os.umask(0)
    try:
        await migrate_promote_template_sessions_v1(store, data_dir)
    finally:
        os.umask(before)
    folder = backup_folder(data_dir, PROMOTE_TEMPLATES.name, PROMOTE_TEMPLATES.version)
    modes = {path: path.stat().st_mode & 0o777 for path in (folder.parent, folder)}
    assert modes == dict.fromkeys(modes, 0o700)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def _age(folder: Path, ms: int) -> None:
    found = folder.stat()
    os.utime(folder, ns=(found.st_atime_ns, found.st_mtime_ns - ms * 1_000_000))


async def test_without_a_backup_nothing_is_moved(store: FileStore, data_dir: Path) -> None:
    await put_template(store)
    await put_session(store, "agent:tpl:current", "x")
    (data_dir / FOLDER_NAME).write_text("in the way")
    stats = await migrate_promote_template_sessions_v1(store, data_dir)
    assert counts(stats) == (1, 0, 0, 0, 1)
    assert await sessions_of(store, "tpl") == {"current": snapshot("x")}
