"""Rebuilding snapshots in the store: when, with what, and that nothing is ever lost by it."""

import asyncio
from pathlib import Path

import orjson
import pytest

from filestore import (
    ClosedError,
    CorruptionError,
    FileStore,
    NotFoundError,
    TooLargeError,
    VersionConflictError,
)
from filestore.replay import replay
from filestore.sessions import Rebuilt, Sessions
from filestore.sessions.model import Trouble
from tests.conftest import FakeClock, StoreOpener
from tests.contract.tools import run_sql
from tests.replay.streams import NODES_PER_TURN, turns
from tests.sessions.conftest import OpenSessions
from tests.sessions.tools import (
    LARGE_BYTES,
    OUTPUT,
    everything,
    following,
    lines_of,
    snapshot,
    take,
)

ZONE = "agent:a:current"
LINES = turns(3)


async def content(sessions: Sessions, place: str = "a") -> bytes:
    read = sessions.read_archive if ":" in place else sessions.read_state
    found = (await read(place)).content
    assert found is not None
    return found


async def assert_rebuilt(sessions: Sessions, done: Rebuilt, place: str = "a") -> None:
    """The snapshot is that of the stream, dated; pane and lists are told the same."""
    written = orjson.loads(await content(sessions, place))
    assert isinstance(written.pop("savedAt"), int)
    assert orjson.dumps(written) == replay(await lines_of(sessions, place)).snapshot()
    assert done.written
    assert (done.covered, done.node_count) == (len(LINES), 3 * NODES_PER_TURN)


@pytest.mark.parametrize(
    ("old", "trouble"),
    [
        (snapshot("hello", mark=11), "behind"),
        (snapshot("hello", mark=1, pad_to=LARGE_BYTES), "behind"),
        (b"{ no JSON", "unparsable"),
        (b"[]", "unparsable"),
        (b"\xff", "unparsable"),
    ],
)
async def test_snapshot_that_does_not_serve_is_rebuilt_and_the_old_one_kept(
    sessions: Sessions, old: bytes, trouble: Trouble
) -> None:
    await sessions.append_output("a", LINES)
    saved = await sessions.write_state("a", old)
    done = await sessions.replays.write("a")
    assert done.trouble == trouble
    await assert_rebuilt(sessions, done)
    current = await sessions.read_state("a")
    assert (current.session_id, current.recovered) == (saved.session_id, 0)
    (kept,) = await sessions.list_archives("a")
    assert kept.archive_zoneid == done.kept
    assert kept.session_id not in ("", saved.session_id)
    assert (kept.state_bytes, kept.output_lines) == (len(old), len(LINES))
    assert kept.preview == ("hello" if b"hello" in old else "Question 0")
    assert await content(sessions, done.kept) == old
    assert await lines_of(sessions, done.kept) == LINES
    agent = (await sessions.list_agents())[0]
    assert (agent.preview, agent.node_count) == ("Question 0", done.node_count)


async def test_kept_archive_restored_is_what_was_there_before(sessions: Sessions) -> None:
    await sessions.append_output("a", LINES)
    await sessions.write_state("a", b"{ no JSON")
    done = await sessions.replays.write("a")
    restored = await sessions.restore(done.kept)
    assert await content(sessions) == b"{ no JSON"
    assert await lines_of(sessions, "a") == LINES
    await assert_rebuilt(sessions, done, restored.archived)


async def test_missing_snapshot_is_rebuilt_and_no_archive_appears(sessions: Sessions) -> None:
    await sessions.append_output("a", LINES)
    done = await sessions.replays.write("a")
    assert (done.trouble, done.kept) == ("missing", "")
    await assert_rebuilt(sessions, done)
    assert await sessions.list_archives("a") == []


@pytest.mark.parametrize(
    "good",
    [
        snapshot("hello", mark=len(LINES)),
        snapshot("hello", mark=len(LINES) + 5),
        snapshot("hello"),
        snapshot("hello", mark=0),
        b'{"overlays": {}}',
        snapshot("hello", mark=len(LINES), pad_to=LARGE_BYTES),
    ],
)
async def test_snapshot_of_a_client_is_left_alone_unless_forced(
    store: FileStore, sessions: Sessions, good: bytes
) -> None:
    await sessions.append_output("a", LINES)
    await sessions.write_state("a", good)
    before = await everything(store)
    done = await sessions.replays.write("a")
    assert not done.written
    assert (done.trouble, done.kept) == ("", "")
    assert (done.lines, done.torn, done.provider) == (len(LINES), False, "")
    assert await everything(store) == before
    done = await sessions.replays.write("a", force=True)
    await assert_rebuilt(sessions, done)
    assert await content(sessions, done.kept) == good


async def test_repeat_does_nothing_more_forced_or_not(store: FileStore, sessions: Sessions) -> None:
    await sessions.append_output("a", LINES)
    await sessions.write_state("a", b"{ no JSON")
    first = await sessions.replays.write("a", force=True)
    before = await everything(store)
    for force in (False, True):
        again = await sessions.replays.write("a", force=force)
        assert (again.written, again.version, again.kept) == (False, first.version, "")
    assert await everything(store) == before


async def test_good_snapshot_costs_no_fold(sessions: Sessions) -> None:
    await sessions.append_output("a", LINES)
    await sessions.write_state("a", snapshot("hello", mark=len(LINES)))
    sessions.replays.stop()
    assert not (await sessions.replays.write("a")).written
    with pytest.raises(ClosedError):
        await sessions.replays.write("a", force=True)


