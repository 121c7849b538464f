"""Where the old databases lie: directly in the data folder, or in its folder `db`."""

from pathlib import Path
from typing import NamedTuple

FILES_NAME = "filestore.db"
OBJECTS_NAMES = ("objects.db", "waveterm.db")


class OldFolder(NamedTuple):
    """A folder of the old layout; None for a database that is missing.

    Sources are named the same wherever the folder lies, so that moving it makes nothing new. Only
    if there are two, the names tell them apart.
    """

    files: Path | None
    objects: Path | None
    files_source: str
    objects_source: str


def find_old_folders(data_dir: Path) -> list[OldFolder]:
    """The old layouts in a data folder. Cheap: looks for a few names."""
    found: list[OldFolder] = []
    for folder in (data_dir, data_dir / "db"):
        files = _file(folder / FILES_NAME)
        objects = next(filter(None, (_file(folder / name) for name in OBJECTS_NAMES)), None)
        if files or objects:
            prefix = "db/" if found else ""
            found.append(OldFolder(files, objects, prefix + FILES_NAME, prefix + OBJECTS_NAMES[0]))
    return found


def names_of(folders: list[OldFolder], data_dir: Path) -> list[str]:
    """The databases of these folders, as paths in the data folder."""
    paths = [path for found in folders for path in (found.files, found.objects) if path]
    return sorted(str(path.relative_to(data_dir)) for path in paths)


def _file(path: Path) -> Path | None:
    return path if path.is_file() else None
