"""Where `zoned replay` gets a stream from: a session of the store, a file, or stdin.

The store is opened to look, beside the daemon if there is one: nobody waits for a long fold, and
how far it is can be shown.
"""

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from srv.cli import folder
from srv.cli.backend import load_config
from srv.cli.options import Invocation, UsageError
from srv.cli.progress import Bar
from srv.cli.words import size
from srv.errors import ZonedError, told

if TYPE_CHECKING:
    from filestore.lines import LineSkip
    from filestore.replay import ProviderName, Replay

PIECE_BYTES = 1 << 20
_DEFINITION_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


class Source(NamedTuple):
    """What the argument means."""

    kind: Literal["session", "file"]
    place: str
    """A definition id or the zone of an archive; or the path of a file, - for stdin."""


def source_of(word: str) -> Source:
    """A name that can be an agent's is one; a file of that name is told apart by `./`."""
    if word != "-" and (word.startswith("agent:") or _DEFINITION_ID.fullmatch(word)):
        return Source("session", word)
    return Source("file", word)


def fold(call: Invocation, source: Source) -> "Replay":
    """The whole stream, folded. Raises ZonedError, OSError."""
    if source.kind == "session":
        return _fold_session(call, source.place)
    replay, skip = new_replay(call), new_skip(call)
    bar = Bar(call.screen)
    try:
        for piece, done, total in read_pieces(source.place):
            replay.feed_bytes(skip.rest_of(piece))
            bar.tell(done, total, f"{source.place}: {replay.lines} lines, {size(done)}")
        replay.finish()
    finally:
        bar.end()
    return replay


def new_replay(call: Invocation) -> "Replay":
    """A fold with what the flags say."""
    from filestore.replay import Replay

    return Replay(provider_of(call), first_line=call.count("from_line") or 0)


def provider_of(call: Invocation) -> "ProviderName | None":
    """The provider that was named."""
    from filestore.sessions.replaying import check_provider

    return check_provider(call.text("provider"))


def new_skip(call: Invocation) -> "LineSkip":
    """What passes over the lines before --from-line."""
    from filestore.lines import LineSkip

    return LineSkip(call.count("from_line") or 0)


def read_pieces(path: str) -> Iterator[tuple[bytes, int, int]]:
    """A file in pieces, how many bytes that makes so far, and of how many; 0 where nobody knows."""
    try:
        descriptor = 0 if path == "-" else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            total, done = os.fstat(descriptor).st_size, 0
            while data := os.read(descriptor, PIECE_BYTES):
                done += len(data)
                yield data, done, max(total, done) if total else 0
        finally:
            if descriptor:
                os.close(descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def _fold_session(call: Invocation, place: str) -> "Replay":
    import asyncio

    from filestore import StoreError
    from filestore.sessions.names import zone_of

    zone_of(place)
    config = load_config(call)
    folder.prepare(config.data_dir, call.screen)
    if not os.path.exists(config.data_dir / folder.DATABASE_NAME):
        raise no_session(place)
    bar = Bar(call.screen)
    try:
        with asyncio.Runner() as runner:
            found = runner.run(_fold(call, place, bar))
    except StoreError as error:
        raise told(error) or error from error
    finally:
        bar.end()
    if found is None:
        raise no_session(place)
    return found


async def _fold(call: Invocation, place: str, bar: Bar) -> "Replay | None":
    from filestore import FileStore
    from filestore.sessions.replaying import fold_stream

    data_dir = load_config(call).data_dir
    async with await FileStore.open(data_dir, read_only=True) as store:
        return await fold_stream(
            store,
            place,
            call.text("provider"),
            first_line=call.count("from_line") or 0,
            progress=lambda done, total: bar.tell(
                done, total, f"{place}: {size(done)} of {size(total)}"
            ),
        )


def no_session(place: str) -> ZonedError:
    """What is said of an agent without a stream."""
    hint = "zoned agents lists those that have one"
    if os.path.exists(place):
        hint = f"if you mean the file, write ./{place}"
    return ZonedError("NOT_FOUND", f"{place} has no stream", hint=hint)


def refuse_file(source: Source, flag: str) -> None:
    """Some things can be done with sessions only."""
    if source.kind != "session":
        raise UsageError(f"{flag} takes an agent or an archive, not a file", "replay")
