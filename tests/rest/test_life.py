"""What the daemon does by itself: idle sessions, interrupted answers; and kill -9 at any moment."""

import asyncio
import itertools
import signal
import threading
from pathlib import Path

import pytest

from filestore import FileStore
from filestore.errors import StorageFullError
from filestore.records import NewSession, Records
from srv.idle import LOOK_S_MAX, end_idle, tell_interrupted
from tests.conftest import FakeClock, StoreOpener
from tests.rest.tools import Answer, Rest, at
from tests.support.child_model import assert_clean
from tests.support.daemon import ANSWER_S_MAX, serving
from tests.support.faults import until_sync

HALF_HOUR_S = 30 * 60


class Stop(Exception):
    """The test has seen enough."""


async def test_idle_session_is_ended_by_the_clock(
    open_store: StoreOpener, clock: FakeClock, tmp_path: Path
) -> None:
    """Each sleep moves the clock; a session ends in the time, one that is used does not."""
    records = Records(await open_store(clock=clock), clock=clock)
    repo = await records.add_repo(".", None, tmp_path)
    for name in ("idle", "used"):
        await records.create(NewSession("rest", name, repo_id=repo.id))
    began_ms, slept = clock.now_ms, 0.0

    async def sleep(seconds: float) -> None:
        nonlocal slept
        assert 0 < seconds <= LOOK_S_MAX
        slept += seconds
        clock.now_ms += int(seconds * 1000)
        await records.add_message("used", "system", "still here")
        if (await records.get("idle")).status != "active":
            raise Stop

    with pytest.raises(Stop):
        await end_idle(records, HALF_HOUR_S, sleep=sleep)
    assert HALF_HOUR_S <= slept <= HALF_HOUR_S + 2 * LOOK_S_MAX
    ended = await records.get("idle")
    assert ended.metadata == {"reason": "idle_timeout"}
    assert ended.ended_ms is not None
    assert ended.ended_ms - began_ms >= HALF_HOUR_S * 1000
    assert (await records.get("used")).status == "active"


