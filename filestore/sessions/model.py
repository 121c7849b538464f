"""What the operations on sessions give back. Sizes are bytes, times Unix milliseconds.

All are immutable; rows of long lists are tuples, which are made faster.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

SessionChangeKind = Literal["state", "output", "archived", "restored", "deleted", "gap"]


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session as a pane reads it. `content` and `modts` are None when there is no snapshot.

    `recovered`: lines that the snapshot does not cover and that were there at start; None: not
    known.
    """

    content: bytes | None
    modts: int | None
    version: int
    session_id: str
    output_bytes: int
    output_lines: int
    recovered: int | None


@dataclass(frozen=True, slots=True)
class StateWritten:
    """A saved snapshot."""

    bytes_written: int
    version: int
    modts: int
    session_id: str
    unchanged: bool


@dataclass(frozen=True, slots=True)
class OutputAppended:
    """Appended lines.

    All 0 when every line was blank; `offset` and `first_line` then say the end.
    """

    bytes_written: int
    offset: int
    first_line: int
    lines: int


@dataclass(frozen=True, slots=True)
class Archived:
    """A session that was finished."""

    archive_zoneid: str
    archived_at_ms: int


class ArchiveInfo(NamedTuple):
    """One row in the list of finished sessions."""

    archive_zoneid: str
    archived_at_ms: int
    preview: str
    node_count: int
    session_id: str
    started_at_ms: int
    state_bytes: int
    output_bytes: int
    output_lines: int


@dataclass(frozen=True, slots=True)
class Restored:
    """A session that goes on again. `archived` is the zone of what was current, or empty."""

    session_id: str
    version: int
    archived: str


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """One row in the list of agents; all but `archives` is about the current session."""

    definition_id: str
    has_state: bool
    modts: int | None
    preview: str
    node_count: int
    archives: int
    output_lines: int


@dataclass(frozen=True, slots=True)
class OutputPage:
    """Lines of a stream without their line breaks. `next_line` is where to go on."""

    lines: list[bytes]
    first_line: int
    total_lines: int
    next_line: int


@dataclass(frozen=True, slots=True)
class SessionChange:
    """Something that happened to an agent's sessions, at a position to resume from.

    state: `version`. output: `offset`, `size`, and `data` (the bytes themselves) when they are few.
    archived, restored, deleted: `zone`, that of the archive. gap: read again what matters.
    """

    position: int
    kind: SessionChangeKind
    version: int = 0
    offset: int | None = None
    size: int | None = None
    data: bytes | None = None
    zone: str = ""
