"""`make crash`: the fault suites in their long form, one after the other, and one table.

    make crash ARGS="--minutes 60 --suites kills,cuts --seed 7"

Exits with 1 if anything was lost, altered or accepted wrongly, or if a control run did not fail.
"""

import argparse
import asyncio
import logging
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.crash import (
    call_kills,
    daemon_cuts,
    daemon_kills,
    flips,
    report,
    soak,
    system_errors,
)
from tests.crash.suite import Plan, Row


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite, and its share of the time."""

    run: Callable[[Plan], Awaitable[Row]]
    share: float


async def _cuts(plan: Plan) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        return await daemon_cuts.run(Path(folder), plan)


SUITES = {
    "calls": Suite(call_kills.run, 0.18),
    "kills": Suite(daemon_kills.run, 0.20),
    "cuts": Suite(_cuts, 0.22),
    "errors": Suite(system_errors.run, 0.15),
    "flips": Suite(flips.run, 0.15),
    "soak": Suite(soak.run, 0.10),
}


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make crash", description=__doc__)
    parser.add_argument("--suites", default=",".join(SUITES), help="which, with commas between")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--minutes", type=float, default=30.0, help="for all suites together")
    parser.add_argument("--hours", type=float, help="for the soak alone")
    parser.add_argument("--no-document", action="store_true", help="print the table only")
    found = parser.parse_args(words)
    unknown = set(found.suites.split(",")) - set(SUITES)
    if unknown:
        parser.error(f"no such suite: {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    return found


def main(words: list[str]) -> int:
    options = parse(words)
    names = options.suites.split(",")
    if shutil.which("strace") is None or os.geteuid() != 0:
        print("strace and root are needed for the whole of it", file=sys.stderr)
        return 2
    # What stores say of damage that was done to them on purpose.
    logging.getLogger("zoned").setLevel(logging.CRITICAL + 1)
    whole = sum(SUITES[name].share for name in names)
    rows = []
    for name in names:
        seconds = options.minutes * 60 * SUITES[name].share / whole
        if name == "soak" and options.hours:
            seconds = options.hours * 3600
        print(f"{name}: {seconds:.0f} s, seed {options.seed}", file=sys.stderr, flush=True)
        row = asyncio.run(run_one(SUITES[name], Plan(options.seed, seconds)))
        rows.append(row)
        print("\n".join(report.lines_of(row)), file=sys.stderr, flush=True)
        if not options.no_document:
            report.write([row])
    print(report.block(rows, ""))
    return 1 if any(row.wrong for row in rows) else 0


async def run_one(suite: Suite, plan: Plan) -> Row:
    return await suite.run(plan)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
