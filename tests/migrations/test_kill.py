"""`kill -9` at every moment of the migrations, any number of times: run to the end, the result is
that of one clean run, and the old files have not changed by a byte.

The moments are those of the store's writer, which every change goes through, and the migrations'
own. `test_clean_run_comes_to_every_moment` proves that the folder has work for all of them.
"""

import asyncio
import json
import random
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import migrations
from filestore import FileStore, Limits, check, ledger
from filestore.records import Records
from filestore.sessions import Sessions
from migrations import runner
from migrations.backups import FOLDER_NAME
from migrations.steps.import_legacy import SCRATCH_NAME
from tests.contract.tools import noise
from tests.migrations.child import Hits, run
from tests.support.child import FAILPOINTS
from tests.support.old_folder import OUTPUT, OldFolder, bytes_of
from tests.support.processes import ROOT

RUN_S_MAX = 60.0
OWN_MOMENTS = (
    "records.committed", "large.built", "zone.committed", "blocks.committed", "seed.committed",
    "backup.before", "backup.after", "template.committed", "step.done", "marker.before",
    "marker.after",
)  # fmt: skip
HITS_EACH = 5

Dump = dict[str, Any]


def make_old(folder: Path) -> None:
    """Something for every kind of work: large and small, whole and damaged."""
    with OldFolder(folder, has_wal=True) as old:
        for number in range(6):
            block = f"block-{number}"
            old.block(block, agent=("ada", "tpl", "eve")[number % 3])
            created = 1_000 + number // 4
            old.session(block, f"text {number}", created=created, modified=5_000 + number)
            old.file(block, "term", noise(3_000), created=1, modified=2)
        old.block("large", agent="eve")
        old.file("large", OUTPUT, noise(90_000), created=7_000, modified=8_000)
        old.session("agent:eve:current", "goes on")
        old.session("agent:tpl:archive:50", "of the template")
        old.session("agent:template-promote-v1-tpl:archive:50", "in its way", modified=9_000)
        old.definition("tpl", is_seeded=1, name="Template")
        old.definition("ada", is_seeded=0, name="Ada")
        old.instance("i1", "tpl", instance_name="Mine", started_at=9)
        old.instance("i2", "ada")
        old.file("lies", OUTPUT, noise(40_000), size=50_000)
        old.raw_block("broken", "{nonsense")


async def dump(data_dir: Path) -> Dump:
    """All that a user could tell apart, and the ledger; versions and ids of rows aside."""
    found: Dump = {"zones": {}, "archives": {}, "current": {}}
    async with await FileStore.open(data_dir) as store:
        await store.tidy()
        report = await check.check(store, deep=True)
        assert report.is_clean, report.problems
        assert not await store.read_unit(lambda tx: tx.fetch("SELECT 1 FROM building"))
        for zone in (await store.zones(limit=1000)).zones:
            files = await store.files(zone.name) or []
            found["zones"][zone.name] = {
                info.name: (
                    await store.read(zone.name, info.name),
                    info.created_ms,
                    info.modified_ms,
                    info.meta,
                )
                for info in files
            }
        sessions = Sessions(store)
        for agent in await sessions.list_agents(100):
            name = agent.definition_id
            found["archives"][name] = await sessions.list_archives(name, 100)
            found["current"][name] = (agent, (await sessions.read_state(name)).session_id)
        records = Records(store)
        found["journals"] = {
            info.id: (info, await records.records(info.id)) for info in await records.recent(1000)
        }
        rows = await store.read_unit(
            lambda tx: tx.fetch("SELECT source, zone, name, outcome, target, stored FROM ledger")
        )
        found["ledger"] = sorted(rows)
    for migration in runner.MIGRATIONS:
        if migration.marker:
            written = json.loads((data_dir / migration.marker).read_bytes())
            found[migration.name] = sorted(map(str, written["failed"]))
    return found


def assert_tidy(data_dir: Path, old: dict[str, bytes]) -> None:
    """The old files are as they were, and nothing is left lying about."""
    assert bytes_of(data_dir) == old
    names = {path.name for path in data_dir.iterdir()}
    markers = {migration.marker for migration in runner.MIGRATIONS if migration.marker}
    assert names - set(old) <= markers | {"zoned.db", "zoned.lock", FOLDER_NAME}
    assert SCRATCH_NAME not in names


@pytest.fixture(scope="module")
def old_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    make_old(folder)
    return folder


