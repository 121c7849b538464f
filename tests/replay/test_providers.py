"""What is particular about one provider and too rare for a golden stream."""

import json
from typing import Any

from filestore.replay import ProviderName, replay


def fold(provider: ProviderName, *frames: Any) -> list[dict[str, Any]]:
    return replay([json.dumps(frame).encode() for frame in frames], provider).nodes()


def stream(kind: str, parent: str | None = None, **more: object) -> dict[str, object]:
    event = {"type": kind, **more}
    return {"type": "stream_event", "event": event, "parent_tool_use_id": parent}


def delta(kind: str, key: str, text: str, parent: str | None = None) -> dict[str, object]:
    return stream("content_block_delta", parent, index=0, delta={"type": kind, key: text})


def assistant(key: str, *blocks: object, **more: object) -> dict[str, object]:
    return {"type": "assistant", "message": {"id": key, "content": list(blocks)}, **more}


def test_claude_call_that_was_streamed_has_its_parameters_when_it_stops() -> None:
    start = {"type": "tool_use", "id": "t", "name": "Read", "input": {}}
    frames = [
        stream("message_start", message={"id": "m"}),
        stream("content_block_start", index=0, content_block=start),
        delta("input_json_delta", "partial_json", '{"file_path":'),
        delta("input_json_delta", "partial_json", '"a.py"}'),
    ]
    assert fold("claude", *frames)[0]["params"] == {}
    (node,) = fold("claude", *frames, stream("content_block_stop", index=0))
    assert (node["params"], node["summary"]) == ({"file_path": "a.py"}, "a.py")


def test_claude_call_cut_in_its_parameters_keeps_none() -> None:
    start = {"type": "tool_use", "id": "t", "name": "Read", "input": {}}
    (node,) = fold(
        "claude",
        stream("message_start", message={"id": "m"}),
        stream("content_block_start", index=0, content_block=start),
        delta("input_json_delta", "partial_json", '{"file_'),
        stream("content_block_stop", index=0),
    )
    assert (node["params"], node["status"]) == ({}, "canceled")


def test_claude_text_that_stops_before_it_is_told_whole_is_one_text() -> None:
    frames = [
        stream("message_start", message={"id": "m"}),
        stream("content_block_start", index=0, content_block={"type": "text"}),
        delta("text_delta", "text", "Hel"),
        delta("text_delta", "text", "lo"),
        stream("content_block_stop", index=0),
        assistant("m", {"type": "text", "text": "Hello"}, timestamp="2026-11-18T00:00:00Z"),
    ]
    (before,) = fold("claude", *frames[:-1])
    assert (before["content"], before["metadata"]) == ("Hello", {})
    (after,) = fold("claude", *frames)
    assert after == before | {"timestamp": 1794960000000}


def test_claude_messages_of_sub_agents_are_streamed_side_by_side() -> None:
    start = {"type": "text", "text": ""}
    frames = []
    for parent in ("task-1", "task-2"):
        frames += [
            stream("message_start", parent, message={"id": f"of {parent}"}),
            stream("content_block_start", parent, index=0, content_block=start),
        ]
    frames += [delta("text_delta", "text", text, f"task-{text}") for text in "1212"]
    found = [(node["parent"], node["content"]) for node in fold("claude", *frames)]
    assert found == [("task-1", "11"), ("task-2", "22")]


def test_claude_deltas_without_their_beginning_show_nothing() -> None:
    """The first lines of a stream may be missing."""
    assert fold("claude", delta("text_delta", "text", "x"), stream("content_block_stop")) == []


def test_claude_messages_without_ids_stay_apart() -> None:
    one = assistant("", {"type": "text", "text": "one"})
    assert [node["content"] for node in fold("claude", one, one)] == ["one", "one"]


def test_claude_answer_of_a_server_tool_completes_its_call() -> None:
    call = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"title": "t"}]}
    (node,) = fold("claude", assistant("m", call, found))
    assert (node["status"], node["tool"], node["summary"]) == ("success", "Other", "q")


