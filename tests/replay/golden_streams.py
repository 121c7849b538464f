"""Streams as agents write them, and the snapshots that must come of them.

`<name>.ndjson` is the stream, `<name>.json` the snapshot, laid out for people. The snapshots are
read line by line when they change: they are what replay promises.
"""

from pathlib import Path

FOLDER = Path(__file__).parent / "golden"
STREAMS = sorted(path.stem for path in FOLDER.glob("*.ndjson"))


def read_stream(name: str) -> bytes:
    return (FOLDER / f"{name}.ndjson").read_bytes()


def read_snapshot(name: str) -> bytes:
    return (FOLDER / f"{name}.json").read_bytes()
