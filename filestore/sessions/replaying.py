"""Replaying the stream of a session: read from the store in pieces, folded off the event loop.

A fold goes on where it was: streams only grow. So the last few are kept for a short while, and who
asks for the next page, or asks again, pays for the new lines only. A fold is out of the box while
it is in use; whoever else wants the same one meanwhile makes his own. Memory is bounded by the
nodes of the folds that are made at a time (FOLDS_MAX; more are refused) and of those kept.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import orjson

from filestore.errors import BusyError, ClosedError, InvalidArgumentError
from filestore.lines import LineSkip
from filestore.reading import ReadTransaction
from filestore.replay import PROVIDERS, Node, ProviderName, Replay
from filestore.sessions import rows
from filestore.sessions.model import ReplayPage
from filestore.sessions.names import OUTPUT, missing, zone_of
from filestore.store import FileStore

FOLDS_MAX = 4
FOLDS_KEPT = 2
KEPT_S = 30.0
RETRY_MS = 200
READS_MAX = 5
PAGE_NODES_MAX = 10_000
PAGE_BYTES_MAX = 8 << 20
NODE_BYTES_MAX = 8 << 20
"""The texts of a node that is larger are cut in a page; a snapshot has all of it."""
TEXT_CHARS_MAX = 1 << 20

Progress = Callable[[int, int], None]
"""Told how many bytes of how many have been read. Called on the event loop."""


class _Stream(NamedTuple):
    """The stream of a zone; no file if nothing was appended yet. `zone_version` changes when the
    zone is renamed, so another stream in its place is noticed.
    """

    file_id: int | None
    size: int = 0
    zone_version: int = 0


class StreamFold:
    """One stream, folded as far as it has been read.

    `first_line` starts it in the middle: lines before are passed over.
    """

    def __init__(
        self, file_id: int, provider: ProviderName | None = None, *, first_line: int = 0
    ) -> None:
        self.file_id = file_id
        self.asked = provider
        self.replay = Replay(provider, first_line=first_line)
        self.offset = 0
        self.is_unterminated = False
        """The last line has no line break: what comes next may complete it, so this fold is over
        once it is finished."""
        self._skip = LineSkip(first_line)

    async def advance(self, store: FileStore, zone: str, progress: Progress | None = None) -> None:
        """Read on to the end of the stream. Raises NotFoundError, CorruptionError, BusyError."""
        for number in range(READS_MAX):
            before = await store.view(lambda tx: _find_stream(tx, zone))
            if before.file_id != self.file_id:
                raise _moved(zone)
            try:
                await self._read(store, zone, before.size, progress)
            except BusyError:
                # Beside another process the end of a file may be packed anew under the reader.
                if number == READS_MAX - 1:
                    raise
                continue
            after = await store.view(lambda tx: _find_stream(tx, zone))
            if after._replace(size=0) != before._replace(size=0):
                # Archived meanwhile: what was read may be of the session that came next.
                raise _moved(zone)
            return

    def finish(self) -> None:
        """Say that the stream ends here for now."""
        self.replay.finish()

    async def _read(
        self, store: FileStore, zone: str, size: int, progress: Progress | None
    ) -> None:
        if size <= self.offset:
            return
        async for piece in store.open_read(zone, OUTPUT, self.offset):
            await asyncio.to_thread(self._feed, piece)
            self.offset += len(piece)
            if progress is not None:
                progress(self.offset, max(size, self.offset))

    def _feed(self, piece: bytes) -> None:
        self.is_unterminated = not piece.endswith(b"\n")
        self.replay.feed_bytes(self._skip.rest_of(piece))


class Folds:
    """The folds of a store's streams. Belongs to the store's event loop; `stop` it before."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._kept: dict[tuple[int, ProviderName | None], StreamFold] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._running = 0
        self._is_stopped = False

    def stop(self) -> None:
        """End what is under way, by ClosedError: whoever ends the process does not wait for it."""
        self._is_stopped = True
        self.forget()

    def refuse_if_stopped(self) -> None:
        """Raise ClosedError after `stop`."""
        if self._is_stopped:
            raise ClosedError("replay is stopped", operation="replay")

    def forget(self) -> None:
        """Give back what is kept."""
        self._kept.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def fold(self, zone: str, provider: str | None) -> StreamFold | None:
        """The whole stream of a zone, folded and finished; None if it has none.

        It is the caller's until he hands it to `keep`. Raises NotFoundError for a zone that is no
        session's, BusyError when too many are under way.
        """
        name = check_provider(provider)
        self.refuse_if_stopped()
        found = await self._store.view(lambda tx: _find_stream(tx, zone))
        if found.file_id is None:
            return None
        if self._running >= FOLDS_MAX:
            raise BusyError(
                f"{FOLDS_MAX} streams are being replayed", operation="replay",
                retry_after_ms=RETRY_MS, hint="try again a little later",
            )  # fmt: skip
        fold = self._kept.pop((found.file_id, name), None)
        if fold is None or fold.offset > found.size:
            fold = StreamFold(found.file_id, name)
        self._running += 1
        try:
            await fold.advance(self._store, zone, lambda *_: self.refuse_if_stopped())
            await asyncio.to_thread(fold.finish)
        finally:
            self._running -= 1
        return fold

    def keep(self, fold: StreamFold) -> None:
        """Keep a fold for whoever asks next."""
        if fold.is_unterminated or self._is_stopped:
            return
        self._kept[fold.file_id, fold.asked] = fold
        while len(self._kept) > FOLDS_KEPT:
            del self._kept[next(iter(self._kept))]
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(KEPT_S, self.forget)

    async def page(
        self, place: str, provider: str | None = None, *, after: int = 0, limit: int = 0
    ) -> ReplayPage:
        """What a stream shows, from node number `after` on; `limit` 0 is as many as a page has."""
        if after < 0 or limit < 0:
            raise InvalidArgumentError("must not be negative", operation="replay")
        count = min(limit or PAGE_NODES_MAX, PAGE_NODES_MAX)
        fold = await self.fold(zone_of(place), provider)
        if fold is None:
            return ReplayPage([], 0, 0, False, provider or "generic", None)
        found = await asyncio.to_thread(_page, fold.replay, after, count)
        self.keep(fold)
        return found


