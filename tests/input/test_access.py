"""What other users can do, and what lies in the place of our files; connections are in
tests/http/test_access.py, escapes on a terminal in tests/cli/test_terminal.py."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.cli.tools import Zoned
from tests.support.daemon import serving

NOBODY = 65534
LOOKER = """
import os, socket, sys
def tried(what, action):
    try:
        action()
    except OSError as error:
        print(what, type(error).__name__)
    else:
        print(what, "done")
folder = sys.argv[1]
tried("list", lambda: os.listdir(folder))
for name in ("token", "zoned.db", "zoned.db-wal", "zoned.lock", "zoned.toml"):
    tried(name, lambda: open(os.path.join(folder, name), "rb").read())
tried("write", lambda: open(os.path.join(folder, "x"), "wb"))
tried("remove", lambda: os.unlink(os.path.join(folder, "zoned.lock")))
tried("connect", lambda: socket.socket(socket.AF_UNIX).connect(os.path.join(folder, "zoned.sock")))
"""
FILES = ("zoned.lock", "zoned.db", "zoned.db-wal", "zoned.db-shm", "zoned.toml", "token.new")


def put(path: Path, kind: str, target: Path) -> None:
    """Something that is no file of ours, in its place."""
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            path.symlink_to(target)


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
@pytest.mark.parametrize("name", FILES)
def test_what_stands_in_the_place_of_a_file_is_told_and_left(
    alone: Zoned, tmp_path: Path, name: str, kind: str
) -> None:
    """No command waits for a pipe's other end, or writes through a link."""
    alone.ok("append", "ada", stdin=b"x\n")
    (tmp_path / "target").write_bytes(b"precious")
    path = alone.folder / name
    path.unlink(missing_ok=True)
    put(path, kind, tmp_path / "target")
    answer = alone("token", "rotate")
    assert answer.code in (1, 2)
    assert answer.err.count("\n") == 1
    assert str(path) in answer.err
    assert (tmp_path / "target").read_bytes() == b"precious"
    assert alone("status").code in (2, 3)
    assert os.path.lexists(path)
    if kind == "folder":
        path.rmdir()
    else:
        path.unlink()
    if name == "zoned.db":
        return
    alone.ok("token", "rotate")
    assert alone.ok("tail", "ada").out == b"x\n"


@pytest.mark.root
def test_other_user_can_neither_look_nor_write_nor_connect() -> None:
    """On folders that anybody may enter, so that only ours are in his way."""
    place = Path(tempfile.mkdtemp(prefix="zoned-other-"))
    try:
        place.chmod(0o755)
        with serving(place / "data", prepare=lambda: os.umask(0)) as daemon:
            python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
            found = subprocess.run(
                [python, "-c", LOOKER, str(place / "data")],
                user=NOBODY, group=NOBODY, cwd="/", capture_output=True, text=True, check=True,
            ).stdout  # fmt: skip
            tried = dict(line.split() for line in found.splitlines())
            assert len(tried) == 9
            assert set(tried.values()) == {"PermissionError"}, tried
            with daemon.client() as pane:
                assert pane.is_alive()
            assert daemon.end() == 0
    finally:
        shutil.rmtree(place)
