"""The worked example of docs/specs/0004-replay.md, byte for byte."""

import re

from filestore.replay import PROVIDERS, replay_bytes
from tests.tidy.project import ROOT

SPEC = (ROOT / "docs/specs/0004-replay.md").read_text("utf-8")


def block(language: str) -> bytes:
    found = re.search(rf"^```{language}\n(.*?)^```$", SPEC, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1].encode()


def test_worked_example_gives_the_snapshot_shown() -> None:
    assert replay_bytes([block("ndjson")]).snapshot() == block("json").replace(b"\n", b"")


def test_every_provider_has_its_frames_in_the_spec() -> None:
    assert [name for name in PROVIDERS if f"\n**{name}** — " not in SPEC] == []
