"""The daemon's life as a process: ready, stopped, started beside another, and refused."""

import contextlib
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Closed, connected, read_all, serving, until_refused
from tests.support.faults import until_sync
from tests.support.processes import COMMAND, ROOT, environment

NOBODY = 65534


def refusal(data_dir: Path, *arguments: str, **more: Any) -> str:
    """The one line that a daemon says which does not start."""
    with serving(data_dir, *arguments, **more) as daemon:
        assert daemon.first_line == ""
        assert daemon.wait() == 1
        lines = [line for line in daemon.log.splitlines() if not line.startswith("{")]
        assert len(lines) == 1, daemon.log
        assert lines[0].startswith("zoned: ")
        return lines[0]


# -- ready


def test_ready_line_tells_where_it_listens(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with serving(folder) as daemon:
        assert daemon.ready is not None
        port = daemon.port
        assert daemon.ready == {
            "ready": True,
            "url": f"http://127.0.0.1:{port}/",
            "rpc": f"ws://127.0.0.1:{port}/rpc",
            "socket": str(folder / "zoned.sock"),
            "token_file": str(folder / "token"),
            "data_dir": str(folder),
            "pid": daemon.process.pid,
        }
        assert daemon.token not in daemon.first_line
        for is_unix in (False, True):
            with daemon.client(is_unix=is_unix) as client:
                assert client.is_alive()
        assert daemon.end() == 0
        assert not (folder / "zoned.sock").exists()
        assert {each["level"] for each in daemon.events()} == {"info"}


def test_no_socket_is_told_as_none(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--socket", "none") as daemon:
        assert daemon.ready is not None
        assert daemon.ready["socket"] is None
        assert not (tmp_path / "data" / "zoned.sock").exists()
        assert daemon.end() == 0


def test_ipv6_loopback_is_served(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--host", "::1") as daemon:
        assert daemon.ready is not None
        assert daemon.ready["url"].startswith("http://[::1]:")
        port = int(daemon.ready["url"].rstrip("/").rpartition(":")[2])
        with socket.create_connection(("::1", port), 5) as sock:
            sock.sendall(f"GET /health HTTP/1.1\r\nHost: [::1]:{port}\r\n\r\n".encode())
            assert b" 200 OK" in read_all(sock)
        assert daemon.end() == 0


# -- the end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_under_load_finishes_what_was_accepted(tmp_path: Path, number: int) -> None:
    """Every answer that comes is true, and every client is told goodbye."""
    folder = tmp_path / "data"
    with serving(folder) as daemon, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(daemon.client(is_unix=index % 2 == 0)) for index in range(8)]
        for index, client in enumerate(clients):
            for line in range(200):
                client.start(
                    "agent:session:append_output", definition_id=f"a{index}", line=str(line)
                )
        clients[0].result(1)
        started = time.monotonic()
        os.kill(daemon.pid, number)
        counts = []
        for index, client in enumerate(clients):
            answered = 1 if index == 0 else 0
            code: int | None = 0
            while not code:
                try:
                    assert "result" in client.receive()
                    answered += 1
                except Closed as error:
                    code = error.code
                    assert code == 1001
            counts.append(answered)
            client.sock.close()
        assert daemon.wait() == 0
        assert time.monotonic() - started < 5
        assert "error" not in {each["level"] for each in daemon.events()}
    with serving(folder) as daemon, daemon.client() as client:
        for index, count in enumerate(counts):
            page = client.call("agent:session:read_output", definition_id=f"a{index}")
            assert page["lines"] == [str(line) for line in range(count)], "accepted is answered"


def test_stop_is_not_held_up_by_those_who_do_nothing(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as daemon:
        held = [daemon.open() for _ in range(3)]
        held[1].sendall(b"GET /health HTTP/1.1\r\n")
        post = (
            f"POST /health HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nContent-Length: 9\r\n\r\n"
        )
        held[2].sendall(post.encode())
        with daemon.client() as idle, daemon.client() as half, daemon.client() as fan:
            half.sock.sendall(b"\x81\xff" + (1 << 20).to_bytes(8, "big") + b"1234" + b"half")
            fan.call("agent:session:subscribe", definition_id="a")
            started = time.monotonic()
            assert daemon.end() == 0
            assert time.monotonic() - started < 5
            assert idle.closed().code == 1001
            assert fan.closed().code == 1001
        for sock in held:
            sock.close()


def test_interrupt_while_libraries_are_imported_just_ends(tmp_path: Path) -> None:
    """Python's own way, an exception out of nowhere, crashed some of them."""
    words = [sys.executable, "-X", "importtime", *COMMAND[1:], "serve", "--data-dir", str(tmp_path)]
    process = subprocess.Popen(words, cwd=ROOT, env=environment(), stderr=subprocess.PIPE)
    assert process.stderr is not None
    with process:
        # Each import is told when it is done: this is one of the first of many.
        while b"orjson" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
    assert process.returncode == -signal.SIGINT
    assert b"Traceback" not in told
    assert list(tmp_path.iterdir()) == []


def test_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    limits = {"stop_timeout_s": 600}
    with serving(tmp_path / "data", config=limits) as daemon, daemon.client(is_unix=True) as deaf:
        # Its answers are not read, so the first one waits for it.
        content = "x" * (8 << 20)
        deaf.call("agent:session:write_state", definition_id="a", content=content)
        deaf.start("agent:session:read", definition_id="a")
        deaf.start("agent:session:read", definition_id="a")
        deaf.sock.recv(1)
        os.kill(daemon.pid, signal.SIGINT)
        until_refused(daemon)
        started = time.monotonic()
        os.kill(daemon.pid, signal.SIGINT)
        assert daemon.wait() == 130
        assert time.monotonic() - started < 2
    with serving(tmp_path / "data") as daemon, daemon.client() as client:
        assert client.call("agent:session:read", definition_id="a")["content"] == content


def test_client_that_never_reads_is_cut_off_at_the_end(tmp_path: Path) -> None:
    limits = {"stop_timeout_s": 3}
    with serving(tmp_path / "data", config=limits) as daemon, daemon.client(is_unix=True) as deaf:
        deaf.call("agent:session:write_state", definition_id="a", content="x" * (8 << 20))
        deaf.start("agent:session:read", definition_id="a")
        deaf.start("agent:session:read", definition_id="a")
        deaf.sock.recv(1)
        started = time.monotonic()
        assert daemon.end() == 0
        assert time.monotonic() - started < 5


# -- what is in the way


def test_second_daemon_is_refused_and_names_the_first(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as first:
        started = time.monotonic()
        line = refusal(tmp_path / "data")
        assert f"process {first.pid} (daemon)" in line
        assert time.monotonic() - started < 5
        with first.client(is_unix=True) as client:
            assert client.is_alive()


def test_kill_leaves_nothing_that_blocks_a_start(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for _ in range(2):
        with serving(folder) as daemon:
            with daemon.client(is_unix=True) as client:
                assert client.is_alive()
            assert daemon.end(signal.SIGKILL) == -signal.SIGKILL
        assert (folder / "zoned.sock").exists()
        assert (folder / "zoned.lock").exists()


@pytest.mark.parametrize("kind", ["file", "fifo", "folder", "link"])
@pytest.mark.parametrize("name", ["zoned.sock", "token"])
def test_what_stands_in_the_place_of_socket_or_token_is_left_and_told(
    tmp_path: Path, kind: str, name: str
) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    path = folder / name
    match kind:
        case "file":
            path.write_text("theirs", encoding="ascii")
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            (tmp_path / "target").write_text("x" * 43, encoding="ascii")
            path.symlink_to(tmp_path / "target")
    line = refusal(folder)
    assert str(path) in line
    assert path.is_symlink() or path.exists()
    assert "theirs" not in line


def open_files(soft: int, hard: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_soft_limit_on_open_files_is_raised(tmp_path: Path) -> None:
    with serving(tmp_path / "data", prepare=open_files(40, 1500)) as daemon:
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(daemon.client()) for _ in range(60)]
            assert all(client.is_alive() for client in clients)
            assert clients[0].call("srv:info")["limits"]["connections_max"] == 1024
        assert daemon.end() == 0


def test_connections_never_take_the_files_that_the_store_needs(tmp_path: Path) -> None:
    with serving(tmp_path / "data", prepare=open_files(80, 80)) as daemon:
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(daemon.client(is_unix=True))
            assert client.call("srv:info")["limits"]["connections_max"] == 16
            # Nothing is said on these, so they are held until the end.
            refused = [stack.enter_context(daemon.open()) for _ in range(100)]
            assert read_all(refused[-1]).startswith(b"HTTP/1.1 503 ")
            content = json.dumps({"nodes": ["x" * 1000] * 1000})
            client.call("agent:session:write_state", definition_id="a", content=content)
            assert client.call("agent:session:read", definition_id="a")["content"] == content
            client.call("agent:session:archive", definition_id="a")
        assert "connections_max is 16" in daemon.log
        assert daemon.end() == 0
        assert "SQLITE" not in daemon.log


def test_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refusal(tmp_path / "data", "--port", str(port))
        assert f"port {port}: Address already in use (choose" in line
        assert "--port" in line


def test_socket_that_another_process_listens_on_is_left(tmp_path: Path) -> None:
    with serving(tmp_path / "one") as one:
        line = refusal(tmp_path / "two", "--socket", one.socket_path)
        assert "another process listens" in line
        with one.client(is_unix=True) as client:
            assert client.is_alive()


def test_socket_folder_that_others_may_change_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    line = refusal(tmp_path / "data", "--socket", str(shared / "s"))
    assert "others may change" in line


@pytest.mark.root
def test_link_of_another_user_to_the_socket_folder_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    os.lchown(link, NOBODY, NOBODY)
    line = refusal(tmp_path / "data", "--socket", str(link / "s"))
    assert "others may change" in line


def test_socket_of_a_long_path_lies_in_the_runtime_folder(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    # A short name for it, because the path of a test is long already.
    short = Path("/tmp") / f"zoned-test-{os.getpid()}"
    short.symlink_to(runtime)
    try:
        with serving(folder, environ={"XDG_RUNTIME_DIR": str(short)}) as daemon:
            path = Path(daemon.socket_path)
            assert path.parent == short / "zoned"
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            with daemon.client(is_unix=True) as client:
                assert client.is_alive()
            assert daemon.end() == 0
    finally:
        short.unlink()


# -- its outputs


def raw(tmp_path: Path, **outputs: Any) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "srv.cli.main", "serve", "--data-dir", str(tmp_path / "data"),
               "--port", "0"]  # fmt: skip
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, **outputs)


def socket_answers(path: Path) -> bool:
    try:
        with connected(str(path)) as sock:
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            return b" 200 OK" in read_all(sock)
    except OSError:
        return False


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_closed_outputs_do_not_stop_serving(tmp_path: Path, closed: tuple[int, ...]) -> None:
    def close() -> None:
        for descriptor in closed:
            os.close(descriptor)

    path = tmp_path / "data" / "zoned.sock"
    process = raw(tmp_path, preexec_fn=close)
    try:
        until_sync(lambda: socket_answers(path), 20.0)
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def test_log_into_a_full_pipe_is_dropped_and_counted(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    path = tmp_path / "data" / "zoned.sock"
    process = raw(tmp_path, stdout=subprocess.DEVNULL, stderr=write_end)
    try:
        until_sync(lambda: socket_answers(path), 20.0)
        token = (tmp_path / "data" / "token").read_text(encoding="ascii").strip()
        for _ in range(60):
            with connected(str(path)) as sock:
                sock.sendall(_ws_head())
                sock.recv(4096)
                sock.sendall(b"\x83\x00")  # breaks the protocol, which is logged
                read_all(sock)
        with connected(str(path)) as sock:
            sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            text = read_all(sock).decode()
        dropped = [
            line for line in text.splitlines() if line.startswith("zoned_logs_dropped_total")
        ]
        assert float(dropped[0].split()[1]) > 10
        os.set_blocking(read_end, False)
        logged = os.read(read_end, 1 << 20).decode()
        assert all(json.loads(line) for line in logged.splitlines())
        assert token not in logged
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(read_end)
        os.close(write_end)


def _ws_head() -> bytes:
    return (
        b"GET /rpc HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )


def test_config_that_is_wrong_is_told_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "zoned.toml").write_text("nonsense = 1\n", encoding="ascii")
    with serving(folder) as daemon:
        assert daemon.first_line == ""
        assert daemon.wait() in (1, 2)
        assert "nonsense" in daemon.log
        assert "Traceback" not in daemon.log
