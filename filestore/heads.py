"""What is known of a zone or a file: its row, verified, and the row moved on by the appends since.
Pure.
"""

from typing import Any, NamedTuple

from filestore.engine.base import Damage
from filestore.engine.schema import row_check
from filestore.errors import CorruptionError
from filestore.lines import Open
from filestore.meta import decode_meta
from filestore.model import ZoneInfo


class ZoneRow(NamedTuple):
    """A row of `zone`, without its check."""

    id: int
    name: str
    version: int
    created_ms: int
    meta: bytes

    def info(self) -> ZoneInfo:
        return ZoneInfo(self.name, self.version, self.created_ms, decode_meta(self.meta))


class FileRow(NamedTuple):
    """A row of `file`, without its check: the file as of its last write or seal."""

    id: int
    zone_id: int
    name: str
    version: int
    size: int
    ended: int
    open: int
    created_ms: int
    modified_ms: int
    pages: int
    digest: bytes | None
    meta: bytes


class Head(NamedTuple):
    """A file as it is now: its row, moved on by the appends since."""

    row: FileRow
    version: int
    size: int
    ended: int
    open: Open
    modified_ms: int
    damage: Damage | None

    @property
    def lines(self) -> int:
        """Lines that have a number; an unterminated last one counts."""
        return self.ended + self.open.counts


def zone_row(row: tuple[Any, ...]) -> ZoneRow:
    """A row of `zone` as it was fetched, its check last. Raises if that fails."""
    found = ZoneRow(*row[:-1])
    if row[-1] != row_check(*found):
        raise CorruptionError("the zone's row fails its check", zone=found.name)
    return found


def file_row(zone: str, row: tuple[Any, ...]) -> FileRow:
    """A row of `file` as it was fetched, its check last. Raises if that fails."""
    found = FileRow(*row[:-1])
    if row[-1] != row_check(*found):
        raise CorruptionError("the file's row fails its check", zone=zone, name=found.name)
    return found


def check_whole(zone: str, head: Head) -> None:
    """Raise if the end of the file is damaged: a shorter file would pass for the whole one."""
    if head.damage is not None and not head.damage.is_readable:
        raise damage_error(zone, head, head.damage)


def damage_error(zone: str, head: Head, damage: Damage) -> CorruptionError:
    """What is wrong with the end of the file, with its place."""
    if damage.is_readable:
        message = f"nothing more can be added: {damage.reason}"
    else:
        message = f"appended bytes are damaged: {damage.reason}"
    offset = damage.offset if damage.offset is not None else head.size
    return CorruptionError(message, zone=zone, name=head.row.name, offset=offset)


def located(error: CorruptionError, zone: str, name: str, offset: int | None) -> CorruptionError:
    """The same damage, with its place."""
    at = error.offset if error.offset is not None else offset
    return CorruptionError(error.message, operation="read", zone=zone, name=name, offset=at)
