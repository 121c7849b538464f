"""The table for people and the JSON for tools."""

from collections.abc import Sequence

import orjson

from bench.measure import Row, Scale

WIDTHS = (25, 14, 14, 10, 15, 9, 4)
HEADINGS = ("name", "ours", "baseline", "figure", "min..max", "target", "", "note")


def heading() -> str:
    """The first line of the table."""
    return _line(HEADINGS)


def line(row: Row) -> str:
    """One row of the table."""
    spread = f"{min(row.figures):.3g}..{max(row.figures):.3g}" if len(row.figures) > 1 else ""
    target = f"{row.target.sense} {row.target.bound:g} {row.unit}" if row.target else ""
    figure = f"{row.figure:.3g} {row.unit}"
    return _line((row.name, row.ours, row.baseline, figure, spread, target, row.verdict, row.note))


def _line(cells: Sequence[str]) -> str:
    name, *numbers, note = cells
    first, *rest = WIDTHS
    aligned = [cell.rjust(width) for cell, width in zip(numbers, rest, strict=True)]
    return " ".join([name.ljust(first), *aligned, note]).rstrip()


def to_json(rows: Sequence[Row], scale: Scale, environment: dict[str, object]) -> bytes:
    """All rows with every round's figure."""
    found = [
        {
            "name": row.name,
            "ours": row.ours,
            "baseline": row.baseline,
            "figure": row.figure,
            "unit": row.unit,
            "figures": row.figures,
            "target": f"{row.target.sense} {row.target.bound:g}" if row.target else None,
            "verdict": row.verdict or None,
            "note": row.note or None,
        }
        for row in rows
    ]
    document = {"scale": scale, "environment": environment, "rows": found}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
