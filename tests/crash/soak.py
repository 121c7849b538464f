"""Suite 7: everything at once for long: stream writers, panes that save, archive, restore and
delete, transcripts, subscribers that come and go, and the store's own sealing and releasing behind
them.

Every line has a number, and every message. In the end each that was acknowledged stands in exactly
one session, in order; what was deleted was read before. Meanwhile subscribers must see every line
once and in order, memory must stay flat after warming up, and the WAL within its bound.
"""

import asyncio
import contextlib
import itertools
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from filestore import FileStore, Limits
from filestore.records.transcripts import Transcripts
from filestore.sessions import Sessions
from srv.client import Client
from tests.crash.suite import Plan, Row
from tests.support.child_model import assert_clean
from tests.support.daemon import Daemon, serving

AGENTS, AGENTS_SHORT = 200, 24
CONNECTIONS = 16
SUBSCRIBERS_SHARE = 4
"""One subscriber for so many agents."""
TALKS_SHARE = 8
"""One transcript under way for so many agents."""
MESSAGES_EACH = 200
"""Then the next one is begun."""
TALK = {"agentSlug": "soak", "context": {"workingDir": "/", "fsScopeTier": "read"}}
ARCHIVES_KEPT = 3
WARM_UP_SHARE, END_SHARE = 0.4, 0.15
GROWTH_MAX, GROWTH_BYTES = 1.10, 16 << 20
WAL_BYTES_MAX = Limits().wal_bytes_hard + (8 << 20)
SAMPLE_S = 0.5
EVENT_S_MAX = 2.0
LATENCIES_MAX = 2_000_000


@dataclass(slots=True)
class Agent:
    """What its writer was promised, and what its pane has deleted."""

    name: str
    written: int = 0
    gone: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Seen:
    """What the load has seen so far."""

    latencies_s: list[float] = field(default_factory=list)
    calls: int = 0
    events: int = 0
    gaps: int = 0
    talks: dict[str, int] = field(default_factory=dict)
    """Acknowledged messages of each transcript."""
    wrong: list[str] = field(default_factory=list)
    is_over: bool = False


@dataclass(slots=True)
class Samples:
    """Time since the start, memory and WAL, now and then."""

    rows: list[tuple[float, int, int]] = field(default_factory=list)

    def memory(self, seconds: float) -> tuple[int, int]:
        """The most memory right after warming up, and in the end."""
        warm, end = seconds * WARM_UP_SHARE, seconds * (1 - END_SHARE)
        early = [rss for at, rss, _ in self.rows if warm <= at < warm + seconds * END_SHARE]
        late = [rss for at, rss, _ in self.rows if at >= end]
        return max(early or [0]), max(late or [0])

    @property
    def wal_bytes(self) -> int:
        return max((wal for _, _, wal in self.rows), default=0)


@contextmanager
def sampling(daemon: Daemon) -> Iterator[Samples]:
    """Look at the daemon from a thread of its own."""
    samples, is_over, started = Samples(), threading.Event(), time.monotonic()
    wal = daemon.data_dir / "zoned.db-wal"

    def look() -> None:
        while not is_over.wait(SAMPLE_S):
            size = wal.stat().st_size if wal.exists() else 0
            samples.rows.append((time.monotonic() - started, daemon.rss_bytes, size))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield samples
    finally:
        is_over.set()
        thread.join()


async def write(client: Client, agent: Agent, seen: Seen, rng: random.Random) -> None:
    """One stream, line after line."""
    while not seen.is_over:
        count = rng.choice((1, 1, 1, 4))
        lines = [
            f'{{"n": {agent.written + index}, "text": "{"x" * rng.randrange(20, 400)}"}}'
            for index in range(count)
        ]
        started = time.perf_counter()
        await client.append_output(agent.name, *lines)
        if len(seen.latencies_s) < LATENCIES_MAX:
            seen.latencies_s.append(time.perf_counter() - started)
        agent.written += count
        seen.calls += 1


