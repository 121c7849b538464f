"""The data folder's file operations: private, atomic, locked, and on a local disk."""

import errno
import fcntl
import json
import os
import stat
from pathlib import Path

import pytest
from pyfakefs.fake_filesystem import FakeFilesystem

from filestore import (
    BackendError,
    LockedError,
    NetworkFileSystemError,
    StorageFullError,
    files,
)
from filestore.errors import ReadOnlyError
from filestore.files import (
    NETWORK_FILE_SYSTEMS,
    FolderLock,
    Holder,
    file_system_of,
    make_private_folder,
    read_holder,
    refuse_network_file_system,
    replace_file,
    sync_folder,
    translated_os_errors,
)
from tests.contract.tools import content_of, mode_of

FOLDER = Path("/srv/zoned/data")


def link_to_victim(link: Path) -> Path:
    """Make a link to a file that must not be changed through it."""
    victim = link.with_name("victim")
    victim.write_bytes(b"precious")
    link.symlink_to(victim)
    return victim


def test_private_folder_is_made_with_its_parents(fs: FakeFilesystem) -> None:
    assert make_private_folder(FOLDER) is False
    assert mode_of(FOLDER) == 0o700


def test_private_folder_that_is_there_stays(fs: FakeFilesystem) -> None:
    FOLDER.mkdir(parents=True)
    FOLDER.chmod(0o700)
    assert make_private_folder(FOLDER) is False
    assert mode_of(FOLDER) == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o701, 0o710, 0o750])
def test_private_folder_that_was_wider_is_tightened(fs: FakeFilesystem, mode: int) -> None:
    FOLDER.mkdir(parents=True)
    FOLDER.chmod(mode)
    assert make_private_folder(FOLDER) is True
    assert mode_of(FOLDER) == 0o700
    assert make_private_folder(FOLDER) is False


def test_replace_file_makes_it_private(fs: FakeFilesystem) -> None:
    FOLDER.mkdir(parents=True)
    replace_file(FOLDER / "token", b"secret")
    assert (FOLDER / "token").read_bytes() == b"secret"
    assert mode_of(FOLDER / "token") == 0o600
    assert [path.name for path in FOLDER.iterdir()] == ["token"]


def test_replace_file_puts_the_new_content_in_place(fs: FakeFilesystem) -> None:
    FOLDER.mkdir(parents=True)
    for content in (b"long content" * 100, b"short", b""):
        replace_file(FOLDER / "token", content)
        assert (FOLDER / "token").read_bytes() == content


def test_replace_file_over_rest_of_a_crash_works(fs: FakeFilesystem) -> None:
    FOLDER.mkdir(parents=True)
    (FOLDER / "token.new").write_bytes(b"half written, and much longer than the new content")
    replace_file(FOLDER / "token", b"whole")
    assert (FOLDER / "token").read_bytes() == b"whole"
    assert not (FOLDER / "token.new").exists()


def test_replace_file_that_fails_before_the_rename_keeps_the_old(
    fs: FakeFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    FOLDER.mkdir(parents=True)
    replace_file(FOLDER / "token", b"old")

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "fsync failed")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="fsync failed"):
        replace_file(FOLDER / "token", b"new")
    assert (FOLDER / "token").read_bytes() == b"old"


