"""Where a session stands, for whoever may go on with it: its phases so far, and whether it should
be taken up again. The rule itself is `why_not_resume` (info.py).
"""

from collections.abc import Iterable
from typing import NamedTuple

from filestore.journal import rows
from filestore.journal.model import JournalRow, Record, SessionInfo
from filestore.journal.rows import COLUMNS
from filestore.reading import ReadTransaction
from filestore.records.info import find, info, why_not_resume

HISTORY_MAX = 10_000
"""So many changes of phase are told, the last ones."""
CANDIDATES_MAX = 1000
"""So many sessions are looked at to find one by its task, those of latest activity."""
TASK = "task_id"
"""Where the metadata of a session names its task."""


class PhaseChange(NamedTuple):
    """A session went from one phase to another."""

    from_phase: str
    to_phase: str
    at_ms: int


class State(NamedTuple):
    """A session, its phases, and why it should not be taken up again (empty: it should)."""

    session: SessionInfo
    history: list[PhaseChange]
    why_not: str


class Wanted(NamedTuple):
    """Whose session is looked for."""

    agent_name: str | None
    task_id: str | None
    for_resume: bool = False


def phase_changes(records: Iterable[Record]) -> list[PhaseChange]:
    """The changes that the records `open`, `phase` and `end` of a session tell, in order. Pure."""
    found: list[PhaseChange] = []
    phase = open_phase = "initializing"
    for record in records:
        match record.kind:
            case "phase":
                after = open_phase = record.body["to"]
            case "end":
                after = record.body["phase"]
            case "open":
                after = open_phase
            case _:
                continue
        if after != phase:
            found.append(PhaseChange(phase, after, record.at_ms))
        phase = after
    return found


async def load_state(tx: ReadTransaction, session_id: str, now_ms: int) -> State:
    """A session as of one moment. NotFoundError."""
    return await _state(tx, await find(tx, session_id, "state"), now_ms)


async def find_for_task(tx: ReadTransaction, wanted: Wanted, now_ms: int) -> State | None:
    """The session in which an agent works on a task: of those that go on, have the agent's name
    and name the task in their metadata (as far as given) the one of latest activity; `for_resume`
    one that should be taken up again comes first.
    """
    if wanted.agent_name is None and wanted.task_id is None:
        return None
    latest: JournalRow | None = None
    for row in await _active(tx, wanted.agent_name):
        if wanted.task_id is not None and row.metadata.get(TASK) != wanted.task_id:
            continue
        latest = latest or row
        if not wanted.for_resume:
            break
        if not why_not_resume(await info(tx, row), now_ms):
            return await _state(tx, row, now_ms)
    return None if latest is None else await _state(tx, latest, now_ms)


async def _active(tx: ReadTransaction, agent_name: str | None) -> list[JournalRow]:
    among, params = ("", ()) if agent_name is None else ("AND j.agent_name = ? ", (agent_name,))
    found = await tx.rows.fetch(
        f"SELECT {COLUMNS} FROM journal j WHERE j.status = 'active' {among}"
        "ORDER BY j.updated_ms DESC, j.id DESC LIMIT ?",
        (*params, CANDIDATES_MAX),
    )
    return [rows.unpack(row) for row in found]


async def _state(tx: ReadTransaction, row: JournalRow, now_ms: int) -> State:
    session = await info(tx, row)
    # One more than is told: what the phase was before it is not known.
    records = await rows.load_phases(tx.rows, row.id, HISTORY_MAX + 1)
    return State(session, phase_changes(records)[-HISTORY_MAX:], why_not_resume(session, now_ms))
