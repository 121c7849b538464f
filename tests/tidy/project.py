"""The project tree as the tidy tests see it: its root, rooms and tracked files."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("filestore", "migrations", "srv")

_SKIPPED_FOLDERS = {".git", ".venv", "__pycache__", "build", "dist", "htmlcov"}


def tracked_files() -> list[str]:
    """Paths, relative to the root, of all files git tracks or would track."""
    if not (ROOT / ".git").exists():
        return sorted(walk(ROOT))
    listing = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    # A file deleted but not yet committed is still listed.
    return sorted(name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file())


def walk(root: Path) -> Iterator[str]:
    """The same for an exported tree without git: all but environment, caches and run data."""
    for path in root.rglob("*"):
        name = path.relative_to(root)
        is_skipped = any(
            part in _SKIPPED_FOLDERS or part.endswith(("_cache", ".egg-info"))
            for part in name.parts[:-1]
        )
        is_run_data = name.parts[0] == "data" and name.name != ".gitkeep"
        is_run_output = ".hypothesis" in name.parts or name.name.startswith(".coverage")
        if path.is_file() and not (is_skipped or is_run_data or is_run_output):
            yield name.as_posix()


def python_files(*folders: str) -> dict[str, str]:
    """Source text by path of the tracked Python files below the given top-level folders."""
    return {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in tracked_files()
        if name.endswith(".py") and name.split("/")[0] in folders
    }
