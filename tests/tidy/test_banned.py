"""Nothing banned stands in the tree, and each checker does find its bad sample."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.tidy import banned
from tests.tidy.project import ROOMS, python_files

EVERYWHERE = (*ROOMS, "tests", "bench")


class Rule(NamedTuple):
    """A checker, the top-level folders it guards, and the files it spares, each with a reason."""

    check: Callable[[banned.Source], Iterator[str]]
    folders: tuple[str, ...]
    spared: dict[str, str]


RULES = [
    Rule(banned.open_ends, EVERYWHERE, {}),
    Rule(banned.suppressions, EVERYWHERE, {}),
    Rule(banned.swallowed_errors, EVERYWHERE, {}),
    Rule(banned.prints, ("filestore", "migrations"), {}),
    Rule(
        banned.sleeps,
        ("tests",),
        {"tests/support/": "the one place that may wait for other processes"},
    ),
    Rule(
        banned.loose_tasks,
        EVERYWHERE,
        {
            "filestore/store.py": "opening and closing are calls, not a block; `close` ends it",
            "filestore/sessions/sessions.py": "the same",
        },
    ),
    Rule(banned.relative_imports, ROOMS, {}),
]

BAD = [
    (banned.open_ends, "x = 1  # FIXME later"),
    (banned.open_ends, "x = 1  # TODO later"),
    (banned.open_ends, "x = 1  # TODO(12) later"),
    (banned.suppressions, "x = 1  # type: ignore"),
    (banned.suppressions, "x = 1  # type: ignore[misc]"),
    (banned.suppressions, "x = 1  # type:ignore  # the stub is wrong"),
    (banned.suppressions, "x = 1  # noqa"),
    (banned.suppressions, "x = 1  # noqa: A001"),
    (banned.suppressions, "x = 1  # pragma: no cover"),
    (banned.swallowed_errors, "try:\n    f()\nexcept:\n    raise"),
    (banned.swallowed_errors, "try:\n    f()\nexcept Exception:\n    pass"),
    (banned.swallowed_errors, "try:\n    f()\nexcept (OSError, BaseException):\n    ..."),
    (banned.prints, "print(1)"),
    (banned.sleeps, "import time\ntime.sleep(1)"),
    (banned.sleeps, "import time as t\nt.sleep(1)"),
    (banned.sleeps, "from asyncio import sleep\nasync def f():\n    await sleep(1)"),
    (banned.loose_tasks, "import asyncio\nasyncio.create_task(f())"),
    (banned.loose_tasks, "from asyncio import create_task as go\ngo(f())"),
    (banned.loose_tasks, "asyncio.get_running_loop().create_task(f())"),
    (banned.loose_tasks, "loop.create_task(f())"),
    (banned.relative_imports, "from . import errors"),
]

GOOD = [
    (banned.open_ends, "x = 'FIXME'  # TODO(#12): later"),
    (banned.suppressions, "x = 1  # type: ignore[misc]  # the stub is wrong"),
    (banned.suppressions, "x = 1  # noqa: A001, B002 - the name is the wire's"),
    (banned.suppressions, "x = 1  # pragma: no cover - only on other platforms"),
    (banned.swallowed_errors, "try:\n    f()\nexcept OSError:\n    pass"),
    (banned.swallowed_errors, "try:\n    f()\nexcept Exception:\n    raise"),
    (banned.prints, "self.print(1)"),
    (banned.sleeps, "clock.sleep(1)"),
    (banned.loose_tasks, "self._group.create_task(f())"),
    (banned.relative_imports, "from filestore import errors"),
]


def label(value: object) -> str | None:
    return getattr(value, "__name__", None)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.check.__name__)
def test_tree_under_rule_holds_nothing_banned(rule: Rule) -> None:
    found = [
        f"{name}:{finding}"
        for name, text in python_files(*rule.folders).items()
        if not name.startswith(tuple(rule.spared))
        for finding in rule.check(banned.parse(text))
    ]
    assert found == []


@pytest.mark.parametrize(("check", "text"), BAD, ids=label)
def test_banned_sample_is_reported(
    check: Callable[[banned.Source], Iterator[str]], text: str
) -> None:
    assert len(list(check(banned.parse(text)))) == 1


@pytest.mark.parametrize(("check", "text"), GOOD, ids=label)
def test_allowed_sample_is_not_reported(
    check: Callable[[banned.Source], Iterator[str]], text: str
) -> None:
    assert list(check(banned.parse(text))) == []


def test_every_rule_has_a_bad_sample() -> None:
    assert {rule.check for rule in RULES} == {check for check, _ in BAD}


def test_every_spared_file_has_a_reason() -> None:
    assert all(reason.strip() for rule in RULES for reason in rule.spared.values())
