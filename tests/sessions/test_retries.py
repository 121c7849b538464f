"""A stream's writer that loses answers and repeats with its guard: every line once, in order."""

import asyncio
import random
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from filestore import FileStore, Limits, VersionConflictError
from filestore.sessions import Sessions
from tests.conftest import FakeClock, StoreOpener
from tests.contract.tools import turn
from tests.sessions.conftest import OpenSessions
from tests.sessions.tools import streams_of

T = TypeVar("T")
BATCHES = 60
SMALL = Limits(seal_bytes=256, log_bytes_soft=16384)


class LostError(Exception):
    """The caller does not know what became of its call."""


class Pen:
    """A writer as a client would be: it knows its session and how many lines stand in it."""

    def __init__(self, sessions: Sessions, picks: random.Random, loss: float) -> None:
        self.sessions = sessions
        self.repeats = 0
        self.conflicts: list[tuple[str, str]] = []
        """The session that was meant, and the one that was current."""
        self._picks = picks
        self._loss = loss
        self._session_id = ""
        self._at_line = 0

    async def write(self, lines: list[str]) -> None:
        """Append, whatever it takes."""
        while True:
            try:
                while not self._session_id:
                    await self._begin()
                done = await self._try(
                    self.sessions.append_output(
                        "a", lines, at_line=self._at_line, session_id=self._session_id
                    )
                )
            except LostError:
                continue
            except VersionConflictError as conflict:
                # Not there, and never will be: the session was finished before the lines came.
                self.conflicts.append((self._session_id, conflict.session_id))
                self._session_id = conflict.session_id
                self._at_line = conflict.current_lines or 0
                continue
            self.repeats += done.duplicate
            assert done.first_line == self._at_line
            self._at_line += done.lines
            return

    async def _begin(self) -> None:
        """Learn which session is current, or begin one. By a save: whether it comes once or twice,
        in one session or in two, no line is doubled."""
        saved = await self._try(self.sessions.write_state("a", b"begun"))
        state = await self.sessions.read_state("a")
        if state.session_id == saved.session_id:
            self._session_id, self._at_line = saved.session_id, state.output_lines

    async def _try(self, call: Awaitable[T]) -> T:
        """Wait for a call whose answer may be lost; if it is given up soon, so may be the call."""
        is_lost = self._picks.random() < self._loss
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_settled(call))
            if is_lost:
                for _ in range(1 + self._picks.randrange(6)):
                    await turn()
                if self._picks.random() < 0.5:
                    task.cancel()
        if task.cancelled():
            raise LostError
        answer = task.result()
        if isinstance(answer, VersionConflictError):
            raise answer
        if is_lost:
            raise LostError
        return answer


async def _settled(call: Awaitable[T]) -> T | VersionConflictError:
    try:
        return await call
    except VersionConflictError as conflict:
        return conflict


def batch(picks: random.Random, number: int) -> list[str]:
    """Lines that tell where they belong, and lines that are like many others."""
    same = ["{}"] * picks.randrange(3)
    return [*same, f"{number}", *same, *[f"{number} " + "x" * picks.randrange(80)]]


def numbered(lines: list[bytes]) -> list[int]:
    return [int(line) for line in lines if line.isdigit()]


async def assert_once(pen: Pen, batches: list[list[str]]) -> None:
    """All batches stand whole, each once, in order within each session; nobody else writes, so a
    conflict was always about the session."""
    assert all(meant != current for meant, current in pen.conflicts)
    streams = await streams_of(pen.sessions, "a")
    found = [line for stream in streams.values() for line in stream]
    wanted = [line.encode() for lines in batches for line in lines]
    assert sorted(found) == sorted(wanted)
    for stream in streams.values():
        numbers = numbered(stream)
        assert numbers == sorted(numbers)
        rest = iter(stream)
        for number in numbers:
            assert [next(rest) for _ in batches[number]] == [
                line.encode() for line in batches[number]
            ]


@pytest.mark.parametrize("seed", range(12))
async def test_lines_stand_once_whatever_answers_are_lost(
    open_store: StoreOpener, on: OpenSessions, clock: FakeClock, seed: int
) -> None:
    """Between any two tries the session may be archived, restored, sealed, or the store opened
    again."""
    picks = random.Random(seed)
    store = await open_store(clock=clock, limits=SMALL)
    pen = Pen(on(store), picks, loss=0.5)
    batches = [batch(picks, number) for number in range(BATCHES)]
    for lines in batches:
        await pen.write(lines)
        chance = picks.random()
        if chance < 0.1:
            clock.now_ms += 1
            await pen.sessions.archive("a")
        elif chance < 0.2:
            rows = await pen.sessions.list_archives("a")
            if rows:
                await pen.sessions.restore(picks.choice(rows).archive_zoneid)
        elif chance < 0.3:
            await store.tidy()
        elif chance < 0.35:
            await store.close()
            store = await open_store(clock=clock, limits=SMALL)
            pen.sessions = on(store)
    assert pen.repeats > 0
    await assert_once(pen, batches)


@pytest.mark.parametrize("seed", range(6))
async def test_lines_stand_once_while_sessions_are_archived_beside(
    store: FileStore, sessions: Sessions, seed: int
) -> None:
    """An archive may come at any moment, also between the append and its repeat."""
    picks = random.Random(100 + seed)
    pen = Pen(sessions, picks, loss=0.4)
    batches = [batch(picks, number) for number in range(BATCHES)]
    is_over = False

    async def archiver() -> None:
        while not is_over:
            await sessions.archive("a")
            for _ in range(picks.randrange(20)):
                await asyncio.to_thread(int)

    async with asyncio.TaskGroup() as group:
        group.create_task(archiver())
        for lines in batches:
            await pen.write(lines)
        is_over = True
    await assert_once(pen, batches)


async def test_restore_and_fork_repeated_answer_as_the_first_time(
    store: FileStore, sessions: Sessions
) -> None:
    await sessions.append_output("a", "one")
    archived = await sessions.archive("a")
    assert archived is not None
    await sessions.append_output("a", "two")
    first = await sessions.restore(archived.archive_zoneid)
    forked = await sessions.fork("a", "b", new_session_id="copy")
    position = store.position
    assert await sessions.restore(archived.archive_zoneid) == first
    assert await sessions.fork("a", "b", new_session_id="copy") == forked
    await sessions.archive("b")
    assert await sessions.fork("a", "b", new_session_id="copy") == forked
    assert [row.session_id for row in await sessions.list_archives("b")] == ["copy"]
    assert await sessions.restore(archived.archive_zoneid) == first
    assert store.position > position
