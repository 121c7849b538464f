"""`changes`: every committed change once, in order; a gap instead of blocking or growing."""

import asyncio
from functools import partial

import pytest

from filestore import (
    AlreadyExistsError,
    Change,
    ClosedError,
    FileStore,
    Limits,
    Transaction,
    VersionConflictError,
)
from tests.conftest import StoreOpener
from tests.contract.tools import Gate, noise, take, turn


async def drain(store: FileStore, prefix: str = "", since: int | None = None) -> list[Change]:
    """All that an iterator gives until the store is closed."""
    changes = store.changes(prefix, since)
    await store.close()
    return [change async for change in changes]


async def test_change_of_write_tells_all(store: FileStore) -> None:
    changes = store.changes()
    info = await store.write("z", "f", b"four")
    assert await take(changes, 1) == [
        Change(info.version, "write", "z", "f", info.version, offset=0, size=4, source=None)
    ]


async def test_change_of_append_tells_all(store: FileStore) -> None:
    await store.append("z", "f", b"one")
    changes = store.changes()
    done = await store.append("z", "f", b"more")
    (change,) = await take(changes, 1)
    assert change == Change(
        done.version,
        "append",
        "z",
        "f",
        done.version,
        offset=3,
        size=4,
        source=None,
        file_id=change.file_id,
        first_line=1,
        lines=0,
    )
    assert change.file_id is not None


@pytest.mark.parametrize(
    ("before", "data", "first_line", "lines"),
    [
        (b"", b"a\nb\n", 0, 2),
        (b"a\n", b"b\nc", 1, 2),
        (b"a", b"b\n", 1, 0),
        (b"a", b"b\nc\n\nd", 1, 2),
        (b"a\n", b" \n\n", 1, 0),
        (b" ", b"a\n", 0, 1),
        (b" ", b"\n", 0, 0),
        (b"a\n\xc2", b"b\n", 2, 0),
        (b"a\n\xc2", b"\xa0\n", 2, -1),
    ],
)
async def test_change_of_append_tells_how_many_lines_there_are_more(
    store: FileStore, before: bytes, data: bytes, first_line: int, lines: int
) -> None:
    """The last one was half a character, counted as a line until the rest made it white space."""
    await store.append("z", "f", before)
    changes = store.changes()
    await store.append("z", "f", data)
    (change,) = await take(changes, 1)
    assert (change.first_line, change.lines) == (first_line, lines)
    info = await store.stat("z", "f")
    assert info is not None
    assert info.lines == first_line + lines


@pytest.mark.parametrize("before", [b"", b"a\n", b"torn", b"a\n \n ", b"\xc2"])
async def test_change_of_append_lines_tells_which_they_are(store: FileStore, before: bytes) -> None:
    await store.append("z", "f", before)
    changes = store.changes()
    done = await store.append_lines("z", "f", ["one", "", "two"])
    (change,) = await take(changes, 1)
    assert (change.first_line, change.lines) == (done.first_line, done.lines)
    assert done.lines == 2


async def test_changes_of_transactions_come_in_the_order_of_the_calls(store: FileStore) -> None:
    """The call itself hands the unit in, before anybody waits for it."""
    changes = store.changes()
    asked = [
        store.transact(partial(Transaction.append, zone="z", name=f"{number}", data=b"x"))
        for number in range(50)
    ]
    await store.append("z", "after", b"x")
    await asyncio.gather(*reversed(asked))
    names = [change.name for change in await take(changes, 51)]
    assert names == [*(f"{number}" for number in range(50)), "after"]


async def test_file_id_of_append_finds_the_file_after_its_zone_was_renamed(
    store: FileStore,
) -> None:
    changes = store.changes()
    await store.append("z", "f", b"one")
    (change,) = await take(changes, 1)
    await store.move_zone("z", "y")
    await store.append("z", "f", b"other")
    file_id = change.file_id
    assert file_id is not None
    assert await store.view(lambda tx: tx.read_by_id(file_id, 0, 9)) == b"one"
    await store.delete_zone("y")
    assert await store.view(lambda tx: tx.read_by_id(file_id, 0, 9)) is None


async def test_change_of_append_lines_covers_the_closed_torn_line(store: FileStore) -> None:
    """The span of the change is what was added to the file, the line break before included."""
    await store.append("z", "f", b"torn")
    changes = store.changes()
    done = await store.append_lines("z", "f", ["new"])
    (change,) = await take(changes, 1)
    assert (change.kind, change.version) == ("append", done.version)
    assert (change.offset, change.size) == (4, 5)
    assert await store.read("z", "f", change.offset or 0, change.size) == b"\nnew\n"


