"""Messages of the REST surface as rows."""

from typing import Any

import pytest

from filestore.transcript import check_row, resume, row_of_message
from tests.transcript.rows import SESSION, TIME, call, result, text


def message(role: str, content: object, key: str = "k-1") -> dict[str, Any]:
    said = {"id": key, "sessionId": SESSION, "role": role, "content": content}
    return {**said, "timestamp": TIME, "seq": 5}


CASES: list[tuple[str, Any, str, list[Any]]] = [
    ("user", {"type": "text", "text": "hi"}, "user", [text("hi")]),
    ("agent", {"type": "text", "text": "a", "partial": False}, "assistant", [text("a")]),
    ("agent", {"type": "text", "text": "a", "partial": True}, "assistant", [text("a")]),
    ("system", {"type": "text", "text": "gone"}, "system", [text("gone")]),
    ("user", "bare", "user", [text("bare")]),
    ("agent", {"type": "markdown", "text": "b"}, "assistant", [text("b")]),
    (
        "system",
        {"type": "tool", "tool": "ls", "args": {"p": 1}, "result": ["a"]},
        "tool",
        [call("ls", {"p": 1}, "k-1"), result(["a"], "k-1")],
    ),
    (
        "system",
        {"type": "tool", "tool": "ls", "result": None},
        "tool",
        [call("ls", {}, "k-1"), result(None, "k-1")],
    ),
    ("system", {"type": "tool", "tool": "ls", "args": {}}, "tool", [call("ls", {}, "k-1")]),
    (
        "system",
        {"type": "plan", "steps": ["Read", {"title": "Write", "status": "done"}, {"x": 1}]},
        "system",
        [text('Plan:\n1. Read\n2. Write (done)\n3. {"x":1}')],
    ),
    ("system", {"type": "plan", "steps": []}, "system", [text("Plan:")]),
    ("agent", {"type": "chart", "b": 1, "a": 2}, "system", [text('{"a":2,"b":1,"type":"chart"}')]),
    ("system", {"type": "tool", "tool": ""}, "system", [text('{"tool":"","type":"tool"}')]),
    ("agent", {"a": 1 << 70, "é": 1}, "system", [text(f'{{"a":{1 << 70},"é":1}}')]),
    ("user", ["x", None], "system", [text('["x",null]')]),
    ("user", None, "system", [text("null")]),
]


@pytest.mark.parametrize(("role", "content", "wanted", "parts"), CASES)
def test_message_is_one_row(role: str, content: object, wanted: str, parts: list[Any]) -> None:
    row = row_of_message(message(role, content), 7)
    assert row == {
        "id": "k-1",
        "sessionId": SESSION,
        "sequenceNumber": 7,
        "role": wanted,
        "content": parts,
        "timestamp": TIME,
    }
    assert check_row(row, SESSION) == row


def test_rest_session_is_resumed_without_its_tools_and_plans() -> None:
    said = [
        message("user", {"type": "text", "text": "list"}),
        message("system", {"type": "plan", "steps": ["look"]}),
        message("system", {"type": "tool", "tool": "ls", "args": {}, "result": "a"}),
        message("agent", {"type": "text", "text": "one", "partial": False}),
        message("user", {"type": "text", "text": "and?"}),
    ]
    rows = [row_of_message(each, number) for number, each in enumerate(said)]
    assert [(each.role, each.text) for each in resume(rows)] == [
        ("user", "list"),
        ("assistant", "one"),
    ]
