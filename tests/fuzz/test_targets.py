"""The targets of `make fuzz` on a small corpus, and on what hypothesis makes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.seeds import FOUND, seeds, words
from tests.fuzz.targets import TARGETS

CORPUS = {target: list(seeds(target)) for target in TARGETS}


@st.composite
def bent(draw: st.DrawFn, target: str) -> bytes:
    """A seed in which some bytes are others, are missing, or stand where they should not."""
    data = draw(st.sampled_from(CORPUS[target]))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        stop = draw(st.integers(start, min(start + 20, len(data))))
        more = draw(st.binary(max_size=8) | st.sampled_from([*words(target)]))
        data = data[:start] + more + data[stop:]
    return data


@pytest.mark.parametrize("target", TARGETS)
def test_target_holds_on_every_seed(target: str) -> None:
    assert len(CORPUS[target]) > len(FOUND[target])
    for seed in CORPUS[target]:
        TARGETS[target](seed)


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.data())
def test_target_holds_on_what_is_made_of_seeds(target: str, data: st.DataObject) -> None:
    TARGETS[target](data.draw(bent(target)))
