"""The table of all methods, for whoever answers calls: the daemon, or a command on its own."""

from collections.abc import Mapping

from srv.config import Config
from srv.rpc import records
from srv.rpc.method import Method


def all_methods(config: Config) -> Mapping[str, Method]:
    """All methods by name, with the limits of `config`."""
    # Late: who calls one of `records` alone, as hooks do, must not wait for their import.
    from srv.rpc import (
        methods,
        migrating,
        observations,
        operating,
        replays,
        transcripts,
        upkeep,
    )

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


def find_method(config: Config, name: str) -> Method:
    """One of them."""
    return records.methods().get(name) or all_methods(config)[name]
