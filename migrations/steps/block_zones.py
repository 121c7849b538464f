"""Step 1, `migrate_block_zones_v1`: the sessions in block zones come under their agents.

Every agent block's zone is copied, without copying bytes, to an archive of its definition, and the
newest one of a definition also to its current session if that is empty. Block zones are only read.

Idempotent by content (an archive with the same state and stream is not made twice) and by the
ledger, which has a row for each block, written with its archive, and one for each definition that
was, or was not, given a current session. So nothing that a user has archived, moved or deleted
since comes back. Work on one definition is in order; several definitions are worked on at a time.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from filestore import FileInfo, StoreError, Transaction, ledger
from filestore.ledger import LedgerRow
from filestore.reading import ReadTransaction
from filestore.sessions.adopting import adopt, drop_session
from filestore.sessions.names import (
    OUTPUT,
    STATE,
    archive_zone,
    check_definition_id,
    current_zone,
    parse_archive,
)
from filestore.sessions.preview import Summary, summarise
from filestore.sessions.units import read_snapshot
from migrations.run import Run, fail
from migrations.stats import Failure, Stats
from migrations.steps.archives import Archives, Holding, goes_on_from
from migrations.steps.outcomes import ARCHIVED, CLOSED, IN_USE, PRESENT, SEEDED
from migrations.steps.parts import (
    FATAL,
    free_session_id,
    in_parallel,
    is_session,
    newest_ms,
    session_id_of,
    snapshot_of,
    started_ms,
)
from migrations.steps.records import BLOCKS, Record, count_records, names_after, read_page

NAME = "migrate_block_zones_v1"
COUNTS = (
    "blocks_scanned",
    "archives_written",
    "archives_already_present",
    "current_zones_seeded",
    "skipped_no_snapshot",
)
WORKERS = 8
BLOCKS_PER_COMMIT = 16


class Block(NamedTuple):
    """An agent block whose zone has something to migrate."""

    id: str
    files: list[FileInfo]

    @property
    def snapshot(self) -> FileInfo:
        found = snapshot_of(self.files)
        assert found is not None, self.id
        return found

    @property
    def order(self) -> tuple[int, int, str]:
        """The greatest one is the newest."""
        modified = newest_ms(info for info in self.files if info.name in (STATE, OUTPUT))
        return modified, self.snapshot.created_ms, self.id

    @property
    def archived_ms(self) -> int:
        """When it counts as archived; 0 if nothing tells."""
        return max(self.snapshot.created_ms, 0) or max(self.snapshot.modified_ms, 0)

    def row(self, outcome: str, target: str) -> LedgerRow:
        size = sum(info.size for info in self.files)
        return LedgerRow(NAME, self.id, "", size, newest_ms(self.files), outcome, target)


class Found(NamedTuple):
    """A block as it was found: what the ledger knows of it, and what its snapshot tells."""

    block: Block
    row: LedgerRow | None
    holding: Holding
    summary: Summary


async def migrate_block_zones(run: Run, stats: Stats, failed: Iterable[Failure] | None) -> None:
    """Migrate all blocks; only `failed` ones if given."""
    wanted = None if failed is None else {item.zone for item in failed}
    blocks = await _find_blocks(run, stats, wanted)
    done = [0, sum(map(len, blocks.values()))]

    async def migrate_one(definition_id: str) -> None:
        definition = _Definition(run, stats, definition_id)
        await definition.migrate(blocks[definition_id])
        done[0] += len(blocks[definition_id])
        run.progress(NAME, *done)

    await in_parallel(sorted(blocks), migrate_one, WORKERS)


async def _find_blocks(run: Run, stats: Stats, wanted: set[str] | None) -> dict[str, list[str]]:
    """The ids of agent blocks by their definition."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    total = await run.store.view(partial(count_records, zone=BLOCKS))
    after, done = "", 0
    while names := await run.store.view(partial(names_after, zone=BLOCKS, after=after)):
        after = names[-1]
        done += len(names)
        kept = [name for name in names if wanted is None or name in wanted]
        for name, record in await run.store.view(partial(read_page, zone=BLOCKS, names=kept)):
            if isinstance(record, Exception):
                fail(stats, Failure(BLOCKS, name, "", str(record)))
            elif (definition_id := definition_of(record)) is not None:
                stats.count("blocks_scanned")
                found[definition_id].append(name)
        run.progress("look at blocks", done, total)
    return found


def definition_of(record: Record) -> str | None:
    """Whose sessions a block holds; None if it is not the block of an agent."""
    meta = record.get("meta")
    if not isinstance(meta, dict) or meta.get("view") != "agent":
        return None
    given = meta.get("agentId")
    if given is None or given == "":
        given = meta.get("agent:id")
    try:
        return check_definition_id(given)
    except StoreError:
        return None


