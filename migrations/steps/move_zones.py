"""Moving a session's zone to another definition, as part of a transaction, so that whatever is
there already survives.

Where both have a zone of the same suffix, one of them takes the place as a whole, and the other
becomes an archive of the new owner. Files are never mixed.
"""

from filestore import FileInfo, Transaction
from filestore.sessions import rows
from filestore.sessions.adopting import drop_session, rename_session
from filestore.sessions.names import parse_session
from filestore.sessions.preview import summarise
from filestore.sessions.units import read_snapshot
from migrations.steps.parts import (
    digest_of,
    free_archive,
    free_session_id,
    newest_ms,
    started_ms,
)


async def move_zone_to(tx: Transaction, zone: str, target_id: str) -> bool:
    """Move a zone to the same suffix under `target_id`. False if it was dropped instead, because
    there is the same already, or nothing in it."""
    suffix = zone.split(":", 2)[2]
    wanted = f"agent:{target_id}:{suffix}"
    theirs = await tx.files(wanted)
    if theirs is None:
        await _rename(tx, zone, wanted)
        return True
    ours = await tx.files(zone) or []
    if not _has_bytes(ours) or await _is_same(tx, ours, theirs):
        await drop_session(tx, zone)
        return False
    if not _has_bytes(theirs):
        await drop_session(tx, wanted)
    elif newest_ms(ours) > newest_ms(theirs):
        await _rename(tx, wanted, await free_archive(tx, target_id, newest_ms(theirs)))
    else:
        wanted = await free_archive(tx, target_id, newest_ms(ours))
    await _rename(tx, zone, wanted)
    return True


async def _rename(tx: Transaction, zone: str, to: str) -> None:
    """Rename a zone and its session. A malformed name is nobody's session: then only the zone."""
    before, after = parse_session(zone), parse_session(to)
    if after is None:
        await tx.move_zone(zone, to)
        return
    files = await tx.files(zone) or []
    has_row = await rows.load(tx.rows, zone) is not None
    ends = before is not None and (before[1] is None) != (after[1] is None)
    summary = None
    if ends or not has_row:
        summary = summarise((await read_snapshot(tx, zone))[1])
    new_id = await free_session_id(tx, to, zone)
    await rename_session(tx, zone, to, new_id, started_ms(files) or tx.rows.now_ms(), summary)


def _has_bytes(files: list[FileInfo]) -> bool:
    return any(info.size for info in files)


async def _is_same(tx: Transaction, ours: list[FileInfo], theirs: list[FileInfo]) -> bool:
    """True if the files with bytes have the same names and the same content."""
    left, right = ({info.name: info for info in files if info.size} for files in (ours, theirs))
    if {name: info.size for name, info in left.items()} != {
        name: info.size for name, info in right.items()
    }:
        return False
    for name, info in left.items():
        if await digest_of(tx, info) != await digest_of(tx, right[name]):
            return False
    return True
