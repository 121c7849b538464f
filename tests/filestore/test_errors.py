"""The tree of errors: its shape, its text, and what each carries."""

import inspect
import re
from collections.abc import Iterator

import pytest

import filestore
from filestore import errors
from filestore.errors import (
    BusyError,
    ConflictError,
    CorruptionError,
    InvalidArgumentError,
    LimitReachedError,
    LockedError,
    NotFoundError,
    RejectedError,
    StoreError,
    TooLargeError,
    VersionConflictError,
)


def subclasses(kind: type[StoreError]) -> Iterator[type[StoreError]]:
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from subclasses(child)


ALL: list[type[StoreError]] = [StoreError, *subclasses(StoreError)]


def test_tree_in_the_docstring_is_the_tree_in_the_code() -> None:
    """Names with their depth, in the drawing and among the classes."""
    drawing = inspect.getdoc(errors)
    assert drawing is not None
    found = [re.match(r"( {4}[│├└─ ]*)(\w+Error)\s", line) for line in drawing.splitlines()]
    drawn = {match[2]: len(match[1]) // 4 - 1 for match in found if match}
    real = {kind.__name__: len(kind.__mro__) - len(StoreError.__mro__) for kind in ALL}
    assert drawn == real


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_error_of_any_kind_is_exported_named_and_explained(kind: type[StoreError]) -> None:
    assert kind.__name__.endswith("Error")
    assert kind.__doc__
    assert getattr(filestore, kind.__name__) is kind
    assert kind.__name__ in filestore.__all__


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_error_of_any_kind_has_message_operation_and_hint(kind: type[StoreError]) -> None:
    error = make(kind)
    assert error.message == "what happened"
    assert "what happened" in str(error)
    assert error.hint == kind.default_hint
    assert error.hint in str(error)
    assert "\n" not in str(error)
    assert error.args == ("what happened",)


def make(kind: type[StoreError]) -> StoreError:
    """An error of `kind` with the least it needs."""
    if issubclass(kind, LockedError):
        return kind("what happened", pid=1, kind="daemon", socket="")
    if issubclass(kind, TooLargeError):
        return kind("what happened", limit=1)
    if issubclass(kind, VersionConflictError):
        return kind("what happened", current_version=1)
    if issubclass(kind, ConflictError):
        return kind("what happened", status="active")
    if issubclass(kind, LimitReachedError):
        return kind("what happened", limit=1, retry_after_ms=1)
    if issubclass(kind, RejectedError):
        return kind("what happened", field="f", value=1, expected="text")
    return kind("what happened")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (StoreError("broke"), "broke"),
        (StoreError("broke", operation="write"), "write: broke"),
        (StoreError("broke", zone="z"), "broke ['z']"),
        (StoreError("broke", zone="z", name="f"), "broke ['z'/'f']"),
        (StoreError("broke", hint="mend it"), "broke (mend it)"),
        (
            StoreError("broke", operation="read", zone="z", name="f", hint="mend it"),
            "read: broke ['z'/'f'] (mend it)",
        ),
        (NotFoundError("no such file", operation="read", zone="z"), "read: no such file ['z']"),
        (CorruptionError("bad", offset=5, hint="h"), "bad at offset 5 (h)"),
        (CorruptionError("bad", offset=0, zone="z", hint="h"), "bad at offset 0 ['z'] (h)"),
        (CorruptionError("bad", hint="h"), "bad (h)"),
        (
            CorruptionError("bad", operation="read", offset=7, hint="h"),
            "read: bad at offset 7 (h)",
        ),
    ],
    ids=str,
)
def test_error_as_text_is_one_line_with_place_and_hint(error: StoreError, text: str) -> None:
    assert str(error) == text


def test_error_shows_names_escaped() -> None:
    error = StoreError("broke", zone="a\nb\u202e", name="\x1b[0m")
    assert str(error) == r"broke ['a\nb\u202e'/'\x1b[0m']"


def test_error_with_empty_names_still_shows_them() -> None:
    assert str(StoreError("broke", zone="", name="")) == "broke [''/'']"


def test_own_hint_takes_the_place_of_the_default() -> None:
    assert BusyError("full", hint="wait").hint == "wait"
    assert BusyError("full").hint == BusyError.default_hint != ""


def test_errors_carry_their_facts() -> None:
    assert TooLargeError("m", limit=7).limit == 7
    assert VersionConflictError("m", current_version=3).current_version == 3
    assert BusyError("m", retry_after_ms=50).retry_after_ms == 50
    assert CorruptionError("m", offset=9).offset == 9
    locked = LockedError("m", pid=5, kind="daemon", socket="s")
    assert (locked.pid, locked.kind, locked.socket, locked.operation) == (5, "daemon", "s", "open")


def test_corruption_is_folded_into_nothing_else() -> None:
    assert CorruptionError.__mro__[1] is StoreError
    assert not CorruptionError.__subclasses__()


def test_caller_s_mistakes_are_told_from_the_store_s_troubles() -> None:
    mistakes = {kind for kind in ALL if issubclass(kind, InvalidArgumentError)}
    troubles = {kind for kind in ALL if issubclass(kind, errors.BackendError)}
    assert not mistakes & troubles
