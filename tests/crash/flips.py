"""Suite 4: one bit of the database flipped, anywhere.

Everything a store can tell is asked of the damaged copy. An answer must be the right one, or an
error of ours; or something may be missing (a damaged b-tree can lose a row), which the check must
then report. What may never come is another value. And where the flip hit content, be it of a chunk
or of an appended record, only the files that hold that content may be touched: no neighbour.
"""

import asyncio
import faulthandler
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filestore import CorruptionError, FileStore, Limits, NotFoundError, StoreError
from filestore.check import check
from filestore.engine.schema import ENTRY
from filestore.records import Filter, NewSession, Records, SessionInfo
from filestore.sessions import AgentInfo, Sessions, SessionState
from tests.crash.operation import ids
from tests.crash.suite import Plan, Row, scratch
from tests.support.clock import FakeClock

LIMITS = Limits(readers=1)
ASK_S_MAX = 20.0
CHECKED_EVERY = 20
FLIPS_SHORT = 60
PROBE_BYTES = 48
"""Content is found in the file by stretches of so many bytes."""

Key = tuple[str, ...]
Facts = dict[Key, Any]
HIDDEN = "hidden"


async def make(folder: Path, rng: random.Random) -> None:
    """A closed store with all kinds of rows and pages, most of it content."""
    text = b"".join(b'{"line": %d, "text": "compressible"}\n' % number for number in range(3000))
    shared = rng.randbytes(30_000)
    store = await FileStore.open(folder, limits=Limits(seal_bytes=16384), clock=FakeClock())
    async with store, Sessions(store, new_id=ids(100)) as sessions:
        await store.write("z", "random", rng.randbytes(50_000))
        await store.write("z", "text", text)
        await store.write("z", "small", b"a few bytes")
        await store.write("x", "empty", b"")
        await store.write("x", "shared", shared)
        await store.write("z", "also-shared", shared)
        for _ in range(10):
            await store.append("y", "stream", rng.randbytes(3_000))
        await store.set_meta("z", "text", {"kind": "lines"})
        for number in range(3):
            await sessions.append_output("ada", [rng.randbytes(60).hex() for _ in range(40)])
            await sessions.write_state("ada", f'{{"nodes": [{number}]}}')
            await sessions.archive("ada")
        await sessions.append_output("ada", [rng.randbytes(60).hex() for _ in range(20)])
        await sessions.fork("ada", "eve")
        await make_records(store, rng)
        await store.write("z", "gone", rng.randbytes(50_000))
        await store.delete_file("z", "gone")
        await store.tidy()
        # What is appended from here on stays in the log.
        for number in range(20):
            await store.append("y", "tail", b"not sealed %d\n" % number + rng.randbytes(100))
            await store.append_lines("y", "lines", [rng.randbytes(50).hex()])


async def make_records(store: FileStore, rng: random.Random) -> None:
    """Sessions of other surfaces than panes, with all kinds of records."""
    records = Records(store, new_id=ids(300))
    with tempfile.TemporaryDirectory() as folder:
        repo = await records.add_repo(folder, "code", Path(folder).parent)
    await records.create(NewSession("rest", "work", repo_id=repo.id, metadata={"a": 1}))
    for number in range(12):
        await records.prompt("work", f"do it {number}")
        for part in range(3):
            text = rng.randbytes(80).hex()
            await records.add_message(
                "work", "agent", text, partial=part < 2, message_id=f"answer {number}"
            )
    await records.create(NewSession("cli", "task", agent_name="ada", purpose="to try"))
    await records.update("task", phase="planning", metadata={"b": [2]}, error="no")
    state = {"ticket_id": rng.randbytes(20).hex()}
    await records.add_record("task", "checkpoint", {"name": "c", "state": state}, ref="c")
    await records.finish("task", "failed", summary="it failed")


def questions(store: FileStore, sessions: Sessions, truth: Facts) -> dict[Key, Awaitable[Any]]:
    """How to ask for each fact; for the truth itself, of the files and agents that it names."""
    asked: dict[Key, Awaitable[Any]] = {("zones",): _zones(store), ("agents",): _agents(sessions)}
    for zone, *names in truth["names",]:
        for name in names:
            asked["read", zone, name] = store.read(zone, name)
            asked["stat", zone, name] = store.stat(zone, name)
            asked["lines", zone, name] = store.read_lines(zone, name, 0, 100_000)
    records = Records(store)
    asked["recent",], asked["repos",] = records.recent(100), records.list_repos()
    asked["counts",] = _counts(records)
    for session in truth["sessions",]:
        asked["session", session] = records.get(session)
        asked["records", session] = records.records(session)
        asked["messages", session] = records.messages(session)
    for agent in truth["agent names",]:
        asked["archives", agent] = sessions.list_archives(agent, 100)
        asked["state", agent] = sessions.read_state(agent)
    return asked


async def _zones(store: FileStore) -> list[Any]:
    page = await store.zones(limit=100)
    return [(zone.name, zone.version, dict(zone.meta)) for zone in page.zones]


