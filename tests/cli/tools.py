"""Commands on one data folder, as a user types them: piped, or on a terminal of their own."""

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.support.processes import COMMAND, END_S_MAX, ROOT, environment, first_line, running

SNAPSHOT = b'{"nodes": [{"type": "user_message", "message": "Fix the build"}], "more": "\xc3\xa4"}'


class Answer(NamedTuple):
    """What a command gave back."""

    code: int
    out: bytes
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def text(self) -> str:
        return self.out.decode()


class Zoned:
    """Runs commands on one data folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []

    def words(self, *words: str) -> list[str]:
        return [*COMMAND, *words, "--data-dir", str(self.folder)]

    def __call__(self, *words: str, stdin: bytes = b"", **more: str) -> Answer:
        """Run a command to its end, whatever comes of it."""
        done = subprocess.run(
            self.words(*words),
            cwd=ROOT,
            env=environment(**more),
            input=stdin,
            capture_output=True,
            timeout=END_S_MAX,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr.decode())

    def ok(self, *words: str, stdin: bytes = b"") -> Answer:
        """Run a command that must succeed, and say nothing on stderr."""
        answer = self(*words, stdin=stdin)
        assert (answer.code, answer.err) == (0, "")
        return answer

    def json(self, *words: str, stdin: bytes = b"") -> Any:
        """Its answer to a script."""
        return self.ok(*words, "--json", stdin=stdin).json

    def start(self, *words: str, stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        """Start a command and leave it running."""
        process = subprocess.Popen(
            self.words(*words),
            cwd=ROOT,
            env=environment(),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._started.append(process)
        return process

    def end_all(self) -> None:
        """Kill what a failed test left running."""
        for process in self._started:
            process.kill()
            with process:
                pass

    def fill(self) -> str:
        """One agent with an archive and a current session. Returns the zone of the archive."""
        self.ok("append", "ada", stdin=b'{"n": 1}\n{"n": 2}\n')
        self.ok("write-state", "ada", stdin=SNAPSHOT)
        zone = self.json("archive", "ada")["archive_zoneid"]
        self.ok("append", "ada", stdin=b'{"n": 3}\n')
        assert isinstance(zone, str)
        return zone

    @contextlib.contextmanager
    def serving(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A daemon on the folder, ready."""
        with running(self.words("serve", "--port", "0", *words)) as process:
            assert json.loads(first_line(process))["ready"]
            yield process


def on_terminal(
    words: list[str],
    typed: bytes = b"",
    *,
    columns: int = 80,
    settings: Mapping[str, str] = MappingProxyType({}),
    folder: Path = ROOT,
) -> tuple[int, str]:
    """Run a command with a terminal for all its streams. Returns its code and all it showed."""
    ours, process = _start_on_terminal(words, columns, settings, folder)
    try:
        os.write(ours, typed)
        shown = b"".join(iter(lambda: _read(ours), b""))
        return process.wait(END_S_MAX), shown.decode().replace("\r\n", "\n")
    finally:
        os.close(ours)
        process.kill()
        process.wait()


@contextlib.contextmanager
def left_on_terminal(
    words: list[str], lines: int, settings: Mapping[str, str], folder: Path
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A command on a terminal of its own, and the first so many lines that it showed."""
    ours, process = _start_on_terminal(words, 80, settings, folder)
    try:
        shown = b""
        while shown.count(b"\n") < lines and (more := _read(ours)):
            shown += more
        yield process, shown.decode().replace("\r\n", "\n")
    finally:
        os.close(ours)
        process.kill()
        process.wait()


def _start_on_terminal(
    words: list[str], columns: int, settings: Mapping[str, str], folder: Path
) -> tuple[int, subprocess.Popen[bytes]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    unset = ("COLUMNS", "NO_COLOR")
    kept = {key: value for key, value in environment().items() if key not in unset}
    process = subprocess.Popen(
        words,
        cwd=folder,
        env=kept | {"TERM": "xterm", **settings},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    return ours, process


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how the end of a terminal is told on Linux
        return b""


def interrupt(process: subprocess.Popen[bytes]) -> Answer:
    """Press Ctrl-C."""
    process.send_signal(signal.SIGINT)
    return finish(process)


def finish(process: subprocess.Popen[bytes]) -> Answer:
    """Wait for its end."""
    out, err = process.communicate(timeout=END_S_MAX)
    return Answer(process.returncode, out, err.decode())
