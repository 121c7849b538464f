"""Step 0: everything in the old databases comes into the store as it was, and they stay as they
were."""

import json
import math
import random
from pathlib import Path

import pytest

from filestore import FileStore
from filestore.sessions import Sessions
from migrations import import_legacy_v1, migrate
from tests.conftest import StoreOpener
from tests.contract.tools import noise
from tests.support.old_folder import (
    OLDER_INSTANCE_COLUMNS,
    OUTPUT,
    PART_BYTES,
    STATE,
    OldFolder,
    bytes_of,
    snapshot,
)

MARKER = "migration_import_legacy_v1.flag"


async def contents(store: FileStore) -> dict[str, dict[str, bytes]]:
    """All zones and files."""
    found = {}
    for zone in (await store.zones(limit=1000)).zones:
        files = await store.files(zone.name) or []
        found[zone.name] = {info.name: await store.read(zone.name, info.name) for info in files}
    return found


def marker(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / MARKER).read_bytes())
    return found


@pytest.mark.parametrize("place", ["", "db"])
@pytest.mark.parametrize("objects_name", ["objects.db", "waveterm.db"])
@pytest.mark.parametrize(("journal", "has_wal"), [("wal", True), ("wal", False), ("delete", False)])
async def test_old_folder_is_imported_verbatim_and_stays_as_it_was(
    store: FileStore, data_dir: Path, place: str, objects_name: str, journal: str, has_wal: bool
) -> None:
    large = noise(3 * PART_BYTES + 17)
    with OldFolder(
        data_dir / place, journal=journal, has_wal=has_wal, objects_name=objects_name
    ) as old:
        old.block("b1", agent="ada")
        old.definition("ada", name="Ada", is_seeded=0, created_at=5, updated_at=6)
        old.instance("i1", "ada", status="done")
        old.file("b1", STATE, snapshot("hi"), created=10, modified=20)
        old.file("b1", OUTPUT, large, created=11, modified=21, meta='{"k": [1, null]}')
        old.file("b1", "empty", b"", created=12, modified=22)
        old.session("agent:ada:archive:77", "before")
        old.session("agent:eve:current", "now")
        old.file("some zone/x", "term", b"\0\xff", created=0, modified=0)
    before = bytes_of(data_dir)
    stats = await import_legacy_v1(store, data_dir)
    assert bytes_of(data_dir) == before
    assert (stats.failures, stats.zones_imported, stats.files_imported) == (0, 4, 8)
    assert (stats.blocks_imported, stats.definitions_imported, stats.instances_imported) == (
        1,
        1,
        1,
    )
    found = await contents(store)
    assert found["b1"] == {STATE: snapshot("hi"), OUTPUT: large, "empty": b""}
    assert found["some zone/x"] == {"term": b"\0\xff"}
    assert json.loads(found["objects:block"]["b1"])["meta"]["agentId"] == "ada"
    assert json.loads(found["objects:definition"]["ada"])["name"] == "Ada"
    assert json.loads(found["objects:instance"]["i1"])["definition_id"] == "ada"
    info = await store.stat("b1", OUTPUT)
    assert info is not None
    assert (info.created_ms, info.modified_ms, info.meta) == (11, 21, {"k": [1, None]})
    definition = await store.stat("objects:definition", "ada")
    assert definition is not None
    assert (definition.created_ms, definition.modified_ms) == (5, 6)
    sessions = Sessions(store)
    (row,) = await sessions.list_archives("ada")
    assert (row.archived_at_ms, row.preview, row.started_at_ms) == (77, "before", 1000)
    state = await sessions.read_state("eve")
    assert (state.content, state.output_lines) == (snapshot("now"), 1)
    assert state.session_id
    assert [agent.definition_id for agent in await sessions.list_agents()] == ["ada", "eve"]
    assert marker(data_dir)["failed"] == []


