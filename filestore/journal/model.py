"""What a journal holds: records, and the row that is their fold. Times are Unix milliseconds."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

Status = Literal["active", "completed", "cancelled", "error"]
Phase = Literal[
    "initializing",
    "investigating",
    "planning",
    "approval",
    "executing",
    "validating",
    "completed",
    "failed",
    "abandoned",
]
Outcome = Literal["completed", "failed", "abandoned"]
RecordKind = Literal[
    "open", "message", "phase", "meta", "error", "checkpoint", "observation", "end", "note"
]
KINDS: frozenset[str] = frozenset(get_args(RecordKind))
Origin = Literal["pane", "rest", "cli", "mcp", "transcript"]
"""By which surface a session was begun."""

STATUSES: tuple[Status, ...] = get_args(Status)
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
PHASES: tuple[Phase, ...] = get_args(Phase)
OPEN_PHASES: tuple[Phase, ...] = PHASES[: -len(OUTCOMES)]
"""Those of a session that goes on; the others are outcomes, one for each final status."""
STATUS_OF: Mapping[Outcome, Status] = {
    "completed": "completed",
    "failed": "error",
    "abandoned": "cancelled",
}
RESUMABLE_PHASES = frozenset(("investigating", "planning", "approval"))
AFTER_THE_END: frozenset[RecordKind] = frozenset(("observation", "open"))
SESSION_ID_CHARS_MAX = 256
SEQ_BITS = 24
RECORDS_MAX = 1 << SEQ_BITS


class Record(NamedTuple):
    """One entry of a session. `ref` is what it can be found by again: the id of a message, the name
    of a checkpoint, or else what a caller named its call, to recognise a repeat.
    """

    seq: int
    at_ms: int
    kind: RecordKind
    body: dict[str, Any]
    ref: str | None = None


class JournalRow(NamedTuple):
    """A session as its records tell it. What the first comment stands before are columns; the rest
    is one, `more`.
    """

    id: int
    session_id: str
    definition_id: str
    status: Status
    phase: Phase
    origin: Origin
    created_ms: int
    updated_ms: int
    """Not before the last record; file changes move it on, about once a minute."""
    started_ms: int
    """When it was started by what an agent says of it, else when it was begun here."""
    agent_name: str | None
    repo_id: str | None
    is_busy: int = 0
    """1: a prompt waits for its answer."""
    records: int = 0
    """How many there are, so the seq of the next one."""
    # From here on: one column.
    ended_ms: int | None = None
    purpose: str | None = None
    title: str | None = None
    context: Any = None
    metadata: dict[str, Any] = {}  # noqa: RUF012  # never changed: the fold makes a new one
    summary: str | None = None
    reason: str | None = None
    error_count: int = 0
    last_error: str | None = None
    open_phase: Phase = "initializing"
    """The phase that a restored session goes on with."""
    asked: str | None = None
    """The prompt that waits for its answer: the id of its message."""
    answering: str | None = None
    """The message whose chunks are coming in."""
    messages: int = 0
    """How many there are, or what the last one was numbered as and one: the next one's number."""
    user_messages: int = 0
    observations: int = 0
    transcript_seq: int | None = None
    """The record that started a transcript."""

    @property
    def is_final(self) -> bool:
        """True if it has ended."""
        return self.status != "active"


class SessionInfo(NamedTuple):
    """A session as every surface shows it. `updated_ms` counts file changes too; `zone` is empty
    while it has no files.
    """

    id: str
    definition_id: str
    origin: Origin
    status: Status
    phase: Phase
    created_ms: int
    updated_ms: int
    ended_ms: int | None
    agent_name: str | None
    purpose: str | None
    title: str | None
    repo_id: str | None
    context: Any
    metadata: dict[str, Any]
    summary: str | None
    reason: str | None
    error_count: int
    last_error: str | None
    zone: str
    is_busy: bool
    records: int

    @property
    def is_archived(self) -> bool:
        """True if its zone is an archive."""
        return ":archive:" in self.zone

    @property
    def is_resumable(self) -> bool:
        """True if its phase is one that can be taken up again."""
        return self.status == "active" and self.phase in RESUMABLE_PHASES
