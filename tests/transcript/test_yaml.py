"""The writer: its form, and what it refuses."""

import math
from typing import Any

import pytest

from filestore.errors import InvalidArgumentError
from filestore.transcript.yaml import BARE_KEY_CHARS_MAX, LEVELS_MAX, to_yaml
from tests.transcript.readers import READERS


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "{}\n"),
        ([], "[]\n"),
        ("a", "a\n"),
        ({"b": 1, "a": None}, "a: null\nb: 1\n"),
        ({"a": [1, [2, []], {"b": {}, "a": 1}]},
         "a:\n  - 1\n  - - 2\n    - []\n  - a: 1\n    b: {}\n"),
        ({"a": {"b": {"c": [True]}}}, "a:\n  b:\n    c:\n      - true\n"),
        ({"Z": 1, "a": 1, "é": 1, "\uffe6": 1, "😀": 1},
         'Z: 1\na: 1\n"é": 1\n"\uffe6": 1\n"😀": 1\n'),
        ([[1, 2], [[3]]], "- - 1\n  - 2\n- - - 3\n"),
    ],
)  # fmt: skip
def test_value_is_laid_out_in_blocks(value: object, text: str) -> None:
    assert to_yaml(value).decode() == text


@pytest.mark.parametrize(
    "text",
    ["a", "word", "two words", "turn-1", "a.py", "src/a.py", "a, b (c)", "Yes sir", "x1e3", "e1"],
)
def test_plain_words_stand_bare(text: str) -> None:
    assert to_yaml(text).decode() == f"{text}\n"


@pytest.mark.parametrize(
    "text",
    ["", " a", "a ", "a  b", "yes", "YES", "Null", "nan", "Inf", "1", "1a", "-a", ".a", "a:b",
     "a: b", "a#b", "é", "a?", "_a", "n", "OFF", "a'b", "https://a.b"],
)  # fmt: skip
def test_everything_else_is_quoted(text: str) -> None:
    assert to_yaml(text).decode() == f'"{text}"\n'


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('"\\', r"\"\\"),
        ("a\nb\r\tc\0", r"a\nb\r\tc\0"),
        ("\x01\x1b\x7f\x85\x9f\xa0\xad", r"\x01\x1b\x7f\x85\x9f\xa0\xad"),
        ("\u200b\u2028\u2029\u202e\u2066\ufeff\ufffe\uffff",
         r"\u200b\u2028\u2029\u202e\u2066\ufeff\ufffe\uffff"),
        ("\U0001fffe\U000e0041\U0010ffff", r"\U0001fffe\U000e0041\U0010ffff"),
        ("é漢😀\u200d", "é漢😀\u200d"),
    ],
)  # fmt: skip
def test_invisible_characters_are_escaped_and_others_are_not(text: str, quoted: str) -> None:
    data = to_yaml(text)
    assert data.decode() == f'"{quoted}"\n'
    for name, read in READERS.items():
        assert read(data) == text, name


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1e16, "1.0e+16"),
        (1e-7, "1.0e-07"),
        (1.5e300, "1.5e+300"),
        (0.1, "0.1"),
        (10**30, "1" + "0" * 30),
        (-5, "-5"),
    ],
)
def test_numbers_come_back_as_what_they_were(number: float, text: str) -> None:
    data = to_yaml({"value": number})
    assert data.decode() == f"value: {text}\n"
    for name, read in READERS.items():
        found = read(data)["value"]
        assert (found, math.copysign(1, found)) == (number, math.copysign(1, number)), name
        assert isinstance(found, float) == isinstance(number, float), name


@pytest.mark.parametrize("inner", [1, [], {}, [1], {"a": 1}, "text"])
def test_key_too_long_for_readers_is_announced(inner: object) -> None:
    for key in ("k" * BARE_KEY_CHARS_MAX, "k" * (BARE_KEY_CHARS_MAX + 1), "\x01" * 2000):
        value = [{"a": {key: inner, "z": 1}}]
        data = to_yaml(value)
        for name, read in READERS.items():
            assert read(data) == value, name


def test_text_of_any_length_stays_on_one_line() -> None:
    value = {"a": "word " * 20_000 + "end", "b": "x" * 100_000, "c": "a\n" * 5_000}
    data = to_yaml(value)
    assert data.count(b"\n") == 3
    assert READERS["pyyaml"](data) == value


def nested(levels: int, is_map: bool) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value} if is_map else [value]
    return value


@pytest.mark.parametrize("is_map", [True, False])
def test_deepest_value_is_read_by_all_and_a_deeper_one_is_refused(is_map: bool) -> None:
    data = to_yaml(nested(LEVELS_MAX, is_map))
    for name, read in READERS.items():
        assert to_yaml(read(data)) == data, name
    for levels in (LEVELS_MAX + 1, 100_000):
        with pytest.raises(InvalidArgumentError, match="levels"):
            to_yaml(nested(levels, is_map))


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, {1: 2}, {None: 1}, {"a": b"x"}, [{1}], (1,), 1 << 20_000,
     "\ud800", {"\udfff": 1}, object()],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_value_that_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError):
        to_yaml(value)