async def test_change_of_each_kind_comes_once_in_order(store: FileStore) -> None:
    changes = store.changes()
    await store.write("z", "f", b"x")
    await store.append("z", "f", b"y")
    await store.append_lines("z", "g", ["line"])
    await store.set_meta("z", "f", {"a": 1})
    await store.set_meta("z", None, {"a": 1})
    await store.copy_zone("z", "y")
    await store.move_zone("z", "x")
    await store.delete_file("y", "f")
    await store.delete_zone("x")
    found = await take(changes, 9)
    assert [(c.kind, c.zone, c.name, c.source) for c in found] == [
        ("write", "z", "f", None),
        ("append", "z", "f", None),
        ("append", "z", "g", None),
        ("meta", "z", "f", None),
        ("meta", "z", None, None),
        ("copy_zone", "y", None, "z"),
        ("move_zone", "x", None, "z"),
        ("delete", "y", "f", None),
        ("delete_zone", "x", None, None),
    ]
    positions = [change.position for change in found]
    assert positions == sorted(set(positions))
    assert store.position >= positions[-1]


async def test_change_of_zone_carries_its_version(store: FileStore) -> None:
    await store.write("z", "f", b"x")
    changes = store.changes()
    await store.move_zone("z", "y")
    await store.copy_zone("y", "x")
    for change, name in zip(await take(changes, 2), ("y", "x"), strict=True):
        zone = await store.zone(name)
        assert zone is not None
        assert change.version == zone.version


async def test_changes_not_made_are_not_told(store: FileStore) -> None:
    """Equal bytes, nothing to delete, nothing new in meta, refused, undone."""
    await store.write("z", "f", b"x")
    changes = store.changes()
    await store.write("z", "f", b"x")
    await store.delete_file("z", "missing")
    await store.delete_zone("missing")
    await store.append_lines("z", "f", [" ", "\n"])
    await store.set_meta("z", "f", {"missing": None})
    with pytest.raises(VersionConflictError):
        await store.write("z", "f", b"y", if_version=0)
    with pytest.raises(AlreadyExistsError):
        await store.move_zone("z", "z")

    async def unit(tx: Transaction) -> None:
        await tx.write("z", "f", b"undone")
        raise LookupError

    with pytest.raises(LookupError):
        await store.transact(unit)
    marker = await store.append("z", "marker", b"x")
    assert (await take(changes, 1))[0].version == marker.version


async def test_changes_of_sealing_and_releasing_are_not_told(open_store: StoreOpener) -> None:
    store = await open_store(limits=Limits(seal_bytes=1000))
    await store.append("z", "f", noise(5000))
    await store.write("z", "g", noise(50_000))
    await store.delete_file("z", "g")
    changes = store.changes()
    await store.tidy()
    marker = await store.append("z", "marker", b"x")
    assert (await take(changes, 1))[0].version == marker.version


async def test_changes_begin_with_the_call_not_with_the_first_wait(store: FileStore) -> None:
    await store.write("z", "before", b"x")
    changes = store.changes()
    await store.write("z", "after", b"x")
    assert [change.name for change in await take(changes, 1)] == ["after"]


async def test_changes_wake_one_who_waits(store: FileStore) -> None:
    async with asyncio.TaskGroup() as group:
        changes = store.changes()
        waiting = group.create_task(take(changes, 2))
        await turn()
        assert not waiting.done()
        await store.write("z", "a", b"x")
        await store.write("z", "b", b"x")
    assert [change.name for change in waiting.result()] == ["a", "b"]


async def test_changes_from_many_writers_are_each_told_once_in_commit_order(
    store: FileStore,
) -> None:
    changes = [store.changes() for _ in range(3)]

    async def append(writer: int) -> None:
        for number in range(30):
            await store.append("z", f"f{writer}", b"%d\n" % number)

    async with asyncio.TaskGroup() as group:
        for writer in range(10):
            group.create_task(append(writer))
        found = [group.create_task(take(each, 300)) for each in changes]
    first = found[0].result()
    assert all(task.result() == first for task in found)
    positions = [change.position for change in first]
    assert positions == sorted(set(positions))
    for writer in range(10):
        own = [change for change in first if change.name == f"f{writer}"]
        offsets = [change.offset for change in own]
        assert len(own) == 30
        assert offsets == sorted(offsets, key=lambda offset: offset or 0)


