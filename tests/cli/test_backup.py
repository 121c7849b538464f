"""`zoned backup` and `zoned restore-backup`: what they make, refuse, keep and leave untouched."""

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from filestore import FileStore
from filestore.check import check
from srv.client.blocking import BlockingClient
from srv.errors import ZonedError
from tests.cli.tools import SNAPSHOT, Zoned, on_terminal
from tests.contract.tools import run_sql
from tests.support.contents import contents


def all_bytes(folder: Path) -> dict[str, bytes]:
    """Every file but the lock's."""
    found = {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: data for name, data in found.items() if not name.endswith("zoned.lock")}


def test_backup_restored_elsewhere_has_everything(zoned: Zoned, tmp_path: Path) -> None:
    zone = zoned.fill()
    file = tmp_path / "copy.db"
    before = os.umask(0)
    try:
        answer = zoned.ok("backup", str(file))
    finally:
        os.umask(before)
    assert answer.text == f"{file}: {file.stat().st_size // 1024} KiB, every byte of it checked\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(tmp_path).count(".copy.db.zoned-new") == 0
    other = Zoned(tmp_path / "other")
    assert other.json("restore-backup", str(file), "--yes") == {"restored": True, "kept": ""}
    assert other.ok("tail", "ada").out == b'{"n": 3}\n'
    assert other.ok("show", zone).out == SNAPSHOT
    assert other.ok("check", "--deep").code == 0
    note = json.loads((zoned.folder / "backups" / "last.json").read_bytes())
    assert (note["file"], note["bytes"]) == (str(file), file.stat().st_size)


async def test_backup_beside_a_writer_is_one_moment_of_the_store(
    alone: Zoned, tmp_path: Path
) -> None:
    """Nothing that was acknowledged before is missing, and two streams never disagree."""
    with alone.serving():
        process = await asyncio.create_subprocess_exec(
            *alone.words("append", "ada"), stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdin is not None
        sent = 0
        file = tmp_path / "copy.db"
        async with asyncio.TaskGroup() as group:
            making = group.create_task(asyncio.to_thread(alone.ok, "backup", str(file)))
            while not making.done():
                process.stdin.write(b"".join(b'{"n": %d}\n' % n for n in range(sent, sent + 500)))
                await process.stdin.drain()
                sent += 500
                await asyncio.wait([making], timeout=0.001)
        process.stdin.close()
        assert await process.wait() == 0
    other = Zoned(tmp_path / "other")
    await asyncio.to_thread(other.ok, "restore-backup", str(file), "--yes")
    async with await FileStore.open(other.folder) as store:
        assert (await check(store, deep=True)).is_clean
        if await store.stat("agent:ada:current", "output"):
            data = await store.read("agent:ada:current", "output")
            assert data == b"".join(b'{"n": %d}\n' % n for n in range(data.count(b"\n")))


def test_file_that_exists_is_kept_without_force(alone: Zoned, tmp_path: Path) -> None:
    alone.fill()
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    answer = alone("backup", str(file))
    assert (answer.code, answer.out) == (1, b"")
    assert "exists (give another name, or --force" in answer.err
    assert file.read_text() == "mine"
    alone.ok("backup", str(file), "--force")
    assert file.read_bytes().startswith(b"SQLite format 3")


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("data/zoned.db", "not go among those of the store itself"),
        ("data/../data/token", "not go among those of the store itself"),
        ("folder", "is a folder"),
        ("missing/copy.db", "there is no folder "),
    ],
)
def test_bad_place_is_refused_even_with_force(
    alone: Zoned, tmp_path: Path, file: str, told: str
) -> None:
    alone.fill()
    (tmp_path / "folder").mkdir()
    before = all_bytes(tmp_path)
    answer = alone("backup", str(tmp_path / file), "--force")
    assert answer.code in (1, 2)
    assert told in answer.err
    assert all_bytes(tmp_path) == before


def test_damaged_store_makes_no_backup_and_keeps_the_old_one(alone: Zoned, tmp_path: Path) -> None:
    alone.fill()
    file = tmp_path / "copy.db"
    alone.ok("backup", str(file))
    before = file.read_bytes()
    run_sql(alone.folder / "zoned.db", "UPDATE chunk_data SET data = zeroblob(length(data))")
    answer = alone("backup", str(file), "--force")
    assert answer.code == 1
    assert "is not clean" in answer.err
    assert file.read_bytes() == before
    assert os.listdir(tmp_path).count(".copy.db.zoned-new") == 0


@pytest.fixture
def good(alone: Zoned, tmp_path: Path) -> bytes:
    """A backup, and in the folder a store that is another by now."""
    alone.fill()
    alone.ok("backup", str(tmp_path / "copy.db"))
    alone.ok("append", "ada", stdin=b"later\n")
    alone.ok("append", "eve", stdin=b"new\n")
    return (tmp_path / "copy.db").read_bytes()


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: b"PK\x03\x04" + data[4:], "not an SQLite database"),
        (lambda data: data[:68] + b"abcd" + data[72:], "database of another program"),
        (lambda data: data[:60] + (99).to_bytes(4, "big") + data[64:], "format 99"),
        (lambda data: data[: len(data) // 2], "cut short"),
        (lambda data: b"", "not an SQLite database"),
        (lambda data: flip(data, data.index(SNAPSHOT[:20]) + 5), "not clean"),
        (lambda data: data[: 3 * 4096] + bytes(4096) + data[4 * 4096 :], ""),
    ],
    ids=["foreign", "other program", "newer", "truncated", "empty", "flipped", "zeroed page"],
)
def test_bad_backup_is_refused_and_nothing_changes(
    alone: Zoned, tmp_path: Path, good: bytes, change: object, told: str
) -> None:
    assert callable(change)
    bad = tmp_path / "bad.db"
    bad.write_bytes(change(good))
    before = all_bytes(tmp_path)
    answer = alone("restore-backup", str(bad), "--yes")
    assert answer.code == 1
    assert told in answer.err
    assert answer.err.count("\n") == 1
    assert all_bytes(tmp_path) == before


