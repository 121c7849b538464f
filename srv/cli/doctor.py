"""`zoned doctor`: the data folder, the machine below it, and what to do about each. Looks only."""

from srv.cli import folder
from srv.cli.backend import Json, load_config
from srv.cli.examine import Line, Place, Verdict, examine
from srv.cli.options import Invocation
from srv.cli.screen import GREEN, RED, Screen, harmless
from srv.cli.status import ask
from srv.config import Config
from srv.errors import EXIT_FOUND

NAME_COLUMNS = 15
COLOURS: dict[Verdict, str] = {"ok": GREEN, "warn": "33", "bad": RED}


def doctor(call: Invocation) -> int:
    """`zoned doctor`. 0: nothing is bad, though some may be worth a warning; 3: something is."""
    config = load_config(call)
    lines = examine(Place(config, _info(config), folder.is_locked(config.data_dir)))
    if call.is_json:
        call.screen.json([line._asdict() for line in lines])
    else:
        for line in lines:
            _show(call.screen, line)
    return EXIT_FOUND if any(line.verdict == "bad" for line in lines) else 0


def _info(config: Config) -> Json:
    found = ask(config.data_dir)
    return found if found["running"] else {}


def _show(screen: Screen, line: Line) -> None:
    verdict = screen.style(line.verdict.ljust(4), COLOURS[line.verdict])
    screen.line(f"{verdict}  {line.name.ljust(NAME_COLUMNS)}  {harmless(line.fact)}")
    if line.hint:
        screen.line(f"{'':{NAME_COLUMNS + 8}}{harmless(line.hint)}")
