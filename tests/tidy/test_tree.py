"""The tree has the prescribed shape and carries nothing that belongs to one machine."""

import ast
import re
from pathlib import Path, PurePosixPath

from tests.tidy.project import ROOMS, ROOT, python_files, tracked_files, walk

TOP_LEVEL = {
    ".ci", ".gitignore", "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "bench", "data",
    "docs", "filestore", "migrations", "pyproject.toml", "requirements-dev.lock",
    "requirements-fuzz.lock", "requirements.lock", "srv", "tests",
}  # fmt: skip
BLOB_BYTES_MAX = 200 * 1024

# Absolute paths below the usual personal folders, and the public package index.
# Neither pattern matches its own text.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|work|Users)(?![\w-])")
INDEX_ADDRESS = re.compile(r"(?:pypi|pythonhosted)[.]org")


def misplaced(names: list[str]) -> list[str]:
    """Deviations of a list of tracked files from the prescribed top level."""
    top = {name.split("/")[0] for name in names}
    found = [f"missing: {name}" for name in TOP_LEVEL - top]
    found += [f"unexpected: {name}" for name in top - TOP_LEVEL]
    found += [f"unexpected: {name}" for name in names if _is_stray(name)]
    if not any(name.startswith("docs/specs/") for name in names):
        found.append("missing: docs/specs")
    return sorted(found)


def _is_stray(name: str) -> bool:
    only = {"data": "data/.gitkeep", ".ci": ".ci/run"}
    folder = name.split("/")[0]
    return folder in only and name != only[folder]


def is_large_blob(content: bytes) -> bool:
    return len(content) > BLOB_BYTES_MAX and b"\0" in content


def personal_lines(name: str, text: str) -> list[str]:
    """Lines that name a path of one machine or the address of a package index."""
    return [
        f"{name}:{number}: {line.strip()}"
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE_PATH.search(line) or INDEX_ADDRESS.search(line)
    ]


def folders_without_init(names: list[str]) -> list[str]:
    """Folders of Python files that are no package: equal file names in two of them collide."""
    files = [PurePosixPath(name) for name in names if name.endswith(".py")]
    return sorted({str(f.parent) for f in files if f"{f.parent}/__init__.py" not in names})


def has_docstring(source: str) -> bool:
    return bool(ast.get_docstring(ast.parse(source)))


def test_top_level_of_tree_is_as_prescribed() -> None:
    assert misplaced(tracked_files()) == []


def test_tracked_files_include_no_large_blobs() -> None:
    names = tracked_files()
    assert [name for name in names if is_large_blob((ROOT / name).read_bytes())] == []


def test_tracked_files_name_no_machine_path_and_no_index() -> None:
    found = []
    for name in tracked_files():
        found += personal_lines(name, (ROOT / name).read_text(encoding="utf-8", errors="replace"))
    assert found == []


def test_folders_of_python_files_are_packages() -> None:
    assert folders_without_init(list(python_files(*ROOMS, "tests", "bench"))) == []


def test_modules_in_rooms_have_docstrings() -> None:
    files = python_files(*ROOMS)
    assert [name for name, source in files.items() if not has_docstring(source)] == []


def test_missing_and_unexpected_entries_are_reported() -> None:
    good = [f"{name}/x" for name in TOP_LEVEL - {"data", ".ci", "docs", "srv"}]
    names = [*good, "data/.gitkeep", "data/zoned.db", ".ci/run", "docs/a.md", "util/x.py"]
    assert misplaced(names) == [
        "missing: docs/specs",
        "missing: srv",
        "unexpected: data/zoned.db",
        "unexpected: util",
    ]


def test_only_large_binary_content_counts_as_blob() -> None:
    assert is_large_blob(bytes(BLOB_BYTES_MAX + 1))
    assert not is_large_blob(bytes(BLOB_BYTES_MAX))
    assert not is_large_blob(b"x" * (BLOB_BYTES_MAX + 1))


def test_line_with_machine_path_or_index_is_reported() -> None:
    for folder in ("home", "root", "work", "Users"):
        assert personal_lines("a", f"cd /{folder}/me") == [f"a:1: cd /{folder}/me"]
    assert personal_lines("a", "see pypi." + "org") != []
    assert personal_lines("a", "data/home, ./home and /homework") == []


def test_folder_without_init_is_reported() -> None:
    assert folders_without_init(["tests/__init__.py", "tests/a/test_x.py"]) == ["tests/a"]


def test_module_without_docstring_is_reported() -> None:
    assert not has_docstring("x = 1")
    assert has_docstring('"""What it owns."""')


def test_walk_without_git_skips_caches_and_run_data(tmp_path: Path) -> None:
    kept = ["data/.gitkeep", "srv/a.py", ".ci/run"]
    skipped = ["data/zoned.db", "srv/__pycache__/a.pyc", ".venv/bin/python", ".mypy_cache/x"]
    for name in kept + skipped:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(walk(tmp_path)) == sorted(kept)
