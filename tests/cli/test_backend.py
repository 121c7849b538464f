"""The choice between daemon and folder, when it changes under a command."""

import asyncio
import time
from pathlib import Path

import pytest

from filestore import files
from srv.cli import append, backend, folder
from srv.cli.backend import Backend
from srv.cli.screen import Screen
from srv.config import Config
from srv.errors import ZonedError


@pytest.fixture
def lock(tmp_path: Path) -> files.FolderLock:
    """The folder's lock, as a daemon has it that does not listen yet."""
    socket = str(tmp_path / "zoned.sock")
    return asyncio.run(files.FolderLock.take(tmp_path, "daemon", socket, 0))


def write(tmp_path: Path) -> object:
    served = Backend(Config(tmp_path), Screen(), is_reading=False)
    try:
        params = {"definition_id": "ada", "line": "hello"}
        return served.object("agent:session:append_output", params)["lines"]
    finally:
        served.close()


def test_daemon_that_ends_is_waited_for(
    tmp_path: Path, lock: files.FolderLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            lock.release()

    monkeypatch.setattr(time, "sleep", pause)
    assert write(tmp_path) == 1
    assert pauses == [backend.PAUSE_S] * 3


def test_daemon_that_neither_ends_nor_listens_is_told(
    tmp_path: Path, lock: files.FolderLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "PATIENCE_S", 0.2)
    with pytest.raises(ZonedError, match="is being written by process") as caught:
        write(tmp_path)
    assert caught.value.kind == "BUSY"
    lock.release()


class Refusing:
    """Answers nothing but errors."""

    def __init__(self, error: ZonedError) -> None:
        self.error = error
        self.calls = 0

    def call(self, method: str, params: backend.Params) -> object:
        self.calls += 1
        raise self.error

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (ZonedError("NOT_FOUND", "no"), 1),
        (ZonedError("BUSY", "later"), 1),
        (ZonedError("UNAVAILABLE", "slow", daemon="silent"), 1),
        (ZonedError("UNAVAILABLE", "hung up", daemon="gone"), backend.GONE_MAX + 1),
        (ZonedError("COMMIT_UNKNOWN", "who knows"), backend.GONE_MAX + 1),
    ],
)
def test_call_is_repeated_only_where_that_may_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: ZonedError, calls: int
) -> None:
    refusing = Refusing(error)
    monkeypatch.setattr(Backend, "_choose", lambda self: refusing)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(ZonedError) as caught:
        Backend(Config(tmp_path), Screen(), is_reading=True).call("srv:info", {})
    assert caught.value is error
    assert refusing.calls == calls


def test_full_queue_is_waited_for_as_long_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = Refusing(ZonedError("BUSY", "full", retry_after_ms=6000))
    pauses: list[float] = []
    now = time.monotonic()
    monkeypatch.setattr(Backend, "_choose", lambda self: refusing)
    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setattr(time, "monotonic", lambda: now + sum(pauses))
    with pytest.raises(ZonedError, match="full"):
        Backend(Config(tmp_path), Screen(), is_reading=True).call("srv:info", {})
    assert pauses == [6.0, 6.0]


def test_holder_is_read_as_the_store_reads_it(tmp_path: Path, lock: files.FolderLock) -> None:
    ours, theirs = folder.read_holder(tmp_path), files.read_holder(tmp_path)
    assert (ours.pid, ours.kind, ours.socket) == (theirs.pid, theirs.kind, theirs.socket)
    assert folder.is_locked(tmp_path)
    lock.release()
    assert not folder.is_locked(tmp_path)
    for content in (b"", b"{}", b"[1]", b'{"pid": "x", "kind": 1, "socket": 2}', b"\xff"):
        (tmp_path / files.LOCK_NAME).write_bytes(content)
        assert folder.read_holder(tmp_path) == folder.Holder()


def test_progress_is_shown_on_a_terminal_and_taken_away(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(append, "PROGRESS_AFTER_S", 0.0)
    screen = Screen()
    append._Progress(screen, "ada").show(3, 1024)
    assert capfd.readouterr().err == ""
    screen.is_error_terminal = True
    append._Progress(screen, "ada").show(3, 1024)
    screen.end_progress()
    assert capfd.readouterr().err == "\rada: 3 lines, 1 KiB\x1b[K\r\x1b[K"
