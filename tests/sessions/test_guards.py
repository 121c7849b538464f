"""Guards of appends, archives and saves: each can be repeated, and none lands where it must not."""

import asyncio
import random

import pytest

from filestore import (
    FileStore,
    InvalidArgumentError,
    InvalidDefinitionIdError,
    Limits,
    TooLargeError,
    VersionConflictError,
)
from filestore.journal.model import SESSION_ID_CHARS_MAX
from filestore.sessions import OutputAppended, Sessions, StateWritten
from filestore.sessions.output import line_offset
from filestore.transaction import Transaction
from tests.conftest import FakeClock, StoreOpener
from tests.sessions.conftest import OpenSessions
from tests.sessions.tools import OUTPUT, STATE, everything, lines_of, snapshot

ZONE = "agent:a:current"


async def refused(
    sessions: Sessions,
    lines: str | list[str],
    at_line: int | None = None,
    session_id: str | None = None,
) -> VersionConflictError:
    """The conflict that an append to agent `a` ends with; nothing has changed by it."""
    before = await everything(sessions._store)
    with pytest.raises(VersionConflictError) as caught:
        await sessions.append_output("a", lines, at_line=at_line, session_id=session_id)
    assert await everything(sessions._store) == before
    return caught.value


async def id_of(sessions: Sessions, definition_id: str = "a") -> str:
    return (await sessions.read_state(definition_id)).session_id


# -- the call


async def test_append_is_queued_by_its_call(sessions: Sessions) -> None:
    """No task and no coroutine in between: what is called first lands first."""
    asked = [sessions.append_output("a", f"{number}") for number in range(100)]
    assert all(asyncio.isfuture(each) for each in asked)
    done = await asyncio.gather(*reversed(asked))
    assert [each.first_line for each in reversed(done)] == list(range(100))


async def test_append_and_archive_land_in_the_order_of_their_calls(sessions: Sessions) -> None:
    first = sessions.append_output("a", "before")
    archived = sessions.archive("a")
    done = await asyncio.gather(first, archived)
    assert done[1] is not None
    assert await lines_of(sessions, done[1].archive_zoneid) == [b"before"]


async def test_append_that_breaks_a_rule_is_refused_by_its_call(
    open_store: StoreOpener, on: OpenSessions
) -> None:
    sessions = on(await open_store(limits=Limits(append_bytes_max=10)))
    with pytest.raises(InvalidDefinitionIdError):
        sessions.append_output("a:b", "line")
    with pytest.raises(TooLargeError):
        sessions.append_output("a", "more than ten bytes")
    with pytest.raises(InvalidArgumentError):
        sessions.append_output("a", ["\ud800"])


@pytest.mark.parametrize("at_line", [-1, -(1 << 70), True, False, 1.0, "1", b"1", [], object()])
async def test_at_line_that_is_no_number_of_lines_is_refused(
    store: FileStore, sessions: Sessions, at_line: int
) -> None:
    with pytest.raises(InvalidArgumentError):
        sessions.append_output("a", "line", at_line=at_line)
    assert await everything(store) == []


@pytest.mark.parametrize(
    "session_id", ["x" * (SESSION_ID_CHARS_MAX + 1), "a\n", "\x00", "\ud800", 7, b"a", True, ["a"]]
)
async def test_session_id_that_is_none_is_refused(
    store: FileStore, sessions: Sessions, session_id: str
) -> None:
    with pytest.raises(InvalidArgumentError):
        sessions.append_output("a", "line", session_id=session_id)
    with pytest.raises(InvalidArgumentError):
        await sessions.archive("a", session_id=session_id)
    assert await everything(store) == []


# -- at_line


async def test_at_line_0_begins_a_session(sessions: Sessions) -> None:
    done = await sessions.append_output("a", ["one", "two"], at_line=0)
    assert done == OutputAppended(8, 0, 0, 2)
    assert await id_of(sessions)


async def test_at_line_that_is_the_end_appends(sessions: Sessions) -> None:
    await sessions.append_output("a", "one")
    assert await sessions.append_output("a", "two", at_line=1) == OutputAppended(4, 4, 1, 1)
    assert await lines_of(sessions, "a") == [b"one", b"two"]


async def test_repeat_answers_as_the_first_time(store: FileStore, sessions: Sessions) -> None:
    batches = [["one"], ["two\nthree", "", "four\n"], ["{}"], ["é" * 100_000], ["one"]]
    done, at_line = [], 0
    for lines in batches:
        done.append(await sessions.append_output("a", lines, at_line=at_line))
        at_line += done[-1].lines
    before = await everything(store)
    for lines, first in zip(batches, done, strict=True):
        again = await sessions.append_output("a", lines, at_line=first.first_line)
        assert again == first._replace(duplicate=True)
        assert not first.duplicate
    assert await everything(store) == before


