"""`zoned serve`: run the daemon, and say so when it is ready.

stdout carries the ready line and nothing else, printed when the daemon takes requests; logs go to
stderr.
"""

import asyncio
import logging
import os
import sys

import orjson
import uvloop

from migrations import ProgressLog
from srv import daemon, logs
from srv.cli.progress import Bar
from srv.cli.screen import Screen
from srv.config import Loaded
from srv.daemon import Ready


def serve(loaded: Loaded, *, is_json: bool) -> int:
    """Serve until a signal. Returns the exit code. `is_json`: no words for people."""
    config, dropped = loaded.config, _Dropped()
    is_terminal = not is_json and sys.stderr is not None and sys.stderr.isatty()
    bar = Bar(Screen())
    logs.start(
        config.log_level,
        is_terminal=is_terminal,
        is_coloured=is_terminal and not os.environ.get("NO_COLOR"),
        dropped=dropped.add,
        make_room=bar.end,
    )

    def on_ready(ready: Ready) -> None:
        bar.end()
        _say_ready(ready, is_json=is_json)

    progress = bar.step if is_terminal else ProgressLog()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(daemon.run(config, on_ready, lambda: dropped.count, progress))
    finally:
        bar.end()
    return 0


class _Dropped:
    """How many log lines were lost."""

    def __init__(self) -> None:
        self.count = 0

    def add(self) -> None:
        self.count += 1


def _say_ready(ready: Ready, *, is_json: bool) -> None:
    try:
        is_for_people = sys.stdout.isatty() and not is_json
        print(_ready_line(ready, is_for_people), flush=True)
    except (OSError, ValueError, AttributeError) as error:
        # Nobody listens to stdout; the daemon serves all the same.
        logging.getLogger("zoned.daemon").warning("nobody reads the ready line: %s", error)


def _ready_line(ready: Ready, is_for_people: bool) -> str:
    if is_for_people:
        socket = f"\n  socket  {ready.socket}" if ready.socket else ""
        return (
            "zoned is ready. Ctrl-C to stop.\n"
            f"  {ready.url}?token={ready.token}{socket}\n"
            f"  data    {ready.data_dir}"
        )
    told = {"ready": True, **ready._asdict()}
    del told["token"]
    return orjson.dumps(told).decode()
