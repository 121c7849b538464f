"""The commands of docs/OPERATIONS.md, typed one after the other as they stand."""

import subprocess
from pathlib import Path

import pytest

from tests.docs.test_readme import OPERATIONS, commands, settings  # noqa: F401  # a fixture
from tests.support.processes import environment

WAIT = "for _ in $(seq 200); do zoned status > /dev/null 2>&1 && break; sleep 0.05; done"
"""What a reader does who waits for the ready line."""


@pytest.mark.slow
def test_commands_of_operations_work_in_their_order(
    tmp_path: Path,
    settings: dict[str, str],  # noqa: F811  # that fixture
) -> None:
    lines = ["set -e -m"]
    for command in commands(OPERATIONS.read_text(encoding="utf-8")):
        lines += [f"echo '$ {command.replace(chr(39), '')}'", command]
        if command.endswith("&"):
            lines.append(WAIT)
        if command == "kill %1":
            lines.append("wait")
    typed = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=tmp_path,
        env=environment(**settings),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert typed.returncode == 0, (typed.stdout, typed.stderr)
    assert typed.stdout.count("ada") >= 3
    assert "Traceback" not in (tmp_path / "zoned.log").read_text(encoding="utf-8")
