"""Records as the store keeps them, replayed: what REST, transcripts and MCP write is shown."""

from typing import Any

import orjson

from filestore import FileStore
from filestore.records import NewSession, Records
from filestore.records.transcripts import Transcripts
from filestore.replay import Replay

START = {"agentSlug": "ada", "context": {"workingDir": "/src", "fsScopeTier": "project"}}


async def lines_of(records: Records, session_id: str) -> list[bytes]:
    """A session's records, one line each."""
    return [
        orjson.dumps({"seq": each.seq, "at": each.at_ms, "kind": each.kind, "body": each.body})
        for each in await records.records(session_id)
    ]


def shown(nodes: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    """Type, what is said, and how it stands."""
    texts = ("message", "content", "result")
    return [
        (node["type"], next((node[name] for name in texts if name in node), None),
         node.get("status", node.get("metadata")))
        for node in nodes
    ]  # fmt: skip


async def test_messages_in_chunks_are_one_text_that_is_open_until_the_last(
    store: FileStore,
) -> None:
    records = Records(store)
    await records.create(NewSession("rest", "s"))
    await records.prompt("s", "Why?")
    folded = Replay()
    folded.feed_lines(await lines_of(records, "s"))
    assert folded.provider == "journal"
    for number, (text, partial) in enumerate((("Be", True), ("cau", True), ("se.", False))):
        await records.add_message("s", "agent", text, partial=partial, message_id="m")
        folded.feed((await lines_of(records, "s"))[-1])
        node = folded.nodes(is_over=False)[-1]
        assert node["content"] == "Because."[: (2, 5, 8)[number]]
        assert folded.is_open(node) is partial
    assert shown(folded.nodes()) == [("user_message", "Why?", None), ("markdown", "Because.", {})]


async def test_answer_that_was_never_ended_is_canceled(store: FileStore) -> None:
    records = Records(store)
    await records.create(NewSession("rest", "s"))
    await records.add_message("s", "agent", "half", partial=True, message_id="m")
    await records.finish("s", "abandoned", reason="enough")
    folded = Replay()
    folded.feed_lines(await lines_of(records, "s"))
    assert shown(folded.nodes()) == [
        ("markdown", "half", {"canceled": True}),
        ("session_outcome", None, "canceled"),
    ]


async def test_other_contents_and_observations_are_shown(store: FileStore) -> None:
    records = Records(store)
    await records.create(NewSession("mcp", "s"))
    contents: tuple[dict[str, Any], ...] = (
        {"type": "tool", "tool": "Bash", "args": {"command": "ls"}, "result": {"code": 1}},
        {"type": "plan", "steps": [{"text": "one"}, "two"]},
        {"type": "news", "text": "something new"},
        {"type": "chart", "values": [1]},
        {"type": "text", "text": ""},
    )
    for content in contents:
        await records.add_message("s", "system", content)
    actions = {"actions": [{"type": "build", "result": "passed", "details": {}}]}
    for body in (actions, {"text": "fine"}, {"actions": "odd"}):
        await records.add_record("s", "observation", body)
    folded = Replay()
    folded.feed_lines(await lines_of(records, "s"))
    assert shown(folded.nodes()) == [
        ("tool", '{"code":1}', "success"),
        ("markdown", "- one\n- two", {}),
        ("markdown", "something new", {}),
        ("markdown", '{"type":"chart","values":[1]}', {}),
        ("markdown", "- build: passed", {}),
        ("markdown", "fine", {}),
    ]


async def test_rows_of_a_transcript_show_their_parts_at_their_own_times(store: FileStore) -> None:
    records, transcripts = Records(store), Transcripts(store)
    await transcripts.start("s", START)
    ref = f"media://sha256-{'0' * 64}"
    rows: tuple[tuple[str, list[dict[str, Any]]], ...] = (
        ("user", [{"type": "text", "text": "Look"}, {"type": "text", "text": "here"},
                  {"type": "media", "mimeType": "image/png",
                   "source": {"kind": "handle", "ref": ref}}]),
        ("assistant", [{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "I look."},
                       {"type": "tool_call", "id": "c", "name": "grep", "args": {"q": "x"}}]),
        ("tool", [{"type": "tool_result", "toolCallId": "c", "result": "no", "isError": True}]),
        ("assistant", [{"type": "text", "text": "Not"}, {"type": "text", "text": "there."}]),
    )  # fmt: skip
    for second, (role, content) in enumerate(rows):
        told = {"role": role, "content": content, "timestamp": f"2026-01-31T09:30:0{second}Z"}
        await transcripts.append("s", told)
    folded = Replay()
    folded.feed_lines(await lines_of(records, "s"))
    nodes: list[dict[str, Any]] = folded.nodes()
    assert shown(nodes) == [
        ("user_message", "Look\n\nhere\n\n[image]", None),
        ("markdown", "Hm.", {"thinking": True}),
        ("markdown", "I look.", {}),
        ("tool", "no", "failed"),
        ("markdown", "Not\n\nthere.", {}),
    ]
    assert [node["timestamp"] - nodes[0]["timestamp"] for node in nodes] == [0, 1000, 1000, 1000,
                                                                            3000]  # fmt: skip
    assert (nodes[3]["duration"], folded.skipped) == (1000, 0)
