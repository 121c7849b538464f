"""Completion scripts parse, complete what the table has, and stay silent when nothing works."""

import fcntl
import os
import pty
import re
import select
import shlex
import shutil
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from srv.cli.verbs import VERBS
from tests.cli.tools import Zoned
from tests.support.processes import COMMAND, END_S_MAX, ROOT, environment, run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_parses(shell: str, tmp_path: Path) -> None:
    done = run("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    for name, verb in VERBS.items():
        assert all(word in done.stdout for word in name.split())
        assert all(option.flags[-1].lstrip("-") in done.stdout for option in verb.options)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(done.stdout)
    subprocess.run([shell, "-n", str(script)], check=True)


SETUP = {
    # Each key press of ^T prints the line as it is now, and empties it.
    "bash": """eval "$(zoned completion bash)"
bind -x '"\\C-t":printf "<%s>" "$READLINE_LINE"; READLINE_LINE='
printf '%s' "rea" "dy
"
""",
    "zsh": """zoned completion zsh > bin/_zoned
fpath=($PWD/bin $fpath); autoload -Uz compinit; compinit -u -D
_shown() { zle -I; printf "<%s>" "$BUFFER"; BUFFER= }; zle -N _shown; bindkey "^T" _shown
printf '%s' "rea" "dy
"
""",
}
COMMANDS = {"bash": ["bash", "--norc", "-i"], "zsh": ["zsh", "-f", "-i"]}


def shell_environment(zoned: Zoned, folder: Path) -> dict[str, str]:
    """Where `zoned` is ours."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    script = bin_folder / "zoned"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.join(COMMAND)} "$@"\n'
    )
    script.chmod(0o755)
    return environment(
        PATH=f"{bin_folder}:{os.environ['PATH']}", ZONED_DATA_DIR=str(zoned.folder),
        HOME=str(folder), TERM="xterm", PS1="",
    )  # fmt: skip


def completed(shell: str, zoned: Zoned, folder: Path, lines: list[str]) -> list[str]:
    """What each line becomes when Tab is pressed at its end, in a real shell on a terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 300, 0, 0))
    shown = b""

    def until(wanted: bytes) -> str:
        nonlocal shown
        while (found := re.search(wanted, shown)) is None:
            assert select.select([master], [], [], END_S_MAX)[0], shown
            shown += os.read(master, 65536)
        shown = shown[found.end() :]
        return found[0].decode()

    process = subprocess.Popen(
        COMMANDS[shell], stdin=slave, stdout=slave, stderr=slave, cwd=folder,
        env=shell_environment(zoned, folder), start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    try:
        os.write(master, SETUP[shell].encode())
        until(rb"ready\r\n")
        found = []
        for line in lines:
            os.write(master, line.encode() + b"\t\x14")
            found.append(until(rb"<zoned[^>]*>")[1:-1])
        return found
    finally:
        process.kill()
        process.wait()
        os.close(master)


def fill(zoned: Zoned, folder: Path) -> dict[str, str]:
    """An agent with an archive, another, and a file. Returns lines and what they become."""
    zone = zoned.fill()
    zoned.ok("append", "bob", stdin=b"x\n")
    zoned.ok("session", "create", "--id", "fix-build")
    (folder / "stream.ndjson").touch()
    other = f"--data-dir {zoned.folder}"
    return {
        "zoned stat": "zoned status ",
        "zoned --js": "zoned --json ",
        "zoned tail --f": "zoned tail --follow ",
        "zoned --json show a": "zoned --json show ada ",
        f"zoned {other} show a": f"zoned {other} show ada ",
        f"zoned show {other} a": f"zoned show {other} ada ",
        "zoned tail -n 3 b": "zoned tail -n 3 bob ",
        "zoned fork ada b": "zoned fork ada bob ",
        "zoned restore agent:a": "zoned restore agent:ada:archive:",
        f"zoned show {zone[:-3]}": f"zoned show {zone} ",
        "zoned replay str": "zoned replay stream.ndjson ",
        "zoned write-state ada str": "zoned write-state ada stream.ndjson ",
        "zoned serve --sync n": "zoned serve --sync normal ",
        "zoned completion z": "zoned completion zsh ",
        "zoned migrate d": "zoned migrate down ",
        "zoned help app": "zoned help append ",
        "zoned sess": "zoned session ",
        "zoned session upd": "zoned session update ",
        "zoned --json session --data-dir x sh": "zoned --json session --data-dir x should-resume ",
        "zoned session update fix-b": "zoned session update fix-build ",
        "zoned session update x --ph": "zoned session update x --phase ",
        "zoned session update x --phase pl": "zoned session update x --phase planning ",
        "zoned session finalize x ab": "zoned session finalize x abandoned ",
        "zoned session export x --out str": "zoned session export x --out stream.ndjson ",
        "zoned hook sub": "zoned hook subagent-stop ",
        "zoned help session fin": "zoned help session finalize ",
    }


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_tab_completes_the_line(shell: str, alone: Zoned, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    lines = fill(alone, tmp_path)
    found = completed(shell, alone, tmp_path, list(lines))
    assert dict(zip(lines, found, strict=True)) == lines


def test_fish_completes_the_line(alone: Zoned, tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    lines = fill(alone, tmp_path) | {"zoned nonsense x": "zoned nonsense "}
    asked = "".join(f"complete -C {shlex.quote(line)}; echo ==;" for line in lines)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"zoned completion fish | source; {asked}"],
        cwd=tmp_path, env=shell_environment(alone, tmp_path), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stderr == ""
    answers = done.stdout.split("==\n")[:-1]
    for (line, wanted), found in zip(lines.items(), answers, strict=True):
        # One candidate, which is the last word; described or not.
        words = [each.partition("\t")[0] for each in found.splitlines()]
        assert words == wanted.split()[len(line.split()) - 1 :], line


def test_helper_is_silent_whatever_goes_wrong(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    for words in ([], ["agent"], ["nonsense", ""], ["agent", "--data-dir", str(missing), "a"]):
        answer = run("__complete", *words, ZONED_DATA_DIR=str(missing))
        assert (answer.stdout, answer.stderr) == ("", "")
    assert not missing.exists()
