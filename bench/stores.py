"""Stores that take long to fill: each is made once per run and shared by the benchmarks.

Whoever uses one leaves it as it was, give or take a few lines at the end of a stream.
"""

from pathlib import Path

import orjson

from bench.data import Ndjson, ndjson
from bench.measure import Context
from filestore import FileStore
from filestore.sessions import units
from filestore.sessions.names import STATE, current_zone
from filestore.sessions.units import Looked
from filestore.transaction import Transaction

ZONE = "session"
FILE = "output"
TIDY_BYTES = 16 << 20
"""Seal at least this often while filling: the log is bounded, and filling is no benchmark."""
ZONES_PER_TRANSACTION = 1000
AGENTS = 97
AGENT = "ada"
ARCHIVES_PER_TRANSACTION = 200
ARCHIVE_STATE_BYTES = 64 << 10


async def stream_store(context: Context, size: int, batch_bytes: int) -> Path:
    """A store of one zone with one stream of about `size` bytes, appended in batches, sealed."""

    async def make(folder: Path) -> None:
        async with await FileStore.open(folder) as store:
            waiting = 0
            for batch in ndjson(size, size, batch_bytes):
                done = await store.append_lines(ZONE, FILE, batch)
                waiting += done.bytes_written
                if waiting >= TIDY_BYTES:
                    await store.tidy()
                    waiting = 0
            await store.tidy()

    return await context.shared(f"stream-{size}-{batch_bytes}", make)


async def zones_store(context: Context, count: int) -> Path:
    """A store of `count` zones, each with a preview in its meta and one small file."""

    async def make(folder: Path) -> None:
        previews = Ndjson(count)

        async def unit(tx: Transaction) -> None:
            for number in numbers:
                preview = previews.text(12)
                await tx.write(zone_name(number), "state", f"{number} {preview}".encode())
                await tx.set_meta(zone_name(number), None, {"preview": preview})

        async with await FileStore.open(folder) as store:
            for start in range(0, count, ZONES_PER_TRANSACTION):
                numbers = range(start, min(start + ZONES_PER_TRANSACTION, count))
                await store.transact(unit)
            await store.tidy()

    return await context.shared(f"zones-{count}", make)


def zone_name(number: int) -> str:
    """Agents take turns, so zones that are neighbours by name were made far apart in time."""
    return f"agent-{number % AGENTS:02}:archive-{number:06}"


async def archives_store(context: Context, count: int, state_bytes: int = 0) -> Path:
    """A store with `count` archives of one agent at 1, 2, 3 … ms, each with a preview.

    `state_bytes`: each has a state of about that size; else a small one.
    """

    async def make(folder: Path) -> None:
        source = Ndjson(count)
        looked = Looked({}, {}, is_last=True)

        async def unit(tx: Transaction) -> None:
            for number in numbers:
                node = {"type": "user_message", "message": f"{number} {source.text(40)}"}
                filler = source.text(state_bytes // 6)
                state = orjson.dumps({"nodes": [node], "filler": filler})
                await tx.write(current_zone(AGENT), STATE, state)
                await units.ensure(tx, AGENT, f"session-{number}")
                await units.archive(tx, AGENT, looked, "")

        async with await FileStore.open(folder, clock=lambda: 1) as store:
            for start in range(0, count, ARCHIVES_PER_TRANSACTION):
                numbers = range(start, min(start + ARCHIVES_PER_TRANSACTION, count))
                await store.transact(unit)
            await store.tidy()

    return await context.shared(f"archives-{count}-{state_bytes}", make)
