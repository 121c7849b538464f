"""Giving space back to the disk at once, for who asks. In the background it waits until much of the
file is free, because moving pages costs writes."""

from typing import NamedTuple

from filestore.engine.base import ReadTx
from filestore.engine.schema import PAGE_BYTES
from filestore.store import DATABASE_NAME, FileStore
from filestore.transaction import Transaction


class Shrunk(NamedTuple):
    """Bytes of the database before and after. `waiting`: chunks and lists that nobody names
    any more but that a streaming read may still need."""

    bytes_before: int
    bytes_after: int
    waiting: int


async def shrink(store: FileStore) -> Shrunk:
    """Wait for the work in the background, then give all free pages back, in steps of a few ms.

    Others are served meanwhile. Killed anywhere, every step is whole; the rest is done when it is
    asked for again.
    """
    before = await _size(store)
    await store.tidy()
    while await store.transact(_step):
        pass
    # The file gets shorter in the checkpoint, which comes before whatever is written next.
    await store.transact(_step)
    waiting = await store.read_unit(_waiting)
    return Shrunk(before, await _size(store), waiting)


async def _size(store: FileStore) -> int:
    """Of the file, or of what it will be once the write-ahead log is in it."""
    rows = await store.read_unit(lambda tx: tx.fetch("PRAGMA page_count"))
    return max((store.data_dir / DATABASE_NAME).stat().st_size, int(rows[0][0]) * PAGE_BYTES)


async def _step(tx: Transaction) -> bool:
    return await tx.rows.shrink()


async def _waiting(tx: ReadTx) -> int:
    row = await tx.fetch_one(
        "SELECT (SELECT count(*) FROM chunk WHERE refs = 0) + (SELECT count(*) FROM released)"
    )
    assert row is not None
    return int(row[0])
