"""What agents submit, and what they are told of the past, of sessions of every surface."""

import asyncio
from typing import Any, LiteralString

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filestore import FileStore, InvalidArgumentError, NotFoundError, RejectedError, TooLargeError
from filestore.engine.base import ReadTx
from filestore.journal.fold import entity_id
from filestore.records import NewSession, Records
from filestore.records import observations as module
from filestore.records.observations import Observations, OrderBy, Wanted, query_of
from filestore.records.slices import Newest, Said, cut
from filestore.records.timeline import Window, bound
from filestore.records.transcripts import Transcripts
from filestore.records.watch import Watchers
from filestore.sessions import Sessions
from tests.conftest import FakeClock

ALWAYS = Window(-(1 << 62), 1 << 62)
START, END = "2026-01-31T09:00:00Z", "2026-01-31T10:00:00Z"
ACTIONS = [{"type": "edit", "result": "passed"}]


def document(session_id: str = "ABC-123", **more: Any) -> dict[str, Any]:
    return {"session_id": session_id, "actions": ACTIONS, "started_at": START, **more}


def checkpoint(name: str, at: str, **state: Any) -> dict[str, Any]:
    return {"name": name, "timestamp": f"2026-01-31T{at}Z", "state": state}


@pytest.fixture
def observations(store: FileStore) -> Observations:
    return Observations(store)


async def told(
    observations: Observations, ref: str, window: Window = ALWAYS
) -> list[tuple[str, str]]:
    """What a timeline tells, in short."""
    events = await observations.timeline(ref, window)
    return [(each["type"], each["timestamp"]) for each in events]


# -- submit


async def test_submit_begins_a_session_and_keeps_what_was_said(
    observations: Observations, records: Records
) -> None:
    done = await observations.submit(document(details={"n": 2**80}))
    assert done[:2] == ("ent_8a78c42ac8662e5af6ee1f37", 1)
    assert done.warnings[0].startswith("details is not a known field")
    session = await records.get("ABC-123")
    assert (session.origin, session.status) == ("mcp", "active")
    found = await observations.entity("ABC-123")
    assert found is not None
    assert found["snapshot"]["details"] == {"n": 2**80}
    assert [each["fields"] for each in found["observations"]] == [found["snapshot"]]


async def test_ids_are_exact(observations: Observations) -> None:
    for each in ("ABC-123", "abc 123", "abc-123", "ABC-123 "):
        assert (await observations.submit(document(each))).observation_count == 1


async def test_rejected_submit_stores_nothing(observations: Observations) -> None:
    with pytest.raises(RejectedError):
        await observations.submit(document(duration=0))
    with pytest.raises(InvalidArgumentError):
        await observations.submit(document(more=float("nan")))
    assert await observations.entity("ABC-123") is None


async def test_repeat_of_a_call_is_answered_as_the_first_time(observations: Observations) -> None:
    first = await observations.submit(document(), call_id="one")
    await observations.submit(document(), call_id="two")
    assert await observations.submit(document(), call_id="one") == first
    found = await observations.entity("ABC-123")
    assert found is not None
    assert found["observation_count"] == 2


async def test_end_ends_an_active_session_once(
    observations: Observations, records: Records
) -> None:
    await observations.submit(document(ended_at=END))
    session = await records.get("ABC-123")
    assert (session.status, session.reason, session.records) == ("completed", "submitted", 3)
    await observations.submit(document(ended_at=END))
    assert (await records.get("ABC-123")).records == 4


async def test_session_that_failed_stays_so(observations: Observations, records: Records) -> None:
    await records.create(NewSession("rest", "ABC-123"))
    await records.finish("ABC-123", "failed")
    await observations.submit(document(ended_at=END))
    assert (await records.get("ABC-123")).status == "error"


async def test_many_at_once_are_all_kept(observations: Observations) -> None:
    done = await asyncio.gather(*(observations.submit(document()) for _ in range(100)))
    assert sorted(each.observation_count for each in done) == list(range(1, 101))


# -- entities


async def test_field_left_out_keeps_its_value_and_null_clears_it(
    observations: Observations,
) -> None:
    await observations.submit(document(duration=5, outcomes=[{"type": "pr"}]))
    await observations.submit(document(duration=None, started_at=END))
    found = await observations.entity("ABC-123")
    assert found is not None
    assert found["snapshot"] == document(outcomes=[{"type": "pr"}], started_at=END)


