"""The way to the store from outside of the daemon: a thread that makes one call after another.

What commands use (srv/cli/backend.py) waits, so it is given a thread of its own. It goes by the
running daemon, or else opens the data folder, and lets others have it again when there has been
nothing to do for a moment. Waiting for changes goes by a second thread, so that nobody waits behind
it; without a daemon it looks, now and then, whether the files have changed at all.
"""

import asyncio
import os
import queue
import threading
import time
from collections.abc import Mapping
from typing import Any

from srv.cli import folder
from srv.cli.backend import Backend
from srv.cli.screen import Screen
from srv.config import Config

REST_S = 0.5
"""So long is the folder kept open with nothing to do."""
WAIT_MS = 1000
HOLD_S = 2.0
"""So long is it kept open with much to do; a daemon that starts waits for ten."""
GIVE_S = 0.1
"""Then others get a moment in which to take it."""
END_S = 5.0
"""How long to wait at the end for the call that is under way."""

_Job = tuple["asyncio.Future[object]", str, Mapping[str, object]]


class Worker:
    """A thread that makes calls, in the order in which they are asked for."""

    def __init__(self, name: str, backend: Backend) -> None:
        self._backend = backend
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        # A daemon in Python's sense: what hangs in a call does not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def daemon_socket(self) -> str:
        """Where a daemon of this folder listens now, or empty."""
        return self._backend.daemon_socket

    async def call(self, method: str, params: Mapping[str, object]) -> object:
        """Make a call when those before it are done. Raises ZonedError."""
        future: asyncio.Future[object] = self._loop.create_future()
        self._jobs.put((future, method, params))
        return await future

    async def close(self) -> None:
        """Finish what is under way, for a moment, and end."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join, END_S)

    def _run(self) -> None:
        rested = time.monotonic()
        while True:
            try:
                job = self._jobs.get(timeout=REST_S)
            except queue.Empty:
                self._backend.rest()
                rested = time.monotonic()
                continue
            if time.monotonic() - rested > HOLD_S:
                if self._backend.rest():
                    time.sleep(GIVE_S)
                rested = time.monotonic()
            if job is None:
                self._backend.close()
                return
            self._do(*job)

    def _do(
        self, future: "asyncio.Future[object]", method: str, params: Mapping[str, object]
    ) -> None:
        if future.cancelled():
            return  # before it was begun: nobody waits for it
        try:
            answer, error = self._backend.call(method, params), None
        except Exception as found:  # told to who asked, whatever it is
            answer, error = None, found
        self._loop.call_soon_threadsafe(_settle, future, answer, error)


class Outside:
    """Calls by way of the daemon of the data folder, or of the folder itself."""

    def __init__(self, config: Config, screen: Screen) -> None:
        self._calls = Worker("zoned-calls", Backend(config, screen, is_reading=False))
        # Opened for reading it touches nothing, or it would wake itself.
        self._watching = Worker("zoned-watching", Backend(config, screen, is_reading=True))
        self._data_dir = config.data_dir
        self._seen: object = None

    async def call(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        """Call a method. Raises ZonedError."""
        answer = await self._calls.call(method, params)
        assert isinstance(answer, dict), method
        return answer

    async def changed(self, known: Mapping[str, str]) -> dict[str, str]:
        """The states of sessions that are not as they are known to be."""
        wait: dict[str, object] = {"known": known}
        if self._watching.daemon_socket:
            wait["timeout_ms"] = WAIT_MS
            self._seen = None
        else:
            await asyncio.sleep(WAIT_MS / 1000)
            # Taken before it is looked: what comes meanwhile is seen the next time.
            files = files_of(self._data_dir), frozenset(known.items())
            if files == self._seen:
                return {}
            self._seen = files
        answer = await self._watching.call("session:wait", wait)
        assert isinstance(answer, dict)
        return answer

    async def close(self) -> None:
        """Finish what is under way, and end."""
        await self._calls.close()
        await self._watching.close()


def files_of(data_dir: os.PathLike[str]) -> tuple[int, ...]:
    """Something that is not the same when the database has been written to."""
    found = []
    for name in (folder.DATABASE_NAME, folder.DATABASE_NAME + "-wal"):
        try:
            found.append(os.stat(os.path.join(data_dir, name)).st_mtime_ns)
        except FileNotFoundError:
            found.append(0)
    return tuple(found)


def _settle(future: "asyncio.Future[object]", answer: object, error: Exception | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(answer)
