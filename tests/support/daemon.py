"""A daemon as a process of its own, and a client that can say anything to it, also what is wrong.

The client is deliberately plain: blocking sockets with a timeout, frames put together by hand, so
that a test can send half of one, or rubbish. Nothing of srv's own clients is used.
"""

import json
import os
import random
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack

from tests.support.faults import until_sync
from tests.support.processes import COMMAND, END_S_MAX, ROOT, environment

ANSWER_S_MAX = 20.0
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Closed(Exception):
    """The daemon ended the connection; `code` is None if without a close frame."""

    def __init__(self, code: int | None, reason: str = "") -> None:
        super().__init__(f"closed with {code}: {reason}")
        self.code = code
        self.reason = reason


class Failed(Exception):
    """The answer was an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: dict[str, Any] = error["data"]

    @property
    def kind(self) -> str:
        kind: str = self.data["kind"]
        return kind


class Daemon:
    """A running daemon, or one that would not run (`ready` is None then)."""

    def __init__(self, data_dir: Path, process: subprocess.Popen[str], log: Path) -> None:
        self.data_dir = data_dir
        self.process = process
        self._log = log
        assert process.stdout is not None
        self.first_line = process.stdout.readline()
        self.ready: dict[str, Any] | None = json.loads(self.first_line) if self.first_line else None

    @property
    def pid(self) -> int:
        """Its own: it may have been started under another command."""
        assert self.ready is not None, self.log
        pid: int = self.ready["pid"]
        return pid

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def token(self) -> str:
        return (self.data_dir / "token").read_text(encoding="ascii").strip()

    @property
    def port(self) -> int:
        assert self.ready is not None, self.log
        return int(self.ready["url"].rstrip("/").rpartition(":")[2])

    @property
    def socket_path(self) -> str:
        assert self.ready is not None, self.log
        path: str = self.ready["socket"]
        return path

    @property
    def rss_bytes(self) -> int:
        """Memory of the process now."""
        return _status(self.pid, "VmRSS")

    def reset_peak(self) -> None:
        """Count the peak of memory from now on."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    @property
    def peak_bytes(self) -> int:
        """The most memory the process has had."""
        return _status(self.pid, "VmHWM")

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait. Returns the exit code."""
        os.kill(self.pid, number)
        return self.wait()

    def wait(self) -> int:
        """Wait until it ends; stdout must have had nothing but the first line."""
        out, _ = self.process.communicate(timeout=END_S_MAX)
        assert out == "", out
        return self.process.returncode

    def events(self) -> list[dict[str, Any]]:
        """What it has logged; every line must be JSON."""
        return [json.loads(line) for line in self.log.splitlines()]

    def open(self, *, is_unix: bool = False) -> socket.socket:
        """A bare connection."""
        if is_unix:
            return connected(self.socket_path)
        return socket.create_connection(("127.0.0.1", self.port), ANSWER_S_MAX)

    def client(self, *, is_unix: bool = False, is_binary: bool = False, **headers: str) -> "Client":
        """A WebSocket connection."""
        head = upgrade(self, **headers)
        return Client(self.open(is_unix=is_unix), head, is_binary=is_binary)

    def http(self, request: str | bytes, *, is_unix: bool = False) -> "Reply":
        """Send bytes, and read until the end of the connection."""
        with self.open(is_unix=is_unix) as sock:
            sock.sendall(request.encode("latin-1") if isinstance(request, str) else request)
            return Reply(read_all(sock))

    def get(self, target: str, *, token: bool = True, method: str = "GET", **more: str) -> "Reply":
        """A plain request with the right Host."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        lines += [f"Authorization: Bearer {self.token}"] if token else []
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in more.items()]
        return self.http("\r\n".join([*lines, "", ""]))


