"""The `zoned` command: its verbs and options, and how a failure is told.

Verbs live in modules of their own and are imported when they are called, so that `--help` starts
fast. Exit codes: 0 ok, 1 failed, 2 bad invocation, 3 found problems.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code."""
    if not __debug__:
        # Asserts state what only a bug can break; without them the store would write it to disk.
        print("zoned: refuses to run under `python -O`: it needs its assertions", file=sys.stderr)
        return EXIT_USAGE
    options = _parser().parse_args(arguments)
    from filestore import StoreError
    from srv.cli.serve import serve

    try:
        return serve(options.data_dir, options.sync)
    except StoreError as error:
        print(f"zoned: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def default_data_dir() -> Path:
    """`$ZONED_DATA_DIR`, else the user's data folder."""
    if given := os.environ.get("ZONED_DATA_DIR"):
        return Path(given)
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "zoned"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zoned", description="A persistence daemon for the sessions of AI agents."
    )
    parser.add_argument("--version", action="version", version=f"zoned {version('zoned')}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    serve = verbs.add_parser(
        "serve",
        help="open the store and keep it open until SIGINT or SIGTERM",
        description="Open the store in the data folder, say so in one line, and keep it open until "
        "SIGINT or SIGTERM. On a terminal the line is for people, otherwise it is one JSON object.",
        epilog="example: zoned serve --data-dir ./data",
    )
    serve.add_argument(
        "--data-dir",
        type=Path,
        default=default_data_dir(),
        metavar="DIR",
        help="where the data lies (default: $ZONED_DATA_DIR, else %(default)s)",
    )
    serve.add_argument(
        "--sync",
        choices=("full", "normal"),
        default="full",
        help="full: what is acknowledged survives power loss; normal: it survives a crash of the "
        "process, but power loss may take the last moments (default: full)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
