"""The commands of the README's REST tour, typed one after the other, answer what it shows."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.test_operations import WAIT
from tests.docs.test_readme import REST_TOUR, settings, tour  # noqa: F401  # a fixture
from tests.support.processes import environment


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_rest_tour_in_readme_shows_what_its_commands_answer(
    tmp_path: Path,
    settings: dict[str, str],  # noqa: F811  # that fixture
) -> None:
    lines = ["set -e -m"]
    for number, step in enumerate(tour(REST_TOUR)):
        lines.append(f"{step.command} > told-{number}" if step.shown else step.command)
        if step.command.endswith("&"):
            lines.append(WAIT)
    lines.append("wait")
    typed = subprocess.run(
        ["bash", "-c", "\n".join(lines)], cwd=tmp_path, env=environment(**settings),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert typed.returncode == 0, (typed.stdout, typed.stderr)
    for number, step in enumerate(tour(REST_TOUR)):
        if step.shown:
            told = json.loads((tmp_path / f"told-{number}").read_text(encoding="utf-8"))
            assert told.keys() == json.loads(step.shown).keys(), step.command
    done = json.loads((tmp_path / "done.json").read_text(encoding="utf-8"))
    page = json.loads((tmp_path / "page.json").read_text(encoding="utf-8"))
    assert done["summary"] == "The checkout works again."
    assert page["sessions"] == [done]
    assert typed.stdout.count("event: message") == 2
