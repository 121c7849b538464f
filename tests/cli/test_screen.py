"""What is shown, in detail: widths, cuts, escapes, human numbers."""

import pytest

from srv.cli import words
from srv.cli.screen import columns, cut, harmless

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext", "plain\ttext"),
        ("\x1b[31m\x9b\x7f\x00\r\n", r"\x1b[31m\x9b\x7f\x00\r\n"),
        ("\u202ex\u2066\ufeff\u200b\u2028", r"\u202ex\u2066\ufeff\u200b\u2028"),
        ("\udc80", r"\udc80"),
        ("ä 進 👩\u200d🔬 \u00a0", "ä 進 👩\u200d🔬 \u00a0"),
    ],
)
def test_text_is_made_harmless_and_else_kept(text: str, shown: str) -> None:
    assert harmless(text) == shown


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("進捗", 4), ("e\u0301", 1), ("", 0)])
def test_columns_are_those_of_a_terminal(text: str, width: int) -> None:
    assert columns(text) == width


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abcde…"),
        ("進捗進捗", 6, "進捗…"),
        ("進捗", 4, "進捗"),
    ],
)
def test_text_is_cut_by_its_columns(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown


@pytest.mark.parametrize(
    ("past_ms", "shown"),
    [(0, "just now"), (42_000, "42 s ago"), (150_000, "2 min ago"), (7_200_000, "2 h ago")],
)
def test_recent_times_are_told_as_distance(past_ms: int, shown: str) -> None:
    now = 1_700_000_000_000
    assert words.ago(now - past_ms, now) == shown


def test_old_future_and_impossible_times_are_told_as_dates() -> None:
    now = 1_700_000_000_000
    assert words.ago(now - 3 * DAY_MS, now).startswith("2023-11-1")
    assert words.ago(now + 60_000, now).startswith("2023-11-1")
    assert words.ago(None, now) == "-"
    assert words.date(1 << 80) == f"{1 << 80} ms"


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (1 << 20, "1 MiB"),
     ((1 << 20) - 1, "1 MiB"), (5 << 30, "5 GiB"), (3 << 50, "3072 TiB")],
)  # fmt: skip
def test_sizes_have_the_unit_that_fits(count: int, shown: str) -> None:
    assert words.size(count) == shown
