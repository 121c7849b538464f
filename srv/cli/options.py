"""Arguments into an `Invocation`, by the table of verbs.

Not argparse: its import and the making of sixteen parsers would cost more than the small verbs do,
and its errors are not one line. The usual ways work: `--flag value`, `--flag=value`, `-n3`, `-nf`,
`--` before what is no flag, flags anywhere among the arguments, long flags shortened as long as
they are clear. They may also stand between the two words of a verb that has two.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from srv.cli.verb import COMMON, VERSION, Option, Verb
from srv.cli.verbs import GROUPS, VERBS

if TYPE_CHECKING:
    from srv.cli.screen import Screen

COUNT_DIGITS_MAX = 18


class UsageError(Exception):
    """The command cannot be meant like this. One line; `verb` is whose help may be of use."""

    def __init__(self, text: str, verb: str = "") -> None:
        super().__init__(text)
        self.verb = verb


class Invocation:
    """What was asked for: the verb, its arguments, and its flags by name. A verb that is only the
    name of a group, or empty, is none to run.
    """

    def __init__(self, verb: str, flags: dict[str, str | int | bool], arguments: list[str]) -> None:
        self.verb = verb
        self.flags = flags
        self.arguments = arguments
        self.screen: Screen
        """Where to answer; main.py puts it there."""

    @property
    def is_json(self) -> bool:
        """True if a script asks."""
        return bool(self.flags.get("json"))

    def text(self, flag: str) -> str | None:
        """The value of a flag, or None."""
        value = self.flags.get(flag)
        return None if value is None else str(value)

    def count(self, flag: str) -> int | None:
        """The value of a flag that is a number, or None."""
        value = self.flags.get(flag)
        return value if isinstance(value, int) else None


def parse(words: Sequence[str]) -> Invocation:
    """The invocation in these words. Raises UsageError."""
    flags, rest = _split(words, (*COMMON, VERSION), "", is_verb_next=True)
    if not rest:
        return Invocation("", flags, [])
    name, *words = rest
    group = name if name in GROUPS else ""
    if group:
        more, rest = _split(words, COMMON, group, is_verb_next=True)
        flags |= more
        if not rest:
            return Invocation(group, flags, [])
        second, *words = rest
        name = f"{group} {second}"
    verb = VERBS.get(name)
    if verb is None:
        known = [each for each in (*VERBS, *GROUPS) if each.startswith(group)]
        raise UsageError(f"there is no command {_shown(name)}{_nearest(name, known)}", group)
    if verb.arguments and verb.arguments[-1].is_rest:
        if words[:1] in (["-h"], ["--help"]):
            flags["help"] = True
        return Invocation(name, flags, list(words))
    more, arguments = _split(words, verb.options + COMMON, name)
    found = Invocation(name, flags | more, arguments)
    if "help" not in found.flags:
        _check_count(name, verb, arguments)
    return found


def _split(
    words: Sequence[str], options: Sequence[Option], verb: str, *, is_verb_next: bool = False
) -> tuple[dict[str, str | int | bool], list[str]]:
    """Flags and the rest. `is_verb_next`: stop at the first word that is no flag."""
    flags: dict[str, str | int | bool] = {}
    rest: list[str] = []
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        if word == "--":
            return flags, rest + waiting[::-1]
        if word[:1] != "-" or word == "-":
            rest.append(word)
            if is_verb_next:
                return flags, rest + waiting[::-1]
            continue
        option, value = _find(word, options, verb, waiting)
        if option.metavar and value is None:
            if not waiting:
                raise UsageError(f"{option.flags[-1]} needs a value ({option.metavar})", verb)
            value = waiting.pop()
        flags[option.name] = _value(option, value, verb)
    return flags, rest


def _find(
    word: str, options: Sequence[Option], verb: str, waiting: list[str]
) -> tuple[Option, str | None]:
    """The option that a word means, and the value in the same word if there is one."""
    if not word.startswith("--"):
        for option in options:
            if option.flags[0] == word[:2]:
                if option.metavar:
                    return option, word[2:] or None
                if word[2:]:
                    waiting.append("-" + word[2:])  # -nf: the switches behind it are next
                return option, None
        raise UsageError(f"there is no option {_shown(word[:2])}", verb)
    flag, equals, value = word.partition("=")
    found = [each for each in options if each.flags[-1] == flag]
    found = found or [each for each in options if each.flags[-1].startswith(flag)]
    if len(found) > 1:
        clear = " or ".join(each.flags[-1] for each in found)
        raise UsageError(f"{_shown(flag)} may mean {clear}", verb)
    if not found:
        names = [each.flags[-1] for each in options]
        raise UsageError(f"there is no option {_shown(flag)}{_nearest(flag, names)}", verb)
    if equals and not found[0].metavar:
        raise UsageError(f"{flag} takes no value", verb)
    return found[0], value if equals else None


def _value(option: Option, value: str | None, verb: str) -> str | int | bool:
    flag = option.flags[-1]
    if value is None:
        return True
    if option.choices and value not in option.choices:
        raise UsageError(f"{flag} must be {' or '.join(option.choices)}, not {_shown(value)}", verb)
    if option.is_count:
        if not (value.isascii() and value.isdigit() and len(value) <= COUNT_DIGITS_MAX):
            raise UsageError(f"{flag} must be a whole number, not {_shown(value)}", verb)
        return int(value)
    return value


def _check_count(name: str, verb: Verb, arguments: list[str]) -> None:
    needed = [each.name for each in verb.arguments if not each.is_optional]
    if len(arguments) < len(needed):
        missing = " and ".join(f"<{each}>" for each in needed[len(arguments) :])
        raise UsageError(f"{name} needs {missing}", name)
    if len(arguments) > len(verb.arguments):
        raise UsageError(f"too much: {_shown(arguments[len(verb.arguments)])}", name)


def _nearest(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def _shown(word: str) -> str:
    return repr(word if len(word) <= 60 else word[:60] + "…")
