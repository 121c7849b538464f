"""`transact`: any operations on any zones and files as one; all or nothing."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from filestore import (
    AlreadyExistsError,
    FileStore,
    InvalidArgumentError,
    Limits,
    NotFoundError,
    ReadTransaction,
    TooLargeError,
    Transaction,
    VersionConflictError,
)
from tests.conftest import FakeClock, StoreOpener
from tests.contract.tools import Gate, Unit, noise, take, turn
from tests.support.child_model import dump

MIB = 1 << 20


class OnPurposeError(Exception):
    """Raised by units that are meant to fail."""


async def do_everything(tx: Transaction) -> None:
    """One of each operation, over what `fill` made."""
    await tx.write("a", "state", b"replaced")
    await tx.write("new", "f", noise(100_000, 5))
    await tx.append("a", "log", b" more")
    await tx.append_lines("a", "lines", ["three"])
    await tx.set_meta("a", "state", {"k": 2})
    await tx.set_meta("a", None, {"z": 1})
    await tx.delete_file("b", "f")
    await tx.move_zone("b", "moved")
    await tx.copy_zone("a", "copied")
    await tx.delete_zone("c")


async def fill(store: FileStore) -> None:
    await store.write("a", "state", noise(100_000))
    await store.append("a", "log", b"log")
    await store.append_lines("a", "lines", ["one", "two"])
    await store.set_meta("a", "state", {"k": 1})
    await store.write("b", "f", b"b")
    await store.write("b", "g", noise(50_000, 1))
    await store.append("c", "f", b"c")


async def test_transact_returns_what_the_unit_returns(store: FileStore) -> None:
    async def unit(tx: Transaction) -> dict[str, int]:
        return {"version": (await tx.write("z", "f", b"x")).version}

    result = await store.transact(unit)
    info = await store.stat("z", "f")
    assert info is not None
    assert result == {"version": info.version}


async def test_transact_of_everything_is_all_done(store: FileStore) -> None:
    await fill(store)
    await store.transact(do_everything)
    found = await dump(store)
    assert sorted(found.zones) == ["a", "copied", "moved", "new"]
    assert found.zones["a"] == found.zones["copied"]
    files = found.zones["a"].files
    assert files["state"].data == b"replaced"
    assert files["state"].meta == {"k": 2}
    assert files["log"].data == b"log more"
    assert files["lines"].data == b"one\ntwo\nthree\n"
    assert found.zones["a"].meta == {"z": 1}
    assert list(found.zones["moved"].files) == ["g"]
    assert found.zones["new"].files["f"].data == noise(100_000, 5)


async def test_transact_that_raises_at_the_end_undoes_everything(
    open_store: StoreOpener, store: FileStore
) -> None:
    await fill(store)
    before, position = await dump(store), store.position
    changes = store.changes()

    async def unit(tx: Transaction) -> None:
        await do_everything(tx)
        raise OnPurposeError("at the end")

    for _ in range(3):
        with pytest.raises(OnPurposeError, match="at the end"):
            await store.transact(unit)
    assert await dump(store) == before
    await store.tidy()
    assert await dump(store) == before
    marker = await store.append("z", "marker", b"x")
    assert (await anext(changes)).version == marker.version, "nothing undone was published"
    await store.delete_zone("z")
    assert store.position > position
    await store.close()
    store = await open_store()
    assert await dump(store) == before


async def test_transact_that_raises_then_succeeds_starts_from_the_old_state(
    store: FileStore,
) -> None:
    """Nothing of the undone unit may linger in what the next one sees."""
    await fill(store)

    async def fails(tx: Transaction) -> None:
        await do_everything(tx)
        raise OnPurposeError

    with pytest.raises(OnPurposeError):
        await store.transact(fails)

    async def looks(tx: Transaction) -> None:
        assert await tx.read("a", "state") == noise(100_000)
        assert await tx.read("a", "log") == b"log"
        assert await tx.read("b", "f") == b"b"
        assert await tx.zone("moved") is None
        assert (await tx.append("a", "log", b"!")).offset == 3

    await store.transact(looks)
    await store.transact(do_everything)
    assert await store.read("a", "log") == b"log! more"


@pytest.mark.parametrize(
    ("unit", "error"),
    [
        (lambda tx: tx.write("a", "log", b"x", if_version=0), VersionConflictError),
        (lambda tx: tx.move_zone("a", "b"), AlreadyExistsError),
        (lambda tx: tx.copy_zone("nothing", "x"), NotFoundError),
        (lambda tx: tx.read("a", "nothing"), NotFoundError),
        (lambda tx: tx.write("a", "big", b"x" * 200_001), TooLargeError),
        (lambda tx: tx.set_meta("a", "log", {"k": b"no"}), InvalidArgumentError),
    ],
    ids=["conflict", "exists", "missing zone", "missing file", "too large", "not json"],
)
async def test_transact_with_refused_operation_undoes_the_rest(
    open_store: StoreOpener, unit: Unit, error: type[Exception]
) -> None:
    store = await open_store(limits=Limits(write_bytes_max=200_000))
    await fill(store)
    before = await dump(store)

    async def run(tx: Transaction) -> None:
        await tx.write("a", "log", b"changed")
        await unit(tx)

    with pytest.raises(error):
        await store.transact(run)
    assert await dump(store) == before


async def test_transact_that_catches_a_refusal_goes_on(store: FileStore) -> None:
    """A refused operation did nothing, so the unit may choose another way."""
    await store.write("z", "f", b"theirs")

    async def unit(tx: Transaction) -> str:
        try:
            await tx.write("z", "f", b"mine", if_version=0)
        except VersionConflictError:
            await tx.write("z", "f.mine", b"mine")
        with pytest.raises(AlreadyExistsError):
            await tx.move_zone("z", "z")
        with pytest.raises(NotFoundError):
            await tx.set_meta("z", "nothing", {"a": 1})
        return "done"

    assert await store.transact(unit) == "done"
    assert await store.read("z", "f") == b"theirs"
    assert await store.read("z", "f.mine") == b"mine"


async def test_transact_publishes_its_changes_together_in_order(store: FileStore) -> None:
    await fill(store)
    changes = store.changes()
    await store.transact(do_everything)
    found = await take(changes, 10)
    assert [change.kind for change in found] == [
        "write", "write", "append", "append", "meta", "meta", "delete", "move_zone", "copy_zone",
        "delete_zone",
    ]  # fmt: skip
    positions = [change.position for change in found]
    assert positions == sorted(set(positions))


async def test_transact_of_nothing_writes_nothing(store: FileStore) -> None:
    position = store.position

    async def unit(tx: Transaction) -> str:
        assert await tx.zone("z") is None
        return "looked"

    assert await store.transact(unit) == "looked"
    assert store.position == position


@pytest.mark.parametrize("size", [0, 100, 500_000])
async def test_transact_with_prepared_bytes_writes_them(store: FileStore, size: int) -> None:
    data = noise(size)
    prepared = await store.prepare(data)

    async def unit(tx: Transaction) -> None:
        first = await tx.write("z", "f", prepared)
        assert first.size == size
        second = await tx.write("y", "g", prepared)
        assert second.digest == first.digest
        again = await tx.write("z", "f", data)
        assert again.unchanged

    await store.transact(unit)
    assert await store.read("z", "f") == data
    assert await store.read("y", "g") == data


async def test_transact_with_prepared_bytes_works_again_after_a_failure(store: FileStore) -> None:
    """What was prepared holds no promise about the store: the chunks may be gone meanwhile."""
    prepared = await store.prepare(noise(300_000))

    async def fails(tx: Transaction) -> None:
        await tx.write("z", "f", prepared)
        raise OnPurposeError

    async def writes(tx: Transaction) -> None:
        await tx.write("z", "f", prepared)

    with pytest.raises(OnPurposeError):
        await store.transact(fails)
    for _ in range(2):
        await store.transact(writes)
        assert await store.read("z", "f") == noise(300_000)
        await store.delete_file("z", "f")
        await store.tidy()


async def test_transact_reads_its_own_writes(store: FileStore) -> None:
    async def unit(tx: Transaction) -> None:
        await tx.write("z", "f", noise(200_000))
        assert await tx.read("z", "f", 100_000, 10) == noise(200_000)[100_000:100_010]
        await tx.append("z", "f", b"\none\ntwo")
        assert await tx.read("z", "f", 200_000) == b"\none\ntwo"
        total = (await tx.read_lines("z", "f", 0, 0)).total
        assert (await tx.read_lines("z", "f", total - 2, 9)).lines == [b"one", b"two"]
        done = await tx.append_lines("z", "f", ["three"])
        assert done.first_line == total

    await store.transact(unit)


async def test_transact_streams_and_digests_its_own_writes(store: FileStore) -> None:
    """Over chunks and a tail, whole and in part."""
    data = noise(3 * MIB + 7)

    async def unit(tx: Transaction) -> None:
        await tx.write("z", "f", data[:MIB])
        await tx.append("z", "f", data[MIB:])
        for offset, length in ((0, None), (MIB - 5, 10), (5, 2 * MIB), (3 * MIB, None)):
            pieces = [piece async for piece in tx.open_read("z", "f", offset, length)]
            stop = None if length is None else offset + length
            assert b"".join(pieces) == data[offset:stop]
            assert all(0 < len(piece) <= MIB for piece in pieces)
        appended = await tx.digest("z", "f")
        written = await tx.write("z", "g", data)
        assert written.digest == appended == await tx.digest("z", "g")

    await store.transact(unit)
    assert await store.view(lambda tx: tx.digest("z", "f")) == await store.digest("z", "f")
    with pytest.raises(NotFoundError):
        await store.view(lambda tx: tx.digest("z", "missing"))


@pytest.mark.parametrize("is_sealed", [False, True])
async def test_transaction_kept_beyond_its_unit_does_nothing(
    store: FileStore, is_sealed: bool
) -> None:
    """As when an `await` is forgotten: what is done later would belong to no transaction."""
    await store.append_lines("z", "f", ["before"])
    if is_sealed:
        await store.tidy()

    async def forgetful(tx: Transaction) -> Coroutine[Any, Any, object]:
        return tx.append_lines("z", "f", ["late"])

    async def keeping(tx: Transaction) -> Transaction:
        await tx.append_lines("z", "f", ["in time"])
        return tx

    with pytest.raises(InvalidArgumentError, match="has ended"):
        await (await store.transact(forgetful))
    kept = await store.transact(keeping)
    for late in (kept.write("z", "f", b"late"), kept.delete_zone("z"), kept.read("z", "f")):
        with pytest.raises(InvalidArgumentError, match="has ended"):
            await late
    seen = await store.view(_itself)
    with pytest.raises(InvalidArgumentError, match="has ended"):
        await seen.stat("z", "f")
    assert await store.read("z", "f") == b"before\nin time\n"


async def _itself(tx: ReadTransaction) -> ReadTransaction:
    return tx


async def test_transact_is_seen_as_a_whole_or_not_at_all(store: FileStore) -> None:
    """Two files always grow together; whoever looks at the zone sees them equal."""

    async def grow(tx: Transaction) -> None:
        await tx.append_lines("z", "left", ["x"])
        await tx.append_lines("z", "right", ["x"])

    await store.transact(grow)
    is_done = False

    async def look() -> int:
        looks = 0
        while not is_done:
            infos = await store.files("z")
            assert infos is not None
            left, right = infos
            assert left.lines == right.lines
            looks += 1
        return looks

    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(look()) for _ in range(3)]
        for _ in range(100):
            await store.transact(grow)
        is_done = True
    assert all(watcher.result() > 0 for watcher in watchers)


async def test_transact_in_group_where_some_raise_leaves_the_others_alone(
    open_store: StoreOpener,
) -> None:
    """All in one commit: those that fail are undone alone, those after them build on the rest."""
    gate = Gate()
    store = await open_store(failpoint=gate)
    await store.append("z", "shared", b"start\n")

    async def unit(tx: Transaction, number: int) -> int:
        await tx.append_lines("z", "shared", [str(number)])
        await tx.write("z", f"own{number}", b"%d" % number)
        await tx.write("z", "last", b"%d" % number)
        if number % 3 == 1:
            await tx.delete_file("z", "shared")
            raise OnPurposeError(number)
        return number

    async def run(number: int) -> int:
        try:
            return await store.transact(lambda tx: unit(tx, number))
        except OnPurposeError as error:
            (raised_by,) = error.args
            return -1 if raised_by == number else -2

    commits = gate.hits["commit.before"]
    async with asyncio.TaskGroup() as group, gate.held(store):
        commits = gate.hits["commit.before"]
        tasks = [group.create_task(run(number)) for number in range(100)]
        await turn()
    assert gate.hits["commit.before"] - commits >= 2
    good = [number for number in range(100) if number % 3 != 1]
    assert [task.result() for task in tasks] == [n if n % 3 != 1 else -1 for n in range(100)]
    wanted = b"start\n" + b"".join(b"%d\n" % number for number in good)
    assert await store.read("z", "shared") == wanted
    assert await store.read("z", "last") == b"99"
    names = {info.name for info in await store.files("z") or []}
    assert names == {"shared", "last", *(f"own{number}" for number in good)}


async def test_transact_that_raises_every_time_leaves_a_working_store(store: FileStore) -> None:
    async def fails(tx: Transaction) -> None:
        await tx.append("z", "f", b"lost")
        raise OnPurposeError

    async def run() -> None:
        with pytest.raises(OnPurposeError):
            await store.transact(fails)

    async with asyncio.TaskGroup() as group:
        for _ in range(300):
            group.create_task(run())
    assert await store.zone("z") is None
    assert (await store.append("z", "f", b"kept")).offset == 0


class GivingUp(BaseException):
    """Not an Exception, like KeyboardInterrupt; still the caller's alone."""


