"""`make fuzz`: every target for so many seconds, led by coverage, and one table of what came of it.

    python -m tests.fuzz [--seconds N] [TARGET ...]

Each target runs in a process of its own. What it learned is kept in build/fuzz/<target> and is
where the next run begins. Ends with 1 if anything was found; the input is shown, to be kept in
`seeds.FOUND`.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.seeds import seeds, words
from tests.fuzz.targets import TARGETS

FOLDER = Path("build/fuzz")
SECONDS = 60
INPUT_BYTES_MAX = 64 << 10
"""As large as the largest seed, a database."""
ONE_INPUT_S_MAX = 10
RSS_MB_MAX = 1024
TITLES = ("TARGET", "RUNS", "RUNS/S", "BRANCHES", "INPUTS", "PEAK MB", "FOUND")


class Outcome(NamedTuple):
    """What came of one target."""

    row: tuple[str, ...]
    trouble: str
    """What it ended with, if not with its time."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each target")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    given = parser.parse_args()
    if unknown := set(given.targets) - set(TARGETS):
        parser.error(f"there is no target {', '.join(sorted(unknown))}")
    outcomes = []
    for target in given.targets or TARGETS:
        print(f"{target} for {given.seconds} s ...", file=sys.stderr, flush=True)
        outcomes.append(fuzz(target, given.seconds))
    for row in [TITLES, *(outcome.row for outcome in outcomes)]:
        print("  ".join(cell.ljust(10) for cell in row).rstrip())
    for outcome in outcomes:
        if outcome.trouble:
            print(f"\n{outcome.row[0]}:\n{outcome.trouble}")
    return 1 if any(outcome.trouble for outcome in outcomes) else 0


def fuzz(target: str, seconds: int) -> Outcome:
    """Fuzz one target."""
    kept, found = FOLDER / target, FOLDER / f"{target}-found"
    for folder in (kept, found):
        folder.mkdir(parents=True, exist_ok=True)
    for old in found.iterdir():
        old.unlink()
    for number, seed in enumerate(seeds(target)):
        (kept / f"seed-{number}").write_bytes(seed)
    known = FOLDER / f"{target}.dict"
    known.write_text("".join(f"{_quoted(word)}\n" for word in words(target)), encoding="ascii")
    done = subprocess.run(
        [
            sys.executable, "-m", "tests.fuzz.child", target, str(kept),
            f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}",
            f"-timeout={ONE_INPUT_S_MAX}", f"-rss_limit_mb={RSS_MB_MAX}",
            f"-artifact_prefix={found}/", f"-dict={known}", "-print_final_stats=1",
        ],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip
    inputs = [path.read_bytes() for path in sorted(found.iterdir())]
    stats = dict(re.findall(r"^stat::(\w+): +(\d+)$", done.stdout, re.MULTILINE))
    covered = re.findall(r"\bcov: (\d+)", done.stdout)
    row = (
        target,
        stats.get("number_of_executed_units", "?"),
        stats.get("average_exec_per_sec", "?"),
        covered[-1] if covered else "?",
        str(len(list(kept.iterdir()))),
        stats.get("peak_rss_mb", "?"),
        str(len(inputs)),
    )
    if done.returncode == 0 and not inputs:
        return Outcome(row, "")
    return Outcome(row, "\n".join([done.stdout[-3000:], *map(repr, inputs)]))


def _quoted(word: bytes) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"'


if __name__ == "__main__":
    sys.exit(main())
