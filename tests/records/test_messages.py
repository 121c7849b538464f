"""Messages: chunks read as one message, pages without gaps, prompts that wait for their answer."""

from typing import Any

import pytest

from filestore import (
    AlreadyExistsError,
    ConflictError,
    FileStore,
    InvalidArgumentError,
    NotFoundError,
)
from filestore.journal import rows
from filestore.records import Message, NewSession, Records
from tests.conftest import FakeClock, StoreOpener
from tests.records.conftest import records_of


@pytest.fixture
async def begun(records: Records) -> Records:
    """Records with one session, `s`."""
    await records.create(NewSession("rest", "s"))
    return records


def texts(messages: list[Message]) -> list[object]:
    return [each.content["text"] for each in messages]


async def chunk(records: Records, name: str, text: str, *, partial: bool = True) -> Message:
    return await records.add_message("s", "agent", text, partial=partial, message_id=name)


async def test_content_comes_back_as_it_was_given(begun: Records) -> None:
    contents: list[dict[str, Any]] = [
        {"type": "plan", "steps": ["a", {"b": 1 << 100}]},
        {"type": "tool", "tool": "sh", "args": {}, "result": None},
        {"type": "from the future", "partial": "not ours", "text": 7},
        {"type": "text", "text": "", "more": [0.1]},
    ]
    for content in contents:
        for role in ("system", "user"):
            assert (await begun.add_message("s", role, content)).content == content
        said = await begun.add_message("s", "agent", content)
        is_text = content["type"] == "text"
        assert said.content == (content | {"partial": False} if is_text else content)
    found = [each.content for each in await begun.messages("s")]
    assert found[::3] == found[1::3] == contents
    assert found[2::3][:3] == contents[:3]


async def test_text_of_an_agent_may_say_itself_that_more_follows(begun: Records) -> None:
    content = {"type": "text", "text": "half", "partial": True}
    said = await begun.add_message("s", "agent", content, message_id="m")
    assert said.content == content
    await begun.add_message("s", "agent", {**content, "partial": False}, message_id="m")
    (message,) = await begun.messages("s")
    assert message.content == {"type": "text", "text": "halfhalf", "partial": False}
    for partial in (None, 1, "yes"):
        with pytest.raises(InvalidArgumentError):
            await begun.add_message("s", "agent", {**content, "partial": partial})
    user = await begun.add_message("s", "user", content)
    assert user.content == content


@pytest.mark.parametrize(
    "content",
    [None, 7, [], {}, {"type": None}, {"type": 7}, {"type": "text"}, {"type": "text", "text": 7},
     {"text": "x"}],
)  # fmt: skip
async def test_content_that_is_none_is_refused(begun: Records, content: object) -> None:
    with pytest.raises(InvalidArgumentError):
        await begun.add_message("s", "user", content)
    assert await begun.messages("s") == []


async def test_chunks_read_as_one_message_where_the_last_one_stands(
    begun: Records, clock: FakeClock
) -> None:
    await chunk(begun, "m", "one ")
    between = await begun.add_message("s", "system", "between")
    clock.now_ms += 7
    alone = await chunk(begun, "m", "two ")
    assert (alone.content["text"], alone.content["partial"]) == ("two ", True)
    found = await begun.messages("s")
    assert [(each.id, each.seq) for each in found] == [(between.id, 2), ("m", 3)]
    assert (found[1].content, found[1].at_ms) == (
        {"type": "text", "text": "one two ", "partial": True},
        clock.now_ms,
    )
    last = await chunk(begun, "m", "three", partial=False)
    assert last.content == {"type": "text", "text": "one two three", "partial": False}
    assert (await begun.messages("s"))[1] == last


async def test_repeated_last_chunk_is_answered_and_another_one_refused(begun: Records) -> None:
    await chunk(begun, "m", "one ")
    last = await chunk(begun, "m", "two", partial=False)
    assert await chunk(begun, "m", "two", partial=False) == last
    for text, partial in (("three", False), ("three", True)):
        with pytest.raises(AlreadyExistsError):
            await chunk(begun, "m", text, partial=partial)
    with pytest.raises(AlreadyExistsError):
        await begun.add_message("s", "user", "two", message_id="m")
    assert await begun.messages("s") == [last]
    await begun.finish("s", "completed")
    assert await chunk(begun, "m", "two", partial=False) == last, "also when it has ended since"


async def test_chunk_of_another_role_is_refused(begun: Records) -> None:
    await chunk(begun, "m", "one")
    for role in ("user", "system"):
        with pytest.raises(InvalidArgumentError, match="agent's"):
            await begun.add_message("s", role, "two", message_id="m")
    assert texts(await begun.messages("s")) == ["one"]


@pytest.mark.parametrize("bad", ["", "x" * 129, "\ud800", "a\n", "\x00"])
async def test_message_id_that_is_none_is_refused(begun: Records, bad: str) -> None:
    with pytest.raises(InvalidArgumentError):
        await begun.add_message("s", "user", "x", message_id=bad)


