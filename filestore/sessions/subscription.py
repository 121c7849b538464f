"""What happens to the sessions of one definition, from the store's change feed.

A subscription is an iterator over the feed: it holds nothing but its position, so ending the
iteration frees everything, and a consumer that is too slow is told `gap` by the feed itself.
"""

from collections.abc import AsyncIterator
from contextlib import suppress

from filestore.errors import ClosedError
from filestore.model import Change
from filestore.sessions.model import SessionChange
from filestore.sessions.names import OUTPUT, STATE, current_zone
from filestore.store import FileStore

DATA_BYTES_MAX = 64 << 10
"""Appended lines come with the change up to this size."""


def subscribe(
    store: FileStore, definition_id: str, since: int | None
) -> AsyncIterator[SessionChange]:
    """Follow a definition's sessions after position `since`, or from this moment on."""
    changes = store.changes(f"agent:{definition_id}:", since)
    return _follow(store, changes, current_zone(definition_id))


async def _follow(
    store: FileStore, changes: AsyncIterator[Change], current: str
) -> AsyncIterator[SessionChange]:
    async for change in changes:
        if change.kind == "append" and change.zone == current and change.name == OUTPUT:
            yield await _output(store, change)
        elif (found := _translate(change, current)) is not None:
            yield found


def _translate(change: Change, current: str) -> SessionChange | None:
    """What a change of the store means for the sessions; None if nothing."""
    position = change.position
    match change.kind:
        case "gap":
            return SessionChange(position, "gap")
        case "write" if change.zone == current and change.name == STATE:
            return SessionChange(position, "state", version=change.version)
        case "move_zone" if change.source == current:
            return SessionChange(position, "archived", zone=change.zone)
        case "move_zone" | "copy_zone" if change.zone == current:
            return SessionChange(position, "restored", zone=change.source or "")
        case "delete_zone" if change.zone != current:
            return SessionChange(position, "deleted", zone=change.zone)
    return None


async def _output(store: FileStore, change: Change) -> SessionChange:
    offset, size = change.offset or 0, change.size or 0
    data: bytes | None = None
    file_id = change.file_id
    if size <= DATA_BYTES_MAX and file_id is not None:
        # By its id, because the session may have been archived meanwhile.
        with suppress(ClosedError):  # then this is one of the last changes, and ends without a word
            data = await store.view(lambda tx: tx.read_by_id(file_id, offset, size))
    return SessionChange(
        change.position, "output", version=change.version, offset=offset, size=size, data=data
    )
