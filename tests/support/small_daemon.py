"""The `zoned` command with bounds so low that a few hundred KiB cause every kind of background
work: sealing, trimming, checkpoints, giving back space. Everything else is as users have it.

    python -m tests.support.small_daemon serve --data-dir …

Daemons that live for a tenth of a second would spend most of their time on importing. `Nest` keeps
a process that has imported everything and forks a daemon off it when asked: each is a process of
its own and ends on its own.
"""

import functools
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filestore import Limits
from filestore.engine import writer_tx
from srv.cli.main import main
from srv.rpc import service
from tests.support.child import SMALL
from tests.support.daemon import Daemon
from tests.support.faults import until_sync
from tests.support.processes import END_S_MAX, ROOT, environment

COMMAND = [sys.executable, "-m", "tests.support.small_daemon"]
NEST = "--nest"


def lower_bounds() -> None:
    lowered = {"Limits": functools.partial(Limits, **SMALL["limits"])}
    for module, values in ((service, lowered), (writer_tx, SMALL["writer"])):
        for name, value in values.items():
            assert hasattr(module, name), name
            setattr(module, name, value)


# -- the nest's own process


def hatch_forever() -> None:
    """For each line `[arguments, log, out]` on stdin, fork a process that runs the command."""
    # Imported by the verb itself only; here it is what shall not happen anew for each daemon.
    import srv.cli.serve  # noqa: F401 - imported for the forks

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin:
        arguments, log, out = json.loads(line)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            streams = (
                (os.devnull, os.O_RDONLY),
                (out, os.O_WRONLY),
                (log, os.O_WRONLY | os.O_CREAT),
            )
            for number, (path, flags) in enumerate(streams):
                os.dup2(os.open(path, flags, 0o600), number)
            os._exit(main(arguments))


# -- the harness's side


class Hatched(Daemon):
    """A daemon that a nest has forked off."""

    def __init__(self, data_dir: Path, out: Path, log: Path) -> None:
        self.data_dir = data_dir
        self._log = log
        descriptor = os.open(out, os.O_RDONLY | os.O_NONBLOCK)  # or it waits for a writer for ever
        # Open until the daemon ends: its end is the end of this file.
        self._out = os.fdopen(descriptor, "rb", buffering=0)
        assert select.select([self._out], [], [], END_S_MAX)[0], "no daemon came"
        os.set_blocking(descriptor, True)
        self.first_line = self._out.readline().decode()
        assert self.first_line, self.log
        self.ready = json.loads(self.first_line)

    def kill(self) -> None:
        """SIGKILL, and wait until nothing is left of it."""
        os.kill(self.pid, signal.SIGKILL)
        assert self._out.read() == b""
        self._out.close()
        until_sync(lambda: not self.is_alive(), END_S_MAX, 0.001)

    def end_by_signal(self) -> None:
        """SIGTERM, and wait until it has closed everything and ended."""
        os.kill(self.pid, signal.SIGTERM)
        assert self._out.read() == b""
        self._out.close()
        until_sync(lambda: not self.is_alive(), END_S_MAX, 0.001)

    def is_alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True


class Nest:
    """Forks daemons off; use through `nest`."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._count = 0

    def hatch(self, data_dir: Path) -> Hatched:
        """A daemon that is ready."""
        self._count += 1
        out, log = self._folder / f"out-{self._count}", self._folder / f"log-{self._count}"
        os.mkfifo(out)
        arguments = ["serve", "--data-dir", str(data_dir), "--port", "0"]
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([arguments, str(log), str(out)]) + "\n")
        self._process.stdin.flush()
        found = Hatched(data_dir, out, log)
        out.unlink()
        return found


@contextmanager
def nest(folder: Path) -> Iterator[Nest]:
    """A nest; the daemons' logs go to `folder`. Daemons are ended by whoever asked for them."""
    process = subprocess.Popen(
        [*COMMAND, NEST], cwd=ROOT, env=environment(), stdin=subprocess.PIPE, text=True
    )
    try:
        yield Nest(process, folder)
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    lower_bounds()
    if sys.argv[1:] == [NEST]:
        hatch_forever()
    else:
        sys.exit(main())
