"""`zoned serve`: its flags into a configuration, then the daemon. What it does is in serve.py."""

import gc
import os
import signal

from srv.cli.options import Invocation
from srv.config import load

COLLECTOR = (10_000, 10, 10)
"""Python's own collector looks after every 700 new objects, a hundred appends or so, which takes
nearly half of an append's time. main.py has set another figure for commands that end soon."""
_SETTINGS = ("data_dir", "host", "port", "socket", "sync")


def serve(call: Invocation) -> int:
    """Serve until a signal."""
    flags: dict[str, object] = {name: call.flags[name] for name in _SETTINGS if name in call.flags}
    if "no_migrate" in call.flags:
        flags["migrate"] = False
    loaded = load(flags, os.environ)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until the daemon has a handler of its own: an exception in the middle of an import may
        # crash the library that is imported.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # The daemon and the web stack below it: the one verb that waits for their import.
    from srv.cli.serve import serve as run

    gc.set_threshold(*COLLECTOR)
    return run(loaded, is_json=call.is_json)