async def test_change_is_told_when_it_can_be_read(store: FileStore) -> None:
    """Never before the commit: who is told of bytes must find them."""

    async def follow(count: int) -> None:
        changes = store.changes()
        started.set()
        for _ in range(count):
            change = await anext(changes)
            assert change.offset is not None
            assert change.size is not None
            data = await store.read(change.zone, change.name or "", change.offset, change.size)
            assert len(data) == change.size

    started = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(follow(100))
        await started.wait()
        for number in range(100):
            await store.append("z", "f", b"%d\n" % number)


async def test_change_is_not_told_before_its_commit(open_store: StoreOpener) -> None:
    gate = Gate()
    store = await open_store(failpoint=gate)
    async with asyncio.TaskGroup() as group:
        changes = store.changes()
        async with gate.held(store):
            group.create_task(store.append("z", "f", b"x"))
            waiting = group.create_task(take(changes, 1))
            await turn()
            assert not waiting.done()
    assert waiting.result()[0].name == "f"


@pytest.mark.parametrize(
    ("prefix", "wanted"),
    [
        ("", ["a", "a/1", "ab", "b", "A"]),
        ("a", ["a", "a/1", "ab"]),
        ("a/", ["a/1"]),
        ("b", ["b"]),
        ("%", []),
        ("\0", []),
    ],
    ids=repr,
)
async def test_changes_with_prefix_are_those_of_its_zones(
    store: FileStore, prefix: str, wanted: list[str]
) -> None:
    changes = store.changes(prefix)
    for zone in ("a", "a/1", "ab", "b", "A"):
        await store.write(zone, "f", b"x")
    await store.close()
    assert [change.zone async for change in changes] == wanted


async def test_changes_with_prefix_show_moves_and_copies_from_both_sides(store: FileStore) -> None:
    """Who follows the old name must learn that the zone has gone."""
    await store.write("live/1", "f", b"x")
    sides = {prefix: store.changes(prefix) for prefix in ("live/", "archive/", "other/")}
    await store.copy_zone("live/1", "other/1")
    await store.move_zone("live/1", "archive/1")
    await store.close()
    found = {prefix: [c.kind async for c in changes] for prefix, changes in sides.items()}
    assert found == {
        "live/": ["copy_zone", "move_zone"],
        "archive/": ["move_zone"],
        "other/": ["copy_zone"],
    }


async def test_changes_since_a_position_resume_after_it(store: FileStore) -> None:
    infos = [await store.write("z", f"f{number}", b"x") for number in range(5)]
    for number, info in enumerate(infos):
        changes = store.changes("", since=info.version)
        found = await take(changes, 4 - number)
        assert [change.version for change in found] == [i.version for i in infos[number + 1 :]]


async def test_changes_since_each_position_of_a_unit_resume_inside_it(store: FileStore) -> None:
    start = store.position

    async def unit(tx: Transaction) -> None:
        for number in range(5):
            await tx.write("z", f"f{number}", b"x")

    await store.transact(unit)
    found = await take(store.changes(since=start), 5)
    for number, change in enumerate(found):
        rest = await take(store.changes(since=change.position), 4 - number)
        assert rest == found[number + 1 :]


async def test_changes_since_the_present_begin_with_what_is_next(store: FileStore) -> None:
    await store.write("z", "f", b"x")
    await store.copy_zone("z", "y")
    changes = store.changes(since=store.position)
    info = await store.write("z", "g", b"x")
    assert (await take(changes, 1))[0].version == info.version


async def test_changes_resumed_with_prefix_lose_nothing(store: FileStore) -> None:
    """Reconnecting after every change, with the last position seen, gives each once."""
    start = store.position
    for number in range(20):
        await store.append("a" if number % 3 else "b", "f", b"%d" % number)
    seen, position = [], start
    for _ in range(13):
        (change,) = await take(store.changes("a", since=position), 1)
        seen.append(change.version)
        position = change.position
    assert len(set(seen)) == 13
    assert seen == sorted(seen)


async def test_changes_since_before_the_ring_begin_with_a_gap(open_store: StoreOpener) -> None:
    store = await open_store(limits=Limits(changes_kept=10))
    start = store.position
    infos = [await store.append("z", "f", b"x") for _ in range(100)]
    changes = store.changes(since=start)
    (gap,) = await take(changes, 1)
    assert gap.kind == "gap"
    assert gap.position == store.position == infos[-1].version
    info = await store.append("z", "f", b"x")
    assert (await take(changes, 1))[0].version == info.version


