"""Random operations on sessions against plain dictionaries, with restarts and a clock that jumps.

Derandomised by the profile in tests/conftest.py: a failure is the same for everyone.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from filestore import AlreadyExistsError, FileStore, NotFoundError, VersionConflictError
from filestore.sessions import Sessions
from filestore.sessions.names import archive_zone, parse_archive
from tests.conftest import FakeClock
from tests.sessions.tools import lines_of, snapshot
from tests.support.child_model import assert_clean

T = TypeVar("T")
AGENTS = ("a", "b", "B")
EXAMPLES = 40
STEPS = 40

agents = st.sampled_from(AGENTS)
texts = st.sampled_from(["hello", "# Session Context", "two  words", "🙂" * 241, "\x1c"])
lines = st.lists(st.sampled_from(["x", "", "{}", "two\nlines", " ", "é\n"]), max_size=4)
picks = st.integers(0, 50)


@dataclass
class Session:
    """One session as it should be."""

    session_id: str
    started_ms: int
    content: bytes | None = None
    preview: str = ""
    node_count: int = 0
    stream: list[bytes] = field(default_factory=list)

    @property
    def has_bytes(self) -> bool:
        return bool(self.content or self.stream)


class Machine(RuleBasedStateMachine):
    """The real sessions beside a dictionary of them."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="zoned-sessions-"))
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.current: dict[str, Session] = {}
        self.archives: dict[str, dict[int, Session]] = {agent: {} for agent in AGENTS}
        self.dead_ids: set[str] = set()
        self.forks = 0
        self.store: FileStore
        self.sessions: Sessions

    def do(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return self.runner.run(wait())

    async def _open(self) -> None:
        self.store = await FileStore.open(self.folder, clock=self.clock, sync="normal")
        self.sessions = Sessions(self.store)

    async def _close(self) -> None:
        await self.sessions.close()
        await self.store.close()

    @initialize()
    def start(self) -> None:
        self.do(self._open())

    def teardown(self) -> None:
        try:
            if hasattr(self, "store"):
                self.do(self._check_and_close())
        finally:
            self.runner.close()
            shutil.rmtree(self.folder)

    async def _check_and_close(self) -> None:
        try:
            await self.store.tidy()
            await assert_clean(self.store)
        finally:
            await self._close()

    # -- the model's own moves

    def _begun(self, agent: str, session_id: str) -> Session:
        if agent not in self.current:
            assert session_id not in self._ids()
            self.current[agent] = Session(session_id, self.clock.now_ms)
        assert self.current[agent].session_id == session_id
        return self.current[agent]

    def _ids(self) -> set[str]:
        every = [*self.current.values()]
        for archived in self.archives.values():
            every += archived.values()
        return {session.session_id for session in every}

    def _archived(self, agent: str) -> int | None:
        if agent not in self.current or not self.current[agent].has_bytes:
            return None
        ms = max(self.clock.now_ms, *(known + 1 for known in self.archives[agent]), 0)
        self.archives[agent][ms] = self.current.pop(agent)
        return ms

    def _pick(self, number: int) -> str:
        """The zone of some archive, or of one that never was."""
        zones = [archive_zone(agent, ms) for agent in AGENTS for ms in self.archives[agent]]
        return [*zones, "agent:a:archive:5"][number % (len(zones) + 1)]

    def _find(self, zone: str) -> Session | None:
        agent, ms = parse_archive(zone)
        return self.archives[agent].get(ms)

    # -- rules

    @rule(ms=st.sampled_from([0, 1, 1000, -1000, -86_400_000]))
    def move_clock(self, ms: int) -> None:
        self.clock.now_ms += ms

    @rule(agent=agents, text=texts, count=st.integers(1, 3))
    def save(self, agent: str, text: str, count: int) -> None:
        content = snapshot(*[text] * count)
        written = self.do(self.sessions.write_state(agent, content))
        session = self._begun(agent, written.session_id)
        assert written.unchanged == (session.content == content)
        session.content, session.node_count = content, count
        cut = text.replace("  ", " ")
        session.preview = cut if len(cut) <= 240 else cut[:240] + "…"

    @rule(agent=agents)
    def save_nothing(self, agent: str) -> None:
        written = self.do(self.sessions.write_state(agent, b""))
        session = self._begun(agent, written.session_id)
        session.content, session.node_count, session.preview = b"", 0, ""

    @rule(agent=agents)
    def save_late(self, agent: str) -> None:
        """A pane of a session that is not current any more."""
        others = self._ids() | self.dead_ids
        if agent in self.current:
            others.discard(self.current[agent].session_id)
        for session_id in sorted(others)[:3]:
            with pytest.raises(VersionConflictError):
                self.do(self.sessions.write_state(agent, b"late", session_id=session_id))

    @rule(agent=agents, given_lines=lines)
    def append(self, agent: str, given_lines: list[str]) -> None:
        done = self.do(self.sessions.append_output(agent, given_lines))
        kept = [
            line.encode() for text in given_lines for line in text.split("\n") if line.strip(" ")
        ]
        assert (done.lines, done.bytes_written) == (len(kept), sum(len(line) + 1 for line in kept))
        if kept:
            session_id = self.do(self.sessions.read_state(agent)).session_id
            session = self._begun(agent, session_id)
            assert done.first_line == len(session.stream)
            session.stream += kept

    @rule(agent=agents, given_lines=lines, number=picks)
    def append_at_line(self, agent: str, given_lines: list[str], number: int) -> None:
        """With a guard that may be right, with one that points at lines that stand, or neither."""
        kept = [
            line.encode() for text in given_lines for line in text.split("\n") if line.strip(" ")
        ]
        session = self.current.get(agent)
        stream = session.stream if session else []
        at_line = number % (len(stream) + 2)
        guard = session.session_id if session else None
        work = self.sessions.append_output(agent, given_lines, at_line=at_line, session_id=guard)
        is_repeat = at_line < len(stream) and stream[at_line : at_line + len(kept)] == kept
        if kept and at_line != len(stream) and not is_repeat:
            with pytest.raises(VersionConflictError) as caught:
                self.do(work)
            assert caught.value.current_lines == len(stream)
            return
        done = self.do(work)
        assert done.duplicate == (bool(kept) and is_repeat)
        if kept and not is_repeat:
            session_id = self.do(self.sessions.read_state(agent)).session_id
            self._begun(agent, session_id).stream += kept

    @rule(agent=agents)
    def archive_late(self, agent: str) -> None:
        """Sessions that are not current: those that are finished are found, others refused."""
        done = {known.session_id: ms for ms, known in self.archives[agent].items()}
        others = self._ids() | self.dead_ids
        if agent in self.current:
            others.discard(self.current[agent].session_id)
        for session_id in sorted(others)[:3]:
            work = self.sessions.archive(agent, session_id=session_id)
            if session_id in done:
                found = self.do(work)
                assert found is not None
                assert found.archived_at_ms == done[session_id]
            else:
                with pytest.raises(VersionConflictError):
                    self.do(work)

    @rule(agent=agents)
    def archive(self, agent: str) -> None:
        done = self.do(self.sessions.archive(agent))
        assert (done.archived_at_ms if done else None) == self._archived(agent)

    @rule(number=picks)
    def restore(self, number: int) -> None:
        zone = self._pick(number)
        session = self._find(zone)
        if session is None:
            with pytest.raises(NotFoundError):
                self.do(self.sessions.restore(zone))
            return
        agent, ms = parse_archive(zone)
        restored = self.do(self.sessions.restore(zone))
        displaced = self._archived(agent)
        if agent in self.current:
            self.dead_ids.add(self.current[agent].session_id)
        self.current[agent] = self.archives[agent].pop(ms)
        assert restored.session_id == session.session_id
        assert restored.archived == ("" if displaced is None else archive_zone(agent, displaced))
        assert self.do(self.sessions.restore(zone)) == restored, "a repeat answers the same"

    @rule(number=picks, is_current=st.booleans(), agent=agents, to=agents, first=st.booleans())
    def fork(self, number: int, is_current: bool, agent: str, to: str, first: bool) -> None:
        place = agent if is_current else self._pick(number)
        source = self.current.get(agent) if is_current else self._find(place)
        if source is not None and source is self.current.get(to) and not source.has_bytes:
            return  # test_restore_fork.py
        self.forks += 1
        work = self.sessions.fork(
            place, to, archive_first=first, new_session_id=f"fork {self.forks}"
        )
        if source is None:
            with pytest.raises(NotFoundError):
                self.do(work)
            return
        if to in self.current and self.current[to].has_bytes and not first:
            with pytest.raises(AlreadyExistsError):
                self.do(work)
            return
        made = self.do(work)
        if self._archived(to) is None and to in self.current:
            self.dead_ids.add(self.current[to].session_id)
        self.current[to] = Session(
            made,
            self.clock.now_ms,
            source.content,
            source.preview,
            source.node_count,
            list(source.stream),
        )

    @rule(number=picks)
    def delete(self, number: int) -> None:
        zone = self._pick(number)
        agent, ms = parse_archive(zone)
        session = self.archives[agent].pop(ms, None)
        assert self.do(self.sessions.delete_archive(zone)) == (session is not None)
        if session is not None:
            self.dead_ids.add(session.session_id)

    @precondition(lambda self: self.current)
    @rule()
    def reopen(self) -> None:
        async def again() -> None:
            await self._close()
            await self._open()

        self.do(again())

    # -- what must hold after every step

    @invariant()
    def same(self) -> None:
        if hasattr(self, "sessions"):
            self.do(self._compare())

    async def _compare(self) -> None:
        zones = [zone.name for zone in (await self.store.zones("agent:", limit=1000)).zones]
        assert sorted(zones) == sorted(
            [f"agent:{agent}:current" for agent in self.current]
            + [archive_zone(agent, ms) for agent in AGENTS for ms in self.archives[agent]]
        )
        for agent, session in self.current.items():
            state = await self.sessions.read_state(agent)
            assert (state.content, state.session_id) == (session.content, session.session_id)
            assert state.output_lines == len(session.stream)
            assert await lines_of(self.sessions, agent) == session.stream
        for agent in AGENTS:
            await self._compare_archives(agent)
        assert [
            (row.definition_id, row.has_state, row.preview, row.archives, row.output_lines)
            for row in await self.sessions.list_agents()
        ] == [
            (
                agent,
                agent in self.current and self.current[agent].content is not None,
                self.current[agent].preview if agent in self.current else "",
                len(self.archives[agent]),
                len(self.current[agent].stream) if agent in self.current else 0,
            )
            for agent in sorted(AGENTS)
            if agent in self.current or self.archives[agent]
        ]

    async def _compare_archives(self, agent: str) -> None:
        rows = await self.sessions.list_archives(agent, 100)
        assert [
            (row.archived_at_ms, row.session_id, row.started_at_ms, row.preview, row.node_count)
            for row in rows
        ] == [
            (ms, known.session_id, known.started_ms, known.preview, known.node_count)
            for ms, known in sorted(self.archives[agent].items(), reverse=True)
        ]
        for row in rows:
            known = self.archives[agent][row.archived_at_ms]
            assert row.state_bytes == len(known.content or b"")
            assert await lines_of(self.sessions, row.archive_zoneid) == known.stream


def test_sessions_agree_with_plain_dictionaries() -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            suppress_health_check=list(HealthCheck),
        ),
    )
