"""The snapshot that replay builds: the pane's picture, painted again from the stream. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from filestore.replay.nodes import Node

SCHEMA_VERSION = 1


class Replayed(NamedTuple):
    """Where a snapshot came from."""

    provider: str
    lines: int
    skipped: int
    torn: bool


def build_snapshot(
    nodes: Sequence[Node], covered: int, replayed: Replayed, saved_at_ms: int | None = None
) -> bytes:
    """The snapshot as JSON. Equal arguments give equal bytes.

    `covered`: how many lines of the stream the nodes cover. `saved_at_ms` is given only when the
    snapshot is written to the store.
    """
    document: dict[str, object] = {"schemaVersion": SCHEMA_VERSION}
    if saved_at_ms is not None:
        document["savedAt"] = saved_at_ms
    document["highWaterMark"] = covered
    document["historyOffset"] = 0
    document["nodes"] = nodes
    document["replayed"] = replayed._asdict()
    return orjson.dumps(document)