async def _counts(records: Records) -> list[int]:
    filters = Filter(), Filter(agent_name="ada"), Filter(statuses=("active",)), Filter(("error",))
    return [(await records.page(wanted)).total for wanted in filters]


async def _agents(sessions: Sessions) -> list[Any]:
    return list(await sessions.list_agents(100))


async def ask(store: FileStore, sessions: Sessions, truth: Facts) -> Facts:
    """The answer to each question, or the error of ours that came instead."""
    found: Facts = {}
    for key, question in questions(store, sessions, truth).items():
        try:
            found[key] = await question
        except StoreError as error:
            found[key] = error
    return found


async def truth_of(folder: Path) -> Facts:
    truth: Facts = {}
    async with await FileStore.open(folder, limits=LIMITS) as store, Sessions(store) as sessions:
        zones = (await store.zones(limit=100)).zones
        truth["names",] = [
            (zone.name, *(info.name for info in await store.files(zone.name) or []))
            for zone in zones
        ]
        truth["agent names",] = ["ada", "eve"]
        truth["sessions",] = [each.id for each in await Records(store).recent(100)]
        truth |= await ask(store, sessions, truth)
    assert not any(isinstance(answer, StoreError) for answer in truth.values()), truth
    return truth


def verdict(truth: Any, found: Any) -> str:
    """`right`, `told`, `hidden` or `wrong`."""
    if found == truth:
        return "right"
    if isinstance(found, NotFoundError) or found is None:
        return HIDDEN
    if isinstance(found, SessionState) and is_part_of(truth, found):
        return HIDDEN
    if isinstance(found, StoreError):
        return "told"
    if hides(truth, found):
        return HIDDEN
    if isinstance(truth, list) and all(row in [*truth, *map(_archived, truth)] for row in found):
        return HIDDEN  # rows are missing; those that are there are right
    return "wrong"


def hides(truth: Any, found: Any) -> bool:
    """True if what is told of sessions is right as far as it goes: the files of one may be lost,
    some may be, and a count that is lost is 0."""
    if isinstance(truth, SessionInfo):
        return bool(found._replace(zone=truth.zone, updated_ms=truth.updated_ms) == truth)
    if isinstance(truth, list) and truth and isinstance(truth[0], SessionInfo):
        return all(any(hides(own, each) for own in truth) for each in found)
    return (
        isinstance(truth, list)
        and bool(truth)
        and isinstance(truth[0], int)
        and all(a >= b for a, b in zip(truth, found, strict=True))
    )


def is_part_of(truth: SessionState, found: SessionState) -> bool:
    """True if all that is there is right, and the rest looks as if there were none: a session's row
    and its two files are found by three ways, each of which may be lost."""
    blank = SessionState(None, None, 0, "", 0, 0, None)
    parts = (("session_id",), ("content", "modts", "version"), ("output_bytes", "output_lines"))
    return all(
        any(all(getattr(found, name) == getattr(known, name) for name in part)
            for known in (truth, blank))
        for part in parts
    )  # fmt: skip


def _archived(row: Any) -> Any:
    """An agent whose current session cannot be found looks like one that has none."""
    if not isinstance(row, AgentInfo):
        return row
    return replace(row, has_state=False, modts=None, preview="", node_count=0, output_lines=0)


@dataclass(slots=True)
class Outcome:
    """What became of one flip."""

    kind: str
    wrong: str = ""
    touched: frozenset[tuple[str, str]] = frozenset()
    """Files that could not be read whole."""


async def examine(folder: Path, truth: Facts, *, is_checked: bool) -> Outcome:
    """Open a damaged copy and ask for everything."""
    try:
        store = await FileStore.open(folder, limits=LIMITS)
    except StoreError:
        return Outcome("refused")
    try:
        async with Sessions(store) as sessions:
            found = await ask(store, sessions, truth)
        verdicts = {key: verdict(truth[key], answer) for key, answer in found.items()}
        for key in verdicts:
            # What is left of a damaged end is what `stat` tells, while reading it is an error.
            if key[0] == "stat" and isinstance(found["read", key[1], key[2]], CorruptionError):
                verdicts[key] = "told"
        report = None
        if is_checked or set(verdicts.values()) != {"right"}:
            report = await check(store, deep=True)
    finally:
        with suppress(StoreError):  # what is damaged may not be closed well
            await store.close()
    bad = {key: said for key, said in verdicts.items() if said != "right"}
    touched = frozenset((key[1], key[2]) for key in bad if key[0] == "read")
    if "wrong" in bad.values():
        key = next(key for key, said in bad.items() if said == "wrong")
        return Outcome("wrong", f"another answer to {key}: {found[key]!r:.300}", touched)
    if bad and report is not None and report.is_clean:
        return Outcome("wrong", f"{bad}, but the check is clean", touched)
    if not bad:
        return Outcome("harmless")
    return Outcome(HIDDEN if HIDDEN in bad.values() else "told", touched=touched)


