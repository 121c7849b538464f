"""The help texts, from the table of verbs. They fit 80 columns."""

from srv.cli.options import Invocation, UsageError
from srv.cli.verb import COMMON, Option, Verb
from srv.cli.verbs import GROUPS, VERBS

WIDTH = 78

_EXITS = "exit codes: 0 ok · 1 failed · 2 bad invocation · 3 found problems"


def help_verb(call: Invocation) -> int:
    """`zoned help [command]`. A command of two words may be named by its first alone."""
    name = " ".join(call.arguments)
    if name and name not in VERBS and name not in GROUPS:
        raise UsageError(f"there is no command {name!r}")
    if call.is_json:
        found = [name] if name in VERBS else _of_group(name) if name else VERBS
        call.screen.json([_described(each) for each in found])
    else:
        call.screen.line(text_of(name))
    return 0


def _described(name: str) -> dict[str, object]:
    """A verb for a script."""
    verb = VERBS[name]
    return {
        "command": name,
        "about": verb.about,
        "example": verb.example,
        "arguments": [argument.name for argument in verb.arguments],
        "options": [flag for option in (*verb.options, *COMMON) for flag in option.flags],
    }


def text_of(name: str) -> str:
    """The help of one verb, of a group of them, or for "" the list of all."""
    if name in GROUPS:
        return "\n".join([f"usage: zoned {name} <command> …", *_listed(name), "", _EXITS,
                          f"see also: zoned help {name} <command>"])  # fmt: skip
    return _of_verb(name, VERBS[name]) if name else _overview()


def _of_group(group: str) -> list[str]:
    """The verbs of two words that begin with this one; for "" those of one word."""
    return [name for name in VERBS if (name.split()[0] if " " in name else "") == group]


def _listed(group: str) -> list[str]:
    told = _columns([(name, VERBS[name].about) for name in _of_group(group)])
    return ["", f"{GROUPS[group]}:" if group else "commands:", *told]


def _overview() -> str:
    lines = [
        "usage: zoned <command> …",
        "",
        "A persistence daemon for the sessions of AI agents.",
        *[line for group in ("", *GROUPS) for line in _listed(group)],
        "",
        "every command takes:",
        *_columns([(_flags(option), option.about) for option in COMMON]),
        "  -V, --version   show the version (without a command)",
        "",
        "Commands go by the running daemon of the folder, or open it themselves.",
        _EXITS,
        "",
        "example: zoned serve --data-dir ./data &",
        '         echo \'{"type": "hello"}\' | zoned append ada --data-dir ./data',
        "see also: zoned help <command>",
    ]
    return "\n".join(lines)


def _of_verb(name: str, verb: Verb) -> str:
    words = ["usage: zoned", name]
    for argument in verb.arguments:
        shown = f"<{argument.name}>" + ("…" if argument.is_rest else "")
        words.append(f"[{shown}]" if argument.is_optional else shown)
    is_rest = any(argument.is_rest for argument in verb.arguments)
    lines = [" ".join(words + ([] if is_rest else ["[options]"])), ""]
    lines += _wrapped(f"{verb.about[0].upper()}{verb.about[1:]}.", WIDTH)
    if verb.details:
        lines += _wrapped(verb.details, WIDTH)
    if verb.arguments:
        told = [(f"<{each.name}>", each.about) for each in verb.arguments]
        lines += ["", "arguments:", *_columns(told)]
    options = [(_flags(option), option.about) for option in (*verb.options, *COMMON)]
    lines += ["", "options:", *_columns(options), "", _EXITS, f"example: {verb.example}"]
    return "\n".join(lines)


def _flags(option: Option) -> str:
    return ", ".join(option.flags) + (f" {option.metavar}" if option.metavar else "")


def _columns(rows: list[tuple[str, str]]) -> list[str]:
    """Two columns, the second wrapped."""
    left = min(max(len(name) for name, _ in rows), 24) + 4
    lines = []
    for name, about in rows:
        first, *others = _wrapped(about, WIDTH - left)
        lines.append(f"  {name.ljust(left - 2)}{first}")
        lines += [" " * left + other for other in others]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    # Not textwrap: six lines here, and its import costs as much as the rest of this module.
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".lstrip()
    return lines