async def test_second_run_is_nothing_also_without_the_marker(
    store: FileStore, data_dir: Path
) -> None:
    with OldFolder(data_dir) as old:
        old.block("b1", agent="ada")
        old.session("b1", "hi")
        old.session("agent:ada:current", "hi")
    first = await import_legacy_v1(store, data_dir)
    assert first.zones_imported == 2
    before, position = await contents(store), store.position
    assert set((await import_legacy_v1(store, data_dir)).values()) == {0}
    (data_dir / MARKER).unlink()
    again = await import_legacy_v1(store, data_dir)
    assert (again.zones_imported, again.already_imported, again.failures) == (0, 5, 0)
    assert await contents(store) == before
    assert store.position == position


async def test_what_users_did_since_is_not_undone(store: FileStore, data_dir: Path) -> None:
    """Archived, moved, deleted, written: a run after a lost marker brings nothing back."""
    with OldFolder(data_dir) as old:
        old.definition("ada", name="Ada")
        for zone in ("agent:ada:current", "agent:ada:archive:5", "moved", "deleted", "written"):
            old.session(zone, zone)
    await import_legacy_v1(store, data_dir)
    sessions = Sessions(store)
    await sessions.archive("ada")
    await sessions.delete_archive("agent:ada:archive:5")
    await store.move_zone("moved", "elsewhere")
    await store.delete_zone("deleted")
    await store.write("written", STATE, b"newer")
    await store.write("objects:definition", "ada", b'{"name": "Ada II"}')
    before = await contents(store)
    (data_dir / MARKER).unlink()
    await import_legacy_v1(store, data_dir)
    assert await contents(store) == before


async def test_session_that_meets_another_becomes_an_archive(
    store: FileStore, data_dir: Path
) -> None:
    sessions = Sessions(store)
    await sessions.write_state("ada", snapshot("mine"))
    with OldFolder(data_dir) as old:
        old.session("agent:ada:current", "old one", modified=5_000)
    stats = await import_legacy_v1(store, data_dir)
    assert stats.failures == 0
    assert (await sessions.read_state("ada")).content == snapshot("mine")
    (row,) = await sessions.list_archives("ada")
    assert (row.archived_at_ms, row.preview) == (5_000, "old one")


async def test_zone_that_meets_another_is_named_as_failed(store: FileStore, data_dir: Path) -> None:
    await store.write("z", OUTPUT, b"mine")
    with OldFolder(data_dir) as old:
        old.file("z", OUTPUT, b"theirs")
        old.file("y", OUTPUT, b"fine")
    stats = await import_legacy_v1(store, data_dir)
    assert [(item.zone, item.source) for item in stats.failed] == [("z", "filestore.db")]
    assert await store.read("z", OUTPUT) == b"mine"
    assert await store.read("y", OUTPUT) == b"fine"


async def test_circular_file_shows_its_last_bytes(store: FileStore, data_dir: Path) -> None:
    maxsize = 2 * PART_BYTES
    data = noise(5 * PART_BYTES + 999)
    with OldFolder(data_dir) as old:
        old.circular("z", "round", data, maxsize)
        old.circular("z", "short", data[:1000], maxsize)
        old.circular("z", "exact", data[: 4 * PART_BYTES], maxsize)
        opts = json.dumps({"circular": True, "maxsize": 1000})
        old.file("z", "line", data, opts=opts)
    assert (await import_legacy_v1(store, data_dir)).failures == 0
    assert await store.read("z", "round") == data[-maxsize:]
    assert await store.read("z", "short") == data[:1000]
    assert await store.read("z", "exact") == data[2 * PART_BYTES : 4 * PART_BYTES]
    assert await store.read("z", "line") == data[-1000:]


