"""Running the migrations of users' data: in order, each guarded by itself, none fatal for the
daemon.

The caller holds the folder's lock by way of its open store, so no two processes migrate at once. A
migration that cannot go on ends with its error in its stats, without a marker, and the next one
begins: each works on what is there.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from filestore import FileStore, InvalidArgumentError, StoreError
from filestore.engine.backup import copy_database
from filestore.engine.database import check_header, wal_bytes
from filestore.engine.schema import FORMAT_VERSION
from filestore.store import DATABASE_NAME
from migrations.backups import prune_backups
from migrations.format import up
from migrations.legacy.folder import find_old_folders, names_of
from migrations.marker import RETRIES_MAX, Marker, read_marker, remove_marker, write_marker
from migrations.run import Failpoint, Progress, Run, log, nothing_happens, nothing_to_tell
from migrations.stats import Failure, Stats
from migrations.steps import block_zones, import_legacy, promote_templates
from migrations.steps.templates import templates_with_sessions

Step = Callable[[Run, Stats, Iterable[Failure] | None], Awaitable[None]]
"""Counts as it goes, so what was done before an error is told too. Only `failed` items if given."""


class Migration(NamedTuple):
    """A migration of users' data. `marker` is empty for one that its own invariant gates."""

    name: str
    version: int
    marker: str
    counts: tuple[str, ...]
    step: Step


IMPORT_LEGACY = Migration(
    import_legacy.NAME,
    1,
    "migration_import_legacy_v1.flag",
    import_legacy.COUNTS,
    import_legacy.import_legacy,
)
BLOCK_ZONES = Migration(
    block_zones.NAME,
    1,
    "migration_agent_zones_v1.flag",
    block_zones.COUNTS,
    block_zones.migrate_block_zones,
)
PROMOTE_TEMPLATES = Migration(
    promote_templates.NAME,
    promote_templates.VERSION,
    "",
    promote_templates.COUNTS,
    promote_templates.promote_templates,
)
MIGRATIONS = (IMPORT_LEGACY, BLOCK_ZONES, PROMOTE_TEMPLATES)


async def migrate(
    store: FileStore,
    data_dir: Path | str,
    *,
    only: str | None = None,
    dry_run: bool = False,
    retry_failed: bool = False,
    progress: Progress = nothing_to_tell,
    failpoint: Failpoint = nothing_happens,
) -> dict[str, Stats]:
    """Run all migrations, or `only` one, and give back what each did.

    Idempotent: killed anywhere and run again, the result is the same. Never raises for what is
    wrong with the data: see `failures`, `failed` and `error` of each. `dry_run`: on a copy of the
    store that is thrown away, so nothing here changes, and the answer is exact.
    """
    chosen = _chosen(only)
    run = Run(store, Path(data_dir), Path(data_dir), progress, failpoint)
    if not dry_run:
        await prune_backups(run)
        return await _run_all(run, chosen, retry_failed)
    if not await _is_anything_due(run, chosen, retry_failed):
        return {migration.name: Stats(*migration.counts) for migration in chosen}
    return await _try_out(run.data_dir, chosen, retry_failed, progress)


async def try_out(
    data_dir: Path | str,
    *,
    only: str | None = None,
    retry_failed: bool = False,
    progress: Progress = nothing_to_tell,
) -> dict[str, Stats]:
    """What `migrate` would do in a folder whose store nobody here has open. Writes nothing there:
    no store is made, none is brought up to this format, and no lock is taken."""
    chosen = _chosen(only)
    path = Path(data_dir) / DATABASE_NAME
    # One with a WAL cannot be opened without a trace.
    if not path.exists() or wal_bytes(path) or check_header(path) < FORMAT_VERSION:
        return await _try_out(path.parent, chosen, retry_failed, progress)
    async with await FileStore.open(data_dir, read_only=True) as store:
        return await migrate(
            store,
            data_dir,
            only=only,
            dry_run=True,
            retry_failed=retry_failed,
            progress=progress,
        )


async def pending(store: FileStore | None, data_dir: Path) -> list[str]:
    """What the next run would have to do, in words. Never writes; `store` may be read-only, or None
    if there is none yet.
    """
    found = []
    sources = names_of(find_old_folders(data_dir), data_dir)
    for migration in (IMPORT_LEGACY, BLOCK_ZONES) if sources else ():
        marker = read_marker(data_dir / migration.marker)
        wanted = set(sources) if migration is IMPORT_LEGACY else set()
        if marker is None or not wanted <= set(marker.sources):
            found.append(f"{migration.name} is to come")
        elif marker.failed:
            found.append(f"{migration.name} failed for {len(marker.failed)} items")
    if store is None:
        return found
    if await store.view(templates_with_sessions):
        found.append(f"{PROMOTE_TEMPLATES.name} is to come")
    return found


def forget_markers(data_dir: Path) -> None:
    """Have the next run look at everything again: the store is another than they speak of."""
    for migration in MIGRATIONS:
        if migration.marker:
            remove_marker(data_dir / migration.marker)


