"""Building the list of a large file piece by piece, in bounded memory, seen by nobody.

A list grows under a file id that has no file yet; `building` names it, so that its chunks are
counted and never taken for unused. `Transaction.add_file` gives it a name in the one transaction
that makes the file appear, whole. What a crash leaves is told by its id, which is older than the
start, and is handed over to `released` when background work begins: then its space comes back like
that of a deleted file.

Bytes are cut as those of a stream. Each batch is hashed and packed while the one before is being
committed.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from blake3 import blake3

from filestore.chunking import VALUE_LEVEL, FixedCutter, Piece, count_lines, make_piece
from filestore.engine.base import Tx
from filestore.engine.schema import row_check
from filestore.errors import NotFoundError, StoreError
from filestore.lines import LineCounter, Open
from filestore.lists import check_released, mark_released, read_page
from filestore.sealing import Sealed, place

T = TypeVar("T")
BATCH_PIECES = 16
"""So many chunks make one transaction."""

Write = Callable[[Callable[[Tx], Coroutine[Any, Any, T]], int], Awaitable[T]]
"""Runs a unit on the engine; told about how many bytes it holds."""


class Built(NamedTuple):
    """A finished list that waits for its name."""

    file_id: int
    pages: int
    size: int
    ended: int
    open: Open
    digest: bytes


class Building:
    """One list that is growing. Owned by the task that feeds it."""

    def __init__(self, write: Write[int], chunk_bytes: int) -> None:
        self._write = write
        self._chunk_bytes = chunk_bytes
        self._counter = LineCounter()
        self._hasher = blake3()
        self._file_id = 0
        self._pages = 0
        self._size = 0
        self._ended = 0

    async def run(self, data: AsyncIterable[bytes]) -> Built:
        """Take in all of `data`. Durable on return, but without a name; see the module."""
        self._file_id = await self._write(_begin, 0)
        committed: Awaitable[int] | None = None
        try:
            async for raw in _batches(data, self._chunk_bytes):
                pieces, ended = await asyncio.to_thread(self._cut, raw)
                if committed is not None:
                    self._pages = await committed
                committed = self._commit(pieces, ended)
            if committed is not None:
                self._pages = await committed
        except BaseException:
            if committed is not None:
                with suppress(StoreError):  # one error is under way already
                    await committed
            with suppress(StoreError):  # then the next start gives it up
                await self._give_up()
            raise
        return Built(
            self._file_id,
            self._pages,
            self._size,
            self._ended,
            self._counter.state,
            self._hasher.digest(),
        )

    async def _give_up(self) -> None:
        """Leave what was built to be released."""
        file_id = self._file_id

        async def unit(tx: Tx) -> int:
            await give_up_build(tx, file_id)
            return 0

        await self._write(unit, 0)

    def _cut(self, raw: list[bytes]) -> tuple[list[Piece], list[int]]:
        for data in raw:
            self._hasher.update(data)
        pieces = [make_piece(data, VALUE_LEVEL) for data in raw]
        ended, _ = count_lines(pieces, self._counter)
        self._size += sum(map(len, raw))
        self._ended += sum(ended)
        return pieces, ended

    def _commit(self, pieces: list[Piece], ended: list[int]) -> Awaitable[int]:
        file_id, pages = self._file_id, self._pages
        sealed = Sealed([], pieces, ended, 0, 0, 0, Open.NOTHING, 0)

        async def unit(tx: Tx) -> int:
            last = await read_page(tx, file_id, pages - 1) if pages else None
            now = await place(tx, file_id, last, sealed)
            await _note(tx, file_id, now)
            return now

        return self._write(unit, sum(len(piece.data) for piece in pieces))


async def take_built(tx: Tx, built: Built) -> None:
    """The list has become that of a file: it is not being built any more."""
    pages = await _building_pages(tx, built.file_id)
    if pages != built.pages:
        raise NotFoundError("what was built has been given up", operation="add_file")
    await tx.execute("DELETE FROM building WHERE file_id = ?", (built.file_id,))


async def give_up_build(tx: Tx, file_id: int) -> None:
    """Leave a list that will get no name to be released."""
    pages = await _building_pages(tx, file_id)
    await tx.execute("DELETE FROM building WHERE file_id = ?", (file_id,))
    if pages:
        await mark_released(tx, file_id, pages)


async def give_up_left_builds(tx: Tx, upto_id: int) -> None:
    """Give up what a process that has ended was building: all with ids up to `upto_id`."""
    rows = await tx.fetch("SELECT file_id FROM building WHERE file_id <= ?", (upto_id,))
    for (file_id,) in rows:
        await give_up_build(tx, file_id)


async def _begin(tx: Tx) -> int:
    file_id = tx.next_version()
    await _note(tx, file_id, 0)
    return file_id


async def _note(tx: Tx, file_id: int, pages: int) -> None:
    await tx.execute(
        "INSERT INTO building (file_id, pages, row_check) VALUES (?, ?, ?) "
        "ON CONFLICT (file_id) DO UPDATE "
        "SET pages = excluded.pages, row_check = excluded.row_check",
        (file_id, pages, row_check(file_id, pages)),
    )


async def _building_pages(tx: Tx, file_id: int) -> int | None:
    row = await tx.fetch_one(
        "SELECT file_id, pages, row_check FROM building WHERE file_id = ?", (file_id,)
    )
    if row is None:
        return None
    check_released(*row)
    return int(row[1])


async def _batches(data: AsyncIterable[bytes], chunk_bytes: int) -> AsyncIterator[list[bytes]]:
    """Group bytes into lists of up to BATCH_PIECES chunks, all but the last of `chunk_bytes`."""
    cutter = FixedCutter(chunk_bytes)
    chunks: list[bytes] = []
    async for piece in data:
        chunks += cutter.feed(piece)
        while len(chunks) >= BATCH_PIECES:
            yield chunks[:BATCH_PIECES]
            del chunks[:BATCH_PIECES]
    chunks += cutter.end()
    if chunks:
        yield chunks