async def test_damage_is_named_and_what_is_there_is_imported(
    store: FileStore, data_dir: Path
) -> None:
    data = noise(3 * PART_BYTES)
    with OldFolder(data_dir) as old:
        old.file("lies", OUTPUT, b"abc", size=10)
        old.file("short", OUTPUT, b"abcdef", size=2)
        old.file("hole", OUTPUT, data, lost=[1])
        old.file("gone", OUTPUT, data, lost=[0, 1, 2])
        old.file("whole", OUTPUT, data)
        old.file("meta", OUTPUT, b"x", meta="{not json")
        old.file("much", OUTPUT, b"x", meta=json.dumps({"k": "x" * 70_000}))
        old.raw_block("broken", "{nonsense")
        old.raw_block("list", "[]")
        old.block("fine", agent="ada")
    stats = await import_legacy_v1(store, data_dir)
    named = {(item.zone, item.name): item.error for item in stats.failed}
    assert set(named) == {
        ("lies", OUTPUT), ("short", OUTPUT), ("hole", OUTPUT), ("gone", OUTPUT), ("meta", OUTPUT),
        ("much", OUTPUT),
        ("objects:block", "broken"), ("objects:block", "list"),
    }  # fmt: skip
    assert "10" in named["lies", OUTPUT]
    assert "3" in named["lies", OUTPUT]
    assert await store.read("lies", OUTPUT) == b"abc"
    assert await store.read("short", OUTPUT) == b"abcdef"
    assert await store.read("hole", OUTPUT) == data[:PART_BYTES] + data[2 * PART_BYTES :]
    assert await store.read("gone", OUTPUT) == b""
    assert await store.read("whole", OUTPUT) == data
    assert await store.read("much", OUTPUT) == b"x"
    assert await store.read("objects:block", "broken") == b"{nonsense"
    written = marker(data_dir)
    assert isinstance(written["failed"], list)
    assert len(written["failed"]) == 8


async def test_failed_items_are_retried_at_three_starts_only(
    store: FileStore, data_dir: Path
) -> None:
    with OldFolder(data_dir) as old:
        old.file("lies", OUTPUT, b"abc", size=10)
        old.file("fine", OUTPUT, b"abc")
    counts = [
        ((stats := await import_legacy_v1(store, data_dir)).failures, stats.already_imported)
        for _ in range(6)
    ]
    assert counts == [(1, 0), (1, 0), (1, 0), (1, 0), (0, 0), (0, 0)]
    assert len(marker(data_dir)["failed"]) == 1  # type: ignore[arg-type]  # it is a list


async def test_repaired_item_replaces_what_was_damaged(store: FileStore, data_dir: Path) -> None:
    with OldFolder(data_dir) as old:
        old.file("agent:ada:current", OUTPUT, b"abc", size=6)
        old.file("agent:ada:current", STATE, snapshot("hi"))
    await import_legacy_v1(store, data_dir)
    session_id = (await Sessions(store).read_state("ada")).session_id
    with OldFolder(data_dir) as old:
        old.file("agent:ada:current", OUTPUT, b"abcdef")
        old.file("agent:ada:current", STATE, snapshot("hi"))
    stats = await import_legacy_v1(store, data_dir)
    assert (stats.files_imported, stats.failures) == (1, 0)
    assert await store.read("agent:ada:current", OUTPUT) == b"abcdef"
    state = await Sessions(store).read_state("ada")
    assert state.session_id == session_id
    (agent,) = await Sessions(store).list_agents()
    assert agent.preview == "hi"


async def test_rows_nobody_expects_fail_alone(store: FileStore, data_dir: Path) -> None:
    with OldFolder(data_dir, is_loose=True) as old:
        old.file("good", OUTPUT, b"good")
        old.file(None, "x", b"x")
        old.file(7, "x", b"x")
        old.file("", "x", b"x")
        old.file("odd", None, b"x")
        old.file("odd", "", b"x")
        old.file("odd", "a\nb", b"x")
        old.file("odd", "n" * 129, b"x")
        old.file("odd", "fine", b"fine")
        old.file("z" * 257, "x", b"x")
        old.file("\u200b", "x", b"x")
        old.row("types", "a", "many", "then", 1.5, 7, "[]")
        old.part("types", "a", 0, "text as data")
        old.part("types", "a", 1, None)
        old.part("lost", "a", 0, b"parts without a file")
        old.files.execute("INSERT INTO db_wave_file VALUES (CAST(x'ff' AS TEXT),'x',0,0,0,'','',0)")
        old.files.execute("INSERT INTO db_wave_file VALUES ('bin',CAST(x'ff' AS TEXT),0,0,0,0,0,0)")
        old.raw_block(None, "{}")
        old.raw_block("", "{}")
        old.raw_block("n" * 129, "{}")
        old.raw_block("null", None)
        old.raw_block("good", "{}")
    before = bytes_of(data_dir)
    stats = await import_legacy_v1(store, data_dir)
    found = await contents(store)
    assert found == {
        "good": {OUTPUT: b"good"},
        "odd": {"fine": b"fine"},
        "types": {"a": b"text as data"},
        "objects:block": {"good": b"{}"},
    }
    places = {(item.zone, item.name) for item in stats.failed}
    assert {("", "db_wave_file"), ("", "db_block"), ("types", "a"), ("lost", "a")} <= places
    assert {("odd", ""), ("odd", "a\nb"), ("bin", "\\xff"), ("\\xff", "")} <= places
    errors = [item.error for item in stats.failed if not item.zone]
    assert errors == ["2 rows have no text as their oid", "4 rows name no zone or no file"]
    assert bytes_of(data_dir) == before