def test_replace_file_syncs_content_before_rename_and_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the real disk: the order is what makes it durable."""
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        calls.append("fsync folder" if is_folder else "fsync file")
        fsync(descriptor)

    def note_replace(source: Path, target: Path) -> None:
        calls.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    replace_file(tmp_path / "token", b"content")
    assert calls == ["fsync file", "replace", "fsync folder"]


def test_replace_file_does_not_follow_a_link_beside(tmp_path: Path) -> None:
    """Someone could have put it there to have another file overwritten."""
    victim = link_to_victim(tmp_path / "token.new")
    with pytest.raises(OSError, match="symbolic link"):
        replace_file(tmp_path / "token", b"content")
    assert victim.read_bytes() == b"precious"


def test_sync_folder_of_what_is_no_folder_raises(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        sync_folder(tmp_path / "file")


def test_holder_is_read_from_the_lock_file(fs: FakeFilesystem) -> None:
    FOLDER.mkdir(parents=True)
    content = {"pid": 42, "kind": "daemon", "socket": "s"}
    (FOLDER / "zoned.lock").write_text(json.dumps(content))
    assert read_holder(FOLDER) == Holder(42, "daemon", "s")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"{}", b"[]", b"null", b"5", b'"x"', b"\xff", b'{"pid": 1}', b'{"pid": null}'],
)
def test_holder_that_cannot_be_read_is_unknown(fs: FakeFilesystem, content: bytes) -> None:
    FOLDER.mkdir(parents=True)
    (FOLDER / "zoned.lock").write_bytes(content)
    assert read_holder(FOLDER) == Holder(0, "unknown", "")


def test_holder_of_missing_folder_is_unknown(fs: FakeFilesystem) -> None:
    assert read_holder(FOLDER) == Holder(0, "unknown", "")


async def test_lock_taken_twice_is_refused_and_freed_by_release(tmp_path: Path) -> None:
    lock = await FolderLock.take(tmp_path, "daemon", "run/d.sock", 0)
    assert mode_of(tmp_path / "zoned.lock") == 0o600
    with pytest.raises(LockedError) as caught:
        await FolderLock.take(tmp_path, "command", "", 0)
    assert (caught.value.pid, caught.value.kind) == (os.getpid(), "daemon")
    assert caught.value.socket == "run/d.sock"
    lock.release()
    lock.release()
    other = await FolderLock.take(tmp_path, "command", "", 0)
    assert read_holder(tmp_path) == Holder(os.getpid(), "command", "")
    other.release()


async def test_lock_on_file_removed_meanwhile_is_taken_on_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening and locking someone removes the file: that lock would guard nothing."""
    flock = fcntl.flock
    removed: list[Path] = []

    def remove_first(descriptor: int, operation: int) -> None:
        if not removed:
            os.unlink(tmp_path / "zoned.lock")
            removed.append(tmp_path)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    lock = await FolderLock.take(tmp_path, "command", "", 0)
    with pytest.raises(LockedError):
        await FolderLock.take(tmp_path, "command", "", 0)
    lock.release()


async def test_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    victim = link_to_victim(tmp_path / "zoned.lock")
    with pytest.raises(OSError, match="symbolic link"):
        await FolderLock.take(tmp_path, "command", "", 0)
    assert content_of(victim) == b"precious"


