"""What a daemon keeps to itself: its files, its token, what sessions hold, and its socket."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import TEXT, Client, serving

NOBODY = 65534


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in folder.iterdir()}


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_files_are_private_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    folder = tmp_path / "data"
    with serving(folder, prepare=lambda: os.umask(mask)) as daemon:
        with daemon.client() as client:
            client.call("agent:session:append_output", definition_id="a", line="x")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        found = modes(folder)
        assert {"token", "zoned.sock", "zoned.db", "zoned.db-wal", "zoned.lock"} <= set(found)
        assert set(found.values()) == {0o600}, found
        assert daemon.end() == 0


def test_token_stays_the_same_and_is_tightened(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with serving(folder) as daemon:
        token = daemon.token
        assert len(token) == 43
        assert daemon.end() == 0
    (folder / "token").chmod(0o644)
    with serving(folder) as daemon:
        assert daemon.token == token
        assert modes(folder)["token"] == 0o600


def test_token_is_nowhere_but_in_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with serving(folder, config={"log_level": "debug"}) as daemon:
        token = daemon.token
        daemon.get(f"/?token={token}", token=False)
        daemon.get(f"/?token={token}x", token=False)
        daemon.get(f"/nothing?token={token}", token=True)
        with daemon.client(Authorization="", Sec_WebSocket_Protocol=f"zoned.token.{token}") as c:
            c.send(Client.request(token, token, {token: token}))
            c.receive()
            assert token not in json.dumps(c.call("srv:info"))
            c.send_frame(3, b"")
            assert token not in c.closed().reason
        seen = Path(f"/proc/{daemon.pid}/cmdline").read_bytes()
        seen += Path(f"/proc/{daemon.pid}/environ").read_bytes()
        assert token.encode() not in seen
        assert token not in daemon.get("/metrics").body.decode()
        assert daemon.end() == 0
        assert token not in daemon.log
        assert token not in daemon.first_line
    holding = [path.name for path in folder.iterdir() if token.encode() in path.read_bytes()]
    assert holding == ["token"]


def test_content_of_sessions_is_never_logged(tmp_path: Path) -> None:
    canary = "canary-in-a-session"
    with serving(tmp_path / "data", config={"log_level": "debug"}) as daemon:
        with daemon.client() as client:
            for method, params in (
                ("agent:session:write_state", {"definition_id": "a", "content": canary}),
                ("agent:session:append_output", {"definition_id": "a", "lines": [canary] * 3}),
                ("agent:session:append_output", {"definition_id": "a", "line": 5, "x": canary}),
                ("agent:session:write_state", {"definition_id": canary + "!", "content": canary}),
                (canary, {canary: canary}),
            ):
                client.send(Client.request(method, 1, params))
                client.receive()
            for text in (f'["{canary}', f'"{canary}"'):
                client.send_frame(TEXT, text.encode())
                assert "error" in client.receive()
            client.call("agent:session:archive", definition_id="a")
            client.send_frame(3, canary.encode())
            client.closed()
        daemon.get(f"/{canary}?{canary}", token=False)
        assert daemon.end() == 0
        assert daemon.events()
        assert canary not in daemon.log


@pytest.mark.root
def test_other_user_on_the_socket_is_refused(tmp_path: Path) -> None:
    """The socket is made reachable on purpose: the peer's user id is looked at as well."""
    place = Path("/tmp") / f"zoned-peer-{os.getpid()}"
    place.mkdir()
    place.chmod(0o755)
    try:
        with serving(tmp_path / "data", "--socket", str(place / "s")) as daemon:
            (place / "s").chmod(0o777)
            code = (
                "import socket, sys\n"
                "s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect(sys.argv[1])\n"
                "try:\n"
                "    s.sendall(b'GET /health HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n"
                "    print('heard', s.recv(100))\n"
                "except OSError: print('heard', b'')\n"
            )
            python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
            found = subprocess.run(
                [python, "-c", code, str(place / "s")],
                user=NOBODY, group=NOBODY, cwd="/", capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert found.stdout == "heard b''\n"
            events = [each for each in daemon.events() if "another user" in each["event"]]
            assert [each["uid"] for each in events] == [NOBODY]
            with daemon.client(is_unix=True) as client:
                assert client.is_alive()
    finally:
        shutil.rmtree(place)
