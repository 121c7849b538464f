"""All operations in any order against the plain-dict model, on one folder, with small limits.

The limits are so small that sealing, joining, releasing, trimming and checkpoints happen all the
time beside the operations. After every step the store must hold what the model holds, have answered
what the model answers, and have announced exactly the changes made. Kills are the business of
test_kill_machine.py: they need a process of their own.

ZONED_EXAMPLES raises the number of runs, ZONED_SEED makes them others than the usual ones,
ZONED_SHRINK looks for the smallest failing run, which takes minutes.
"""

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
from blake3 import blake3
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from filestore import (
    Change,
    FileInfo,
    FileStore,
    Limits,
    NotFoundError,
    StoreError,
    Transaction,
    VersionConflictError,
    ZoneInfo,
    reading,
    streaming,
)
from filestore.changes import Subscription
from filestore.model import PIECE_BYTES_MAX
from tests.model import values
from tests.model.ledger import Announced, Ledger, Mark, Step
from tests.support import child_model as ops
from tests.support.child import writer_bounds
from tests.support.child_model import Op, Refused, UnitFailedError, lines_of, unpack

T = TypeVar("T")

EXAMPLES = int(os.environ.get("ZONED_EXAMPLES", "200"))
STEPS = 40
STEP_S_MAX = 20.0
"""A step that takes longer hangs; nothing here takes a tenth of it."""
CHANGES_KEPT = 24
"""As many as one step may make, so that a consumer who looks after every step never misses one."""
WRONG_VERSION = 1 << 60
PREFIX = "a/"

limits = st.builds(
    Limits,
    seal_bytes=st.sampled_from((64, 200, 1024, 4096)),
    log_bytes_soft=st.sampled_from((1, 1000, 20_000)),
    wal_bytes_soft=st.sampled_from((30_000, 200_000)),
    wal_bytes_hard=st.just(400_000),
    changes_kept=st.just(CHANGES_KEPT),
    cut_cache_bytes=st.sampled_from((0, 50_000)),
    readers=st.sampled_from((1, 2)),
)


def exact(meta: Mapping[str, Any]) -> str:
    """Meta as JSON: to Python, true and 1 and 1.0 are equal."""
    return json.dumps(meta, sort_keys=True)


