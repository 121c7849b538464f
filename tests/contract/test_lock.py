"""The lock: one writer per folder, named to whoever comes second, gone with its process."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from filestore import BusyError, FileStore, LockedError
from tests.conftest import StoreOpener
from tests.contract.tools import turns

LONG_MS = 30_000
"""Longer than anything here takes: who waits this long waits for an event, not for the time."""

HOLDER = """
import asyncio, sys
from filestore import FileStore

async def main():
    store = await FileStore.open(sys.argv[1], kind=sys.argv[2], socket=sys.argv[3])
    await store.append("z", "f", b"from another process")
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await store.close()

asyncio.run(main())
"""


@contextmanager
def holder(
    folder: Path, kind: str = "command", socket: str = ""
) -> Iterator["subprocess.Popen[str]"]:
    """Another process that has the store open, until its stdin ends or it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), kind, socket],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def finish(process: "subprocess.Popen[str]") -> None:
    """Let the holder close its store and end."""
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait() == 0


async def test_second_open_in_same_process_names_this_process(
    open_store: StoreOpener, data_dir: Path
) -> None:
    await open_store(kind="daemon", socket="run/zoned.sock")
    with pytest.raises(LockedError) as caught:
        await FileStore.open(data_dir)
    error = caught.value
    assert isinstance(error, BusyError)
    assert (error.pid, error.kind, error.socket) == (os.getpid(), "daemon", "run/zoned.sock")
    assert str(os.getpid()) in str(error)


async def test_second_open_through_another_path_is_refused_too(
    open_store: StoreOpener, data_dir: Path
) -> None:
    await open_store()
    other = data_dir.parent / "link"
    other.symlink_to(data_dir)
    with pytest.raises(LockedError):
        await FileStore.open(other)


async def test_second_open_leaves_the_first_working(
    open_store: StoreOpener, data_dir: Path
) -> None:
    store = await open_store()
    for _ in range(5):
        with pytest.raises(LockedError):
            await FileStore.open(data_dir)
        await store.append("z", "f", b"x")
    assert await store.read("z", "f") == b"xxxxx"


@pytest.mark.parametrize(("kind", "socket"), [("daemon", "run/daemon.sock"), ("command", "")])
async def test_open_beside_another_process_names_it(data_dir: Path, kind: str, socket: str) -> None:
    with holder(data_dir, kind, socket) as process:
        with pytest.raises(LockedError) as caught:
            await FileStore.open(data_dir)
        error = caught.value
        assert (error.pid, error.kind, error.socket) == (process.pid, kind, socket)
        assert f"process {process.pid}" in str(error)


async def test_open_beside_another_command_waits_for_it(
    open_store: StoreOpener, data_dir: Path
) -> None:
    with holder(data_dir) as process:
        async with asyncio.TaskGroup() as group:
            opening = group.create_task(open_store(lock_wait_ms=LONG_MS))
            await turns(5)
            assert not opening.done()
            await asyncio.to_thread(finish, process)
        assert await opening.result().read("z", "f") == b"from another process"


async def test_open_beside_a_daemon_does_not_wait(data_dir: Path) -> None:
    """It will not go away soon, and its socket serves."""
    with holder(data_dir, "daemon", "run/d.sock") as process:
        async with asyncio.timeout(LONG_MS / 2000):
            with pytest.raises(LockedError) as caught:
                await FileStore.open(data_dir, lock_wait_ms=LONG_MS)
        assert caught.value.pid == process.pid


async def test_open_that_waited_in_vain_names_the_holder(
    open_store: StoreOpener, data_dir: Path
) -> None:
    await open_store()
    with pytest.raises(LockedError) as caught:
        await FileStore.open(data_dir, lock_wait_ms=60)
    assert caught.value.pid == os.getpid()


@pytest.mark.parametrize("kind", ["daemon", "command"])
async def test_open_after_holder_was_killed_works_at_once(
    open_store: StoreOpener, data_dir: Path, kind: str
) -> None:
    """The kernel gave the lock back; what the dead one wrote into the file means nothing."""
    with holder(data_dir, kind, "run/dead.sock") as process:
        process.kill()
        process.wait()
        assert json.loads((data_dir / "zoned.lock").read_text())["pid"] == process.pid
        store = await open_store()
        assert await store.read("z", "f") == b"from another process"
    with pytest.raises(LockedError) as caught:
        await FileStore.open(data_dir)
    assert (caught.value.pid, caught.value.kind) == (os.getpid(), "command")


async def test_open_in_another_process_after_close_here_works(
    open_store: StoreOpener, data_dir: Path
) -> None:
    store = await open_store()
    await store.append("z", "f", b"here, then ")
    await store.close()
    with holder(data_dir) as process:
        finish(process)
    assert await (await open_store()).read("z", "f") == b"here, then from another process"


async def test_open_after_lock_file_was_removed_is_refused_or_locked_anew(
    open_store: StoreOpener, data_dir: Path
) -> None:
    """Removing the file by hand between two runs does no harm."""
    store = await open_store()
    await store.write("z", "f", b"x")
    await store.close()
    (data_dir / "zoned.lock").unlink()
    store = await open_store()
    with pytest.raises(LockedError):
        await FileStore.open(data_dir)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": "x"}', b"\xff\x00", b"null"])
async def test_open_with_unreadable_holder_says_unknown(
    open_store: StoreOpener, data_dir: Path, content: bytes
) -> None:
    """The content is for people; the lock itself holds all the same."""
    await open_store()
    (data_dir / "zoned.lock").write_bytes(content)
    with pytest.raises(LockedError) as caught:
        await FileStore.open(data_dir)
    assert (caught.value.pid, caught.value.socket) == (0, "")


async def test_open_cancelled_while_it_waits_takes_no_lock_later(
    open_store: StoreOpener, data_dir: Path
) -> None:
    """The thread that waits for the lock may not get it for a caller who has gone."""
    loop = asyncio.get_running_loop()
    threads = ThreadPoolExecutor()
    loop.set_default_executor(threads)
    store = await open_store()
    async with asyncio.TaskGroup() as group:
        opening = group.create_task(FileStore.open(data_dir, lock_wait_ms=LONG_MS))
        await turns(5)
        opening.cancel()
    await store.close()
    loop.set_default_executor(ThreadPoolExecutor())
    # Ends when the waiting thread has seen that the lock is free, or that nobody wants it.
    await asyncio.to_thread(threads.shutdown)
    await open_store()


async def test_read_only_open_needs_no_lock(open_store: StoreOpener, data_dir: Path) -> None:
    with holder(data_dir, "daemon") as process:
        store = await open_store(read_only=True)
        assert await store.read("z", "f") == b"from another process"
        await store.close()
        finish(process)
