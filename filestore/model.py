"""What callers hand in and get back: info records, limits, and the rules for names. Pure.

Every record is immutable; those made for each append are tuples, which are made faster. Sizes are
bytes, times are Unix milliseconds, versions and positions come from one store-wide rising counter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from filestore.errors import InvalidNameError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Sync = Literal["full", "normal"]
ChangeKind = Literal[
    "write", "append", "meta", "delete", "delete_zone", "move_zone", "copy_zone", "record", "gap"
]

ZONE_NAME_CHARS_MAX = 256
FILE_NAME_CHARS_MAX = 128
SHOWN_CHARS_MAX = 80
PIECE_BYTES_MAX = 1 << 20
"""`open_read` yields pieces of at most this size, and no chunk is larger."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Every bound of the store, by name. Full means refused loudly."""

    write_bytes_max: int = 256 << 20
    append_bytes_max: int = 64 << 20
    meta_bytes_max: int = 64 << 10
    page_rows_max: int = 1000
    read_lines_max: int = 100_000
    queue_units_max: int = 20_000
    queue_bytes_max: int = 128 << 20
    changes_kept: int = 20_000
    seal_bytes: int = 256 << 10
    log_bytes_soft: int = 16 << 20
    log_bytes_hard: int = 64 << 20
    wal_bytes_soft: int = 4 << 20
    wal_bytes_hard: int = 64 << 20
    cut_cache_bytes: int = 64 << 20
    readers: int = 3
    lease_s: float = 600.0
    ballast_bytes: int = 0
    """Kept free on the disk for the day it is full: see ballast.py."""


@dataclass(frozen=True, slots=True)
class ZoneInfo:
    """A zone. `version` changes when the zone is made, moved or gets other meta."""

    name: str
    version: int
    created_ms: int
    meta: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file. `digest` is the hex BLAKE3 of the content after a write, None after an append."""

    zone: str
    name: str
    size: int
    lines: int
    version: int
    created_ms: int
    modified_ms: int
    meta: Mapping[str, Json] = field(default_factory=dict)
    digest: str | None = None
    unchanged: bool = False


class Appended(NamedTuple):
    """Where appended bytes landed, and the size of the file with them."""

    offset: int
    size: int
    version: int


class LinesAppended(NamedTuple):
    """Where appended lines landed. `lines` = 0 and `bytes_written` = 0 when all were blank."""

    offset: int
    first_line: int
    lines: int
    bytes_written: int
    version: int


@dataclass(frozen=True, slots=True)
class LinePage:
    """Lines without their line breaks, and how many lines the file has."""

    lines: list[bytes]
    total: int


@dataclass(frozen=True, slots=True)
class ZonePage:
    """A page of zones. `after` is the argument for the next page, None when this was the last."""

    zones: list[ZoneInfo]
    after: str | None


class Change(NamedTuple):
    """One committed change. `position` rises by commit order and survives restarts.

    `gap`: changes between the last one seen and `position` are not known any more; read again what
    matters. For `move_zone` and `copy_zone`, `zone` is the new name and `source` the old one.
    `record`: of the journal of a session, with `zone` = `journal:` and its id, `offset` = its seq,
    or None when all were deleted.
    `file_id`, with appends, names the file whatever its zone is called later; the file had
    `first_line` lines before, and has `lines` more now.
    """

    position: int
    kind: ChangeKind
    zone: str = ""
    name: str | None = None
    version: int = 0
    offset: int | None = None
    size: int | None = None
    source: str | None = None
    file_id: int | None = None
    first_line: int | None = None
    lines: int | None = None


class Stats(NamedTuple):
    """What the store has done since it was opened, and how much waits."""

    commits: int = 0
    units: int = 0
    batch_units: int = 0
    """Units in the last group commit."""
    queue_units: int = 0
    queue_bytes: int = 0
    wal_bytes: int = 0
    log_bytes: int = 0


def check_zone_name(zone: str, operation: str) -> str:
    """Return `zone` if it is a valid zone name, else raise InvalidNameError."""
    return _check_name(zone, ZONE_NAME_CHARS_MAX, "zone", operation)


def check_file_name(name: str, operation: str) -> str:
    """Return `name` if it is a valid file name, else raise InvalidNameError."""
    return _check_name(name, FILE_NAME_CHARS_MAX, "file", operation)


def _check_name(value: object, chars_max: int, what: str, operation: str) -> str:
    # isprintable() is False for control and format characters, surrogates, unassigned code points
    # and every separator but the plain space: exactly what must not be in a name that people see
    # and scripts quote.
    if isinstance(value, str) and 0 < len(value) <= chars_max and value.isprintable():
        return value
    shown = ascii(value)
    shown = shown if len(shown) <= SHOWN_CHARS_MAX else shown[:SHOWN_CHARS_MAX] + "…"
    raise InvalidNameError(
        f"invalid {what} name {shown}: must be 1 to {chars_max} printable characters",
        operation=operation,
    )