async def test_transact_that_raises_no_exception_but_worse_hurts_only_its_caller(
    store: FileStore,
) -> None:
    async def unit(tx: Transaction) -> None:
        await tx.write("z", "f", b"lost")
        raise GivingUp

    with pytest.raises(GivingUp):
        await store.transact(unit)
    assert await store.zone("z") is None
    await store.write("z", "f", b"kept")


class Foreign:
    """An awaitable that is no business of a unit of work."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self.future = asyncio.get_running_loop().create_future()

    async def turn(self) -> None:
        await turn()

    async def wait_for_future(self) -> None:
        await self.future

    async def read_from_store(self) -> None:
        await self.store.read("z", "f")


@pytest.mark.parametrize("awaited", ["turn", "wait_for_future", "read_from_store"])
async def test_transact_that_awaits_something_else_raises_and_is_undone(
    store: FileStore, awaited: str
) -> None:
    await store.write("z", "f", b"before")
    foreign = Foreign(store)

    async def unit(tx: Transaction) -> None:
        await tx.write("z", "f", b"lost")
        await tx.append("z", "log", b"lost")
        await getattr(foreign, awaited)()
        await tx.write("z", "f", b"lost too")

    with pytest.raises(InvalidArgumentError):
        await store.transact(unit)
    foreign.future.cancel()
    assert await store.read("z", "f") == b"before"
    assert await store.stat("z", "log") is None
    await store.write("z", "f", b"after")


async def test_transact_that_calls_a_write_of_the_store_raises_and_writes_nothing(
    store: FileStore,
) -> None:
    """It would wait for itself. Refused, so neither the unit nor the inner call may take effect."""
    await store.write("z", "f", b"before")

    async def unit(tx: Transaction) -> None:
        await tx.write("z", "f", b"lost")
        await store.append("z", "inner", b"lost as well")

    with pytest.raises(InvalidArgumentError):
        await store.transact(unit)
    await store.write("z", "g", b"after")
    assert await store.read("z", "f") == b"before"
    assert await store.stat("z", "inner") is None


async def test_transact_with_times_from_the_clock_uses_it_as_it_is(
    open_store: StoreOpener, clock: FakeClock
) -> None:
    store = await open_store(clock=clock)

    async def unit(tx: Transaction) -> None:
        await tx.write("z", "a", b"x")
        clock.now_ms += 10
        await tx.write("z", "b", b"x")

    made = clock.now_ms
    await store.transact(unit)
    infos = await store.files("z")
    assert infos is not None
    assert [info.created_ms for info in infos] == [made, made + 10]


async def test_transact_over_many_files_is_one_commit(open_store: StoreOpener) -> None:
    gate = Gate()
    store = await open_store(failpoint=gate)
    await store.tidy()
    commits = gate.hits["commit.after"]

    async def unit(tx: Transaction) -> None:
        for number in range(500):
            await tx.append("z", f"f{number}", b"x")

    await store.transact(unit)
    assert gate.hits["commit.after"] - commits == 1
    assert len(await store.files("z") or []) == 500
