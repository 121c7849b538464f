"""Answers as records: nothing of another type slips through."""

import pytest

from filestore.sessions.model import Archived, SessionChange
from srv.client import records
from srv.errors import ZonedError

STATE = {
    "version": 3,
    "session_id": "s",
    "output_bytes": 0,
    "output_lines": 0,
}


def test_session_without_snapshot_has_no_content() -> None:
    found = records.decode(records.session_state, STATE)
    assert (found.content, found.modts, found.recovered) == (None, None, None)


def test_content_is_bytes_whether_it_came_as_text_or_bytes() -> None:
    for content in ("é", "é".encode()):
        answer = STATE | {"content": content, "modts": 1}
        assert records.decode(records.session_state, answer).content == "é".encode()


def test_archive_of_nothing_is_none() -> None:
    nothing = {"archive_zoneid": "", "archived_at_ms": 0}
    assert records.decode(records.archived, nothing) is None
    one = {"archive_zoneid": "agent:a:archive:5", "archived_at_ms": 5}
    assert records.decode(records.archived, one) == Archived("agent:a:archive:5", 5)


def test_kind_of_change_that_is_not_known_is_a_gap() -> None:
    change = records.decode(records.session_change, {"seq": 7, "kind": "renamed"})
    assert change == SessionChange(7, "gap")


@pytest.mark.parametrize("answer", [None, [], {}, STATE | {"version": "3"}, STATE | {"content": 1}])
def test_answer_of_another_shape_is_refused(answer: object) -> None:
    with pytest.raises(ZonedError) as caught:
        records.decode(records.session_state, answer)
    assert (caught.value.kind, caught.value.data["daemon"]) == ("UNAVAILABLE", "other")


def test_rows_must_be_a_list() -> None:
    with pytest.raises(ZonedError):
        records.decode_all(records.agent_info, {"rows": []})
