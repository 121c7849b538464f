"""Agent sessions on zones: state, stream, archives. `Sessions` is the face of this package."""

from filestore.sessions.model import (
    AgentInfo,
    Archived,
    ArchiveInfo,
    Finding,
    OutputAppended,
    OutputPage,
    PrunePage,
    Rebuilt,
    RecoveryPage,
    ReplayPage,
    Restored,
    SessionChange,
    SessionState,
    StateWritten,
    Usage,
)
from filestore.sessions.sessions import Sessions
from filestore.sessions.subscription import Subscription

__all__ = [
    "AgentInfo",
    "ArchiveInfo",
    "Archived",
    "Finding",
    "OutputAppended",
    "OutputPage",
    "PrunePage",
    "Rebuilt",
    "RecoveryPage",
    "ReplayPage",
    "Restored",
    "SessionChange",
    "SessionState",
    "Sessions",
    "StateWritten",
    "Subscription",
    "Usage",
]
