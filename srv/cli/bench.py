"""`zoned bench`: hand over to the benchmarks, which are in the source tree and not in the wheel."""

import os
import sys
from pathlib import Path

from srv.cli.options import Invocation
from srv.errors import ZonedError


def bench(call: Invocation) -> int:
    """`zoned bench …`: becomes `python -m bench …`."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "bench" / "__main__.py").exists():
        hint = "run it from a checkout of the source: make bench"
        raise ZonedError("NOT_FOUND", "the benchmarks are not installed", hint=hint)
    given = call.arguments[1:] if call.arguments[:1] == ["--"] else call.arguments
    paths = [str(root), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    os.execve(sys.executable, [sys.executable, "-m", "bench", *given], environment)
