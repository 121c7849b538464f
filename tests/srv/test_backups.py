"""Backups that the daemon makes by itself, with a clock of our own."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from filestore import FileStore
from srv.backups import Schedule
from srv.config import Config
from tests.support.daemon import serving
from tests.support.faults import until_sync

START_MS = 1_795_000_000_000
HOUR_S = 3600


class Time:
    """A clock that moves on when somebody sleeps, and stops everything after some turns."""

    def __init__(self, turns: int) -> None:
        self.now_ms = START_MS
        self.slept: list[float] = []
        self._turns = turns

    def clock(self) -> int:
        return self.now_ms

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_ms += int(seconds * 1000)
        if len(self.slept) > self._turns:
            raise asyncio.CancelledError


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[FileStore]:
    async with await FileStore.open(tmp_path / "data") as opened:
        await opened.write("z", "f", b"kept")
        yield opened


async def run(store: FileStore, config: Config, time: Time) -> Schedule:
    schedule = Schedule(store, config, lambda *_: None)
    with pytest.raises(asyncio.CancelledError):
        await schedule.run(clock=time.clock, sleep=time.sleep)
    return schedule


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(tmp_path / "data", backup_every=HOUR_S, backup_keep=3)


async def test_backups_are_made_in_time_and_the_last_few_kept(
    store: FileStore, config: Config
) -> None:
    time = Time(6)
    schedule = await run(store, config, time)
    assert time.slept[0] == 0, "the first one at once"
    assert set(time.slept[1:]) == {HOUR_S}
    made = schedule.made()
    assert len(made) == 3
    assert made[-1].name == "zoned-20261118T160640Z.db"
    assert all(each.stat().st_mode & 0o777 == 0o600 for each in made)
    (made[-1]).rename(made[-1].parent / "zoned.db")
    async with await FileStore.open(made[-1].parent, read_only=True) as copy:
        assert await copy.read("z", "f") == b"kept"


async def test_restart_waits_for_what_is_left_of_the_time(store: FileStore, config: Config) -> None:
    time = Time(1)
    schedule = await run(store, config, time)
    assert schedule.due_in_s(START_MS // 1000 + 600) == HOUR_S - 600
    assert schedule.due_in_s(START_MS // 1000 + 5 * HOUR_S) == 0


@pytest.mark.parametrize("jump_s", [-365 * 24 * HOUR_S, 365 * 24 * HOUR_S])
async def test_clock_that_jumps_removes_no_more_than_usual(
    store: FileStore, config: Config, jump_s: int
) -> None:
    time = Time(3)
    before = (await run(store, config, time)).made()
    time = Time(1)
    time.now_ms += jump_s * 1000
    after = (await run(store, config, time)).made()
    assert len(after) == 3
    assert set(before[1:]) <= set(after), "only the oldest has gone"
    assert time.slept[0] <= HOUR_S


async def test_backup_that_fails_is_tried_again_and_nothing_is_removed(
    store: FileStore, config: Config, tmp_path: Path
) -> None:
    schedule = await run(store, config, Time(1))
    blocked = dataclasses.replace(config, backup_dir=str(tmp_path / "file"))
    (tmp_path / "file").write_bytes(b"")
    time = Time(4)
    await run(store, blocked, time)
    assert 600 in time.slept
    assert len(schedule.made()) == 1


async def test_other_files_of_the_folder_are_left_alone(store: FileStore, config: Config) -> None:
    folder = config.data_dir / "backups"
    folder.mkdir()
    names = (
        "zoned-2026.db",
        "mine.db",
        "zoned-20261118T120640Z.db.txt",
        "zoned-20269999T999999Z.db",
    )
    for name in names:
        (folder / name).write_bytes(b"mine")
    await run(store, config, Time(6))
    assert (folder / "mine.db").read_bytes() == b"mine"
    assert len(list(folder.glob("zoned-2026*"))) == 6


async def test_name_after_which_there_is_none_is_logged_and_ends_nothing(
    store: FileStore, config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    folder = config.data_dir / "backups"
    folder.mkdir()
    (folder / "zoned-99991231T235959Z.db").write_bytes(b"")
    await run(store, config, Time(4))
    assert "no backup was made" in caplog.text


async def test_folder_of_others_keeps_its_mode(
    store: FileStore, config: Config, tmp_path: Path
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o775)
    schedule = await run(store, dataclasses.replace(config, backup_dir=str(folder)), Time(1))
    assert len(schedule.made()) == 1
    assert folder.stat().st_mode & 0o7777 == 0o775


def test_daemon_makes_backups_by_its_settings(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir()
    (data / "zoned.toml").write_text(
        f'[backup]\nevery = "1d"\nkeep = 2\ndir = "{folder}"\n', encoding="utf-8"
    )
    with serving(data) as daemon:
        until_sync(lambda: any(folder.glob("zoned-*.db")), 10.0)
        assert daemon.end() == 0
        assert "Traceback" not in daemon.log