class StoreMachine(RuleBasedStateMachine):
    """The store, its ledger, and who listens to it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="zoned-model-"))
        self.runner = asyncio.Runner()
        self.ledger = Ledger()
        self.now_ms = 1_700_000_000_000
        self.store: FileStore | None = None
        self.is_sound = True
        self.versions: dict[Mark | int, int] = {}
        self.version_max = 0
        self.times: dict[Mark, tuple[int, int]] = {}
        self.births: dict[int, int] = {}
        self.streams: list[tuple[AsyncIterator[bytes], bytes]] = []
        self.history: list[tuple[int, Announced]] = []
        """Every change since the store was opened, with its position."""
        self.opened_at = 0

    # -- running

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out one step on the machine's own loop. A failed one leaves nothing to check."""

        async def limited() -> T:
            async with asyncio.timeout(STEP_S_MAX):
                return await work

        try:
            return self.runner.run(limited())
        except BaseException:
            self.is_sound = False
            raise

    @property
    def opened(self) -> FileStore:
        assert self.store is not None
        return self.store

    @initialize(limits=limits)
    def open_first(self, limits: Limits) -> None:
        self.run(self._open(limits))

    async def _open(self, limits: Limits) -> None:
        self.store = await FileStore.open(self.folder, limits=limits, clock=lambda: self.now_ms)
        assert self.store.position >= self.version_max, "the counter went back"
        self.history.clear()
        self.opened_at = self.store.position
        self.feed = self.store.changes()
        self.filtered = self.store.changes(PREFIX)
        self.slow, self.slow_at = self.store.changes(), self.store.position

    async def _close(self) -> None:
        """Close; every feed must end after what it has not told yet."""
        assert self.store is not None
        await self._finish_streams()
        slow = [change for position, change in self.history if position > self.slow_at]
        await self.store.close()
        assert [change async for change in self.feed] == []
        assert [change async for change in self.filtered] == []
        await self._assert_followed(self.slow, slow, may_gap=len(slow) > CHANGES_KEPT)
        with pytest.raises(StopAsyncIteration):
            await anext(self.slow)
        assert not list(self.folder.glob("*-wal")), "a clean close leaves no WAL"
        self.store = None

    def teardown(self) -> None:
        try:
            if self.store is not None and self.is_sound:
                self.run(self._end())
        finally:
            self._abandon()
            shutil.rmtree(self.folder)

    async def _end(self) -> None:
        await self._finish_streams()
        await self.opened.tidy()
        await ops.assert_clean(self.opened)
        await self._assert_equal()
        await self._close()

    def _abandon(self) -> None:
        async def close() -> None:
            for stream, _ in self.streams:
                await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
            if self.store is not None:
                await self.store.close()

        try:
            self.runner.run(close())
        finally:
            self.runner.close()

    # -- one step

    async def _do(self, op: Op) -> None:
        """Carry out `op` on both sides and compare all that can be seen of it."""
        await self._settle(self._compare(op, await self._try(op)))

    async def _try(self, op: Op, *, is_alone: bool = True) -> Any:
        """What the store answers; an error of its own, or the unit's, is an answer too."""
        try:
            if op["op"] == "transact" and is_alone:
                return await self._transact(op)
            return await self._perform(self.opened, op)
        except (StoreError, UnitFailedError) as error:
            return error

    def _compare(self, op: Op, answer: Any) -> list[Step]:
        """Carry out `op` in the ledger: it must come to the same answer."""
        expected = ""
        try:
            steps = self.ledger.apply(op)
        except Refused as refused:
            steps, expected = [], refused.args[0]
        if not isinstance(answer, Exception):
            assert not expected, f"{op} should have been refused: {expected}"
        elif type(answer).__name__ != expected:
            raise AssertionError(f"{op} should have been done ({expected})") from answer
        else:
            if isinstance(answer, VersionConflictError) and op["op"] == "write":
                self._assert_conflict(answer, self.ledger.files.get((op["zone"], op["name"])))
            return []
        answers = answer if op["op"] == "transact" else [answer]
        for step, found in zip(steps, answers, strict=True):
            self._assert_answer(step, found)
        return steps

    def _assert_conflict(self, error: VersionConflictError, mark: Mark | None) -> None:
        if mark is None:
            assert error.current_version == 0
        else:
            # In a burst the version may be so new that nobody has seen it yet.
            assert error.current_version == self.versions.get(mark, error.current_version) > 0

    async def _perform(self, target: FileStore | Transaction, op: Op) -> Any:
        if op["op"] != "write":
            return await ops.apply(target, op)
        zone, name, data = op["zone"], op["name"], unpack(op["data"])
        guard = op.get("guard")
        if guard is None:
            return await target.write(zone, name, data)
        version = 0 if guard == "absent" else WRONG_VERSION
        if guard == "current":
            info = await target.stat(zone, name)
            version = info.version if info else 0
        return await target.write(zone, name, data, if_version=version)

    async def _transact(self, op: Op) -> list[Any]:
        """Half of the writes come prepared; inside, everything done so far must be visible."""
        store, trial = self.opened, self.ledger.fork()
        prepared = {
            number: await store.prepare(unpack(inner["data"]))
            for number, inner in enumerate(op["ops"])
            if inner["op"] == "write" and number % 2 and inner.get("guard") is None
        }

        async def unit(tx: Transaction) -> list[Any]:
            answers: list[Any] = []
            for number, inner in enumerate(op["ops"]):
                if number in prepared:
                    answers.append(await tx.write(inner["zone"], inner["name"], prepared[number]))
                else:
                    answers.append(await self._perform(tx, inner))
                trial.apply(inner)
                await assert_visible(tx, trial, inner)
            if op["fails"]:
                raise UnitFailedError
            return answers

        return await store.transact(unit)

    def _assert_answer(self, step: Step, found: Any) -> None:
        if not step.fields:
            assert exact({"answer": found}) == exact({"answer": step.answer})
            return
        for name, expected in step.fields.items():
            assert getattr(found, name) == expected, (name, found)
        if step.changes and isinstance(found, FileInfo):
            assert found.modified_ms == self.now_ms

    async def _settle(self, steps: list[Step]) -> None:
        """Look at the feed, then at every zone and file."""
        changes = [change for step in steps for change in step.changes]
        before = self.version_max
        for expected in changes:
            self._assert_change(await anext(self.feed), expected, before)
        for expected in changes:
            if matches_prefix(expected):
                assert (await anext(self.filtered)).position == self._position_of(expected)
        await self._assert_infos(before)
        for zone, name in {(c.zone, c.name) for c in changes if c.name is not None}:
            await self._assert_content(zone, name)

    def _position_of(self, expected: Announced) -> int:
        return next(position for position, change in reversed(self.history) if change is expected)

    def _assert_change(self, change: Change, expected: Announced, before: int) -> None:
        assert_same(change, expected)
        last = self.history[-1][0] if self.history else self.opened_at
        assert last < change.position <= self.opened.position, "positions rise"
        self.history.append((change.position, expected))
        if expected.kind == "meta" and expected.name is not None:
            assert expected.mark is not None
            known = self.versions.setdefault(expected.mark, change.version)
            assert change.version == known, "the version of a file is that of its content"
            return
        assert change.version > before, "versions rise"
        self.version_max = max(self.version_max, change.version)
        if expected.mark is not None:
            self.versions[expected.mark] = change.version

    def _learn(self, mark: Mark | int, version: int, before: int) -> None:
        if mark not in self.versions:
            assert version > before, "a new version is higher than all before"
            assert version not in self.versions.values(), "no version comes twice"
            self.versions[mark] = version
            self.version_max = max(self.version_max, version)
        assert self.versions[mark] == version

    # -- comparing

    async def _assert_infos(self, before: int) -> None:
        ledger = self.ledger
        zones = await all_zones(self.opened)
        assert [zone.name for zone in zones] == sorted(ledger.model.zones)
        for zone in zones:
            state = ledger.model.zones[zone.name]
            self._learn(ledger.zones[zone.name], zone.version, before)
            assert exact(zone.meta) == exact(state.meta)
            infos = await self.opened.files(zone.name)
            assert infos is not None
            assert [info.name for info in infos] == sorted(state.files)
            for info in infos:
                self._assert_info(info, before)

    def _assert_info(self, info: FileInfo, before: int) -> None:
        mark = self.ledger.files[info.zone, info.name]
        file = self.ledger.model.zones[info.zone].files[info.name]
        self._learn(mark, info.version, before)
        assert info.size == len(file.data)
        assert info.lines == len(lines_of(file.data)), (info, file.data[-40:])
        assert exact(info.meta) == exact(file.meta)
        assert info.digest in (None, blake3(file.data).hexdigest())
        assert not info.unchanged
        times = (info.created_ms, info.modified_ms)
        assert self.times.setdefault(mark, times) == times
        assert self.births.setdefault(mark.birth, info.created_ms) == info.created_ms

    async def _assert_content(self, zone: str, name: str) -> None:
        data = self.ledger.data(zone, name)
        if data is None:
            assert await self.opened.stat(zone, name) is None
            return
        assert await self.opened.read(zone, name) == data
        page = await self.opened.read_lines(zone, name, 0, 1_000_000)
        assert page.lines == lines_of(data)
        assert page.total == len(page.lines)

    async def _assert_equal(self) -> None:
        found = await ops.dump(self.opened)
        assert found == self.ledger.model, f"{found}\nexpected\n{self.ledger.model}"
        await self._assert_infos(self.version_max)

    async def _assert_followed(
        self, feed: Subscription, expected: list[Announced], *, may_gap: bool
    ) -> None:
        """A feed that was left alone tells all; or only of a gap, if more happened than is kept."""
        for number, wanted in enumerate(expected):
            change = await anext(feed)
            if change.kind == "gap":
                assert number == 0
                assert may_gap, "a gap without need"
                assert change.position == self.opened.position
                return
            assert_same(change, wanted)

    # -- rules: writing

    @rule(zone=values.zones, name=values.names, data=values.values, guard=values.guards)
    def write(self, zone: str, name: str, data: bytes, guard: str | None) -> None:
        self.run(self._do(values.write(zone, name, data, guard)))

    @rule(zone=values.zones, name=values.names, data=values.values)
    def append(self, zone: str, name: str, data: bytes) -> None:
        self.run(self._do(ops.append(zone, name, data)))

    @rule(
        zone=values.zones,
        name=values.names,
        parts=st.lists(values.scraps, min_size=2, max_size=12),
    )
    def append_often(self, zone: str, name: str, parts: list[bytes]) -> None:
        async def work() -> None:
            for part in parts:
                await self._do(ops.append(zone, name, part))

        self.run(work())

    @rule(zone=values.zones, name=values.names, lines=values.lines)
    def append_lines(self, zone: str, name: str, lines: list[bytes]) -> None:
        self.run(self._do(ops.append_lines(zone, name, lines)))

    @rule(
        zone=values.zones,
        name=st.one_of(values.names, st.none()),
        changes=values.meta_changes,
    )
    def set_meta(self, zone: str, name: str | None, changes: dict[str, Any]) -> None:
        self.run(self._do(ops.set_meta(zone, name, changes)))

    @rule(zone=values.zones, name=values.names)
    def delete_file(self, zone: str, name: str) -> None:
        self.run(self._do(ops.delete_file(zone, name)))

    @rule(zone=values.zones)
    def delete_zone(self, zone: str) -> None:
        self.run(self._do(ops.delete_zone(zone)))

    @rule(old=values.zones, new=values.zones)
    def move_zone(self, old: str, new: str) -> None:
        self.run(self._do(ops.move_zone(old, new)))

    @rule(src=values.zones, dst=values.zones)
    def copy_zone(self, src: str, dst: str) -> None:
        self.run(self._do(ops.copy_zone(src, dst)))

    @rule(
        work=st.lists(values.operations(values.values, values.guards), max_size=6),
        fails=st.sampled_from((False, False, True)),
    )
    def transact(self, work: list[Op], fails: bool) -> None:
        self.run(self._do(ops.transact(work, fails=fails)))

    @rule(
        work=st.lists(
            st.one_of(
                values.operations(values.small_values, st.sampled_from((None, "wrong", "absent"))),
                st.builds(
                    ops.transact,
                    st.lists(values.operations(values.small_values, st.none()), max_size=3),
                    fails=st.booleans(),
                ),
            ),
            min_size=2,
            max_size=8,
        )
    )
    def burst(self, work: list[Op]) -> None:
        """Several callers at once: one group, in order of arrival, failing ones undone alone."""
        self.run(self._burst(work))

    async def _burst(self, work: list[Op]) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._try(op, is_alone=False)) for op in work]
        compared = [self._compare(op, task.result()) for op, task in zip(work, tasks, strict=True)]
        await self._settle([step for steps in compared for step in steps])

    @rule(by_ms=st.sampled_from((-5_000_000, -1, 1, 1_000)))
    def pass_time(self, by_ms: int) -> None:
        self.now_ms += by_ms

    # -- rules: reading

    @rule(
        zone=values.zones,
        name=values.names,
        offset=st.sampled_from((0, 1, 63, 64, 65, 500, 4_096, 8_990, 80_000)),
        length=st.sampled_from((None, 0, 1, 64, 1_000, 9_000)),
        is_streamed=st.booleans(),
    )
    def read_range(
        self, zone: str, name: str, offset: int, length: int | None, is_streamed: bool
    ) -> None:
        async def work() -> None:
            data = self.ledger.data(zone, name)
            end = None if length is None else offset + length
            if is_streamed:
                reading = self._collect(self.opened.open_read(zone, name, offset, length))
            else:
                reading = self.opened.read(zone, name, offset, length)
            await self._assert_read(reading, None if data is None else data[offset:end])

        self.run(work())

    async def _collect(self, stream: AsyncIterator[bytes]) -> bytes:
        found = [piece async for piece in stream]
        assert all(0 < len(piece) <= PIECE_BYTES_MAX for piece in found)
        return b"".join(found)

    async def _assert_read(self, reading: Awaitable[T], expected: T | None) -> None:
        """The expected result, or NotFoundError where there is no file."""
        if expected is None:
            with pytest.raises(NotFoundError):
                await reading
        else:
            assert await reading == expected

    @rule(
        zone=values.zones,
        name=values.names,
        start=st.sampled_from((0, 1, 2, 5, 100, 699, 2_000)),
        limit=st.sampled_from((0, 1, 3, 50, 5_000)),
    )
    def read_lines(self, zone: str, name: str, start: int, limit: int) -> None:
        async def work() -> None:
            data = self.ledger.data(zone, name)
            lines = lines_of(data or b"")
            expected = None if data is None else (lines[start : start + limit], len(lines))

            async def reading() -> tuple[list[bytes], int]:
                page = await self.opened.read_lines(zone, name, start, limit)
                return page.lines, page.total

            await self._assert_read(reading(), expected)

        self.run(work())

    @rule(zone=values.zones, name=values.names)
    def digest(self, zone: str, name: str) -> None:
        data = self.ledger.data(zone, name)
        expected = None if data is None else blake3(data).hexdigest()
        self.run(self._assert_read(self.opened.digest(zone, name), expected))

    @rule(
        prefix=st.sampled_from(values.PREFIXES),
        after=st.one_of(st.none(), st.sampled_from((*values.ZONES, "", "a/zz", "😁"))),
        limit=st.integers(1, 4),
        is_reverse=st.booleans(),
    )
    def page_zones(self, prefix: str, after: str | None, limit: int, is_reverse: bool) -> None:
        names = sorted(
            (n for n in self.ledger.model.zones if n.startswith(prefix)), reverse=is_reverse
        )
        if after is not None:
            names = [n for n in names if (n < after if is_reverse else n > after)]
        found = self.run(
            all_zones(self.opened, prefix, after=after, limit=limit, reverse=is_reverse)
        )
        assert [zone.name for zone in found] == names

    @rule(zone=values.zones, name=values.names)
    def start_stream(self, zone: str, name: str) -> None:
        """A streaming read that stays open while other things happen."""

        async def work() -> None:
            data = self.ledger.data(zone, name)
            if data and len(self.streams) < 3:
                stream = self.opened.open_read(zone, name)
                first = await anext(stream)
                assert data.startswith(first)
                self.streams.append((stream, data[len(first) :]))

        self.run(work())

    @rule()
    def finish_streams(self) -> None:
        self.run(self._finish_streams())

    async def _finish_streams(self) -> None:
        """Each has the content that was there when it was started."""
        while self.streams:
            stream, rest = self.streams.pop()
            assert await self._collect(stream) == rest

    # -- rules: the feed

    @rule(data=values.scraps)
    def catch_up(self, data: bytes) -> None:
        """A consumer that looks seldom; the write makes sure that there is something to tell."""

        async def work() -> None:
            await self._do(ops.append("slow", "probe", data + b"."))
            expected = [change for position, change in self.history if position > self.slow_at]
            self.slow_at = self.opened.position
            may_gap = len(expected) > CHANGES_KEPT
            await self._assert_followed(self.slow, expected, may_gap=may_gap)

        self.run(work())

    @rule(back=st.integers(0, 99), prefix=st.sampled_from(("", PREFIX)))
    def follow_from_the_past(self, back: int, prefix: str) -> None:
        async def work() -> None:
            positions = [self.opened_at, *(position for position, _ in self.history)]
            since = positions[max(0, len(positions) - 1 - back)]
            await self._do(ops.append("slow", "probe", b"."))
            await self._do(ops.append(PREFIX, "probe", b"."))
            expected = [
                change
                for position, change in self.history
                if position > since and (not prefix or matches_prefix(change))
            ]
            missed = sum(1 for position, _ in self.history if position > since)
            feed = self.opened.changes(prefix, since)
            await self._assert_followed(feed, expected, may_gap=missed > CHANGES_KEPT)

        self.run(work())

    # -- rules: upkeep

    @precondition(lambda self: not self.streams)
    @rule()
    def tidy(self) -> None:
        """An open streaming read holds back the release of chunks, so none may be open."""

        async def work() -> None:
            await self.opened.tidy()
            await self._settle([])

        self.run(work())

    @rule()
    def look_everywhere(self) -> None:
        self.run(self._assert_equal())

    @rule()
    def check(self) -> None:
        self.run(ops.assert_clean(self.opened))

    @rule()
    def look_from_beside(self) -> None:
        """A read-only store on the same folder sees the same."""

        async def work() -> None:
            beside = await FileStore.open(self.folder, read_only=True)
            try:
                assert await ops.dump(beside) == self.ledger.model
            finally:
                await beside.close()

        self.run(work())

    @rule(limits=limits, back_ms=st.sampled_from((0, 0, 86_400_000)))
    def reopen(self, limits: Limits, back_ms: int) -> None:
        """Close and open again, perhaps with a clock that has jumped back."""

        async def work() -> None:
            await self._close()
            self.now_ms -= back_ms
            await self._open(limits)
            await self._assert_equal()

        self.run(work())


