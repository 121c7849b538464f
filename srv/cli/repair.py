"""`zoned repair`: a new store of all that can be read of a damaged one, and what could not be."""

import asyncio
import os
from dataclasses import asdict
from pathlib import Path

from filestore.repair import Repaired
from filestore.repair import repair as repair_store
from srv.cli.backend import load_config
from srv.cli.options import Invocation
from srv.cli.progress import Bar
from srv.cli.screen import Screen, harmless
from srv.cli.words import several, size
from srv.errors import EXIT_FOUND


def repair(call: Invocation) -> int:
    """`zoned repair <new folder>`. 0: nothing was lost; 3: something was, and is told."""
    (target,) = call.arguments
    data_dir, bar = load_config(call).data_dir, Bar(call.screen)
    try:
        new_dir = Path(os.path.abspath(target))
        done = asyncio.run(repair_store(data_dir, new_dir, progress=bar.step))
    finally:
        bar.end()
    if call.is_json:
        call.screen.json(asdict(done) | {"losses": [each._asdict() for each in done.losses]})
    else:
        _show(call.screen, done, target)
    return EXIT_FOUND if done.losses else 0


def _show(screen: Screen, done: Repaired, target: str) -> None:
    if done.losses:
        rows = [(each.zone or "?", each.name or "-", each.saved_as or "-", each.what)
                for each in done.losses]  # fmt: skip
        screen.table(("ZONE", "FILE", "WHAT IS LEFT", "LOST"), rows)
    saved = ", ".join((
        several(done.zones, "zone"), several(done.files, "file"), size(done.bytes),
        f"{several(done.journals, 'session')} with {several(done.records, 'record')}",
    ))  # fmt: skip
    count = len(done.losses)
    lost = f"{count} {'loss' if count == 1 else 'losses'}" if count else "nothing lost"
    screen.line(f"saved in {harmless(target)}: {saved}; {lost}")
