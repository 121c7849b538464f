"""The methods without a daemon: the data folder, opened in this process.

Runs the same table of methods that the daemon serves, on an event loop that lives as long as the
store is open. Holds the folder's lock meanwhile, unless it only looks.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, cast

from filestore import FileStore, LockedError, StoreError
from filestore.sessions import Sessions
from srv.cli.progress import Bar
from srv.cli.screen import Screen
from srv.config import Config
from srv.errors import ZonedError, told
from srv.rpc.params import check
from srv.rpc.service import Service, store_limits
from srv.rpc.table import find_method
from srv.upgrade import upgrade

if TYPE_CHECKING:
    from srv.rpc.method import Method

LOCK_WAIT_MS = 60_000
"""How long to wait for other commands, many of them perhaps; a daemon is not waited for, but asked.
"""


class LocalStore:
    """An open store behind the methods. Serves as the `Caller` of its calls."""

    def __init__(
        self,
        config: Config,
        screen: Screen,
        *,
        is_read_only: bool,
        lock_wait_ms: int = LOCK_WAIT_MS,
    ) -> None:
        # What the store has to say to an operator is for the daemon's log.
        logging.getLogger().addHandler(logging.NullHandler())
        self.service: Service
        self._config = config
        self._methods: dict[str, Method] = {}
        self._runner = asyncio.Runner()
        try:
            self._runner.run(self._open(config, screen, is_read_only, lock_wait_ms))
        except BaseException as error:
            self._runner.close()
            if isinstance(error, StoreError):
                raise _refused(error) from error
            raise
        self._is_open = True

    async def _open(
        self, config: Config, screen: Screen, is_read_only: bool, lock_wait_ms: int
    ) -> None:
        store = await FileStore.open(
            config.data_dir,
            sync=config.sync,
            read_only=is_read_only,
            kind="command",
            lock_wait_ms=lock_wait_ms,
            limits=store_limits(config),
            upgrade=upgrade if config.migrate else None,
        )
        if store.folder_was_tightened:
            screen.warn(f"{config.data_dir} was open to others; its mode is now 0700")
        self.service = Service(store, Sessions(store), config, progress=Bar(screen).step)

    def call(self, method: str, params: Mapping[str, object]) -> object:
        """Call a method and wait for its answer. Raises ZonedError."""
        try:
            return self._runner.run(self._call(method, params))
        except Exception as error:  # turned into what the daemon would have answered
            if (found := told(error)) is None:
                raise
            raise found from error

    def answer(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        """A call whose answer is an object."""
        answer = self.call(method, params)
        assert isinstance(answer, dict), method
        return answer

    async def _call(self, name: str, params: Mapping[str, object]) -> object:
        method = self._methods.get(name)
        if method is None:
            method = self._methods[name] = find_method(self._config, name)
        result = method.run(self, **check(params, method.spec))
        if method.lane != "now":
            result = await cast("Awaitable[object]", result)
        return method.shape(result) if method.shape else result

    def subscribe(self, definition_id: str, since: int | None) -> tuple[int, int]:
        """There is nobody to notify."""
        raise ZonedError("UNAVAILABLE", "following needs a daemon", hint="start it: zoned serve")

    def unsubscribe(self, subscription: int) -> None:
        """There are none."""
        raise ZonedError("NOT_FOUND", f"there is no subscription {subscription}")

    def close(self) -> None:
        """Close the store. Safe to call twice."""
        if self._is_open:
            self._is_open = False
            with self._runner as runner:
                runner.run(self._close())

    async def _close(self) -> None:
        await self.service.sessions.close()
        await self.service.store.close()


def _refused(error: StoreError) -> ZonedError:
    found = told(error)
    assert found is not None
    if isinstance(error, LockedError) and error.kind == "daemon" and error.socket:
        # It has just started, or is about to end: soon one of the two ways is open.
        found.data["daemon"] = "starting"
    return found
