"""`zoned tail`: the last lines of a stream, and with --follow what comes after them."""

from collections.abc import Iterator

from srv.cli.backend import Backend, Json, connected, place_of
from srv.cli.options import Invocation, UsageError
from srv.cli.screen import DIM, Screen, harmless, text_of
from srv.cli.words import size
from srv.errors import ZonedError

LINES = 10
LINE_CHARS_SHOWN = 4096
"""A longer line is cut on a terminal, where nobody would read it to its end."""


def tail(call: Invocation) -> int:
    """`zoned tail <defId|zone>`."""
    (place,) = call.arguments
    is_following = bool(call.flags.get("follow"))
    if is_following and ":" in place:
        raise UsageError("an archive does not change: --follow takes a definition id", "tail")
    count = call.count("lines")
    with connected(call, is_reading=True) as backend:
        if is_following:
            from srv.cli.follow import TailFollower

            TailFollower(call, backend, LINES if count is None else count).run()
        if call.is_json:
            call.screen.json(_joined(pages(backend, place, LINES if count is None else count)))
        else:
            total = 0
            for page in pages(backend, place, LINES if count is None else count):
                write_lines(call.screen, page["lines"])
                total = page["total_lines"]
            if not total and call.screen.is_terminal:
                call.screen.line(f"{harmless(place)} has no lines yet")
    return 0


def pages(backend: Backend, place: str, count: int) -> Iterator[Json]:
    """The last `count` lines, in as many pages as they take; at least one."""
    page = backend.object("agent:session:read_output", {**place_of(place), "tail": count})
    # A page has a limit, of lines and of bytes; more lines than that begin before it.
    wanted = max(0, page["total_lines"] - count)
    if page["first_line"] > wanted:
        page = read_from(backend, place, wanted)
    total = page["total_lines"]
    yield page
    while page["lines"] and page["next_line"] < total:
        page = read_from(backend, place, page["next_line"])
        yield page


def read_from(backend: Backend, place: str, line: int) -> Json:
    """The page that begins with this line."""
    return backend.object("agent:session:read_output", {**place_of(place), "from_line": line})


def write_lines(screen: Screen, lines: list[str | bytes]) -> None:
    """Lines as they are, or harmless on a terminal."""
    for line in lines:
        if screen.is_terminal:
            screen.line(_shown(screen, text_of(line)))
        else:
            screen.write((line if isinstance(line, bytes) else line.encode()) + b"\n")


def _shown(screen: Screen, line: str) -> str:
    shown = harmless(line[:LINE_CHARS_SHOWN])
    if len(line) <= LINE_CHARS_SHOWN:
        return shown
    rest = size(len(line[LINE_CHARS_SHOWN:].encode()))
    return f"{shown}{screen.style(f'… {rest} more', DIM)}"


def _joined(found: Iterator[Json]) -> Json:
    """Pages as if they were one answer."""
    answer = next(found)
    for page in found:
        answer["lines"] += page["lines"]
        answer["next_line"] = page["next_line"]
        if "truncated" in page:
            answer.setdefault("truncated", []).extend(page["truncated"])
    return answer


def no_daemon() -> ZonedError:
    """What --follow says when there is nobody to ask."""
    return ZonedError(
        "UNAVAILABLE", "following needs a running daemon", hint="start one with: zoned serve"
    )
