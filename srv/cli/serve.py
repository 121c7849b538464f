"""`zoned serve`: run the daemon, and say so when it is ready.

stdout carries the ready line and nothing else, printed when the daemon takes requests; logs go to
stderr.
"""

import asyncio
import logging
import os
import sys
from functools import partial

import orjson
import uvloop

from srv import daemon, logs
from srv.config import Loaded
from srv.daemon import Ready


def serve(loaded: Loaded, *, is_json: bool) -> int:
    """Serve until a signal. Returns the exit code. `is_json`: no words for people."""
    config, dropped = loaded.config, _Dropped()
    is_terminal = not is_json and sys.stderr is not None and sys.stderr.isatty()
    logs.start(
        config.log_level,
        is_terminal=is_terminal,
        is_coloured=is_terminal and not os.environ.get("NO_COLOR"),
        dropped=dropped.add,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        say_ready = partial(_say_ready, is_json=is_json)
        runner.run(daemon.run(config, say_ready, lambda: dropped.count))
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
