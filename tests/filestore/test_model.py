"""Records and name rules by themselves."""

import dataclasses
import inspect
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filestore import (
    Appended,
    Change,
    FileInfo,
    InvalidNameError,
    Limits,
    LinePage,
    LinesAppended,
    ZoneInfo,
    ZonePage,
)
from filestore.model import check_file_name, check_zone_name

RECORDS = [
    Appended(0, 1, 2),
    Change(1, "write"),
    FileInfo("z", "f", 1, 1, 1, 1, 1),
    Limits(),
    LinePage([], 0),
    LinesAppended(0, 0, 0, 0, 0),
    ZoneInfo("z", 1, 1),
    ZonePage([], None),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_record_cannot_be_changed(record: object) -> None:
    names = list(inspect.signature(type(record)).parameters)
    assert names
    for name in names:
        with pytest.raises(AttributeError):
            setattr(record, name, 5)
    assert not hasattr(record, "__dict__")


def test_limits_have_units_in_their_names() -> None:
    for field in dataclasses.fields(Limits):
        assert getattr(Limits(), field.name) > 0 or field.name == "ballast_bytes"
        words = set(field.name.split("_"))
        assert words & {"bytes", "units", "rows", "lines", "kept", "s", "readers"}, field.name


def test_limits_fit_together() -> None:
    limits = Limits()
    assert limits.append_bytes_max <= limits.queue_bytes_max
    assert limits.log_bytes_soft < limits.log_bytes_hard
    assert limits.wal_bytes_soft < limits.wal_bytes_hard
    assert limits.seal_bytes <= limits.log_bytes_soft


@given(st.text(min_size=1, max_size=300))
def test_name_is_taken_exactly_if_printable_and_short(name: str) -> None:
    for check, chars_max in ((check_zone_name, 256), (check_file_name, 128)):
        if len(name) <= chars_max and name.isprintable():
            assert check(name, "test") is name
        else:
            with pytest.raises(InvalidNameError):
                check(name, "test")


def test_name_of_each_code_point_is_judged_by_its_category() -> None:
    """No controls, formats, surrogates, private or unassigned ones, no separators but the space."""
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        is_good = char == " " or unicodedata.category(char)[0] not in "CZ"
        try:
            check_file_name(char, "test")
        except InvalidNameError:
            assert not is_good, hex(code)
        else:
            assert is_good, hex(code)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("", "''"),
        ("a\nb", r"'a\nb'"),
        ("\u202e", r"'\u202e'"),
        ("\ud800", r"'\ud800'"),
        ("\x00", r"'\x00'"),
    ],
)
def test_bad_name_is_shown_escaped_with_operation_and_rule(value: str, shown: str) -> None:
    with pytest.raises(InvalidNameError) as caught:
        check_zone_name(value, "write")
    assert shown in caught.value.message
    assert "1 to 256 printable characters" in caught.value.message
    assert str(caught.value).startswith("write: invalid zone name")
    with pytest.raises(InvalidNameError, match="1 to 128"):
        check_file_name(value, "write")


def test_gap_has_only_a_position() -> None:
    gap = Change(7, "gap")
    assert (gap.zone, gap.name, gap.version, gap.offset, gap.size, gap.source) == (
        "", None, 0, None, None, None,
    )  # fmt: skip
