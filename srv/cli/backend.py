"""Who answers a verb's calls: the daemon of the data folder, or the store opened in this process.

The method names, parameters and answers are the same either way (docs/specs/0003-rpc.md), and a
verb does not know which it is. The daemon is found by the folder's lock, which names its socket. It
may come and go at any moment; then the choice is made again, and the call repeated. So every call
that changes something must be safe to repeat: it carries its guard, or is idempotent by itself.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from srv.cli import folder
from srv.cli.options import Invocation
from srv.cli.screen import Screen
from srv.config import Config, load
from srv.errors import ZonedError

PATIENCE_S = 15.0
"""How long a call is repeated before its failure is told."""
PAUSE_S = 0.05
HURRIED_LOCK_WAIT_MS = 10_000
"""How long who gives a daemon little time waits for other commands."""
GONE_MAX = 5
"""So often may the daemon hang up on one call: it may be the call that it does not bear."""

Json = dict[str, Any]
Params = Mapping[str, object]


class Served(Protocol):
    """One of the two: srv.client.BlockingClient, or srv.cli.local.LocalStore."""

    def call(self, method: str, params: Params) -> object:
        """Call a method. Raises ZonedError."""

    def close(self) -> None:
        """End it. Safe to call twice."""


class Backend:
    """What verbs call. `repeats` tells how many calls were repeated with an unknown outcome.

    `daemon_s`: how long a daemon has for all of a call; None: as long as commands usually wait.
    """

    def __init__(
        self, config: Config, screen: Screen, *, is_reading: bool, daemon_s: float | None = None
    ) -> None:
        self.config = config
        self._daemon_s = daemon_s
        self._deadline = 0.0
        self.repeats = 0
        self._screen = screen
        self._is_reading = is_reading
        self._served: Served | None = None
        self._is_local = False

    def call(self, method: str, params: Params) -> object:
        """Call a method and wait for its answer, through a restart of the daemon and a full queue.

        Raises ZonedError when it was refused, or when it has failed for PATIENCE_S.
        """
        deadline = self._deadline = time.monotonic() + (self._daemon_s or PATIENCE_S)
        repeats = self.repeats
        while True:
            try:
                if self._served is None:
                    self._served = self._choose()
                return self._served.call(method, params)
            except ZonedError as error:
                pause_s = self._pause_s(error)
                is_late = pause_s is not None and time.monotonic() + pause_s > deadline
                if pause_s is None or is_late or self.repeats - repeats > GONE_MAX:
                    raise
            self._screen.flush()
            time.sleep(pause_s)

    def object(self, method: str, params: Params) -> Json:
        """A call whose answer is an object."""
        answer = self.call(method, params)
        assert isinstance(answer, dict), method
        return answer

    def rows(self, method: str, params: Params) -> list[Json]:
        """A call whose answer is a list of rows."""
        answer = self.call(method, params)
        assert isinstance(answer, list), method
        return answer

    @property
    def daemon_socket(self) -> str:
        """Where a daemon of this folder listens now, or empty."""
        return folder.read_holder(self.config.data_dir).daemon_socket

    def rest(self) -> bool:
        """Nothing to call for a while: let others have the folder. True if it was open here."""
        was_open = self._is_local and self._served is not None
        if was_open:
            self.close()
        return was_open

    def close(self) -> None:
        """End the connection, or close the store. Safe to call twice."""
        served, self._served = self._served, None
        if served is not None:
            served.close()

    def _choose(self) -> Served:
        data_dir = self.config.data_dir
        if socket := self.daemon_socket:
            from srv.client.blocking import TIMEOUT_S, BlockingClient

            self._is_local = False
            # A daemon that has little time has it for all of a call, repeats included.
            left_s = max(self._deadline - time.monotonic(), PAUSE_S)
            try:
                return BlockingClient(socket, timeout_s=left_s if self._daemon_s else TIMEOUT_S)
            except ZonedError as error:
                if error.data.get("daemon") != "absent":
                    raise
                # It died without cleaning up, or is ending: the lock will tell.
        from srv.cli.local import LOCK_WAIT_MS, LocalStore

        can_look = self._is_reading and os.path.exists(data_dir / folder.DATABASE_NAME)
        self._is_local = True
        wait_ms = HURRIED_LOCK_WAIT_MS if self._daemon_s else LOCK_WAIT_MS
        return LocalStore(self.config, self._screen, is_read_only=can_look, lock_wait_ms=wait_ms)

    def _pause_s(self, error: ZonedError) -> float | None:
        """How long to wait before the call is repeated; None: it is not."""
        match error.kind, error.data.get("daemon"):
            case ("UNAVAILABLE", "gone") | ("COMMIT_UNKNOWN", _):
                # A store whose commit failed like this takes no writes; opened anew, it may.
                self.close()
                self.repeats += 1
                return PAUSE_S
            case "BUSY", "starting":
                return PAUSE_S
            case "BUSY", _:
                wait_ms = error.data.get("retry_after_ms")
                return wait_ms / 1000 if isinstance(wait_ms, int) and wait_ms else None
        return None


@contextmanager
def connected(
    call: Invocation, *, is_reading: bool, daemon_s: float | None = None
) -> Iterator[Backend]:
    """The backend for one command, on its data folder, made if it is missing."""
    config = load_config(call)
    folder.prepare(config.data_dir, call.screen)
    backend = Backend(config, call.screen, is_reading=is_reading, daemon_s=daemon_s)
    try:
        yield backend
    finally:
        backend.close()


def is_empty(call: Invocation) -> bool:
    """True if there is no store yet, nor a daemon that is about to make one: nothing to look for,
    and nothing is to be made by looking.
    """
    data_dir = load_config(call).data_dir
    return not (os.path.lexists(data_dir / folder.DATABASE_NAME) or folder.is_locked(data_dir))


def load_config(call: Invocation) -> Config:
    """The settings a command runs with. Raises ConfigError."""
    return load({k: v for k, v in call.flags.items() if k == "data_dir"}, os.environ).config


def place_of(word: str) -> dict[str, object]:
    """A definition id or an archive's zone as the methods take either."""
    return {"archive_zoneid" if ":" in word else "definition_id": word}
