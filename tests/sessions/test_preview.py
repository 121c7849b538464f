"""The preview, by the letter: pure rules first, then where it is found and when."""

import json
from typing import Any

import orjson
import pytest

from filestore import FileStore
from filestore.replay import replay
from filestore.sessions import Sessions
from filestore.sessions import sessions as module
from filestore.sessions.preview import Summary, collapse, is_blank, preview_of, summarise
from tests.contract.tools import NOT_SPACES, ODD_SPACES, WAIT_S_MAX
from tests.replay.golden_streams import STREAMS, read_stream
from tests.sessions.conftest import OpenSessions
from tests.sessions.tools import (
    HUGE_BYTES,
    LARGE_BYTES,
    message,
    padded,
    snapshot,
    user_line,
)
from tests.support.faults import until

CONTEXT = "# Session Context"
WRONG: list[object] = [None, 7, True, [], ["no"], {}, 1.5]
NODES: list[tuple[list[object], str]] = [
    ([], ""),
    ([message("hello")], "hello"),
    ([message("one"), message("two")], "one"),
    ([{"type": "assistant_message", "message": "no"}, message("yes")], "yes"),
    ([{"type": "user_message"}, message("yes")], "yes"),
    ([{"message": "no type"}, message("yes")], "yes"),
    ([{"type": "User_Message", "message": "no"}, message("yes")], "yes"),
    ([{"type": ["user_message"], "message": "no"}, message("yes")], "yes"),
    ([None, 1, "user_message", [], {}, message("yes")], "yes"),
    ([*map(message, WRONG), message("yes")], "yes"),
    ([message(""), message(" \n\t"), message("yes")], "yes"),
    ([message("".join(ODD_SPACES)), message("yes")], "yes"),
    ([message("\x1c"), message("no")], "\x1c"),
    ([message("\u200b"), message("no")], "\u200b"),
    # The scene is held, and the next one taken.
    ([message(CONTEXT)], CONTEXT),
    ([message(CONTEXT + "\nrepo: x\n"), message("ask")], "ask"),
    ([message(CONTEXT + "s are like it"), message("ask")], "ask"),
    ([message(CONTEXT), message(""), message(7), message(" "), message("ask")], "ask"),
    ([message(CONTEXT + " 1"), message(CONTEXT + " 2")], CONTEXT + " 2"),
    ([message(CONTEXT + " 1"), message(CONTEXT + " 2"), message("ask")], CONTEXT + " 2"),
    ([message(CONTEXT + " 1"), message(" \n")], CONTEXT + " 1"),
    ([message(CONTEXT + " 1"), {"type": "x", "message": "no"}], CONTEXT + " 1"),
    ([message("ask"), message(CONTEXT)], "ask"),
    ([message(" " + CONTEXT), message("no")], CONTEXT),
    ([message("#  Session Context"), message("no")], "# Session Context"),
    ([message("# session context"), message("no")], "# session context"),
    ([message("## Session Context"), message("no")], "## Session Context"),
]

TEXTS = [
    ("plain", "plain"),
    ("  \n\tleading", "leading"),
    ("a  b\n\nc\t d", "a b c d"),
    ("trailing \n ", "trailing "),
    ("".join(ODD_SPACES) + "a" + "".join(ODD_SPACES) + "b", "a b"),
    *((f"a{space}b", "a b") for space in (*ODD_SPACES, "\n")),
    *((f"a{other}b", f"a{other}b") for other in NOT_SPACES),
    ("\x1ca", "\x1ca"),
    ("a \x1c b", "a \x1c b"),
    ("x" * 239, "x" * 239),
    ("x" * 240, "x" * 240),
    ("x" * 241, "x" * 240 + "…"),
    ("x" * 100_000, "x" * 240 + "…"),
    ("\n " + "x" * 240, "x" * 240),
    ("x" * 120 + " \n " * 50 + "y" * 119, "x" * 120 + " " + "y" * 119),
    ("x" * 120 + " \n " * 50 + "y" * 120, "x" * 120 + " " + "y" * 119 + "…"),
    ("x" * 239 + " y", "x" * 239 + " …"),
    ("🙂" * 240, "🙂" * 240),
    ("🙂" * 241, "🙂" * 240 + "…"),
    ("e\u0301" * 121, "e\u0301" * 120 + "…"),
    ("x" * 239 + "👨\u200d👩", "x" * 239 + "👨…"),
    ("…" * 240, "…" * 240),
]

