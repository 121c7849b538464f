"""Sessions by their records: begun, changed, ended; what is refused changes nothing."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from filestore import (
    AlreadyExistsError,
    ConflictError,
    FileStore,
    InvalidArgumentError,
    InvalidDefinitionIdError,
    LimitReachedError,
    NotFoundError,
    StoreError,
    TooLargeError,
)
from filestore.journal import writing
from filestore.records import OUTCOMES, Filter, NewSession, Outcome, Records
from filestore.sessions import Sessions
from tests.conftest import FakeClock

CHANGES: dict[str, Callable[[Records], Awaitable[object]]] = {
    "phase": lambda records: records.update("s", phase="planning"),
    "metadata": lambda records: records.update("s", metadata={"k": 1}),
    "error": lambda records: records.update("s", error="broken"),
    "prompt": lambda records: records.prompt("s", "more"),
    "message": lambda records: records.add_message("s", "user", "more"),
    "chunk": lambda records: records.add_message("s", "agent", "more", partial=True),
    "checkpoint": lambda records: records.add_record("s", "checkpoint", {}),
    "note": lambda records: records.add_record("s", "note", {}),
    "completed": lambda records: records.finish("s", "completed"),
    "failed": lambda records: records.finish("s", "failed"),
    "abandoned": lambda records: records.finish("s", "abandoned"),
}


async def everything(records: Records, session_id: str = "s") -> object:
    return await records.get(session_id), await records.records(session_id)


@pytest.mark.parametrize(
    ("session_id", "definition_id"),
    [
        ("ada", "ada"), ("A_b-9", "A_b-9"), ("x" * 128, "x" * 128),
        *((each, "x-" + hashlib.sha256(each.encode()).hexdigest()[:32])
          for each in ("a.b", "abc 123", "é", "x" * 129, "x" * 256, "\U0001f600", "a:b", "../a")),
    ],
)  # fmt: skip
async def test_definition_is_made_of_the_id_where_none_is_named(
    records: Records, session_id: str, definition_id: str
) -> None:
    made = await records.create(NewSession("cli", session_id))
    assert (made.id, made.definition_id) == (session_id, definition_id)
    assert await records.get(session_id) == made


async def test_ids_are_compared_as_they_are(records: Records) -> None:
    ids = ["ABC-123", "abc-123", "abc 123", "abc  123", "é", "e\u0301", "1", "01"]
    for each in ids:
        await records.create(NewSession("mcp", each))
    page = await records.page(Filter(), limit=100)
    assert [each.id for each in page.sessions] == ids[::-1]


@pytest.mark.parametrize("bad", ["", "x" * 257, "a\n", "\x00", "\ud800", "a\u200b", "\u2028"])
async def test_id_that_is_none_is_refused_and_found_nowhere(records: Records, bad: str) -> None:
    with pytest.raises(InvalidArgumentError):
        await records.create(NewSession("cli", bad))
    for call in (records.get(bad), records.update(bad, phase="planning"), records.records(bad)):
        with pytest.raises(NotFoundError):
            await call
    assert (await records.page(Filter())).total == 0


async def test_beginning_is_kept_as_it_was_given(records: Records, clock: FakeClock) -> None:
    context = {"big": 1 << 200, "list": [None, 0.1, "\u2028"], "deep": {"é": {}}}
    new = NewSession("mcp", "s", "ada", "coder", "why", "what", None, context, {"m": [1 << 70]})
    made = await records.create(new)
    assert (made.origin, made.definition_id, made.agent_name) == ("mcp", "ada", "coder")
    assert (made.purpose, made.title, made.repo_id) == ("why", "what", None)
    assert (made.context, made.metadata) == (context, {"m": [1 << 70]})
    assert (made.status, made.phase, made.zone, made.records) == ("active", "initializing", "", 1)
    assert made.created_ms == made.updated_ms == clock.now_ms
    assert made.ended_ms is None


@pytest.mark.parametrize("context", [None, 0, "", [], {}, False, "x"])
async def test_context_may_be_any_json(records: Records, context: object) -> None:
    await records.create(NewSession("cli", "s", context=context))
    assert (await records.get("s")).context == context


async def test_second_session_of_an_id_is_refused_but_a_repeat_is_answered(
    records: Records,
) -> None:
    first = await records.create(NewSession("cli", "s", purpose="one"), call_id="call")
    again = await records.create(NewSession("cli", "s", purpose="one"), call_id="call")
    assert again == first
    for call_id in (None, "other"):
        with pytest.raises(AlreadyExistsError):
            await records.create(NewSession("cli", "s"), call_id=call_id)
    assert len(await records.records("s")) == 1


async def test_definition_id_that_is_none_is_refused(records: Records) -> None:
    with pytest.raises(InvalidDefinitionIdError):
        await records.create(NewSession("cli", "s", "a.b"))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_final_is_final(records: Records, outcome: Outcome, change: str) -> None:
    await records.create(NewSession("cli", "s"))
    await records.finish("s", outcome, summary="it was")
    before = await everything(records)
    with pytest.raises(ConflictError, match="has ended") as caught:
        await CHANGES[change](records)
    status = {"completed": "completed", "failed": "error", "abandoned": "cancelled"}[outcome]
    assert caught.value.status == status
    assert await everything(records) == before


async def test_observation_may_follow_the_end_and_changes_nothing_else(records: Records) -> None:
    await records.create(NewSession("cli", "s"))
    before = await records.finish("s", "failed")
    added = await records.add_record("s", "observation", {"seen": 1}, ref="o")
    assert added == (await records.records("s"))[-1]
    assert await records.get("s") == before._replace(records=3)


async def test_archive_restored_goes_on_whatever_ended_it(
    records: Records, panes: Sessions
) -> None:
    """Ended by a surface, then archived: the restore makes it active all the same."""
    await records.create(NewSession("rest", "s", "ada"))
    await records.update("s", phase="validating")
    await panes.append_output("ada", "x")
    await records.finish("s", "failed", summary="no")
    archived = await panes.archive("ada")
    assert archived is not None
    info = await records.get("s")
    assert (info.status, info.reason, info.zone) == ("error", None, archived.archive_zoneid)
    await panes.restore(archived.archive_zoneid)
    info = await records.get("s")
    assert (info.status, info.phase, info.reason) == ("active", "validating", "restored")
    assert info.ended_ms is None
    assert info.zone == "agent:ada:current"
    for change in ("phase", "prompt", "completed"):
        await CHANGES[change](records)


@pytest.mark.parametrize("phase", [*OUTCOMES, "", "Planning", "done", "\ud800"])
async def test_phase_that_is_none_is_refused(records: Records, phase: str) -> None:
    await records.create(NewSession("cli", "s"))
    before = await everything(records)
    with pytest.raises(InvalidArgumentError):
        await records.update("s", phase=phase, metadata={"k": 1}, error="e")
    assert await everything(records) == before


async def test_update_is_all_or_nothing_and_done_once(records: Records) -> None:
    await records.create(NewSession("cli", "s"))
    changes: dict[str, Any] = {"phase": "planning", "metadata": {"k": 1}, "error": "e"}
    first = await records.update("s", **changes, call_id="c")
    assert await records.update("s", **changes, call_id="c") == first
    assert (first.phase, first.metadata, first.error_count) == ("planning", {"k": 1}, 1)
    before = await everything(records)
    with pytest.raises(TooLargeError):
        await records.update("s", phase="executing", metadata={"k": "x" * (64 << 10)}, error="f")
    assert await everything(records) == before


async def test_finish_repeated_is_answered_and_another_one_refused(records: Records) -> None:
    await records.create(NewSession("cli", "s"))
    say = {"type": "text", "text": "over"}
    first = await records.finish(
        "s", "failed", summary="sum", reason="why", error="e", say=say, note={"n": 1}, call_id="c"
    )
    assert await records.finish("s", "completed", call_id="c") == first
    kinds = [each.kind for each in await records.records("s")]
    assert kinds == ["open", "error", "message", "note", "end"]
    assert (first.summary, first.reason, first.last_error) == ("sum", "why", "e")
    with pytest.raises(ConflictError):
        await records.finish("s", "failed", call_id="d")


async def test_names_of_calls_messages_and_checkpoints_are_apart(records: Records) -> None:
    """A caller may choose the same name for all: none of them passes for a repeat of another."""
    await records.create(NewSession("cli", "s"), call_id="name")
    await records.add_record("s", "checkpoint", {"x": 1}, ref="name")
    said = await records.add_message("s", "user", "hello", message_id="name")
    assert said.content == {"type": "text", "text": "hello"}
    assert (await records.update("s", phase="planning", call_id="name")).phase == "planning"
    chunk = await records.add_message("s", "user", "hello", message_id="name")
    assert chunk == said
    assert (await records.finish("s", "completed", call_id="name")).status == "completed"
    assert [each.id for each in await records.messages("s")] == ["name"]


@pytest.mark.parametrize("name", ["", "x" * 1001, "\ud800"])
async def test_name_that_nothing_is_found_by_is_refused(records: Records, name: str) -> None:
    await records.create(NewSession("cli", "s"))
    before = await everything(records)
    calls = (
        records.create(NewSession("cli", "t"), call_id=name),
        records.update("s", error="e", call_id=name),
        records.finish("s", "failed", call_id=name),
        records.add_record("s", "checkpoint", {}, ref=name),
        records.add_message("s", "user", "x", message_id=name),
    )
    for call in calls:
        with pytest.raises(InvalidArgumentError):
            await call
    assert await everything(records) == before
    assert (await records.page(Filter())).total == 1


@pytest.mark.parametrize("field", ["agent_name", "purpose", "title", "context"])
async def test_text_that_cannot_be_stored_is_refused(records: Records, field: str) -> None:
    values: dict[str, Any] = {field: "half \ud800"}
    new = NewSession("cli", "s", **values)
    with pytest.raises(InvalidArgumentError):
        await records.create(new)
    assert (await records.page(Filter())).total == 0


async def test_metadata_is_limited_in_sum(records: Records) -> None:
    full = {"k": "x" * ((64 << 10) - len('{"k":""}'))}
    with pytest.raises(TooLargeError):
        await records.create(NewSession("cli", "s", metadata={**full, "l": 1}))
    await records.create(NewSession("cli", "s", metadata=full))
    with pytest.raises(TooLargeError) as caught:
        await records.update("s", metadata={"l": 1})
    assert caught.value.limit == 64 << 10
    await records.update("s", metadata={"k": None, "l": 1 << 90})
    assert (await records.get("s")).metadata == {"k": None, "l": 1 << 90}


@pytest.mark.parametrize("field", ["context", "title", "error", "summary"])
async def test_what_the_row_shows_is_limited_and_what_only_records_hold_is_not(
    records: Records, field: str
) -> None:
    """Rows are read by the hundred."""
    large = "x" * (256 << 10)
    await records.create(NewSession("cli", "s"))
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "context": lambda: records.create(NewSession("cli", "t", context=large)),
        "title": lambda: records.create(NewSession("cli", "t", title=large)),
        "error": lambda: records.update("s", error=large),
        "summary": lambda: records.finish("s", "failed", summary=large),
    }
    with pytest.raises(TooLargeError):
        await calls[field]()
    await records.add_message("s", "user", large)
    await records.add_record("s", "checkpoint", {"state": large})


async def test_session_that_is_full_can_still_end(
    records: Records, panes: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "RECORDS_MAX", 6)
    monkeypatch.setattr(writing, "RECORDS_RESERVED", 3)
    await records.create(NewSession("rest", "s", "ada"))
    await records.prompt("s", "last")
    await records.update("s", error="e")
    for change in ("message", "phase", "checkpoint"):
        with pytest.raises(TooLargeError):
            await CHANGES[change](records)
    assert await records.recover() == 1
    await panes.append_output("ada", "x")
    assert await panes.archive("ada") is not None
    assert (await records.get("s")).status == "completed"


async def test_limit_of_active_sessions_holds_among_parallel_creates(
    records: Records, tmp_path: Any
) -> None:
    repo = await records.add_repo(".", None, tmp_path)
    new = NewSession("rest", repo_id=repo.id)

    async def one() -> str:
        try:
            return (await records.create(new, active_max=5)).id
        except LimitReachedError:
            return ""

    done = await asyncio.gather(*(one() for _ in range(20)))
    assert sum(map(bool, done)) == 5
    assert (await records.page(Filter())).total == 5
    with pytest.raises(LimitReachedError) as caught:
        await records.create(new, active_max=5)
    assert (caught.value.limit, caught.value.retry_after_ms) == (5, 60_000)
    await records.create(NewSession("rest"), active_max=5)
    await records.finish(next(filter(None, done)), "completed")
    await records.create(new, active_max=5)
    with pytest.raises(NotFoundError):
        await records.create(NewSession("rest", repo_id="no such"), active_max=5)


async def test_concurrent_updates_lose_nothing(records: Records) -> None:
    await records.create(NewSession("cli", "s"))
    writers, each = 64, 10

    async def one(lane: int) -> None:
        for number in range(each):
            await records.update("s", metadata={f"{lane}.{number}": lane}, error=str(lane))

    await asyncio.gather(*(one(lane) for lane in range(writers)))
    info = await records.get("s")
    assert info.error_count == writers * each
    assert info.metadata == {
        f"{lane}.{number}": lane for lane in range(writers) for number in range(each)
    }
    assert info.records == 1 + 2 * writers * each


async def test_records_of_one_session_are_never_those_of_another(records: Records) -> None:
    """Whatever seq is asked for."""
    for session_id in ("one", "two", "three"):
        await records.create(NewSession("cli", session_id))
        await records.add_message(session_id, "user", session_id)
    own = await records.records("two")
    for after in (-1, -2, -(1 << 24), -(1 << 70)):
        assert await records.records("two", after_seq=after) == own
        assert [
            each.content["text"] for each in await records.messages("two", after_seq=after)
        ] == ["two"]
    for after in (1, 2, (1 << 24) - 2, (1 << 24) - 1, 1 << 24, (1 << 24) + 1, 1 << 40, 1 << 70):
        assert await records.records("two", after_seq=after) == []
        assert await records.messages("two", after_seq=after) == []
    assert await records.records("two", limit=0) == []
    assert await records.records("two", limit=1 << 70) == own
    assert await records.records("two", after_seq=0, limit=1, kind="message") == own[1:]


async def test_clock_that_goes_back_moves_no_time_back_and_changes_no_order(
    records: Records, clock: FakeClock
) -> None:
    start = clock.now_ms
    await records.create(NewSession("cli", "first"))
    clock.now_ms = start - 5000
    await records.create(NewSession("cli", "second"))
    await records.add_message("first", "user", "later")
    info = await records.finish("first", "completed")
    assert (info.created_ms, info.updated_ms, info.ended_ms) == (start, start, start - 5000)
    assert [each.at_ms for each in await records.records("first")] == [start, *[start - 5000] * 2]
    page = await records.page(Filter())
    assert [each.id for each in page.sessions] == ["second", "first"]


async def test_change_that_fails_leaves_nothing(
    records: Records, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last statement of a unit fails: neither row nor record nor tally is there."""
    await records.create(NewSession("cli", "s"))
    before = await everything(records)

    def broken(*_: object) -> None:
        raise StoreError("no")

    with monkeypatch.context() as patch:
        patch.setattr(writing, "Change", broken)
        for change in CHANGES.values():
            with pytest.raises(StoreError, match="no"):
                await change(records)
        with pytest.raises(StoreError, match="no"):
            await records.create(NewSession("cli", "t"))
    assert await everything(records) == before
    assert (await records.page(Filter())).total == 1
