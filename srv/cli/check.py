"""`zoned check`: look for damage. Opens the store beside whoever writes it, and only reads."""

from srv.cli import folder
from srv.cli.backend import Json, load_config
from srv.cli.local import LocalStore
from srv.cli.options import Invocation
from srv.cli.screen import GREEN, RED, Screen, harmless
from srv.cli.words import several, size
from srv.errors import EXIT_FOUND, ZonedError
from srv.rpc.upkeep import SALVAGE


def check(call: Invocation) -> int:
    """`zoned check [--deep]`. 0: all is well; 3: something is damaged."""
    is_deep = bool(call.flags.get("deep"))
    config = load_config(call)
    folder.prepare(config.data_dir, call.screen)
    try:
        store = LocalStore(config, call.screen, is_read_only=True)
        try:
            found = store.answer("srv:check", {"deep": is_deep})
        finally:
            store.close()
            call.screen.end_progress()
    except ZonedError as error:
        if error.kind != "CORRUPT":
            raise
        # So damaged that it cannot be opened: that is what was looked for, not a failure to look.
        counts = dict.fromkeys(("zones", "files", "chunks", "bytes"), 0)
        problem = {"message": error.message, "hint": SALVAGE}
        found = {**counts, "deep": is_deep, "problems": [problem], "is_cut": False}
    if call.is_json:
        call.screen.json(found)
    else:
        _show(call.screen, found)
    return EXIT_FOUND if found["problems"] else 0


def _show(screen: Screen, found: Json) -> None:
    for problem in found["problems"]:
        _show_problem(screen, problem)
    what = f"{several(found['zones'], 'zone')}, {several(found['files'], 'file')}"
    what += f", {several(found['chunks'], 'chunk')}, {size(found['bytes'])}"
    if found["problems"]:
        more = "more than " if found["is_cut"] else ""
        verdict = screen.style(more + several(len(found["problems"]), "problem"), RED)
    else:
        verdict = screen.style("all well", GREEN)
        verdict += "" if found["deep"] else "; --deep also reads every byte"
    screen.line(f"{what}: {verdict}")


def _show_problem(screen: Screen, problem: Json) -> None:
    place = "/".join(problem[key] for key in ("zone", "name") if key in problem)
    at = f" at offset {problem['offset']}" if "offset" in problem else ""
    screen.line(f"{harmless(place) or 'the store'}{at}: {harmless(problem['message'])}")
    screen.line(f"  {problem['hint']}")