MARKS: list[tuple[str, int | None]] = [
    ("0", 0), ("1", 1), ("12345", 12345), (str((1 << 53) - 1), (1 << 53) - 1), (str(1 << 53), None),
    (str(1 << 63), None), (str(10**30), None), ("-1", None), ("-0", 0), ("1.0", None),
    ("1.5", None), ("1e3", None), ("true", None), ("false", None), ("null", None), ('"7"', None),
    ("[7]", None), ("{}", None),
]  # fmt: skip

NO_NODES: list[bytes] = [
    b"", b" ", b"{}", b"null", b"[]", b"7", b'"nodes"', b'{"overlays":[1]}', b'{"nodes":null}',
    b'{"nodes":{}}', b'{"nodes":"x"}', b'{"nodes":7}', b'{"nodes":[', b"\xff\xfe\x00", b"\x00",
    b'{"nodes":[{"type":"user_message","message":"\xff"}]}', b"not JSON", b"[" * 200_000,
    b'{"nodes":' * 50_000, b'{"nodes":[NaN]}', b"\xef\xbb\xbf" + b'{"nodes":[]}',
    b'[{"type":"user_message","message":"no"}]',
]  # fmt: skip


async def archived_row(sessions: Sessions, name: str = "a") -> tuple[str, int]:
    """Archive, and what the newest row says: preview and node_count."""
    assert await sessions.archive(name) is not None
    row = (await sessions.list_archives(name, 1))[0]
    return row.preview, row.node_count


async def agent_row(sessions: Sessions, name: str = "a") -> tuple[str, int]:
    (row,) = [row for row in await sessions.list_agents() if row.definition_id == name]
    return row.preview, row.node_count


@pytest.mark.parametrize(("nodes", "preview"), NODES, ids=lambda value: ascii(value)[:50])
def test_first_message_of_nodes_is_taken_by_the_rules(nodes: list[object], preview: str) -> None:
    found = summarise(json.dumps({"nodes": nodes}).encode())
    assert found == Summary(preview, len(nodes), None, True)


@pytest.mark.parametrize(("text", "line"), TEXTS, ids=lambda value: ascii(value)[:40])
def test_text_is_collapsed_and_cut_by_code_points(text: str, line: str) -> None:
    assert collapse(text) == line
    assert summarise(snapshot(text)).preview == line


@pytest.mark.parametrize(("mark", "covered"), MARKS)
def test_mark_is_a_count_or_unknown(mark: str, covered: int | None) -> None:
    with_nodes = summarise(b'{"nodes":[],"highWaterMark":%s}' % mark.encode())
    without = summarise(b'{"highWaterMark":%s}' % mark.encode())
    assert with_nodes == Summary("", 0, covered, True)
    assert without == Summary("", 0, covered, False)


@pytest.mark.parametrize("content", NO_NODES, ids=lambda value: ascii(value[:30]))
def test_snapshot_without_nodes_says_so(content: bytes) -> None:
    assert summarise(content) == Summary()


def test_snapshot_of_the_limit_is_looked_into_and_one_byte_more_is_not() -> None:
    content = snapshot("hello", pad_to=4 << 20)
    assert len(content) == 4 << 20
    assert summarise(content).preview == "hello"
    assert summarise(content + b" ") == Summary()


def test_messages_none_give_an_empty_preview() -> None:
    assert preview_of([]) == ""


def test_blank_is_white_space_only() -> None:
    assert is_blank("")
    assert all(is_blank(space) for space in (*ODD_SPACES, "\n"))
    assert not any(is_blank(other) for other in NOT_SPACES)


# -- where it is found


