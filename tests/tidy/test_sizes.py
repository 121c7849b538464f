"""Files and functions of the rooms stay small enough to be read in one sitting."""

import ast

from tests.tidy.project import ROOMS, python_files

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70


def oversized(name: str, source: str) -> list[str]:
    """What in this file is longer than its limit."""
    found = []
    lines = len(source.splitlines())
    if lines > FILE_LINES_MAX:
        found.append(f"{name}: {lines} lines, limit {FILE_LINES_MAX}")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                where = f"{name}:{node.lineno}: {node.name}"
                found.append(f"{where} has {lines} lines, limit {FUNCTION_LINES_MAX}")
    return found


def function_of(lines: int, keyword: str = "def") -> str:
    return f"{keyword} long():\n" + "    x = 1\n" * (lines - 1)


def test_rooms_in_tree_hold_no_oversized_code() -> None:
    files = python_files(*ROOMS)
    assert files
    assert [line for name, source in files.items() for line in oversized(name, source)] == []


def test_function_longer_than_limit_is_reported() -> None:
    for keyword in ("def", "async def"):
        assert oversized("a.py", function_of(FUNCTION_LINES_MAX, keyword)) == []
        assert oversized("a.py", function_of(FUNCTION_LINES_MAX + 1, keyword)) == [
            "a.py:1: long has 71 lines, limit 70"
        ]


def test_file_longer_than_limit_is_reported() -> None:
    assert oversized("a.py", "x = 1\n" * FILE_LINES_MAX) == []
    assert oversized("a.py", "x = 1\n" * (FILE_LINES_MAX + 1)) == ["a.py: 501 lines, limit 500"]
