"""Importing the records of an old `objects.db`."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from filestore import FileInfo, InvalidNameError, StoreError, Transaction, ledger
from filestore.chunking import prepare
from filestore.engine.driver import Connection
from filestore.ledger import LedgerRow
from filestore.model import check_file_name
from filestore.reading import ReadTransaction
from migrations.legacy.database import OldDatabase
from migrations.legacy.objects import (
    TABLES,
    OldRecord,
    Table,
    count_records,
    has_table,
    odd_rows,
    records_after,
)
from migrations.legacy.values import MissingError
from migrations.run import Run, fail
from migrations.stats import Failure, Stats
from migrations.steps.outcomes import DAMAGED, IMPORTED, KEPT, PRESENT
from migrations.steps.parts import FATAL, told

if TYPE_CHECKING:
    from migrations.steps.import_legacy import Wanted

T = TypeVar("T")
_COUNTED = {
    "objects:block": "blocks_imported",
    "objects:definition": "definitions_imported",
    "objects:instance": "instances_imported",
}


class RecordImport:
    """The import of one database. Small rows: a page of them is one transaction."""

    def __init__(
        self, run: Run, stats: Stats, database: OldDatabase, source: str, wanted: "Wanted"
    ) -> None:
        self._run = run
        self._stats = stats
        self._database = database
        self._source = source
        self._wanted = wanted

    async def run_all(self) -> None:
        """Import all tables, each by itself."""
        for table in TABLES:
            try:
                await self._import_table(table)
            except FATAL:
                raise
            except (StoreError, MissingError) as error:
                fail(self._stats, Failure(self._source, "", table.name, told(error)))

    async def _import_table(self, table: Table) -> None:
        names = self._wanted.names(self._source, table.zone)
        is_all = self._wanted.all_of(self._source, table.name)
        if not (is_all or names):
            return
        if not await self._read(has_table, table):
            return
        if is_all and (odd := await self._read(odd_rows, table)):
            error = f"{odd} rows have no text as their {table.key}"
            fail(self._stats, Failure(self._source, "", table.name, error))
        total, done, after = await self._read(count_records, table), 0, b""
        while page := await self._read(partial(records_after, after=after), table):
            await self._import_page(
                table, [record for record in page if is_all or record.name in names]
            )
            if page[-1].key <= after:
                raise MissingError(table.name, "its index is damaged: keys are out of order")
            after = page[-1].key
            done += len(page)
            self._run.progress(f"import {table.name}", done, total)

    async def _import_page(self, table: Table, page: list[OldRecord]) -> None:
        names = [record.name for record in page]
        known = await self._run.store.view(partial(self._known, zone=table.zone, names=names))
        new: list[OldRecord] = []
        for record in page:
            row = known.get(record.name)
            if row is not None and row.is_same(_size(record), record.modified_ms):
                self._stats.count("already_imported")
            elif record.content is not None and _is_name(record.name):
                new.append(record)
            if record.content is not None and not _is_name(record.name):
                self._fail(table, record.name, "its key cannot be the name of a file")
            elif record.flaw:
                self._fail(table, record.name, record.flaw)
        if new:
            self._run.before_change()
            added = await self._run.transact(partial(self._add, table=table, records=new))
            self._stats.count(_COUNTED[table.zone], added)
            self._run.hit("records.committed")

    async def _known(
        self, tx: ReadTransaction, zone: str, names: list[str]
    ) -> dict[str, LedgerRow | None]:
        return {name: await ledger.load_one(tx.rows, self._source, zone, name) for name in names}

    async def _add(self, tx: Transaction, table: Table, records: list[OldRecord]) -> int:
        """Add records to the store and to the ledger. Returns how many are new."""
        added = 0
        for record in records:
            row = await ledger.load_one(tx.rows, self._source, table.zone, record.name)
            info = await tx.stat(table.zone, record.name)
            outcome, version = await self._add_one(tx, table, record, row, info)
            added += version > 0
            if record.flaw and outcome == IMPORTED:
                outcome = DAMAGED
            size = _size(record)
            await ledger.save(
                tx.rows,
                LedgerRow(
                    self._source,
                    table.zone,
                    record.name,
                    size,
                    record.modified_ms,
                    outcome,
                    table.zone,
                    version,
                    size,
                ),
            )
        return added

    async def _add_one(
        self,
        tx: Transaction,
        table: Table,
        record: OldRecord,
        row: LedgerRow | None,
        info: FileInfo | None,
    ) -> tuple[str, int]:
        assert record.content is not None
        prepared = prepare(record.content)
        if info is not None and info.digest == prepared.digest.hex():
            return PRESENT, 0
        if info is not None and (row is None or row.version != info.version):
            return KEPT, 0  # what was done to it since counts for more
        if info is not None:
            await tx.delete_file(table.zone, record.name)
        now = tx.rows.now_ms()
        added = await tx.add_file(
            table.zone,
            record.name,
            prepared,
            created_ms=record.created_ms or now,
            modified_ms=record.modified_ms or now,
        )
        return IMPORTED, added.version

    async def _read(self, unit: Callable[[Connection, Table], T], table: Table) -> T:
        return await asyncio.to_thread(self._database.read, lambda found: unit(found, table))

    def _fail(self, table: Table, name: str, error: str) -> None:
        fail(self._stats, Failure(self._source, table.zone, name, error))


def _size(record: OldRecord) -> int:
    return len(record.content or b"")


def _is_name(name: str) -> bool:
    try:
        check_file_name(name, "migrate")
    except InvalidNameError:
        return False
    return True