@pytest.mark.parametrize(
    ("sql", "database", "table"),
    [
        ("DROP TABLE db_wave_file", "filestore.db", "db_wave_file"),
        ("DROP TABLE db_file_data", "filestore.db", "db_file_data"),
        ("ALTER TABLE db_file_data RENAME COLUMN data TO other", "filestore.db", "db_file_data"),
        ("DROP TABLE db_block", "objects.db", "db_block"),
        ("ALTER TABLE db_block RENAME COLUMN data TO other", "objects.db", "db_block"),
    ],
)
async def test_missing_table_or_column_is_named_and_the_rest_imported(
    store: FileStore, data_dir: Path, sql: str, database: str, table: str
) -> None:
    with OldFolder(data_dir) as old:
        old.session("z", "hi")
        old.block("b", agent="ada")
        old.definition("ada")
        (old.files if database == "filestore.db" else old.objects).execute(sql)
    stats = await import_legacy_v1(store, data_dir)
    assert [(item.source, item.name) for item in stats.failed] == [(database, table)]
    found = await contents(store)
    assert "objects:definition" in found
    assert ("z" in found) == (database != "filestore.db")
    assert len(marker(data_dir)["failed"]) == 1  # type: ignore[arg-type]  # it is a list
    with OldFolder(data_dir) as old:
        old.session("z", "hi")
        old.block("b", agent="ada")
    assert (await import_legacy_v1(store, data_dir)).failures == 0
    assert {"z", "objects:block"} <= set(await contents(store)), "the retry finds what came back"


async def test_older_files_lack_tables_and_columns(store: FileStore, data_dir: Path) -> None:
    with OldFolder(
        data_dir, definition_columns=None, instance_columns=OLDER_INSTANCE_COLUMNS
    ) as old:
        old.instance("i", "ada", started_at=3)
        old.files.execute("ALTER TABLE db_wave_file DROP COLUMN opts")
        old.files.execute("ALTER TABLE db_wave_file DROP COLUMN createdts")
        old.files.execute("INSERT INTO db_wave_file VALUES ('z', 'f', 1, 9, '')")
        old.part("z", "f", 0, b"x")
    stats = await import_legacy_v1(store, data_dir)
    assert (stats.failures, stats.instances_imported) == (0, 1)
    info = await store.stat("z", "f")
    assert info is not None
    assert (info.size, info.created_ms, info.modified_ms) == (1, 0, 9)


@pytest.mark.parametrize("broken", ["filestore.db", "objects.db"])
async def test_unreadable_database_leaves_no_marker_and_is_tried_again(
    store: FileStore, data_dir: Path, broken: str
) -> None:
    with OldFolder(data_dir) as old:
        old.session("z", "hi")
        old.block("b", agent="ada")
    whole = (data_dir / broken).read_bytes()
    (data_dir / broken).write_bytes(noise(5000))
    stats = await import_legacy_v1(store, data_dir)
    assert stats.error
    assert [(item.source, item.zone) for item in stats.failed] == [(broken, "")]
    assert not (data_dir / MARKER).exists()
    assert len(await contents(store)) == 1, "the other one is imported"
    (data_dir / broken).write_bytes(whole)
    stats = await import_legacy_v1(store, data_dir)
    assert (stats.failures, stats.error) == (0, "")
    assert set(await contents(store)) == {"z", "objects:block"}


