"""Transcripts in a store: started once, in order, capped, the same for every surface."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from filestore import ConflictError, FileStore, NotFoundError, TurnLimitError
from filestore.errors import AlreadyExistsError, InvalidFieldError, SecretRefusedError
from filestore.records import NewSession, Records
from filestore.records.transcripts import Transcripts
from filestore.transcript import completed_turns, resume
from tests.conftest import StoreOpener
from tests.support.processes import ROOT
from tests.transcript.rows import call, reasoning, result, text

START = {"agentSlug": "code-helper", "context": {"workingDir": "/src", "fsScopeTier": "project"}}
TIME = "2026-01-31T09:30:00.000Z"


def said(role: str, *parts: Any, **more: Any) -> dict[str, Any]:
    content = [text(part) if isinstance(part, str) else part for part in parts]
    return {"role": role, "content": content, "timestamp": TIME, **more}


@pytest.fixture
def transcripts(store: FileStore) -> Transcripts:
    return Transcripts(store)


@pytest.fixture
def records(store: FileStore) -> Records:
    return Records(store)


async def test_transcript_is_loaded_as_it_was_appended(transcripts: Transcripts) -> None:
    session = await transcripts.start("s-1", {**START, "title": "Fix it"})
    assert (session.origin, session.agent_name, session.title) == (
        "transcript",
        "code-helper",
        "Fix it",
    )
    first = await transcripts.append("s-1", said("user", "do"))
    assert (first["sequenceNumber"], first["sessionId"]) == (0, "s-1")
    parts = [reasoning("hm"), call("Read", {"n": 1 << 70}), "done"]
    second = await transcripts.append("s-1", said("assistant", *parts, modelId="m", id="x"))
    await transcripts.append("s-1", said("tool", result({"ok": 1.5}), sequenceNumber=2))
    loaded = await transcripts.load("s-1")
    assert loaded.start == {**START, "title": "Fix it"}
    assert [row["sequenceNumber"] for row in loaded.rows] == [0, 1, 2]
    assert loaded.rows[:2] == [first, second]
    assert second["content"] == [reasoning("hm"), call("Read", {"n": 1 << 70}), text("done")]


async def test_start_and_append_are_refused_where_they_must_be(
    transcripts: Transcripts, records: Records
) -> None:
    with pytest.raises(NotFoundError):
        await transcripts.append("s-1", said("user", "x"))
    context = {"workingDir": "/", "fsScopeTier": "x", "variables": {"K": "sk-ant-" + "a1B2" * 10}}
    with pytest.raises(SecretRefusedError) as secret:
        await transcripts.start("s-1", {**START, "context": context})
    assert "a1B2" not in str(secret.value)
    with pytest.raises(NotFoundError):
        await records.get("s-1")
    await transcripts.start("s-1", START, call_id="c")
    assert (await transcripts.start("s-1", START, call_id="c")).id == "s-1"
    with pytest.raises(ConflictError):
        await transcripts.start("s-1", START)
    with pytest.raises(InvalidFieldError, match="content"):
        await transcripts.append("s-1", {**said("user"), "content": "x"})
    with pytest.raises(ConflictError, match="next sequenceNumber is 0, not 7"):
        await transcripts.append("s-1", said("user", "x", sequenceNumber=7))
    assert (await transcripts.load("s-1")).rows == []
    await records.finish("s-1", "completed")
    with pytest.raises(ConflictError, match="has ended"):
        await transcripts.append("s-1", said("user", "x"))


async def test_first_number_may_be_one(transcripts: Transcripts) -> None:
    await transcripts.start("s-1", START)
    await transcripts.append("s-1", said("user", "a", sequenceNumber=1))
    assert (await transcripts.append("s-1", said("assistant", "b")))["sequenceNumber"] == 2


async def test_repeated_message_is_answered_as_the_first_time(transcripts: Transcripts) -> None:
    await transcripts.start("s-1", START)
    once = await transcripts.append("s-1", said("user", "a", id="m"))
    assert await transcripts.append("s-1", said("user", "a", id="m")) == once
    with pytest.raises(AlreadyExistsError):
        await transcripts.append("s-1", said("user", "b", id="m"))
    assert len((await transcripts.load("s-1")).rows) == 1


async def test_session_of_another_surface_gets_a_transcript(
    transcripts: Transcripts, records: Records
) -> None:
    """Its messages so far are rows as well, and what is appended shows as messages there."""
    await records.create(NewSession("rest", id="s-1", title="Old", agent_name="Bob"))
    await records.prompt("s-1", "do")
    await records.add_message("s-1", "agent", "hel", partial=True, message_id="m")
    await records.add_message("s-1", "agent", "lo", message_id="m")
    tool = {"type": "tool", "tool": "Read", "args": {"a": 1}, "result": "r"}
    await records.add_message("s-1", "system", tool)
    session = await transcripts.start("s-1", START)
    assert (session.title, session.agent_name) == ("Old", "Bob")
    row = await transcripts.append("s-1", said("user", "more"))
    assert row["sequenceNumber"] == 3
    await transcripts.append("s-1", said("assistant", "a", "b"))
    rows = (await transcripts.load("s-1")).rows
    assert [(row["sequenceNumber"], row["role"]) for row in rows] == [
        (0, "user"),
        (1, "assistant"),
        (2, "tool"),
        (3, "user"),
        (4, "assistant"),
    ]
    assert rows[1]["content"] == [text("hello")]
    shown = await records.messages("s-1", after_seq=rows[2]["sequenceNumber"] + 3)
    assert [(each.role, each.content["text"]) for each in shown] == [
        ("user", "more"),
        ("agent", "a\n\nb"),
    ]


async def test_cap_holds_under_parallel_senders_and_across_restarts(
    open_store: StoreOpener,
) -> None:
    store = await open_store()
    transcripts = Transcripts(store, turns_max=7)
    await transcripts.start("s-1", START)
    tries = [transcripts.append("s-1", said("user", f"{number}")) for number in range(20)]
    answers = await asyncio.gather(*tries, return_exceptions=True)
    refused = [each for each in answers if isinstance(each, BaseException)]
    assert len(refused) == 13
    assert all(isinstance(each, TurnLimitError) for each in refused)
    await store.close()
    store = await open_store()
    transcripts, records = Transcripts(store, turns_max=7), Records(store, turns_max=7)
    for more in (
        transcripts.append("s-1", said("user", "x")),
        records.prompt("s-1", "x"),
        records.add_message("s-1", "user", "x"),
    ):
        with pytest.raises(TurnLimitError) as error:
            await more
        assert error.value.limit == 7
    await transcripts.append("s-1", said("assistant", "the agent may go on"))
    rows = (await transcripts.load("s-1")).rows
    assert [row["sequenceNumber"] for row in rows] == list(range(8))


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant", "tool", "system"]),
        st.lists(st.sampled_from(["", "hi", "  ", "{{x}}"]), max_size=3),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(shapes=ROWS)
def test_resume_and_export_of_a_store_agree(
    shapes: list[tuple[str, list[str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def run() -> None:
        folder = tmp_path_factory.mktemp("agree")
        async with await FileStore.open(folder / "data") as store:
            transcripts = Transcripts(store)
            await transcripts.start("s-1", START)
            for role, parts in shapes:
                await transcripts.append("s-1", said(role, *parts))
            rows = (await transcripts.load("s-1")).rows
            assert await transcripts.resume("s-1") == resume(rows)
            _, document = await transcripts.export("s-1")
            assert (await transcripts.export("s-1"))[1] == document
            nodes = yaml.safe_load(document)["workflow"]["nodes"]
            assert len(nodes) - 2 == len(completed_turns(rows))
            told = {each.turn for each in await transcripts.resume("s-1")}
            assert told == set(range(1, len(nodes) - 1))

    asyncio.run(run())


async def test_session_without_a_transcript_is_exported_too(
    transcripts: Transcripts, records: Records
) -> None:
    await records.create(NewSession("cli", id="s-1", agent_name="Code Helper", title="A b"))
    await records.add_message("s-1", "user", "hi")
    await records.add_message("s-1", "agent", "ho")
    name, document = await transcripts.export("s-1")
    assert name == "a-b"
    nodes = yaml.safe_load(document)["workflow"]["nodes"]
    assert nodes[1]["agent_ref"] == "code-helper"
    with pytest.raises(NotFoundError):
        await transcripts.load("s-1")
    with pytest.raises(NotFoundError):
        await transcripts.export("nobody")


CHILD = """
import asyncio, sys
from filestore import FileStore
from filestore.records.transcripts import Transcripts
from tests.transcript.test_store import START, said

async def main():
    async with await FileStore.open(sys.argv[1]) as store:
        transcripts = Transcripts(store)
        await transcripts.start("s-1", START)
        await transcripts.append("s-1", said("user", "one"))
        await transcripts.append("s-1", said("assistant", "two"))
        await transcripts.append("s-1", said("user", "three"))
        print("acknowledged", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_kill_between_a_user_row_and_its_answer_loses_nothing(
    data_dir: Path, open_store: StoreOpener
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(data_dir)], stdout=subprocess.PIPE, cwd=ROOT
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"acknowledged\n"
        os.kill(child.pid, signal.SIGKILL)
    transcripts = Transcripts(await open_store())
    loaded = await transcripts.load("s-1")
    assert [row["content"] for row in loaded.rows] == [
        [text("one")],
        [text("two")],
        [text("three")],
    ]
    assert loaded.session.status == "active"
    assert [each.text for each in await transcripts.resume("s-1")] == ["one", "two"]
    assert (await transcripts.append("s-1", said("assistant", "four")))["sequenceNumber"] == 3
