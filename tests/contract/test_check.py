"""The check: clean where all is well, and every kind of damage told with its place."""

import asyncio
from pathlib import Path
from typing import TypeVar

import pytest

from filestore import CorruptionError, FileStore, Limits, Transaction
from filestore.check import PROBLEMS_MAX, Report, check
from filestore.engine.base import ReadUnit
from tests.conftest import StoreOpener
from tests.contract.tools import noise, query, run_sql

LIMITS = Limits(seal_bytes=4096)
CLOSE_S_MAX = 10.0
DAMAGE_FIRST_CHUNK = (
    "UPDATE chunk_data SET data = zeroblob(length(data)) "
    "WHERE id = (SELECT min(id) FROM chunk_data)"
)

T = TypeVar("T")


@pytest.fixture
async def filled(open_store: StoreOpener) -> FileStore:
    """A store with all kinds of files; `text` is of several chunks."""
    store = await open_store(limits=LIMITS)
    await store.write("z", "state", noise(200_000))
    for seed in range(6):
        await store.append_lines("z", "text", [noise(1000, seed).hex()])
    await store.tidy()
    await store.append_lines("z", "text", ["tail"])
    await store.write("y", "empty", b"")
    await store.append("y", "tail", b"only a tail")
    return store


@pytest.fixture
async def database_at_rest(filled: FileStore, database: Path, open_store: StoreOpener) -> Path:
    """The same, closed; what is opened later is damaged, so nobody checks it at the end."""
    await filled.tidy()
    await filled.close()
    open_store.is_checked = False
    return database


async def report_of(open_store: StoreOpener, *, deep: bool = False) -> Report:
    store = await open_store(limits=LIMITS, read_only=True)
    report = await check(store, deep=deep)
    await store.close()
    return report


def messages(report: Report) -> str:
    return "\n".join(str(problem) for problem in report.problems)


@pytest.mark.parametrize("deep", [False, True])
async def test_check_of_empty_store_is_clean(store: FileStore, deep: bool) -> None:
    report = await check(store, deep=deep)
    assert report.is_clean
    assert (report.zones, report.files, report.chunks, report.bytes) == (0, 0, 0, 0)


@pytest.mark.parametrize("deep", [False, True])
async def test_check_of_full_store_is_clean_and_counts(filled: FileStore, deep: bool) -> None:
    report = await check(filled, deep=deep)
    assert report.is_clean
    assert not report.is_cut
    assert (report.zones, report.files) == (2, 4)
    sizes = [info.size for zone in ("y", "z") for info in await filled.files(zone) or []]
    assert report.bytes == sum(sizes)
    assert report.chunks > 10


async def test_check_calls_progress_with_what_it_does(filled: FileStore) -> None:
    calls: list[tuple[str, int, int]] = []
    await check(filled, deep=True, progress=lambda *call: calls.append(call))
    assert ("zones", 2, 0) in calls
    assert [call for call in calls if call[0] == "files"] == [
        ("files", number, 4) for number in range(4)
    ]


async def test_check_writes_nothing(filled: FileStore) -> None:
    await filled.tidy()
    position = filled.position
    await check(filled, deep=True)
    assert filled.position == position


async def test_check_of_more_zones_than_one_step_counts_all(store: FileStore) -> None:
    for start in range(0, 450, 50):
        async with asyncio.TaskGroup() as group:
            for number in range(start, start + 50):
                group.create_task(store.append(f"z{number:03}", "f", b"x"))
    report = await check(store, deep=True)
    assert report.is_clean
    assert (report.zones, report.files) == (450, 450)


@pytest.mark.parametrize("deep", [False, True])
async def test_check_beside_writers_finds_nothing_wrong(
    open_store: StoreOpener, deep: bool
) -> None:
    """Replacing, sealing, deleting and releasing go on; what the check misses is not damage."""
    store = await open_store(limits=LIMITS)
    is_done = False

    async def work(zone: str) -> None:
        number = 0
        while not is_done:
            number += 1
            await store.write(zone, "state", noise(60_000, number))
            await store.append_lines(zone, "log", ["x" * 500] * 5)
            await store.copy_zone(zone, f"{zone} copy")
            await store.delete_zone(f"{zone} copy")
            await store.delete_file(zone, "state")

    async with asyncio.TaskGroup() as group:
        for zone in ("a", "b"):
            group.create_task(work(zone))
        for _ in range(15):
            report = await check(store, deep=deep)
            assert report.is_clean, messages(report)
        is_done = True


async def test_check_waits_for_no_writer_and_no_writer_for_it(filled: FileStore) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(check(filled, deep=True))
        for number in range(20):
            await filled.append("z", "text", b"%d\n" % number)


