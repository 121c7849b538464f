"""The current session: reading and saving its state, adding to its stream."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filestore import FileStore, TooLargeError, VersionConflictError
from filestore.sessions import OutputAppended, Sessions, SessionState, StateWritten
from tests.conftest import FakeClock, StoreOpener
from tests.contract.tools import NOT_SPACES, ODD_SPACES, noise
from tests.sessions.conftest import OpenSessions
from tests.sessions.tools import OUTPUT, STATE, all_zones, everything, lines_of, snapshot

NOTHING = SessionState(None, None, 0, "", 0, 0, None)

OPAQUE = [
    b"", b" ", b"\n", b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"{", b"null", b"[]", b'"text"',
    b'{"nodes":[]}\r\n', b'{ "b": 1,  "a": 2 }', b'{"a":1,"a":2}', b"\xef\xbb\xbf{}",
    b'{"highWaterMark":1e999}', bytes(range(256)), b"x" * 300_000,
]  # fmt: skip


async def test_read_without_session_gives_nothing_and_makes_nothing(
    store: FileStore, sessions: Sessions
) -> None:
    assert await sessions.read_state("a") == NOTHING
    assert await all_zones(store) == []


async def test_read_with_output_only_has_no_content(sessions: Sessions) -> None:
    await sessions.append_output("a", "line")
    state = await sessions.read_state("a")
    assert (state.content, state.modts, state.version) == (None, None, 0)
    assert (state.output_bytes, state.output_lines) == (5, 1)
    assert state.session_id


async def test_read_of_zero_byte_snapshot_gives_empty_content_with_its_time(
    sessions: Sessions, clock: FakeClock
) -> None:
    written = await sessions.write_state("a", b"")
    state = await sessions.read_state("a")
    assert (state.content, state.modts) == (b"", clock.now_ms)
    assert written == StateWritten(0, state.version, clock.now_ms, state.session_id, False)


async def test_read_tells_all_of_one_moment(sessions: Sessions, clock: FakeClock) -> None:
    await sessions.append_output("a", ["one", "two"])
    clock.now_ms += 5
    written = await sessions.write_state("a", snapshot("hello"))
    clock.now_ms += 5
    await sessions.append_output("a", "three")
    assert await sessions.read_state("a") == SessionState(
        snapshot("hello"), clock.now_ms - 5, written.version, written.session_id, 14, 3, None
    )


@pytest.mark.parametrize("content", OPAQUE, ids=lambda content: ascii(content[:20]))
async def test_content_comes_back_byte_for_byte(sessions: Sessions, content: bytes) -> None:
    written = await sessions.write_state("a", content)
    assert written.bytes_written == len(content)
    assert (await sessions.read_state("a")).content == content


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=50).map(str.encode)))
async def test_any_content_comes_back_byte_for_byte(sessions: Sessions, content: bytes) -> None:
    await sessions.write_state("a", content)
    assert (await sessions.read_state("a")).content == content


async def test_text_is_saved_as_utf_8(sessions: Sessions) -> None:
    assert (await sessions.write_state("a", "é🙂\x00")).bytes_written == 7
    assert (await sessions.read_state("a")).content == "é🙂\x00".encode()


async def test_write_replaces_and_raises_the_version(sessions: Sessions, clock: FakeClock) -> None:
    first = await sessions.write_state("a", b"long content")
    clock.now_ms += 1
    second = await sessions.write_state("a", b"short")
    assert second.version > first.version
    assert second.modts == first.modts + 1
    assert second.session_id == first.session_id
    assert (await sessions.read_state("a")).content == b"short"


async def test_write_of_equal_bytes_changes_nothing(
    store: FileStore, sessions: Sessions, clock: FakeClock
) -> None:
    first = await sessions.write_state("a", snapshot("hello"))
    before = await everything(store)
    clock.now_ms += 1
    second = await sessions.write_state("a", snapshot("hello"))
    assert second == StateWritten(
        first.bytes_written, first.version, first.modts, first.session_id, True
    )
    assert await everything(store) == before


async def test_write_uses_the_file_of_the_spec(store: FileStore, sessions: Sessions) -> None:
    await sessions.write_state("a", b"state")
    await sessions.append_output("a", "line")
    assert await store.read("agent:a:current", STATE) == b"state"
    assert await store.read("agent:a:current", OUTPUT) == b"line\n"
    assert len(await all_zones(store)) == 1


async def test_write_over_the_limit_is_refused_and_makes_nothing(
    store: FileStore, sessions: Sessions
) -> None:
    with pytest.raises(TooLargeError):
        await sessions.write_state("a", bytes(store.limits.write_bytes_max + 1))
    assert await all_zones(store) == []


# -- compare and set


async def test_if_version_of_missing_snapshot_is_0(sessions: Sessions) -> None:
    written = await sessions.write_state("a", b"one", if_version=0)
    with pytest.raises(VersionConflictError) as caught:
        await sessions.write_state("a", b"two", if_version=0)
    assert caught.value.current_version == written.version
    assert (await sessions.read_state("a")).content == b"one"


async def test_if_version_that_is_present_is_taken_once(sessions: Sessions) -> None:
    first = await sessions.write_state("a", b"one")
    second = await sessions.write_state("a", b"two", if_version=first.version)
    with pytest.raises(VersionConflictError) as caught:
        await sessions.write_state("a", b"three", if_version=first.version)
    assert caught.value.current_version == second.version
    assert (await sessions.read_state("a")).content == b"two"


async def test_if_version_stays_valid_over_appends(sessions: Sessions) -> None:
    first = await sessions.write_state("a", b"one")
    await sessions.append_output("a", "line")
    await sessions.write_state("a", b"two", if_version=first.version)


async def test_refused_first_write_makes_nothing(store: FileStore, sessions: Sessions) -> None:
    with pytest.raises(VersionConflictError) as caught:
        await sessions.write_state("a", b"one", if_version=5)
    assert caught.value.current_version == 0
    with pytest.raises(VersionConflictError) as caught:
        await sessions.write_state("a", b"one", session_id="never")
    assert (caught.value.current_version, caught.value.session_id) == (0, "")
    assert await all_zones(store) == []
    assert await sessions.list_agents() == []


async def test_two_panes_with_if_version_lose_no_save(sessions: Sessions) -> None:
    """Each counts up what it has read; a conflict makes it read again."""

    async def pane(count: int) -> None:
        for _ in range(count):
            while True:
                state = await sessions.read_state("a")
                number = int(state.content or b"0") + 1
                try:
                    written = await sessions.write_state(
                        "a", b"%d" % number, if_version=state.version, session_id=state.session_id
                    )
                except VersionConflictError:
                    continue
                # The other pane has counted to the same number: that was its save, not this one.
                if not written.unchanged:
                    break

    await asyncio.gather(*(pane(10) for _ in range(4)))
    assert (await sessions.read_state("a")).content == b"40"


# -- a pane that speaks of another session


async def test_old_session_id_is_refused_with_what_is_current(sessions: Sessions) -> None:
    old = await sessions.write_state("a", b"old")
    await sessions.archive("a")
    new = await sessions.write_state("a", b"new")
    assert new.session_id != old.session_id
    with pytest.raises(VersionConflictError) as caught:
        await sessions.write_state("a", b"old again", session_id=old.session_id)
    assert caught.value.current_version == new.version
    assert caught.value.session_id == new.session_id
    assert (await sessions.read_state("a")).content == b"new"


async def test_old_session_id_right_after_archive_is_refused(
    store: FileStore, sessions: Sessions
) -> None:
    """Nobody has written to the new session yet; the pane must not be the one to begin it."""
    old = await sessions.write_state("a", b"old")
    archived = await sessions.archive("a")
    assert archived is not None
    before = await everything(store)
    with pytest.raises(VersionConflictError) as caught:
        await sessions.write_state("a", b"old", session_id=old.session_id)
    assert (caught.value.current_version, caught.value.session_id) == (0, "")
    assert await everything(store) == before
    assert (await sessions.read_archive(archived.archive_zoneid)).content == b"old"


@pytest.mark.parametrize("begins", ["nothing", "output", "state", "same bytes"])
async def test_pane_that_missed_new_session_never_overwrites(
    sessions: Sessions, begins: str
) -> None:
    """By the session it read, or by the version it read: either guard is enough."""
    old = await sessions.write_state("a", b"old")
    await sessions.archive("a")
    if begins == "output":
        await sessions.append_output("a", "line")
    elif begins != "nothing":
        await sessions.write_state("a", b"old" if begins == "same bytes" else b"new")
    before = await sessions.read_state("a")
    with pytest.raises(VersionConflictError):
        await sessions.write_state("a", b"late", session_id=old.session_id)
    with pytest.raises(VersionConflictError):
        await sessions.write_state("a", b"late", if_version=old.version)
    with pytest.raises(VersionConflictError):
        await sessions.write_state(
            "a", b"late", if_version=before.version, session_id=old.session_id
        )
    assert await sessions.read_state("a") == before


async def test_pane_that_read_no_session_may_begin_one_but_not_join_one(
    sessions: Sessions,
) -> None:
    empty = await sessions.read_state("a")
    first = await sessions.write_state("a", b"one", session_id=empty.session_id)
    with pytest.raises(VersionConflictError) as caught:
        await sessions.write_state("a", b"two", session_id=empty.session_id)
    assert caught.value.session_id == first.session_id


async def test_session_id_of_another_agent_is_refused(sessions: Sessions) -> None:
    other = await sessions.write_state("b", b"b")
    await sessions.write_state("a", b"a")
    with pytest.raises(VersionConflictError):
        await sessions.write_state("a", b"x", session_id=other.session_id)


async def test_session_id_is_the_same_for_state_and_output_in_any_order(
    sessions: Sessions,
) -> None:
    await sessions.append_output("a", "line")
    first = (await sessions.read_state("a")).session_id
    assert (await sessions.write_state("a", b"x")).session_id == first
    written = await sessions.write_state("b", b"x")
    await sessions.append_output("b", "line")
    assert (await sessions.read_state("b")).session_id == written.session_id != first


# -- the stream


async def test_line_without_break_gets_one(sessions: Sessions) -> None:
    assert await sessions.append_output("a", "line1") == OutputAppended(6, 0, 0, 1)


async def test_line_with_break_keeps_one(store: FileStore, sessions: Sessions) -> None:
    await sessions.append_output("a", "line1")
    assert await sessions.append_output("a", "line2\n") == OutputAppended(6, 6, 1, 1)
    assert await store.read("agent:a:current", OUTPUT) == b"line1\nline2\n"


@pytest.mark.parametrize(
    ("given_lines", "kept"),
    [
        ("one\ntwo", [b"one", b"two"]),
        ("one\n\n \ntwo\n\n", [b"one", b"two"]),
        ("\none", [b"one"]),
        ("one\r\ntwo\r", [b"one\r", b"two\r"]),
        ("a\x0bb\x0cc\x85d\u2028e", ["a\x0bb\x0cc\x85d\u2028e".encode()]),
        (["one", "two\nthree", b"four\n"], [b"one", b"two", b"three", b"four"]),
        (("one", "", "two"), [b"one", b"two"]),
        (b"\xff\x00\xfe", [b"\xff\x00\xfe"]),
        (["not JSON", "{", '{"a": 1 }', "  indented  "], None),
        ("\x1c", [b"\x1c"]),
        ("x" * 300_000, [b"x" * 300_000]),
    ],
    ids=lambda value: ascii(value)[:30],
)
async def test_lines_are_kept_byte_for_byte(
    sessions: Sessions, given_lines: str | bytes | list[str | bytes], kept: list[bytes] | None
) -> None:
    wanted = kept if kept is not None else [str(line).encode() for line in given_lines]
    done = await sessions.append_output("a", given_lines)
    assert done == OutputAppended(sum(len(line) + 1 for line in wanted), 0, 0, len(wanted))
    page = await sessions.read_output("a")
    assert (page.lines, page.total_lines) == (wanted, len(wanted))


async def test_lines_from_a_generator_are_taken(sessions: Sessions) -> None:
    assert (await sessions.append_output("a", (f"{n}" for n in range(3)))).lines == 3


@pytest.mark.parametrize(
    "blank", ["", "\n", " \n\t\n", b"", b"\n\n", [], ["", " ", "\n"], *ODD_SPACES]
)
async def test_blank_appends_nothing_and_makes_nothing(
    store: FileStore, sessions: Sessions, blank: str | bytes | list[str | bytes]
) -> None:
    assert await sessions.append_output("a", blank) == OutputAppended(0, 0, 0, 0)
    assert await all_zones(store) == []
    assert await sessions.list_agents() == []
    assert await sessions.read_state("a") == NOTHING


async def test_blank_after_lines_tells_the_end(sessions: Sessions) -> None:
    await sessions.append_output("a", ["one", "two"])
    assert await sessions.append_output("a", " ") == OutputAppended(0, 8, 2, 0)


@pytest.mark.parametrize("text", NOT_SPACES, ids=ascii)
async def test_what_is_no_white_space_is_a_line(sessions: Sessions, text: str) -> None:
    assert (await sessions.append_output("a", text)).lines == 1


async def test_append_beside_blank_and_to_other_agents_knows_its_session(
    sessions: Sessions,
) -> None:
    """A blank append must not pass for a stream that has its session already."""
    await sessions.append_output("a", "")
    await sessions.append_output("a", "line")
    assert (await sessions.read_state("a")).session_id
    await sessions.archive("a")
    await sessions.append_output("a", " ")
    await sessions.append_output("a", "line")
    assert (await sessions.read_state("a")).session_id
    assert [row.definition_id for row in await sessions.list_agents()] == ["a"]


async def test_append_over_the_limit_is_refused_whole(store: FileStore, sessions: Sessions) -> None:
    half = "x" * (store.limits.append_bytes_max // 2)
    with pytest.raises(TooLargeError):
        await sessions.append_output("a", [half, half, "x"])
    assert await all_zones(store) == []


async def test_appends_side_by_side_keep_the_order_of_each_task(sessions: Sessions) -> None:
    async def task(name: str) -> list[OutputAppended]:
        return [await sessions.append_output("a", f"{name} {n}") for n in range(30)]

    answers = await asyncio.gather(*(task(name) for name in "abcde"))
    found = await lines_of(sessions, "a")
    for name, done in zip("abcde", answers, strict=True):
        own = [line for line in found if line.startswith(name.encode())]
        assert own == [b"%s %d" % (name.encode(), n) for n in range(30)]
        for n, answer in enumerate(done):
            assert found[answer.first_line] == b"%s %d" % (name.encode(), n)
            assert answer.offset == sum(len(line) + 1 for line in found[: answer.first_line])


async def test_session_survives_close_and_open(
    open_store: StoreOpener, on: OpenSessions, clock: FakeClock
) -> None:
    store = await open_store(clock=clock)
    sessions = on(store)
    await sessions.append_output("a", "line")
    await sessions.write_state("a", noise(300_000))
    before = await sessions.read_state("a")
    await sessions.close()
    await store.close()
    assert await on(await open_store(clock=clock)).read_state("a") == before
