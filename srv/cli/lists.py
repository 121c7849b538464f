"""`zoned agents` and `zoned archives`: one row each, with what tells a person which one it is."""

import time
from collections.abc import Iterator

from srv.cli.backend import Backend, Json, connected
from srv.cli.options import Invocation
from srv.cli.screen import DIM, Screen
from srv.cli.words import ago, date, size

PAGE_ROWS = 100


def agents(call: Invocation) -> int:
    """`zoned agents`."""
    with connected(call, is_reading=True) as backend:
        rows = _limited(agent_rows(backend), call.count("limit"))
    if call.is_json:
        call.screen.json(rows)
    elif rows:
        call.screen.table(
            ("AGENT", "SAVED", "NODES", "LINES", "ARCHIVES", "PREVIEW"),
            [
                (
                    row["definition_id"],
                    _time(call.screen, row["modts"]),
                    str(row["node_count"]),
                    str(row["output_lines"]),
                    str(row["archives"]),
                    row["preview"],
                )
                for row in rows
            ],
            right=("NODES", "LINES", "ARCHIVES"),
        )
    else:
        _none(call.screen, "no agents yet; the first: echo hello | zoned append <defId>")
    return 0


def archives(call: Invocation) -> int:
    """`zoned archives <defId>`."""
    (definition_id,) = call.arguments
    with connected(call, is_reading=True) as backend:
        rows = _limited(archive_rows(backend, definition_id), call.count("limit"))
    if call.is_json:
        call.screen.json(rows)
    elif rows:
        call.screen.table(
            ("ZONE", "ARCHIVED", "LINES", "SIZE", "PREVIEW"),
            [
                (
                    row["archive_zoneid"],
                    _time(call.screen, row["archived_at_ms"]),
                    str(row["output_lines"]),
                    size(row["state_bytes"] + row["output_bytes"]),
                    row["preview"],
                )
                for row in rows
            ],
            right=("LINES", "SIZE"),
        )
    else:
        _none(call.screen, f"{definition_id} has no archives; zoned archive makes one")
    return 0


def agent_rows(backend: Backend) -> Iterator[Json]:
    """All agents, page by page."""
    params: Json = {"limit": PAGE_ROWS}
    while page := backend.rows("agent:list", params):
        yield from page
        if len(page) < PAGE_ROWS:
            return
        params["after"] = page[-1]["definition_id"]


def archive_rows(backend: Backend, definition_id: str) -> Iterator[Json]:
    """All archives of an agent, newest first, page by page."""
    params: Json = {"definition_id": definition_id, "limit": PAGE_ROWS}
    while page := backend.rows("agent:session:list_archives", params):
        yield from page
        if len(page) < PAGE_ROWS:
            return
        params["before"] = page[-1]["archived_at_ms"]


def _limited(rows: Iterator[Json], limit: int | None) -> list[Json]:
    if limit is None:
        return list(rows)
    # Zip asks the range first, so no row is fetched that is not shown.
    return [row for _, row in zip(range(limit), rows, strict=False)]


def _time(screen: Screen, time_ms: int | None) -> str:
    # A person wants to know how long ago it was; what goes into a file is read at another time.
    return ago(time_ms, int(time.time() * 1000)) if screen.is_terminal else date(time_ms)


def _none(screen: Screen, text: str) -> None:
    """An empty list is an empty answer; people get a word besides."""
    if screen.is_terminal:
        screen.line(screen.style(text, DIM))
