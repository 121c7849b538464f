"""f0003: journals come with the step and go with it, and nothing of them is lost on the way; what
the older format did to sessions meanwhile is brought in.

What format 2 did is made by this release's own code: two stores part, one of them goes on, and its
tables are then brought up beside the journals of the other.
"""

import asyncio
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from filestore import CorruptionError, FileStore
from filestore.check import check
from filestore.records import Filter, NewSession, Records
from filestore.sessions import Sessions
from filestore.sessions.adopting import rename_session
from migrations.format import down, f0003_journal, up
from tests.conftest import FakeClock
from tests.contract.tools import query, run_sql
from tests.support.contents import contents_of
from tests.support.processes import END_S_MAX, ROOT

SAVED = f0003_journal.SAVED_NAME
KILLS = 40
BIG = {"n": 1 << 200, "text": "\u2028 é \x00", "list": [0.1, None, True]}

Told = dict[str, Any]


async def fill(folder: Path) -> None:
    """Sessions with files and without, of all statuses, current and archived; a repo."""
    clock = FakeClock()
    async with await FileStore.open(folder, clock=clock) as store, Sessions(store) as panes:
        records = Records(store, clock=clock)
        repo = await records.add_repo(str(folder), "r", folder.parent)
        for number in range(12):
            name = f"s{number}"
            clock.now_ms += 1000
            await records.create(
                NewSession("rest", name, f"agent{number % 4}", f"coder{number % 2}", "why", "what",
                           repo.id if number % 3 else None, BIG, {"k": BIG}),
            )  # fmt: skip
            await records.prompt(name, "hello")
            await records.add_message(name, "agent", "half", partial=True, message_id="m")
            await records.update(name, phase="planning", metadata={"m": number}, error="e")
            await records.add_record(name, "observation", {"started_ms": 5, "outcomes": []})
            await records.add_record(name, "checkpoint", {"state": {"pr_id": "x"}}, ref="c")
            if number % 3 == 1:
                await panes.append_output(f"agent{number % 4}", f"line {number}")
            if number % 6 == 4:
                await records.finish(name, "failed", summary="no")
            if number % 3 == 1 and number < 9:
                await panes.archive(f"agent{number % 4}")
        for agent in ("pane1", "pane2", "pane3"):
            await panes.append_output(agent, "x")
            await panes.archive(agent)
            clock.now_ms += 1
            await panes.append_output(agent, "y")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journals") / "data"
    asyncio.run(fill(folder))
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """A copy of the store."""
    shutil.copytree(original, tmp_path / "data")
    return tmp_path / "data"


async def told(folder: Path, *, times: bool = True) -> Told:
    """All that records tell of a store, which must be clean. Without times: nor who waits."""
    async with await FileStore.open(folder) as store:
        report = await check(store, deep=True)
        assert report.problems == []
        records = Records(store)
        found: Told = {"repos": await records.list_repos()}
        for info in (await records.page(Filter(), limit=100)).sessions:
            entries = await records.records(info.id)
            if not times:
                info = info._replace(updated_ms=0, created_ms=0, ended_ms=None)
                entries = [each._replace(at_ms=0) for each in entries]
            found[info.id] = (info, entries)
        for agent in ("coder0", "coder1"):
            found[agent] = (await records.page(Filter(agent_name=agent))).total
        found["zones"] = (await contents_of(store))["zones"]
        return found


async def test_down_then_up_keeps_every_record(folder: Path) -> None:
    before = await told(folder)
    assert len([each for each in before.values() if isinstance(each, tuple)]) == 18
    assert down(folder, 2) == ["f0003_journal"]
    assert (folder / SAVED).stat().st_mode & 0o777 == 0o600
    names = {name for (name,) in query(folder / "zoned.db", "SELECT name FROM sqlite_schema")}
    assert not names & {"journal", "record", "related", "tally", "repo"}
    assert up(folder) == ["f0003_journal"]
    assert not (folder / SAVED).exists()
    assert await told(folder) == before
    assert down(folder, 1) == ["f0003_journal", "f0002_ledger"]
    assert up(folder) == ["f0002_ledger", "f0003_journal"]
    assert await told(folder) == before


