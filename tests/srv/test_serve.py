"""`zoned` and `zoned serve`, as real processes."""

import json
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from filestore import FileStore
from tests.support.processes import COMMAND, ROOT, end, first_line, run, running

SERVE = [*COMMAND, "serve", "--data-dir"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_says_ready_once_and_ends_cleanly_at_a_signal(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "data"
    with running([*SERVE, str(folder)]) as process:
        line = first_line(process)
        assert json.loads(line) == {"ready": True, "data_dir": str(folder), "pid": process.pid}
        assert (folder / "zoned.db").exists()
        assert end(process, number) == (0, "", "")
    assert sorted(path.name for path in folder.iterdir()) == ["zoned.db", "zoned.lock"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_serve_when_killed_can_be_started_again_at_once(tmp_path: Path) -> None:
    for _ in range(2):
        with running([*SERVE, str(tmp_path)]) as process:
            assert json.loads(first_line(process))["ready"]
            assert end(process, signal.SIGKILL)[0] == -signal.SIGKILL


def test_second_daemon_on_a_folder_ends_at_once_and_names_the_first(tmp_path: Path) -> None:
    with running([*SERVE, str(tmp_path)]) as process:
        first_line(process)
        second = run("serve", "--data-dir", str(tmp_path))
        assert second.returncode == 1
        assert second.stdout == ""
        assert f"is being written by process {process.pid} (daemon)" in second.stderr
        assert second.stderr.count("\n") == 1
        assert end(process)[0] == 0


async def test_serve_is_refused_by_the_data_folder_of_another_program(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "zoned.db")
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    answer = run("serve", "--data-dir", str(tmp_path))
    assert answer.returncode == 1
    assert answer.stderr.startswith("zoned: open: ")
    assert "another program" in answer.stderr
    assert "Traceback" not in answer.stderr


async def test_serve_takes_its_folder_from_the_environment(tmp_path: Path) -> None:
    code = "import sys; from srv.cli.main import default_data_dir; print(default_data_dir())"
    for settings, wanted in (
        ({"ZONED_DATA_DIR": str(tmp_path / "given")}, tmp_path / "given"),
        ({"XDG_DATA_HOME": str(tmp_path / "xdg")}, tmp_path / "xdg" / "zoned"),
    ):
        shown = subprocess.run(
            [sys.executable, "-c", code],
            env={"PATH": "", "HOME": str(tmp_path), **settings},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout.strip() == str(wanted)


async def test_folder_that_was_open_to_others_is_tightened_with_a_word(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    with running([*SERVE, str(folder)]) as process:
        first_line(process)
        code, _, err = end(process)
    assert code == 0
    assert "its mode is now 0700" in err
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_store_served_before_opens_beside_for_reading(tmp_path: Path) -> None:
    with running([*SERVE, str(tmp_path)]) as process:
        first_line(process)
        store = await FileStore.open(tmp_path, read_only=True)
        assert (await store.zones()).zones == []
        await store.close()
        assert end(process)[0] == 0


def test_help_names_every_command_and_gives_an_example() -> None:
    assert "serve" in run("--help").stdout
    shown = run("serve", "--help").stdout
    for word in ("--data-dir", "--sync", "example: zoned serve"):
        assert word in shown


@pytest.mark.parametrize("arguments", [[], ["no-such-verb"], ["serve", "--sync", "off"]])
def test_bad_invocation_is_told_with_exit_code_2(arguments: list[str]) -> None:
    answer = run(*arguments)
    assert answer.returncode == 2
    assert answer.stderr.startswith("usage: zoned")


def test_version_is_shown() -> None:
    assert run("--version").stdout.startswith("zoned 0.")


def test_python_without_assertions_is_refused() -> None:
    answer = subprocess.run(
        [sys.executable, "-O", "-m", "srv.cli.main", "serve"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert "python -O" in answer.stderr
