"""The way to the store from inside of the daemon: its own methods, called directly."""

import asyncio
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from filestore import StoreError
from srv.errors import ZonedError, told
from srv.rpc.params import check
from srv.rpc.service import Service
from srv.rpc.table import all_methods

READS_MAX = 4
"""At a time, as for a client of RPC."""
WAIT_S = 1.0
"""Who is watched from then on is asked about after so long at most."""


class Inside:
    """Calls of a daemon's own methods. Serves as the `Caller` of them."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._methods = all_methods(service.config)
        self._reads = asyncio.Semaphore(READS_MAX)

    async def call(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        """Call a method. Raises ZonedError."""
        found = self._methods[method]
        with _told_errors():
            run = found.run(self, **check(params, found.spec))
            work = cast("Awaitable[dict[str, Any]]", run)
            if found.lane == "write":
                return await work
            async with self._reads:
                return await work

    async def changed(self, known: Mapping[str, str]) -> dict[str, str]:
        """The states of sessions that are not as they are known to be."""
        with _told_errors():
            return await self.service.watchers.wait(known, timeout_s=WAIT_S)

    def subscribe(self, definition_id: str, since: int | None) -> tuple[int, int]:
        """Nobody who comes this way can be notified."""
        raise ZonedError("UNAVAILABLE", "subscribe by way of RPC")

    def unsubscribe(self, subscription: int) -> None:
        """There are none."""
        raise ZonedError("NOT_FOUND", f"there is no subscription {subscription}")


@contextmanager
def _told_errors() -> Iterator[None]:
    """Errors of the store as those who call from outside are told them."""
    try:
        yield
    except StoreError as error:
        found = told(error)
        assert found is not None
        raise found from error
