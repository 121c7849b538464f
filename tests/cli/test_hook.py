"""`zoned hook …`: a pipe and no argument, whatever the store is like."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from filestore import FileStore
from filestore.records import NewSession, Records
from filestore.times import parse
from srv.cli.hook import OUTPUT_CHARS_KEPT, STDIN_BYTES_MAX
from tests.cli.tools import Answer, Zoned
from tests.support.clock import FakeClock
from tests.support.processes import environment, run

HOOKS = ("pre-delegate", "subagent-stop")
NOTHING: dict[str, Any] = {"should_resume": False, "reason": "no_existing_session"}


@pytest.fixture(scope="module", params=["daemon", "alone"])
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Zoned]:
    """One folder for the tests that only need sessions of their own."""
    zoned = Zoned(tmp_path_factory.mktemp("hook") / "data")
    if request.param == "alone":
        yield zoned
    else:
        with zoned.serving():
            yield zoned


def hook(zoned: Zoned, name: str, **given: object) -> dict[str, Any]:
    """What a hook answers where all is well."""
    found: dict[str, Any] = zoned.ok("hook", name, stdin=json.dumps(given).encode()).json
    if name == "pre-delegate":
        assert found.pop("original_context") == given
    return found


def begin(zoned: Zoned, session_id: str, phase: str, *words: str) -> dict[str, Any]:
    zoned.ok("session", "create", "--id", session_id, *words)
    zoned.ok("session", "update", session_id, "--phase", phase)
    found: dict[str, Any] = zoned.ok("session", "get", session_id).json
    return found


# -- pre-delegate


def test_session_is_found_by_its_id_or_by_agent_and_task(shared: Zoned) -> None:
    task = '{"task_id": "T-1", "n": [1]}'
    state = begin(shared, "p1", "planning", "--agent", "coder", "--metadata", task)
    begin(shared, "p2", "executing", "--agent", "coder", "--metadata", '{"task_id": "T-2"}')
    resumed = {
        "should_resume": True,
        "reason": "session_resumable",
        "agent_id": "p1",
        "resume_metadata": {
            "previous_phase": "planning",
            "created_at": state["created_at"],
            "last_updated": state["last_updated"],
            "history": state["history"],
            "session_metadata": {"task_id": "T-1", "n": [1]},
        },
    }
    not_now = {"should_resume": False, "reason": "session_not_resumable", "agent_id": "p2"}
    assert hook(shared, "pre-delegate", agent_id="p1") == resumed
    assert hook(shared, "pre-delegate", agent_name="coder") == resumed, "p2 is later, but busy"
    assert hook(shared, "pre-delegate", agent_name="coder", task_id="T-2") == not_now
    assert hook(shared, "pre-delegate", task_id="T-1", agent_id=None) == resumed
    assert hook(shared, "pre-delegate", agent_id="p2", agent_name="nobody") == not_now
    more = {"task_description": "do \ud800", "metadata": {"a": 1}, "else": [None]}
    assert hook(shared, "pre-delegate", agent_id="", agent_name="nobody", **more) == NOTHING
    assert hook(shared, "pre-delegate", agent_id="nobody", agent_name="coder") == NOTHING
    assert hook(shared, "pre-delegate", agent_name="coder", task_id="T-3") == NOTHING
    assert hook(shared, "pre-delegate") == NOTHING
    shared.ok("session", "finalize", "p2", "completed")
    assert hook(shared, "pre-delegate", agent_name="coder", task_id="T-2") == NOTHING
    assert hook(shared, "pre-delegate", agent_id="p2") == not_now
    assert shared.ok("session", "get", "p1").json == state, "looking changes nothing"


async def test_session_of_long_ago_is_not_resumed(alone: Zoned) -> None:
    clock = FakeClock(time.time_ns() // 1_000_000 - 31 * 60_000)
    async with await FileStore.open(alone.folder, clock=clock) as store:
        records = Records(store)
        await records.create(NewSession("rest", "s", agent_name="coder"))
        await records.update("s", phase="planning")
    found = hook(alone, "pre-delegate", agent_name="coder")
    assert found == {"should_resume": False, "reason": "session_not_resumable", "agent_id": "s"}


# -- subagent-stop


def note_of(zoned: Zoned, session_id: str) -> dict[str, Any]:
    """The note of a session, read beside whoever has the folder."""
    with sqlite3.connect(f"file:{zoned.folder / 'zoned.db'}?mode=ro", uri=True) as database:
        ((body,),) = database.execute(
            "SELECT r.body FROM record r JOIN journal j ON r.id >> 24 = j.id "
            "WHERE j.session_id = ? AND r.kind = 'note'",
            (session_id,),
        ).fetchall()
    database.close()
    found: dict[str, Any] = json.loads(body)
    return found


@pytest.mark.parametrize(
    ("exit_code", "output", "status"),
    [(0, "Error: failed, exit code 1", "completed"), (None, "it failed", "completed"),
     (-9, {"all": ["well"]}, "failed")],
    ids=["zero", "none", "signal"],
)  # fmt: skip
def test_exit_code_alone_decides_how_a_session_ends(
    shared: Zoned, exit_code: int | None, output: object, status: str
) -> None:
    name = f"stop{exit_code}"
    begin(shared, name, "executing")
    given = {"exit_code": exit_code, "output": output, "duration_ms": 12.5}
    done = hook(shared, "subagent-stop", agent_id=name, **given)
    assert done == {"success": True, "status": status, "finalized": True, "session_id": name}
    state = shared.ok("session", "get", name).json
    assert (state["phase"], "finalized_at" in state) == (status, True)
    text = output if isinstance(output, str) else json.dumps(output)
    wanted = {"hook": "subagent-stop", "duration_ms": 12.5, "output": text,
              "output_chars": len(text), "exit_code": exit_code}  # fmt: skip
    if exit_code is None:
        del wanted["exit_code"]
    assert note_of(shared, name) == wanted
    again = hook(shared, "subagent-stop", agent_id=name)
    assert again == {"success": True, "status": "completed", "finalized": False,
                     "session_id": name, "reason": "already_final"}  # fmt: skip
    assert shared.ok("session", "get", name).json == state


def test_stopped_agent_is_found_by_its_name_and_task(shared: Zoned) -> None:
    begin(shared, "n1", "planning", "--agent", "worker")
    begin(shared, "n2", "executing", "--agent", "worker", "--metadata", '{"task_id": "A"}')
    begin(shared, "n3", "executing", "--agent", "worker", "--metadata", '{"task_id": "B"}')
    done = hook(shared, "subagent-stop", agent_name="worker", task_id="A", exit_code=0)
    assert (done["session_id"], done["finalized"]) == ("n2", True)
    long = "é\ud83d" + "x" * OUTPUT_CHARS_KEPT
    done = hook(shared, "subagent-stop", agent_name="worker", output=long)
    assert (done["session_id"], done["finalized"]) == ("n3", True), "the one of latest activity"
    note = note_of(shared, "n3")
    assert (note["output_chars"], note["output"]) == (len(long), "x" * OUTPUT_CHARS_KEPT)
    unknown = {"success": True, "status": "failed", "finalized": False,
               "reason": "unknown_session"}  # fmt: skip
    assert hook(shared, "subagent-stop", agent_name="worker", task_id="A", exit_code=2) == unknown
    assert hook(shared, "subagent-stop", agent_id="nobody", exit_code=2) == unknown
    assert hook(shared, "subagent-stop", exit_code=2) == unknown


# -- stdin


@pytest.mark.parametrize(
    "data",
    [b"", b" \n", b"nope", b"{", b"{} {}", b'{"a": NaN}', b'{"a": "\xff"}', b"[" * 100_000],
    ids=["nothing", "blank", "words", "open", "two", "NaN", "bytes", "deep"],
)
def test_what_is_no_json_is_exit_code_1(tmp_path: Path, data: bytes) -> None:
    for name in HOOKS:
        answer = pipe(tmp_path / "data", name, data)
        assert answer == Answer(1, b"", '{"reason": "invalid_json"}\n'), name


@pytest.mark.parametrize(
    "given",
    ["[]", '"x"', "null", "0", '{"agent_id": 5}', '{"agent_name": ["x"]}', '{"task_id": true}',
     '{"agent_id": "\\ud800"}'],
)  # fmt: skip
def test_json_that_cannot_be_meant_is_an_error_and_exit_code_0(tmp_path: Path, given: str) -> None:
    answer = pipe(tmp_path / "data", "pre-delegate", given.encode())
    assert (answer.code, answer.err.count("\n")) == (0, 1)
    assert answer.json == {"should_resume": False, "reason": "error",
                           "original_context": json.loads(given)}  # fmt: skip
    answer = pipe(tmp_path / "data", "subagent-stop", given.encode())
    assert (answer.code, answer.err.count("\n")) == (0, 1)
    assert answer.json == {"success": False, "status": "error", "finalized": False,
                           "reason": "error"}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [("exit_code", '"1"'), ("exit_code", "true"), ("exit_code", "1.5"), ("exit_code", "9" * 30),
     ("duration_ms", '"1 s"'), ("duration_ms", "1e999")],
)  # fmt: skip
def test_figures_of_other_types_end_nothing(tmp_path: Path, field: str, value: str) -> None:
    given = f'{{"agent_id": "s", "{field}": {value}}}'
    answer = pipe(tmp_path / "data", "subagent-stop", given.encode())
    assert (answer.code, answer.json["reason"]) == (0, "error")


def pipe(folder: Path, name: str, data: bytes, *before: str) -> Answer:
    done = subprocess.run(
        [*before, *Zoned(folder).words("hook", name)], input=data, capture_output=True,
        env=environment(), check=False,
    )  # fmt: skip
    return Answer(done.returncode, done.stdout, done.stderr.decode())


def test_more_than_the_bound_is_not_read(tmp_path: Path) -> None:
    data = b'{"agent_id": "' + b"x" * STDIN_BYTES_MAX + b'"}'
    answer = pipe(tmp_path / "data", "pre-delegate", data)
    assert answer.code == 0
    assert answer.json == {"should_resume": False, "reason": "error", "original_context": {}}
    assert answer.err == "zoned: stdin has more than 16 MiB\n"
    with open("/dev/zero", "rb") as zero:
        done = subprocess.run(
            Zoned(tmp_path / "data").words("hook", "subagent-stop"), stdin=zero,
            capture_output=True, env=environment(), check=False, timeout=20,
        )  # fmt: skip
    assert (done.returncode, json.loads(done.stdout)["reason"]) == (0, "error")


def test_long_answer_of_an_agent_is_within_the_bound(alone: Zoned) -> None:
    begin(alone, "s", "executing")
    done = hook(alone, "subagent-stop", agent_id="s", output="x" * (4 << 20))
    assert done["finalized"]
    assert note_of(alone, "s")["output_chars"] == 4 << 20


# -- the store


def unavailable(folder: Path, *before: str) -> None:
    """Both hooks say so, and the caller goes on."""
    for name in HOOKS:
        answer = pipe(folder, name, b'{"agent_id": "s", "exit_code": 0}', *before)
        assert answer.code == 0, answer
        assert answer.json["reason"] == "store_unavailable"
        assert answer.err.startswith("zoned: ")
        assert answer.err.count("\n") == 1


def test_missing_store_is_no_error_and_is_not_made(tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    for name in HOOKS:
        answer = pipe(folder, name, b'{"agent_id": "s", "agent_name": "a"}')
        assert (answer.code, answer.err) == (0, "")
        assert answer.json["reason"] in ("no_existing_session", "unknown_session")
    assert not folder.exists()


def foreign(folder: Path) -> None:
    with sqlite3.connect(folder / "zoned.db") as database:
        database.execute("CREATE TABLE t (x)")
    database.close()


def newer(folder: Path) -> None:
    Zoned(folder).ok("session", "create", "--id", "s")
    with sqlite3.connect(folder / "zoned.db") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()


def damaged(folder: Path) -> None:
    Zoned(folder).ok("session", "create", "--id", "s")
    os.truncate(folder / "zoned.db", 9000)


def text(folder: Path) -> None:
    (folder / "zoned.db").write_text("hello")


def not_a_file(folder: Path) -> None:
    os.mkfifo(folder / "zoned.db")


def setting(folder: Path) -> None:
    (folder / "zoned.toml").write_text('port = "x"')


@pytest.mark.parametrize("spoil", [foreign, newer, damaged, text, not_a_file, setting])
def test_store_that_cannot_be_used_is_told_and_left_alone(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    spoil(folder)
    before = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
    unavailable(folder)
    after = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
    assert {name: after[name] for name in before if name != "zoned.lock"} == {
        name: data for name, data in before.items() if name != "zoned.lock"
    }


def test_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    unavailable(tmp_path / "file")


@pytest.mark.root
def test_folder_of_somebody_else_is_told(tmp_path: Path) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    folder = tmp_path / "data"
    begin(Zoned(folder), "s", "planning")
    for each in (tmp_path, *tmp_path.parents):
        if each.stat().st_mode & 0o077 == 0:
            each.chmod(0o711)
    unavailable(folder, "setpriv", "--reuid", "65534", "--clear-groups")


@pytest.mark.root
def test_read_only_store_is_looked_at_and_not_written(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    begin(Zoned(folder), "s", "planning")
    script = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} && exec "
    command = ["unshare", "-m", "sh", "-c", script + '"$@"', "sh"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    answer = pipe(folder, "pre-delegate", b'{"agent_id": "s"}', *command)
    assert (answer.code, answer.json["reason"]) == (0, "session_resumable")
    answer = pipe(folder, "subagent-stop", b'{"agent_id": "s"}', *command)
    assert (answer.code, answer.json) == (0, {
        "success": False, "status": "completed", "finalized": False, "session_id": "s",
        "reason": "store_unavailable",
    })  # fmt: skip


def test_daemon_that_hangs_is_waited_for_no_longer_than_2_s(alone: Zoned) -> None:
    with alone.serving() as daemon:
        begin(alone, "s", "planning")
        os.kill(daemon.pid, signal.SIGSTOP)
        try:
            started = time.monotonic()
            unavailable(alone.folder)
            # Twice two seconds; what is more is for starting on a busy machine.
            assert 4 <= time.monotonic() - started < 12
        finally:
            os.kill(daemon.pid, signal.SIGCONT)
        assert hook(alone, "pre-delegate", agent_id="s")["should_resume"]
        daemon.kill()
        daemon.wait()
    assert hook(alone, "subagent-stop", agent_id="s")["finalized"], "its socket is still there"


def test_times_are_those_of_the_session(alone: Zoned) -> None:
    state = begin(alone, "s", "planning")
    found = hook(alone, "pre-delegate", agent_id="s")["resume_metadata"]
    assert parse(found["created_at"]) <= parse(found["last_updated"])
    assert found["history"] == state["history"]


def test_hooks_import_neither_the_web_stack_nor_what_they_do_not_need(alone: Zoned) -> None:
    begin(alone, "s", "planning")
    heavy = {"aiohttp", "uvloop", "mcp", "prometheus_client", "filestore.replay",
             "filestore.transcript", "filestore.backup", "argparse"}  # fmt: skip
    assert not heavy & modules(alone)
    with alone.serving():
        assert not (heavy | {"asyncio", "filestore.store", "orjson", "logging"}) & modules(alone)


def modules(zoned: Zoned) -> set[str]:
    """What a hook has loaded at its end."""
    code = ("import sys; from srv.cli.main import main; main(sys.argv[1:]); "
            "sys.stderr.write(' '.join(sys.modules))")  # fmt: skip
    words = zoned.words("hook", "pre-delegate")
    python = [words[0], "-c", code, *words[3:]]
    done = subprocess.run(
        python, input=b'{"agent_id": "s"}', capture_output=True, env=environment(), check=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert b"session_resumable" in done.stdout
    return set(done.stderr.decode().split())


def test_hook_needs_no_argument(tmp_path: Path) -> None:
    for name in HOOKS:
        answer = run("hook", name, "more", ZONED_DATA_DIR=str(tmp_path))
        assert answer.returncode == 2
