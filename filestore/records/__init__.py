"""Session records: one model of a session under REST, the command line, hooks, MCP and panes.

`Records(store)` is the face; docs/specs/0008-session-records.md the law.
"""

from filestore.journal.model import (
    OPEN_PHASES,
    OUTCOMES,
    PHASES,
    STATUSES,
    Origin,
    Outcome,
    Phase,
    Record,
    RecordKind,
    SessionInfo,
    Status,
)
from filestore.records.lists import Filter, SessionPage
from filestore.records.messages import Message
from filestore.records.records import NewSession, Records
from filestore.records.repos import Repo

__all__ = [
    "OPEN_PHASES",
    "OUTCOMES",
    "PHASES",
    "STATUSES",
    "Filter",
    "Message",
    "NewSession",
    "Origin",
    "Outcome",
    "Phase",
    "Record",
    "RecordKind",
    "Records",
    "Repo",
    "SessionInfo",
    "SessionPage",
    "Status",
]
