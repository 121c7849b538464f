"""Any sequence of operations, of records and panes together, against the model; with the store
closed and opened again in between. The check after each test folds every journal again.

A failing run is named by its seed: `-k 'sequence[17]'` does the same again.
"""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import get_args

import pytest

from filestore import AlreadyExistsError, ConflictError, FileStore, NotFoundError, StoreError
from filestore.journal.model import Origin
from filestore.records import (
    OUTCOMES,
    STATUSES,
    Filter,
    Message,
    NewSession,
    RecordKind,
    Records,
    SessionInfo,
)
from filestore.records.records import definition_of
from filestore.sessions import Sessions
from tests.conftest import FakeClock, StoreOpener
from tests.records.model import RESUMABLE, Model, Session

STEPS = 120
SEEDS = range(24)
DEFINITIONS = ("ada", "bob", "x-y_Z")
IDS = ("ada", "ABC-123", "abc 123", "a.b", "é\u0301", "\U0001f600", "x" * 256, "'; --", "/", "null")
AGENTS = (None, "coder", "c'o%_", "")
PHASES = ("initializing", "investigating", "planning", "approval", "executing", "validating")
DAY_MS = 86_400_000


class Run:
    """One sequence: the store, the model, and the operations, each done to both."""

    def __init__(self, rng: random.Random, clock: FakeClock, root: Path) -> None:
        self.rng = rng
        self.root = root
        self.clock = clock
        self.model = Model()
        self.repos: list[str] = []
        self.store: FileStore
        self.records: Records
        self.panes: Sessions
        self._ids = 0

    async def open(self, open_store: StoreOpener) -> None:
        self.store = await open_store(clock=self.clock)
        self.records = Records(self.store, clock=self.clock, new_id=self._new_id)
        self.panes = Sessions(self.store, new_id=self._new_id)

    async def close(self) -> None:
        await self.panes.close()
        await self.store.close()

    def _new_id(self) -> str:
        self._ids += 1
        return f"new-{self._ids}"

    async def step(self) -> None:
        operations: tuple[Callable[[], Awaitable[object]], ...] = (
            self.create, self.create, self.update, self.update, self.finish, self.prompt, self.say,
            self.say, self.chunk, self.chunk, self.add_record, self.append, self.append,
            self.save_nothing, self.archive, self.restore, self.fork, self.delete, self.cleanup,
            self.sweep, self.recover, self.drop_repo,
        )  # fmt: skip
        self.clock.now_ms += self.rng.choice([0, 0, 1, 40_000, 3_600_000, -3_600_000])
        await self.rng.choice(operations)()

    def pick(self) -> Session | None:
        known = list(self.model.sessions.values())
        return self.rng.choice(known) if known else None

    async def refused(self, wanted: type[StoreError], call: Awaitable[object]) -> None:
        with pytest.raises(wanted) as caught:
            await call
        assert type(caught.value) is wanted

    # -- records

    async def create(self) -> None:
        rng = self.rng
        origin: Origin = rng.choice(get_args(Origin))
        wanted = rng.choice([None, *IDS])
        definition = rng.choice([None, *DEFINITIONS])
        repo = rng.choice([None, *self.repos])
        agent, metadata = rng.choice(AGENTS), rng.choice([{}, {"k": 1 << 70}])
        if rng.random() < 0.1:
            added = await self.records.add_repo(f"r{len(self.repos)}", None, self.root)
            self.repos.append(added.id)
        new = NewSession(origin, wanted, definition, agent, repo_id=repo, metadata=metadata)
        if wanted in self.model.sessions:
            await self.refused(AlreadyExistsError, self.records.create(new))
            return
        done = await self.records.create(new)
        self.model.begin(
            done.id, definition or definition_of(done.id), origin, agent=agent, repo=repo,
            metadata=dict(metadata),
        )  # fmt: skip

    async def update(self) -> None:
        session = self.pick()
        if session is None:
            return
        phase = self.rng.choice([None, *PHASES])
        metadata = self.rng.choice([None, {"k": [self.rng.random()]}, {"l": None, "m": {"n": 1}}])
        error = self.rng.choice([None, None, "broken"])
        call = self.records.update(session.id, phase=phase, metadata=metadata, error=error)
        if session.is_final:
            return await self.refused(ConflictError, call)
        await call
        if phase is not None:
            session.phase = session.open_phase = phase
            session.kinds.append("phase")
        if metadata:
            session.metadata |= metadata
            session.kinds.append("meta")
        if error is not None:
            session.errors += 1
            session.last_error = error
            session.kinds.append("error")

    async def finish(self) -> None:
        session = self.pick()
        if session is None:
            return
        outcome = self.rng.choice(OUTCOMES)
        summary = self.rng.choice([None, "all done"])
        note = self.rng.choice([None, {"exit_code": 0}])
        call = self.records.finish(session.id, outcome, summary=summary, note=note)
        if session.is_final:
            return await self.refused(ConflictError, call)
        await call
        session.kinds += ["note"] if note else []
        session.end(outcome, summary=summary)

    async def prompt(self) -> None:
        session = self.pick()
        if session is None:
            return
        call = self.records.prompt(session.id, "please")
        if session.is_final or session.is_busy:
            return await self.refused(ConflictError, call)
        done = await call
        session.say(done.id, "user", "please")
        session.is_busy = True

    async def say(self) -> None:
        session = self.pick()
        if session is None:
            return
        role = self.rng.choice(["user", "agent", "system"])
        call = self.records.add_message(session.id, role, f"{role} says")
        if session.is_final:
            return await self.refused(ConflictError, call)
        done = await call
        session.say(done.id, role, f"{role} says")

    async def chunk(self) -> None:
        session = self.pick()
        if session is None:
            return
        going_on = sorted(session.partial)
        name = self.rng.choice([*going_on, f"answer-{self.rng.randrange(10**9)}"])
        partial, text = self.rng.random() < 0.6, self.rng.choice(["", "word ", "é"])
        call = self.records.add_message(session.id, "agent", text, partial=partial, message_id=name)
        if session.is_final:
            return await self.refused(ConflictError, call)
        await call
        session.say(name, "agent", text, partial=partial)

    async def add_record(self) -> None:
        session = self.pick()
        if session is None:
            return
        kinds: list[RecordKind] = ["checkpoint", "observation", "note"]
        kind = self.rng.choice(kinds)
        call = self.records.add_record(session.id, kind, {"n": 10**25}, ref="same")
        if session.is_final and kind != "observation":
            return await self.refused(ConflictError, call)
        await call
        session.kinds.append(kind)

    async def drop_repo(self) -> None:
        if not self.repos:
            return
        repo = self.rng.choice(self.repos)
        call = self.records.delete_repo(repo)
        if any(each.repo == repo for each in self.model.sessions.values()):
            return await self.refused(ConflictError, call)
        await call
        self.repos.remove(repo)

    # -- upkeep

    async def cleanup(self) -> None:
        force = self.rng.random() < 0.3
        infos = {each: await self.records.get(each) for each in self.model.sessions}
        before = self.clock.now_ms - DAY_MS // 12
        gone = {
            each.id
            for each in self.model.sessions.values()
            if each.origin == "cli"
            and infos[each.id].updated_ms < before
            and (force or each.is_final or each.phase not in RESUMABLE)
        }
        for dry_run in (True, False):
            found = await self.records.cleanup(before, force=force, dry_run=dry_run)
            assert (set(found), len(found)) == (gone, len(gone))
        for each in gone:
            del self.model.sessions[each]

    async def sweep(self) -> None:
        infos = {each: await self.records.get(each) for each in self.model.sessions}
        idle = {
            each.id
            for each in self.model.sessions.values()
            if each.repo and not each.is_final
            and infos[each.id].updated_ms <= self.clock.now_ms - DAY_MS // 12
        }  # fmt: skip
        assert set(await self.records.sweep(DAY_MS // 12)) == idle
        for session_id in idle:
            session = self.model.sessions[session_id]
            session.metadata["reason"] = "idle_timeout"
            session.kinds.append("meta")
            session.end("completed", reason="idle_timeout")

    async def recover(self) -> None:
        busy = [each for each in self.model.sessions.values() if each.is_busy]
        assert await self.records.recover() == len(busy)
        for session in busy:
            last = (await self.records.messages(session.id))[-1]
            session.say(last.id, "system", str(last.content["text"]))
            session.is_busy = False

    # -- panes

    def ensured(self, definition: str, session_id: str) -> Session:
        """The current session after a write: it was there, or it waited, or it begins."""
        session = self.model.current(definition) or self.model.waiting(definition)
        if session is None:
            session = self.model.begin(session_id, definition, "pane")
        session.zone = f"agent:{definition}:current"
        assert session.id == session_id
        return session

    async def append(self) -> None:
        definition = self.rng.choice([*DEFINITIONS, definition_of("abc 123")])
        waiting = self.model.current(definition) or self.model.waiting(definition)
        before = await self.panes.read_state(definition)
        assert before.session_id == (waiting.id if waiting else "")
        await self.panes.append_output(definition, "line")
        after = await self.panes.read_state(definition)
        self.ensured(definition, after.session_id)

    async def save_nothing(self) -> None:
        """A snapshot without bytes: a current zone that nobody would archive."""
        definition = self.rng.choice(DEFINITIONS)
        if self.model.current(definition) is not None:
            return
        done = await self.panes.write_state(definition, b"")
        self.ensured(definition, done.session_id)

    async def archive(self, definition: str | None = None) -> None:
        definition = definition or self.rng.choice(DEFINITIONS)
        session = self.model.current(definition)
        has_bytes = (await self.panes.read_state(definition)).output_bytes > 0
        done = await self.panes.archive(definition)
        assert (done is not None) == has_bytes == (session is not None and has_bytes)
        if done is not None and session is not None:
            self.archived(session, done.archive_zoneid)

    def archived(self, session: Session, zone: str) -> None:
        session.zone = zone
        if not session.is_final:
            session.end("completed", reason="archived")

    def archives(self) -> list[Session]:
        return [each for each in self.model.sessions.values() if ":archive:" in each.zone]

    def dropped(self, session: Session) -> None:
        """Its zone without bytes had to go."""
        session.zone = ""
        if session.origin == "pane" and len(session.kinds) == 1:
            del self.model.sessions[session.id]

    async def restore(self) -> None:
        if not self.archives():
            return
        session = self.rng.choice(self.archives())
        definition = session.zone.split(":")[1]
        before = self.model.current(definition)
        done = await self.panes.restore(session.zone)
        assert done.session_id == session.id
        if before is not None and done.archived:
            self.archived(before, done.archived)
        elif before is not None:
            self.dropped(before)
        session.zone = f"agent:{definition}:current"
        if session.is_final:
            session.go_on()

    async def fork(self) -> None:
        places = [each for each in self.model.sessions.values() if each.zone]
        if not places:
            return
        source, to = self.rng.choice(places), self.rng.choice(DEFINITIONS)
        before = self.model.current(to)
        if before is source and not (await self.panes.read_state(to)).output_bytes:
            return
        definition = source.zone.split(":")[1]
        place = source.zone if ":archive:" in source.zone else definition
        new_id = await self.panes.fork(place, to, archive_first=True)
        if before is not None and (zone := await self.zone_of(before.id)):
            self.archived(before, zone)
        elif before is not None:
            self.dropped(before)
        session = self.model.begin(new_id, to, "pane", reason="forked")
        session.reason = None
        session.zone = f"agent:{to}:current"

    async def zone_of(self, session_id: str) -> str:
        try:
            return (await self.records.get(session_id)).zone
        except NotFoundError:
            return ""

    async def delete(self) -> None:
        if not self.archives():
            return
        session = self.rng.choice(self.archives())
        assert await self.panes.delete_archive(session.zone)
        del self.model.sessions[session.id]

    # -- comparing

    async def compare(self) -> None:
        for session in self.model.sessions.values():
            assert shown(await self.records.get(session.id)) == expected(session)
            found = await self.records.records(session.id)
            assert [each.kind for each in found] == session.kinds
            assert [each.seq for each in found] == list(range(len(session.kinds)))
            messages = await self.records.messages(session.id)
            assert [said(each) for each in messages] == session.messages
            for each in messages:
                wanted = True if each.id in session.partial else each.role != "agent" and None
                assert each.content.get("partial") is wanted
            await self.compare_pages(session, messages)
        await self.compare_lists()

    async def compare_pages(self, session: Session, whole: list[Message]) -> None:
        """Page by page there is no gap, and nothing twice."""
        limit, found, after = self.rng.randint(1, 4), [], -1
        while page := await self.records.messages(session.id, after_seq=after, limit=limit):
            assert len(page) <= limit
            found += page
            after = page[-1].seq
        assert found == whole

    async def compare_lists(self) -> None:
        rng, ordered = self.rng, self.model.newest_first()
        for _ in range(6):
            wanted = Filter(
                tuple(rng.choices(STATUSES, k=rng.randint(0, 3))),
                rng.choice([None, None, "no such repo", *self.repos]),
                rng.choice([*AGENTS, "nobody"]),
            )
            chosen = [
                each.id
                for each in ordered
                if (not wanted.statuses or each.status in wanted.statuses)
                and wanted.repo_id in (None, each.repo)
                and wanted.agent_name in (None, each.agent)
            ]
            limit, offset = rng.randint(1, 100), rng.randint(0, len(chosen) + 1)
            page = await self.records.page(wanted, limit=limit, offset=offset)
            assert [each.id for each in page.sessions] == chosen[offset : offset + limit], wanted
            assert page.total == len(chosen), wanted


def shown(info: SessionInfo) -> tuple[object, ...]:
    return (
        info.id, info.definition_id, info.origin, info.status, info.phase, info.agent_name,
        info.repo_id, info.metadata, info.error_count, info.last_error, info.summary, info.reason,
        info.is_busy, info.zone, info.records, info.ended_ms is not None, info.is_archived,
        info.is_resumable,
    )  # fmt: skip


def expected(session: Session) -> tuple[object, ...]:
    return (
        session.id, session.definition, session.origin, session.status, session.phase,
        session.agent, session.repo, session.metadata, session.errors, session.last_error,
        session.summary, session.reason, session.is_busy, session.zone, len(session.kinds),
        session.is_final, ":archive:" in session.zone,
        not session.is_final and session.phase in RESUMABLE,
    )  # fmt: skip


def said(message: Message) -> tuple[str, str, str]:
    return message.id, message.role, str(message.content["text"])


@pytest.mark.parametrize("seed", SEEDS)
async def test_any_sequence_is_as_in_the_model(
    open_store: StoreOpener, clock: FakeClock, tmp_path: Path, seed: int
) -> None:
    run = Run(random.Random(seed), clock, tmp_path / "root")
    for number in range(STEPS):
        (run.root / f"r{number}").mkdir(parents=True)
    await run.open(open_store)
    for number in range(STEPS):
        await run.step()
        if number % 20 == 19:
            await run.compare()
        if number % 40 == 39:
            await run.close()
            await run.open(open_store)
            await run.compare()
    await run.panes.close()


async def test_lost_change_is_noticed(
    open_store: StoreOpener, clock: FakeClock, tmp_path: Path
) -> None:
    """The control: the comparison fails when the model has had one change more."""
    run = Run(random.Random(1), clock, tmp_path)
    await run.open(open_store)
    await run.records.create(NewSession("cli", id="s"))
    session = run.model.begin("s", "s", "cli")
    await run.compare()
    session.errors += 1
    with pytest.raises(AssertionError):
        await run.compare()
    await run.panes.close()
