"""What the table of verbs is made of: a verb, its arguments, its options."""

from typing import Literal, NamedTuple

ArgumentKind = Literal["agent", "place", "source", "zone", "session", "file", "verb", "word"]
"""What may stand there: a definition id, that or an archive's zone, that or a file, and so on."""
ASKED = ("agent", "place", "source", "zone", "session")
"""Those whose completion asks the store."""
SHELLS = ("bash", "zsh", "fish")


class Argument(NamedTuple):
    """One thing that a verb is told without a flag."""

    name: str
    kind: ArgumentKind
    about: str
    is_optional: bool = False
    is_rest: bool = False
    """Takes all that follows, flags too."""
    choices: tuple[str, ...] = ()


class Option(NamedTuple):
    """A flag. Without a `metavar` it is a switch; its value is known by `name`."""

    flags: tuple[str, ...]
    about: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    is_count: bool = False
    hints: tuple[str, ...] = ()
    """What completion offers, where it is not for the parser to say what may stand there."""

    @property
    def offered(self) -> tuple[str, ...]:
        """What completion offers."""
        return self.choices or self.hints

    @property
    def name(self) -> str:
        """The long flag as a name."""
        return self.flags[-1].lstrip("-").replace("-", "_")


class Verb(NamedTuple):
    """A verb. `run` names its function as `module:function`; `example` can be run as it stands."""

    run: str
    about: str
    example: str
    details: str = ""
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()


COMMON = (
    Option(
        ("--data-dir",),
        "where the data lies (default: $ZONED_DATA_DIR, else the user's data folder)",
        "DIR",
    ),
    Option(("--json",), "answer in JSON, for scripts"),
    Option(("-h", "--help"), "show this"),
)
"""What every verb takes, before or after the verb."""
VERSION = Option(("-V", "--version"), "show the version")
"""Without a verb."""
