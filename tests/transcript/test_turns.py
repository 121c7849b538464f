"""Turns: what opens one, what joins it, what is completed, and how many there may be."""

from typing import Any

import pytest

from filestore.errors import InvalidArgumentError, TurnLimitError
from filestore.transcript import (
    TURNS_MAX,
    check_turn_limit,
    completed_turns,
    count_user_rows,
    resume,
    turn_cap,
    turns_of,
)
from tests.transcript.rows import call, media, reasoning, result, row, rows

CASES: dict[str, tuple[list[tuple[Any, ...]], list[list[int]], list[int]]] = {
    "none": ([], [], []),
    "one": ([("user", "a"), ("assistant", "b")], [[0, 1]], [0]),
    "two": (
        [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")],
        [[0, 1], [2, 3]],
        [0, 1],
    ),
    "user rows join": ([("user", "a"), ("user", "b"), ("assistant", "c")], [[0, 1, 2]], [0]),
    "assistant rows belong": (
        [("user", "a"), ("assistant", call("t")), ("tool", result()), ("assistant", "b")],
        [[0, 1, 2, 3]],
        [0],
    ),
    "assistant first": ([("assistant", "a"), ("user", "b")], [[0], [1]], [0]),
    "tool and system rows open nothing": (
        [("system", "a"), ("tool", result()), ("user", "b"), ("system", "c"), ("assistant", "d")],
        [[2, 3, 4]],
        [0],
    ),
    "tool and system rows close nothing": (
        [("user", "a"), ("system", "b"), ("user", "c"), ("tool", result()), ("assistant", "d")],
        [[0, 1, 2, 3, 4]],
        [0],
    ),
    "an assistant row without text closes": (
        [("user", "a"), ("assistant", call("t")), ("user", "b"), ("assistant", "c")],
        [[0, 1], [2, 3]],
        [1],
    ),
    "white space is text": ([("user", "a"), ("assistant", " ")], [[0, 1]], [0]),
    "reasoning is not": ([("user", "a"), ("assistant", reasoning("b"))], [[0, 1]], []),
    "nor are parts that are empty": ([("user", "a"), ("assistant", "", "")], [[0, 1]], []),
    "nor is a medium": ([("user", "a"), ("assistant", media())], [[0, 1]], []),
    "interrupted at the end": (
        [("user", "a"), ("assistant", "b"), ("user", "c")],
        [[0, 1], [2]],
        [0],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_fall_into_turns(name: str) -> None:
    said, wanted, completed = CASES[name]
    turns = turns_of(rows(*said))
    assert [[row["sequenceNumber"] for row in turn.rows] for turn in turns] == wanted
    assert [place for place, turn in enumerate(turns) if turn.is_completed] == completed
    assert completed_turns(rows(*said)) == [turns[place] for place in completed]


def test_resume_tells_texts_of_completed_turns_only() -> None:
    said = rows(
        ("system", "be brief"),
        ("user", "one", media(), "more"),
        ("assistant", reasoning("hm"), "1", call("t"), "2"),
        ("tool", result("text")),
        ("assistant", call("t")),
        ("assistant", "3"),
        ("user", "two"),
        ("assistant", call("t")),
        ("user", media()),
        ("assistant", "4"),
    )
    assert resume(reversed(said)) == [
        ("user", "one\n\nmore", 1, 1),
        ("assistant", "1\n\n2", 2, 1),
        ("assistant", "3", 5, 1),
        ("assistant", "4", 9, 2),
    ]


def test_prompt_passes_over_rows_and_parts_without_text() -> None:
    (turn,) = turns_of(rows(("user", media()), ("user", "", "a", ""), ("user", "b")))
    assert turn.prompt == "a\n\nb"


def test_tools_are_named_once_in_the_order_of_their_first_use() -> None:
    said = rows(("user", "a"), ("assistant", call("b"), call("a")), ("tool", call("b"), call("c")))
    assert turns_of(said)[0].tools == ["b", "a", "c"]


def test_rows_with_the_same_number_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="two rows have the number 3"):
        resume([row(3, "user", "a"), row(4, "user", "b"), row(3, "assistant", "c")])


@pytest.mark.parametrize(
    ("wanted", "cap"), [(None, 50), (0, 50), (-1, 50), (1, 1), (50, 50), (51, 51)]
)
def test_cap_is_as_wanted_or_as_usual(wanted: int | None, cap: int) -> None:
    assert TURNS_MAX == 50
    assert turn_cap(wanted) == cap
    check_turn_limit(cap - 1, wanted)
    with pytest.raises(TurnLimitError) as caught:
        check_turn_limit(cap, wanted)
    assert caught.value.limit == cap


def test_cap_counts_user_rows_that_join_a_turn_as_well() -> None:
    said = rows(("assistant", "a"), ("user", "b"), ("user", "c"), ("system", "d"), ("tool", "e"))
    assert count_user_rows(said) == 2