def test_backup_with_a_trigger_is_refused(alone: Zoned, tmp_path: Path, good: bytes) -> None:
    """It would do whatever its maker wished, at the next write."""
    trigger = "CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM session; END"
    run_sql(tmp_path / "copy.db", trigger)
    before = all_bytes(alone.folder)
    answer = alone("restore-backup", str(tmp_path / "copy.db"), "--yes")
    assert (answer.code, "trigger 't'" in answer.err) == (1, True)
    assert all_bytes(alone.folder) == before


def test_store_in_use_is_no_backup(alone: Zoned, tmp_path: Path, good: bytes) -> None:
    other = Zoned(tmp_path / "other")
    other.fill()
    with other.serving():
        answer = alone("restore-backup", str(other.folder / "zoned.db"), "--yes")
        assert answer.code == 1
        assert "is in use" in answer.err
    itself = alone("restore-backup", str(alone.folder / "zoned.db"), "--yes")
    assert "is in use" in itself.err
    assert "there is no file" in alone("restore-backup", str(tmp_path / "none"), "--yes").err


def test_store_with_a_log_that_nobody_has_open_is_restored_with_it(
    alone: Zoned, tmp_path: Path
) -> None:
    other = Zoned(tmp_path / "other")
    with other.serving() as daemon:
        other.ok("append", "ada", stdin=b"in the log\n")
        daemon.kill()
        daemon.wait()
    before = all_bytes(other.folder)
    assert before[str(other.folder / "zoned.db-wal")]
    alone.ok("restore-backup", str(other.folder / "zoned.db"), "--yes")
    assert alone.ok("tail", "ada").out == b"in the log\n"
    assert all_bytes(other.folder) == before


def test_restore_keeps_what_was_there_and_forgets_markers(
    alone: Zoned, tmp_path: Path, good: bytes
) -> None:
    later = contents(alone.folder)
    marker = alone.folder / "migration_import_legacy_v1.flag"
    marker.write_text("{}")
    kept = Path(alone.json("restore-backup", str(tmp_path / "copy.db"), "--yes")["kept"])
    assert not marker.exists()
    assert list(contents(alone.folder)["sessions"]) == ["ada"]
    assert kept.parent == alone.folder / "backups"
    assert os.listdir(kept) == ["zoned.db"]
    # What is kept can itself be restored.
    alone.ok("restore-backup", str(kept / "zoned.db"), "--yes")
    assert contents(alone.folder) == later
    assert (tmp_path / "copy.db").read_bytes() == good


def test_restore_asks_and_no_is_no(alone: Zoned, tmp_path: Path, good: bytes) -> None:
    words = alone.words("restore-backup", str(tmp_path / "copy.db"))
    before = all_bytes(tmp_path)
    code, shown = on_terminal(words, typed=b"n\n")
    assert code == 1
    assert "is kept aside" in shown
    assert "nothing is changed" in shown
    assert all_bytes(tmp_path) == before
    assert on_terminal(words, typed=b"y\n")[0] == 0
    assert list(contents(alone.folder)["sessions"]) == ["ada"]
    assert alone("restore-backup", str(tmp_path / "copy.db")).code == 2  # nobody to ask


def test_restore_under_a_daemon_is_refused(alone: Zoned, tmp_path: Path, good: bytes) -> None:
    with alone.serving():
        answer = alone("restore-backup", str(tmp_path / "copy.db"), "--yes")
        assert answer.code == 1
        assert "is being written by process" in answer.err
        assert alone.ok("tail", "eve").out == b"new\n"


def test_damaged_store_is_replaced_and_kept_as_it_was(
    alone: Zoned, tmp_path: Path, good: bytes
) -> None:
    path = alone.folder / "zoned.db"
    path.write_bytes(path.read_bytes()[:5000])
    path.with_name("zoned.db-wal").write_bytes(b"rubbish")
    kept = Path(alone.json("restore-backup", str(tmp_path / "copy.db"), "--yes")["kept"])
    assert set(os.listdir(kept)) == {"zoned.db", "zoned.db-wal"}
    assert (kept / "zoned.db").stat().st_size == 5000
    assert list(contents(alone.folder)["sessions"]) == ["ada"]


def test_method_answers_over_the_unix_socket(alone: Zoned, tmp_path: Path) -> None:
    file = str(tmp_path / "copy.db")
    with alone.serving():
        alone.fill()
        with BlockingClient(alone.folder / "zoned.sock") as client:
            done = client.call("srv:backup", {"file": file})
            assert done == {"file": file, "bytes": os.path.getsize(file)}
            with pytest.raises(ZonedError, match="exists"):
                client.call("srv:backup", {"file": file})
            with pytest.raises(ZonedError, match="absolute"):
                client.call("srv:backup", {"file": "copy.db"})