async def import_legacy_v1(store: FileStore, data_dir: Path | str) -> Stats:
    """Bring in what the old databases hold; see `migrate`."""
    return (await migrate(store, data_dir, only=IMPORT_LEGACY.name))[IMPORT_LEGACY.name]


async def migrate_block_zones_v1(store: FileStore, data_dir: Path | str) -> Stats:
    """Bring the sessions of block zones under their agents; see `migrate`."""
    return (await migrate(store, data_dir, only=BLOCK_ZONES.name))[BLOCK_ZONES.name]


async def migrate_promote_template_sessions_v1(store: FileStore, data_dir: Path | str) -> Stats:
    """Give the sessions of templates to definitions of their own; see `migrate`."""
    return (await migrate(store, data_dir, only=PROMOTE_TEMPLATES.name))[PROMOTE_TEMPLATES.name]


def _chosen(only: str | None) -> list[Migration]:
    chosen = [migration for migration in MIGRATIONS if only in (None, migration.name)]
    if not chosen:
        known = ", ".join(migration.name for migration in MIGRATIONS)
        raise InvalidArgumentError(f"no migration {only!a}: there are {known}", operation="migrate")
    return chosen


async def _run_all(run: Run, chosen: list[Migration], retry_failed: bool) -> dict[str, Stats]:
    found: dict[str, Stats] = {}
    for migration in chosen:
        stats = Stats(*migration.counts)
        try:
            await _run_one(run, migration, stats, retry_failed)
        except (StoreError, OSError) as error:
            stats.fail(Failure("", "", "", str(error)))
            stats.error = str(error)
        if stats.error:
            log.error("%s could not be finished: %s", migration.name, stats.error)
        counted = {name: count for name, count in stats.items() if count}
        log.info("%s: %s", migration.name, "done" if counted else "nothing to do", extra=counted)
        found[migration.name] = stats
    return found


async def _run_one(run: Run, migration: Migration, stats: Stats, retry_failed: bool) -> None:
    if not migration.marker:
        await migration.step(run, stats, None)
        return
    path = run.data_dir / migration.marker
    sources = _sources(run, migration)
    before = read_marker(path)
    if before is not None and not set(sources) <= set(before.sources):
        before = None  # there is something that it does not speak of
    if before is not None and not _is_due(before, retry_failed):
        return
    failed = None if before is None or before.is_cut else before.failed
    if migration is IMPORT_LEGACY:
        # Whatever this brings in is for the next migration to see.
        forget = partial(remove_marker, run.data_dir / BLOCK_ZONES.marker)
        run = replace(run, before_change=forget)
    await migration.step(run, stats, failed)
    if not stats.error:
        run.hit("step.done")
        write_marker(path, _marker(run, migration, stats, before, sources), run.hit)


def _sources(run: Run, migration: Migration) -> list[str]:
    if migration is not IMPORT_LEGACY:
        return []
    return names_of(find_old_folders(run.source_dir), run.source_dir)


def _is_due(marker: Marker, retry_failed: bool) -> bool:
    """True if items failed and it is time to try them again."""
    has_failed = bool(marker.failed) or marker.is_cut
    return has_failed and (retry_failed or marker.retries < RETRIES_MAX)


def _marker(
    run: Run, migration: Migration, stats: Stats, before: Marker | None, sources: list[str]
) -> Marker:
    """The marker after a run; counts of a retry are added to those of the run before."""
    total = dict(stats)
    if before is not None:
        total = {name: before.stats.get(name, 0) + count for name, count in stats.items()}
        total["failures"] = stats["failures"]
    return Marker(
        migration.name,
        migration.version,
        run.clock(),
        total,
        stats.failed,
        stats.is_cut,
        before.retries + 1 if before is not None else 0,
        sources,
    )


async def _try_out(
    data_dir: Path, chosen: list[Migration], retry_failed: bool, progress: Progress
) -> dict[str, Stats]:
    """Run on a copy of the store, in the system's folder for temporary files."""
    folder = Path(await asyncio.to_thread(partial(tempfile.mkdtemp, prefix="zoned-dry-run-")))
    try:
        database = data_dir / DATABASE_NAME
        if database.exists():
            await asyncio.to_thread(copy_database, database, folder / DATABASE_NAME)
        for name in [migration.marker for migration in MIGRATIONS if migration.marker]:
            if (data_dir / name).exists():
                shutil.copyfile(data_dir / name, folder / name)
        async with await FileStore.open(folder, sync="normal", upgrade=up) as store:
            trial = Run(store, folder, data_dir, progress, is_trial=True)
            return await _run_all(trial, chosen, retry_failed)
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _is_anything_due(run: Run, chosen: list[Migration], retry_failed: bool) -> bool:
    for migration in chosen:
        if not migration.marker:
            if await run.store.view(templates_with_sessions):
                return True
            continue
        marker = read_marker(run.data_dir / migration.marker)
        sources = set(_sources(run, migration))
        if marker is None or not sources <= set(marker.sources) or _is_due(marker, retry_failed):
            return True
    return False
