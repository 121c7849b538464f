"""Every command and every piece of code that a document shows does what it says."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import END_S_MAX, ROOT, environment, first_line, running

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


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
    shown = {command for path in DOCUMENTS for command in commands(path.read_text("utf-8"))}
    assert shown == {"make run", "make test"}


@pytest.mark.skipif(
    not (ROOT / ".venv" / "runtime-installed").exists(), reason="not run by way of make"
)
def test_make_run_starts_the_daemon(tmp_path: Path) -> None:
    with running(["make", "-s", "run", f"DATA_DIR={tmp_path / 'data'}"]) as process:
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
