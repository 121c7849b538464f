"""Clients of the daemon: `Client` for asyncio, `BlockingClient` for commands.

Neither is imported before it is asked for: a command that only talks to the daemon must not pay for
asyncio.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srv.client.blocking import BlockingClient
    from srv.client.client import Client
    from srv.client.output import OutputWriter
    from srv.client.subscription import Subscription

__all__ = ["BlockingClient", "Client", "OutputWriter", "Subscription"]

_HOMES = {
    "BlockingClient": "srv.client.blocking",
    "Client": "srv.client.client",
    "OutputWriter": "srv.client.output",
    "Subscription": "srv.client.subscription",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
