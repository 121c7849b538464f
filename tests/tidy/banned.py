"""Checkers for what may not stand in our Python source.

Each checker takes a parsed file and yields `line: what is wrong`. They look at the syntax
tree and at comment tokens, never at raw text, so a banned word in a string is no finding.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

_REASON = r"\s*[#:,–—-]+\s*\w.{7,}"
_SUPPRESSIONS = {
    "type: ignore": re.compile(r"type:\s*ignore\[[\w, -]+\]" + _REASON),
    "noqa": re.compile(r"noqa:\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*" + _REASON),
    "pragma: no cover": re.compile(r"pragma: no cover" + _REASON),
}
_SPAWNERS = {"asyncio.create_task", "asyncio.ensure_future"}
_SLEEPS = {"time.sleep", "asyncio.sleep"}
_BROAD = {"Exception", "BaseException"}


@dataclass(frozen=True, slots=True)
class Source:
    """One file, parsed: its tree, its comments and the full names behind its imports."""

    tree: ast.Module
    comments: list[tuple[int, str]]
    imported: dict[str, str]


def parse(text: str) -> Source:
    tree = ast.parse(text)
    comments = [
        (token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            imported |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return Source(tree, comments, imported)


def dotted(source: Source, node: ast.expr) -> str:
    """`asyncio.sleep` for that expression however it was imported; "" for other shapes."""
    if isinstance(node, ast.Name):
        return source.imported.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{dotted(source, node.value)}.{node.attr}"
    return ""


def calls(source: Source) -> Iterator[tuple[int, str]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            yield node.lineno, dotted(source, node.func)


def open_ends(source: Source) -> Iterator[str]:
    """FIXME may not be merged; TODO needs the number of an issue."""
    for line, comment in source.comments:
        if re.search(r"\bFIXME\b", comment):
            yield f"{line}: FIXME"
        if re.search(r"\bTODO\b(?!\(#\d+\))", comment):
            yield f"{line}: TODO without an issue number, write TODO(#12)"


def suppressions(source: Source) -> Iterator[str]:
    """A silenced tool names the code it silences and why: `# noqa: A001  # the reason`."""
    for line, comment in source.comments:
        for word, wanted in _SUPPRESSIONS.items():
            pattern = word.replace(" ", r"\s*")
            if re.search(rf"#\s*{pattern}", comment) and not wanted.search(comment):
                yield f"{line}: {word} without code and reason"


def swallowed_errors(source: Source) -> Iterator[str]:
    """No bare except, and no broad one that does nothing."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        if node.type is None:
            yield f"{node.lineno}: bare except"
            continue
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        is_broad = any(dotted(source, kind).split(".")[-1] in _BROAD for kind in kinds)
        if is_broad and all(_does_nothing(statement) for statement in node.body):
            yield f"{node.lineno}: broad except that swallows the error"


def _does_nothing(statement: ast.stmt) -> bool:
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant or isinstance(statement, ast.Pass | ast.Continue)


def prints(source: Source) -> Iterator[str]:
    """The store and the migrations have no terminal; only srv talks."""
    yield from (f"{line}: print" for line, name in calls(source) if name == "print")


def sleeps(source: Source) -> Iterator[str]:
    """A test that sleeps is slow, flaky or both: use the fake clock or wait for the event."""
    yield from (f"{line}: {name}" for line, name in calls(source) if name in _SLEEPS)


def loose_tasks(source: Source) -> Iterator[str]:
    """Every task has an owner: only a TaskGroup, named `group` or `…_group`, may start one."""
    for line, name in calls(source):
        owner, _, method = name.rpartition(".")
        is_spawn = method == "create_task" and not owner.endswith("group")
        if name in _SPAWNERS or is_spawn:
            yield f"{line}: {name} outside a task group"


def relative_imports(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.level > 0:
            yield f"{node.lineno}: relative import"