async def test_changes_since_within_the_ring_have_no_gap(open_store: StoreOpener) -> None:
    """At least `changes_kept` changes can be asked for again."""
    store = await open_store(limits=Limits(changes_kept=10))
    infos = [await store.append("z", "f", b"x") for _ in range(100)]
    found = await take(store.changes(since=infos[-11].version), 10)
    assert [change.version for change in found] == [info.version for info in infos[-10:]]


@pytest.mark.parametrize("since", [-1, -(1 << 70), 1 << 70])
async def test_changes_since_a_position_never_given_begin_with_a_gap(
    store: FileStore, since: int
) -> None:
    await store.append("z", "f", b"x")
    (gap,) = await take(store.changes(since=since), 1)
    assert gap == Change(store.position, "gap")


async def test_changes_since_before_a_restart_begin_with_a_gap(open_store: StoreOpener) -> None:
    store = await open_store()
    first = await store.append("z", "f", b"x")
    last = await store.append("z", "f", b"x")
    await store.close()
    store = await open_store()
    assert store.position >= last.version
    (gap,) = await take(store.changes(since=first.version), 1)
    assert gap.kind == "gap"
    assert gap.position >= last.version
    changes = store.changes(since=gap.position)
    later = await store.append("z", "f", b"x")
    assert (await take(changes, 1))[0].version == later.version
    assert later.version > last.version


async def test_changes_to_a_slow_consumer_become_a_gap_and_never_block(
    open_store: StoreOpener,
) -> None:
    store = await open_store(limits=Limits(changes_kept=10))
    slow = store.changes()
    await store.append("z", "f", b"first")
    assert (await take(slow, 1))[0].size == 5
    for _ in range(100):
        await store.append("z", "f", b"x")
    (gap,) = await take(slow, 1)
    assert gap == Change(store.position, "gap")
    later = await store.append("z", "f", b"later")
    assert (await take(slow, 1))[0].version == later.version


async def test_changes_kept_up_with_never_show_a_gap(open_store: StoreOpener) -> None:
    store = await open_store(limits=Limits(changes_kept=1))
    changes = store.changes()
    for _ in range(50):
        done = await store.append("z", "f", b"x")
        assert (await take(changes, 1))[0].version == done.version


async def test_changes_nobody_follows_do_not_pile_up(open_store: StoreOpener) -> None:
    """A ring: asking for everything gives a bounded number, however much happened."""
    store = await open_store(limits=Limits(changes_kept=10))
    start = store.position

    async def unit(tx: Transaction) -> None:
        for _ in range(5000):
            await tx.append("z", "f", b"x")

    await store.transact(unit)
    found = await drain(store, since=start)
    assert [change.kind for change in found] == ["gap"]


async def test_changes_end_when_the_store_closes(store: FileStore) -> None:
    changes = store.changes()
    await store.append("z", "f", b"x")
    async with asyncio.TaskGroup() as group:

        async def follow() -> list[str]:
            return [change.kind async for change in changes]

        waiting = group.create_task(follow())
        await turn()
        await store.close()
    assert waiting.result() == ["append"]
    with pytest.raises(StopAsyncIteration):
        await anext(changes)


async def test_changes_of_what_close_still_finishes_are_told(open_store: StoreOpener) -> None:
    gate = Gate()
    store = await open_store(failpoint=gate)
    changes = store.changes()
    async with asyncio.TaskGroup() as group, gate.held(store):
        group.create_task(store.append("z", "f", b"accepted"))
        await turn()
        group.create_task(store.close())
        await turn()
    assert [change.size async for change in changes] == [8]


async def test_changes_of_closed_store_raise(store: FileStore) -> None:
    await store.close()
    with pytest.raises(ClosedError):
        store.changes()


async def test_changes_given_up_while_waiting_leave_no_trace(store: FileStore) -> None:
    """A consumer that is cancelled in the middle can go on later without loss."""
    changes = store.changes()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(take(changes, 1))
        await turn()
        waiting.cancel()
    done = await store.append("z", "f", b"x")
    assert (await take(changes, 1))[0].version == done.version


async def test_position_rises_with_every_change_and_survives_a_restart(
    open_store: StoreOpener,
) -> None:
    store = await open_store()
    seen = [store.position]
    for number in range(5):
        await store.append("z", f"f{number}", b"x")
        seen.append(store.position)
    await store.close()
    store = await open_store()
    assert store.position >= seen[-1]
    await store.append("z", "f", b"x")
    seen.append(store.position)
    assert seen == sorted(set(seen))
