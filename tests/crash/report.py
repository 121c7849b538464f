"""The one table: printed, and written between two marks of docs/RELIABILITY.md."""

import re
from collections.abc import Sequence
from pathlib import Path

from tests.crash.suite import Row
from tests.support.child import ROOT

DOCUMENT = ROOT / "docs/RELIABILITY.md"
BEGIN, END = "<!-- figures: written by make crash -->", "<!-- end of figures -->"
HEAD = ("suite", "what was tried", "how many", "lost or wrong", "control run", "seed", "min")


def cells(row: Row) -> tuple[str, ...]:
    return (
        row.suite,
        row.tried,
        f"{row.count:,}".replace(",", " "),
        str(len(row.wrong)),
        row.control,
        str(row.seed),
        f"{row.seconds / 60:.1f}",
    )


def lines_of(row: Row) -> list[str]:
    """A row of the table, and what has no column."""
    return ["| " + " | ".join(cells(row)) + " |", *(f"- {row.suite}: {text}" for text in row.more)]


def block(rows: Sequence[Row], before: str) -> str:
    """The figures of these suites, and of the others as they were."""
    names = {row.suite for row in rows}
    kept = [line for line in before.splitlines() if suite_of(line) not in (None, *names)]
    found = kept + [line for row in rows for line in lines_of(row)]
    table = [line for line in found if line.startswith("|")]
    more = [line for line in found if line.startswith("-")]
    head = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    return "\n".join([*head, *table, "", *more])


def suite_of(line: str) -> str | None:
    """Whose line it is; None for the head and the rest."""
    found = re.match(r"\| ([^|]+?) \||- ([^:]+): ", line)
    name = (found.group(1) or found.group(2)) if found else None
    return None if name == HEAD[0] else name


def write(rows: Sequence[Row], document: Path = DOCUMENT) -> None:
    text = document.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    before, tail = rest.split(END)
    new = f"{head}{BEGIN}\n{block(rows, before)}\n{END}{tail}"
    document.write_text(new, encoding="utf-8")