class Copy:
    """One copy in memory that is damaged and mended again and again."""

    def __init__(self, original: bytes, folder: Path) -> None:
        self._original = original
        self.folder = folder
        folder.mkdir(mode=0o700)

    def flip(self, at: int, mask: int) -> None:
        for path in self.folder.iterdir():
            path.unlink()
        damaged = bytearray(self._original)
        damaged[at] ^= mask
        (self.folder / "zoned.db").write_bytes(damaged)


async def owners(folder: Path, stored: bytes) -> dict[int, frozenset[tuple[str, str]]]:
    """Which files hold the content at an offset of the database, for the content that is found."""
    holders: dict[bytes, set[tuple[str, str]]] = defaultdict(set)
    found: dict[int, frozenset[tuple[str, str]]] = {}

    def place(data: bytes, files: frozenset[tuple[str, str]]) -> None:
        for start in range(0, len(data) - PROBE_BYTES, PROBE_BYTES):
            probe = data[start : start + PROBE_BYTES]
            at = stored.find(probe)
            if at >= 0 and stored.find(probe, at + 1) < 0:
                found.update(dict.fromkeys(range(at, at + PROBE_BYTES), files))

    async with await FileStore.open(folder, limits=LIMITS) as store:
        names = {
            row[0]: (row[1], row[2])
            for row in await store.read_unit(
                lambda tx: tx.fetch(
                    "SELECT f.id, z.name, f.name FROM file f JOIN zone z ON z.id = f.zone_id"
                )
            )
        }
        lists = await store.read_unit(lambda tx: tx.fetch("SELECT id, entries FROM list"))
        for page, entries in lists:
            for digest, _, _ in ENTRY.iter_unpack(entries):
                holders[digest].add(names[page >> 20])
        chunks = await store.read_unit(
            lambda tx: tx.fetch("SELECT c.hash, d.data FROM chunk c JOIN chunk_data d USING (id)")
        )
    for digest, data in chunks:
        if digest in holders:
            place(data, frozenset(holders[digest]))
    return found


Where = Callable[[random.Random], int]


def places(stored: bytes, owned: dict[int, frozenset[tuple[str, str]]]) -> list[Where]:
    """Ways to choose a byte: anywhere, in the head of a page, in content."""
    contents = sorted(owned)
    pages = len(stored) // 4096
    return [
        lambda rng: rng.randrange(len(stored)),
        lambda rng: rng.randrange(len(stored)),
        lambda rng: rng.randrange(pages) * 4096 + rng.randrange(64),
        lambda rng: rng.choice(contents),
    ]


async def flip_one(
    copy: Copy, truth: Facts, at: int, mask: int, owned: frozenset[tuple[str, str]] | None,
    *, is_checked: bool,
) -> Outcome:  # fmt: skip
    copy.flip(at, mask)
    # A reader that never comes back holds up closing, too: only the end of the process ends that.
    faulthandler.dump_traceback_later(3 * ASK_S_MAX, exit=True)
    try:
        async with asyncio.timeout(ASK_S_MAX):
            found = await examine(copy.folder, truth, is_checked=is_checked)
    except Exception as error:  # whatever is not ours is a finding
        return Outcome("wrong", f"{error!r}")
    finally:
        faulthandler.cancel_dump_traceback_later()
    if owned is not None and not found.touched <= owned:
        found.wrong = f"neighbours are lost: {sorted(found.touched - owned)}"
    return found


async def run(plan: Plan) -> Row:
    """Flip after flip, until the time has gone."""
    row = Row("damage", "single bits flipped anywhere in the database", plan.seed)
    outcomes: Counter[str] = Counter()
    in_content = 0
    with scratch() as folder:
        await make(folder / "original", plan.rng("content"))
        stored = (folder / "original/zoned.db").read_bytes()
        truth = await truth_of(folder / "original")
        owned = await owners(folder / "original", stored)
        assert stored == (folder / "original/zoned.db").read_bytes(), "looking changed nothing"
        row.control = await control(folder, row, stored, truth)
        copy, ways, rng = Copy(stored, folder / "copy"), places(stored, owned), plan.rng("flips")
        while row.count < FLIPS_SHORT if plan.is_short else not row.is_due(plan):
            at, mask = rng.choice(ways)(rng), 1 << rng.randrange(8)
            is_checked = row.count % CHECKED_EVERY == 0
            found = await flip_one(copy, truth, at, mask, owned.get(at), is_checked=is_checked)
            row.count += 1
            outcomes[found.kind] += 1
            in_content += at in owned
            if found.wrong:
                row.found(f"byte {at} (page {at // 4096 + 1}) ^ {mask:#x}: {found.wrong}")
    row.more.append(f"{dict(sorted(outcomes.items()))}; {in_content} in content")
    return row.ended()


async def control(folder: Path, row: Row, stored: bytes, truth: Facts) -> str:
    """A store that holds another value must be seen to."""
    copy = Copy(stored, folder / "control")
    copy.flip(0, 0)
    async with await FileStore.open(copy.folder) as store:
        await store.write("z", "small", b"a few bytez")
    found = await examine(copy.folder, truth, is_checked=False)
    if found.kind == "wrong":
        return "another value is noticed"
    row.found(f"the control did not fail: another value passed for {found.kind}")
    return "did not fail"