async def pane(client: Client, agent: Agent, seen: Seen, rng: random.Random) -> None:
    """One pane: a snapshot that grows, and sessions put away and taken out again."""
    nodes: list[str] = []
    while not seen.is_over:
        roll = rng.random()
        if roll < 0.85:
            nodes.append('{"type": "agent_message", "message": "' + rng.randbytes(150).hex() + '"}')
            await client.write_state(agent.name, '{"nodes": [' + ", ".join(nodes[-200:]) + "]}")
        elif roll < 0.93:
            await client.archive(agent.name)
            nodes.clear()
        else:
            archives = await client.list_archives(agent.name, 20)
            if archives and roll < 0.95:
                await client.restore(rng.choice(archives).archive_zoneid)
            for row in archives[ARCHIVES_KEPT:]:
                # It may have been restored a moment ago; then it is no archive any more.
                if roll >= 0.95:
                    agent.gone += await numbers_of(client, row.archive_zoneid)
                    assert await client.delete_archive(row.archive_zoneid)
        seen.calls += 1
        # Looking at the list also gives the writers of the same connection their turn.
        await client.read_session(agent.name)


async def talk(client: Client, number: int, seen: Seen, rng: random.Random) -> None:
    """One transcript after the other, message after message."""
    for turn in itertools.count():
        name = f"talk-{number}-{turn}"
        await client.transcripts.start(name, TALK)
        seen.talks[name] = 0
        for expected in range(MESSAGES_EACH):
            text = f"{expected} " + "x" * rng.randrange(20, 2_000)
            row = await client.transcripts.append(name, {
                "role": "assistant",
                "content": [{"type": "text", "text": text}],
                "timestamp": "2026-01-01T00:00:00.000Z",
            })  # fmt: skip
            if row["sequenceNumber"] != expected:
                seen.wrong.append(f"{name}: message {expected} is {row['sequenceNumber']}")
            seen.talks[name] = expected + 1
            seen.calls += 1
            if seen.is_over:
                return
        await client.transcripts.end(name)


async def follow(client: Client, agents: list[Agent], seen: Seen, rng: random.Random) -> None:
    """Subscribe to somebody, see that nothing is missing or out of order, go to somebody else."""
    while not seen.is_over:
        subscription = await client.subscribe(rng.choice(agents).name)
        async with contextlib.aclosing(subscription):
            position, following = -1, None
            for _ in range(rng.randrange(1, 300)):
                try:
                    change = await asyncio.wait_for(anext(subscription), EVENT_S_MAX)
                except TimeoutError:
                    break
                seen.events += 1
                if change.position <= position:
                    seen.wrong.append(f"position {change.position} after {position}")
                position = change.position
                if change.kind == "output":
                    assert change.first_line is not None
                    assert change.lines is not None
                    if following is not None and change.first_line != following:
                        seen.wrong.append(
                            f"line {change.first_line} came where {following} was due"
                        )
                    following = change.first_line + change.lines
                elif change.kind != "state":
                    following = None  # another session, or lines that are not known any more
                    seen.gaps += change.kind == "gap"


async def numbers_of(client: Client, place: str) -> list[int]:
    found: list[int] = []
    while True:
        page = await client.read_output(place, from_line=len(found))
        found += [number_of(line) for line in page.lines]
        if len(found) >= page.total_lines:
            return found


def number_of(line: bytes) -> int:
    return int(line[: line.index(b",")].split(b":")[1])


