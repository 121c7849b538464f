"""One target under atheris, in a process of its own: `python -m tests.fuzz.child TARGET ...`."""

import sys

import atheris

MODULES = [
    "srv.websocket",
    "filestore.lines",
    "filestore.meta",
    "filestore.replay",
    "filestore.sessions.portable",
    "migrations.legacy",
]
"""The branches of these lead the search."""


def main() -> None:
    name = sys.argv.pop(1)
    with atheris.instrument_imports(include=MODULES):
        from tests.fuzz.targets import TARGETS
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
