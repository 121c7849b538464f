"""How the snapshot of a session covers its stream, and what is wrong with it if it does not.

A snapshot covers the lines before its highWaterMark. One without a mark, or with mark 0, does not
tell: it is never behind. A torn last line is not to be covered: the rest of it may still come. A
session without lines has nothing to be rebuilt from, so nothing is wrong with its snapshot.
"""

import asyncio
from typing import NamedTuple

import orjson

from filestore.errors import CorruptionError
from filestore.model import FileInfo
from filestore.reading import ReadTransaction
from filestore.replay.frames import parse
from filestore.sessions import rows
from filestore.sessions.model import Trouble
from filestore.sessions.names import OUTPUT, STATE, missing
from filestore.sessions.preview import LINES_COVERED_MAX
from filestore.sessions.rows import SessionRow
from filestore.store import FileStore

KEPT_META = "replaced"
"""The key in the meta of a zone that only keeps what replay has replaced; its value is the id of
the session that goes on.
"""


class Covering(NamedTuple):
    """A session, looked at. `mark` is None where the snapshot has none that tells."""

    zone: str
    row: SessionRow
    state: FileInfo | None
    lines: int
    is_torn: bool
    is_kept: bool
    """An archive that only keeps what was replaced: nothing in it is to be mended."""
    mark: int | None
    trouble: Trouble

    @property
    def version(self) -> int:
        """The version of the snapshot, 0 if there is none."""
        return self.state.version if self.state else 0

    @property
    def uncovered(self) -> int | None:
        """Whole lines behind the mark."""
        return None if not self.mark else max(0, self.lines - self.is_torn - self.mark)


class _Seen(NamedTuple):
    row: SessionRow
    state: FileInfo | None
    lines: int
    is_torn: bool
    is_kept: bool


async def look(store: FileStore, zone: str) -> Covering:
    """Look at one session. Raises NotFoundError if there is none."""
    seen = await store.view(lambda tx: _see(tx, zone))
    if seen.state is None:
        mark, trouble = None, _trouble(seen, None)
    else:
        # The row may know the mark, but not whether the snapshot can still be read.
        mark, trouble = await _look_into(store, zone, seen)
    return Covering(zone, *seen, mark, trouble)


async def _see(tx: ReadTransaction, zone: str) -> _Seen:
    row, info = await rows.load(tx.rows, zone), await tx.zone(zone)
    if row is None or info is None:
        raise missing(zone, "replay")
    head = await tx.head(zone, OUTPUT)
    lines = head.lines if head else 0
    is_torn = False
    if head is not None and head.open.counts:
        page = await tx.read_lines(zone, OUTPUT, lines - 1, 1)
        is_torn = parse(page.lines[0].strip()) is None
    is_kept = row.archived_ms is not None and KEPT_META in info.meta
    return _Seen(row, await tx.stat(zone, STATE), lines, is_torn, is_kept)


async def _look_into(store: FileStore, zone: str, seen: _Seen) -> tuple[int | None, Trouble]:
    has_lines = seen.lines > seen.is_torn
    try:
        snapshot = await store.read(zone, STATE)
    except CorruptionError:
        return None, "damaged" if has_lines else ""
    is_object, mark = await asyncio.to_thread(_mark, snapshot)
    if not is_object:
        return None, "unparsable" if has_lines else ""
    return mark, _trouble(seen, mark)


def _mark(snapshot: bytes) -> tuple[bool, int | None]:
    """Whether a snapshot is a JSON object, and its mark."""
    try:
        document = orjson.loads(snapshot)
    except orjson.JSONDecodeError:
        return False, None
    if not isinstance(document, dict):
        return False, None
    mark = document.get("highWaterMark")
    is_mark = type(mark) is int and 0 <= mark <= LINES_COVERED_MAX
    return True, mark if is_mark else None


def _trouble(seen: _Seen, mark: int | None) -> Trouble:
    whole = seen.lines - seen.is_torn
    if not whole:
        return ""
    if seen.state is None:
        return "missing"
    return "behind" if mark and mark < whole else ""