async def test_database_that_is_missing_beside_the_other_is_named(
    store: FileStore, data_dir: Path
) -> None:
    with OldFolder(data_dir) as old:
        old.session("z", "hi")
    (data_dir / "objects.db").unlink()
    stats = await import_legacy_v1(store, data_dir)
    assert [item.source for item in stats.failed] == ["objects.db"]
    assert "z" in await contents(store)
    with OldFolder(data_dir) as old:
        old.block("b", agent="ada")
    assert (await import_legacy_v1(store, data_dir)).blocks_imported == 1


async def test_folder_without_old_databases_is_left_alone_until_there_are(
    store: FileStore, data_dir: Path
) -> None:
    assert set((await import_legacy_v1(store, data_dir)).values()) == {0}
    with OldFolder(data_dir / "db") as old:
        old.session("z", "hi")
    assert (await import_legacy_v1(store, data_dir)).zones_imported == 1


async def test_large_files_are_built_in_pieces(open_store: StoreOpener, data_dir: Path) -> None:
    store = await open_store()
    data = noise(20 << 20)
    with OldFolder(data_dir, has_wal=True) as old:
        old.file("agent:ada:current", OUTPUT, data)
        old.file("agent:ada:current", STATE, snapshot("hi"))
        old.file("z", "also", data[: 9 << 20], size=1)
    stats = await import_legacy_v1(store, data_dir)
    assert (stats.files_imported, stats.failures) == (3, 1)
    assert await store.read("agent:ada:current", OUTPUT) == data
    assert await store.read("z", "also") == data[: 9 << 20]
    (agent,) = await Sessions(store).list_agents()
    assert agent.preview == "hi"


async def test_definition_with_odd_columns_is_kept_as_far_as_it_can_be(
    store: FileStore, data_dir: Path
) -> None:
    with OldFolder(data_dir) as old:
        old.definition("ada", name="Ada", icon=b"\xff", auto_start=1.5, shell=None,
                       is_seeded=math.inf)  # fmt: skip
        old.objects.execute("INSERT INTO db_agent_definitions (id) VALUES (CAST(x'ff' AS TEXT))")
    stats = await import_legacy_v1(store, data_dir)
    assert {item.name for item in stats.failed} == {"ada", "\\xff"}
    record = json.loads(await store.read("objects:definition", "ada"))
    assert (record["name"], record["auto_start"], record["shell"]) == ("Ada", 1.5, None)
    # JSON has no infinity, and null would be another value.
    assert not {"icon", "is_seeded"} & record.keys()


async def test_database_damaged_in_the_middle_gives_what_can_be_read(
    open_store: StoreOpener, data_dir: Path
) -> None:
    store = await open_store()
    with OldFolder(data_dir, journal="delete") as old:
        for number in range(40):
            old.file(f"zone {number:02}", OUTPUT, noise(PART_BYTES + number))
    path = data_dir / "filestore.db"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 8192)
    stats = await import_legacy_v1(store, data_dir)
    assert stats.failures >= 1
    assert stats.zones_imported >= 1
    assert (data_dir / MARKER).exists()


@pytest.mark.parametrize("seed", [*range(25), 383, 431])
async def test_damage_anywhere_is_never_fatal_and_changes_no_source(
    open_store: StoreOpener, data_dir: Path, seed: int
) -> None:
    """Bytes are flipped at random in both databases; the store stays clean, whatever came in."""
    rng = random.Random(seed)
    store = await open_store()
    with OldFolder(data_dir, journal=rng.choice(["wal", "delete"])) as old:
        for number in range(20):
            old.block(f"b{number}", agent=f"agent-{number % 4}")
            old.session(f"b{number}", f"text {number}", output=noise(rng.randrange(90_000)))
            old.definition(f"agent-{number}", is_seeded=number % 2)
    for name in ("filestore.db", "objects.db"):
        with (data_dir / name).open("r+b") as file:
            size = file.seek(0, 2)
            for _ in range(rng.randint(1, 4)):
                file.seek(rng.randrange(100, size))
                file.write(rng.randbytes(rng.choice([1, 8, 600])))
    before = bytes_of(data_dir)
    stats = await migrate(store, data_dir)
    assert bytes_of(data_dir) == before
    for found in stats.values():
        assert all(item.error for item in found.failed)
        assert found.failures == len(found.failed)
    await migrate(store, data_dir)
