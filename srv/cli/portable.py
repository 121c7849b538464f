"""`zoned export` and `zoned import`: one session as one file, from store to store."""

import os
from collections.abc import Mapping
from typing import Any

from srv.cli import folder
from srv.cli.backend import connected, load_config, place_of
from srv.cli.local import LocalStore
from srv.cli.options import Invocation
from srv.cli.replay import operate
from srv.cli.screen import harmless
from srv.cli.words import several, size


def export(call: Invocation) -> int:
    """`zoned export <defId|zone> <file>`. Opens the store beside whoever writes it."""
    place, file = call.arguments
    config = load_config(call)
    folder.prepare(config.data_dir, call.screen)
    store = LocalStore(config, call.screen, is_read_only=True)
    try:
        params = {**place_of(place), "file": os.path.abspath(file), "force": "force" in call.flags}
        done = store.answer("srv:export", params)
    finally:
        store.close()
        call.screen.end_progress()
    if call.is_json:
        call.screen.json(done)
    else:
        what = f"{_told(done)} in {size(done['size'])}"
        call.screen.line(f"{harmless(file)}: {harmless(done['zone'])}, {what}")
    return 0


def import_(call: Invocation) -> int:
    """`zoned import <file>`. Done again, it finds what it did."""
    (file,) = call.arguments
    params: dict[str, object] = {"file": os.path.abspath(file)}
    if agent := call.text("as"):
        params["definition_id"] = agent
    with connected(call, is_reading=False) as backend:
        done = operate(backend, "srv:import", params)
        call.screen.end_progress()
    if call.is_json:
        call.screen.json(done)
    elif done["is_present"]:
        call.screen.line(f"{harmless(done['zone'])} is here already; nothing is changed")
    else:
        zone, session = harmless(done["zone"]), harmless(done["session_id"])
        call.screen.line(f"{zone}: {_told(done)}, session {session}")
    return 0


def _told(done: Mapping[str, Any]) -> str:
    """What a session consists of."""
    records, files = several(done["records"], "record"), several(done["files"], "file")
    return f"{records}, {files}, {size(done['bytes'])}"
