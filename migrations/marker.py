"""Markers: the note `<data_dir>/<name>.flag` that a migration has been done.

A marker only saves time: whoever deletes it loses nothing but that. It is written last, beside and
renamed, so there is a whole one or none; one that cannot be read counts as none. The file is one
JSON object, see docs/specs/0005-migrations.md.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from filestore.files import replace_file, sync_folder, translated_os_errors
from migrations.stats import Failure

RETRIES_MAX = 3


@dataclass(frozen=True, slots=True)
class Marker:
    """What a marker says. `sources`: what there was to migrate from, where that may change."""

    name: str
    version: int
    finished_at: int
    stats: dict[str, int]
    failed: list[Failure] = field(default_factory=list)
    is_cut: bool = False
    """True if more items failed than are named."""
    retries: int = 0
    sources: list[str] = field(default_factory=list)


def read_marker(path: Path) -> Marker | None:
    """The marker, or None if there is none that can be read."""
    try:
        found = orjson.loads(path.read_bytes())
        return Marker(
            str(found["name"]),
            int(found["version"]),
            int(found["finished_at"]),
            {str(key): int(value) for key, value in found["stats"].items()},
            [Failure(**{**item}) for item in found["failed"]],
            bool(found["is_cut"]),
            int(found["retries"]),
            [str(source) for source in found["sources"]],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_marker(path: Path, marker: Marker, hit: Callable[[str], None]) -> None:
    """Write the marker. Durable on return."""
    content = asdict(marker) | {"failed": [item._asdict() for item in marker.failed]}
    hit("marker.before")
    with translated_os_errors("migrate"):
        replace_file(path, orjson.dumps(content, option=orjson.OPT_INDENT_2))
    hit("marker.after")


def remove_marker(path: Path) -> None:
    """Take a marker away, because there is something new to migrate."""
    with translated_os_errors("migrate"), suppress(FileNotFoundError):
        os.unlink(path)
        sync_folder(path.parent)
