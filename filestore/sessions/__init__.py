"""Agent sessions on zones: state, stream, archives. `Sessions` is the face of this package."""

from filestore.sessions.model import (
    AgentInfo,
    Archived,
    ArchiveInfo,
    OutputAppended,
    OutputPage,
    Restored,
    SessionChange,
    SessionState,
    StateWritten,
)
from filestore.sessions.sessions import Sessions

__all__ = [
    "AgentInfo",
    "ArchiveInfo",
    "Archived",
    "OutputAppended",
    "OutputPage",
    "Restored",
    "SessionChange",
    "SessionState",
    "Sessions",
    "StateWritten",
]
