"""The worked example of docs/specs/0009-transcripts-and-export.md, byte for byte."""

import json
import re

from filestore.transcript import check_row, export, resume
from filestore.transcript.message import _PARTS, ROLES
from filestore.transcript.yaml import _WORDS
from tests.tidy.project import ROOT
from tests.transcript.golden_exports import transcript_of

SPEC = (ROOT / "docs/specs/0009-transcripts-and-export.md").read_text("utf-8")


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", SPEC, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


TRANSCRIPT = transcript_of(json.loads(block("json")))


def test_worked_example_gives_the_export_shown() -> None:
    assert [check_row(row, "s-1") for row in TRANSCRIPT.messages] == TRANSCRIPT.messages
    assert export(TRANSCRIPT).decode() == block("yaml")


def test_worked_example_is_resumed_as_shown() -> None:
    wanted = [json.loads(line) for line in block("ndjson").splitlines()]
    assert [list(said) for said in resume(TRANSCRIPT.messages)] == wanted


def test_spec_names_every_role_part_field_and_word() -> None:
    names = [f"`{role}`" for role in ROLES]
    for kind, (required, optional) in _PARTS.items():
        names += [f"| `{kind}` |", *required, *optional]
    assert [name for name in names if name not in SPEC] == []
    words = SPEC[SPEC.index("none of `y yes") :].split("`")[1].split()
    assert set(words) == _WORDS
