"""Background work: sealing tails, taking deleted lists apart, releasing chunks nobody needs,
shrinking.

One task, owned by the store. Every step is a short unit through the same writer as everyone's
writes, complete in itself: killed between any two, the next start finds the rest of the work in the
tables and goes on.

Chunks that nobody references are released when no streaming read can need them (leases.py). Until
then they wait, and everything else goes on.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from functools import partial

from filestore.building import give_up_left_builds
from filestore.engine.base import Engine, ReadTx, Tx
from filestore.errors import CorruptionError, StoreError
from filestore.leases import Leases
from filestore.lists import (
    check_released,
    drop_pages,
    mark_released,
    read_page,
    take_references,
)
from filestore.model import Limits
from filestore.reading import ReadTransaction
from filestore.sealing import SealPlan, cut_stream, plan_seal
from filestore.transaction import Transaction

RELEASE_CHUNKS = 32
SEAL_FILES = 8
RETRY_S = 1.0
RELEASE_DELAY_S = 1.0

log = logging.getLogger("zoned.housekeeping")


class Housekeeper:
    """The store's background task."""

    def __init__(self, engine: Engine, limits: Limits, leases: Leases) -> None:
        self._engine = engine
        self._limits = limits
        self._leases = leases
        self._left_upto: int | None = engine.position
        """Builds with ids up to this one are left from before; None once they are given up."""
        self._damaged: dict[int, int] = {}
        """Files that cannot be sealed, each with the version of which that is known."""
        self._told = ""
        self._unused: list[int] = []
        """Chunks to be released when the leases before `_unused_since` are over."""
        self._unused_since = 0
        self._timer: asyncio.TimerHandle | None = None
        self._wake = asyncio.Event()
        self._wake.set()
        self._idle = asyncio.Event()
        leases.on_end = self._lease_ended

    def wake(self) -> None:
        """There is something to do."""
        self._idle.clear()
        self._wake.set()

    def wake_later(self) -> None:
        """There may be space to release. That has time; now it would delay the next save."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RELEASE_DELAY_S, self._wake_now)

    def _wake_now(self) -> None:
        self._timer = None
        self.wake()

    async def wait_idle(self) -> None:
        """Wait until nothing is left that can be done now."""
        self.wake()
        await self._idle.wait()

    async def run(self) -> None:
        """Work whenever there is something to do, until cancelled."""
        try:
            await self._run()
        finally:
            self._idle.set()
            if self._timer is not None:
                self._timer.cancel()

    async def _run(self) -> None:
        while True:
            await self._wait()
            try:
                while await self._round():
                    pass
            except Exception as error:  # tried again, whatever it is: without it the log fills up
                self._tell(error)
                self._wake.set()
                self._idle.set()
                await asyncio.sleep(RETRY_S)
                continue
            self._told = ""
            if not self._wake.is_set():
                self._idle.set()

    def _tell(self, error: Exception) -> None:
        """Log what holds the work up, once; the store says to everyone what is wrong with it."""
        if str(error) != self._told:
            self._told = str(error)
            is_ours = isinstance(error, StoreError)
            log.warning("background work is held up: %s", error, exc_info=not is_ours)

    async def _wait(self) -> None:
        """Until woken, or until the last lease that holds chunks back has grown too old."""
        left_s = self._leases.left_s(self._unused_since) if self._unused else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await self._wake.wait()
        self._wake.clear()

    def _lease_ended(self) -> None:
        if self._unused:
            self.wake()

    async def _round(self) -> bool:
        """One piece of each kind of work. True if there may be more."""
        if self._left_upto is not None:
            unit = partial(give_up_left_builds, upto_id=self._left_upto)
            await self._engine.write(unit, 0, is_housekeeping=True)
            self._left_upto = None
        taken = await self._take_list_apart()
        released = await self._release_some()
        tidied = await self._engine.write(lambda tx: tx.tidy(), 0, is_housekeeping=True)
        # On a full disk nothing can be sealed, and what makes room must not wait behind it.
        sealed = self._engine.trouble is None and await self._seal_some()
        return sealed or taken or released or tidied

    # -- sealing

    async def _seal_some(self) -> bool:
        file_ids = await self._engine.write(
            lambda tx: tx.tails_to_seal(self._limits.seal_bytes), 0, is_housekeeping=True
        )
        hopeless = [file_id for file_id in file_ids if await self._is_hopeless(file_id)]
        if hopeless and self._engine.stats.log_bytes > self._limits.log_bytes_soft:
            # Else they would fill the log until nobody could write any more.
            unit = partial(_close_tails, file_ids=hopeless)
            await self._engine.write(unit, 0, is_housekeeping=True)
        file_ids = [file_id for file_id in file_ids if file_id not in hopeless]
        for start in range(0, len(file_ids), SEAL_FILES):
            await self._seal(file_ids[start : start + SEAL_FILES])
        return bool(file_ids)

    async def _seal(self, file_ids: list[int]) -> None:
        """Seal these together, or else each alone, so that one that cannot be stops no other."""
        try:
            await self._seal_together(file_ids)
        except CorruptionError as error:
            if len(file_ids) == 1:
                await self._leave_alone(file_ids[0], error)
                return
            for file_id in file_ids:
                await self._seal([file_id])

    async def _seal_together(self, file_ids: list[int]) -> None:
        limits = self._limits
        plans: list[SealPlan] = []
        gone: list[int] = []
        for file_id in file_ids:
            try:
                plan = await self._engine.read(partial(_plan, file_id=file_id, limits=limits))
            except CorruptionError as error:
                # Reading the file says it every time, here once. Its tail stays in the log.
                await self._leave_alone(file_id, error)
                continue
            if plan is None:
                gone.append(file_id)
            else:
                plans.append(plan)
        sealed = await asyncio.to_thread(
            lambda: [cut_stream(plan, limits.seal_bytes) for plan in plans]
        )

        async def unit(tx: Tx) -> None:
            transaction = Transaction(tx, limits)
            for plan, chunks in zip(plans, sealed, strict=True):
                found = await transaction.file_by_id(plan.row.id)
                if found is not None and found[1].version == plan.row.version:
                    await transaction.seal(*found, chunks)
            for file_id in gone:
                await tx.tail_drop(file_id, await _sealed_version(transaction, file_id))

        cost = sum(len(piece.data) for chunks in sealed for piece in chunks.pieces)
        await self._engine.write(unit, cost, is_housekeeping=True)

    async def _is_hopeless(self, file_id: int) -> bool:
        """True if the file is as damaged as it was; a replace since then has mended it."""
        if file_id not in self._damaged:
            return False
        return await self._engine.read(partial(_version, file_id=file_id)) == self._damaged[file_id]

    async def _leave_alone(self, file_id: int, error: CorruptionError) -> None:
        log.error("background work passes over damaged file %d: %s", file_id, error)
        self._damaged[file_id] = await self._engine.read(partial(_version, file_id=file_id))

    # -- releasing

    async def _take_list_apart(self) -> bool:
        """Give up the references of one page of a deleted file. True if there was one."""
        rows = await self._engine.read(partial(_released, limit=len(self._damaged) + 1))
        file_ids = [file_id for (file_id,) in rows if file_id not in self._damaged]
        if not file_ids:
            return False
        try:
            unit = partial(_take_page, file_id=file_ids[0])
            await self._engine.write(unit, 0, is_housekeeping=True)
        except CorruptionError as error:
            await self._leave_alone(file_ids[0], error)
        return True

    async def _release_some(self) -> bool:
        if not self._unused:
            self._unused = [chunk_id for (chunk_id,) in await self._engine.read(_unused_chunks)]
            self._unused_since = self._leases.next_number
        if not self._unused or self._leases.left_s(self._unused_since) > 0:
            return False
        chunk_ids, self._unused = self._unused, []
        await self._engine.write(partial(_release, chunk_ids=chunk_ids), 0, is_housekeeping=True)
        return True


async def _plan(tx: ReadTx, file_id: int, limits: Limits) -> SealPlan | None:
    reader = ReadTransaction(tx)
    found = await reader.file_by_id(file_id)
    return await plan_seal(reader, *found, limits.seal_bytes) if found else None


async def _close_tails(tx: Tx, file_ids: list[int]) -> None:
    for file_id in file_ids:
        await tx.tail_close(file_id, "what it would be joined to is damaged")


async def _version(tx: ReadTx, file_id: int) -> int:
    row = await tx.fetch_one("SELECT version FROM file WHERE id = ?", (file_id,))
    return int(row[0]) if row else 0


async def _sealed_version(transaction: Transaction, file_id: int) -> int:
    """Up to where the records of a file that needs no sealing may be forgotten."""
    found = await transaction.file_by_id(file_id)
    return found[1].version if found else transaction.rows.next_version()


async def _unused_chunks(tx: ReadTx) -> list[tuple[int, ...]]:
    return await tx.fetch(
        "SELECT id FROM chunk WHERE refs = 0 ORDER BY id LIMIT ?", (RELEASE_CHUNKS,)
    )


async def _release(tx: Tx, chunk_ids: list[int]) -> None:
    for chunk_id in chunk_ids:
        # It may have found a new use since.
        if await tx.fetch_one("SELECT id FROM chunk WHERE id = ? AND refs = 0", (chunk_id,)):
            await tx.execute("DELETE FROM chunk_data WHERE id = ?", (chunk_id,))
            await tx.execute("DELETE FROM chunk WHERE id = ?", (chunk_id,))


async def _released(tx: ReadTx, limit: int) -> list[tuple[int, ...]]:
    return await tx.fetch("SELECT file_id FROM released ORDER BY file_id LIMIT ?", (limit,))


async def _take_page(tx: Tx, file_id: int) -> None:
    """Give up the references of the last page of a deleted file."""
    row = await tx.fetch_one(
        "SELECT file_id, pages, row_check FROM released WHERE file_id = ?", (file_id,)
    )
    if row is None:
        return
    check_released(*row)
    last = row[1] - 1
    page = await read_page(tx, file_id, last)
    await take_references(tx, Counter(entry.digest for entry in page.entries))
    await drop_pages(tx, file_id, last, last + 1)
    if last:
        await mark_released(tx, file_id, last)
    else:
        await tx.execute("DELETE FROM released WHERE file_id = ?", (file_id,))