async def test_sweep_that_fails_is_told_and_tried_again(
    open_store: StoreOpener,
    clock: FakeClock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Unlucky(Records):
        """Fails once, as on a full disk."""

        is_full = True

        async def sweep(self, idle_ms: int) -> list[str]:
            if self.is_full:
                self.is_full = False
                raise StorageFullError("no room", operation="sweep")
            return await super().sweep(idle_ms)

    records = Unlucky(await open_store(clock=clock), clock=clock)
    repo = await records.add_repo(".", None, tmp_path)
    await records.create(NewSession("rest", "idle", repo_id=repo.id))
    clock.now_ms += 10_000
    turns = itertools.count()

    async def sleep(_: float) -> None:
        if next(turns) == 2:
            raise Stop

    with pytest.raises(Stop):
        await end_idle(records, 5, sleep=sleep)
    assert (await records.get("idle")).status == "completed"
    assert "idle sessions were not ended: sweep: no room" in caplog.text


async def test_idle_time_of_none_ends_nobody(store: FileStore) -> None:
    async with asyncio.timeout(ANSWER_S_MAX):
        await end_idle(Records(store), 0)


async def test_start_of_which_nobody_can_be_told_is_no_end(
    store: FileStore, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(Records):
        async def recover(self) -> int:
            raise StorageFullError("no room", operation="recover")

    await tell_interrupted(Full(store))
    assert "no room" in caplog.text


def test_idle_session_ends_in_the_daemon(tmp_path: Path) -> None:
    environ = {"AGENT_WORKSPACE_ROOT": str(tmp_path), "ZONED_IDLE_TIMEOUT": "1s"}
    with serving(tmp_path / "data", environ=environ) as daemon:
        rest = Rest(daemon)
        session = rest.session(rest.repo(tmp_path))
        until_sync(lambda: rest.ok("GET", at(session))["status"] != "active", ANSWER_S_MAX, 0.05)
        ended = rest.ok("GET", at(session))
        assert (ended["status"], ended["reason"]) == ("completed", "idle_timeout")
        assert ended["metadata"] == {"reason": "idle_timeout"}
        told = [each for each in daemon.events() if each["event"] == "ended an idle session"]
        assert [each["session"] for each in told] == [session]


def test_answer_that_a_kill_interrupted_is_told_and_the_session_goes_on(tmp_path: Path) -> None:
    environ = {"AGENT_WORKSPACE_ROOT": str(tmp_path)}
    with serving(tmp_path / "data", environ=environ) as daemon:
        rest = Rest(daemon)
        repo = rest.repo(tmp_path)
        asked, quiet = rest.session(repo), rest.session(repo)
        prompt = rest.ok("POST", f"{at(asked)}/prompt", {"text": "why?"}, status=202)
        chunk = {"role": "agent", "content": "Be", "partial": True, "messageId": "m"}
        rest.ok("POST", f"{at(asked)}/messages", chunk, status=201)
        daemon.end(signal.SIGKILL)
    with serving(tmp_path / "data", environ=environ) as daemon:
        rest = Rest(daemon)
        question, answer, told = rest.ok("GET", at(asked))["messages"]
        assert question["id"] == prompt["messageId"]
        assert answer["content"] == {"type": "text", "text": "Be", "partial": True}
        assert told["role"] == "system"
        assert told["content"]["interrupted"] == prompt["messageId"]
        assert rest.ok("GET", at(asked))["busy"] is False
        assert rest.ok("GET", at(quiet))["messages"] == []
        rest.ok("POST", f"{at(asked)}/prompt", {"text": "again"}, status=202)


# -- kill -9 in the middle of everything


class Caller(threading.Thread):
    """Begins sessions, asks, answers and ends, one after the other, until nobody answers."""

    def __init__(self, rest: Rest, repo: str) -> None:
        super().__init__()
        self._rest = rest
        self._repo = repo
        self.done: list[tuple[str, str, str]] = []
        """What was acknowledged: the call, the session, and the id of the message."""

    def run(self) -> None:
        try:
            while True:
                self._one()
        except OSError:
            return

    def _one(self) -> None:
        made = self._call("", "/api/sessions", {"repoId": self._repo}).json["id"]
        self.done.append(("begun", made, ""))
        place = at(made)
        asked = self._call(made, f"{place}/prompt", {"text": "why?"}).json["messageId"]
        self.done.append(("message", made, asked))
        said = {"role": "agent", "content": "because " * 500}
        self.done.append(("message", made, self._call(made, f"{place}/messages", said).json["id"]))
        self._call(made, f"{place}/error", {"message": "broke", "details": [1]})
        self.done.append(("ended", made, ""))

    def _call(self, session: str, target: str, body: object) -> Answer:
        answer = self._rest.call("POST", target, body, is_checked=False)
        if not answer.data:
            raise ConnectionResetError
        assert answer.status < 300, answer
        return answer


@pytest.mark.parametrize("kill_after", [7, 60])
async def test_kill_in_the_middle_of_calls_leaves_each_old_or_new(
    tmp_path: Path, kill_after: int
) -> None:
    environ = {"AGENT_WORKSPACE_ROOT": str(tmp_path)}
    config = {"sessions_max": 1000}
    data = tmp_path / "data"
    with serving(data, config=config, environ=environ) as daemon:
        rest = Rest(daemon)
        repo = rest.repo(tmp_path)
        callers = [Caller(rest, repo) for _ in range(4)]
        for each in callers:
            each.start()
        until_sync(
            lambda: sum(len(each.done) for each in callers) >= kill_after, ANSWER_S_MAX, 0.001
        )
        daemon.end(signal.SIGKILL)
        for each in callers:
            each.join(ANSWER_S_MAX)
    with serving(data, environ=environ) as daemon:
        rest = Rest(daemon)
        for caller in callers:
            for kind, session, message in caller.done:
                found = rest.ok("GET", at(session))
                roles = [each["role"] for each in found["messages"]]
                assert roles in ([], ["user"], ["user", "system"], ["user", "agent"],
                                 ["user", "agent", "system"])  # fmt: skip
                if message:
                    assert message in [each["id"] for each in found["messages"]]
                # An error, its message and the end are one.
                is_ended = roles == ["user", "agent", "system"]
                assert (found["status"] == "error") == is_ended == bool(found["errorCount"])
                assert kind != "ended" or is_ended
        total = rest.ok("GET", f"/api/sessions?repoId={repo}")["total"]
        begun = sum(kind == "begun" for each in callers for kind, _, _ in each.done)
        assert begun <= total <= begun + len(callers)
        assert daemon.end() == 0
    async with await FileStore.open(data) as store:
        await assert_clean(store)
