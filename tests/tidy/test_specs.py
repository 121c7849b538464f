"""Every spec is numbered once and says what is found after a crash."""

import re

from tests.tidy.project import ROOT, tracked_files

_NAME = re.compile(r"(\d{4})-[a-z0-9]+(?:-[a-z0-9]+)*\.md")
_CRASH_TABLE = re.compile(r"^#+ .*\bcrash table\b", re.IGNORECASE | re.MULTILINE)


def flaws(specs: dict[str, str]) -> list[str]:
    """What is wrong with these specs, given as text by file name."""
    found = []
    owners: dict[str, str] = {}
    for name, text in sorted(specs.items()):
        match = _NAME.fullmatch(name)
        if match is None:
            found.append(f"{name}: not named NNNN-title.md")
        elif (first := owners.setdefault(match[1], name)) != name:
            found.append(f"{name}: has the number of {first}")
        if not _CRASH_TABLE.search(text):
            found.append(f"{name}: no heading 'Crash table'")
    return found


def test_specs_in_docs_have_no_flaws() -> None:
    folder = "docs/specs/"
    names = [name for name in tracked_files() if name.startswith(folder)]
    texts = {name.removeprefix(folder): (ROOT / name).read_text("utf-8") for name in names}
    assert flaws(texts) == []


def test_flawed_specs_are_reported() -> None:
    specs = {
        "0001-chunk-format.md": "# Chunks\n\n## Crash table\n",
        "0001-wire.md": "## The crash table of the wire",
        "0002-tail.md": "A crash table is missing.",
        "notes.md": "# Crash table",
    }
    assert flaws(specs) == [
        "0001-wire.md: has the number of 0001-chunk-format.md",
        "0002-tail.md: no heading 'Crash table'",
        "notes.md: not named NNNN-title.md",
    ]