async def test_session_that_was_never_submitted_answers(
    observations: Observations, records: Records, store: FileStore
) -> None:
    await records.create(NewSession("rest", "s"))
    tool = {"type": "tool", "tool": "bash", "args": {"c": "ls"}, "result": {"code": 0}}
    message = await records.add_message("s", "system", tool)
    await records.add_message("s", "agent", "done")
    await records.add_record("s", "checkpoint", {"state": {"n": 1}}, ref="half")
    found = await observations.entity("s")
    assert found is not None
    (action,) = found["snapshot"]["actions"]
    assert action["type"] == "bash"
    assert action["result"] == '{"code": 0}'
    assert action["details"] == {"args": {"c": "ls"}}
    (half,) = found["snapshot"]["checkpoints"]
    assert (half["name"], half["state"]) == ("half", {"n": 1})
    assert (found["observation_count"], found["observations"]) == (0, [])
    assert (await observations.checkpoint("s", "half"))["state"] == {"n": 1}
    assert message.seq == 1


async def test_calls_of_tools_in_a_transcript_are_actions(
    observations: Observations, store: FileStore
) -> None:
    transcripts = Transcripts(store)
    place = {"workingDir": "/", "fsScopeTier": "read"}
    await transcripts.start("s", {"agentSlug": "coder", "context": place})
    call = {"type": "tool_call", "id": "c1", "name": "grep", "args": {"for": "x"}}
    other = {"type": "tool_call", "id": "c2", "name": "read", "args": {}}
    answer = {"type": "tool_result", "toolCallId": "c1", "result": "", "isError": True}
    for role, part in (("assistant", call), ("assistant", other), ("tool", answer)):
        row = {"role": role, "content": [part], "timestamp": START}
        await transcripts.append("s", row)
    found = await observations.entity("s")
    assert found is not None
    assert [(each["type"], each["result"]) for each in found["snapshot"]["actions"]] == [
        ("grep", "no result"),
        ("read", "no result"),
    ]
    assert found["snapshot"]["actions"][0]["details"] == {"args": {"for": "x"}, "is_error": True}


async def test_lists_are_in_the_order_that_is_asked_for(
    observations: Observations, records: Records, clock: FakeClock
) -> None:
    clock.now_ms = bound("2026-02-01T00:00:00Z", is_end=False)
    for number, start in enumerate(("08", "10", "09")):
        await observations.submit(
            document(f"s-{number}-x", started_at=f"2026-01-31T{start}:00:00Z")
        )
        clock.now_ms += 1000
    await records.create(NewSession("cli", "now", agent_name="coder"))

    async def ids(**more: Any) -> list[str]:
        found = await observations.sessions(Wanted(**more))
        entities = await observations.entities(Wanted(**more))
        assert [each["entity_id"] for each in found] == [each["entity_id"] for each in entities]
        return [each["session_id"] for each in found]

    assert await ids() == ["now", "s-1-x", "s-2-x", "s-0-x"]
    assert await ids(order="asc", limit=2) == ["s-0-x", "s-2-x"]
    assert await ids(order_by="updated_at") == ["now", "s-2-x", "s-1-x", "s-0-x"]
    assert await ids(agent_name="coder", status="active") == ["now"]
    assert await ids(status="error") == await ids(agent_name="\ud800") == []
    for limit in (0, 101):
        with pytest.raises(InvalidArgumentError):
            await ids(limit=limit)


@pytest.mark.parametrize("order_by", ["started_at", "updated_at"])
async def test_lists_are_read_in_the_order_of_an_index(store: FileStore, order_by: OrderBy) -> None:
    for wanted in (Wanted(), Wanted(order="asc", status="active", agent_name="a")):
        sql, params = query_of(wanted._replace(order_by=order_by))
        plan = await store.read_unit(lambda tx, q=sql, p=params: _plan(tx, q, p))  # type: ignore[misc]  # bound at once
        assert f"journal_{order_by.removesuffix('_at')}" in plan
        assert "TEMP B-TREE" not in plan


async def _plan(tx: ReadTx, sql: LiteralString, params: tuple[str | int, ...]) -> str:
    return str(await tx.fetch("EXPLAIN QUERY PLAN " + sql, params))


