"""`zoned backup` and `zoned restore-backup`: the whole store into one file, and back.

A backup is made beside whoever writes. To restore, this process must have the folder alone.
"""

import asyncio
import os
from pathlib import Path

from filestore.restoring import Restoring, restoring
from migrations import forget_markers
from srv.cli import folder
from srv.cli.asking import can_ask, is_agreed
from srv.cli.backend import load_config
from srv.cli.local import LOCK_WAIT_MS, LocalStore
from srv.cli.options import Invocation
from srv.cli.progress import Bar
from srv.cli.screen import harmless
from srv.cli.words import size
from srv.upgrade import upgrade


def backup(call: Invocation) -> int:
    """`zoned backup <file>`. Whole and checked when it returns 0; else nothing has that name."""
    (file,) = call.arguments
    config = load_config(call)
    folder.prepare(config.data_dir, call.screen)
    store = LocalStore(config, call.screen, is_read_only=True)
    try:
        params = {"file": os.path.abspath(file), "force": "force" in call.flags}
        done = store.answer("srv:backup", params)
    finally:
        store.close()
        call.screen.end_progress()
    if call.is_json:
        call.screen.json(done)
    else:
        call.screen.line(f"{harmless(file)}: {size(done['bytes'])}, every byte of it checked")
    return 0


def restore_backup(call: Invocation) -> int:
    """`zoned restore-backup <file>`. What was there is kept; 1: refused by who was asked."""
    (file,) = call.arguments
    can_ask(call, "replace the store")
    config = load_config(call)
    folder.prepare(config.data_dir, call.screen)
    is_done, aside = asyncio.run(_restore(call, Path(file).resolve(), config.data_dir))
    if call.is_json:
        call.screen.json({"restored": is_done, "kept": str(aside or "")})
    elif is_done:
        kept = f"\n  what was there is kept in {harmless(str(aside))}" if aside else ""
        call.screen.line(f"the store is that of {harmless(file)}{kept}")
    else:
        call.screen.warn("nothing is changed")
    return 0 if is_done else 1


async def _restore(call: Invocation, file: Path, data_dir: Path) -> tuple[bool, Path | None]:
    bar = Bar(call.screen)
    prepared = restoring(
        file,
        data_dir,
        upgrade=upgrade,
        lock_wait_ms=LOCK_WAIT_MS,
        progress=bar.step,
    )
    try:
        async with prepared as ready:
            bar.end()
            if not is_agreed(call, _question(file, data_dir, ready)):
                return False, None
            # They speak of the store that is there now. Without them the next start looks again.
            forget_markers(data_dir)
            return True, ready.finish()
    finally:
        bar.end()


def _question(file: Path, data_dir: Path, ready: Restoring) -> str:
    there = f" (now {size(ready.replaces)}, which is kept aside)" if ready.replaces else ""
    return f"replace the store in {harmless(str(data_dir))}{there} by {harmless(str(file))}?"
