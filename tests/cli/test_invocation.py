"""Help, bad invocations, exit codes, and the ends that are no failures."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from srv.cli import bench
from srv.cli.options import Invocation
from srv.cli.verbs import GROUPS, VERBS
from srv.errors import ZonedError
from tests.cli.tools import SNAPSHOT, Zoned, finish
from tests.support.processes import COMMAND, END_S_MAX, ROOT, environment, run


def test_help_lists_every_command_and_fits() -> None:
    shown = run("--help")
    assert shown.returncode == 0
    for name, verb in VERBS.items():
        assert re.search(rf"^  {name} +{re.escape(verb.about)}", shown.stdout, re.MULTILINE)
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert run("help").stdout == shown.stdout == run("-h").stdout


@pytest.mark.parametrize("name", VERBS)
def test_help_of_every_command_has_an_example_and_all_its_options(name: str) -> None:
    shown = run(*name.split(), "--help").stdout
    assert shown == run("help", *name.split()).stdout
    assert f"example: {VERBS[name].example}\n" in shown
    for option in VERBS[name].options:
        assert ", ".join(option.flags) in shown
    for word in ("--data-dir DIR", "--json", "exit codes: 0 ok"):
        assert word in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("group", GROUPS)
def test_group_is_explained_with_its_commands_alone(group: str) -> None:
    shown = run(group, "--help")
    assert shown.returncode == 0
    assert run("help", group).stdout == shown.stdout
    for name, verb in VERBS.items():
        assert (f"  {name} " in shown.stdout and verb.about in shown.stdout) == name.startswith(
            f"{group} "
        )
    told = run(group)
    assert (told.returncode, told.stdout, told.stderr) == (2, "", shown.stdout)
    described = json.loads(run("help", group, "--json").stdout)
    assert [each["command"] for each in described] == [
        name for name in VERBS if name.startswith(f"{group} ")
    ]


@pytest.mark.parametrize("name", [name for name in VERBS if name != "serve"])
def test_example_of_every_command_runs(alone: Zoned, tmp_path: Path, name: str) -> None:
    zone = alone.fill()
    alone.ok("write-state", "ada", stdin=SNAPSHOT)
    if name == "status":
        pytest.skip("exits with 3 without a daemon; test_status.py runs it with one")
    if name == "restore-backup":
        alone.ok("backup", str(alone.folder / "backups" / "today.db"))
    if name.startswith("session "):
        alone.ok("session", "create", "--id", "fix-build")
        alone.ok("session", "update", "fix-build", "--phase", "planning")
    if name == "import":
        alone.ok("export", "ada", str(tmp_path / "ada.session"))
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "zoned"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    script.chmod(0o755)
    example = VERBS[name].example.replace("agent:ada:archive:1700000000000", zone)
    example = example.replace("import ada", f"import {tmp_path}/ada")
    done = subprocess.run(
        example,
        shell=True,
        cwd=ROOT,
        env=environment(
            ZONED_DATA_DIR=str(alone.folder), PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=END_S_MAX,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["agnets"], "there is no command 'agnets'; did you mean agents? (see: zoned help)"),
        (["qqqqqq"], "there is no command 'qqqqqq' (see: zoned help)"),
        (["tail"], "tail needs <defId|zone> (see: zoned help tail)"),
        (["fork", "ada"], "fork needs <to> (see: zoned help fork)"),
        (["agents", "ada"], "too much: 'ada' (see: zoned help agents)"),
        (["tail", "ada", "--folow"], "there is no option '--folow'; did you mean --follow? "
         "(see: zoned help tail)"),
        (["tail", "ada", "-x"], "there is no option '-x' (see: zoned help tail)"),
        (["tail", "ada", "-n"], "--lines needs a value (N) (see: zoned help tail)"),
        (["tail", "ada", "-n", "-3"], "--lines must be a whole number, not '-3' "
         "(see: zoned help tail)"),
        (["tail", "ada", "-n", "٣"], "--lines must be a whole number, not '٣' "
         "(see: zoned help tail)"),
        (["agents", "--json=1"], "--json takes no value (see: zoned help agents)"),
        (["fork", "ada", "bob", "--a"], None),
        (["serve", "--s", "full"], "'--s' may mean --socket or --sync (see: zoned help serve)"),
        (["serve", "--sync", "off"], "--sync must be full or normal, not 'off' "
         "(see: zoned help serve)"),
        (["completion", "tcsh"], "completion is for bash, zsh, fish, not 'tcsh' "
         "(see: zoned help completion)"),
        (["help", "agnets"], "there is no command 'agnets' (see: zoned help)"),
        (["help", "session", "gt"], "there is no command 'session gt' (see: zoned help)"),
        (["sesion", "get"], "there is no command 'sesion'; did you mean session? "
         "(see: zoned help)"),
        (["session", "finalise", "x"], "there is no command 'session finalise'; did you mean "
         "session finalize? (see: zoned help session)"),
        (["should-resume"], "there is no command 'should-resume'; did you mean "
         "session should-resume? (see: zoned help)"),
        (["session", "--jso", "get"], "session get needs <id> (see: zoned help session get)"),
        (["session", "--force", "get"], "there is no option '--force' (see: zoned help session)"),
        (["hook", "pre-delegate", "x"], "too much: 'x' (see: zoned help hook pre-delegate)"),
    ],
)  # fmt: skip
def test_bad_invocation_is_told_in_one_line_with_exit_code_2(
    tmp_path: Path, words: list[str], told: str | None
) -> None:
    answer = run(*words, ZONED_DATA_DIR=str(tmp_path))
    if told is None:  # a flag that is shortened but clear is no mistake
        assert "--a" not in answer.stderr
        return
    assert (answer.returncode, answer.stdout, answer.stderr) == (2, "", f"zoned: {told}\n")


def test_no_command_shows_the_help_on_stderr() -> None:
    answer = run()
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == run("--help").stdout


def test_version_is_shown() -> None:
    for flag in ("--version", "-V"):
        assert re.fullmatch(r"zoned \d+\.\d+\.\d+\n", run(flag).stdout)


def test_wrong_setting_is_a_bad_invocation_in_one_line(tmp_path: Path) -> None:
    for verb in ("agents", "config", "status", "serve"):
        answer = run(verb, "--data-dir", str(tmp_path), ZONED_PORT="many")
        assert answer.returncode == 2
        assert answer.stderr.startswith("zoned: port (environment ZONED_PORT) must be")
        assert answer.stderr.count("\n") == 1


def test_data_dir_is_taken_before_and_after_the_verb(tmp_path: Path) -> None:
    folder = str(tmp_path / "here")
    shown = run("--data-dir", folder, "config", "--json")
    for words in (
        ["--json", "config", "--data-dir", folder],
        ["config", f"--data-dir={folder}", "--json"],
    ):
        assert run(*words).stdout == shown.stdout
    assert folder in shown.stdout


def test_benchmarks_that_are_not_installed_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "__file__", str(tmp_path / "srv" / "cli" / "bench.py"))
    with pytest.raises(ZonedError, match="the benchmarks are not installed"):
        bench.bench(Invocation("bench", {}, []))


def test_python_without_assertions_is_refused() -> None:
    answer = subprocess.run(
        [sys.executable, "-O", "-m", "srv.cli.main", "agents"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 2
    assert "python -O" in answer.stderr


def test_pipe_closed_early_is_quiet(alone: Zoned) -> None:
    alone.ok("append", "ada", stdin=b"x" * 100 + b"\n" + b"y\n" * 200_000)
    process = alone.start("tail", "ada", "-n", "300000", stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(END_S_MAX) == 141
    assert process.stderr is not None
    assert process.stderr.read() == b""


def test_pipe_closed_before_the_first_byte_is_quiet(alone: Zoned) -> None:
    for words in (["--help"], ["--version"], ["agents"], ["config"], ["show", "ada"]):
        process = alone.start(*words, stdin=subprocess.DEVNULL)
        assert process.stdout is not None
        process.stdout.close()
        process.wait(END_S_MAX)
        assert process.stderr is not None
        told = process.stderr.read()
        assert b"Traceback" not in told
        assert b"BrokenPipe" not in told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_answer_that_cannot_be_written_is_a_failure(alone: Zoned) -> None:
    alone.fill()
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            alone.words("agents"), cwd=ROOT, env=environment(), stdout=full,
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "zoned: No space left on device\n"


def test_closed_streams_do_no_harm(alone: Zoned) -> None:
    """Else the database would be opened as file 1, and be written into."""
    words = shlex.join(alone.words("append", "ada"))
    done = subprocess.run(
        f"echo hello | {words} >&- 2>&-", shell=True, cwd=ROOT, env=environment(), check=False
    )
    assert done.returncode == 0
    assert alone.ok("tail", "ada").out == b"hello\n"


def test_interrupt_while_reading_stdin_is_quiet(alone: Zoned) -> None:
    process = alone.start("append", "ada")
    while not alone.folder.exists() and process.poll() is None:
        os.sched_yield()
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert (done.code, done.out) == (130, b"")
    assert "Traceback" not in done.err


def test_small_commands_import_neither_the_web_stack_nor_the_store(alone: Zoned) -> None:
    alone.fill()
    heavy = ["aiohttp", "uvloop", "prometheus_client", "hypothesis"]
    store = ["asyncio", "argparse", "filestore.store", "blake3", "orjson", "importlib.metadata"]
    assert loaded(alone, ["--help"]).isdisjoint([*heavy, *store, "srv.config", "json"])
    assert loaded(alone, ["config"]).isdisjoint([*heavy, *store])
    others = ["filestore.replay", "filestore.backup", "filestore.check", "pyfastcdc", "secrets"]
    assert loaded(alone, ["agents"]).isdisjoint([*heavy, *others])
    with alone.serving():
        for verb in ("agents", "status"):
            assert loaded(alone, [verb]).isdisjoint([*heavy, *store])


def loaded(zoned: Zoned, words: list[str]) -> set[str]:
    """The modules that a command had loaded at its end."""
    code = (
        "import sys; from srv.cli.main import main; "
        "main(sys.argv[1:]); sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=True,
        env=environment(ZONED_DATA_DIR=str(zoned.folder)),
    )  # fmt: skip
    return set(done.stderr.split())
