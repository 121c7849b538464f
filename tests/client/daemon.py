"""The real daemon under a client: started, stopped, killed and started again on one data folder."""

import json
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.support.processes import COMMAND, END_S_MAX, first_line, running

if TYPE_CHECKING:
    import subprocess


class Daemon:
    """A daemon of the test's own. Its port changes with every start; its socket does not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._process: subprocess.Popen[str] | None = None
        self.url = self.rpc = self.socket = self.token = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self) -> None:
        """Start it; it is ready on return."""
        command = [*COMMAND, "serve", "--data-dir", str(self._folder), "--port", "0"]
        self._process = self._stack.enter_context(running([*command, "--sync", "normal"]))
        ready = json.loads(first_line(self._process))
        self.url, self.rpc, self.socket = ready["url"], ready["rpc"], ready["socket"]
        self.token = Path(ready["token_file"]).read_text(encoding="utf-8").strip()

    def kill(self) -> None:
        """kill -9, and wait until it is dead."""
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(END_S_MAX)

    def freeze(self) -> None:
        """It is there, but does nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def end(self) -> int:
        """SIGTERM. Returns the exit code."""
        self._signal(signal.SIGTERM)
        assert self._process is not None
        return self._process.wait(END_S_MAX)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
