"""Messages, parameters and the budget, without a daemon."""

import asyncio
import contextlib
import tracemalloc
from typing import Any

import msgpack
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srv.errors import ZonedError
from srv.rpc import params, protocol
from srv.rpc.budget import Budget
from srv.rpc.params import Spec, check
from srv.rpc.protocol import Call, Refused

ARRAY_MAX = 10_000


def decoded(payload: bytes, *, is_binary: bool = False) -> object:
    return protocol.decode(payload, is_binary=is_binary, array_max=ARRAY_MAX)


def kind_of(payload: bytes, *, is_binary: bool = False) -> str:
    with pytest.raises(ZonedError) as caught:
        decoded(payload, is_binary=is_binary)
    assert caught.value.message
    return caught.value.kind


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.text(max_size=20)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=5)
    | st.dictionaries(st.text(max_size=10), inner, max_size=5),
    max_leaves=20,
)  # fmt: skip


@given(value=JSON)
def test_value_goes_through_both_encodings(value: Any) -> None:
    assert decoded(protocol.encode(value, is_binary=False)) == value
    assert decoded(protocol.encode(value, is_binary=True), is_binary=True) == value


@given(data=st.binary(max_size=100))
def test_bytes_travel_as_text_where_they_are_text(data: bytes) -> None:
    shown = protocol.text_or_bytes(data)
    for is_binary in (False, True):
        sent = decoded(protocol.encode(shown, is_binary=is_binary), is_binary=is_binary)
        assert check({"x": sent}, Spec({"x": params.content(100)})) == {"x": data}


@given(payload=st.binary(max_size=300), is_binary=st.booleans())
def test_random_bytes_raise_nothing_else(payload: bytes, is_binary: bool) -> None:
    with contextlib.suppress(ZonedError):
        protocol.read(decoded(payload, is_binary=is_binary))


@pytest.mark.parametrize(
    "bomb",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdc\x27\x10" * 1000,
        b"\xdc\xff\xff" * 1000,
        b"\x91" * 100_000,
        b"\x81\xa1a" * 100_000,
        b"\xdb\xff\xff\xff\xffabc",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\xd4\x05\x00",
        b"\xc1",
        b"\x90\x90",
        b"\x81\x01\x02",
        b"\xa1\xff",
        b"",
    ],
)
def test_messagepack_bomb_is_refused_in_little_memory(bomb: bytes) -> None:
    tracemalloc.start()
    try:
        assert kind_of(bomb, is_binary=True) == "PARSE_ERROR"
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\x91" * 100_000, "in one another"),
        (b"\xc1", "begins no value"),
        (b"\xd4\x05\x00", "type 5"),
    ],
)
def test_what_is_wrong_with_messagepack_is_told_in_words(payload: bytes, reason: str) -> None:
    with pytest.raises(ZonedError, match=reason):
        decoded(payload, is_binary=True)


def test_many_values_are_refused_before_they_take_memory() -> None:
    many = protocol.VALUES_MAX + 1
    assert kind_of(b"[" + b"0," * many + b"0]") == "TOO_LARGE"
    assert kind_of(b"[" + b"[]," * many + b"0]") == "TOO_LARGE"
    assert kind_of(b"[" + b'"",' * many + b'""]') == "TOO_LARGE"
    inner = b"\xdc\x27\x10" + b"\x00" * 10_000
    assert kind_of(b"\xdc\x00\x80" + inner * 128, is_binary=True) == "TOO_LARGE"


def test_marks_within_texts_are_no_values() -> None:
    for text in (",[{" * 1_000_000, '\\",' * 1_000_000, '\\\\"' * 400_000 + "," * 2_000_000):
        assert decoded(orjson.dumps({"content": text})) == {"content": text}
    lines = ["x" * 200] * 10_000
    assert decoded(orjson.dumps({"lines": lines})) == {"lines": lines}
    assert decoded(msgpack.packb({"lines": lines}), is_binary=True) == {"lines": lines}