async def test_lock_that_cannot_name_its_holder_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: nothing can be written into the file, and nobody may be left locked out."""

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", fail)
        with pytest.raises(OSError, match="no space"):
            await FolderLock.take(tmp_path, "command", "", 0)
    (await FolderLock.take(tmp_path, "command", "", 0)).release()


@pytest.mark.parametrize(
    ("error", "is_waited_for"),
    [(ProcessLookupError, True), (PermissionError, False), (None, False)],
    ids=["dead", "another user's", "alive"],
)
async def test_lock_whose_file_names_a_daemon_is_waited_for_only_if_that_is_dead(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: type[OSError] | None,
    is_waited_for: bool,
) -> None:
    """A command may hold the lock and not have written its name yet."""
    lock = await FolderLock.take(tmp_path, "daemon", "", 0)
    asked: list[int] = []

    def kill(pid: int, _: int) -> None:
        asked.append(pid)
        if len(asked) > 1:
            lock.release()
        if error is not None:
            raise error

    monkeypatch.setattr(os, "kill", kill)
    if is_waited_for:
        (await FolderLock.take(tmp_path, "command", "", 30_000)).release()
    else:
        with pytest.raises(LockedError):
            await FolderLock.take(tmp_path, "command", "", 30_000)
        lock.release()
    assert asked[0] == os.getpid()


MOUNTS = b"""\
22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
30 22 0:30 / /mnt rw - tmpfs tmpfs rw
31 30 0:31 / /mnt/share rw - nfs4 server:/export rw,vers=4.2
32 31 0:32 / /mnt/share/local rw - xfs /dev/vdb rw
33 22 0:33 / /mnt/with\\040blank rw - cifs //server/share rw
34 22 0:34 / /mnt/back\\134slash rw - fuse.sshfs user@host: rw
35 22 0:35 / /mnt/tab\\011and\\012newline rw - 9p host rw
36 22 0:36 / /mnt/\xc3\xa4 rw - ceph mon:/ rw
37 22 0:37 / /twice rw - nfs old:/ rw
38 22 0:38 / /twice rw - ext4 /dev/vdc rw
39 22 0:39 / /many rw shared:1 master:2 propagate_from:3 unbindable - btrfs /dev/vdd rw
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    path = tmp_path / "mountinfo"
    path.write_bytes(MOUNTS)
    return path


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/srv/zoned", "ext4"),
        ("/proc/x", "proc"),
        ("/mnt", "tmpfs"),
        ("/mnt/other", "tmpfs"),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/deep/below", "nfs4"),
        ("/mnt/shared", "tmpfs"),
        ("/mnt/share/local/data", "xfs"),
        ("/mnt/share/local2", "nfs4"),
        ("/mnt/with blank/data", "cifs"),
        ("/mnt/back\\slash", "fuse.sshfs"),
        ("/mnt/tab\tand\nnewline/x", "9p"),
        ("/mnt/ä/x", "ceph"),
        ("/twice/data", "ext4"),
        ("/many/data", "btrfs"),
    ],
)
def test_file_system_is_that_of_the_innermost_last_mount(
    mounts: Path, folder: str, kind: str
) -> None:
    assert file_system_of(Path(folder), mounts) == kind


def test_file_system_of_link_is_that_of_its_target(tmp_path: Path, mounts: Path) -> None:
    (tmp_path / "link").symlink_to("/mnt/share/zoned")
    assert file_system_of(tmp_path / "link", mounts) == "nfs4"


@pytest.mark.parametrize("content", [b"", b"nonsense\n", b"1 2 3 - \n", b"\xff\xfe\n", b" - nfs\n"])
def test_file_system_is_unknown_where_the_list_makes_no_sense(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "mountinfo").write_bytes(content)
    assert file_system_of(Path("/srv"), tmp_path / "mountinfo") is None


def test_file_system_is_unknown_where_there_is_no_list(tmp_path: Path) -> None:
    assert file_system_of(Path("/srv"), tmp_path / "missing") is None


def test_file_system_of_this_machine_s_folder_is_known(tmp_path: Path) -> None:
    if Path("/proc/self/mountinfo").exists():
        assert file_system_of(tmp_path)


@pytest.mark.parametrize("kind", sorted(NETWORK_FILE_SYSTEMS))
def test_network_file_system_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(files, "file_system_of", lambda _: kind)
    with pytest.raises(NetworkFileSystemError) as caught:
        refuse_network_file_system(FOLDER)
    assert f"({kind})" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", None])
def test_local_or_unknown_file_system_is_allowed(
    monkeypatch: pytest.MonkeyPatch, kind: str | None
) -> None:
    monkeypatch.setattr(files, "file_system_of", lambda _: kind)
    refuse_network_file_system(FOLDER)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, StorageFullError),
        (errno.EDQUOT, StorageFullError),
        (errno.EROFS, ReadOnlyError),
        (errno.EACCES, BackendError),
        (errno.EIO, BackendError),
    ],
)
def test_error_of_the_operating_system_becomes_ours(code: int, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught, translated_os_errors("open"):
        raise OSError(code, os.strerror(code))
    assert isinstance(caught.value.__cause__, OSError)