def test_claude_file_of_a_sub_agent_alone_reads_as_a_conversation() -> None:
    task = {"type": "tool_use", "id": "inner", "name": "Task", "input": {"prompt": "go"}}
    nodes = fold(
        "claude",
        {"type": "user", "isSidechain": True, "uuid": "1", "message": {"content": "Look"}},
        {**assistant("m", task), "isSidechain": True, "uuid": "2", "parentUuid": "1"},
        {
            **assistant("n", {"type": "text", "text": "Seen"}),
            "isSidechain": True,
            "uuid": "3",
            "parentUuid": "2",
        },
    )
    assert [node["type"] for node in nodes] == ["user_message", "tool", "markdown"]
    assert all("parent" not in node for node in nodes)


def test_claude_result_without_a_call_it_names_shows_nothing() -> None:
    block = {"type": "tool_result", "content": "x"}
    assert fold("claude", {"type": "user", "message": {"content": [block]}}) == []


def test_codex_oldest_session_files_are_read() -> None:
    nodes = fold(
        "codex",
        {"id": "0196", "timestamp": "2025-05-07T17:24:21.123Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]},
        {
            "type": "function_call",
            "name": "shell",
            "call_id": "c",
            "arguments": '{"command":["ls"]}',
        },
        {"type": "function_call_output", "call_id": "c", "output": "a\nb"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "2"}]},
    )
    assert [node["type"] for node in nodes] == ["user_message", "markdown", "tool", "markdown"]
    assert (nodes[2]["summary"], nodes[2]["result"]) == ("ls", "a\nb")


def rollout(kind: str, **payload: object) -> dict[str, object]:
    return {"type": kind, "payload": payload}


CALL = rollout("response_item", type="function_call", name="exec_command", call_id="c")


def test_codex_end_of_a_command_without_its_output_item_completes_the_call() -> None:
    end: dict[str, Any] = {"type": "exec_command_end", "call_id": "c", "aggregated_output": "no"}
    (node,) = fold("codex", CALL, rollout("event_msg", **end, exit_code=1))
    assert (node["status"], node["result"]) == ("failed", "no")
    (node,) = fold("codex", CALL, rollout("event_msg", **end, exit_code=0))
    assert node["status"] == "success"


def test_codex_declined_command_is_denied_though_its_output_says_nothing() -> None:
    output = rollout("response_item", type="function_call_output", call_id="c", output="")
    end = rollout("event_msg", type="exec_command_end", call_id="c", status="declined")
    (node,) = fold("codex", CALL, output, end)
    assert node["status"] == "denied"
    assert fold("codex", end) == []


def test_codex_result_as_an_object_tells_whether_it_failed() -> None:
    told = {"content": "no", "success": False}
    (node,) = fold(
        "codex",
        CALL,
        rollout("response_item", type="function_call_output", call_id="c", output=told),
    )
    assert (node["status"], node["result"]) == ("failed", "no")


def test_codex_error_event_is_shown() -> None:
    (node,) = fold("codex", rollout("event_msg", type="error", message="quota"))
    assert (node["type"], node["message"]) == ("agent_error", "quota")


def test_codex_same_words_twice_are_two_messages() -> None:
    said = rollout("event_msg", type="user_message", message="go on")
    item = rollout(
        "response_item",
        type="message",
        role="user",
        content=[{"type": "input_text", "text": "go on"}],
    )
    assert len(fold("codex", item, said, item, said)) == 2
    assert len(fold("codex", said, said)) == 2


def test_codex_message_with_a_picture_is_one_message() -> None:
    texts = ["<image name=[Image #1]>", "</image>", "Like this"]
    blocks: list[dict[str, object]] = [{"type": "input_text", "text": text} for text in texts]
    blocks.insert(1, {"type": "input_image", "image_url": "data:image/png;base64,AA"})
    item = rollout("response_item", type="message", role="user", content=blocks)
    said = {"type": "user_message", "message": "Like this", "images": [], "local_images": ["a.png"]}
    (node,) = fold("codex", item, rollout("event_msg", **said))
    assert node["message"] == "Like this\n[image]"


