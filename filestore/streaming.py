"""Streaming reads: a file as it was at the start, in pieces, in constant memory.

One stream is many short transactions under a lease (leases.py), so it pins neither the write-ahead
log nor the writer, however slow its reader is. Appends since the last seal are held in memory by
the engine anyway; the stream holds on to those of its start.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from filestore.errors import BusyError, CorruptionError
from filestore.leases import Leases
from filestore.lists import Entry
from filestore.model import PIECE_BYTES_MAX
from filestore.reading import ReadPlan, ReadTransaction, cut_range, tail_pieces

Read = Callable[[Callable[[ReadTransaction], Coroutine[Any, Any, Any]]], Awaitable[Any]]
"""Runs a unit on one committed state."""


async def stream(
    read: Read,
    leases: Leases,
    zone: str,
    name: str,
    offset: int,
    length: int | None,
    *,
    is_writer: bool,
) -> AsyncIterator[bytes]:
    """The wanted range in pieces of at most 1 MiB. `is_writer`: leases bind whoever releases."""
    with leases.hold() as lease:
        plan = await read(lambda tx: tx.plan_read(zone, name, offset, length, "open_read"))
        at = plan.offset
        for batch in _batches(plan.entries):
            load = partial(_load, zone=zone, name=name, entries=batch, offset=at)
            try:
                data = await read(load)
            except CorruptionError:
                # Without a lease a chunk may also be gone because the file has moved on.
                is_kept = is_writer and lease.left_s > 0
                if is_kept or await read(partial(_is_unchanged, zone=zone, plan=plan)):
                    raise
                raise BusyError(
                    "the file was replaced while it was being read",
                    operation="open_read",
                    hint="read it again from the start",
                ) from None
            if piece := cut_range(plan._replace(offset=at), data):
                yield piece
            at += len(data)
        for piece in tail_pieces(plan, at):
            yield piece


def _batches(entries: list[Entry]) -> list[list[Entry]]:
    """Group entries so that each group is one piece of a streaming read."""
    batches: list[list[Entry]] = []
    size = PIECE_BYTES_MAX
    for entry in entries:
        if size + entry.size > PIECE_BYTES_MAX:
            batches.append([])
            size = 0
        batches[-1].append(entry)
        size += entry.size
    return batches


async def _load(
    tx: ReadTransaction, zone: str, name: str, entries: list[Entry], offset: int
) -> bytes:
    pieces = []
    for entry in entries:
        pieces.append(await tx.chunk(zone, name, entry, offset))
        offset += entry.size
    return b"".join(pieces)


async def _is_unchanged(tx: ReadTransaction, zone: str, plan: ReadPlan) -> bool:
    head = await tx.head(zone, plan.head.row.name)
    return head is not None and head.row == plan.head.row