class Reply:
    """What came back over HTTP."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        head, _, self.body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split(" ")[1]) if first.startswith("HTTP/1.") else 0
        pairs = [line.partition(": ") for line in lines]
        self.headers = {name.lower(): value for name, _, value in pairs}

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A WebSocket connection: calls one after the other, or whatever a test sends."""

    def __init__(self, sock: socket.socket, head: str, *, is_binary: bool = False) -> None:
        self.sock = sock
        self.is_binary = is_binary
        self.notes: list[dict[str, Any]] = []
        """Notifications that came while something else was waited for."""
        self._data = b""
        self._number = 0
        sock.sendall(head.encode("latin-1"))
        while b"\r\n\r\n" not in self._data:
            if not self._more():
                raise Closed(None, self._data.decode("latin-1"))
        answer, _, self._data = self._data.partition(b"\r\n\r\n")
        self.head = answer.decode("latin-1")
        if not self.head.startswith("HTTP/1.1 101 "):
            raise Closed(None, self.head)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def call(self, method: str, **params: Any) -> Any:
        """Call, and wait for the answer to just this call. Raises Failed."""
        return self.result(self.start(method, **params))

    def start(self, method: str, **params: Any) -> int:
        """Call, and do not wait. Returns the id."""
        self._number += 1
        self.send(self.request(method, self._number, params))
        return self._number

    @staticmethod
    def request(method: str, number: Any, params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}

    def result(self, number: Any) -> Any:
        """The result of a call that was started; it must be the next one that is answered."""
        answer = self.answer()
        assert answer["id"] == number, answer
        assert answer["jsonrpc"] == "2.0"
        if "error" in answer:
            assert set(answer) == {"jsonrpc", "id", "error"}
            raise Failed(answer["error"])
        assert set(answer) == {"jsonrpc", "id", "result"}
        return answer["result"]

    def answer(self) -> Any:
        """The next message that is no notification."""
        while True:
            value = self.receive()
            if isinstance(value, dict) and "method" in value:
                assert "id" not in value
                self.notes.append(value)
            else:
                return value

    def note(self) -> dict[str, Any]:
        """The params of the next notification."""
        while not self.notes:
            value = self.receive()
            assert isinstance(value, dict), value
            assert "method" in value, value
            self.notes.append(value)
        value = self.notes.pop(0)
        assert value["method"] == "agent:session:changed"
        params: dict[str, Any] = value["params"]
        return params

    def send(self, value: Any) -> None:
        """Any value as one message."""
        if self.is_binary:
            self.send_frame(BINARY, msgpack.packb(value))
        else:
            self.send_frame(TEXT, json.dumps(value).encode())

    def send_frame(self, opcode: int, payload: bytes, **shape: Any) -> None:
        self.sock.sendall(frame(opcode, payload, **shape))

    def receive(self) -> Any:
        """The next message, decoded; it must come in the encoding of this client."""
        opcode, payload = self.receive_frame()
        if opcode == BINARY:
            assert self.is_binary
            return msgpack.unpackb(payload)
        assert opcode == TEXT
        assert not self.is_binary
        return json.loads(payload)

    def receive_frame(self) -> tuple[int, bytes]:
        """The next frame that is no ping. Raises Closed."""
        while True:
            self._need(2)
            first, second = self._data[0], self._data[1]
            assert first & 0x70 == 0
            assert second < 0x80, "a server does not mask"
            start, size = 2, second
            if second >= 126:
                start = 4 if second == 126 else 10
                self._need(start)
                size = int.from_bytes(self._data[2:start], "big")
            self._need(start + size)
            payload, self._data = self._data[start : start + size], self._data[start + size :]
            opcode = first & 0x0F
            if opcode == CLOSE:
                raise Closed(int.from_bytes(payload[:2], "big"), payload[2:].decode())
            if opcode != PING:
                return opcode, payload

    def closed(self) -> Closed:
        """Wait for the end of the connection; answers before it are let pass."""
        try:
            while True:
                self.receive_frame()
        except Closed as error:
            return error

    def is_alive(self) -> bool:
        """Whether the daemon still answers here."""
        return bool(self.call("srv:info")["version"])

    def _need(self, size: int) -> None:
        if len(self._data) >= size:
            return
        parts, have = [self._data], len(self._data)
        while have < size:
            part = self._receive()
            if not part:
                raise Closed(None)
            parts.append(part)
            have += len(part)
        self._data = b"".join(parts)

    def _more(self) -> bool:
        part = self._receive()
        self._data += part
        return bool(part)

    def _receive(self) -> bytes:
        try:
            return self.sock.recv(1 << 20)
        except ConnectionError:
            return b""


