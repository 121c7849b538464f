"""`kill -9` at every step of a restore, and at the doors of the system calls of a backup.

Whatever the moment, the folder holds the store that was there, or the restored one, or neither with
a refusal that says what to do; and what was there is somewhere, whole. Run again, it is restored.
"""

import asyncio
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from filestore import AlreadyExistsError, FileStore, FormatError
from filestore.backup import back_up_to_file
from filestore.restoring import restoring
from tests.contract.tools import noise
from tests.support.contents import Contents, contents, contents_of
from tests.support.faults import read_trace, strace
from tests.support.processes import COMMAND, END_S_MAX, ROOT, environment

CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from filestore.restoring import restoring

left = int(sys.argv[3])

def hit(name):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with restoring(Path(sys.argv[1]), Path(sys.argv[2]), failpoint=hit) as ready:
        hit("checked")
        ready.finish()
    sys.exit(-left)

asyncio.run(main())
"""


async def fill(folder: Path, text: bytes) -> None:
    async with await FileStore.open(folder) as store:
        await store.write("z", "large", noise(200_000) + text)
        await store.append("z", "tail", text)


def restore(file: Path, folder: Path, hit: int) -> int:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(file), str(folder), str(hit)],
        cwd=ROOT, timeout=END_S_MAX, check=False,
    )  # fmt: skip
    return done.returncode


UNCLOSED = """
import asyncio, os, sys
from filestore import FileStore

async def main():
    store = await FileStore.open(sys.argv[1])
    await store.append("z", "tail", b"in the log")
    os._exit(0)

