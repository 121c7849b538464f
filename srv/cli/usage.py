"""`zoned usage`: what each agent takes, the largest first."""

import time
from collections.abc import Iterator

from srv.cli import folder
from srv.cli.backend import Backend, Json, connected
from srv.cli.options import Invocation
from srv.cli.screen import DIM, Screen
from srv.cli.words import date, several, size

PAGE_ROWS = 100
RECENT_MS = 7 * 86_400_000


def usage(call: Invocation) -> int:
    """`zoned usage`."""
    with connected(call, is_reading=True) as backend:
        rows = sorted(_rows(backend), key=_bytes, reverse=True)
        disk_bytes = folder.disk_bytes(backend.config.data_dir)
    limit = call.count("limit")
    shown = rows if limit is None else rows[:limit]
    if call.is_json:
        total = sum(map(_bytes, rows))
        call.screen.json({"agents": shown, "total_bytes": total, "disk_bytes": disk_bytes})
    else:
        _show(call.screen, shown, rows, disk_bytes)
    return 0


def _rows(backend: Backend) -> Iterator[Json]:
    since_ms = max(int(time.time() * 1000) - RECENT_MS, 0)
    params: Json = {"limit": PAGE_ROWS, "since_ms": since_ms}
    while page := backend.rows("srv:usage", params):
        yield from page
        if len(page) < PAGE_ROWS:
            return
        params["after"] = page[-1]["definition_id"]


def _bytes(row: Json) -> int:
    total: int = row["archived_bytes"] + row["current_bytes"] + row["record_bytes"]
    return total


def _has_files(row: Json) -> bool:
    return bool(row["archives"] or row["current_bytes"])


def _show(screen: Screen, shown: list[Json], rows: list[Json], disk_bytes: int) -> None:
    # A session of another surface is mostly the only one of its agent, which bears its name: these
    # are told in one line.
    shown = [row for row in shown if _has_files(row)]
    others = [row for row in rows if not _has_files(row)]
    if shown:
        screen.table(
            ("AGENT", "SIZE", "CURRENT", "RECORDS", "ARCHIVES", "LINES", "7 DAYS", "OLDEST"),
            [
                (
                    row["definition_id"],
                    size(_bytes(row)),
                    size(row["current_bytes"]),
                    size(row["record_bytes"]),
                    str(row["archives"]),
                    str(row["archived_lines"] + row["current_lines"]),
                    size(row["recent_bytes"]),
                    date(row["oldest_ms"])[:10] if row["archives"] else "-",
                )
                for row in shown
            ],
            right=("SIZE", "CURRENT", "RECORDS", "ARCHIVES", "LINES", "7 DAYS"),
        )
    if others:
        told = f"{several(len(others), 'agent')} without files: "
        told += f"{several(sum(row['records'] for row in others), 'record')}, "
        screen.line(told + size(sum(map(_bytes, others))))
    archives = several(sum(row["archives"] for row in rows), "archive")
    told = f"{several(len(rows), 'agent')}, {archives}, {size(sum(map(_bytes, rows)))}"
    screen.line(screen.style(f"{told}; packed on the disk: {size(disk_bytes)}", DIM))