async def test_sessions_of_format_2_get_journals_that_say_what_became_of_them(
    folder: Path,
) -> None:
    """Without the saved file, as from a store that never was of format 3."""
    before = await told(folder)
    down(folder, 2)
    (folder / SAVED).unlink()
    assert up(folder) == ["f0003_journal"]
    after = await told(folder)
    with_zone = {name for name, each in before.items()
                 if isinstance(each, tuple) and each[0].zone}  # fmt: skip
    assert {name for name, each in after.items() if isinstance(each, tuple)} == with_zone
    for name in with_zone:
        info, entries = after[name]
        assert info.zone == before[name][0].zone
        assert info.definition_id == before[name][0].definition_id
        assert info.status == ("completed" if info.is_archived else "active")
        assert info.reason == ("archived" if info.is_archived else None)
        assert [each.kind for each in entries] == ["open", "end"][: 1 + info.is_archived]
        assert entries[-1].at_ms == (
            int(info.zone.rpartition(":")[2]) if info.is_archived else info.created_ms
        )
    assert after["zones"] == before["zones"]


async def test_sessions_of_format_2_stand_where_their_files_were_last_changed(
    tmp_path: Path,
) -> None:
    """Not where they began: one of last year may have been used today."""
    folder, clock = tmp_path / "data", FakeClock(1_000)
    async with await FileStore.open(folder, clock=clock) as store, Sessions(store) as panes:
        for agent in ("old", "new"):
            await panes.write_state(agent, b"{}")
            clock.now_ms += 1_000
        await panes.write_state("old", b"{...}")
    down(folder, 2)
    (folder / SAVED).unlink()
    up(folder)
    async with await FileStore.open(folder) as store:
        found = await Records(store).recent(1)
    assert [(info.definition_id, info.updated_ms) for info in found] == [("old", 3_000)]


async def append_new(_: FileStore, panes: Sessions) -> None:
    await panes.append_output("new", "x")
    await panes.append_output("new2", "x")
    await panes.archive("new2")


async def archive_current(_: FileStore, panes: Sessions) -> None:
    for agent in ("pane1", "agent2"):
        assert await panes.archive(agent) is not None


async def restore(_: FileStore, panes: Sessions) -> None:
    """Those that an archive ended, and one that had failed before it was archived."""
    for agent in ("pane1", "agent3", "agent0"):
        (row,) = await panes.list_archives(agent)
        await panes.restore(row.archive_zoneid)


async def archive_and_restore(_: FileStore, panes: Sessions) -> None:
    done = await panes.archive("pane2")
    assert done is not None
    await panes.restore(done.archive_zoneid)


async def delete(_: FileStore, panes: Sessions) -> None:
    for agent in ("pane1", "agent3"):
        (row,) = await panes.list_archives(agent)
        await panes.delete_archive(row.archive_zoneid)


async def rename(store: FileStore, panes: Sessions) -> None:
    (row,) = await panes.list_archives("pane3")
    zones = (("agent:pane2:current", "agent:other:current"),
             (row.archive_zoneid, row.archive_zoneid.replace("pane3", "other")))  # fmt: skip
    for old, new in zones:
        await store.transact(lambda tx, old=old, new=new: rename_session(tx, old, new, "", 0, None))  # type: ignore[misc]  # bound at once


async def fork(_: FileStore, panes: Sessions) -> None:
    await panes.fork("agent2", "forked", new_session_id="the copy")


Act = Callable[[FileStore, Sessions], Awaitable[None]]


@pytest.mark.parametrize(
    "act", [append_new, archive_current, restore, archive_and_restore, delete, rename, fork]
)
async def test_what_format_2_did_meanwhile_is_brought_in(
    folder: Path, tmp_path: Path, act: Act
) -> None:
    """As if it had been done here; but for when, and for what came and went in between."""
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    down(folder, 2)
    clock = FakeClock(1_800_000_000_000)
    async with await FileStore.open(other, clock=clock) as store, Sessions(store) as panes:
        await act(store, panes)
    wanted = await told(other, times=False)
    down(other, 2)
    shutil.copy(folder / SAVED, other / SAVED)
    up(other)
    found = await told(other, times=False)
    if act is archive_and_restore:
        (name,) = [name for name in wanted if found.get(name) != wanted[name]]
        info, entries = wanted[name]
        assert [each.kind for each in entries] == ["open", "end", "open"]
        assert found[name] == (info._replace(records=1, reason=None), entries[:1])
        return
    if act is fork:
        wanted["the copy"][1][0].body.pop("reason")
    assert found == wanted


