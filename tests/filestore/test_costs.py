"""What costs the same at any size: counted in statements, since times would prove nothing."""

from collections.abc import Awaitable, Callable

import pytest

from filestore import FileStore, Transaction, housekeeping
from tests.conftest import StoreOpener
from tests.contract.tools import WAIT_S_MAX, noise
from tests.filestore.test_recovery import engine_of

MIB = 1 << 20
LARGE_PARTS = 24
"""Of one MiB each; they share their chunks, so the file is made fast. Its list has many pages."""

OPERATIONS: dict[str, Callable[[FileStore, str], Awaitable[object]]] = {
    "append": lambda store, zone: store.append(zone, "f", b"x"),
    "append_lines": lambda store, zone: store.append_lines(zone, "f", ["x"]),
    "set_meta": lambda store, zone: store.set_meta(zone, "f", {"k": 1}),
    "move_zone": lambda store, zone: store.move_zone(zone, "moved"),
    "delete_file": lambda store, zone: store.delete_file(zone, "f"),
    "delete_zone": lambda store, zone: store.delete_zone(zone),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_operation_takes_as_many_statements_for_a_large_file_as_for_a_small_one(
    open_store: StoreOpener, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """From a store that knows nothing of either, to the acknowledgement: what is left of a deleted
    file is the business of the background."""
    monkeypatch.setattr(housekeeping, "RELEASE_DELAY_S", WAIT_S_MAX)
    store = await open_store()
    part = noise(MIB)
    await store.write("small", "f", part[:1000])
    await store.write("large", "f", part * LARGE_PARTS)
    await store.close()
    counts = {}
    for zone in ("small", "large"):
        store = await open_store()
        await store.tidy()
        statements = await traced(store)
        await OPERATIONS[operation](store, zone)
        counts[zone] = len(statements)
        await store.close()
        if operation == "move_zone":
            store = await open_store()
            await store.delete_zone("moved")
            await store.close()
    assert 0 < counts["large"] == counts["small"] <= 20


async def traced(store: FileStore) -> list[str]:
    """The statements that the writer runs from now on."""
    statements: list[str] = []

    async def unit(_: Transaction) -> None:
        engine_of(store)._connection.set_trace_callback(statements.append)

    await store.transact(unit)
    statements.clear()
    return statements