def test_codex_command_that_never_ends_shows_what_it_printed() -> None:
    item = {"id": "i", "type": "command_execution", "command": "make", "status": "in_progress"}
    frames = [
        {"type": "item.started", "item": {**item, "aggregated_output": ""}},
        {"type": "item.updated", "item": {**item, "aggregated_output": "cc a.c\n"}},
    ]
    (node,) = fold("codex", *frames)
    assert (node["status"], node["result"]) == ("canceled", "cc a.c\n")


def test_gemini_whole_text_ends_the_one_before() -> None:
    def said(text: str, **more: object) -> dict[str, object]:
        return {"type": "message", "role": "assistant", "content": text, **more}

    nodes = fold("gemini", said("a", delta=True), said("b"), said("c", delta=True))
    assert [node["content"] for node in nodes] == ["a", "b", "c"]
    assert [node["metadata"] for node in nodes] == [{}, {}, {"canceled": True}]


def update(name: str, **more: object) -> dict[str, object]:
    params = {"sessionId": "s", "update": {"sessionUpdate": name, **more}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def chunk(text: str, **more: object) -> dict[str, object]:
    return update("agent_message_chunk", content={"type": "text", "text": text}, **more)


def test_acp_message_ids_keep_texts_together_and_apart() -> None:
    nodes = fold(
        "acp", chunk("a", messageId="1"), chunk("b", messageId="2"), chunk("c", messageId="2")
    )
    assert [(node["id"], node["content"]) for node in nodes] == [("1", "a"), ("2", "bc")]


def test_acp_text_without_a_prompt_in_the_stream_is_not_canceled() -> None:
    (node,) = fold("acp", chunk("a"), chunk("b"))
    assert (node["content"], node["metadata"]) == ("ab", {})


def test_acp_output_of_a_running_call_is_kept_until_its_end() -> None:
    content = [{"type": "content", "content": {"type": "text", "text": "1 of 2"}}]
    (node,) = fold(
        "acp",
        update("tool_call", toolCallId="c", title="t", kind="execute"),
        update("tool_call_update", toolCallId="c", status="in_progress", content=content),
        update("tool_call_update", toolCallId="c", status="completed"),
    )
    assert (node["status"], node["result"], node["tool"]) == ("success", "1 of 2", "Bash")


def test_acp_changes_made_by_a_call_with_parameters_are_its_result() -> None:
    diff = {"type": "diff", "path": "a.py", "oldText": "1", "newText": "2"}
    (node,) = fold(
        "acp",
        update("tool_call", toolCallId="c", title="t", kind="edit", rawInput={"file": "a.py"}),
        update("tool_call_update", toolCallId="c", status="completed", content=[diff]),
    )
    assert (node["params"], node["result"]) == ({"file": "a.py"}, "a.py\n2")


def test_acp_refusal_is_a_failure() -> None:
    prompt = {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"prompt": []}}
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "refusal"}}
    (node,) = fold("acp", prompt, answer)
    assert (node["type"], node["status"], node["reason"]) == (
        "session_outcome",
        "failed",
        "refusal",
    )


def test_acp_answers_to_nobody_show_nothing_and_other_objects_are_unknown() -> None:
    answer = {"jsonrpc": "2.0", "id": 9, "result": {"stopReason": "end_turn"}}
    folded = replay([json.dumps(frame).encode() for frame in (answer, {"id": 1})], "acp")
    assert (folded.nodes(), folded.skipped) == ([], 1)


def test_journal_records_without_a_body_are_read_flat() -> None:
    (node,) = fold("journal", {"seq": 3, "at": 1_700_000_000_000, "kind": "error", "message": "x"})
    assert node == {
        "type": "agent_error",
        "id": "record:3",
        "message": "x",
        "timestamp": 1_700_000_000_000,
    }


def test_generic_times_are_found_under_many_names() -> None:
    (node,) = fold("generic", {"text": "x", "created_at": "2026-11-18T00:00:00+02:00"})
    assert node["timestamp"] == 1794952800000