async def test_check_of_released_but_not_yet_freed_files_is_clean(
    open_store: StoreOpener,
) -> None:
    """Closed right after a delete: the lists wait to be taken apart, and still hold references."""
    store = await open_store()
    await store.write("z", "f", noise(3 << 20))
    await store.write("z", "g", noise(100_000, 1))
    await store.delete_zone("z")
    await store.close()
    report = await report_of(open_store, deep=True)
    assert report.is_clean, messages(report)


DAMAGE = {
    "zone row": (
        "UPDATE zone SET created_ms = created_ms + 1 WHERE name = 'y'",
        "zone's row fails its check",
        "'y'",
    ),
    "file row": (
        "UPDATE file SET size = size + 1 WHERE name = 'state'",
        "file's row fails its check",
        "'z'/'state'",
    ),
    "file in another zone": (
        "UPDATE file SET zone_id = (SELECT id FROM zone WHERE name = 'y') WHERE name = 'text'",
        "file's row fails its check",
        "'y'/'text'",
    ),
    "lost zone": ("DELETE FROM zone WHERE name = 'y'", "belongs to no zone", ""),
    "list page": (
        "UPDATE list SET start_line = start_line + 1 WHERE id = (SELECT min(id) FROM list)",
        "fails its check",
        "'z'/'state'",
    ),
    "lost list page": (
        "DELETE FROM list WHERE id = (SELECT max(id) FROM list)",
        "is missing",
        "'z'/'text'",
    ),
    "lost file": ("DELETE FROM file WHERE name = 'text'", "belong to nothing", ""),
    "references too low": (
        "UPDATE chunk SET refs = refs - 1 WHERE id = (SELECT min(id) FROM chunk)",
        "",
        "",
    ),
    "references too high": (
        "UPDATE chunk SET refs = refs + 1 WHERE id = (SELECT min(id) FROM chunk)",
        "",
        "",
    ),
    "size of chunk": (
        "UPDATE chunk SET size = size + 1 WHERE id = (SELECT min(id) FROM chunk)",
        "",
        "",
    ),
    "lost chunk": ("DELETE FROM chunk WHERE id = (SELECT min(id) FROM chunk)", "missing", ""),
    "lost bytes": (
        "DELETE FROM chunk_data WHERE id = (SELECT min(id) FROM chunk_data)",
        "lost its bytes",
        "",
    ),
    "stray bytes": (
        "INSERT INTO chunk_data VALUES (999999, x'00')",
        "belong to nothing",
        "",
    ),
    "stray chunk": (
        "INSERT INTO chunk (id, hash, size, codec, refs) VALUES (999999, zeroblob(32), 5, 0, 1)",
        "999999",
        "",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_check_tells_of_damaged_row(
    database_at_rest: Path, open_store: StoreOpener, damage: str
) -> None:
    """Found without reading any bytes, by the quick form too."""
    sql, message, place = DAMAGE[damage]
    run_sql(database_at_rest, sql)
    for deep in (False, True):
        report = await report_of(open_store, deep=deep)
        assert not report.is_clean
        assert message in messages(report)
        assert place in messages(report)


async def test_check_of_damaged_bytes_tells_file_and_offset_only_when_deep(
    database_at_rest: Path, open_store: StoreOpener
) -> None:
    run_sql(database_at_rest, DAMAGE_FIRST_CHUNK)
    assert (await report_of(open_store)).is_clean
    report = await report_of(open_store, deep=True)
    assert [(p.zone, p.name, p.offset) for p in report.problems] == [("z", "state", 0)]


async def test_check_of_shared_damaged_chunk_tells_each_file(
    filled: FileStore, database: Path, open_store: StoreOpener
) -> None:
    await filled.copy_zone("z", "copy")
    await filled.tidy()
    await filled.close()
    open_store.is_checked = False
    run_sql(database, DAMAGE_FIRST_CHUNK)
    report = await report_of(open_store, deep=True)
    assert [(p.zone, p.name, p.offset) for p in report.problems] == [
        ("copy", "state", 0),
        ("z", "state", 0),
    ]


async def test_check_of_more_problems_than_it_keeps_says_so(
    open_store: StoreOpener, database: Path
) -> None:
    store = await open_store()
    await store.close()
    open_store.is_checked = False
    run_sql(
        database,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= 1500) "
        "INSERT INTO chunk_data SELECT 100000 + i, x'00' FROM n",
    )
    report = await report_of(open_store)
    assert len(report.problems) == PROBLEMS_MAX
    assert report.is_cut
    assert not report.is_clean


async def test_damaged_chunk_is_an_error_with_its_place_and_the_rest_is_readable(
    database_at_rest: Path, open_store: StoreOpener
) -> None:
    rows = query(database_at_rest, "SELECT id, size FROM chunk WHERE size <= 65536 ORDER BY id")
    chunk_id, start = rows[2][0], sum(int(str(size)) for _, size in rows[:2])
    run_sql(
        database_at_rest,
        ("UPDATE chunk_data SET data = zeroblob(length(data)) WHERE id = ?", (chunk_id,)),
    )
    store = await open_store(limits=LIMITS)
    with pytest.raises(CorruptionError) as caught:
        await store.read("z", "state")
    error = caught.value
    assert (error.zone, error.name, error.offset) == ("z", "state", start)
    assert "check" in error.hint
    assert await store.read("z", "state", 0, start) == noise(200_000)[:start]
    assert (await store.read_lines("z", "text", 6, 1)).lines == [b"tail"]
    with pytest.raises(CorruptionError):
        [piece async for piece in store.open_read("z", "state")]


@pytest.mark.parametrize("table", ["list", "chunk_data"])
async def test_damaged_file_that_is_deleted_leaves_a_store_that_works_and_closes(
    database_at_rest: Path, open_store: StoreOpener, table: str
) -> None:
    """The background work meets the damage; it must neither die of it nor hang the store."""
    column = "entries" if table == "list" else "data"
    run_sql(
        database_at_rest,
        f"UPDATE {table} SET {column} = zeroblob(length({column})) "
        f"WHERE id = (SELECT min(id) FROM {table})",
    )
    store = await open_store(limits=LIMITS)
    assert await store.delete_file("z", "state")
    async with asyncio.timeout(CLOSE_S_MAX):
        await store.tidy()
    for number in range(10):
        await store.append("y", "tail", noise(2000, number))
    async with asyncio.timeout(CLOSE_S_MAX):
        await store.tidy()
        await store.close()
    store = await open_store(limits=LIMITS)
    assert (await store.read("y", "tail")).startswith(b"only a tail")
    assert await store.stat("z", "state") is None


async def test_damaged_file_deleted_and_written_again_is_whole_again(
    database_at_rest: Path, open_store: StoreOpener
) -> None:
    """The way out for one who still has the content: nothing of the damaged chunk is used again."""
    run_sql(database_at_rest, DAMAGE_FIRST_CHUNK)
    store = await open_store(limits=LIMITS)
    await store.tidy()
    before = await check(store, deep=True)
    assert [problem.name for problem in before.problems] == ["state"]
    await store.delete_file("z", "state")
    await store.tidy()
    await store.write("z", "state", noise(200_000))
    report = await check(store, deep=True)
    assert report.is_clean, messages(report)
    assert await store.read("z", "state") == noise(200_000)


async def test_check_tells_of_damaged_chunk_although_its_file_goes_on_meanwhile(
    database_at_rest: Path, open_store: StoreOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk that is there and fails its hash is damage, whatever became of the file since."""
    run_sql(database_at_rest, DAMAGE_FIRST_CHUNK)
    store = await open_store(limits=LIMITS)
    await store.tidy()
    read_unit = store.read_unit
    is_grown = False

    async def grow_after_walk(unit: ReadUnit[T]) -> T:
        nonlocal is_grown
        result = await read_unit(unit)
        if not is_grown:
            is_grown = True
            await store.append("z", "state", noise(10_000))
            await store.tidy()
        return result

    monkeypatch.setattr(store, "read_unit", grow_after_walk)
    report = await check(store, deep=True)
    assert [(p.zone, p.name, p.offset) for p in report.problems] == [("z", "state", 0)]


@pytest.mark.parametrize("size", [12, 40, 88, 176, None], ids=lambda size: f"{size or 'rest'}")
async def test_appends_whose_record_is_lost_are_never_read_as_a_shorter_file(
    open_store: StoreOpener, database: Path, size: int | None
) -> None:
    """A stretch of the log becomes zeros, or (`rest`) its end is missing; at every place."""

    async def unit(tx: Transaction) -> None:
        for name in ("a", "b", "c"):
            await tx.append("z", name, f"acknowledged {name}".encode())

    store = await open_store()
    await store.transact(unit)
    await store.close()
    open_store.is_checked = False
    (row,) = query(database, "SELECT seq, data FROM log ORDER BY seq DESC LIMIT 1")
    seq, data = row
    assert isinstance(data, bytes)
    assert b"acknowledged c" in data
    for at in range(0, len(data), 4):
        gone = min(size, len(data) - at) if size else 0
        damaged = data[:at] + bytes(gone) + (data[at + gone :] if size else b"")
        run_sql(database, ("UPDATE log SET data = ? WHERE seq = ?", (damaged, seq)))
        try:
            store = await open_store()
        except CorruptionError:
            continue
        for name in ("a", "b", "c"):
            try:
                found = await store.read("z", name)
            except CorruptionError:
                continue
            assert found == f"acknowledged {name}".encode(), at
        await store.close()
