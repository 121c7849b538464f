"""`zoned migrate`: bring older data in, and the tables from one format to the next or back.

Data is migrated through the daemon if one runs; the tables only while nobody has them open.
"""

from collections.abc import Callable
from pathlib import Path

from srv.cli.backend import Json, connected, load_config
from srv.cli.folder import DATABASE_NAME, is_locked, read_holder
from srv.cli.options import Invocation, UsageError
from srv.cli.progress import Bar
from srv.cli.replay import operate
from srv.cli.screen import GREEN, RED, Screen, harmless
from srv.cli.words import several
from srv.errors import EXIT_FOUND

LOCK_WAIT_MS = 10_000
FAILED_SHOWN = 20


def migrate(call: Invocation) -> int:
    """`zoned migrate [up|down|status]`. 3: some items failed."""
    action = call.arguments[0] if call.arguments else ""
    if "to" in call.flags and action != "down":
        raise UsageError("--to goes with down", "migrate")
    if action:
        return _tables(call, action)
    params: Json = {key: True for key in ("dry_run", "retry_failed") if key in call.flags}
    if only := call.text("only"):
        params["only"] = only
    data_dir = load_config(call).data_dir
    has_daemon = bool(read_holder(data_dir).daemon_socket) and is_locked(data_dir)
    if "dry_run" in params and not has_daemon:
        found = _try_out(call, data_dir, only, is_retry="retry_failed" in params)
    else:
        with connected(call, is_reading=False) as backend:
            found = operate(backend, "srv:migrate", params)
    call.screen.end_progress()
    if call.is_json:
        call.screen.json(found)
    else:
        for name, stats in found.items():
            _show(call.screen, name, stats)
    is_failed = any(stats["failures"] or "error" in stats for stats in found.values())
    return EXIT_FOUND if is_failed else 0


def _try_out(call: Invocation, data_dir: Path, only: str | None, *, is_retry: bool) -> Json:
    """A dry run without a daemon. To open the store as others do would already write."""
    import asyncio
    import logging

    from migrations import try_out

    # As for a store that is opened here: what it has to say is for the daemon's log.
    logging.getLogger().addHandler(logging.NullHandler())
    bar = Bar(call.screen)
    work = try_out(data_dir, only=only, retry_failed=is_retry, progress=bar.step)
    return {name: stats.details() for name, stats in asyncio.run(work).items()}


def _show(screen: Screen, name: str, stats: Json) -> None:
    counts = [_counted(count, key) for key, count in stats.items()
              if isinstance(count, int) and count]  # fmt: skip
    screen.line(f"{name}: {', '.join(counts) or 'nothing to do'}")
    for item in stats["failed"][:FAILED_SHOWN]:
        place = "/".join(item[key] for key in ("source", "zone", "name") if item[key])
        told = f"{place}: {item['error']}" if place else item["error"]
        screen.line(f"  {screen.style('failed', RED)} {harmless(told)}")
    left = stats["failures"] - len(stats["failed"][:FAILED_SHOWN])
    if left > 0:
        screen.line(f"  and {left} more; --json names them")


def _counted(count: int, key: str) -> str:
    """`7 archives written`, `1 archive written`: what ends in an s is a plural here."""
    words = key.split("_")
    return f"{count} " + " ".join(word.removesuffix("s") if count == 1 else word for word in words)


def _tables(call: Invocation, action: str) -> int:
    if given := sorted({"dry_run", "only", "retry_failed"} & call.flags.keys()):
        flag = given[0].replace("_", "-")
        raise UsageError(f"--{flag} is for the migration of data, not for {action}", "migrate")
    from migrations import down, status, up

    folder = load_config(call).data_dir
    match action:
        case "status":
            return _status(call, folder)
        case "up":
            done = _locked(folder, lambda: up(folder))
        case "down":
            to = call.count("to")
            applied = sum(step.is_applied for step in status(folder))
            done = _locked(folder, lambda: down(folder, applied - 1 if to is None else to))
        case _:
            raise UsageError(f"there is no {action!a}: give up, down, status or nothing", "migrate")
    if call.is_json:
        call.screen.json({"done": done})
    else:
        verb = "applied" if action == "up" else "taken back"
        call.screen.line(f"{several(len(done), 'step')} {verb}" + "".join(f"\n  {x}" for x in done))
    return 0


def _status(call: Invocation, folder: Path) -> int:
    from migrations import status

    steps = status(folder)
    if call.is_json:
        call.screen.json([step._asdict() for step in steps])
        return 0
    for step in steps:
        mark = call.screen.style("applied", GREEN) if step.is_applied else "missing"
        call.screen.line(f"{step.number}  {mark}  {step.name}")
    return 0


def _locked(folder: Path, work: Callable[[], list[str]]) -> list[str]:
    """Do it while nobody else has the folder. Without a store there is nothing to be locked."""
    import asyncio

    from filestore import NotFoundError
    from filestore.files import FolderLock, translated_os_errors

    if not (folder / DATABASE_NAME).exists():
        hint = "start `zoned serve` once to make one"
        raise NotFoundError(f"there is no store in {str(folder)!r}", operation="migrate", hint=hint)
    with translated_os_errors("migrate"):
        lock = asyncio.run(FolderLock.take(folder, "command", "", LOCK_WAIT_MS))
    try:
        return work()
    finally:
        lock.release()
