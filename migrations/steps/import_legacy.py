"""Step 0, `import_legacy_v1`: all that the old databases hold comes into the store, verbatim.

Zones keep their names and files their times; blocks, definitions and instances become records, each
a file in `objects:block`, `objects:definition` or `objects:instance`. Nothing is taken away or
written over: what is listed in the ledger is passed over, and what the store has under the same
name already stays.

A database that cannot be read at all ends up in `Stats.error`: then there is no marker, and the
next start tries again.
"""

import asyncio
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from migrations.legacy.database import OldDatabase, UnreadableError
from migrations.legacy.folder import OldFolder, find_old_folders
from migrations.run import Run, fail
from migrations.stats import Failure, Stats
from migrations.steps.import_records import RecordImport
from migrations.steps.import_zones import ZoneImport

NAME = "import_legacy_v1"
COUNTS = (
    "zones_imported",
    "files_imported",
    "bytes_imported",
    "blocks_imported",
    "definitions_imported",
    "instances_imported",
    "already_imported",
)
SCRATCH_NAME = "zoned.scratch"


class Wanted(NamedTuple):
    """Which items to look at: None for all, else those that failed before."""

    failed: frozenset[tuple[str, str, str]] | None

    @classmethod
    def of(cls, failed: Iterable[Failure] | None) -> "Wanted":
        if failed is None:
            return cls(None)
        return cls(frozenset((item.source, item.zone, item.name) for item in failed))

    def all_of(self, source: str, *tables: str) -> bool:
        """True if everything in one of these tables is wanted."""
        if self.failed is None:
            return True
        return any((source, "", table) in self.failed for table in (*tables, ""))

    def zones(self, source: str) -> set[str]:
        """The zones of a source in which something failed."""
        return {item[1] for item in self.failed or () if item[0] == source}

    def names(self, source: str, zone: str) -> set[str]:
        """The items of a zone that failed."""
        return {item[2] for item in self.failed or () if item[:2] == (source, zone)}


async def import_legacy(run: Run, stats: Stats, failed: Iterable[Failure] | None) -> None:
    """Import what is not listed yet; only `failed` items if given."""
    wanted = Wanted.of(failed)
    scratch = run.data_dir / SCRATCH_NAME
    # A run that was killed may have left its copies.
    await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
    try:
        for folder in find_old_folders(run.source_dir):
            await _import_folder(run, stats, folder, wanted, scratch)
    finally:
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)


async def _import_folder(
    run: Run, stats: Stats, folder: OldFolder, wanted: Wanted, scratch: Path
) -> None:
    if folder.objects is None:
        missing = "the database of blocks is missing beside filestore.db"
        fail(stats, Failure(folder.objects_source, "", "", missing))
    else:
        await _import_database(run, stats, folder.objects, folder.objects_source, wanted, scratch)
    if folder.files is None:
        missing = "the database of files is missing beside objects.db"
        fail(stats, Failure(folder.files_source, "", "", missing))
    else:
        await _import_database(run, stats, folder.files, folder.files_source, wanted, scratch)


async def _import_database(
    run: Run, stats: Stats, path: Path, source: str, wanted: Wanted, scratch: Path
) -> None:
    try:
        database = await asyncio.to_thread(OldDatabase, path, scratch / path.name)
        try:
            if source.endswith("filestore.db"):
                await ZoneImport(run, stats, database, source, wanted).run_all()
            else:
                await RecordImport(run, stats, database, source, wanted).run_all()
        finally:
            await asyncio.to_thread(database.close)
    except UnreadableError as error:
        stats.error = str(error)
        fail(stats, Failure(source, "", "", str(error)))
