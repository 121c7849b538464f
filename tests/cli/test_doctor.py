"""`zoned doctor`: what it looks at, what it says of it, and that it changes nothing."""

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from filestore.engine.schema import STEPS
from srv.cli import examine
from srv.cli.examine import PARTS, Line, Place
from srv.config import load
from tests.cli.tools import Zoned, finish, on_terminal
from tests.contract.tools import run_sql
from tests.support.old_folder import OldFolder


def told(zoned: Zoned, code: int = 0) -> dict[str, Any]:
    """What it says, by name."""
    answer = zoned("doctor", "--json")
    assert (answer.code, answer.err) == (code, "")
    return {line["name"]: line for line in answer.json}


def state_of(folder: Path) -> list[tuple[str, int, int, int]]:
    found = [(path, path.lstat()) for path in (folder, *sorted(folder.rglob("*")))]
    return [(str(path), each.st_mode, each.st_size, each.st_mtime_ns) for path, each in found]


def test_store_that_is_well_has_nothing_bad(zoned: Zoned) -> None:
    zoned.fill()
    lines = told(zoned)
    verdicts = {name: line["verdict"] for name, line in lines.items()}
    assert verdicts.pop("backups") == "warn"
    for name in ("file system", "sync time", "free space"):  # of the machine that tests
        del verdicts[name]
    assert set(verdicts.values()) == {"ok"}
    assert verdicts.keys() == {
        "engine", "import names", "daemon", "sync", "permissions", "database", "migrations",
        "stale files",
    }  # fmt: skip
    assert all(line["hint"] for line in lines.values() if line["verdict"] != "ok")
    zoned.ok("backup", str(zoned.folder.parent / "copy.db"))
    assert told(zoned)["backups"]["verdict"] == "ok"


def test_nothing_is_written_or_made(alone: Zoned) -> None:
    told(alone)
    assert not alone.folder.exists()
    alone.fill()
    alone.folder.chmod(0o755)
    before = state_of(alone.folder)
    told(alone, 3)
    assert state_of(alone.folder) == before


def test_folder_after_a_crash_is_left_for_the_next_start(alone: Zoned) -> None:
    with alone.serving() as daemon:
        alone.fill()
        daemon.kill()
        daemon.wait()
    before = state_of(alone.folder)
    lines = told(alone)
    assert "was not closed" in lines["database"]["fact"]
    assert "zoned.sock" in lines["stale files"]["fact"]
    assert state_of(alone.folder) == before


def test_what_others_could_read_is_bad(alone: Zoned) -> None:
    alone.fill()
    (alone.folder / "token").write_text("x")
    (alone.folder / "token").chmod(0o644)
    (alone.folder / "zoned.db").chmod(0o660)
    found = told(alone, 3)["permissions"]
    assert found["verdict"] == "bad"
    assert found["fact"] == "zoned.db has mode 0660; token has mode 0644"
    assert found["hint"].startswith("chmod ")


@pytest.mark.parametrize("damage", ["half", "log", "foreign"])
def test_damaged_database_is_bad_and_all_else_is_told(alone: Zoned, damage: str) -> None:
    alone.fill()
    path = alone.folder / "zoned.db"
    if damage == "log":
        run_sql(path, "UPDATE log SET data = zeroblob(3)")
    else:
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] if damage == "half" else b"no database")
    lines = told(alone, 3)
    assert lines["database"]["verdict"] == "bad"
    assert lines["database"]["hint"]
    assert lines["database"]["hint"] not in lines["database"]["fact"]
    assert lines.keys() >= {"engine", "sync time", "stale files", "backups"}


def test_leftovers_migrations_and_old_backups_are_warned_of(alone: Zoned) -> None:
    alone.fill()
    with OldFolder(alone.folder) as old:
        old.block("b", agent="bob")
    alone.folder.chmod(0o700)
    (alone.folder / "zoned.db.new").write_bytes(b"")
    (alone.folder / "backups").mkdir(mode=0o700)
    (alone.folder / "backups" / "before-x.1.new").mkdir()
    old_ms = int(time.time() * 1000) - 30 * 86_400_000
    note = {"file": str(alone.folder / "zoned.db"), "taken_ms": old_ms, "bytes": 5}
    (alone.folder / "backups" / "last.json").write_text(json.dumps(note))
    lines = told(alone)
    assert lines["stale files"]["fact"] == "zoned.db.new, before-x.1.new"
    assert "import_legacy_v1 is to come" in lines["migrations"]["fact"]
    assert "30 days old" in lines["backups"]["fact"]
    assert {lines[name]["verdict"] for name in ("stale files", "migrations", "backups")} == {"warn"}
    alone.ok("migrate")
    assert told(alone)["migrations"]["verdict"] == "ok"
    alone.ok("migrate", "down")
    assert f"{STEPS[-1]} to come" in told(alone)["migrations"]["fact"]