async def test_preview_of_small_snapshot_is_there_with_the_save(sessions: Sessions) -> None:
    await sessions.write_state("a", snapshot("hello", "again"))
    assert await agent_row(sessions) == ("hello", 2)
    await sessions.write_state("a", snapshot("other"))
    assert await agent_row(sessions) == ("other", 1)
    assert await archived_row(sessions) == ("other", 1)


async def test_preview_with_odd_characters_is_kept(sessions: Sessions) -> None:
    for text in ("a\x00b", "🙂\u2028x", "'; --", "\u202eabc"):
        await sessions.write_state("a", snapshot(text))
        assert (await agent_row(sessions))[0] == collapse(text)


async def test_preview_of_256_kib_is_there_with_the_save(sessions: Sessions) -> None:
    content = snapshot("hello", pad_to=LARGE_BYTES - 1)
    assert len(content) == 256 << 10
    await sessions.write_state("a", content)
    assert await agent_row(sessions) == ("hello", 1)


async def test_preview_of_large_snapshot_comes_in_the_background(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFRESH_S", 0.0)
    for name in ("a", "b"):
        await sessions.write_state(name, snapshot(f"large {name}", pad_to=LARGE_BYTES))
    for name in ("a", "b"):

        async def is_there(name: str = name) -> bool:
            return await agent_row(sessions, name) == (f"large {name}", 1)

        await until(is_there, WAIT_S_MAX)


async def test_preview_of_large_snapshot_that_is_saved_again_follows(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFRESH_S", 0.0)
    for number in range(5):
        await sessions.write_state("a", snapshot(f"large {number}", pad_to=LARGE_BYTES))

    async def is_there() -> bool:
        return await agent_row(sessions) == ("large 4", 1)

    await until(is_there, WAIT_S_MAX)


async def test_refresh_waits_a_second_between_two_looks() -> None:
    """The bound of the contract; the tests above take it away."""
    assert module.REFRESH_S >= 1.0


@pytest.mark.parametrize("size", [LARGE_BYTES, 1 << 20, 4 << 20])
async def test_preview_of_large_snapshot_that_is_archived_at_once_is_right(
    sessions: Sessions, size: int
) -> None:
    await sessions.write_state("a", snapshot("small"))
    await sessions.write_state("a", snapshot("large", "two", pad_to=size))
    assert await archived_row(sessions) == ("large", 2)


async def test_preview_of_large_snapshot_that_is_displaced_at_once_is_right(
    sessions: Sessions,
) -> None:
    await sessions.append_output("a", "line")
    first = await sessions.archive("a")
    assert first is not None
    await sessions.write_state("a", snapshot("large", pad_to=LARGE_BYTES))
    restored = await sessions.restore(first.archive_zoneid)
    (row,) = await sessions.list_archives("a")
    assert (row.archive_zoneid, row.preview) == (restored.archived, "large")


async def test_preview_of_large_snapshot_that_is_forked_at_once_is_right(
    sessions: Sessions,
) -> None:
    """The copy must not take the summary of an older snapshot for that of its own."""
    await sessions.write_state("a", snapshot("small"))
    await sessions.write_state("a", snapshot("large", "two", pad_to=LARGE_BYTES))
    await sessions.fork("a", "b")
    assert await archived_row(sessions, "b") == ("large", 2)


async def test_preview_of_large_snapshot_that_is_forked_onto_itself_is_right(
    sessions: Sessions,
) -> None:
    await sessions.write_state("a", snapshot("small"))
    await sessions.write_state("a", snapshot("large", "two", pad_to=LARGE_BYTES))
    await sessions.fork("a", "a", archive_first=True)
    assert (await sessions.list_archives("a"))[0].preview == "large"
    assert await archived_row(sessions) == ("large", 2)


async def test_preview_of_large_snapshot_is_right_after_close_and_open(
    store: FileStore, on: OpenSessions
) -> None:
    """What the background left undone is done before an archive."""
    first = on(store)
    await first.write_state("a", snapshot("large", pad_to=LARGE_BYTES))
    await first.close()
    assert await archived_row(on(store)) == ("large", 1)


async def test_close_ends_the_background_and_may_be_called_twice(store: FileStore) -> None:
    async with Sessions(store) as sessions:
        await sessions.write_state("a", snapshot("large", pad_to=LARGE_BYTES))
        await sessions.close()
    await sessions.close()


async def test_background_does_not_resurrect_an_archived_session(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look is under way when the session goes; a second agent shows that it has passed."""
    monkeypatch.setattr(module, "REFRESH_S", 0.0)
    await sessions.write_state("a", snapshot("large", pad_to=LARGE_BYTES))
    archived = await sessions.archive("a")
    assert archived is not None
    await sessions.append_output("a", "line")
    await sessions.write_state("b", snapshot("large b", pad_to=LARGE_BYTES))

    async def is_there() -> bool:
        return await agent_row(sessions, "b") == ("large b", 1)

    await until(is_there, WAIT_S_MAX)
    assert await agent_row(sessions, "a") == ("", 0)
    assert (await sessions.list_archives("a"))[0].preview == "large"


async def test_preview_is_right_when_saves_outrun_every_look(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After so many looks in vain the archive looks itself, inside its own transaction."""
    monkeypatch.setattr(module, "LOOKS_MAX", 0)
    await sessions.write_state("a", snapshot("large", "two", pad_to=LARGE_BYTES))
    assert await archived_row(sessions) == ("large", 2)


async def test_preview_is_right_when_a_save_slips_in_behind_the_look(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the archive another large snapshot is saved, several times over."""
    look = sessions._look
    saves = 0

    async def look_then_save(definition_id: str) -> dict[int, Summary]:
        nonlocal saves
        found = await look(definition_id)
        if saves < 3:
            saves += 1
            text = f"large {saves}"
            await sessions.write_state("a", snapshot(text, pad_to=LARGE_BYTES))
        return found

    monkeypatch.setattr(sessions, "_look", look_then_save)
    await sessions.write_state("a", snapshot("large 0", pad_to=LARGE_BYTES))
    assert await archived_row(sessions) == ("large 3", 1)


async def test_background_on_a_closed_store_gives_up_with_a_warning(
    store: FileStore,
    sessions: Sessions,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "REFRESH_S", 0.0)
    await sessions.write_state("a", snapshot("large", pad_to=LARGE_BYTES))
    await store.close()

    async def has_ended() -> bool:
        return sessions._refreshing is None or sessions._refreshing.done()

    await until(has_ended, WAIT_S_MAX)
    assert not caplog.records or "no preview for a yet" in caplog.text


# -- the stream, where the snapshot does not tell

FALL_BACKS = {
    "no snapshot": None,
    "empty": b"",
    "overlays only": b'{"overlays":[],"highWaterMark":1}',
    "unparsable": b'{"nodes":[',
    "not text": b"\xff\xfe",
    "nodes no list": b'{"nodes":{}}',
    "huge": snapshot("in the snapshot", pad_to=HUGE_BYTES),
    "large and unparsable": b"x" * LARGE_BYTES,
    "large overlays": padded({"overlays": []}, LARGE_BYTES),
}


@pytest.mark.parametrize("content", FALL_BACKS.values(), ids=FALL_BACKS)
async def test_preview_falls_back_to_the_stream(sessions: Sessions, content: bytes | None) -> None:
    await sessions.append_output("a", ['{"type":"system"}', user_line(" from\n the stream ")])
    if content is not None:
        await sessions.write_state("a", content)
    assert await archived_row(sessions) == ("from the stream ", 0)


async def test_preview_falls_back_in_the_list_of_agents_too(sessions: Sessions) -> None:
    await sessions.append_output("a", user_line("from the stream"))
    await sessions.write_state("a", b'{"overlays":[]}')
    assert await agent_row(sessions) == ("from the stream", 0)


@pytest.mark.parametrize(
    ("texts", "preview"),
    [
        ([CONTEXT], CONTEXT),
        ([CONTEXT + " x", "ask"], "ask"),
        ([CONTEXT + " 1", CONTEXT + " 2", "ask"], CONTEXT + " 2"),
        ([" ", "\n", "ask"], "ask"),
        ([CONTEXT, " ", "ask"], "ask"),
        (["x" * 241], "x" * 240 + "…"),
        ([], ""),
    ],
    ids=lambda value: ascii(value)[:40],
)
async def test_fall_back_applies_the_same_rules(
    sessions: Sessions, texts: list[str], preview: str
) -> None:
    await sessions.append_output("a", ["noise", *map(user_line, texts), "not JSON", "{"])
    assert await archived_row(sessions) == (preview, 0)


async def test_nodes_that_are_empty_are_nodes(sessions: Sessions) -> None:
    """Only a snapshot without nodes falls back."""
    await sessions.append_output("a", user_line("from the stream"))
    await sessions.write_state("a", b'{"nodes":[]}')
    assert await archived_row(sessions) == ("", 0)


async def test_fall_back_sees_a_message_that_came_after_the_save(sessions: Sessions) -> None:
    await sessions.write_state("a", b'{"overlays":[]}')
    await sessions.append_output("a", user_line(CONTEXT))
    await sessions.write_state("a", b'{"overlays":[1]}')
    await sessions.append_output("a", user_line("ask"))
    assert await archived_row(sessions) == ("ask", 0)


async def test_fall_back_after_nodes_forgets_the_nodes(sessions: Sessions) -> None:
    await sessions.append_output("a", user_line("from the stream"))
    await sessions.write_state("a", snapshot("from the nodes", "two"))
    await sessions.write_state("a", b'{"overlays":[]}')
    assert await agent_row(sessions) == ("from the stream", 0)
    assert await archived_row(sessions) == ("from the stream", 0)


async def test_fall_back_of_a_session_is_not_that_of_the_one_before(sessions: Sessions) -> None:
    for text in ("first", "second"):
        await sessions.append_output("a", [user_line(text), *["x"] * 300])
        await sessions.write_state("a", b"{}")
        assert await agent_row(sessions) == (text, 0)
        assert await archived_row(sessions) == (text, 0)


async def test_fall_back_is_right_when_the_known_streams_are_forgotten(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STREAMS_KNOWN_MAX", 0)
    for name in ("a", "b", "c"):
        await sessions.append_output(name, [user_line(name), *["x"] * 300])
        await sessions.write_state(name, b"{}")
    for name in ("a", "b", "c"):
        assert await archived_row(sessions, name) == (name, 0)


@pytest.mark.parametrize("name", STREAMS)
async def test_fall_back_finds_what_a_replay_of_the_stream_shows(
    sessions: Sessions, name: str
) -> None:
    """Not what the program says in the user's name: notes, instructions, echoes of commands."""
    lines = read_stream(name).splitlines()
    await sessions.append_output("a", lines)
    shown = orjson.dumps({"nodes": replay(lines).nodes()})
    assert await archived_row(sessions) == (summarise(shown).preview, 0)


async def test_fall_back_of_long_stream_looks_at_its_head_only(sessions: Sessions) -> None:
    """Bounded: an archive of a stream of any length costs the same."""
    await sessions.append_output("a", ["x" * 1000] * 2000)
    await sessions.append_output("a", user_line("too far"))
    assert await archived_row(sessions) == ("", 0)


async def test_fall_back_beside_one_enormous_line_is_no_error(sessions: Sessions) -> None:
    await sessions.append_output("a", [b"[" * (2 << 20), user_line("ask")])
    assert await sessions.archive("a") is not None


async def test_restored_session_is_previewed_by_what_is_saved_next(sessions: Sessions) -> None:
    await sessions.write_state("a", snapshot("one"))
    archived = await sessions.archive("a")
    assert archived is not None
    await sessions.restore(archived.archive_zoneid)
    assert await agent_row(sessions) == ("one", 1)
    await sessions.write_state("a", snapshot("two", "three"))
    assert await agent_row(sessions) == ("two", 2)
    assert await archived_row(sessions) == ("two", 2)


async def test_rows_never_carry_more_than_the_preview(sessions: Sessions) -> None:
    document: dict[str, Any] = {"nodes": [message("y" * 200_000)]}
    await sessions.write_state("a", json.dumps(document).encode())
    assert len((await agent_row(sessions))[0]) == 241