@pytest.fixture(scope="module")
def clean(old_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Dump:
    """What one clean run leaves."""
    folder = tmp_path_factory.mktemp("clean") / "data"
    shutil.copytree(old_folder, folder)
    asyncio.run(run(folder, Hits()))
    assert_tidy(folder, bytes_of(old_folder))
    return asyncio.run(dump(folder))


@pytest.fixture(scope="module")
def counts(old_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How often a clean run comes to each moment."""
    folder = tmp_path_factory.mktemp("counts") / "data"
    shutil.copytree(old_folder, folder)
    hits = Hits()
    asyncio.run(run(folder, hits))
    return dict(hits.counts)


@pytest.fixture
def data_dir(old_folder: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    shutil.copytree(old_folder, folder)
    return folder


def kill_at(data_dir: Path, name: str, hit: int) -> int:
    """Run until killed there, or to the end. Returns the exit code."""
    options = json.dumps({"failpoint": name, "hit": hit})
    done = subprocess.run(
        [sys.executable, "-m", "tests.migrations.child", str(data_dir), options],
        cwd=ROOT,
        capture_output=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode


def moments_in_source() -> set[str]:
    """The names that the migrations really hit."""
    folder = Path(migrations.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))
    return set(re.findall(r"\bhit\(\"([^\"]+)\"\)", text))


def test_list_of_moments_against_source_is_complete() -> None:
    assert set(OWN_MOMENTS) == moments_in_source()


def test_clean_run_comes_to_every_moment(counts: dict[str, int]) -> None:
    for name in (*FAILPOINTS, *OWN_MOMENTS):
        assert counts.get(name, 0) >= 1, (name, counts)
    assert counts["commit.before"] > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FAILPOINTS, *OWN_MOMENTS])
async def test_kill_at_moment_then_run_to_the_end_is_as_one_clean_run(
    tmp_path: Path, old_folder: Path, clean: Dump, counts: dict[str, int], name: str
) -> None:
    """Several hits, spread over the run, the first and the last always among them."""
    most = counts[name]
    for hit in sorted({1 + part * (most - 1) // (HITS_EACH - 1) for part in range(HITS_EACH)}):
        data_dir = tmp_path / f"hit-{hit}"
        shutil.copytree(old_folder, data_dir)
        code = kill_at(data_dir, name, hit)
        # How commits are grouped, and when there is a checkpoint, is a matter of timing.
        assert code == -signal.SIGKILL or name in FAILPOINTS, f"never came to {name} no. {hit}"
        await run(data_dir, Hits())
        await run(data_dir, Hits())
        assert_tidy(data_dir, bytes_of(old_folder))
        assert await dump(data_dir) == clean, f"killed at {name} no. {hit}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_killed_any_number_of_times_the_end_is_the_same(
    data_dir: Path, old_folder: Path, clean: Dump, seed: int
) -> None:
    rng = random.Random(seed)
    kills = 0
    for _ in range(12):
        kills += kill_at(data_dir, *_any_moment(rng)) == -signal.SIGKILL
        if rng.random() < 0.3:
            _lose_markers(data_dir)
    assert kills >= 3
    await run(data_dir, Hits())
    assert_tidy(data_dir, bytes_of(old_folder))
    assert await dump(data_dir) == clean


def _any_moment(rng: random.Random) -> tuple[str, int]:
    return rng.choice([*FAILPOINTS[:4], *OWN_MOMENTS]), rng.randint(1, 2)


def _lose_markers(data_dir: Path) -> None:
    for migration in runner.MIGRATIONS:
        if migration.marker:
            with suppress(FileNotFoundError):
                (data_dir / migration.marker).unlink()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_killed_at_random_times_the_end_is_the_same(
    data_dir: Path, old_folder: Path, clean: Dump, seed: int
) -> None:
    """Not at a named moment, but whenever: the process is given less time than it needs."""
    rng = random.Random(f"times {seed}")
    for _ in range(8):
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-m", "tests.migrations.child", str(data_dir), "{}"],
                cwd=ROOT,
                capture_output=True,
                timeout=rng.uniform(0.35, 0.9),
                check=False,
            )
    await run(data_dir, Hits())
    assert_tidy(data_dir, bytes_of(old_folder))
    assert await dump(data_dir) == clean


async def test_lost_file_is_noticed(data_dir: Path, clean: Dump) -> None:
    """The control: the same comparison fails if one file, or one row of the ledger, is missing."""
    await run(data_dir, Hits())
    async with await FileStore.open(data_dir, limits=Limits()) as store:
        await store.delete_file("block-0", "term")
    found = await dump(data_dir)
    assert found != clean
    assert found["ledger"] == clean["ledger"]
    assert len(found["ledger"]) < ledger.ROWS_PER_STEP