async def test_archive_is_rebuilt_in_its_place(sessions: Sessions) -> None:
    await sessions.append_output("a", LINES)
    await sessions.write_state("a", snapshot("hello", mark=2))
    archived = await sessions.archive("a")
    assert archived is not None
    done = await sessions.replays.write(archived.archive_zoneid)
    await assert_rebuilt(sessions, done, archived.archive_zoneid)
    kept, mended = await sessions.list_archives("a")
    assert (kept.archive_zoneid, kept.preview) == (done.kept, "hello")
    assert (mended.preview, mended.node_count) == ("Question 0", done.node_count)
    assert mended.state_bytes == len(await content(sessions, archived.archive_zoneid))


async def test_session_without_lines_or_without_anything_is_left_alone(sessions: Sessions) -> None:
    with pytest.raises(NotFoundError):
        await sessions.replays.write("a")
    await sessions.write_state("a", b"{ no JSON")
    assert not (await sessions.replays.write("a", force=True)).written
    assert await content(sessions) == b"{ no JSON"


async def test_torn_line_is_not_covered_and_not_rebuilt_for(
    store: FileStore, sessions: Sessions
) -> None:
    await sessions.append_output("a", LINES)
    await store.append(ZONE, OUTPUT, b'{"type": "assi')
    done = await sessions.replays.write("a")
    assert (done.written, done.torn, done.covered, done.lines) == (True, True, 12, 13)
    assert not (await sessions.replays.write("a")).written


async def test_snapshot_too_large_to_store_is_refused_and_nothing_changes(
    store: FileStore, sessions: Sessions
) -> None:
    await sessions.append_output("a", LINES)
    before = await everything(store)
    with pytest.raises(TooLargeError, match="at most 100 are stored"):
        await sessions.replays.write("a", state_bytes_max=100)
    assert await everything(store) == before


async def test_clock_of_the_sessions_dates_the_snapshot(store: FileStore, clock: FakeClock) -> None:
    async with Sessions(store, clock=clock) as sessions:
        await sessions.append_output("a", LINES)
        await sessions.replays.write("a")
        assert orjson.loads(await content(sessions))["savedAt"] == clock()


async def test_subscribers_hear_of_a_new_state_and_of_no_archive(sessions: Sessions) -> None:
    await sessions.append_output("a", LINES)
    await sessions.write_state("a", b"{ no JSON")
    async with following(sessions.subscribe("a")) as changes:
        done = await sessions.replays.write("a")
        await sessions.append_output("a", "next")
        first, second = await take(changes, 2)
        assert (first.kind, first.version) == ("state", done.version)
        assert second.kind == "output"


async def test_save_in_between_wins(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pane saves after the session was looked at and before the rebuilt snapshot is written."""
    await sessions.append_output("a", LINES)
    await sessions.write_state("a", b"{ no JSON")
    store, fresh = sessions._store, snapshot("saved by a pane", mark=len(LINES))
    prepare = store.prepare

    async def slow(data: bytes, *, like: tuple[str, str] | None = None) -> object:
        monkeypatch.setattr(store, "prepare", prepare)
        await sessions.write_state("a", fresh)
        return await prepare(data, like=like)

    monkeypatch.setattr(store, "prepare", slow)
    done = await sessions.replays.write("a")
    assert not done.written
    assert await content(sessions) == fresh
    assert await sessions.list_archives("a") == []


async def test_pane_that_saved_on_what_was_replaced_is_told(sessions: Sessions) -> None:
    await sessions.append_output("a", LINES)
    saved = await sessions.write_state("a", b"{ no JSON")
    await sessions.replays.write("a")
    with pytest.raises(VersionConflictError):
        await sessions.write_state("a", b"{}", if_version=saved.version)


async def test_saves_and_rebuilds_side_by_side_lose_no_snapshot(sessions: Sessions) -> None:
    """Every snapshot that was acknowledged was replaced by another save, or is still there."""
    await sessions.append_output("a", LINES)
    broken = [b"{ broken %d" % number for number in range(40)]

    async def save() -> None:
        for each in broken:
            await sessions.write_state("a", each)

    async def rebuild() -> None:
        for _ in range(10):
            try:
                done = await sessions.replays.write("a", force=True)
            except VersionConflictError:
                continue  # a pane that saves all the time is not overruled
            if done.kept:
                kept.append(await content(sessions, done.kept))

    kept: list[bytes] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(save())
        group.create_task(rebuild())
    assert all(each in broken or b"highWaterMark" in each for each in kept)
    final = await sessions.replays.write("a")
    if final.kept:
        kept.append(await content(sessions, final.kept))
    assert broken[-1] in kept


async def test_damaged_snapshot_is_rebuilt_and_kept_as_it_is(
    open_store: StoreOpener, on: OpenSessions, database: Path
) -> None:
    open_store.is_checked = False
    store = await open_store()
    sessions = on(store)
    await sessions.append_output("a", LINES)
    await sessions.write_state("a", snapshot("hello", mark=len(LINES)))
    await sessions.close()
    await store.close()
    run_sql(database, "UPDATE chunk_data SET data = zeroblob(length(data))")
    sessions = on(await open_store())
    with pytest.raises(CorruptionError):
        await sessions.read_state("a")
    done = await sessions.replays.write("a")
    assert done.trouble == "damaged"
    await assert_rebuilt(sessions, done)
    with pytest.raises(CorruptionError):
        await sessions.read_archive(done.kept)