async def test_only_an_agent_speaks_in_chunks_and_only_known_roles_speak(begun: Records) -> None:
    for role, partial in (("user", True), ("system", True), ("assistant", False), ("", False)):
        with pytest.raises(InvalidArgumentError):
            await begun.add_message("s", role, "x", partial=partial)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
async def test_pages_have_no_gap_and_nothing_twice(begun: Records, limit: int) -> None:
    """Messages whose chunks are mixed with one another, read while more comes."""
    for number in range(40):
        await chunk(begun, f"m{number % 7}", f"{number} ", partial=number < 33)
        await begun.add_record("s", "observation", {})
    whole = await begun.messages("s")
    assert len(whole) == 7
    found: list[Message] = []
    while page := await begun.messages("s", after_seq=found[-1].seq if found else -1, limit=limit):
        found += page
    assert found == whole
    assert await begun.messages("s", limit=0) == []


async def test_who_read_half_an_answer_is_told_of_the_whole(begun: Records) -> None:
    await chunk(begun, "m", "half ")
    (half,) = await begun.messages("s")
    await begun.add_message("s", "user", "next")
    await chunk(begun, "m", "whole", partial=False)
    later = await begun.messages("s", after_seq=half.seq)
    assert texts(later) == ["next", "half whole"]


async def test_after_a_time_is_strictly_after_it(begun: Records, clock: FakeClock) -> None:
    start = clock.now_ms
    for ms in (0, 1, 1, 2):
        clock.now_ms = start + ms
        await begun.add_message("s", "user", str(ms))
    for after, wanted in ((-1, "0112"), (0, "112"), (1, "2"), (2, "")):
        assert texts(await begun.messages("s", after_ms=start + after)) == list(wanted)
    assert texts(await begun.messages("s", after_ms=start, after_seq=2, limit=1)) == ["1"]


async def test_many_chunks_are_read_and_added_without_reading_all_others_each_time(
    begun: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a long answer costs grows with its chunks, not with their square."""
    read = 0
    decode = rows._record

    def counted(row: Any) -> Any:
        nonlocal read
        read += 1
        return decode(row)

    monkeypatch.setattr(rows, "_record", counted)
    for number in range(300):
        await chunk(begun, "m", "x", partial=number < 299)
    assert read < 2 * 300
    read = 0
    assert texts(await begun.messages("s")) == ["x" * 300]
    assert read <= 2 * 300


async def test_messages_of_other_sessions_are_not_read(store: FileStore) -> None:
    plan = await store.read_unit(
        lambda tx: tx.fetch(
            "EXPLAIN QUERY PLAN SELECT * FROM record "
            "WHERE id >= 1 AND id < 9 AND +kind = 'message' ORDER BY id LIMIT 5"
        )
    )
    assert [row[3] for row in plan] == [
        "SEARCH record USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"
    ]


async def test_prompt_waits_for_its_answer(begun: Records) -> None:
    said = await begun.prompt("s", "do it")
    assert (said.role, said.content) == ("user", {"type": "text", "text": "do it"})
    assert (await begun.get("s")).is_busy
    with pytest.raises(ConflictError, match="unanswered") as caught:
        await begun.prompt("s", "again")
    assert caught.value.status == "active"
    await begun.add_message("s", "system", {"type": "plan", "steps": []})
    await chunk(begun, "answer", "well ")
    with pytest.raises(ConflictError):
        await begun.prompt("s", "again")
    await chunk(begun, "answer", "done", partial=False)
    assert not (await begun.get("s")).is_busy
    await begun.prompt("s", "again")
    await begun.finish("s", "failed")
    assert not (await begun.get("s")).is_busy
    with pytest.raises(NotFoundError):
        await begun.prompt("t", "x")


async def test_unanswered_prompts_are_told_after_a_restart_and_sessions_stay_usable(
    open_store: StoreOpener, clock: FakeClock
) -> None:
    store = await open_store(clock=clock)
    records = records_of(store, clock)
    for number in range(120):
        await records.create(NewSession("rest", f"s{number}"))
        asked = await records.prompt(f"s{number}", "x")
    await records.create(NewSession("rest", "s"))
    await records.prompt("s", "answered")
    await chunk(records, "m", "half", partial=True)
    await records.create(NewSession("rest", "quiet"))
    await store.close()

    store = await open_store(clock=clock)
    records = records_of(store, clock)
    assert await records.recover() == 121
    assert await records.recover() == 0
    assert len(await records.records("quiet")) == 1
    told = (await records.messages("s119"))[-1]
    assert (told.role, told.content["interrupted"]) == ("system", asked.id)
    half, told = (await records.messages("s"))[1:]
    assert (half.content["partial"], told.role) == (True, "system")
    await chunk(records, "m", " whole", partial=False)
    assert texts(await records.messages("s"))[-1] == "half whole"
    await records.prompt("s", "next")
    assert (await records.get("s")).is_busy
