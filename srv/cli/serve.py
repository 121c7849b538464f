"""`zoned serve`: open the store, say that it is ready, close it when told to stop.

stdout carries the ready line and nothing else; it is printed when the store takes writes. SIGINT
and SIGTERM end it cleanly; killed in any other way, nothing acknowledged is lost either.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import orjson
import uvloop

from filestore import FileStore
from filestore.model import Sync

LOCK_WAIT_MS = 10_000
"""How long to wait for a command that holds the folder; another daemon is not waited for."""


def serve(data_dir: Path, sync: Sync) -> int:
    """Serve until a signal. Returns the exit code."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(data_dir.absolute(), sync))
    return 0


async def _serve(data_dir: Path, sync: Sync) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    store = await FileStore.open(data_dir, sync=sync, kind="daemon", lock_wait_ms=LOCK_WAIT_MS)
    async with store:
        if store.folder_was_tightened:
            print(f"zoned: {data_dir} was open to others; its mode is now 0700", file=sys.stderr)
        print(_ready_line(data_dir, sys.stdout.isatty()), flush=True)
        await stop.wait()


def _ready_line(data_dir: Path, is_terminal: bool) -> str:
    if is_terminal:
        return f"zoned is ready: the store in {data_dir} is open. Ctrl-C to stop."
    return orjson.dumps({"ready": True, "data_dir": str(data_dir), "pid": os.getpid()}).decode()
