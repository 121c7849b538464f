"""Transcripts of every shape against the documents that must come of them."""

import orjson
import pytest

from filestore.transcript import check_row, export, to_yaml
from filestore.transcript.values import DEPTH_MAX
from tests.transcript.golden_exports import SHAPES, read_export, read_transcript
from tests.transcript.readers import READERS
from tests.transcript.rows import call, result, row, transcript


@pytest.mark.parametrize("shape", SHAPES)
def test_transcript_gives_its_export(shape: str) -> None:
    assert export(read_transcript(shape)).decode() == read_export(shape).decode()


@pytest.mark.parametrize("shape", SHAPES)
def test_export_as_any_reader_takes_it_gives_the_same_bytes(shape: str) -> None:
    data = read_export(shape)
    for name, read in READERS.items():
        assert to_yaml(read(data)) == data, name


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_export_are_the_rows_of_the_transcript(shape: str) -> None:
    rows = sorted(read_transcript(shape).messages, key=lambda row: row["sequenceNumber"])
    for name, read in READERS.items():
        found = read(read_export(shape))["workflow"]["metadata"]["relaviumExport"]["messages"]
        # As text: 1 and 1.0 and true are equal to Python, and different here.
        told = orjson.dumps(_plain(found), option=orjson.OPT_SORT_KEYS)
        assert told == orjson.dumps(rows, option=orjson.OPT_SORT_KEYS), name


def _plain(value: object) -> object:
    """Without the reader's own kinds of lists and numbers."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if isinstance(value, float) else int(value)
    return str(value) if isinstance(value, str) else value


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_golden_transcripts_are_valid(shape: str) -> None:
    for message in read_transcript(shape).messages:
        assert check_row(message, "s-1") == message


def test_there_are_many_shapes() -> None:
    assert len(SHAPES) >= 30


def test_deepest_row_is_exported_and_read_by_all() -> None:
    value: object = "leaf"
    for level in range(DEPTH_MAX):
        value = {"a": value} if level % 2 else [value]
    message = check_row(row(0, "tool", call("t", value), result(value)))
    data = export(transcript([message], agent_snapshot={"a": value}))
    for name, read in READERS.items():
        assert to_yaml(read(data)) == data, name
