"""`zoned session …`: every line of its table, with a daemon and without."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from filestore import FileStore
from filestore.records import NewSession, Records
from filestore.sessions import Sessions
from filestore.times import parse
from srv.client.blocking import BlockingClient
from tests.cli.tools import SNAPSHOT, Zoned
from tests.support.clock import FakeClock
from tests.support.processes import run

MINUTE, HOUR = 60_000, 3_600_000
STATE = {
    "agent_id", "agent_name", "purpose", "created_at", "last_updated", "phase", "metadata",
    "resume_ready", "history", "error_count", "last_error",
}  # fmt: skip
ENDED = {"finalized_at", "duration_seconds", "summary"}


@pytest.fixture(scope="module", params=["daemon", "alone"])
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Zoned]:
    """One folder for the tests that only need sessions of their own."""
    zoned = Zoned(tmp_path_factory.mktemp("session") / "data")
    if request.param == "alone":
        yield zoned
    else:
        with zoned.serving():
            yield zoned


def begin(zoned: Zoned, session_id: str, *words: str, phase: str = "") -> None:
    zoned.ok("session", "create", "--id", session_id, *words)
    if phase:
        zoned.ok("session", "update", session_id, "--phase", phase)


def get(zoned: Zoned, session_id: str) -> dict[str, Any]:
    found: dict[str, Any] = zoned.ok("session", "get", session_id).json
    return found


def refused(zoned: Zoned, *words: str) -> tuple[int, str]:
    """The exit code of a command that fails, and its one line on stderr."""
    answer = zoned("session", *words)
    assert (answer.out, answer.err.count("\n")) == (b"", 1), answer
    return answer.code, answer.err.rstrip("\n")


# -- create


def test_create_prints_the_id(shared: Zoned) -> None:
    told = shared.ok("session", "create", "--id", "a.B_c-1", "--agent", "coder", "--purpose", "é",
                     "--metadata", '{"n": 100000000000000000000}')  # fmt: skip
    assert told.text == "Created session: a.B_c-1\n"
    state = get(shared, "a.B_c-1")
    assert state.keys() == STATE
    assert (state["agent_id"], state["agent_name"], state["purpose"], state["phase"]) == (
        "a.B_c-1", "coder", "é", "initializing",
    )  # fmt: skip
    assert state["metadata"] == {"n": 10**20}
    assert (state["resume_ready"], state["error_count"], state["last_error"]) == (False, 0, None)
    assert state["history"] == []


def test_create_makes_an_id_of_the_time_and_chance(shared: Zoned) -> None:
    before = int(time.time())
    found = {shared.ok("session", "create").text for _ in range(2)}
    assert len(found) == 2
    for told in found:
        match = re.fullmatch(r"Created session: (agent-(\d{8})-(\d{6})-[0-9a-f]{8})\n", told)
        assert match is not None, told
        at = parse(f"{match[2][:4]}-{match[2][4:6]}-{match[2][6:]}T"
                   f"{match[3][:2]}:{match[3][2:4]}:{match[3][4:]}Z")  # fmt: skip
        assert before <= at // 1000 <= time.time()
        assert get(shared, match[1])["agent_id"] == match[1]


def test_create_of_an_id_that_is_there_is_1_and_changes_nothing(shared: Zoned) -> None:
    begin(shared, "twice", "--agent", "coder")
    before = get(shared, "twice")
    assert refused(shared, "create", "--id", "twice") == (
        1, "zoned: session 'twice' exists already",
    )  # fmt: skip
    assert get(shared, "twice") == before


@pytest.mark.parametrize("bad", ["", ".a", "-a", "_a", "a b", "a/b", "ä", "a" * 129, "a\n"])
def test_create_of_what_cannot_be_an_id_is_2_and_makes_nothing(tmp_path: Path, bad: str) -> None:
    answer = run("session", "create", f"--id={bad}", ZONED_DATA_DIR=str(tmp_path / "data"))
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "must be 1 to 128 of A-Z a-z 0-9 . _ -" in answer.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("bad", ["", "{", "[]", "1", "null", '{"a": NaN}', "{'a': 1}", "[" * 9999])
def test_create_with_metadata_that_is_no_object_is_2(tmp_path: Path, bad: str) -> None:
    answer = run("session", "create", "--metadata", bad, ZONED_DATA_DIR=str(tmp_path / "data"))
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("zoned: metadata must be a JSON object")
    assert not (tmp_path / "data").exists()


def test_longest_id_is_taken(shared: Zoned) -> None:
    begin(shared, "x" * 128)
    assert get(shared, "x" * 128)["agent_id"] == "x" * 128


# -- update


def test_update_changes_all_that_is_given(shared: Zoned) -> None:
    begin(shared, "u", "--metadata", '{"a": {"b": 1}, "c": 1}')
    told = shared.ok("session", "update", "u", "--phase", "planning", "--error", "boom",
                     "--metadata", '{"a": {"d": 2}}')  # fmt: skip
    assert told.text == "Updated session: u\n"
    shared.ok("session", "update", "u", "--phase", "planning")
    shared.ok("session", "update", "u", "--phase", "executing", "--error", "again")
    shared.ok("session", "update", "u")
    state = get(shared, "u")
    assert state["metadata"] == {"a": {"d": 2}, "c": 1}
    assert (state["error_count"], state["last_error"]) == (2, "again")
    changes = [(each["from_phase"], each["to_phase"]) for each in state["history"]]
    assert changes == [("initializing", "planning"), ("planning", "executing")]
    times = [parse(each["timestamp"]) for each in state["history"]]
    assert parse(state["created_at"]) <= times[0] <= times[1] <= parse(state["last_updated"])


def test_update_that_fails_is_1_and_changes_nothing(shared: Zoned) -> None:
    begin(shared, "fails", "--metadata", '{"n": 0}')
    before = get(shared, "fails")
    for words, why in (
        (["--phase", "nonsense"], "the phase must be one of initializing, "),
        (["--phase", "completed"], "the phase must be one of "),
        (["--phase", ""], "the phase must be one of "),
        (["--phase", "planning", "--metadata", "[1]"], "metadata must be a JSON object"),
        (["--phase", "planning", "--metadata", '{"n": 1e999}'], "a number is not finite"),
        (["--phase", "planning", "--metadata", json.dumps({"x": "y" * 65536})], "65"),
        (["--phase", "nonsense", "--metadata", '{"n": 1}', "--error", "e"], "the phase must be"),
    ):
        code, told = refused(shared, "update", "fails", *words)
        assert code == 1
        assert told.startswith(f"Failed to update session: fails: {why}")
    assert get(shared, "fails") == before


def test_update_of_an_unknown_or_final_session_is_1(shared: Zoned) -> None:
    begin(shared, "over")
    shared.ok("session", "finalize", "over", "abandoned")
    before = get(shared, "over")
    for words in (["--phase", "planning"], ["--metadata", "{}"]):
        code, told = refused(shared, "update", "over", *words)
        assert code == 1
        assert told.startswith("Failed to update session: over: session 'over' has ended")
    assert get(shared, "over") == before
    assert refused(shared, "update", "nobody", "--phase", "planning") == (
        1, "Failed to update session: nobody: there is no session 'nobody'",
    )  # fmt: skip


# -- should-resume, get, list


def test_should_resume_goes_by_the_phase(shared: Zoned) -> None:
    begin(shared, "r")
    for phase in ("approval", "executing"):
        shared.ok("session", "update", "r", "--phase", phase)
        is_so = phase in ("investigating", "planning", "approval")
        answer = shared("session", "should-resume", "r")
        assert (answer.code, answer.text) == (int(not is_so), f"Should resume r: {is_so}\n")
        assert get(shared, "r")["resume_ready"] == is_so
    shared.ok("session", "update", "r", "--phase", "planning", "--error", "1")
    shared.ok("session", "update", "r", "--error", "2")
    told = shared.json("session", "should-resume", "r")
    assert told == {"agent_id": "r", "should_resume": True, "reason": "it can be taken up again"}
    shared.ok("session", "update", "r", "--error", "3")
    answer = shared("session", "should-resume", "r", "--json")
    assert (answer.code, answer.json["reason"]) == (1, "it had 3 errors")


def test_unknown_session_is_not_resumed_nor_shown(shared: Zoned) -> None:
    answer = shared("session", "should-resume", "nobody")
    assert (answer.code, answer.text, answer.err) == (1, "Should resume nobody: False\n", "")
    answer = shared("session", "should-resume", "nobody", "--json")
    assert answer.json["reason"] == "there is no such session"
    assert refused(shared, "get", "nobody") == (1, "zoned: there is no session 'nobody'")


def test_looking_makes_no_store(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for words, code, told in (
        (["list"], 0, "No sessions found\n"),
        (["list", "--json"], 0, "[]\n"),
        (["should-resume", "x"], 1, "Should resume x: False\n"),
        (["get", "x"], 1, ""),
        (["update", "x", "--phase", "planning"], 1, ""),
        (["finalize", "x", "completed"], 1, ""),
        (["export", "x"], 2, ""),
    ):
        answer = run("session", *words, ZONED_DATA_DIR=str(folder))
        assert (answer.returncode, answer.stdout) == (code, told), words
        assert not folder.exists()


async def fill(folder: Path) -> int:
    """Sessions of several ages and surfaces. Returns what time it is now."""
    now_ms = time.time_ns() // 1_000_000
    clock = FakeClock()
    async with await FileStore.open(folder, clock=clock) as store, Sessions(store) as panes:
        records = Records(store)

        async def make(origin: Any, name: str, age_ms: int, phase: str | None, **more: Any) -> None:
            clock.now_ms = now_ms - age_ms
            await records.create(NewSession(origin, name, **more))
            await records.update(name, phase=phase)

        await make("cli", "old", 24 * HOUR + MINUTE, "executing", agent_name="coder")
        await make("cli", "older", 48 * HOUR, "planning", agent_name="coder")
        await make("rest", "rest", 72 * HOUR, "executing", title="of REST")
        await make("cli", "young", 24 * HOUR - MINUTE, "executing", agent_name="tester")
        await make("cli", "late", 31 * MINUTE, "planning")
        await make("cli", "in time", 29 * MINUTE, "planning")
        await make("cli", "to come", -HOUR, "planning")
        await make("cli", "kept alive", 72 * HOUR, "executing", definition_id="ada")
        clock.now_ms = now_ms - HOUR
        await panes.write_state("ada", SNAPSHOT)
        await panes.append_output("bob", "x")
    return now_ms


async def test_time_decides_what_is_resumed(alone: Zoned) -> None:
    await fill(alone.folder)
    for name, is_so in (("late", False), ("in time", True), ("to come", True)):
        answer = alone("session", "should-resume", name)
        assert (answer.code, answer.text) == (int(not is_so), f"Should resume {name}: {is_so}\n")
    answer = alone("session", "should-resume", "late", "--json")
    assert answer.json["reason"] == "it was last changed more than 30 minutes ago"


async def test_list_has_all_sessions_by_their_activity(alone: Zoned) -> None:
    await fill(alone.folder)
    expect_list(alone)
    with alone.serving():
        expect_list(alone)
        alone.ok("session", "finalize", "old", "failed", "--summary", "given\nup")
        active = alone.json("session", "list", "--active-only")
        assert len(active) == 8
        assert "old" not in [row["agent_id"] for row in active]
        assert "  summary  given\\nup\n" in alone.ok("session", "list", "--agent", "coder").text


def expect_list(zoned: Zoned) -> None:
    order = ["to come", "in time", "late", "BOB", "kept alive", "young", "old", "older", "rest"]
    rows = zoned.json("session", "list")
    bob = next(row["agent_id"] for row in rows if row["agent_id"] not in order)
    found = ["BOB" if row["agent_id"] == bob else row["agent_id"] for row in rows]
    assert set(found[3:5]) == {"BOB", "kept alive"}
    assert [each for each in found if each != "BOB"] == [each for each in order if each != "BOB"]
    text = zoned.ok("session", "list", "--agent", "coder").text
    assert text.startswith("Found 2 sessions:\n\nold\n  agent    coder\n  phase    executing\n")
    assert "\n\nolder\n  agent    coder\n  phase    planning (may be resumed)\n" in text
    assert zoned.ok("session", "list", "--limit", "1").text.startswith("Found 1 sessions:\n\nto co")
    assert zoned.ok("session", "list", "-n", "0").text == "No sessions found\n"


def test_list_reads_on_where_a_page_ends(alone: Zoned) -> None:
    with alone.serving():
        with BlockingClient(alone.folder / "zoned.sock") as client:
            for number in range(55):
                client.call("session:create", {"session_id": f"n{number}"})
        rows = alone.json("session", "list")
        assert len(rows) == len({row["agent_id"] for row in rows}) == 55
        assert len(alone.json("session", "list", "--limit", "53")) == 53


# -- finalize, cleanup


def test_finalize_ends_a_session_for_good(shared: Zoned) -> None:
    for outcome in ("completed", "failed", "abandoned"):
        name = f"end-{outcome}"
        begin(shared, name, phase="planning")
        told = shared.ok("session", "finalize", name, outcome, "--summary", "s")
        assert told.text == f"Finalized session: {name}\n"
        state = get(shared, name)
        assert state.keys() == STATE | ENDED
        assert (state["phase"], state["summary"]) == (outcome, "s")
        assert state["history"][-1] == {
            "from_phase": "planning", "to_phase": outcome, "timestamp": state["finalized_at"],
        }  # fmt: skip
        took_ms = parse(state["finalized_at"]) - parse(state["created_at"])
        assert state["duration_seconds"] * 1000 == pytest.approx(took_ms)
    code, why = refused(shared, "finalize", name, "completed")
    assert (code, why.startswith(f"zoned: session '{name}' has ended")) == (1, True)
    assert get(shared, name) == state


def test_finalize_of_what_cannot_be_ended(shared: Zoned) -> None:
    assert refused(shared, "finalize", "nobody", "completed")[0] == 1
    begin(shared, "f")
    for outcome in ("done", "Completed", "", "executing"):
        code, told = refused(shared, "finalize", "f", outcome)
        assert code == 2
        assert "the outcome must be completed or failed or abandoned" in told
    assert get(shared, "f")["phase"] == "initializing"
    assert shared.json("session", "finalize", "f", "failed").keys() == (
        STATE - {"history"} | ENDED - {"summary"}
    )


async def test_cleanup_takes_old_sessions_of_the_command_line_only(alone: Zoned) -> None:
    await fill(alone.folder)
    before = {row["agent_id"] for row in alone.json("session", "list")}
    told = alone.ok("session", "cleanup", "--dry-run").text
    assert told == "Would clean up 1 sessions older than 24h\n  old\n"
    assert {row["agent_id"] for row in alone.json("session", "list")} == before
    with alone.serving():
        assert alone.ok("session", "cleanup").text == "Cleaned up 1 sessions older than 24h\n"
        assert alone.ok("session", "cleanup").text == "Cleaned up 0 sessions older than 24h\n"
    assert alone.json("session", "cleanup", "--hours", "2", "--force", "--dry-run") == {
        "sessions": ["older", "young"], "hours": 2, "dry_run": True,
    }  # fmt: skip
    told = alone.ok("session", "cleanup", "--hours", "24", "--force").text
    assert told == "Cleaned up 1 sessions older than 24h\n"
    left = {row["agent_id"] for row in alone.json("session", "list")}
    assert left == before - {"old", "older"}
    alone.ok("session", "cleanup", "--hours", "0", "--force")
    assert alone.ok("session", "cleanup", "--hours", "9" * 18).text.endswith(f"{'9' * 18}h\n")
    left = {row["agent_id"] for row in alone.json("session", "list")}
    assert {"rest", "to come"} <= left
    assert not {"young", "late", "in time", "kept alive"} & left
    assert alone.ok("agents").text.count("ada") == 0
    alone.ok("check", "--deep")


# -- with other surfaces


def test_session_of_a_command_is_a_panes_and_its_archive_the_commands(shared: Zoned) -> None:
    begin(shared, "cross", "--agent", "coder", phase="planning")
    assert shared.ok("tail", "cross").out == b""
    shared.ok("append", "cross", stdin=b"hello\n")
    shared.ok("write-state", "cross", "--session-id", "cross", stdin=SNAPSHOT)
    zone = shared.json("archive", "cross", "--session-id", "cross")["archive_zoneid"]
    state = get(shared, "cross")
    assert (state["phase"], "finalized_at" in state) == ("completed", True)
    assert refused(shared, "finalize", "cross", "failed")[0] == 1
    assert refused(shared, "update", "cross", "--phase", "planning")[0] == 1
    shared.ok("restore", zone)
    state = get(shared, "cross")
    assert (state["phase"], "finalized_at" in state, state["resume_ready"]) == (
        "planning", False, True,
    )  # fmt: skip
    changes = [each["to_phase"] for each in state["history"]]
    assert changes == ["planning", "completed", "planning"]
    shared.ok("session", "finalize", "cross", "failed")
    zone = shared.json("archive", "cross")["archive_zoneid"]
    assert get(shared, "cross")["phase"] == "failed"
    shared.ok("delete", zone, "--yes")
    assert refused(shared, "get", "cross")[0] == 1


def test_session_of_a_pane_is_listed_and_can_be_ended(shared: Zoned) -> None:
    shared.ok("append", "pane-1", stdin=b"hello\n")
    rows = shared.json("session", "list", "--limit", "1")
    session_id = rows[0]["agent_id"]
    assert shared.json("tail", "pane-1")["lines"] == ["hello"]
    shared.ok("session", "update", session_id, "--phase", "approval")
    assert shared("session", "should-resume", session_id).code == 0
    shared.ok("session", "finalize", session_id, "completed", "--summary", "ok")
    zone = shared.json("archive", "pane-1")["archive_zoneid"]
    assert get(shared, session_id)["summary"] == "ok"
    shared.ok("restore", zone)
    assert get(shared, session_id)["phase"] == "approval"


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    for words in (["get", "\udcff"], ["create", "--agent", "\udcff"], ["update", "\udcff"]):
        answer = run("session", *words, ZONED_DATA_DIR=str(tmp_path / "data"))
        assert (answer.returncode, answer.stdout) == (2, "")
        assert "is not valid text" in answer.stderr


def test_store_that_cannot_be_opened_is_no_reason_to_resume(tmp_path: Path) -> None:
    (tmp_path / "zoned.db").write_text("not a database")
    tmp_path.chmod(0o700)
    answer = run("session", "should-resume", "x", ZONED_DATA_DIR=str(tmp_path))
    assert (answer.returncode, answer.stdout) == (1, "Should resume x: False\n")
    assert answer.stderr.startswith("zoned: ")
    answer = run("session", "update", "x", "--error", "e", ZONED_DATA_DIR=str(tmp_path))
    assert answer.returncode == 1
    assert answer.stderr.startswith("Failed to update session: x: ")
    assert (tmp_path / "zoned.db").read_text() == "not a database"