async def test_part_of_what_stands_is_a_repeat_too(sessions: Sessions) -> None:
    """It does not matter in which calls the lines came."""
    await sessions.append_output("a", ["one", "two", "three"])
    done = await sessions.append_output("a", ["two"], at_line=1)
    assert done == OutputAppended(4, 4, 1, 1, duplicate=True)
    await sessions.append_output("a", "four")
    done = await sessions.append_output("a", ["three", "four"], at_line=2)
    assert done == OutputAppended(11, 8, 2, 2, duplicate=True)


@pytest.mark.parametrize("at_line", [4, 5, 1 << 40, 1 << 70])
async def test_at_line_past_the_end_is_a_conflict(sessions: Sessions, at_line: int) -> None:
    await sessions.append_output("a", ["one", "two", "three"])
    found = await refused(sessions, "three", at_line)
    assert (found.current_lines, found.session_id) == (3, await id_of(sessions))
    assert "3 lines" in str(found)


@pytest.mark.parametrize(
    ("lines", "at_line"),
    [
        (["two", "three", "four"], 1),  # the first ones stand, but there are more
        (["three", "four"], 2),
        (["one"], 1),  # stands elsewhere
        (["two"], 0),
        (["on"], 0),
        (["one "], 0),
        (["ne"], 0),
        (["two", "thre"], 1),
        (["two", "three!"], 1),
        (["one\r"], 0),
        (["one", "three"], 0),
    ],
)
async def test_lines_that_do_not_stand_there_are_a_conflict(
    sessions: Sessions, lines: list[str], at_line: int
) -> None:
    saved = await sessions.write_state("a", b"x")
    await sessions.append_output("a", ["one", "two", "three"])
    found = await refused(sessions, lines, at_line)
    assert (found.current_lines, found.current_version) == (3, saved.version)


async def test_at_line_without_a_stream_is_a_conflict(sessions: Sessions) -> None:
    found = await refused(sessions, "line", 1)
    assert (found.current_lines, found.session_id, found.current_version) == (0, "", 0)
    saved = await sessions.write_state("a", b"x")
    found = await refused(sessions, "line", 1)
    assert (found.current_lines, found.session_id) == (0, saved.session_id)


async def test_two_appends_with_one_at_line_make_one(sessions: Sessions) -> None:
    await sessions.append_output("a", "zero")
    results = await asyncio.gather(
        sessions.append_output("a", "mine", at_line=1),
        sessions.append_output("a", "yours", at_line=1),
        sessions.append_output("a", "mine", at_line=1),
        return_exceptions=True,
    )
    assert results[0] == OutputAppended(5, 5, 1, 1)
    assert isinstance(results[1], VersionConflictError)
    assert results[1].current_lines == 2
    assert results[2] == OutputAppended(5, 5, 1, 1, duplicate=True)
    assert await lines_of(sessions, "a") == [b"zero", b"mine"]


async def test_many_writers_with_at_line_lose_and_double_nothing(sessions: Sessions) -> None:
    """Each learns from the conflict where the end is."""

    async def writer(name: int) -> None:
        at_line = 0
        for number in range(20):
            while True:
                try:
                    done = await sessions.append_output("a", f"{name} {number}", at_line=at_line)
                except VersionConflictError as conflict:
                    at_line = conflict.current_lines or 0
                    continue
                at_line = done.first_line + 1
                break

    await asyncio.gather(*[writer(name) for name in range(6)])
    found = await lines_of(sessions, "a")
    assert sorted(found) == sorted(b"%d %d" % (name, n) for name in range(6) for n in range(20))


@pytest.mark.parametrize("at_line", [None, 0, 1, 7])
async def test_blank_writes_nothing_whatever_the_line(
    store: FileStore, sessions: Sessions, at_line: int | None
) -> None:
    assert await sessions.append_output("a", " ", at_line=at_line) == OutputAppended(0, 0, 0, 0)
    assert await everything(store) == []
    await sessions.append_output("a", "one")
    done = await sessions.append_output("a", ["", "\n"], at_line=at_line)
    assert done == OutputAppended(0, 4, 1, 0)


# -- streams from elsewhere


