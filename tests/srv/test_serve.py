"""`zoned serve` on data folders of every sort, as a real process; its life is in
test_daemon_life.py."""

import json
import os
import pty
import signal
import sqlite3
import stat
import subprocess
from pathlib import Path

import pytest

from filestore import FileStore
from tests.cli.tools import left_on_terminal
from tests.support.daemon import serving
from tests.support.processes import COMMAND, END_S_MAX, ROOT, environment


async def test_serve_is_refused_by_the_data_folder_of_another_program(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "zoned.db")
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    before = (tmp_path / "zoned.db").read_bytes()
    with serving(tmp_path) as daemon:
        assert daemon.first_line == ""
        assert daemon.wait() == 1
        assert "another program" in daemon.log
        assert "Traceback" not in daemon.log
    assert (tmp_path / "zoned.db").read_bytes() == before


async def test_folder_that_was_open_to_others_is_tightened_with_a_word(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    with serving(folder) as daemon:
        assert daemon.end() == 0
        assert any("its mode is now 0700" in each["event"] for each in daemon.events())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_store_that_is_served_opens_beside_for_reading(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as daemon:
        with daemon.client() as client:
            client.call("agent:session:append_output", definition_id="a", line="seen")
        store = await FileStore.open(tmp_path / "data", read_only=True)
        assert await store.read("agent:a:current", "output") == b"seen\n"
        await store.close()
        assert daemon.end() == 0


def test_folder_is_empty_but_for_its_data_after_a_clean_end(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with serving(folder) as daemon:
        assert daemon.end() == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "migration_agent_zones_v1.flag",
        "migration_import_legacy_v1.flag",
        "token",
        "zoned.db",
        "zoned.lock",
    ]


def test_ready_line_on_a_terminal_is_for_people(tmp_path: Path) -> None:
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "serve", "--data-dir", str(tmp_path / "data"), "--port", "0"],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=subprocess.PIPE,
    )
    try:
        os.close(terminal)
        shown = b""
        while b"data " not in shown:
            shown += os.read(main, 4096)
        token = (tmp_path / "data" / "token").read_text(encoding="ascii").strip()
        assert f"?token={token}" in shown.decode()
        assert str(tmp_path / "data" / "zoned.sock") in shown.decode()
        (url,) = [line for line in shown.decode().splitlines() if "http" in line]
        assert len(url) < 80, "nobody can open an address that was broken in two"
        process.send_signal(signal.SIGINT)
        _, logged = process.communicate(timeout=END_S_MAX)
        assert process.returncode == 0
        assert token.encode() not in logged
        assert all(json.loads(line) for line in logged.splitlines())
    finally:
        os.close(main)
        process.kill()
        process.communicate()


def test_ready_line_is_json_on_a_terminal_if_asked_for(tmp_path: Path) -> None:
    words = [*COMMAND, "serve", "--json", "--data-dir", str(tmp_path / "data"), "--port", "0",
             "--no-migrate"]  # fmt: skip
    settings = {"PYTHONPATH": str(ROOT)}
    with left_on_terminal(words, 2, settings, tmp_path) as (process, shown):
        log, ready = map(json.loads, shown.splitlines())
        process.terminate()
        assert process.wait(END_S_MAX) == 0
    assert (log["event"], ready["ready"]) == ("ready", True)


@pytest.mark.parametrize("sync", ["full", "normal"])
def test_sync_is_shown_by_info(tmp_path: Path, sync: str) -> None:
    with serving(tmp_path / "data", "--sync", sync) as daemon, daemon.client() as client:
        assert client.call("srv:info")["sync"] == sync
