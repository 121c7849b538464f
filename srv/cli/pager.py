"""A pager for what is longer than the screen, on a terminal only.

`$PAGER` if it is set (empty or `cat`: none), else `less -R` if it is there. It may be quit at any
moment: that is no failure.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, cast

from srv.cli.screen import Screen

if TYPE_CHECKING:
    import io

ROWS = 24


def show(screen: Screen, lines: Iterable[str], environ: Mapping[str, str] = os.environ) -> None:
    """Print the lines, in a pager if they do not fit the screen."""
    rest = iter(lines)
    if not screen.is_terminal or not (command := _command(environ)):
        for line in rest:
            screen.line(line)
        return
    # One row is for the prompt that comes back.
    head = list(islice(rest, rows()))
    if len(head) < rows():
        for line in head:
            screen.line(line)
        return
    _page(screen, command, head, rest, environ)


def _page(
    screen: Screen, command: str, head: list[str], rest: Iterable[str], environ: Mapping[str, str]
) -> None:
    screen.flush()
    env = {"LESS": "-R", **environ}
    pager = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, env=env)
    assert pager.stdin is not None
    # Ctrl-C is the pager's: it stops a search there, and must not leave it without its terminal.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    ours, screen.out = screen.out, cast("io.BufferedWriter", pager.stdin)
    try:
        for lines in (head, rest):
            for line in lines:
                screen.line(line)
        pager.stdin.close()
    except BrokenPipeError:
        # What is still in the buffer has no reader: closing says so once more, and lets it go.
        with contextlib.suppress(BrokenPipeError):
            pager.stdin.close()
    finally:
        screen.out = ours
        pager.wait()
        signal.signal(signal.SIGINT, before)


def _command(environ: Mapping[str, str]) -> str:
    if environ.get("TERM", "dumb") == "dumb":
        return ""
    given = environ.get("PAGER")
    if given is not None:
        return "" if given.strip() in ("", "cat") else given
    return "less -R" if shutil.which("less") else ""


def rows() -> int:
    """How many rows the terminal has, at least 2."""
    try:
        return max(os.get_terminal_size(1).lines, 2)
    except OSError:
        return ROWS
