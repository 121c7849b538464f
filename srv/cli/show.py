"""`zoned show`: a session's snapshot. Into a pipe its very bytes, for people a readable cut."""

import json
import time

from srv.cli.backend import Json, connected, place_of
from srv.cli.options import Invocation
from srv.cli.screen import BOLD, DIM, Screen, columns, cut, harmless, text_of
from srv.cli.words import ago, date, several, size
from srv.errors import ZonedError

LINES_SHOWN_MAX = 200
PARSED_BYTES_MAX = 16 << 20
"""A larger snapshot is shown as it is: nobody reads it on a terminal."""


def show(call: Invocation) -> int:
    """`zoned show <defId|zone>`."""
    (place,) = call.arguments
    is_archive = ":" in place
    method = "agent:session:read_archive" if is_archive else "agent:session:read"
    with connected(call, is_reading=True) as backend:
        state = backend.object(method, place_of(place))
    if not is_archive and not state["session_id"]:
        hint = "zoned agents lists those that have one"
        raise ZonedError("NOT_FOUND", f"{place} has no session", hint=hint)
    if call.is_json:
        call.screen.json(state)
    elif call.screen.is_terminal:
        _show_to_people(call.screen, place, state)
    elif "content" in state:
        content = state["content"]
        call.screen.write(content if isinstance(content, bytes) else content.encode())
    else:
        call.screen.warn(f"{place} has no snapshot; its stream has {_output(state)}")
    return 0


def _output(state: Json) -> str:
    return f"{several(state['output_lines'], 'line')}, {size(state['output_bytes'])}"


def _show_to_people(screen: Screen, place: str, state: Json) -> None:
    screen.line(screen.style(harmless(place), BOLD))
    content = state.get("content")
    facts = [("session", harmless(state["session_id"]))]
    if content is None:
        facts.append(("snapshot", "none"))
    else:
        data = content if isinstance(content, bytes) else content.encode()
        when = f"{ago(state['modts'], int(time.time() * 1000))} ({date(state['modts'])})"
        facts += [("saved", when), ("snapshot", f"{size(len(data))}, version {state['version']}")]
    facts.append(("stream", _output(state)))
    if state.get("recovered"):
        facts.append(("recovered", f"{several(state['recovered'], 'line')} after the snapshot"))
    for name, fact in facts:
        screen.line(f"  {screen.style(name.ljust(9), DIM)}  {fact}")
    if content is not None:
        screen.line()
        _show_content(screen, place, text_of(content))


def _show_content(screen: Screen, place: str, content: str) -> None:
    lines = _pretty(content).split("\n")
    is_cut = len(lines) > LINES_SHOWN_MAX
    for line in lines[:LINES_SHOWN_MAX]:
        # Long before a line is measured, most of it is known not to fit.
        shown = harmless(line[: screen.width * 2]).replace("\t", "    ")
        is_cut = is_cut or len(line) > screen.width * 2 or columns(shown) > screen.width
        screen.line(cut(shown, screen.width))
    if is_cut:
        more = len(lines) - LINES_SHOWN_MAX
        rest = f"{several(more, 'more line')}; " if more > 0 else ""
        screen.line(screen.style(f"… {rest}all of it: zoned show {place} | less", DIM))


def _pretty(content: str) -> str:
    """JSON with a line for every value; all else as it is."""
    if len(content) > PARSED_BYTES_MAX:
        return content
    try:
        return json.dumps(json.loads(content), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return content
