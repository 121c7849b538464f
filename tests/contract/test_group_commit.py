"""Group commit, cancelled callers, and a queue that refuses loudly when it is full."""

import asyncio

import pytest

from filestore import Appended, BusyError, FileStore, Limits, Transaction, housekeeping
from tests.conftest import StoreOpener
from tests.contract.tools import WAIT_S_MAX, Gate, do_nothing, later, noise, turn


@pytest.fixture
def gate() -> Gate:
    return Gate()


async def test_writes_that_wait_together_are_committed_once(
    open_store: StoreOpener, gate: Gate
) -> None:
    store = await open_store(failpoint=gate)
    async with asyncio.TaskGroup() as group, gate.held(store):
        commits = gate.hits["commit.after"]
        tasks = [
            group.create_task(store.append("z", f"f{number % 7}", b"%d\n" % number))
            for number in range(300)
        ]
        await turn()
    # The empty unit that held the writer, then all the others at once.
    assert gate.hits["commit.after"] - commits == 2
    assert len({task.result().version for task in tasks}) == 300


async def test_writes_one_after_another_are_each_committed(
    open_store: StoreOpener, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No timer gathers them: a lone writer is served at once."""
    monkeypatch.setattr(housekeeping, "RELEASE_DELAY_S", WAIT_S_MAX)  # nobody else commits
    store = await open_store(failpoint=gate)
    await store.tidy()
    commits = gate.hits["commit.after"]
    for _ in range(20):
        await store.append("z", "f", b"x")
    assert gate.hits["commit.after"] - commits == 20


async def test_write_is_acknowledged_after_its_commit(open_store: StoreOpener, gate: Gate) -> None:
    store = await open_store(failpoint=gate)
    async with asyncio.TaskGroup() as group:
        async with gate.held(store):
            task = group.create_task(store.append("z", "f", b"x"))
            await turn()
            assert not task.done()
            assert await store.zone("z") is None, "nobody sees it before"
        await task
        assert await store.read("z", "f") == b"x"


async def test_reads_do_not_wait_for_writes(open_store: StoreOpener, gate: Gate) -> None:
    store = await open_store(failpoint=gate)
    await store.write("z", "f", noise(200_000))
    await store.append("z", "log", b"line\n")
    async with asyncio.TaskGroup() as group, gate.held(store):
        group.create_task(store.write("z", "f", b"later"))
        await turn()
        assert await store.read("z", "f") == noise(200_000)
        assert (await store.read_lines("z", "log", 0, 1)).total == 1
        assert len((await store.zones()).zones) == 1
    assert await store.read("z", "f") == b"later"


async def test_caller_cancelled_after_its_unit_was_taken_lets_it_run(
    open_store: StoreOpener, gate: Gate
) -> None:
    store = await open_store(failpoint=gate)
    await store.tidy()

    async def unit(tx: Transaction) -> None:
        await tx.append("z", "f", b"first ")
        await tx.append("z", "f", b"second")

    async with asyncio.TaskGroup() as group:
        task = await gate.stop_next(store, group, unit)
        task.cancel()
        await turn()
        assert task.cancelled()
        gate.let_go()
    await store.transact(do_nothing)
    assert await store.read("z", "f") == b"first second"


async def test_caller_cancelled_before_its_unit_was_taken_is_all_or_nothing(
    open_store: StoreOpener, gate: Gate
) -> None:
    store = await open_store(failpoint=gate)
    async with asyncio.TaskGroup() as group, gate.held(store):
        tasks = [group.create_task(store.append("z", "f", b"%03d\n" % n)) for n in range(100)]
        await turn()
        for task in tasks[::3]:
            task.cancel()
        await turn()
    data = await store.read("z", "f")
    lines = data.split()
    kept = [n for n in range(100) if n % 3]
    assert [int(line) for line in lines if int(line) % 3] == kept, "the others are all there"
    assert data == b"".join(line + b"\n" for line in lines)
    assert (await store.append("z", "f", b"end")).offset == len(data)


async def test_callers_cancelled_by_thousands_leave_the_queue_empty(
    open_store: StoreOpener, gate: Gate
) -> None:
    """Each cancelled call gives its place back: with a leak the store would be busy for ever."""
    store = await open_store(failpoint=gate, limits=Limits(queue_units_max=50))
    await store.append("z", "f", b"start")
    for _ in range(60):
        async with asyncio.TaskGroup() as group, gate.held(store):
            tasks = [group.create_task(store.delete_file("z", "nothing")) for _ in range(45)]
            await turn()
            for task in tasks:
                task.cancel()
    await assert_room_for(store, gate, 49)


async def test_callers_cancelled_with_bytes_give_their_bytes_back(
    open_store: StoreOpener, gate: Gate
) -> None:
    limits = Limits(queue_units_max=50, queue_bytes_max=100_000)
    store = await open_store(failpoint=gate, limits=limits)
    for _ in range(20):
        async with asyncio.TaskGroup() as group, gate.held(store):
            tasks = [group.create_task(store.append("z", "f", b"x" * 10_000)) for _ in range(9)]
            await turn()
            for task in tasks:
                task.cancel()
    async with asyncio.TaskGroup() as group, gate.held(store):
        tasks = [group.create_task(store.append("z", "g", b"x" * 10_000)) for _ in range(10)]
        await turn()
    assert [task.result().offset for task in tasks] == [n * 10_000 for n in range(10)]


async def test_callers_cancelled_while_their_units_run_leave_the_queue_empty(
    open_store: StoreOpener, gate: Gate
) -> None:
    store = await open_store(failpoint=gate, limits=Limits(queue_units_max=5))
    for _ in range(50):
        async with asyncio.TaskGroup() as group:
            task = await gate.stop_next(store, group, do_nothing)
            task.cancel()
            gate.let_go()
    await store.transact(do_nothing)
    await assert_room_for(store, gate, 4)


async def assert_room_for(store: FileStore, gate: Gate, count: int) -> None:
    """Exactly `count` units fit in beside the one that holds the writer."""
    async with asyncio.TaskGroup() as group, gate.held(store):
        tasks = [group.create_task(store.append("z", "room", b"x")) for _ in range(count)]
        await turn()
        with pytest.raises(BusyError):
            await store.append("z", "room", b"too many")
    assert len([task.result() for task in tasks]) == count
    assert await store.read("z", "room") == b"x" * count


async def test_queue_full_of_units_refuses_and_keeps_what_it_accepted(
    open_store: StoreOpener, gate: Gate
) -> None:
    store = await open_store(failpoint=gate, limits=Limits(queue_units_max=10))

    async def attempt(number: int) -> Appended | BusyError:
        try:
            return await store.append("z", "f", b"%d\n" % number)
        except BusyError as error:
            return error

    async with asyncio.TaskGroup() as group, gate.held(store):
        tasks = [group.create_task(attempt(number)) for number in range(30)]
        await turn()
        await turn()
        refused = [task for task in tasks if task.done()]
        assert len(refused) == 21, "ten wait: nine of these, and the unit that holds the writer"
        for task in refused:
            error = task.result()
            assert isinstance(error, BusyError)
            assert error.retry_after_ms > 0
    accepted = [n for n, task in enumerate(tasks) if isinstance(task.result(), Appended)]
    assert accepted == list(range(9))
    assert await store.read("z", "f") == b"".join(b"%d\n" % number for number in accepted)
    assert (await attempt(99)) == await last_append(store)


async def last_append(store: FileStore) -> Appended:
    info = await store.stat("z", "f")
    assert info is not None
    return Appended(info.size - 3, info.size, info.version)


async def test_queue_full_of_bytes_refuses_and_keeps_what_it_accepted(
    open_store: StoreOpener, gate: Gate
) -> None:
    store = await open_store(failpoint=gate, limits=Limits(queue_bytes_max=10_000))
    async with asyncio.TaskGroup() as group, gate.held(store):
        tasks = [group.create_task(store.append("z", "f", b"x" * 4000)) for _ in range(2)]
        await turn()
        for refused in (
            store.append("z", "f", b"y" * 2001),
            store.append_lines("z", "f", ["y" * 2000]),
            store.write("z", "g", b"y" * 2001),
            later(lambda: store.transact(do_nothing, cost_bytes=2001)),
        ):
            with pytest.raises(BusyError) as caught:
                await refused
            assert caught.value.retry_after_ms > 0
        tasks.append(group.create_task(store.append("z", "f", b"x" * 2000)))
        await turn()
    assert [task.result().offset for task in tasks] == [0, 4000, 8000]
    assert await store.read("z", "f") == b"x" * 10_000
    assert await store.stat("z", "g") is None


async def test_lone_write_larger_than_the_queue_is_taken(open_store: StoreOpener) -> None:
    """The bound is on what waits together; what is too large for one write has its own limit."""
    store = await open_store(limits=Limits(queue_bytes_max=1000))
    await store.tidy()
    await store.write("z", "f", noise(5000))
    await store.tidy()
    await store.append("z", "f", noise(5000, 1))
    assert await store.read("z", "f") == noise(5000) + noise(5000, 1)


async def test_log_grown_too_large_refuses_until_it_was_sealed(open_store: StoreOpener) -> None:
    """Appends faster than sealing are held back, and taken again after it."""
    store = await open_store(
        sync="normal", limits=Limits(log_bytes_soft=1 << 20, log_bytes_hard=2 << 20)
    )
    part, wanted = noise(150_000), b""
    is_refused = False
    for _ in range(60):
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(store.append("z", "f", part)) for _ in range(20)]
        except* BusyError:
            is_refused = True
        wanted += part * sum(1 for task in tasks if not task.cancelled() and not task.exception())
        if is_refused:
            break
    assert is_refused
    await store.tidy()
    data = await store.read("z", "f")
    assert data.startswith(wanted)
    assert len(data) % len(part) == 0
    assert (await store.append("z", "f", b"again")).offset == len(data)


async def test_writes_of_all_kinds_at_once_end_as_if_one_after_another(
    open_store: StoreOpener,
) -> None:
    store = await open_store(limits=Limits(seal_bytes=2000))

    async def work(number: int) -> None:
        zone = f"z{number}"
        await store.write(zone, "state", noise(40_000, number))
        for step in range(10):
            await store.append_lines(zone, "log", [f"{number} {step} " + "x" * 300])
        await store.set_meta(zone, "log", {"number": number})
        await store.copy_zone(zone, f"copy{number}")
        await store.write(zone, "state", b"short")
        await store.move_zone(zone, f"moved{number}")
        assert await store.delete_file(f"copy{number}", "state")

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(work(number))
    for number in range(20):
        lines = [f"{number} {step} " + "x" * 300 for step in range(10)]
        wanted = "".join(f"{line}\n" for line in lines).encode()
        assert await store.read(f"moved{number}", "log") == wanted
        assert await store.read(f"copy{number}", "log") == wanted
        assert await store.read(f"moved{number}", "state") == b"short"