async def test_unterminated_line_counts_but_is_no_repeat(
    store: FileStore, sessions: Sessions
) -> None:
    """It may be half of another line, and no append ever left one."""
    await store.append(ZONE, OUTPUT, b"one\ntorn")
    found = await refused(sessions, "torn", 1)
    assert found.current_lines == 2
    done = await sessions.append_output("a", "two", at_line=2)
    assert done == OutputAppended(4, 9, 2, 1)
    assert await sessions.append_output("a", "two", at_line=2) == done._replace(duplicate=True)
    assert await lines_of(sessions, "a") == [b"one", b"torn", b"two"]
    # Now it is ended, and stands there as if it had been appended.
    assert (await sessions.append_output("a", "torn", at_line=1)).duplicate


async def test_unterminated_white_space_does_not_count(
    store: FileStore, sessions: Sessions
) -> None:
    await store.append(ZONE, OUTPUT, b"one\n \t")
    await refused(sessions, "two", 2)
    done = await sessions.append_output("a", "two", at_line=1)
    assert done == OutputAppended(4, 7, 1, 1)
    assert await sessions.append_output("a", "two", at_line=1) == done._replace(duplicate=True)


@pytest.mark.parametrize(
    "blank", [b"\n", b" \n" * 5000, b" " * 9000 + b"\n", b"\xe2\x80\x83\n" * 9]
)
async def test_blank_lines_before_a_line_do_not_hide_it(
    store: FileStore, sessions: Sessions, blank: bytes
) -> None:
    await store.append(ZONE, OUTPUT, blank + b"one\n" + blank + b"two\nthree\n")
    done = await sessions.append_output("a", ["two", "three"], at_line=1)
    assert done == OutputAppended(10, 2 * len(blank) + 4, 1, 2, duplicate=True)
    done = await sessions.append_output("a", "one", at_line=0)
    assert done == OutputAppended(4, len(blank), 0, 1, duplicate=True)
    await refused(sessions, ["one", "two"], 0)


@pytest.mark.parametrize("seal_bytes", [300, 4096, 256 << 10])
async def test_offset_of_every_line_is_found_in_any_stream(
    open_store: StoreOpener, seal_bytes: int
) -> None:
    """Sealed and not, with blank lines, long lines, and lines torn between two appends."""
    store = await open_store(limits=Limits(seal_bytes=seal_bytes))
    picks = random.Random(seal_bytes)
    content = b""
    for number in range(400):
        content += picks.choice(
            [b"%d\n" % number, b"%d " % number + b"x" * 700 + b"\n", b"\n", b" \r\n", b"\xc2\xa0\n"]
        )
    content += b"torn"
    starts, at = [], 0
    for line in content.split(b"\n"):
        if line.strip() and line != b"\xc2\xa0":
            starts.append(at)
        at += len(line) + 1

    async def unit(tx: Transaction) -> list[int]:
        head = await tx.head("z", OUTPUT)
        assert head is not None
        return [await line_offset(tx, "z", head, line) for line in range(head.lines)]

    at = 0
    while at < len(content):
        size = picks.choice([1, 2, 50, 3000])
        await store.append("z", OUTPUT, content[at : at + size])
        at += size
        if picks.random() < 0.02:
            await store.tidy()
    assert await store.transact(unit) == starts
    await store.tidy()
    assert await store.transact(unit) == starts


async def test_repeat_is_found_far_back_in_a_sealed_stream(
    open_store: StoreOpener, on: OpenSessions
) -> None:
    store = await open_store(limits=Limits(seal_bytes=4096))
    sessions = on(store)
    done = [
        await sessions.append_output("a", [f"{number} " + "x" * 500, f"{number}"])
        for number in range(100)
    ]
    await store.tidy()
    for number in (0, 1, 50, 98, 99):
        again = await sessions.append_output(
            "a", [f"{number} " + "x" * 500, f"{number}"], at_line=2 * number
        )
        assert again == done[number]._replace(duplicate=True)


# -- session_id


async def test_append_to_the_current_session_by_its_id(sessions: Sessions) -> None:
    await sessions.append_output("a", "one")
    current = await id_of(sessions)
    await sessions.append_output("a", "two", session_id=current)
    done = await sessions.append_output("a", "three", at_line=2, session_id=current)
    assert done == OutputAppended(6, 8, 2, 1)


