"""The data folder: missing, wide, read-only, not a folder; and poor surroundings."""

import ctypes
import os
import stat
import subprocess
from pathlib import Path

import pytest

from filestore import files, store
from srv.cli import folder as commands_folder
from tests.cli.tools import Zoned
from tests.support.processes import COMMAND, ROOT, environment, run


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("words", [["agents"], ["archives", "ada"], ["tail", "ada"], ["status"]])
def test_missing_folder_is_made_private_whatever_the_umask(
    tmp_path: Path, words: list[str]
) -> None:
    folder = tmp_path / "not" / "yet"
    done = subprocess.run(
        [*COMMAND, *words, "--data-dir", str(folder)], cwd=ROOT, env=environment(), umask=0,
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == (3 if words == ["status"] else 0)
    assert done.stderr == b""
    assert mode(folder) == 0o700
    assert [path for path in folder.iterdir() if mode(path) != 0o600] == []


@pytest.mark.parametrize("is_served", [True, False])
def test_wide_folder_is_tightened_with_a_word(alone: Zoned, is_served: bool) -> None:
    alone.fill()

    def look() -> None:
        alone.folder.chmod(0o755)
        answer = alone("agents")
        assert answer.code == 0
        assert answer.err == f"zoned: {alone.folder} was open to others; its mode is now 0700\n"
        assert mode(alone.folder) == 0o700

    if is_served:
        with alone.serving():
            look()
    else:
        look()


def test_file_in_place_of_the_folder_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for verb in ("agents", "status"):
        answer = run(verb, "--data-dir", str(file))
        assert answer.returncode in (1, 2)
        assert answer.stderr.startswith("zoned: ")
        assert str(file) in answer.stderr
        assert answer.stderr.count("\n") == 1


def test_folder_of_another_program_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "zoned.db").write_bytes(b"not a database at all" * 100)
    answer = run("agents", "--data-dir", str(tmp_path))
    assert answer.returncode == 1
    assert answer.stderr.startswith("zoned: ")
    assert "Traceback" not in answer.stderr


def obey_modes() -> None:
    """Make root, too, obey the modes of files. Called in the child, before it runs."""
    drop_bounding, override, read_search = 24, 1, 2
    prctl = ctypes.CDLL(None).prctl
    prctl(drop_bounding, override)
    prctl(drop_bounding, read_search)


def test_read_only_folder_can_be_looked_at_and_refuses_writes(alone: Zoned) -> None:
    zone = alone.fill()
    for path in (*alone.folder.iterdir(), alone.folder):
        path.chmod(0o500 if path.is_dir() else 0o400)

    def obedient(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            alone.words(*words), cwd=ROOT, env=environment(), preexec_fn=obey_modes,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip

    try:
        assert obedient("tail", zone).stdout == '{"n": 1}\n{"n": 2}\n'
        assert obedient("agents").stdout.splitlines()[1].startswith("ada ")
        refused = obedient("archive", "ada")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith("zoned: ")
        assert refused.stderr.count("\n") == 1
        assert "ermission denied" in refused.stderr
    finally:
        alone.folder.chmod(0o700)


def test_no_home_and_no_folder_is_told(tmp_path: Path) -> None:
    def bare(**settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, "agents"], cwd=ROOT, env={"PATH": os.environ["PATH"], **settings},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    answer = bare()
    assert answer.returncode == 2
    assert answer.stderr == (
        "zoned: no data folder: HOME is not set; give --data-dir or set ZONED_DATA_DIR\n"
    )
    assert bare(HOME=str(tmp_path)).returncode == 0
    assert (tmp_path / ".local/share/zoned").is_dir()


def test_plain_c_locale_shows_the_same(alone: Zoned) -> None:
    text = '{"nodes": [{"type": "user_message", "message": "Grüße 進捗"}]}'.encode()
    alone.ok("write-state", "ada", stdin=text)
    wanted = alone("agents").out
    assert "Grüße 進捗".encode() in wanted
    assert alone("agents", LANG="C", LC_ALL="C").out == wanted
    assert alone("show", "ada", LANG="C", LC_ALL="C").out == text
    ascii_only = alone("agents", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (ascii_only.code, ascii_only.err) == (0, "")
    assert rb"Gr\xfc\xdfe" in ascii_only.out


def test_stale_lock_and_socket_of_a_killed_daemon_are_in_nobodys_way(alone: Zoned) -> None:
    with alone.serving() as daemon:
        alone.fill()
        daemon.kill()
        daemon.wait()
    assert (alone.folder / "zoned.sock").exists()
    assert len(alone.json("agents")) == 1
    assert alone.ok("append", "ada", stdin=b"more\n").out
    answer = alone("status")
    assert answer.code == 3
    assert answer.text.startswith("not running")


def test_daemon_without_a_socket_can_be_looked_beside_but_not_written_beside(alone: Zoned) -> None:
    alone.fill()
    with alone.serving("--socket", "none") as daemon:
        assert len(alone.json("agents")) == 1
        answer = alone("append", "ada", stdin=b"x\n")
        assert answer.code == 1
        assert f"is being written by process {daemon.pid} (daemon)" in answer.err
        assert alone("status").code == 0
        assert alone("tail", "-f", "ada").code == 1


def test_names_of_files_are_the_stores() -> None:
    assert commands_folder.LOCK_NAME == files.LOCK_NAME
    assert commands_folder.DATABASE_NAME == store.DATABASE_NAME
