"""Whole streams of every provider against the snapshots that must come of them."""

import orjson
import pytest

from filestore.replay import PROVIDERS, replay, replay_bytes
from tests.replay.golden_streams import STREAMS, read_snapshot, read_stream


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
