"""What the operations on sessions give back. Sizes are bytes, times Unix milliseconds.

All are immutable; rows of long lists and answers to appends are tuples, which are made faster.
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


class OutputAppended(NamedTuple):
    """Appended lines.

    Nothing written, 0 lines, when every line was blank; `offset` and `first_line` then say the end.
    `duplicate`: they had been appended before, and this is the answer from then.
    """

    bytes_written: int
    offset: int
    first_line: int
    lines: int
    duplicate: bool = False


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


class Usage(NamedTuple):
    """What one agent takes. Bytes are those of snapshots and streams, before they are packed, and
    of the bodies of records.
    """

    definition_id: str
    archives: int
    archived_bytes: int
    archived_lines: int
    current_bytes: int
    current_lines: int
    oldest_ms: int
    """When its oldest archive was made; 0 without any."""
    recent_bytes: int
    """Of its archives since the time that was asked for."""
    records: int
    record_bytes: int
    """Of all its sessions, those without files, too."""


class PrunePage(NamedTuple):
    """Archives that were deleted, or would be; `next_ms`: if there is more, go on after it."""

    found: list[ArchiveInfo]
    next_ms: int | None


@dataclass(frozen=True, slots=True)
class OutputPage:
    """Lines of a stream without their line breaks. `next_line` is where to go on."""

    lines: list[bytes]
    first_line: int
    total_lines: int
    next_line: int


@dataclass(frozen=True, slots=True)
class ReplayPage:
    """What a stream shows, from a node on. `next` is where to go on, None behind the last node.

    The counts are those of the whole stream, as far as it was when this page was made.
    """

    nodes: list[dict[str, object]]
    lines: int
    skipped: int
    torn: bool
    provider: str
    next: int | None


Trouble = Literal["", "missing", "unparsable", "behind", "damaged"]
"""What is wrong with a snapshot: there is none, it is no JSON object, it does not cover all lines
of its stream, or its bytes fail their check. Empty: nothing.
"""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What became of a snapshot that was to be rebuilt.

    `trouble` is what was wrong before. Not `written`: nothing had to be, and nothing changed; the
    rest tells of the snapshot that stays, and of no `provider`.
    `kept`: the archive that has what was replaced, empty if that was nothing.
    """

    written: bool
    trouble: Trouble
    session_id: str
    version: int
    lines: int
    covered: int
    node_count: int
    torn: bool
    provider: str
    kept: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A session with something to recover, and what was done.

    `uncovered`: lines behind the snapshot's mark, None where it has none. `torn`: its stream ends
    in the middle of a line. `done`: rebuilt, or failed with `error`, or empty if nothing was tried.
    """

    zone: str
    session_id: str
    lines: int
    uncovered: int | None
    torn: bool
    trouble: Trouble
    done: Literal["", "rebuilt", "failed"] = ""
    kept: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class RecoveryPage:
    """Some of the sessions, looked at. `next` is where to go on, None behind the last one."""

    checked: int
    total: int
    found: list[Finding]
    next: int | None


@dataclass(frozen=True, slots=True)
class SessionChange:
    """Something that happened to an agent's sessions, at a position to resume from.

    state: `version`. output: `offset`, `size`, `first_line`, `lines` (how many), and `data` (the
    bytes themselves) when they are few. archived, restored, deleted: `zone`, that of the archive;
    of what was forked that of its source, and deleted may be the current session, too.
    gap: read again what matters.
    """

    position: int
    kind: SessionChangeKind
    version: int = 0
    offset: int | None = None
    size: int | None = None
    data: bytes | None = None
    zone: str = ""
    first_line: int | None = None
    lines: int | None = None