def check_provider(provider: str | None) -> ProviderName | None:
    """Return `provider` if there is such, else raise InvalidArgumentError."""
    for name in PROVIDERS:
        if provider == name:
            return name
    if provider is None:
        return None
    raise InvalidArgumentError(
        f"there is no provider {ascii(provider)[:60]}; known are: {', '.join(PROVIDERS)}",
        operation="replay",
    )


def _page(replay: Replay, after: int, count: int) -> ReplayPage:
    nodes = replay.nodes()
    shown: list[Node] = []
    left = PAGE_BYTES_MAX
    for node in nodes[after : after + count]:
        size = len(orjson.dumps(node))
        if shown and size > left:
            break
        left -= size
        shown.append(node if size <= NODE_BYTES_MAX else _cut(node, size))
    end = after + len(shown)
    return ReplayPage(
        shown,
        replay.lines,
        replay.skipped,
        replay.is_torn,
        replay.provider,
        end if end < len(nodes) else None,
    )


def _cut(node: Node, size: int) -> Node:
    """A node too large for any page: its texts cut, what it was called with left out."""
    kept: Node = {
        key: value[:TEXT_CHARS_MAX] if isinstance(value, str) else value
        for key, value in node.items()
    }
    if "params" in kept:
        kept["params"] = {}
    return {**kept, "truncated": size}


async def _find_stream(tx: ReadTransaction, zone: str) -> _Stream:
    head = await tx.head(zone, OUTPUT)
    if head is None:
        if ":archive:" in zone and await rows.load(tx.rows, zone) is None:
            raise missing(zone, "replay")
        return _Stream(None)
    row = await tx.zone_row(zone)
    assert row is not None, "a file has a zone"
    return _Stream(head.row.id, head.size, row.version)


def _moved(zone: str) -> BusyError:
    return BusyError(
        "the session was archived or restored meanwhile",
        operation="replay",
        zone=zone,
        retry_after_ms=RETRY_MS,
        hint="ask again",
    )


async def fold_stream(
    store: FileStore,
    place: str,
    provider: str | None = None,
    *,
    first_line: int = 0,
    progress: Progress | None = None,
) -> Replay | None:
    """The whole stream of a session (an archive's zone, or a definition's current one), or that
    from a line on; None if it has none.
    """
    zone = zone_of(place)
    name = check_provider(provider)
    found = await store.view(lambda tx: _find_stream(tx, zone))
    if found.file_id is None:
        return None
    fold = StreamFold(found.file_id, name, first_line=first_line)
    await fold.advance(store, zone, progress)
    await asyncio.to_thread(fold.finish)
    return fold.replay
