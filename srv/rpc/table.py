"""The table of all methods, for whoever answers calls: the daemon, or a command on its own."""

from collections.abc import Mapping

from srv.config import Config
from srv.rpc import (
    methods,
    migrating,
    observations,
    operating,
    records,
    replays,
    transcripts,
    upkeep,
)
from srv.rpc.methods import Method


def all_methods(config: Config) -> Mapping[str, Method]:
    """All methods by name, with the limits of `config`."""
    return {
        **methods.methods(config),
        **replays.methods(config),
        **migrating.methods(),
        **upkeep.methods(),
        **operating.methods(),
        **transcripts.methods(),
        **records.methods(),
        **observations.methods(config),
    }