@given(parts=st.lists(JSON, min_size=1, max_size=5), is_binary=st.booleans())
def test_joined_parts_are_an_array(parts: list[Any], is_binary: bool) -> None:
    encoded = [protocol.encode(each, is_binary=is_binary) for each in parts]
    assert decoded(protocol.join(encoded, is_binary=is_binary), is_binary=is_binary) == parts


@given(value=JSON)
def test_read_takes_any_value(value: Any) -> None:
    assert isinstance(protocol.read(value), Call | Refused)
    if isinstance(value, list) and 0 < len(value) <= 3:
        items = protocol.read_batch(value, 3)
        assert [type(item) for item in items] == [type(protocol.read(each)) for each in value]
    elif isinstance(value, list):
        with pytest.raises(ZonedError):
            protocol.read_batch(value, 3)


def test_read_tells_a_notification_from_a_request_with_null() -> None:
    call = {"jsonrpc": "2.0", "method": "m"}
    assert protocol.read(call) == Call(None, "m", {}, True)
    assert protocol.read(call | {"id": None}) == Call(None, "m", {}, False)


def test_value_that_cannot_be_sent_is_a_fault_of_ours() -> None:
    with pytest.raises(TypeError):
        protocol.encode({"x": object()}, is_binary=False)


# -- parameters

SPEC = Spec(
    {
        "text": params.text,
        "flag": params.boolean,
        "count": params.count,
        "content": params.content(10),
        "line": params.line(5, 2),
        "lines": params.lines(5, 3),
    }
)
TAKEN: list[tuple[str, Any, object]] = [
    ("text", "", ""),
    ("text", "x" * 1024, "x" * 1024),
    ("flag", True, True),
    ("flag", False, False),
    ("count", 0, 0),
    ("count", (1 << 63) - 1, (1 << 63) - 1),
    ("content", "é", "é".encode()),
    ("content", b"\xff", b"\xff"),
    ("content", {"base64": "/w=="}, b"\xff"),
    ("content", {"base64": ""}, b""),
    ("content", "x" * 10, b"x" * 10),
    ("line", "x", [b"x"]),
    ("line", "12345\n12345\n", [b"12345\n12345\n"]),
    ("lines", [], []),
    ("lines", ["a", b"b", {"base64": "Yw=="}], [b"a", b"b", b"c"]),
]
REFUSED: list[tuple[str, Any, str]] = [
    ("text", 5, "INVALID_PARAMS"),
    ("text", b"x", "INVALID_PARAMS"),
    ("text", "x" * 1025, "INVALID_PARAMS"),
    ("flag", 1, "INVALID_PARAMS"),
    ("flag", "true", "INVALID_PARAMS"),
    ("count", True, "INVALID_PARAMS"),
    ("count", -1, "INVALID_PARAMS"),
    ("count", 1 << 63, "INVALID_PARAMS"),
    ("count", 1.0, "INVALID_PARAMS"),
    ("count", "1", "INVALID_PARAMS"),
    ("content", 5, "INVALID_PARAMS"),
    ("content", "\ud800", "INVALID_PARAMS"),
    ("content", {"base64": "a"}, "INVALID_PARAMS"),
    ("content", {"base64": "_-8="}, "INVALID_PARAMS"),
    ("content", {"base64": 5}, "INVALID_PARAMS"),
    ("content", {"base64": "", "x": 1}, "INVALID_PARAMS"),
    ("content", {}, "INVALID_PARAMS"),
    ("content", "x" * 11, "TOO_LARGE"),
    ("content", "é" * 6, "TOO_LARGE"),
    ("line", "123456", "TOO_LARGE"),
    ("line", "1\n123456", "TOO_LARGE"),
    ("line", "1\n2\n3", "TOO_LARGE"),
    ("line", ["x"], "INVALID_PARAMS"),
    ("lines", "x", "INVALID_PARAMS"),
    ("lines", ["x", None], "INVALID_PARAMS"),
    ("lines", ["1", "2", "3", "4"], "TOO_LARGE"),
    ("lines", ["1\n2", "3\n4"], "TOO_LARGE"),
    ("lines", ["123456"], "TOO_LARGE"),
    ("nothing", 1, "INVALID_PARAMS"),
    ("nothing", None, "INVALID_PARAMS"),
    ("x" * 5000 + "\n", 1, "INVALID_PARAMS"),
]


