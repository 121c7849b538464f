"""Every command and every piece of code that a document shows does what it says."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from srv.cli.verbs import VERBS
from tests.cli.tools import left_on_terminal, on_terminal
from tests.support.processes import COMMAND, END_S_MAX, ROOT, environment, first_line, running

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OPERATIONS = ROOT / "docs" / "OPERATIONS.md"
"""Its commands are in test_operations.py."""
REST_TOUR = "REST in a minute"
"""Its commands are in test_rest_tour.py."""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """The commands that a document tells the reader to type."""
    return [line[2:] for block in blocks(text, "console") for line in block.splitlines()
            if line.startswith("$ ")]  # fmt: skip


def test_python_in_readme_runs(tmp_path: Path) -> None:
    (code,) = blocks(README, "python")
    shown = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.fullmatch(r"\d+ 1 \[b'\{\"type\": \"hello\"\}'\]\n", shown.stdout)


def test_commands_in_documents_are_the_ones_tested_here() -> None:
    """A new command in a document needs a test; this list is where it is missed."""
    others = [path for path in DOCUMENTS if path != OPERATIONS]
    shown = {command for path in others for command in commands(path.read_text("utf-8"))}
    tested = {step.command for title in (*TOURS, REST_TOUR) for step in tour(title)}
    assert shown - tested == {"make run", "make test"}


class Step(NamedTuple):
    """A command of the tour, and what it is shown to answer."""

    command: str
    shown: str


TOURS = ("A two-minute tour", "Sessions by command, and hooks")


def tour(title: str) -> list[Step]:
    section = README.partition(f"## {title}\n")[2].partition("\n## ")[0]
    text = "".join(blocks(section, "console"))
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
    return [Step(command, shown) for command, shown in found]


_CHANGING = {
    r"http://127\.0\.0\.1:\d+/(\?token=\S+)?": "URL",
    r"\S+/tour\b": "FOLDER",
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "UUID",
    r"\(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\)": "(DATE)",
    r"\b\d{4}-\d\d-\d\dT[0-9:.]+Z": "TIME",
    r"\b(just now|\d+ (s|min) ago)\b": "AGO",
    r"\b(pid|up for|version|on disk) .*": r"\1",
    r"version \d+": "version N",
    r"\d+ (requests|connections|commits|subscriptions)": r"N \1",
    r" +": " ",
}


def settled(shown: str) -> str:
    """What is shown, without what is another at every run."""
    for pattern, name in _CHANGING.items():
        shown = re.sub(pattern, name, shown)
    return shown


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """Where `zoned` is the command under test, on a terminal without colour."""
    script = tmp_path / "bin" / "zoned"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    script.chmod(0o755)
    return {"PATH": f"{script.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
            "NO_COLOR": "1"}  # fmt: skip


@pytest.mark.parametrize("title", TOURS)
def test_tour_in_readme_shows_what_its_commands_answer(
    tmp_path: Path, settings: dict[str, str], title: str
) -> None:
    """Each on a terminal, in order; zones of archives are those of this run."""
    zones: dict[str, str] = {}
    with contextlib.ExitStack() as daemons:
        for command, shown in tour(title):
            for theirs, ours in zones.items():
                command = command.replace(theirs, ours)
            if command.startswith("export "):
                settings |= dict(word.split("=", 1) for word in shlex.split(command)[1:])
                answer = ""
            elif command.endswith("&"):
                words = ["bash", "-c", f"exec {command[:-1]}"]
                left = left_on_terminal(words, shown.count("\n"), settings, tmp_path)
                daemon, answer = daemons.enter_context(left)
            elif command == "kill %1":
                daemon.terminate()
                assert daemon.wait(END_S_MAX) == 0
                answer = ""
            else:
                words = ["bash", "-c", command]
                code, answer = on_terminal(words, settings=settings, folder=tmp_path)
                assert code == 0, (command, answer)
            zone = r"agent:\w+:archive:\d+"
            zones |= dict(zip(re.findall(zone, shown), re.findall(zone, answer), strict=False))
            for theirs, ours in zones.items():
                answer = answer.replace(ours, theirs)
            assert settled(answer) == settled(shown), command


def test_hooks_in_readme_are_commands() -> None:
    found = json.loads(blocks(README.partition(f"## {TOURS[1]}")[2], "json")[0])
    assert {f"zoned hook {name}": command for name, command in found.items()} == {
        command: command for command in found.values()
    }
    assert {command.removeprefix("zoned ") for command in found.values()} <= VERBS.keys()


@pytest.mark.skipif(
    not (ROOT / ".venv" / "runtime-installed").exists(), reason="not run by way of make"
)
def test_make_run_starts_the_daemon(tmp_path: Path) -> None:
    settings = [f"DATA_DIR={tmp_path / 'data'}", "ARGS=--port 0"]
    with running(["make", "-s", "run", *settings]) as process:
        ready = json.loads(first_line(process))
        assert ready["ready"]
        assert Path(ready["data_dir"]) == tmp_path / "data"
        os.kill(ready["pid"], signal.SIGTERM)
        assert process.wait(END_S_MAX) == 0


def test_make_test_is_what_runs_these_tests() -> None:
    """Running it here would run for ever; make says what it would do."""
    plan = subprocess.run(
        ["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "-m pytest" in plan.stdout


def test_make_targets_named_in_documents_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    for path in DOCUMENTS:
        for target in re.findall(r"`make ([a-z]+)`", path.read_text(encoding="utf-8")):
            assert target in targets, f"{path.name}: make {target}"


def test_links_between_documents_lead_somewhere() -> None:
    for path in DOCUMENTS:
        for link in re.findall(r"\]\(([^)#]+)", path.read_text(encoding="utf-8")):
            assert shlex.quote(link) == link
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_files_in_source_map_exist() -> None:
    table = README.partition("## Source map")[2].partition("## Caveats")[0]
    for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE):
        names = re.findall(r"`([^`]+)`", row)
        folder = Path(names[0]).parent
        for name in names:
            found = ROOT / name if "/" in name else ROOT / folder / name
            assert found.exists(), name