async def test_append_repeated_after_the_archive_is_found_there(
    store: FileStore, sessions: Sessions
) -> None:
    first = await sessions.append_output("a", ["one", "two"], at_line=0)
    old = await id_of(sessions)
    await sessions.archive("a")
    again = await sessions.append_output("a", ["one", "two"], at_line=0, session_id=old)
    assert again == first._replace(duplicate=True)
    assert await id_of(sessions) == ""
    await sessions.append_output("a", "new")
    before = await everything(store)
    again = await sessions.append_output("a", ["one", "two"], at_line=0, session_id=old)
    assert again == first._replace(duplicate=True)
    assert await everything(store) == before


async def test_append_that_missed_the_archive_never_lands_in_the_next_session(
    sessions: Sessions,
) -> None:
    await sessions.append_output("a", "one")
    old = await id_of(sessions)
    await sessions.archive("a")
    for lines, at_line in [("two", None), ("one", None), ("two", 1), ("other", 0), ("one", 7)]:
        found = await refused(sessions, lines, at_line, old)
        assert (found.session_id, found.current_lines) == ("", 0)
    saved = await sessions.write_state("a", b"x")
    await sessions.append_output("a", ["new", "er"])
    for lines, at_line in [("two", None), ("two", 1), ("new", 0), ("two", 2)]:
        found = await refused(sessions, lines, at_line, old)
        assert (found.session_id, found.current_lines) == (saved.session_id, 2)
        assert found.current_version == saved.version


async def test_blank_for_another_session_is_a_conflict_all_the_same(sessions: Sessions) -> None:
    await sessions.append_output("a", "one")
    old = await id_of(sessions)
    assert (await sessions.append_output("a", "", session_id=old)).lines == 0
    await sessions.archive("a")
    await refused(sessions, " ", None, old)
    await refused(sessions, " ", 0, old)
    await refused(sessions, [], 1, "unknown")


async def test_session_of_another_agent_is_a_conflict(sessions: Sessions) -> None:
    await sessions.append_output("b", "one")
    other = await id_of(sessions, "b")
    await refused(sessions, "one", 0, other)
    await sessions.archive("b")
    await refused(sessions, "one", 0, other)
    await sessions.append_output("a", "one")
    found = await refused(sessions, "one", 0, other)
    assert found.session_id == await id_of(sessions)


async def test_unknown_session_is_a_conflict(sessions: Sessions) -> None:
    for at_line in (None, 0):
        found = await refused(sessions, "one", at_line, "never")
        assert (found.session_id, found.current_lines) == ("", 0)


async def test_deleted_session_is_a_conflict(sessions: Sessions) -> None:
    await sessions.append_output("a", "one")
    old = await id_of(sessions)
    archived = await sessions.archive("a")
    assert archived is not None
    await sessions.delete_archive(archived.archive_zoneid)
    await refused(sessions, "one", 0, old)


async def test_no_session_may_be_begun_once(sessions: Sessions) -> None:
    """An empty id is that of an agent without a session, as for saves."""
    await sessions.append_output("a", "one", at_line=0, session_id="")
    found = await refused(sessions, "one", 0, "")
    assert (found.session_id, found.current_lines) == (await id_of(sessions), 1)
    again = await sessions.append_output("a", "one", at_line=0, session_id=found.session_id)
    assert again.duplicate


async def test_repeat_across_archive_and_restore(
    open_store: StoreOpener, on: OpenSessions, clock: FakeClock
) -> None:
    """The session is found wherever it is, and goes on where it was."""
    store = await open_store(clock=clock)
    sessions = on(store)
    first = await sessions.append_output("a", ["one", "two"], at_line=0)
    old = await id_of(sessions)
    archived = await sessions.archive("a")
    assert archived is not None
    await sessions.append_output("a", ["one", "two", "three"])
    new = await id_of(sessions)
    await sessions.restore(archived.archive_zoneid)
    again = await sessions.append_output("a", ["one", "two"], at_line=0, session_id=old)
    assert again == first._replace(duplicate=True)
    done = await sessions.append_output("a", "four", at_line=2, session_id=old)
    assert done == OutputAppended(5, 8, 2, 1)
    await store.close()
    sessions = on(await open_store(clock=clock))
    again = await sessions.append_output("a", "three", at_line=2, session_id=new)
    assert again == OutputAppended(6, 8, 2, 1, duplicate=True)
    await refused(sessions, "four", 2, new)
    await sessions.archive("a")
    again = await sessions.append_output("a", "four", at_line=2, session_id=old)
    assert again == done._replace(duplicate=True)


