"""What holds for every transcript."""

import random
import re
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from filestore.transcript import (
    Transcript,
    check_row,
    completed_turns,
    export,
    resume,
    to_yaml,
)
from tests.transcript.readers import READERS
from tests.transcript.rows import transcripts, values

_ANCHOR = re.compile(r"^ *(?:- |\? |: ?|[^\"]*?: )*[&*!]", re.MULTILINE)


def workflow_of(transcript: Transcript) -> dict[str, Any]:
    workflow: dict[str, Any] = READERS["pyyaml"](export(transcript))["workflow"]
    return workflow


@given(transcripts)
def test_export_as_any_reader_takes_it_gives_the_same_bytes(transcript: Transcript) -> None:
    data = export(transcript)
    for name, read in READERS.items():
        assert to_yaml(read(data)) == data, name


@given(values)
def test_any_value_comes_back_as_it_was(value: object) -> None:
    data = to_yaml({"value": value})
    for name, read in READERS.items():
        found = read(data)["value"]
        assert found == value, name
        assert to_yaml({"value": found}) == data, name


@given(transcripts, st.randoms(use_true_random=False))
def test_export_twice_in_any_order_of_rows_is_byte_equal(
    transcript: Transcript, chance: random.Random
) -> None:
    rows = list(transcript.messages)
    before = to_yaml(rows)
    first = export(transcript)
    chance.shuffle(rows)
    shuffled = Transcript(
        transcript.session_id, transcript.agent_slug, transcript.title, transcript.created_at,
        transcript.updated_at, transcript.agent_snapshot, rows,
    )  # fmt: skip
    assert export(shuffled) == first == export(transcript)
    assert to_yaml(list(transcript.messages)) == before, "exporting changes nothing"


@given(transcripts)
def test_keys_of_export_are_sorted_and_nothing_is_anchored(transcript: Transcript) -> None:
    data = export(transcript)
    assert _ANCHOR.search(data.decode()) is None

    def check(value: object) -> None:
        if isinstance(value, dict):
            # A reader keeps the order in which it found the keys.
            assert list(value) == sorted(value)
        if isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                check(inner)

    check(READERS["pyyaml"](data))


@given(transcripts)
def test_resume_and_export_agree(transcript: Transcript) -> None:
    nodes = [node for node in workflow_of(transcript)["nodes"] if node["type"] == "agent"]
    said = resume(transcript.messages)
    assert [node["id"] for node in nodes] == [f"turn-{n}" for n in range(1, len(nodes) + 1)]
    # Every completed turn has an answer, so resume tells something of each.
    assert sorted({each.turn for each in said}) == list(range(1, len(nodes) + 1))
    for number, node in enumerate(nodes, 1):
        texts = [each.text for each in said if (each.turn, each.role) == (number, "user")]
        prompt = "\n\n".join(texts)
        assert node.get("prompt_template", "") == re.sub(r"\{(?=\{)", "{ ", prompt)
        assert any((each.turn, each.role) == (number, "assistant") for each in said)


@given(transcripts)
def test_workflow_is_one_path_from_input_to_output(transcript: Transcript) -> None:
    workflow = workflow_of(transcript)
    ids = [node["id"] for node in workflow["nodes"]]
    assert (ids[0], ids[-1]) == ("input", "output")
    assert len(ids) == len(completed_turns(transcript.messages)) + 2
    assert workflow["edges"] == [{"from": start, "to": end} for start, end in pairwise(ids)]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", workflow["id"])
    assert "{{" not in "".join(node.get("prompt_template", "") for node in workflow["nodes"])


@given(transcripts)
def test_rows_that_are_resumed_stand_in_their_order(transcript: Transcript) -> None:
    numbers = [each.sequence_number for each in resume(transcript.messages)]
    assert numbers == sorted(set(numbers))
    known = {row["sequenceNumber"]: row for row in transcript.messages}
    for each in resume(transcript.messages):
        assert each.text
        assert known[each.sequence_number]["role"] == each.role


@given(transcripts)
def test_checked_row_is_the_row(transcript: Transcript) -> None:
    for row in transcript.messages:
        assert check_row(row) == row
