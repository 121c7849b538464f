"""Transcripts by the Python client, through the daemon."""

import asyncio
from typing import Any

import pytest

from srv.client import Client
from srv.errors import ZonedError

START = {"agentSlug": "helper", "context": {"workingDir": "/src", "fsScopeTier": "project"}}


def said(role: str, text: str) -> dict[str, Any]:
    return {
        "role": role,
        "content": [{"type": "text", "text": text}],
        "timestamp": "2026-01-31T09:30:00+01:00",
    }


async def test_life_of_a_transcript(client: Client) -> None:
    calls = client.transcripts
    started = await calls.start("t-1", {**START, "title": "T"})
    assert (started["sessionId"], started["status"]) == ("t-1", "active")
    row = await calls.append("t-1", said("user", "hi"))
    assert row["sequenceNumber"] == 0
    await calls.append("t-1", said("assistant", "ho"))
    await calls.append("t-1", said("user", "unanswered"))
    loaded: dict[str, Any] = await calls.load("t-1")
    assert loaded["record"]["agentSlug"] == "helper"
    assert [each["role"] for each in loaded["messages"]] == ["user", "assistant", "user"]
    resumed: dict[str, Any] = await calls.resume("t-1")
    assert resumed["turns"] == 1
    assert [each["text"] for each in resumed["messages"]] == ["hi", "ho"]
    assert (await calls.end("t-1", summary="fine"))["status"] == "completed"
    with pytest.raises(ZonedError) as error:
        await calls.append("t-1", said("user", "more"))
    assert error.value.kind == "CONFLICT"


async def test_what_is_wrong_is_told_with_its_field(client: Client) -> None:
    await client.transcripts.start("t-2", START)
    with pytest.raises(ZonedError) as error:
        await client.transcripts.append("t-2", {**said("user", "x"), "timestamp": "2026-01-31"})
    assert (error.value.kind, error.value.data["field"]) == ("INVALID_PARAMS", "timestamp")
    with pytest.raises(ZonedError) as missing:
        await client.transcripts.load("t-none")
    assert missing.value.kind == "NOT_FOUND"


async def test_parallel_senders_get_numbers_of_their_own(client: Client) -> None:
    await client.transcripts.start("t-3", START)
    rows: list[dict[str, Any]] = await asyncio.gather(
        *(client.transcripts.append("t-3", said("assistant", str(n))) for n in range(30))
    )
    assert sorted(row["sequenceNumber"] for row in rows) == list(range(30))
