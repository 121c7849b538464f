"""The fault suites in their short form: a sample of what `make crash` goes through.

Each has its control run, and fails if that does not: a suite that notices nothing proves nothing.
"""

from pathlib import Path

import pytest

from tests.crash import (
    call_kills,
    daemon_cuts,
    daemon_kills,
    flips,
    report,
    soak,
    system_errors,
)
from tests.crash.suite import Plan, Row

pytestmark = pytest.mark.slow


def assert_well(row: Row) -> None:
    print(*report.lines_of(row), sep="\n")
    assert row.wrong == []
    assert row.count > 0


@pytest.mark.strace
async def test_kill_at_disk_calls_of_operations_leaves_before_or_after() -> None:
    row = await call_kills.run(Plan.short(20))
    assert_well(row)
    assert row.count >= call_kills.SAMPLE_OPERATIONS


async def test_kills_of_daemon_under_load_keep_every_acknowledged_call() -> None:
    row = await daemon_kills.run(Plan.short(10))
    assert_well(row)
    assert row.count == daemon_kills.KILLS_SHORT


@pytest.mark.strace
async def test_power_cuts_of_daemon_keep_every_acknowledged_call(tmp_path: Path) -> None:
    row = await daemon_cuts.run(tmp_path, Plan.short(20))
    assert_well(row)
    assert row.count == daemon_cuts.STATES_SHORT


@pytest.mark.strace
@pytest.mark.root
async def test_errors_of_system_are_told_and_overcome() -> None:
    assert_well(await system_errors.run(Plan.short(20)))


async def test_flipped_bits_are_told_or_harmless() -> None:
    row = await flips.run(Plan.short(10))
    assert_well(row)
    assert row.count == flips.FLIPS_SHORT


async def test_soak_of_some_seconds_loses_and_reorders_no_line() -> None:
    assert_well(await soak.run(Plan.short(4)))


@pytest.mark.strace
def test_played_recording_of_daemon_ends_in_the_files_that_are_there(tmp_path: Path) -> None:
    """The model of the disk, against the disk."""
    played, there = daemon_cuts.played_files(daemon_cuts.work(tmp_path, "played", calls_each=10))
    assert played == there
    assert {"zoned.db", "zoned.lock", "token"} <= set(there)


def test_figures_of_a_suite_replace_its_own_and_keep_the_others(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    document.write_text(f"before\n{report.BEGIN}\n{report.END}\nafter\n", encoding="utf-8")
    one, two = Row("one", "a", 1, 1_000, more=["x"]), Row("two", "b", 2, 2)
    report.write([one, two], document)
    report.write([Row("one", "a", 3, 5, more=["y"])], document)
    text = document.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{report.BEGIN}\n| suite |")
    assert text.endswith(f"- one: y\n{report.END}\nafter\n")
    assert text.count("| one | a | 5 | 0 | – | 3 |") == text.count("| two | b | 2 |") == 1
    assert "1 000" not in text
