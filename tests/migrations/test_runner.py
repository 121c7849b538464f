"""All migrations together: order, markers, trial runs, retries, progress."""

import json
import logging
import time
from pathlib import Path

import pytest

from filestore import FileStore, InvalidArgumentError, LockedError, StorageFullError
from filestore.sessions import Sessions
from migrations import ProgressLog, migrate, runner
from migrations.marker import Marker, read_marker, write_marker
from migrations.run import nothing_happens
from migrations.stats import FAILED_MAX, Failure, Stats
from migrations.steps import import_legacy
from tests.conftest import StoreOpener
from tests.contract.tools import footprint
from tests.support.old_folder import OUTPUT, STATE, OldFolder, bytes_of, snapshot

IMPORT, BLOCKS, PROMOTE = (migration.name for migration in runner.MIGRATIONS)
MARKERS = [migration.marker for migration in runner.MIGRATIONS if migration.marker]


def make_old(folder: Path) -> None:
    """An old folder with something for each migration."""
    with OldFolder(folder, has_wal=True) as old:
        for number in range(3):
            old.block(f"b{number}", agent="ada")
            old.session(f"b{number}", f"text {number}", created=1_000 + number)
        old.block("t", agent="tpl")
        old.session("t", "of the template")
        old.definition("ada", is_seeded=0)
        old.definition("tpl", is_seeded=1, name="Template")
        old.instance("i", "tpl", instance_name="Mine", started_at=5)
        old.file("lies", OUTPUT, b"abc", size=10)


async def test_every_conversation_is_found_under_its_agent(
    store: FileStore, data_dir: Path
) -> None:
    make_old(data_dir)
    before = bytes_of(data_dir)
    stats = await migrate(store, data_dir)
    assert list(stats) == [IMPORT, BLOCKS, PROMOTE]
    assert [found.failures for found in stats.values()] == [1, 0, 0]
    assert stats[PROMOTE] == {
        "templates_scanned": 1,
        "templates_promoted": 1,
        "archives_moved": 1,
        "instances_repointed": 1,
        "failures": 0,
    }
    sessions = Sessions(store)
    agents = {found.definition_id: found.archives for found in await sessions.list_agents()}
    assert agents == {"ada": 3, "template-promote-v1-tpl": 1}
    assert (await sessions.read_state("template-promote-v1-tpl")).content == snapshot(
        "of the template"
    )
    assert bytes_of(data_dir) == before
    again = await migrate(store, data_dir)
    assert [found.failures for found in again.values()] == [1, 0, 0], "the failed one is retried"
    for name in MARKERS:
        (data_dir / name).unlink()
    position = store.position
    await migrate(store, data_dir)
    assert store.position == position, "deleting the markers changes nothing"


async def test_dry_run_tells_what_would_happen_and_writes_nothing(
    store: FileStore, data_dir: Path
) -> None:
    make_old(data_dir)
    before, position = footprint(data_dir), store.position
    tried = await migrate(store, data_dir, dry_run=True)
    assert store.position == position
    assert footprint(data_dir) == before
    done = await migrate(store, data_dir)
    assert tried == done
    assert [found.failed for found in tried.values()] == [found.failed for found in done.values()]


async def test_dry_run_with_nothing_to_do_is_all_zero(store: FileStore, data_dir: Path) -> None:
    await migrate(store, data_dir)
    before = footprint(data_dir)
    tried = await migrate(store, data_dir, dry_run=True)
    assert {count for stats in tried.values() for count in stats.values()} == {0}
    assert footprint(data_dir) == before


async def test_dry_run_works_on_a_store_opened_to_read(
    open_store: StoreOpener, data_dir: Path
) -> None:
    await (await open_store()).close()
    make_old(data_dir)
    store = await open_store(read_only=True)
    assert (await migrate(store, data_dir, dry_run=True))[BLOCKS].archives_written == 4


async def test_only_one_migration_runs_if_asked(store: FileStore, data_dir: Path) -> None:
    make_old(data_dir)
    assert list(await migrate(store, data_dir, only=IMPORT)) == [IMPORT]
    assert (await store.zones("agent:")).zones == []
    with pytest.raises(InvalidArgumentError, match="import_legacy_v1"):
        await migrate(store, data_dir, only="nonsense")


async def test_failed_items_are_retried_any_time_when_asked(
    store: FileStore, data_dir: Path
) -> None:
    make_old(data_dir)
    for _ in range(5):
        await migrate(store, data_dir)
    assert (await migrate(store, data_dir))[IMPORT].failures == 0, "not at starts any more"
    assert (await migrate(store, data_dir, retry_failed=True))[IMPORT].failures == 1
    with OldFolder(data_dir) as old:
        old.file("lies", OUTPUT, b"abcdefghij")
    (data_dir / "filestore.db-wal").unlink()
    (data_dir / "objects.db-wal").unlink()
    assert (await migrate(store, data_dir, retry_failed=True))[IMPORT].failures == 0
    assert await store.read("lies", OUTPUT) == b"abcdefghij"


async def test_retry_that_brings_nothing_in_leaves_the_next_migration_done(
    store: FileStore, data_dir: Path
) -> None:
    """Only failed items are looked at again: blocks are not gone through because a file lies."""
    make_old(data_dir)
    await migrate(store, data_dir)
    written = (data_dir / MARKERS[1]).read_bytes()
    again = await migrate(store, data_dir)
    assert again[IMPORT].failures == 1
    assert set(again[BLOCKS].values()) == {0}
    assert (data_dir / MARKERS[1]).read_bytes() == written


