"""How figures are taken and judged."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bench import report
from bench.measure import (
    Context,
    PeakMemory,
    Row,
    Target,
    compare,
    in_turn,
    median_us,
    quantity,
    written_chars,
)


@pytest.mark.parametrize(
    ("target", "figure", "is_met"),
    [
        (Target("≥", 4), 4.0, True),
        (Target("≥", 4), 3.99, False),
        (Target("≤", 4), 4.0, True),
        (Target("≤", 4), 4.01, False),
        (Target("≤", 0), 0.0, True),
    ],
)
def test_target_at_its_bound_is_met_and_beyond_is_not(
    target: Target, figure: float, is_met: bool
) -> None:
    assert target.is_met(figure) is is_met


def test_row_is_judged_by_the_median_of_its_figures() -> None:
    figures = [1.0, 9.0, 5.0]
    assert Row("a", "", "", figures, "×").figure == 5.0
    assert Row("a", "", "", figures, "×", Target("≥", 5)).verdict == "pass"
    assert Row("a", "", "", figures, "×", Target("≤", 4)).verdict == "MISS"


def test_row_without_target_has_no_verdict() -> None:
    assert Row("a", "", "", [1.0], "×").verdict == ""


def test_compare_takes_the_ratio_of_each_round_and_shows_both_medians() -> None:
    """The median of ratios, not the ratio of medians: that would be 20 / 10 here."""
    row = compare("a", [(10.0, 1.0), (20.0, 10.0), (90.0, 30.0)], "/s", Target("≥", 3), "why")
    assert row.figures == [10.0, 2.0, 3.0]
    assert (row.figure, row.unit, row.verdict, row.note) == (3.0, "×", "pass", "why")
    assert (row.ours, row.baseline) == ("20 /s", "10 /s")


async def test_in_turn_warms_up_then_alternates_who_goes_first() -> None:
    calls: list[str] = []

    def measure(name: str) -> Callable[[], Awaitable[float]]:
        async def take() -> float:
            calls.append(name)
            return float(len(calls))

        return take

    pairs = await in_turn(measure("ours"), measure("baseline"), rounds=3)
    assert [tuple(calls[at : at + 2]) for at in range(0, 8, 2)] == [
        ("baseline", "ours"),
        ("ours", "baseline"),
        ("baseline", "ours"),
        ("ours", "baseline"),
    ]
    assert pairs == [(3.0, 4.0), (6.0, 5.0), (7.0, 8.0)]


async def test_median_time_calls_the_action_with_each_number() -> None:
    seen: list[int] = []

    async def action(number: int) -> None:
        seen.append(number)

    assert await median_us(action, 3) > 0
    assert seen == [0, 1, 2]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0 B"),
        (0.12345, "0.123 B"),
        (99.95, "100 B"),
        (1234.5, "1,234 B"),
        (1e7, "10,000,000 B"),
    ],
)
def test_quantity_is_shown_without_an_exponent(value: float, shown: str) -> None:
    assert quantity(value, "B") == shown


def test_peak_memory_sees_what_was_held_for_a_moment() -> None:
    with PeakMemory() as memory:
        held = bytearray(8 << 20)
        del held
    assert memory.grown_bytes >= 8 << 20


def test_written_chars_counts_what_this_process_writes(tmp_path: Path) -> None:
    before = written_chars()
    (tmp_path / "file").write_bytes(b"x" * 1000)
    assert written_chars() - before >= 1000


async def test_shared_folder_is_made_once_and_fresh_ones_each_time(tmp_path: Path) -> None:
    context = Context(tmp_path, "small")
    made: list[Path] = []

    async def make(folder: Path) -> None:
        made.append(folder)

    first, again = await context.shared("a", make), await context.shared("a", make)
    assert made == [first] == [again]
    assert context.fresh("a") != first
    assert context.pick(1, 2, 3) == 2
    context.drop(first)
    assert not first.exists()


def test_line_of_the_table_has_figure_spread_target_and_verdict() -> None:
    row = Row("a", "2 /s", "1 /s", [1.0, 2.0, 3.0], "×", Target("≥", 2), "why")
    assert " ".join(report.line(row).split()) == "a 2 /s 1 /s 2 × 1..3 ≥ 2 × pass why"
    assert "pass" not in report.line(Row("a", "", "", [1.0], "×"))
