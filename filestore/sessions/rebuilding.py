"""Rebuilding a snapshot from its stream, without destroying anything.

The stream is folded outside any transaction. Then one transaction, which gives up if the snapshot
or the session is not the one that was looked at:

1. if there is a snapshot with bytes, the zone is copied to a new archive, as it is: the copy has
   the old snapshot and the stream, a session id of its own, and in its zone's meta whose it was;
2. the rebuilt snapshot is written where the old one stood; the session keeps its id.

Killed at any moment, the store has both or neither. Whoever saves meanwhile wins: the session is
looked at again, and rebuilt only if that is still wanted.
"""

import asyncio

import orjson

from filestore.chunking import Prepared
from filestore.clock import Clock
from filestore.errors import CorruptionError, NotFoundError, TooLargeError, VersionConflictError
from filestore.replay import Replay
from filestore.sessions import rows, units
from filestore.sessions.covering import KEPT_META, Covering, look
from filestore.sessions.model import Rebuilt
from filestore.sessions.names import OUTPUT, STATE, archive_zone
from filestore.sessions.preview import Summary, preview_of, said, summarise
from filestore.sessions.replaying import Folds, StreamFold
from filestore.sessions.rows import SessionRow
from filestore.sessions.units import Looked
from filestore.store import FileStore
from filestore.transaction import Transaction

TRIES_MAX = 8
STATE_BYTES_MAX = 48 << 20


class Rebuilder:
    """Rebuilds snapshots of one store."""

    def __init__(self, store: FileStore, folds: Folds, clock: Clock) -> None:
        self._store = store
        self._folds = folds
        self._clock = clock

    async def rebuild(
        self,
        zone: str,
        new_id: str,
        provider: str | None = None,
        *,
        is_forced: bool = False,
        state_bytes_max: int = STATE_BYTES_MAX,
    ) -> Rebuilt:
        """Rebuild the snapshot in a zone if it is missing, unparsable, damaged or behind, or else
        if forced. `new_id` is for the archive that keeps what is replaced.

        Durable on return. Repeated, it does nothing more: a snapshot that a fold would give again
        is left alone, forced or not. Raises NotFoundError, TooLargeError, CorruptionError, and
        VersionConflictError if somebody saves again and again.
        """
        for number in range(TRIES_MAX):
            found = await look(self._store, zone)
            if not (found.trouble or is_forced):
                return _left_alone(found)
            fold = await self._folds.fold(zone, provider)
            if fold is None:
                return _left_alone(found)
            try:
                return await self._replace(found, fold, new_id, state_bytes_max)
            except VersionConflictError:
                if number == TRIES_MAX - 1:
                    raise
            finally:
                self._folds.keep(fold)
        raise AssertionError("the last try returns or raises")

    async def _replace(
        self, found: Covering, fold: StreamFold, new_id: str, state_bytes_max: int
    ) -> Rebuilt:
        replay, old = fold.replay, await self._old(found)
        if old is not None and await asyncio.to_thread(_is_rebuilt, old, replay):
            return _left_alone(found)
        snapshot = await asyncio.to_thread(replay.snapshot, saved_at_ms=self._clock())
        if len(snapshot) > state_bytes_max:
            raise TooLargeError(
                f"the rebuilt snapshot has {len(snapshot)} bytes, at most {state_bytes_max} are "
                "stored",
                limit=state_bytes_max,
                operation="replay",
                zone=found.zone,
                hint="read the stream itself: zoned replay",
            )
        prepared = await self._store.prepare(snapshot)
        summaries = (
            await asyncio.to_thread(summarise, old or b""),
            await asyncio.to_thread(_summary_of, replay),
        )
        version, kept = await self._store.transact(
            lambda tx: replace(tx, found, prepared, summaries, new_id), cost_bytes=len(snapshot)
        )
        return Rebuilt(
            written=True,
            trouble=found.trouble,
            session_id=found.row.session_id,
            version=version,
            lines=replay.lines,
            covered=replay.covered,
            node_count=summaries[1].node_count,
            torn=replay.is_torn,
            provider=replay.provider,
            kept=kept,
        )

    async def _old(self, found: Covering) -> bytes | None:
        """The present snapshot; None if there is none that can be read."""
        if found.state is None or found.trouble == "damaged":
            return None
        try:
            return await self._store.read(found.zone, STATE)
        except (NotFoundError, CorruptionError):
            return None


async def replace(
    tx: Transaction,
    found: Covering,
    prepared: Prepared,
    summaries: tuple[Summary, Summary],
    new_id: str,
) -> tuple[int, str]:
    """The transaction. `summaries` are of the old and of the new snapshot. Returns the version of
    the new one, and the archive that keeps the old one.
    """
    zone, (of_old, of_new) = found.zone, summaries
    row, state = await rows.load(tx.rows, zone), await tx.stat(zone, STATE)
    version = state.version if state else 0
    if row is None or row.session_id != found.row.session_id or version != found.version:
        raise VersionConflictError(
            "the session has changed meanwhile",
            current_version=version,
            session_id=row.session_id if row else "",
            operation="replay",
            zone=zone,
        )
    kept = ""
    if state is not None and state.size:
        if row.archived_ms is None and row.state_version != version:
            looked = Looked({}, {}, is_last=True)
            row = await units.note_summary(tx, row, version, of_old, looked)
        kept = await _keep(tx, zone, row, new_id)
    info = await tx.write(zone, STATE, prepared, if_version=version)
    changed = row._replace(
        preview=of_new.preview,
        node_count=of_new.node_count,
        has_nodes=1,
        covered=of_new.covered,
        state_version=info.version,
        state_bytes=prepared.size if row.archived_ms is not None else 0,
    )
    await rows.save(tx.rows, row, changed)
    return info.version, kept


async def _keep(tx: Transaction, zone: str, row: SessionRow, new_id: str) -> str:
    """Copy the zone, as it is, to an archive of its own. Returns the zone of that."""
    ms = await units.archive_time(tx, row.definition_id)
    target = archive_zone(row.definition_id, ms)
    await tx.copy_zone(zone, target)
    await tx.set_meta(target, None, {KEPT_META: row.session_id})
    copied = await tx.zone_row(target)
    assert copied is not None, "it was made just now"
    files = {info.name: info for info in await tx.files(target) or []}
    state, output = files[STATE], files.get(OUTPUT)
    await rows.insert(
        tx.rows,
        row._replace(
            zone_id=copied.id,
            session_id=new_id,
            archived_ms=ms,
            state_bytes=state.size,
            output_bytes=output.size if output else 0,
            output_lines=output.lines if output else 0,
            state_version=state.version,
            restored_from_ms=None,
            displaced_ms=None,
        ),
        reason="rebuilt",
    )
    return target


def _is_rebuilt(snapshot: bytes, replay: Replay) -> bool:
    """True if the fold gives this very snapshot, whenever it was saved."""
    try:
        document = orjson.loads(snapshot)
    except orjson.JSONDecodeError:
        return False
    saved_at = document.get("savedAt") if isinstance(document, dict) else None
    return type(saved_at) is int and replay.snapshot(saved_at_ms=saved_at) == snapshot


def _summary_of(replay: Replay) -> Summary:
    nodes = replay.nodes()
    return Summary(preview_of(said(nodes)), len(nodes), replay.covered, True)


def _left_alone(found: Covering) -> Rebuilt:
    return Rebuilt(
        written=False,
        trouble=found.trouble,
        session_id=found.row.session_id,
        version=found.version,
        lines=found.lines,
        covered=found.mark or 0,
        node_count=found.row.node_count,
        torn=found.is_torn,
        provider="",
        kept="",
    )