async def test_progress_is_told_and_ends_at_the_total(store: FileStore, data_dir: Path) -> None:
    make_old(data_dir)
    told: list[tuple[str, int, int]] = []
    await migrate(store, data_dir, progress=lambda *step: told.append(step))
    last = {name: (done, total) for name, done, total in told}
    assert last["import zones"] == (5, 5)
    assert last[BLOCKS] == (4, 4)
    assert all(done <= total for _, done, total in told)


def test_progress_is_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    progress = ProgressLog(lambda: now[0])
    with caplog.at_level(logging.INFO, "zoned.migrations"):
        for done in range(12):
            now[0] = float(done)
            progress("import zones", done, 12)
    assert caplog.messages == ["import zones: 5 of 12", "import zones: 10 of 12"]


async def test_stats_are_logged_once_for_each(
    store: FileStore, data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_old(data_dir)
    with caplog.at_level(logging.INFO, "zoned.migrations"):
        await migrate(store, data_dir)
    for name in (IMPORT, BLOCKS, PROMOTE):
        lines = [line for line in caplog.messages if line.startswith(f"{name}: ")]
        assert len(lines) == 1
    assert any("lies/output" in line for line in caplog.messages)


async def test_nothing_to_do_takes_little_time(store: FileStore, data_dir: Path) -> None:
    """The bound of the benchmark is tighter; this one only has to hold on a busy machine."""
    make_old(data_dir)
    with OldFolder(data_dir) as old:
        old.session("z", "hi")
    (data_dir / "filestore.db-wal").unlink()
    (data_dir / "objects.db-wal").unlink()
    await migrate(store, data_dir)
    best = 1.0
    for _ in range(5):
        started = time.perf_counter()
        await migrate(store, data_dir)
        best = min(best, time.perf_counter() - started)
    assert best < 0.1


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"name":1}', b"\xff", b'{"failed":[7]}']
)
async def test_marker_that_cannot_be_read_counts_as_none(
    store: FileStore, data_dir: Path, content: bytes
) -> None:
    make_old(data_dir)
    for name in MARKERS:
        (data_dir / name).write_bytes(content)
    assert (await migrate(store, data_dir))[BLOCKS].archives_written == 4
    found = read_marker(data_dir / MARKERS[1])
    assert found is not None
    assert found.finished_at > 0


async def test_one_migration_that_cannot_go_on_does_not_stop_the_next(
    store: FileStore, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.write("objects:block", "b", b'{"meta":{"view":"agent","agentId":"ada"}}')
    await store.write("b", STATE, snapshot("hi"))

    async def fails(*_: object) -> None:
        raise StorageFullError("no room")

    broken = runner.IMPORT_LEGACY._replace(step=fails)
    monkeypatch.setattr(runner, "MIGRATIONS", (broken, *runner.MIGRATIONS[1:]))
    stats = await migrate(store, data_dir)
    assert "no room" in stats[IMPORT].error
    assert stats[IMPORT].failures == 1
    assert not (data_dir / MARKERS[0]).exists()
    assert stats[BLOCKS].archives_written == 1


async def test_full_disk_in_the_middle_ends_the_migration_without_a_marker(
    store: FileStore, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(data_dir)

    async def full(*_: object, **__: object) -> None:
        raise StorageFullError("no room")

    with monkeypatch.context() as patch:
        patch.setattr("migrations.steps.import_zones.add_zone", full)
        stats = await migrate(store, data_dir)
    assert "no room" in stats[IMPORT].error
    assert stats[IMPORT].blocks_imported == 4, "what was done until then is told"
    assert not (data_dir / MARKERS[0]).exists()
    assert not (data_dir / import_legacy.SCRATCH_NAME).exists()
    assert (await migrate(store, data_dir))[BLOCKS].archives_written == 4


async def test_two_processes_never_migrate_at_once(open_store: StoreOpener, data_dir: Path) -> None:
    """A migration needs a store that is open to write, and there is one of those at a time."""
    await open_store()
    with pytest.raises(LockedError):
        await FileStore.open(data_dir)


def test_marker_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.flag"
    failures = [Failure("s", "z", "n", "why \u2028")]
    marker = Marker("x", 1, 5, {"a": 1}, failures, True, 2, ["db/objects.db"])
    write_marker(path, marker, nothing_happens)
    assert read_marker(path) == marker
    assert json.loads(path.read_bytes())["failed"] == [failures[0]._asdict()]

    def fails(_: Path) -> None:
        raise OSError("torn")

    monkeypatch.setattr("os.replace", lambda *_: fails(path))
    with pytest.raises(Exception, match="torn"):
        write_marker(path, Marker("x", 1, 6, {}), nothing_happens)
    assert read_marker(path) == marker


def test_failures_beyond_the_limit_are_counted_not_named() -> None:
    stats = Stats("a")
    for number in range(FAILED_MAX + 5):
        stats.fail(Failure("s", "z", str(number), "x"))
    assert (stats.failures, len(stats.failed), stats.is_cut) == (FAILED_MAX + 5, FAILED_MAX, True)
    with pytest.raises(AttributeError):
        _ = stats.missing
    assert stats.details()["a"] == 0
    assert "error" not in stats.details()
    stats.error = "why"
    assert stats.details()["error"] == "why"