async def test_list_that_is_too_large_is_refused(
    observations: Observations, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("s-one", "s-two"):
        await observations.submit(document(each))
    monkeypatch.setattr(module, "LIST_BYTES_MAX", 500)
    with pytest.raises(TooLargeError, match="1 of them"):
        await observations.entities(Wanted())


async def test_pages_have_every_session_once(observations: Observations) -> None:
    names = [f"session-{number}" for number in range(5)]
    for each in names:
        await observations.submit(document(each))
    found: list[str] = []
    before: int | None = None
    while True:
        page, before = await observations.page(2, before)
        found += [each["session_id"] for each in page]
        if before is None:
            break
    assert found == names[::-1]


# -- timelines and checkpoints


async def test_timeline_is_that_of_a_session_of_its_entity_and_of_what_it_named(
    observations: Observations,
) -> None:
    await observations.submit(
        document(
            actions=[{"type": "t", "result": "r", "details": {"in": [{"task_id": "T-1"}]}}],
            checkpoints=[checkpoint("b", "09:40:00", run_id="R-1"), checkpoint("a", "09:20:00")],
            outcomes=[{"type": "pr", "id": "PR-7"}],
            ended_at=END,
        )
    )
    expected = [
        ("session_started", "2026-01-31T09:00:00.000Z"),
        ("checkpoint", "2026-01-31T09:20:00.000Z"),
        ("checkpoint", "2026-01-31T09:40:00.000Z"),
        ("outcome", "2026-01-31T10:00:00.000Z"),
        ("session_ended", "2026-01-31T10:00:00.000Z"),
    ]
    for ref in ("ABC-123", entity_id("ABC-123"), "T-1", "R-1", "PR-7"):
        assert await told(observations, ref) == expected, ref
    assert await told(observations, "nobody") == await told(observations, "\ud800") == []


async def test_timeline_goes_across_sessions_of_all_surfaces(
    observations: Observations, records: Records, panes: Sessions, clock: FakeClock
) -> None:
    clock.now_ms = bound("2026-02-01T00:00:00Z", is_end=False)
    await observations.submit(document(outcomes=[{"type": "pr", "id": "T-1"}], ended_at=END))
    await records.create(NewSession("rest", "by-rest"))
    clock.now_ms += 1000
    await records.update("by-rest", phase="planning")
    await records.update("by-rest", phase="planning")
    await records.add_record("by-rest", "checkpoint", {"state": {"task_id": "T-1"}}, ref="half")
    clock.now_ms += 1000
    await records.finish("by-rest", "failed", reason="no luck")
    events = await observations.timeline("T-1", ALWAYS)
    shown = [(each["session_id"], each["type"]) for each in events]
    assert shown == [
        ("ABC-123", "session_started"),
        ("ABC-123", "outcome"),
        ("ABC-123", "session_ended"),
        ("by-rest", "session_started"),
        ("by-rest", "phase_changed"),
        ("by-rest", "checkpoint"),
        ("by-rest", "session_ended"),
    ]
    assert events[-1] | {"status": "error", "phase": "failed", "reason": "no luck"} == events[-1]
    assert (events[4]["from"], events[4]["to"]) == ("initializing", "planning")
    # A pane's, too, and one that goes on again is not told to have ended.
    await panes.append_output("ada", "{}")
    archived = await panes.archive("ada")
    assert archived is not None
    name = (await panes.read_archive(archived.archive_zoneid)).session_id
    assert [kind for kind, _ in await told(observations, name)] == [
        "session_started",
        "session_ended",
    ]
    await panes.restore(archived.archive_zoneid)
    assert [kind for kind, _ in await told(observations, name)] == [
        "session_started",
        "phase_changed",
        "phase_changed",
    ]


async def test_bounds_that_are_dates_include_their_days(observations: Observations) -> None:
    at = ["30T23:59:59.999", "31T00:00:00.000", "31T23:59:59.999"]
    checkpoints = [{"name": each, "timestamp": f"2026-01-{each}Z"} for each in at]
    checkpoints.append({"name": "next day", "timestamp": "2026-02-01T00:30:00+01:00"})
    await observations.submit(document(checkpoints=checkpoints, started_at="2020-01-01T00:00:00Z"))

    async def names(start: str, end: str) -> list[str]:
        window = Window(bound(start, is_end=False), bound(end, is_end=True))
        return [each["name"] for each in await observations.timeline("ABC-123", window)]

    assert await names("2026-01-31", "2026-01-31") == [at[1], "next day", at[2]]
    assert await names("2026-01-30", "2026-01-30") == [at[0]]
    assert await names("2026-02-01", "2026-01-31") == []
    assert await names("2026-01-31T23:59:59.999Z", "2026-01-31T23:59:59.999Z") == [at[2]]


async def test_what_is_told_again_and_again_is_one_event(observations: Observations) -> None:
    more: dict[str, Any] = {"checkpoints": [checkpoint("a", "09:20:00")]}
    more["outcomes"] = [{"type": "pr", "id": "P"}]
    for end in ("2026-01-31T10:00:00Z", "2026-01-31T11:00:00Z"):
        await observations.submit(document(**more, ended_at=end))
    assert [kind for kind, _ in await told(observations, "P")] == [
        "session_started", "checkpoint", "outcome", "session_ended",
    ]  # fmt: skip
    assert (await told(observations, "P"))[-1][1] == "2026-01-31T11:00:00.000Z"


async def test_latest_checkpoint_of_a_name_is_restored(
    observations: Observations, records: Records
) -> None:
    both = [checkpoint("a", "09:40:00", n=2), checkpoint("a", "09:20:00", n=1)]
    await observations.submit(document(checkpoints=both))
    assert (await observations.checkpoint("ABC-123", "a"))["state"] == {"n": 2}
    # By the order of records, not by clocks; one that says nothing of it changes nothing.
    await observations.submit(document(checkpoints=[checkpoint("a", "09:10:00", n=3)]))
    await observations.submit(document(checkpoints=None))
    assert (await observations.checkpoint("ABC-123", "a"))["state"] == {"n": 3}
    await records.add_record("ABC-123", "checkpoint", {"state": {"n": 4}}, ref="a")
    assert (await observations.checkpoint("ABC-123", "a"))["state"] == {"n": 4}
    for session_id, name in (("ABC-123", "b"), ("nobody", "a"), ("\ud800", "a")):
        with pytest.raises(NotFoundError):
            await observations.checkpoint(session_id, name)


# -- reading


async def test_slices_fill_their_budget_and_lead_to_all_messages(
    observations: Observations, records: Records
) -> None:
    await records.create(NewSession("rest", "s"))
    for number in range(9):
        await records.add_message("s", "agent", f"{number}" * 40)
    found: list[dict[str, Any]] = []
    before: int | None = None
    while True:
        newest = await observations.messages("s", before_seq=before, chars_max=100)
        part = cut(newest, 100)
        assert sum(len(each["text"]) for each in part["messages"]) <= 100
        found = part["messages"] + found
        before = part.get("before")
        if before is None:
            break
    assert [each["text"][0] for each in found] == list("012345678")


async def test_message_over_the_budget_is_shown_by_its_end(
    observations: Observations, records: Records
) -> None:
    await records.create(NewSession("rest", "s"))
    await records.prompt("s", "first")
    await records.add_message("s", "agent", "one, ", partial=True, message_id="m")
    await records.add_message("s", "agent", "x" * 200 + "end", message_id="m")
    part = cut(await observations.messages("s", before_seq=None, chars_max=100), 100)
    (shown,) = part["messages"]
    assert shown["text"] == "x" * 97 + "end"
    assert (shown["cut_chars"], part["before"]) == (108, shown["seq"])


@given(st.lists(st.integers(0, 30), max_size=12), st.integers(1, 60))
def test_newest_are_those_that_fill_the_budget_and_one(sizes: list[int], budget: int) -> None:
    """Told one by one they are cut to the same as all of them."""
    said = [Said(seq, "user", "x" * size, None) for seq, size in enumerate(sizes)]
    newest = Newest(budget)
    for each in said:
        newest.add(each)
    assert cut(newest.found, budget) == cut(said, budget)
    assert sum(len(each.text) for each in newest.found[2:]) < budget or len(said) < 3


# -- waiting


async def test_who_waits_is_told_of_records_and_files(
    store: FileStore, records: Records, panes: Sessions
) -> None:
    watchers = Watchers(store)
    await panes.append_output("ada", "{}")
    ada = (await panes.read_state("ada")).session_id
    known = await watchers.wait({ada: "?", "s": "?", "\ud800": "?"}, timeout_s=0)
    assert (known["s"], known["\ud800"]) == ("", "")

    async def next_of(change: Any) -> set[str]:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(watchers.wait(known, timeout_s=20))
            await change
        known.update(waiting.result())
        return set(waiting.result())

    assert await next_of(records.create(NewSession("cli", "s"))) == {"s"}
    assert await next_of(records.update("s", phase="planning")) == {"s"}
    assert await next_of(panes.append_output("ada", "{}")) == {ada}
    assert await next_of(panes.write_state("ada", b"{}")) == {ada}
    assert await next_of(panes.append_output("s", "{}")) == {"s"}
    assert await watchers.wait(known, timeout_s=0) == {}
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(watchers.wait(known, timeout_s=20))
        await panes.read_state("ada")
        watchers.stop()
    assert waiting.result() == {}
    with pytest.raises(TooLargeError):
        await watchers.wait({str(n): "" for n in range(1001)}, timeout_s=0)
