"""What operators need around the daemon: a new token, the service manager, and its unit."""

import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.cli.tools import Zoned
from tests.support.daemon import ANSWER_S_MAX, Client, Daemon, Failed, serving, upgrade
from tests.support.processes import ROOT, run


def rotate(daemon: Daemon) -> None:
    done = run("token", "rotate", "--data-dir", str(daemon.data_dir))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"the token is another now: {daemon.data_dir / 'token'}\n"


def test_rotated_token_is_taken_at_once_and_the_old_one_never_again(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as daemon:
        old = daemon.token
        with daemon.client() as pane, daemon.client(is_unix=True) as operator:
            pane.start("agent:session:append_output", definition_id="ada", line="x")
            rotate(daemon)
            assert daemon.token != old
            assert re.fullmatch(r"[\w-]{43}", daemon.token)
            closed = pane.closed()
            assert (closed.code, closed.reason) == (1001, "the token is another now")
            assert operator.is_alive()
        assert daemon.http(upgrade(daemon, Authorization=f"Bearer {old}")).status == 401
        cookie = f"zoned-{daemon.port}={old}"
        assert daemon.get("/metrics", token=False, Cookie=cookie).status == 401
        with daemon.client() as pane:
            page = pane.call("agent:session:read_output", definition_id="ada")
            assert page["lines"] == ["x"], "what was accepted was done"
        token = daemon.token
        assert (daemon.data_dir / "token").stat().st_mode & 0o777 == 0o600
        assert daemon.end() == 0
        assert old not in daemon.log
        assert token not in daemon.log
    with serving(tmp_path / "data") as daemon, daemon.client() as pane:
        assert daemon.token == token
        assert pane.is_alive()


def test_token_is_rotated_by_nobody_over_tcp(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as daemon:
        token = daemon.token
        with daemon.client() as pane, pytest.raises(Failed) as caught:
            pane.call("srv:rotate_token")
        assert caught.value.kind == "UNAUTHORIZED"
        assert daemon.token == token


def test_many_rotations_at_once_leave_one_token_that_is_right(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as daemon:
        clients = [daemon.client(is_unix=True) for _ in range(8)]
        for client in clients:
            client.send(Client.request("srv:rotate_token", 1, {}))
        for client in clients:
            assert "result" in client.receive()
            client.sock.close()
        with daemon.client() as pane:
            assert pane.is_alive()


def test_token_without_a_daemon_is_made_for_the_next(alone_folder: Path) -> None:
    zoned = Zoned(alone_folder)
    for _ in range(2):
        before = (alone_folder / "token").read_text() if (alone_folder / "token").exists() else ""
        zoned.ok("token", "rotate")
        assert (alone_folder / "token").read_text() != before
    assert zoned("token", "show").code == 2


@pytest.fixture
def alone_folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


# -- the service manager


@pytest.mark.parametrize("is_abstract", [False, True], ids=["path", "abstract"])
def test_service_manager_is_told_when_ready_and_when_stopping(
    tmp_path: Path, is_abstract: bool
) -> None:
    address = f"@zoned-test-{tmp_path.name}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(ANSWER_S_MAX)
        manager.bind(f"\0{address[1:]}" if is_abstract else address)
        with serving(tmp_path / "data", environ={"NOTIFY_SOCKET": address}) as daemon:
            assert manager.recv(100) == b"READY=1"
            with daemon.client() as pane:
                assert pane.is_alive()
            assert daemon.end() == 0
            assert manager.recv(100) == b"STOPPING=1"


def test_service_manager_that_is_not_there_is_in_nobodys_way(tmp_path: Path) -> None:
    address = str(tmp_path / "nobody")
    with serving(tmp_path / "data", environ={"NOTIFY_SOCKET": address}) as daemon:
        assert daemon.get("/health").status == 200
        assert daemon.end() == 0
        warnings = [each for each in daemon.events() if each["level"] == "warning"]
        assert ["service manager" in each["event"] for each in warnings] == [True, True]


def test_unit_starts_the_daemon_of_this_folder(tmp_path: Path) -> None:
    folder = tmp_path / 'a b%c$d"e\\f'
    unit = run("service", "--data-dir", str(folder)).stdout
    assert not folder.exists()
    lines = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line)
    assert lines["Type"] == "notify"
    assert lines["Restart"] == "on-failure"
    shown = str(folder).replace("\\", "\\\\").replace('"', '\\"')
    shown = shown.replace("%", "%%").replace("$", "$$")
    assert lines["ExecStart"].endswith(f' serve --data-dir "{shown}"')
    assert "zoned" in lines["ExecStart"] or "srv.cli.main" in lines["ExecStart"]


def test_unit_is_what_systemd_takes(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / "zoned.service"
    file.write_text(run("service", "--data-dir", str(tmp_path / "a b%c")).stdout)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(file)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "Failed to initialize manager" in done.stderr:
        pytest.skip("systemd-analyze does not work here")
    assert (done.returncode, done.stderr) == (0, "")