def frame(
    opcode: int,
    payload: bytes,
    *,
    is_final: bool = True,
    key: bytes | None = b"\x01\x02\x03\x04",
    reserved: int = 0,
    claimed: int | None = None,
) -> bytes:
    """A frame as a client sends it, or a broken one: unmasked, or with a length it has not."""
    size = len(payload) if claimed is None else claimed
    bit = 0 if key is None else 0x80
    head = bytes([(0x80 if is_final else 0) | reserved | opcode])
    if size < 126:
        head += bytes([bit | size])
    elif size < 1 << 16:
        head += bytes([bit | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([bit | 127]) + size.to_bytes(8, "big")
    return head + (payload if key is None else key + masked(payload, key))


def masked(data: bytes, key: bytes) -> bytes:
    """The slow and plain way."""
    if len(data) < 4096:
        return bytes(each ^ key[index % 4] for index, each in enumerate(data))
    whole = (key * (len(data) // 4 + 1))[: len(data)]
    number = int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")
    return number.to_bytes(len(data), "big")


def upgrade(daemon: Daemon, **headers: str) -> str:
    """The head of a request for WebSocket; `headers` replace the usual ones, "" leaves one out."""
    lines = {
        "Host": f"127.0.0.1:{daemon.port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": KEY,
        "Sec-WebSocket-Version": "13",
        "Authorization": f"Bearer {daemon.token}",
    }
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    shown = [f"{name}: {value}" for name, value in lines.items() if value]
    return "\r\n".join(["GET /rpc HTTP/1.1", *shown, "", ""])


def connected(path: str) -> socket.socket:
    """A connection to a unix socket."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(ANSWER_S_MAX)
    try:
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock


def read_all(sock: socket.socket) -> bytes:
    """What comes until the end; a reset is an end, too."""
    data = b""
    try:
        while part := sock.recv(65536):
            data += part
    except ConnectionError:
        pass
    return data


@contextmanager
def serving(
    data_dir: Path,
    *arguments: str,
    config: Mapping[str, object] | None = None,
    under: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    prepare: Callable[[], object] | None = None,
    folder: Path | None = None,
    command: Sequence[str] = COMMAND,
) -> Iterator[Daemon]:
    """A daemon on a folder, killed at the end if it is still there.

    `config` is its zoned.toml, `under` a command to start it by, `prepare` is called in the child,
    `folder` is where its log goes (beside the data folder), `command` another `zoned`.
    """
    if config is not None:
        data_dir.mkdir(mode=0o700, exist_ok=True)
        text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in config.items())
        (data_dir / "zoned.toml").write_text(text, encoding="utf-8")
    folder = data_dir.parent if folder is None else folder
    log = folder / f"log-{random.getrandbits(64):x}"
    port = () if "--port" in arguments else ("--port", "0")
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*under, *command, "serve", "--data-dir", str(data_dir), *port, *arguments],
            cwd=ROOT,
            env=environment(**(environ or {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            preexec_fn=prepare,
        )
    try:
        yield Daemon(data_dir, process, log)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def until_refused(daemon: Daemon) -> None:
    """Wait until nobody listens any more."""

    def refused() -> bool:
        try:
            daemon.open().close()
        except OSError:
            return True
        return False

    until_sync(refused, ANSWER_S_MAX, 0.01)


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"{name} is not told")