class _Definition:
    """The blocks of one definition."""

    def __init__(self, run: Run, stats: Stats, definition_id: str) -> None:
        self._run = run
        self._stats = stats
        self._id = definition_id
        self._archives = Archives(definition_id)
        self._ours: set[str] = set()
        """Archives that this migration has made, now or before."""

    async def migrate(self, block_ids: list[str]) -> None:
        try:
            await self._archives.load(self._run.store)
        except FATAL:
            raise
        except StoreError as error:
            for block_id in block_ids:
                self._fail(block_id, error)
            return
        newest: Block | None = None
        for start in range(0, len(block_ids), BLOCKS_PER_COMMIT):
            found = await self._find(block_ids[start : start + BLOCKS_PER_COMMIT])
            for block in await self._archive(found):
                newest = block if newest is None else max(newest, block, key=lambda b: b.order)
        if newest is not None:
            await self._seed(newest)

    async def _find(self, block_ids: list[str]) -> list[Found]:
        found: list[Found] = []
        for block_id in block_ids:
            try:
                block = await self._run.store.view(partial(_look, block_id=block_id))
            except FATAL:
                raise
            except StoreError as error:
                self._fail(block_id, error)
                continue
            if block is None:
                self._stats.count("skipped_no_snapshot")
            else:
                found.append(block)
        return found

    async def _archive(self, found: list[Found]) -> list[Block]:
        """Archive blocks in one transaction, or each by itself if that fails. Returns those that
        are archived now."""
        try:
            return await self._archive_together(found)
        except FATAL:
            raise
        except StoreError as error:
            if len(found) == 1:
                self._fail(found[0].block.id, error)
                return []
        return [block for one in found for block in await self._archive([one])]

    async def _archive_together(self, found: list[Found]) -> list[Block]:
        archives = self._archives.copy()
        plans: list[tuple[Found, str, str]] = []
        for one in found:
            if one.row is not None and one.row.is_same(*one.block.row("", "")[3:5]):
                continue
            same = await archives.find(self._run.store, one.holding)
            zone = same or archives.add(one.holding, one.block.archived_ms, self._run.clock())
            plans.append((one, PRESENT if same else ARCHIVED, zone))
        if plans:
            await self._run.transact(partial(_archive_blocks, plans=plans))
            self._run.hit("blocks.committed")
        self._archives = archives
        written = {zone for _, outcome, zone in plans if outcome == ARCHIVED}
        self._stats.count("archives_written", len(written))
        self._stats.count("archives_already_present", len(found) - len(written))
        self._ours |= written | {
            one.row.target for one in found if one.row is not None and one.row.outcome == ARCHIVED
        }
        return [one.block for one in found]

    async def _seed(self, block: Block) -> None:
        """Make the newest block the current session, if nobody has had or closed one."""
        try:
            is_closed = await self._run.store.view(partial(self._is_closed, block=block))
            summary = await self._run.store.view(partial(_summary, zone=block.id))
            unit = partial(
                _seed, block=block, definition_id=self._id, is_closed=is_closed, summary=summary
            )
            if await self._run.transact(unit):
                self._stats.count("current_zones_seeded")
            self._run.hit("seed.committed")
        except FATAL:
            raise
        except StoreError as error:
            self._fail(block.id, error)

    async def _is_closed(self, tx: ReadTransaction, block: Block) -> bool:
        """True if an archive that is not our own shows that the user has gone on and finished."""
        later = self._archives.after(block.order[0]) - self._ours
        later.discard(archive_zone(self._id, block.archived_ms))
        holding = await Holding.of(tx, block.files)
        return any([await goes_on_from(tx, zone, holding) for zone in sorted(later)])

    def _fail(self, block_id: str, error: Exception) -> None:
        fail(self._stats, Failure(BLOCKS, block_id, "", str(error)))


async def _look(tx: ReadTransaction, block_id: str) -> Found | None:
    """A block with its zone; None if there is nothing to migrate."""
    files = await tx.files(block_id) or []
    if snapshot_of(files) is None:
        return None
    row = await ledger.load_one(tx.rows, NAME, block_id, "")
    block = Block(block_id, files)
    is_listed = row is not None and row.is_same(*block.row("", "")[3:5])
    summary = Summary() if is_listed else await _summary(tx, block_id)
    return Found(block, row, await Holding.of(tx, files), summary)


async def _summary(tx: ReadTransaction, zone: str) -> Summary:
    return summarise((await read_snapshot(tx, zone))[1])


async def _archive_blocks(tx: Transaction, plans: list[tuple[Found, str, str]]) -> None:
    for (block, _, _, summary), outcome, zone in plans:
        if outcome == ARCHIVED:
            await tx.copy_zone(block.id, zone)
            new_id = await free_session_id(tx, zone, block.id)
            started = started_ms(block.files) or parse_archive(zone)[1]
            await adopt(tx, zone, new_id, started, summary)
        await ledger.save(tx.rows, block.row(outcome, zone))


async def _seed(
    tx: Transaction, block: Block, definition_id: str, is_closed: bool, summary: Summary
) -> bool:
    """Copy the block to the current session. False if there is a reason not to; it is noted."""
    zone = current_zone(definition_id)
    if await ledger.load_one(tx.rows, NAME, zone, "") is not None:
        return False
    session_id = session_id_of(zone, block.id)
    outcome = SEEDED
    if any(info.size for info in await tx.files(zone) or []):
        outcome = IN_USE
    elif is_closed or await is_session(tx, session_id):
        outcome = CLOSED
    if outcome == SEEDED:
        await drop_session(tx, zone)
        await tx.copy_zone(block.id, zone)
        await adopt(tx, zone, session_id, started_ms(block.files) or tx.rows.now_ms(), summary)
    note = block.row(outcome, zone)._replace(zone=zone)
    await ledger.save(tx.rows, note)
    return outcome == SEEDED