@pytest.mark.parametrize(("name", "value", "wanted"), TAKEN)
def test_parameter_is_taken(name: str, value: Any, wanted: object) -> None:
    assert check({name: value}, SPEC) == {name: wanted}


@pytest.mark.parametrize(("name", "value", "kind"), REFUSED)
def test_parameter_is_refused_by_name(name: str, value: Any, kind: str) -> None:
    with pytest.raises(ZonedError) as caught:
        check({name: value}, SPEC)
    error = caught.value
    assert error.kind == kind
    assert error.data["field"] == name[:60]
    assert ("limit" in error.data) == (kind == "TOO_LARGE")
    assert len(error.message) < 300


def test_null_is_as_good_as_nothing() -> None:
    assert check({"text": None, "count": None}, SPEC) == {}
    with pytest.raises(ZonedError, match="text is missing"):
        check({"text": None}, Spec({"text": params.text}, ("text",)))


def test_one_of_several_must_be_given() -> None:
    fields = {"a": params.count, "b": params.count}
    assert check({"a": 1}, Spec(fields, (), ("a", "b"))) == {"a": 1}
    assert check({}, Spec(fields, (), ("a", "b"), True)) == {}
    for given_ in ({}, {"a": 1, "b": 2}):
        with pytest.raises(ZonedError, match="exactly one of a and b"):
            check(given_, Spec(fields, (), ("a", "b")))
    with pytest.raises(ZonedError, match="at most one"):
        check({"a": 1, "b": 2}, Spec(fields, (), ("a", "b"), True))


# -- the budget

STEPS = st.lists(
    st.tuples(st.sampled_from(["now", "later", "give", "cancel"]), st.integers(1, 150)),
    max_size=60,
)


@given(steps=STEPS)
def test_budget_is_never_overdrawn_and_serves_in_order(steps: list[tuple[str, int]]) -> None:
    async def run() -> None:
        budget = Budget(100)
        held: list[int] = []
        waiting: list[tuple[int, asyncio.Future[None]]] = []

        def settle() -> None:
            while waiting and waiting[0][1].done():
                size, future = waiting.pop(0)
                if not future.cancelled():
                    held.append(size)
            assert not any(future.done() and not future.cancelled() for _, future in waiting), (
                "first come, first served"
            )
            assert budget.held_bytes == sum(held)
            assert budget.held_bytes <= 100 or len(held) == 1, "one alone is let through"

        for step, size in steps:
            if step == "now":
                was_free = not [each for each in waiting if not each[1].done()]
                if budget.take_nowait(size):
                    assert was_free
                    held.append(size)
            elif step == "later":
                waiting.append((size, budget.take_later(size)))
            elif step == "give" and held:
                budget.give(held.pop(size % len(held)))
            elif step == "cancel" and waiting:
                waiting[size % len(waiting)][1].cancel()
                # Whoever leaves the line lets the next ones through when something is given.
                budget.give(0)
            settle()
        while held:
            budget.give(held.pop())
            settle()
        assert not waiting

    asyncio.run(run())


async def test_budget_room_waits_only_while_too_much_is_held() -> None:
    budget = Budget(10)
    await budget.room()
    budget.add(11)
    async with asyncio.TaskGroup() as group:
        room = group.create_task(budget.room())
        while not budget.is_short:
            await asyncio.wait([room], timeout=0)
        budget.give(1)
    assert room.done()
    assert budget.held_bytes == 10
