"""Where a session stands: the rule of resuming, its phases so far, whose session it is. The rule
and the fold are pure; the search runs on a store whose clock stands still.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filestore import FileStore
from filestore.journal.fold import fold, opened
from filestore.journal.model import (
    OPEN_PHASES,
    OUTCOMES,
    PHASES,
    STATUS_OF,
    Record,
    SessionInfo,
)
from filestore.records import NewSession, Records
from filestore.records.info import why_not_resume
from filestore.records.states import Wanted, find_for_task, load_state, phase_changes
from filestore.sessions import Sessions
from tests.conftest import FakeClock

MINUTE = 60_000
NOW = 1_700_000_000_000
RESUMABLE = {"approval", "investigating", "planning"}


def session(**fields: Any) -> SessionInfo:
    whole: dict[str, Any] = {
        "id": "s", "definition_id": "s", "origin": "cli", "status": "active", "phase": "planning",
        "created_ms": 0, "updated_ms": NOW, "ended_ms": None, "agent_name": None, "purpose": None,
        "title": None, "repo_id": None, "context": None, "metadata": {}, "summary": None,
        "reason": None, "error_count": 0, "last_error": None, "zone": "", "is_busy": False,
        "records": 1,
    }  # fmt: skip
    return SessionInfo(**whole | fields)


@pytest.mark.parametrize("phase", PHASES)
def test_phase_decides(phase: Any) -> None:
    status = STATUS_OF.get(phase, "active")
    why_not = why_not_resume(session(phase=phase, status=status), NOW)
    assert (why_not == "") == (phase in RESUMABLE)
    if why_not:
        assert why_not == f"its phase is {phase}"


@pytest.mark.parametrize(
    ("age_ms", "is_so"),
    [(0, True), (30 * MINUTE - 1, True), (30 * MINUTE, True), (30 * MINUTE + 1, False),
     (-1, True), (-365 * 24 * 60 * MINUTE, True), (NOW, False)],
)  # fmt: skip
def test_half_an_hour_is_the_limit_and_belongs_to_it(age_ms: int, is_so: bool) -> None:
    assert (why_not_resume(session(updated_ms=NOW - age_ms), NOW) == "") == is_so


@pytest.mark.parametrize(("errors", "is_so"), [(0, True), (2, True), (3, False), (1000, False)])
def test_third_error_is_one_too_many(errors: int, is_so: bool) -> None:
    assert (why_not_resume(session(error_count=errors), NOW) == "") == is_so


@given(
    phase=st.sampled_from(PHASES),
    age_ms=st.integers(-(1 << 40), 1 << 40) | st.integers(30 * MINUTE - 2, 30 * MINUTE + 2),
    errors=st.integers(0, 5),
)
def test_rule_is_that_of_the_spec(phase: Any, age_ms: int, errors: int) -> None:
    told = session(phase=phase, status=STATUS_OF.get(phase, "active"), error_count=errors,
                   updated_ms=NOW - age_ms)  # fmt: skip
    wanted = phase in RESUMABLE and age_ms <= 30 * MINUTE and errors < 3
    assert (why_not_resume(told, NOW) == "") == wanted


ENDS: dict[str, str] = dict(STATUS_OF.items())
STEPS = st.lists(
    st.sampled_from(OPEN_PHASES).map(lambda each: ("phase", each))
    | st.sampled_from(OUTCOMES).map(lambda each: ("end", each))
    | st.just(("open", "")),
    max_size=12,
)


@given(steps=STEPS)
def test_changes_of_phase_are_those_of_the_fold(steps: list[tuple[str, str]]) -> None:
    """Told step by step, whatever the order: what the row's phase went through."""
    first = {"id": "s", "definition_id": "s", "origin": "cli"}
    records = [Record(0, 0, "open", first)]
    row = opened(1, records[0])
    wanted = []
    for seq, (kind, to) in enumerate(steps, 1):
        bodies: dict[str, dict[str, Any]] = {
            "open": {"reason": "restored"},
            "phase": {"from": row.phase, "to": to},
            "end": {"phase": to, "status": ENDS.get(to)},
        }
        records.append(Record(seq, seq * 10, kind, bodies[kind]))  # type: ignore[arg-type]  # one of the three
        after = fold(row, records[-1])
        if after.phase != row.phase:
            wanted.append((row.phase, after.phase, seq * 10))
        row = after
    assert phase_changes(records) == wanted


async def test_state_is_of_one_moment(
    store: FileStore, records: Records, panes: Sessions, clock: FakeClock
) -> None:
    await records.create(NewSession("cli", "s"))
    for phase in ("planning", "planning", "executing"):
        clock.now_ms += 1000
        await records.update("s", phase=phase, metadata={"k": phase}, error="e")
    await panes.append_output("s", "x")
    zone = await panes.archive("s")
    assert zone is not None
    await panes.restore(zone.archive_zoneid)
    state = await store.view(lambda tx: load_state(tx, "s", clock.now_ms))
    assert [(each.from_phase, each.to_phase) for each in state.history] == [
        ("initializing", "planning"), ("planning", "executing"), ("executing", "completed"),
        ("completed", "executing"),
    ]  # fmt: skip
    assert state.session == await records.get("s")
    assert state.why_not == "its phase is executing"


async def test_session_of_a_task_is_found(
    store: FileStore, records: Records, clock: FakeClock
) -> None:
    async def make(name: str, agent: str, phase: str | None, task: object = None) -> None:
        clock.now_ms += MINUTE
        metadata = {} if task is None else {"task_id": task}
        await records.create(NewSession("rest", name, agent_name=agent, metadata=metadata))
        await records.update(name, phase=phase)

    await make("old", "coder", "planning")
    clock.now_ms += 31 * MINUTE
    await make("t1", "coder", "planning", "1")
    await make("t2", "coder", "executing", "2")
    await make("number", "coder", "planning", 1)
    await make("other", "tester", "planning", "1")
    await make("ended", "coder", "planning", "1")
    await records.finish("ended", "completed")

    async def found(agent: str | None, task: str | None, for_resume: bool = False) -> str | None:
        wanted = Wanted(agent, task, for_resume)
        state = await store.view(lambda tx: find_for_task(tx, wanted, clock.now_ms))
        return None if state is None else state.session.id

    assert await found("coder", None) == "number"
    assert await found("coder", "1") == "t1"
    assert await found("coder", "2") == await found("coder", "2", True) == "t2"
    assert await found(None, "1") == "other"
    assert (
        await found("nobody", None) is await found(None, None) is await found("coder", "") is None
    )
    await records.update("number", phase="executing")
    assert await found("coder", None, True) == "t1"
    await records.finish("t1", "completed")
    assert await found("coder", None, True) == "number", "none can be resumed: the latest"