async def test_many_sessions_are_brought_up_and_counted(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with await FileStore.open(folder) as store, Sessions(store) as panes:
        for number in range(300):
            await panes.append_output(f"a{number}", "x")
            if number % 2:
                await panes.archive(f"a{number}")
    down(folder, 2)
    (folder / SAVED).unlink()
    up(folder)
    async with await FileStore.open(folder) as store:
        records = Records(store)
        assert (await check(store)).problems == []
        assert (await records.page(Filter(("active",)))).total == 150
        assert (await records.page(Filter(("completed",)))).total == 150


async def test_damaged_row_is_not_made_sound_on_the_way(folder: Path) -> None:
    run_sql(folder / "zoned.db", "UPDATE journal SET agent_name = 'evil' WHERE session_id = 's1'")
    down(folder, 2)
    # Meanwhile its session was restored, so that its row would be changed.
    assert query(folder / "zoned.db", "SELECT 1 FROM session WHERE session_id = 's1'")
    run_sql(folder / "zoned.db", "UPDATE session SET archived_ms = NULL WHERE session_id = 's1'")
    up(folder)
    async with await FileStore.open(folder) as store:
        with pytest.raises(CorruptionError):
            await Records(store).get("s1")
        problems = [str(each) for each in (await check(store)).problems]
    assert any(
        "the row of the journal of session 's1' fails its check" in each for each in problems
    )


async def test_lost_journal_of_a_lost_session_does_no_harm(folder: Path) -> None:
    zone = (await told(folder))["s1"][0].zone
    run_sql(folder / "zoned.db", "DELETE FROM journal WHERE session_id = 's1'")
    down(folder, 2)
    run_sql(folder / "zoned.db", "DELETE FROM session WHERE session_id = 's1'")
    up(folder)
    async with await FileStore.open(folder) as store:
        assert await store.zone(zone) is not None
        assert (await Records(store).get("s2")).records > 1


CHILD = """
import os, signal, sys
from pathlib import Path
from migrations.format import changing

class Counting:
    def __init__(self, connection):
        self._connection = connection
        self.left = int(sys.argv[3])
    def __getattr__(self, name):
        found = getattr(self._connection, name)
        return self._counted(found) if name in ("execute", "executemany") else found
    def _counted(self, call):
        def run(*given):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*given)
        return run

connect = changing._connect
made = []
def counting(path):
    made.append(Counting(connect(path)))
    return made[-1]
changing._connect = counting
if sys.argv[1] == "up":
    changing.up(Path(sys.argv[2]))
else:
    changing.down(Path(sys.argv[2]), 2)
print(int(sys.argv[3]) - made[0].left)
"""


def run_step(direction: str, folder: Path, at: int) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, direction, str(folder), str(at)],
        cwd=ROOT, capture_output=True, text=True, timeout=END_S_MAX, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["up", "down"])
async def test_step_killed_before_any_statement_is_done_or_not_begun(
    folder: Path, tmp_path: Path, direction: str
) -> None:
    before = await told(folder)
    if direction == "up":
        down(folder, 2)
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole)
    code, said = run_step(direction, whole, 1 << 30)
    assert code == 0, said
    count = int(said)
    moments = sorted({1 + number * count // KILLS for number in range(KILLS)} | {count})
    for at in moments:
        tried = tmp_path / f"at {at}"
        shutil.copytree(folder, tried)
        code, said = run_step(direction, tried, at)
        assert code == -signal.SIGKILL, f"statement {at} of {count}: {said}"
        if direction == "down":
            ((version,),) = query(tried / "zoned.db", "PRAGMA user_version")
            assert version in (2, 3)
            if version == 3:
                assert await told(tried) == before, f"statement {at} of {count}"
                down(tried, 2)
        steps = up(tried)
        assert await told(tried) == before, f"statement {at} of {count}"
        # Killed behind the commit, it stays until it is replaced: nobody reads it.
        assert steps == [] or not (tried / SAVED).exists(), f"statement {at} of {count}"
        shutil.rmtree(tried)


async def test_file_that_a_crash_left_behind_is_replaced(folder: Path) -> None:
    """Killed after the commit of `up` and before the file was removed: what it says is old then."""
    down(folder, 2)
    old = (folder / SAVED).read_bytes()
    up(folder)
    (folder / SAVED).write_bytes(old)
    async with await FileStore.open(folder) as store:
        await Records(store).create(NewSession("cli", "later"))
    before = await told(folder)
    down(folder, 2)
    up(folder)
    assert await told(folder) == before
