"""Folding a stream into what it shows. Pure. `Replay` is the face of this package."""

from filestore.replay.fold import (
    PROVIDERS,
    ProviderName,
    Replay,
    Skipped,
    replay,
    replay_bytes,
)
from filestore.replay.nodes import Node
from filestore.replay.scan import LineScan, count_lines
from filestore.replay.snapshot import Replayed, build_snapshot

__all__ = [
    "PROVIDERS",
    "LineScan",
    "Node",
    "ProviderName",
    "Replay",
    "Replayed",
    "Skipped",
    "build_snapshot",
    "count_lines",
    "replay",
    "replay_bytes",
]
