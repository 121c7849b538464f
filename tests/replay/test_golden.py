"""Whole streams of every provider against the snapshots that must come of them."""

import os
import subprocess
import sys

import orjson
import pytest

from filestore.replay import PROVIDERS, replay, replay_bytes
from tests.replay.golden_streams import STREAMS, read_snapshot, read_stream
from tests.support.processes import END_S_MAX, ROOT

CHILD = """
import sys
from filestore.replay import replay_bytes
from tests.replay.golden_streams import STREAMS, read_stream
for name in STREAMS:
    sys.stdout.buffer.write(replay_bytes([read_stream(name)]).snapshot() + b"\\n")
"""


@pytest.mark.parametrize("name", STREAMS)
def test_stream_gives_its_snapshot(name: str) -> None:
    folded = replay_bytes([read_stream(name)])
    document = orjson.loads(folded.snapshot())
    assert document == orjson.loads(read_snapshot(name))
    assert document["replayed"]["provider"] == name.split("_")[0]


@pytest.mark.parametrize("name", STREAMS)
def test_provider_named_by_the_caller_gives_the_same(name: str) -> None:
    provider = next(known for known in PROVIDERS if known == name.split("_")[0])
    lines = read_stream(name).splitlines()
    assert replay(lines, provider).nodes() == replay(lines).nodes()


def test_every_provider_has_a_golden_stream() -> None:
    assert {name.split("_")[0] for name in STREAMS} == set(PROVIDERS)


def test_snapshots_are_the_same_bytes_in_every_process() -> None:
    """Whatever the hashes of texts are there, which sets are ordered by."""
    here = [replay_bytes([read_stream(name)]).snapshot() for name in STREAMS]
    for seed in ("1", "2"):
        told = subprocess.run(
            [sys.executable, "-c", CHILD],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            timeout=END_S_MAX,
            check=True,
        )
        assert told.stdout.splitlines() == here
