"""What the tests of sessions share: snapshots, streams, and looking at everything at once."""

import asyncio
import json
from contextlib import aclosing

from filestore import FileStore
from filestore.sessions import SessionChange, Sessions, Subscription
from tests.contract.tools import WAIT_S_MAX

STATE = "output.state.json"
OUTPUT = "output"
LARGE_BYTES = (256 << 10) + 1
"""Snapshots from here on are looked into in the background."""
HUGE_BYTES = (4 << 20) + 1
"""Snapshots from here on are not looked into at all."""

HOSTILE_IDS: tuple[object, ...] = (
    "", "x" * 129, " ", "a b", " a", "a ", "a\n", "\na", "a\r", "a\x00", "\x00", "a:b", ":", "a:",
    ":a", "agent:a:current", "agent:a:archive:7", "a:current", "../a", "a/b", "a\\b", "a.b", "a%",
    "a*", "a'", 'a"', "a;b", "é", "\u03b1", "\u0663", "\uff11", "a\u200b", "a\u0301",
    "\U0001d4b6", "\ud800",
    "a\udfff", None, 7, 7.0, True, b"a", bytearray(b"a"), ["a"], ("a",), {"a": 1}, object(),
)  # fmt: skip
"""None of these is the id of a definition."""
HOSTILE_IDS_WITHOUT_COLON = tuple(
    value for value in HOSTILE_IDS if not (isinstance(value, str) and ":" in value)
)

HOSTILE_SUFFIXES = (
    "", "007", "00", "01", "+7", "-7", " 7", "7 ", "7\n", "\n7", "7\x00", "7x", "x7", "x", "0x7",
    "7:", ":7", "7:8", "7.0", "7e3", "1_000", "\u0667", "\uff17", "\xb2", "7" * 20,
    str((1 << 63) - 1), str(1 << 63), str(10**19),
)  # fmt: skip
HOSTILE_ZONES: tuple[object, ...] = (
    *(f"agent:a:archive:{suffix}" for suffix in HOSTILE_SUFFIXES),
    *(f"agent:{value}:archive:7" for value in HOSTILE_IDS if isinstance(value, str)),
    ":", "::", ":::", "agent:a:current", "agent:a:archive", "agent:a:", "agent:a",
    "agent::archive:7", "Agent:a:archive:7", "agent:a:ARCHIVE:7", " agent:a:archive:7",
    "agent:a:archive:7 ", "xagent:a:archive:7", "agent:a:archive:7\n", "agent:a:archive:7:7",
    "agent:a:b:archive:7", "agent:a:current:archive:7", "z:f", "agent:a\x00:archive:7", "\ud800:",
)  # fmt: skip
"""Each holds a colon, and none is the zone of an archive."""
HOSTILE_ZONES_OF_ARCHIVES = (
    *HOSTILE_ZONES,
    *(value for value in HOSTILE_IDS if value != "agent:a:archive:7"),
    "a",
    "agent",
)


def message(text: object) -> dict[str, object]:
    """A node with a user message."""
    return {"type": "user_message", "message": text}


def snapshot(*messages: object, mark: object = None, pad_to: int = 0) -> bytes:
    """A snapshot with these user messages, blown up to `pad_to` bytes."""
    document: dict[str, object] = {"nodes": [message(text) for text in messages]}
    if mark is not None:
        document["highWaterMark"] = mark
    return padded(document, pad_to)


def padded(document: dict[str, object], size: int) -> bytes:
    """A document of at least `size` bytes."""
    bare = json.dumps(document)
    return json.dumps({**document, "pad": "x" * max(0, size - len(bare) - 11)}).encode()


def user_line(text: str) -> str:
    """A line of a stream in which the user says something."""
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}})


async def all_zones(store: FileStore) -> list[tuple[str, int]]:
    """Every zone with its version: equal means that no zone was made, renamed or deleted."""
    return [(zone.name, zone.version) for zone in (await store.zones(limit=1000)).zones]


async def everything(store: FileStore) -> list[tuple[str, int, list[tuple[str, int, int]]]]:
    """Every zone with the name, version and size of its files: equal means untouched."""
    return [
        (
            zone,
            version,
            [(info.name, info.version, info.size) for info in await store.files(zone) or []],
        )
        for zone, version in await all_zones(store)
    ]


async def lines_of(sessions: Sessions, place: str) -> list[bytes]:
    """All lines of a stream, by pages."""
    found: list[bytes] = []
    while True:
        page = await sessions.read_output(place, from_line=len(found))
        found += page.lines
        if len(found) >= page.total_lines:
            return found


async def streams_of(sessions: Sessions, definition_id: str) -> dict[str, list[bytes]]:
    """The stream of every session of a definition by session id, oldest archive first."""
    found: dict[str, list[bytes]] = {}
    before: int | None = None
    while page := await sessions.list_archives(definition_id, 100, before=before):
        for row in page:
            found[row.session_id] = await lines_of(sessions, row.archive_zoneid)
        before = page[-1].archived_at_ms
    found = dict(reversed(found.items()))
    current = await sessions.read_state(definition_id)
    if current.session_id:
        found[current.session_id] = await lines_of(sessions, definition_id)
    return found


def following(changes: Subscription) -> "aclosing[Subscription]":
    """A subscription that is ended with the block, whatever happens in it."""
    return aclosing(changes)


async def take(changes: Subscription, count: int) -> list[SessionChange]:
    """The next `count` changes."""
    async with asyncio.timeout(WAIT_S_MAX):
        return [await anext(changes) for _ in range(count)]
