"""Bodies come back as they were given, or are refused before anything is stored."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filestore import InvalidArgumentError, TooLargeError
from filestore.journal.bodies import DEPTH_MAX, dump, load

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(10**60), max_value=10**60),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
    st.sampled_from(["12345678901234567890", "\u2028", "\x00", "1e400", "\U0001f600", '"\\']),
)
BODIES = st.dictionaries(
    TEXT,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
        max_leaves=30,
    ),
    max_size=6,
)


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types: 1 is not 1.0 here, nor True, and -0.0 is not 0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


def nested(depth: int) -> dict[str, Any]:
    """A body that is `depth` objects deep."""
    body: dict[str, Any] = {}
    for _ in range(depth - 1):
        body = {"": body}
    return body


@given(BODIES)
def test_body_comes_back_exactly(body: dict[str, Any]) -> None:
    data = dump(body)
    assert same(load(data), body)
    assert same(json.loads(data), body), "whoever reads it with another parser finds the same"


@pytest.mark.parametrize(
    "number",
    [2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400, 2**53 + 1,
     5e-324, 1.7976931348623157e308, -0.0, 0.1, 1e22, 123456789012345678901.0],
)  # fmt: skip
def test_number_comes_back_exactly(number: float) -> None:
    assert same(load(dump({"n": [number]})), {"n": [number]})


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, [-math.inf], {"x": [math.nan]}, "\ud800", {"\udfff": 1}, b"x", object(),
     {1, 2}],
)  # fmt: skip
def test_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError):
        dump({"value": value})


def test_number_that_nobody_could_read_again_is_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        dump({"value": 10**5000})


def test_depth_is_bounded_and_what_is_let_through_is_read_again() -> None:
    deepest = nested(DEPTH_MAX)
    assert load(dump(deepest)) == deepest
    assert load(dump({**deepest, "n": 10**30})) == {**deepest, "n": 10**30}
    for body in (nested(DEPTH_MAX + 1), nested(100_000), {"list": [[[]]] * 3, "x": nested(500)}):
        with pytest.raises(InvalidArgumentError, match="deep"):
            dump(body)


def test_size_is_bounded_in_bytes() -> None:
    assert len(dump({"x": "é" * 10}, bytes_max=28)) == 28
    with pytest.raises(TooLargeError) as caught:
        dump({"x": "é" * 10}, bytes_max=27)
    assert caught.value.limit == 27
