"""The `zoned` command as a process of its own, as a user starts it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "srv.cli.main"]
END_S_MAX = 20.0


def environment(**more: str) -> dict[str, str]:
    """The environment without settings of ours, plus `more`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ZONED_")}
    return kept | more


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=END_S_MAX,
        check=False,
    )


@contextmanager
def running(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that is killed at the end if it is still there."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    """What it says first on stdout; empty if it ends without a word."""
    assert process.stdout is not None
    return process.stdout.readline()


def end(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[int, str, str]:
    """Send a signal and wait. Returns exit code, the rest of stdout, and stderr."""
    process.send_signal(number)
    out, err = process.communicate(timeout=END_S_MAX)
    return process.returncode, out, err