async def test_fork_has_the_lines_but_is_another_session(sessions: Sessions) -> None:
    await sessions.append_output("a", "one")
    old = await id_of(sessions)
    new = await sessions.fork("a", "a", archive_first=True, new_session_id="copy")
    assert (await sessions.append_output("a", "one", at_line=0, session_id=old)).duplicate
    assert (await sessions.append_output("a", "one", at_line=0, session_id=new)).duplicate
    await refused(sessions, "two", 1, old)
    assert not (await sessions.append_output("a", "two", at_line=1, session_id=new)).duplicate
    await refused(sessions, "two", 1, old)


# -- archive


async def test_archive_repeated_with_its_session_answers_the_same(
    store: FileStore, sessions: Sessions, clock: FakeClock
) -> None:
    await sessions.append_output("a", "one")
    old = await id_of(sessions)
    first = await sessions.archive("a", session_id=old)
    assert first is not None
    clock.now_ms += 1000
    assert await sessions.archive("a", session_id=old) == first
    await sessions.append_output("a", "new")
    before = await everything(store)
    assert await sessions.archive("a", session_id=old) == first
    assert await everything(store) == before
    assert await lines_of(sessions, "a") == [b"new"]


async def test_archive_of_restored_session_archives_it_again(
    sessions: Sessions, clock: FakeClock
) -> None:
    await sessions.append_output("a", "one")
    old = await id_of(sessions)
    first = await sessions.archive("a", session_id=old)
    assert first is not None
    await sessions.restore(first.archive_zoneid)
    clock.now_ms += 1000
    second = await sessions.archive("a", session_id=old)
    assert second is not None
    assert second.archived_at_ms == first.archived_at_ms + 1000
    assert await sessions.archive("a", session_id=old) == second


async def test_archive_of_any_other_session_is_a_conflict(
    store: FileStore, sessions: Sessions
) -> None:
    await sessions.append_output("b", "one")
    finished = await id_of(sessions, "b")
    await sessions.archive("b")
    await sessions.append_output("b", "two")
    current = await id_of(sessions, "b")
    for _ in range(2):
        before = await everything(store)
        for session_id in ("never", finished, current):
            with pytest.raises(VersionConflictError) as caught:
                await sessions.archive("a", session_id=session_id)
            assert caught.value.session_id == await id_of(sessions)
        assert await everything(store) == before
        await sessions.append_output("a", "one")


async def test_archive_of_no_session_or_one_without_bytes_is_none(sessions: Sessions) -> None:
    assert await sessions.archive("a", session_id="") is None
    written = await sessions.write_state("a", b"")
    assert await sessions.archive("a", session_id=written.session_id) is None
    with pytest.raises(VersionConflictError):
        await sessions.archive("a", session_id="")


async def test_archives_of_one_session_side_by_side_make_one(sessions: Sessions) -> None:
    await sessions.write_state("a", snapshot("hello"))
    old = await id_of(sessions)
    done = await asyncio.gather(*[sessions.archive("a", session_id=old) for _ in range(5)])
    assert len(set(done)) == 1
    assert len(await sessions.list_archives("a")) == 1


# -- saves


@pytest.mark.parametrize("size", [3, 300_000])
async def test_save_repeated_with_its_old_version_is_unchanged(
    store: FileStore, sessions: Sessions, size: int
) -> None:
    first = await sessions.write_state("a", b"one", if_version=0)
    second = await sessions.write_state("a", b"x" * size, if_version=first.version)
    before = await everything(store)
    again = await sessions.write_state(
        "a", b"x" * size, if_version=first.version, session_id=first.session_id
    )
    assert again == StateWritten(size, second.version, second.modts, second.session_id, True)
    assert await everything(store) == before


async def test_save_repeated_after_another_save_is_a_conflict(sessions: Sessions) -> None:
    await sessions.write_state("a", b"one", if_version=0)
    second = await sessions.write_state("a", b"two")
    with pytest.raises(VersionConflictError) as caught:
        await sessions.write_state("a", b"one", if_version=0)
    assert caught.value.current_version == second.version


async def test_save_repeated_after_the_archive_is_a_conflict(sessions: Sessions) -> None:
    first = await sessions.write_state("a", b"one", if_version=0)
    await sessions.archive("a")
    for _ in range(2):
        with pytest.raises(VersionConflictError):
            await sessions.write_state("a", b"one", if_version=0, session_id=first.session_id)
        await sessions.write_state("a", b"one")


async def test_equal_bytes_do_not_soften_the_store_itself(
    store: FileStore, sessions: Sessions
) -> None:
    """The rule is the sessions' own."""
    await sessions.write_state("a", b"one")
    with pytest.raises(VersionConflictError):
        await store.write(ZONE, STATE, b"one", if_version=0)
