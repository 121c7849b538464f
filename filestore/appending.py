"""Adding bytes to the tail of a file whose head is known: nothing here waits or can fail.

Nearly every append comes to a file that had one a moment ago. `append_lines_at_once` is its way, a
plain function over what memory holds; all others come here through transaction.py.
"""

from filestore.engine.base import TailRecord, Tx
from filestore.heads import Head
from filestore.lines import Open
from filestore.model import Change, LinesAppended

_new = tuple.__new__
"""Makes a named tuple without the detour through its constructor: for what every append makes."""


def append_to(
    tx: Tx, key: tuple[str, str], head: Head, data: bytes, ended: int, state: Open
) -> int:
    """Add bytes, in which `ended` lines end, to the file that `head` is of. Returns the version."""
    row, _, offset, before, was_open, _, _ = head
    now, version, size, total = tx.now_ms(), tx.next_version(), len(data), before + ended
    file_id = row[0]
    tx.tail_append(file_id, _new(TailRecord, (version, offset, before, ended, state, now, data)))
    tx.heads[key] = _new(Head, (row, version, offset + size, total, state, now, None))
    # Nearly always nothing is open on either side; `lines` and `counts` are calls.
    first = head.lines if was_open else before
    lines = total - first + (state.counts if state else 0)
    place = (version, "append", *key, version, offset, size, None, file_id, first, lines)
    tx.publish(_new(Change, place))
    return version


def append_lines_at_once(
    tx: Tx, key: tuple[str, str], data: bytes, count: int
) -> LinesAppended | None:
    """What `append_kept_lines` does, if the file is known and nothing is in the way; else None."""
    head: Head | None = tx.heads.get(key)
    if head is None or head.open or head.damage is not None or not count:
        return None
    version = append_to(tx, key, head, data, count, Open.NOTHING)
    return _new(LinesAppended, (head.size, head.ended, count, len(data), version))
