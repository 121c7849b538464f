"""Sessions as plain objects: what records and panes do to them, without any of the store's code."""

from dataclasses import dataclass, field
from typing import Any

FINAL = {"completed": "completed", "failed": "error", "abandoned": "cancelled"}
RESUMABLE = ("investigating", "planning", "approval")


@dataclass(slots=True)
class Session:
    """One session. `zone`: empty, the current one, or an archive's."""

    id: str
    definition: str
    origin: str
    number: int
    """Sessions that began later have greater ones."""
    agent: str | None = None
    repo: str | None = None
    status: str = "active"
    phase: str = "initializing"
    open_phase: str = "initializing"
    metadata: dict[str, Any] = field(default_factory=dict)
    errors: int = 0
    last_error: str | None = None
    summary: str | None = None
    reason: str | None = None
    is_busy: bool = False
    zone: str = ""
    kinds: list[str] = field(default_factory=lambda: ["open"])
    messages: list[tuple[str, str, str]] = field(default_factory=list)
    """Id, role, text; where their last chunks stand."""
    partial: set[str] = field(default_factory=set)

    @property
    def is_final(self) -> bool:
        return self.status != "active"

    def say(self, message_id: str, role: str, text: str, *, partial: bool = False) -> None:
        """A message, or one more chunk of it."""
        before = "".join(each[2] for each in self.messages if each[0] == message_id)
        self.messages = [each for each in self.messages if each[0] != message_id]
        self.messages.append((message_id, role, before + text))
        self.kinds.append("message")
        self.partial.discard(message_id)
        if partial:
            self.partial.add(message_id)
        elif role == "agent":
            self.is_busy = False

    def end(self, outcome: str, *, summary: str | None = None, reason: str | None = None) -> None:
        self.status, self.phase, self.reason = FINAL[outcome], outcome, reason
        self.summary = summary if summary is not None else self.summary
        self.is_busy = False
        self.kinds.append("end")

    def go_on(self) -> None:
        self.status, self.phase, self.reason = "active", self.open_phase, "restored"
        self.kinds.append("open")


class Model:
    """All sessions of a store, by id."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self._begun = 0

    def begin(self, session_id: str, definition: str, origin: str, **more: Any) -> Session:
        self._begun += 1
        session = Session(session_id, definition, origin, self._begun, **more)
        self.sessions[session_id] = session
        return session

    def current(self, definition: str) -> Session | None:
        zone = f"agent:{definition}:current"
        return next((each for each in self.sessions.values() if each.zone == zone), None)

    def waiting(self, definition: str) -> Session | None:
        """The one whose first file would be written to the current zone."""
        found = [
            each
            for each in self.sessions.values()
            if each.definition == definition and not each.zone and not each.is_final
        ]
        return max(found, key=lambda each: each.number, default=None)

    def newest_first(self) -> list[Session]:
        return sorted(self.sessions.values(), key=lambda each: -each.number)