# -- parts


def assert_same(change: Change, expected: Announced) -> None:
    for name in ("kind", "zone", "name", "offset", "size", "source"):
        assert getattr(change, name) == getattr(expected, name), (name, change, expected)


def matches_prefix(change: Announced) -> bool:
    return change.zone.startswith(PREFIX) or (change.source or "").startswith(PREFIX)


async def all_zones(
    store: FileStore,
    prefix: str = "",
    *,
    after: str | None = None,
    limit: int = 3,
    reverse: bool = False,
) -> list[ZoneInfo]:
    found: list[ZoneInfo] = []
    while True:
        page = await store.zones(prefix, after=after, limit=limit, reverse=reverse)
        assert len(page.zones) <= limit
        found += page.zones
        after = page.after
        if after is None:
            return found


async def assert_visible(tx: Transaction, ledger: Ledger, op: Op) -> None:
    """What a unit has done so far, it sees."""
    zone: str = op["zone"] if "zone" in op else op["new"]
    name: str | None = op.get("name")
    assert (await tx.zone(zone) is not None) == (zone in ledger.model.zones)
    infos = await tx.files(zone)
    state = ledger.model.zones.get(zone)
    found = None if infos is None else [(info.name, info.size, info.lines) for info in infos]
    expected = state and [
        (key, len(file.data), len(lines_of(file.data))) for key, file in sorted(state.files.items())
    ]
    assert found == expected
    data = None if name is None else ledger.data(zone, name)
    if name is not None and data is not None:
        assert await tx.read(zone, name) == data
        assert (await tx.read_lines(zone, name, 0, 1_000_000)).lines == lines_of(data)


@pytest.mark.slow
def test_any_operations_in_any_order_behave_as_the_model_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (
        ("TRIM_BYTES_MIN", 500),
        ("SHRINK_FREE_PAGES_MIN", 8),
        ("SHRINK_PAGES", 4),
        ("EMPTY_TAILS_MAX", 2),
        ("HEADS_KEPT_MAX", 4),
    ):
        monkeypatch.setattr(writer_bounds(name), name, value)
    # Streaming reads take many steps even here, so that others come in between.
    for module in (streaming, reading):
        monkeypatch.setattr(module, "PIECE_BYTES_MAX", 2048)
    machine: type[RuleBasedStateMachine] = StoreMachine
    if "ZONED_SEED" in os.environ:
        machine = seed(int(os.environ["ZONED_SEED"]))(StoreMachine)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            print_blob=True,
            report_multiple_bugs=False,
            phases=[Phase.generate, *([Phase.shrink] if "ZONED_SHRINK" in os.environ else [])],
            # Each run makes a store, and each step commits: slow by nature, not by mistake.
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
