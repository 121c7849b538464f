"""The user's messages in streams: every known shape, and whatever else may come along."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filestore.replay.user_messages import user_text


def found(*frames: Any) -> list[str]:
    texts = [user_text(frame) for frame in frames if isinstance(frame, dict)]
    return [text for text in texts if text]


def text(value: object, kind: str = "text") -> dict[str, object]:
    return {"type": kind, "text": value}


def codex(payload: object) -> dict[str, object]:
    return {"timestamp": "2026", "type": "response_item", "payload": payload}


def acp(method: str, params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def update(kind: str, content: object) -> dict[str, object]:
    return acp(
        "session/update", {"sessionId": "s", "update": {"sessionUpdate": kind, "content": content}}
    )


KNOWN: list[tuple[object, str]] = [
    ({"type": "user", "message": {"role": "user", "content": "claude"}}, "claude"),
    ({"type": "user", "message": {"role": "user", "content": [text("claude")]}}, "claude"),
    ({"type": "user", "message": {"content": [text("one"), text("two")]}}, "one\ntwo"),
    ({"type": "user", "message": "plain"}, "plain"),
    ({"type": "message", "role": "user", "content": "gemini"}, "gemini"),
    ({"type": "message", "role": "user", "content": [text("gemini")]}, "gemini"),
    (codex({"type": "message", "role": "user", "content": [text("codex", "input_text")]}), "codex"),
    (codex({"type": "message", "role": "user", "content": "codex"}), "codex"),
    (
        {"type": "event_msg", "payload": {"type": "user_message", "message": "codex"}},
        "codex",
    ),
    (acp("session/prompt", {"sessionId": "s", "prompt": [text("acp")]}), "acp"),
    (update("user_message_chunk", text("acp")), "acp"),
    (
        {"type": "user", "message": {"content": [{"type": "image", "source": {}}, text("with")]}},
        "with",
    ),
    ({"type": "user", "message": {"content": " \n"}}, " \n"),
    ({"type": "user", "message": {"content": "é🙂\x00\u2028"}}, "é🙂\x00\u2028"),
]

NOT_THE_USERS: list[object] = [
    {}, [], None, 7, "text", True, {"type": "user"}, {"type": "user", "message": None},
    {"type": "user", "message": 7}, {"type": "user", "message": {}},
    {"type": "user", "message": {"content": ""}}, {"type": "user", "message": {"content": []}},
    {"type": "user", "message": {"content": {}}}, {"type": "user", "message": {"content": 7}},
    {"type": "user", "message": {"content": [{"type": "tool_result", "content": "no"}]}},
    {"type": "user", "message": {"content": [{"type": "text"}]}},
    {"type": "user", "message": {"content": [text(7), text(None), "no", None, []]}},
    {"type": "user", "message": {"content": [{"text": "no type"}]}},
    {"type": ["user"], "message": "no"}, {"type": "User", "message": "no"},
    {"type": "assistant", "message": {"content": "no"}},
    {"type": "message", "role": "assistant", "content": "no"}, {"type": "message", "content": "no"},
    {"role": "user", "content": "no"}, {"type": "system", "subtype": "init"},
    codex(None), codex([]), codex("user_message"), codex({}), codex({"type": "message"}),
    codex({"type": "message", "role": "assistant", "content": "no"}),
    codex({"type": "message", "role": "developer", "content": "no"}),
    codex({"type": "message", "role": "user", "content": [text("no", "output_text")]}),
    codex({"type": "user_message"}), codex({"type": "user_message", "message": 7}),
    acp("session/prompt", None), acp("session/prompt", []), acp("session/prompt", {}),
    acp("session/prompt", {"prompt": {}}), acp("session/cancel", {"prompt": [text("no")]}),
    acp("session/update", {}), acp("session/update", {"update": []}),
    update("agent_message_chunk", text("no")), update("agent_thought_chunk", text("no")),
    update("user_message_chunk", None), update("user_message_chunk", {"type": "image"}),
    {"method": "session/prompt"},
]  # fmt: skip


@pytest.mark.parametrize(("frame", "expected"), KNOWN, ids=lambda value: ascii(value)[:60])
def test_message_of_known_stream_is_found(frame: object, expected: str) -> None:
    assert found(frame) == [expected]


@pytest.mark.parametrize("frame", NOT_THE_USERS, ids=lambda value: ascii(value)[:60])
def test_frame_that_is_not_the_users_is_passed_over(frame: object) -> None:
    assert found(frame) == []


def test_messages_come_in_the_order_of_the_lines() -> None:
    assert found(*(frame for frame, _ in KNOWN)) == [expected for _, expected in KNOWN]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "message",
                    "content",
                    "role",
                    "payload",
                    "params",
                    "update",
                    "method",
                    "text",
                ]
            ),
            inner
            | st.sampled_from(["user", "message", "text", "session/prompt", "session/update"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=4))
def test_any_frames_give_texts_and_no_error(frames: list[object]) -> None:
    assert all(message.encode() for message in found(*frames))