asyncio.run(main())
"""


def leave_a_log(folder: Path) -> None:
    """Write more, and end without closing."""
    subprocess.run([sys.executable, "-c", UNCLOSED, str(folder)], cwd=ROOT, check=True)
    assert (folder / "zoned.db-wal").stat().st_size


async def opened(folder: Path) -> Contents | None:
    """What is in the store; None if it says that it was being restored."""
    try:
        store = await FileStore.open(folder)
    except FormatError as error:
        if "zoned restore-backup" in error.hint:
            return None
        raise
    async with store:
        return await contents_of(store)


async def kept(folder: Path, tmp_path: Path) -> list[Contents]:
    """What is kept aside, each opened as a copy."""
    found = []
    for number, aside in enumerate(sorted((folder / "backups").glob("replaced-*"))):
        if aside.suffix != ".new":
            copy = tmp_path / f"aside-{number}"
            shutil.copytree(aside, copy)
            async with await FileStore.open(copy) as store:
                found.append(await contents_of(store))
            shutil.rmtree(copy)
    return found


@pytest.mark.parametrize("has_log", [False, True])
async def test_restore_killed_at_any_step_loses_nothing(tmp_path: Path, has_log: bool) -> None:
    backup, folder = tmp_path / "backup", tmp_path / "data"
    await fill(backup, b"of the backup")
    async with await FileStore.open(backup, read_only=True) as store:
        wanted = await contents_of(store)
    refused, number = 0, 0
    while True:
        number += 1
        shutil.rmtree(folder, ignore_errors=True)
        await fill(folder, b"of before")
        if has_log:
            leave_a_log(folder)
        async with await FileStore.open(folder, read_only=True) as store:
            before = await contents_of(store)
        if restore(backup / "zoned.db", folder, number) != -signal.SIGKILL:
            break
        found = await opened(folder)
        refused += found is None
        assert found in (None, before, wanted)
        assert found == before or before in await kept(folder, tmp_path)
        assert restore(backup / "zoned.db", folder, 0) >= 0
        async with await FileStore.open(folder) as store:
            assert await contents_of(store) == wanted
        left = {path.name for path in folder.iterdir()}
        assert left - {"zoned.db-shm", "zoned.db-wal"} == {"backups", "zoned.db", "zoned.lock"}
    assert number > 8
    assert refused >= 4


@pytest.mark.strace
async def test_database_is_gone_for_good_before_its_log_is_removed(tmp_path: Path) -> None:
    """Without its log it would open, and nothing would tell what it has lost."""
    backup, folder, trace = tmp_path / "backup", tmp_path / "data", tmp_path / "trace"
    await fill(backup, b"of the backup")
    await fill(folder, b"of before")
    leave_a_log(folder)
    words = [sys.executable, "-c", CHILD, str(backup / "zoned.db"), str(folder), "0"]
    prefix = strace(trace, calls="unlink,fsync", data_bytes=4096)
    subprocess.run([*prefix, *words], cwd=ROOT, timeout=END_S_MAX, check=False)
    steps = [call.names[0] if call.names else call.path for call in read_trace(trace)]
    database = str(folder / "zoned.db")
    assert str(folder) in steps[steps.index(database) : steps.index(f"{database}-wal")]


@pytest.mark.parametrize("is_there", [False, True])
async def test_backup_never_lies_beside_the_log_of_another_database(
    tmp_path: Path, is_there: bool
) -> None:
    """An older backup was served, and killed: its log would be taken for that of the new one, and
    the restored store would be clean, without what was appended since."""
    file, log_file = tmp_path / "served" / "zoned.db", tmp_path / "served" / "zoned.db-wal"
    async with await FileStore.open(tmp_path / "data") as store:
        await store.append("z", "tail", b"first")
        file.parent.mkdir(mode=0o700)
        await back_up_to_file(store, file)
        await asyncio.to_thread(leave_a_log, file.parent)
        if not is_there:
            file.unlink()
        await store.append("z", "tail", b", and what came since")
        with pytest.raises(AlreadyExistsError, match=r"zoned\.db-wal"):
            await back_up_to_file(store, file, is_replacing=True)
        log_file.unlink()
        await back_up_to_file(store, file, is_replacing=True)
    async with restoring(file, tmp_path / "restored") as ready:
        ready.finish()
    async with await FileStore.open(tmp_path / "restored") as store:
        assert await store.read("z", "tail") == b"first, and what came since"


DOORS = [("link", 1), ("fsync", 1), ("fsync", 2), ("unlinkat", 1), ("rmdir", 1), ("pwrite64", 9)]


@pytest.mark.slow
@pytest.mark.strace
@pytest.mark.parametrize(("call", "when"), DOORS)
def test_backup_killed_at_a_system_call_leaves_the_store_and_no_half_file(
    tmp_path: Path, call: str, when: int
) -> None:
    folder, file = tmp_path / "data", tmp_path / "copy.db"
    asyncio.run(fill(folder, b"text"))
    before = contents(folder)
    beside = tmp_path / ".copy.db.zoned-new"
    aimed = [word for path in (tmp_path, file, beside, beside / "zoned.db")
             for word in ("-P", str(path))]  # fmt: skip
    killed = subprocess.run(
        ["strace", "-f", "-qq", "-o", str(tmp_path / "trace"), *aimed, "-e", f"trace={call}",
         "-e", f"inject={call}:signal=KILL:when={when}",
         *COMMAND, "backup", str(file), "--data-dir", str(folder)],
        cwd=ROOT, env=environment(), timeout=END_S_MAX * 2, check=False, capture_output=True,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    assert beside.exists()
    if file.exists():
        assert call in ("fsync", "unlinkat", "rmdir"), "it has its name only when it is finished"
        shutil.copytree(folder, tmp_path / "other")
        shutil.copyfile(file, tmp_path / "other" / "zoned.db")
        assert contents(tmp_path / "other") == before
    assert contents(folder) == before
    done = subprocess.run(
        [*COMMAND, "backup", str(file), "--force", "--data-dir", str(folder)],
        cwd=ROOT, env=environment(), timeout=END_S_MAX, check=True, capture_output=True,
    )  # fmt: skip
    assert done.stderr == b""
    assert not beside.exists()