def test_old_folder_that_was_never_started_has_migrations_to_come(alone: Zoned) -> None:
    with OldFolder(alone.folder / "db") as old:
        old.block("b", agent="bob")
    alone.folder.chmod(0o700)
    before = state_of(alone.folder)
    found = told(alone)["migrations"]
    assert found["verdict"] == "warn"
    assert "import_legacy_v1 is to come" in found["fact"]
    assert state_of(alone.folder) == before


def test_full_disk_is_to_be_freed_and_the_daemon_left_alone(tmp_path: Path) -> None:
    info: dict[str, object] = {"pid": 5, "health": {"ok": False, "trouble": "the disk is full"}}
    place = Place(load({"data_dir": str(tmp_path)}, {}).config, info, True)
    (found,) = [line for line in examine.examine(place) if line.name == "daemon"]
    assert found.verdict == "bad"
    assert "restart" not in found.hint


def test_restore_that_was_cut_short_is_bad(alone: Zoned) -> None:
    alone.fill()
    path = alone.folder / "zoned.db"
    path.rename(path.with_name("zoned.db.restored"))
    found = told(alone, 3)["stale files"]
    assert found["verdict"] == "bad"
    assert "zoned restore-backup" in found["hint"]


def parts_on(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: object) -> dict[str, Line]:
    """What is said of a folder on a machine with these facts."""
    for name, value in changes.items():
        monkeypatch.setattr(examine, name, value)
    place = Place(load({"data_dir": str(folder)}, {}).config, {}, False)
    return {line.name: line for line in examine.examine(place)}


def test_machine_that_is_not_fit_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = parts_on(
        tmp_path,
        monkeypatch,
        SQLITE_VERSION="3.51.2",
        file_system_of=lambda folder: "nfs4",
        FREE_BYTES_BAD=1 << 60,
        SYNC_S_SLOW=0.0,
        SYNC_S_BAD=0.0,
        packages_distributions=lambda: {"filestore": ["zoned", "py-filestore"]},
    )
    assert "WAL-reset bug" in lines["engine"].hint
    assert (lines["engine"].verdict, lines["file system"].verdict) == ("warn", "bad")
    assert {lines[name].verdict for name in ("free space", "sync time", "import names")} == {"bad"}
    assert lines["import names"].fact == "filestore also belongs to py-filestore"


def test_part_that_fails_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*_: object) -> object:
        raise PermissionError(13, "Permission denied")

    lines = parts_on(tmp_path, monkeypatch, _listed=unreadable)
    assert lines["stale files"].verdict == "bad"
    assert "Permission denied" in lines["stale files"].fact
    assert len(lines) > len(PARTS) - 2


def test_daemon_that_is_stuck_is_bad(alone: Zoned) -> None:
    """Somebody listens, and hangs up on whoever comes."""
    alone.fill()
    path = str(alone.folder / "s")
    lock = {"pid": os.getpid(), "kind": "daemon", "socket": path}
    (alone.folder / "zoned.lock").write_text(json.dumps(lock))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        process = alone.start("doctor", "--json")
        server.accept()[0].close()
        answer = finish(process)
    (found,) = [line for line in answer.json if line["name"] == "daemon"]
    assert (found["verdict"], answer.code) == ("bad", 3)
    assert "the daemon is gone" in found["fact"]


def test_terminal_is_told_in_colour(alone: Zoned) -> None:
    alone.folder.mkdir(mode=0o755)
    alone.folder.chmod(0o755)
    code, shown = on_terminal(alone.words("doctor"))
    assert code == 3
    assert "\x1b[31mbad \x1b[0m" in shown
    assert "\x1b[32mok  \x1b[0m" in shown
