"""The daemon on a full disk, and on one that fails: writes say so and what to do, reads go on, the
health says it, and writes work again by themselves."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from filestore import FileStore
from tests.crash.test_full_disk import fill_up
from tests.support.child_model import assert_clean
from tests.support.daemon import Client, Daemon, Failed, serving
from tests.support.faults import inject, injected, resize_disk, small_disk, until_sync

RESUME_S_MAX = 5.0
SYNC = "fsync,fdatasync"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "4m") as folder:
        yield folder


def fill(client: Client, agent: str) -> tuple[list[str], Failed]:
    """Append until it is refused. Returns the acknowledged lines and the refusal."""
    lines: list[str] = []
    for number in range(2000):
        line = f"{number} " + "x" * 20_000
        try:
            client.call("agent:session:append_output", definition_id=agent, line=line)
        except Failed as error:
            return lines, error
        lines.append(line)
    raise AssertionError("the disk never filled up")


def free_bytes(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


def takes_writes(client: Client, agent: str) -> bool:
    try:
        client.call("agent:session:append_output", definition_id=agent, line="again")
    except Failed as error:
        if error.kind in ("STORAGE_FULL", "COMMIT_UNKNOWN", "READ_ONLY"):
            return False
        raise
    return True


def read_lines(client: Client, agent: str) -> list[str]:
    found: list[str] = []
    while True:
        page = client.call("agent:session:read_output", definition_id=agent, from_line=len(found))
        found += page["lines"]
        if len(found) >= page["total_lines"]:
            return found


async def assert_clean_store(data_dir: Path) -> None:
    store = await FileStore.open(data_dir)
    try:
        await assert_clean(store)
    finally:
        await store.close()


@pytest.mark.root
@pytest.mark.parametrize("way", ["larger disk", "removed file"])
async def test_full_disk_is_told_and_overcome_without_a_restart(
    disk: Path, tmp_path: Path, way: str
) -> None:
    filler = disk / "filler"
    if way == "removed file":
        resize_disk(disk, "8m")
        filler.write_bytes(bytes(4 << 20))
    data_dir = disk / "data"
    with serving(data_dir, folder=tmp_path) as daemon:
        with daemon.client() as client, daemon.client(is_unix=True) as other:
            client.call("agent:session:write_state", definition_id="kept", content="kept")
            lines, error = fill(client, "a")
            assert (error.kind, error.code) == ("STORAGE_FULL", -32004)
            assert "space" in error.data["hint"]
            health = other.call("srv:health")
            assert health["ok"] is False
            assert "full" in health["trouble"]
            reply = daemon.get("/health", token=False)
            assert (reply.status, reply.json()) == (503, health)
            assert b"zoned_healthy 0" in daemon.get("/metrics").body
            # Seconds later: nobody has tried to write, and a small commit might have gone well.
            until_sync(lambda: "writes are refused: the disk is full" in daemon.log, RESUME_S_MAX)
            assert daemon.get("/health", token=False).status == 503
            with pytest.raises(Failed, match="STORAGE_FULL"):
                other.call("agent:session:write_state", definition_id="b", content="y" * 1_000_000)
            assert read_lines(other, "a") == lines, "reads go on, and nothing partial is there"
            assert other.call("agent:session:read", definition_id="kept")["content"] == "kept"
            if way == "removed file":
                filler.unlink()
            else:
                resize_disk(disk, "64m")
            until_sync(lambda: takes_writes(client, "a"), RESUME_S_MAX)
            until_sync(lambda: daemon.get("/health").status == 200, RESUME_S_MAX)
            until_sync(lambda: "writes are taken again" in daemon.log, RESUME_S_MAX)
            assert other.call("srv:health") == {"ok": True}
            assert read_lines(other, "a") == [*lines, "again"]
        assert daemon.end() == 0
        assert "Traceback" not in daemon.log
    await assert_clean_store(data_dir)


@pytest.mark.root
def test_token_is_not_rotated_on_a_full_disk_and_says_why(disk: Path, tmp_path: Path) -> None:
    with serving(disk / "data", folder=tmp_path) as daemon, daemon.client(is_unix=True) as client:
        fill_up(disk)
        with pytest.raises(Failed, match="STORAGE_FULL"):
            client.call("srv:rotate_token")
        with daemon.client() as pane:
            pane.call("srv:info")  # by the old token


@pytest.mark.root
def test_low_space_is_told_before_the_disk_is_full(disk: Path, tmp_path: Path) -> None:
    with serving(disk / "data", folder=tmp_path) as daemon, daemon.client() as client:
        assert client.call("srv:health") == {"ok": True}
        filler = disk / "filler"
        filler.write_bytes(bytes(free_bytes(disk) - (200 << 10)))
        health = client.call("srv:health")
        assert health["ok"] is True
        assert "are free on the disk" in health["warning"]
        assert daemon.get("/health").status == 200
        until_sync(lambda: "make room" in daemon.log, RESUME_S_MAX)
        (line,) = [
            each
            for each in daemon.get("/metrics").body.decode().splitlines()
            if each.startswith("zoned_disk_free_bytes ")
        ]
        assert 0 < float(line.split()[1]) < 1 << 20
        filler.unlink()
        assert client.call("srv:health") == {"ok": True}


async def make(data_dir: Path) -> None:
    """A store and its token, so that the faults hit the work and not the making."""
    with serving(data_dir) as daemon:
        assert daemon.end() == 0


def outcomes(daemon: Daemon, client: Client) -> list[str]:
    found = []
    for number in range(8):
        try:
            client.call(
                "agent:session:append_output", definition_id="a", line=str(number), at_line=None
            )
            found.append("ok")
        except Failed as error:
            found.append(error.kind)
    return found


@pytest.mark.strace
@pytest.mark.slow
async def test_sync_that_fails_once_is_told_as_unknown_and_overcome(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    await make(data_dir)
    heard: set[str] = set()
    for when in ("1", "2"):
        trace = tmp_path / "trace"
        with serving(data_dir, under=inject(trace, SYNC, "EIO", when)) as daemon:
            with daemon.client(is_unix=True) as client:
                found = outcomes(daemon, client)
                assert set(found) <= {"ok", "COMMIT_UNKNOWN", "READ_ONLY"}, found
                heard |= set(found)
                until_sync(lambda: takes_writes(client, "b"), RESUME_S_MAX)
                assert client.call("srv:health") == {"ok": True}
                lines = read_lines(client, "a")
            daemon.end()
            assert "Traceback" not in daemon.log
        acknowledged = [str(n) for n, outcome in enumerate(found) if outcome == "ok"]
        assert [line for line in lines[-len(found) :] if line in acknowledged][-3:] == (
            acknowledged[-3:]
        )
        await assert_clean_store(data_dir)
    assert {"ok", "COMMIT_UNKNOWN"} <= heard


@pytest.mark.strace
@pytest.mark.slow
async def test_sync_that_fails_from_then_on_makes_read_only_with_a_reason(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    await make(data_dir)
    trace = tmp_path / "trace"
    with serving(data_dir, under=inject(trace, SYNC, "EIO", "2+")) as daemon:
        with daemon.client(is_unix=True) as client:
            outcomes(daemon, client)

            def is_read_only() -> bool:
                return outcomes(daemon, client)[-1] == "READ_ONLY"

            until_sync(is_read_only, 10.0)
            health = client.call("srv:health")
            assert health["ok"] is False
            assert "read-only" in health["trouble"]
            assert daemon.get("/health", token=False).status == 503
            assert client.call("agent:session:read", definition_id="a")["output_lines"] >= 0
        daemon.end()
        assert injected(trace) > 0
    await assert_clean_store(data_dir)


@pytest.mark.strace
@pytest.mark.slow
async def test_read_that_fails_is_told_and_nobody_else_notices(tmp_path: Path) -> None:
    """An error of the driver's own must not end the daemon."""
    data_dir = tmp_path / "data"
    with serving(data_dir) as daemon:
        with daemon.client() as client:
            content = "".join(map(str, range(400_000)))
            client.call("agent:session:write_state", definition_id="big", content=content)
        assert daemon.end() == 0
    trace = tmp_path / "trace"
    with serving(data_dir) as daemon:
        command = ["strace", "-f", "-o", str(trace), "-p", str(daemon.pid), "-e", "trace=pread64",
                   "-e", "inject=pread64:error=EIO", "-P", str(data_dir / "zoned.db")]  # fmt: skip
        with daemon.client() as client:
            strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            try:
                assert strace.stderr is not None
                assert "attached" in strace.stderr.readline()
                with pytest.raises(Failed) as caught:
                    client.call("agent:session:read", definition_id="big")
                assert caught.value.kind in ("UNAVAILABLE", "CORRUPT")
                assert client.is_alive()
            finally:
                strace.terminate()
                strace.communicate()
            assert injected(trace) > 0
            read = client.call("agent:session:read", definition_id="big")
            assert read["content"] == content
        daemon.end()
        assert "Traceback" not in daemon.log
    await assert_clean_store(data_dir)