async def load(daemon: Daemon, agents: list[Agent], seen: Seen, plan: Plan) -> None:
    """All of them, until the time has gone."""
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(connection(daemon, number))
            for number in range(CONNECTIONS)
        ]
        async with asyncio.TaskGroup() as group:
            for number, agent in enumerate(agents):
                client = clients[number % len(clients)]
                group.create_task(write(client, agent, seen, plan.rng("writer", number)))
                if number % 2 == 0:
                    group.create_task(pane(client, agent, seen, plan.rng("pane", number)))
            for number in range(len(agents) // SUBSCRIBERS_SHARE):
                client = clients[number % len(clients)]
                group.create_task(follow(client, agents, seen, plan.rng("follower", number)))
            for number in range(len(agents) // TALKS_SHARE):
                client = clients[number % len(clients)]
                group.create_task(talk(client, number, seen, plan.rng("talk", number)))
            loop.call_later(plan.seconds, lambda: setattr(seen, "is_over", True))


def connection(daemon: Daemon, number: int) -> Client:
    if number % 2:
        return Client(daemon.socket_path, timeout_s=60.0)
    assert daemon.ready is not None
    return Client(url=daemon.ready["url"], token=daemon.token, timeout_s=60.0)


async def assert_lines(data_dir: Path, agents: list[Agent], row: Row) -> None:
    """Each acknowledged line in one session, in order."""
    async with await FileStore.open(data_dir) as store, Sessions(store) as sessions:
        await assert_clean(store)
        for agent in agents:
            places = [agent.name]
            places += [
                found.archive_zoneid for found in await sessions.list_archives(agent.name, 100)
            ]
            found = list(agent.gone)
            for place in places:
                own = await stored_numbers(sessions, place)
                if own != sorted(own):
                    row.found(f"{place}: lines out of order")
                found += own
            if sorted(found) != list(range(agent.written)):
                row.found(f"{agent.name}: {agent.written} lines written, {len(found)} found")


async def assert_messages(data_dir: Path, talks: dict[str, int], row: Row) -> None:
    """Each acknowledged message, in order, and no other."""
    async with await FileStore.open(data_dir) as store:
        for name, count in talks.items():
            rows = (await Transcripts(store).load(name)).rows
            texts = [dict(each["content"][0])["text"] for each in rows]
            numbers = [int(str(text).split()[0]) for text in texts]
            if numbers != list(range(count)):
                row.found(f"{name}: {count} messages said, {len(numbers)} found")


async def stored_numbers(sessions: Sessions, place: str) -> list[int]:
    found: list[int] = []
    while True:
        page = await sessions.read_output(place, from_line=len(found))
        found += [number_of(line) for line in page.lines]
        if len(found) >= page.total_lines:
            return found


def judge(row: Row, seen: Seen, samples: Samples, plan: Plan) -> None:
    """What was measured, against its bounds."""
    start, end = samples.memory(plan.seconds)
    if not plan.is_short and end > start * GROWTH_MAX + GROWTH_BYTES:
        row.found(f"memory grew from {start >> 20} to {end >> 20} MiB")
    if samples.wal_bytes > WAL_BYTES_MAX:
        row.found(f"the WAL grew to {samples.wal_bytes >> 20} MiB")
    for what in seen.wrong:
        row.found(what)
    ordered = sorted(seen.latencies_s)
    p50, p99 = (ordered[int(len(ordered) * share)] * 1e3 for share in (0.5, 0.99))
    row.count = seen.calls
    row.more.append(
        f"append p50 {p50:.1f} ms, p99 {p99:.1f} ms; memory {start >> 20} MiB after warming up, "
        f"{end >> 20} MiB in the end; WAL at most {samples.wal_bytes / (1 << 20):.1f} MiB; "
        f"{seen.events} changes seen by subscribers, {seen.gaps} gaps; "
        f"{sum(seen.talks.values())} messages of {len(seen.talks)} transcripts"
    )


async def control(agents: list[Agent], talks: dict[str, int], row: Row, data_dir: Path) -> str:
    """A line and a message more than were written must be missed."""
    forged = Row("control", "", row.seed)
    with contextlib.redirect_stdout(None):
        await assert_lines(data_dir, [Agent(agents[0].name, agents[0].written + 1)], forged)
        name, count = next(iter(talks.items()))
        await assert_messages(data_dir, {name: count + 1}, forged)
    if len(forged.wrong) == 2:
        return "a lost line and a lost message are noticed"
    row.found("the control did not fail: what was never written was found")
    return "did not fail"


async def run(plan: Plan) -> Row:
    """One daemon with the bounds that users have, on a real disk."""
    count = AGENTS_SHORT if plan.is_short else AGENTS
    row = Row("soak", f"calls of {count} agents on one daemon", plan.seed)
    agents, seen = [Agent(f"agent-{number}") for number in range(count)], Seen()
    with tempfile.TemporaryDirectory() as name:
        data_dir = Path(name) / "data"
        with serving(data_dir) as daemon:
            with sampling(daemon) as samples:
                await load(daemon, agents, seen, plan)
            with daemon.client() as client:
                assert client.call("srv:health") == {"ok": True}
            assert daemon.end() == 0, daemon.log
            assert "Traceback" not in daemon.log
        judge(row, seen, samples, plan)
        await assert_lines(data_dir, agents, row)
        await assert_messages(data_dir, seen.talks, row)
        row.control = await control(agents, seen.talks, row, data_dir)
        await asyncio.to_thread(shutil.rmtree, data_dir)
    return row.ended()
