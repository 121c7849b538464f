"""Transcripts: exporting and checking rows, against parsing the same rows."""

import asyncio
import random
import time
from collections.abc import Callable
from statistics import median

import orjson

from bench.measure import Context, Measure, Row, compare, in_turn
from filestore import FileStore
from filestore.records.transcripts import Transcripts
from filestore.transcript import Row as Message
from filestore.transcript import Transcript, check_row, export

TOGETHER = 200
"""So many rows are appended at a time."""
WORDS = ("agent", "reads", "file", "and", "finds:", "a `typo`,", "not", "serious\n", "fixed.")


async def transcript_export(context: Context) -> list[Row]:
    """A transcript as a workflow. There is no bound: an export is made by hand, now and then."""
    rows = _rows(context.pick(300, 10_000, 10_000))
    lines = [orjson.dumps(row) for row in rows]
    transcript = Transcript("s-1", "coder", "A title", "", "", None, rows)
    stored = await _stored(context, lines, rows)
    return [
        stored,
        await _against_parsing("transcript_export", context, lines, lambda: export(transcript)),
        await _against_parsing(
            "transcript_check", context, lines, lambda: [check_row(row, "s-1") for row in rows]
        ),
    ]


async def _stored(context: Context, lines: list[bytes], rows: list[Message]) -> Row:
    """All that `zoned session export` does: the rows read from a store, checked, exported."""
    folder = context.fresh("export")
    async with await FileStore.open(folder) as store:
        transcripts = Transcripts(store, turns_max=len(rows))
        start = {"agentSlug": "coder", "context": {"workingDir": "/", "fsScopeTier": "x"}}
        await transcripts.start("s-1", start)
        for at in range(0, len(rows), TOGETHER):
            await asyncio.gather(
                *(transcripts.append("s-1", row) for row in rows[at : at + TOGETHER])
            )

        async def ours() -> float:
            started = time.perf_counter()
            await transcripts.export("s-1")
            return (time.perf_counter() - started) * 1e3

        row = await _compared("session_export", context, lines, ours)
    context.drop(folder)
    return row


async def _against_parsing(
    name: str, context: Context, lines: list[bytes], action: Callable[[], object]
) -> Row:
    async def ours() -> float:
        return _timed(action)

    return await _compared(name, context, lines, ours)


async def _compared(name: str, context: Context, lines: list[bytes], ours: Measure) -> Row:
    async def baseline() -> float:
        return _timed(lambda: [orjson.loads(line) for line in lines])

    pairs = await in_turn(ours, baseline, context.rounds)
    mine, theirs = (len(lines) / median(side) * 1e3 for side in zip(*pairs, strict=True))
    size = sum(map(len, lines)) // len(lines)
    note = f"{mine:,.0f} rows/s against {theirs:,.0f}; {size} B a row"
    return compare(name, pairs, "ms", None, note)


def _timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1e3


def _rows(count: int) -> list[Message]:
    """Turns of five rows: a question, a call, its result, another thought, an answer."""
    chance = random.Random(9)
    roles = ("user", "assistant", "tool", "assistant", "assistant")
    return [
        orjson.loads(
            orjson.dumps(
                {
                    "id": f"m-{number}",
                    "sessionId": "s-1",
                    "sequenceNumber": number,
                    "role": roles[number % 5],
                    "content": [_part(chance, number)],
                    "timestamp": "2026-01-31T09:30:00.000Z",
                }
            )
        )
        for number in range(count)
    ]


def _part(chance: random.Random, number: int) -> dict[str, object]:
    match number % 5:
        case 1:
            args = {"path": f"src/file_{number}.py", "lines": [1, 200], "follow": True}
            return {"type": "tool_call", "id": f"c-{number}", "name": "read_file", "args": args}
        case 2:
            result = {"text": _said(chance, 80), "size": number, "took_s": chance.random()}
            return {"type": "tool_result", "toolCallId": f"c-{number - 1}", "result": result}
        case 3:
            return {"type": "reasoning", "text": _said(chance, 40)}
    return {"type": "text", "text": _said(chance, 40)}


def _said(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words))
