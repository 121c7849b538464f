"""One of many processes that update one session, by the real command.

    python -m tests.cli.updates FOLDER SESSION LANE COUNT

Runs `zoned session update` COUNT times, one after the other, each with an error and a key of
metadata of its own. Prints how many exited with 0; what failed has said so on stderr.
"""

import sys

from srv.cli.main import main


def run(folder: str, session_id: str, lane: str, count: int) -> int:
    """How many were acknowledged."""
    done = 0
    for number in range(count):
        words = ["--error", f"{lane} {number}", "--metadata", f'{{"lane {lane}": {number}}}']
        done += main(["session", "update", session_id, *words, "--data-dir", folder]) == 0
    return done


if __name__ == "__main__":
    folder, session_id, lane, count = sys.argv[1:]
    sys.stderr.write(f"{run(folder, session_id, lane, int(count))}\n")
