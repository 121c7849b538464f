"""`zoned prune`: delete many archives, by age, size or number."""

import re
import time
from collections.abc import Iterator

from srv.cli.asking import can_ask, is_agreed
from srv.cli.backend import Backend, Json, connected
from srv.cli.lists import agent_rows
from srv.cli.options import Invocation, UsageError
from srv.cli.progress import Bar
from srv.cli.replay import operate
from srv.cli.screen import Screen
from srv.cli.words import date, several, size

SHOWN_MAX = 20
_AGE = re.compile(r"([0-9]{1,6})(h|d|w)")
_AGE_MS = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_SIZE = re.compile(r"([0-9]{1,12}) ?(B|KiB|MiB|GiB)", re.IGNORECASE)
_SIZE_BYTES = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def prune(call: Invocation) -> int:
    """`zoned prune`. Looks first, then asks, then deletes some at a time."""
    rule = _rule(call)
    with connected(call, is_reading="dry_run" in call.flags) as backend:
        agents = _agents(call, backend)
        found = [row for agent in agents for row in _pages(backend, agent, rule, is_dry_run=True)]
        if "dry_run" in call.flags or not found:
            return _tell(call, "would be deleted", found, is_dry_run=True)
        can_ask(call, "delete")
        what = f"{several(len(found), 'archive')}, {size(_bytes(found))}"
        if not is_agreed(call, f"delete {what}, for good?"):
            call.screen.warn("nothing is deleted")
            return 1
        deleted = _delete(call.screen, backend, rule, agents, found)
    return _tell(call, "deleted", deleted, is_dry_run=False)


def _rule(call: Invocation) -> Json:
    """The conditions, as the method takes them."""
    rule: Json = {}
    if (age := call.text("older_than")) is not None:
        given = _AGE.fullmatch(age)
        if given is None:
            raise UsageError(f"--older-than must be like 12h, 30d or 8w, not {age!r}", "prune")
        # From now on this moment counts: what is archived while it is asked is not older.
        now_ms = int(time.time() * 1000)
        rule["before_ms"] = max(now_ms - int(given[1]) * _AGE_MS[given[2]], 0)
    if (bytes_min := call.text("larger_than")) is not None:
        given = _SIZE.fullmatch(bytes_min)
        if given is None:
            raise UsageError(f"--larger-than must be like 10MiB, not {bytes_min!r}", "prune")
        rule["bytes_min"] = int(given[1]) * _SIZE_BYTES[given[2].lower()]
    if (keep := call.count("keep")) is not None:
        rule["keep"] = keep
    if not rule:
        raise UsageError("prune needs --older-than, --keep or --larger-than", "prune")
    return rule


def _agents(call: Invocation, backend: Backend) -> list[str]:
    if (agent := call.text("agent")) is not None:
        return [agent]
    return [row["definition_id"] for row in agent_rows(backend) if row["archives"]]


def _pages(backend: Backend, agent: str, rule: Json, *, is_dry_run: bool) -> Iterator[Json]:
    params: Json = {"definition_id": agent, **rule, "dry_run": is_dry_run}
    while True:
        page = operate(backend, "srv:prune", params)
        yield from page["found"]
        if "next" not in page:
            return
        params["after_ms"] = page["next"]


def _delete(
    screen: Screen, backend: Backend, rule: Json, agents: list[str], found: list[Json]
) -> list[Json]:
    deleted: list[Json] = []
    bar = Bar(screen)
    try:
        for agent in agents:
            for row in _pages(backend, agent, rule, is_dry_run=False):
                deleted.append(row)
                bar.tell(len(deleted), len(found), f"{len(deleted)} of {len(found)} archives")
    finally:
        bar.end()
    return deleted


def _bytes(rows: list[Json]) -> int:
    return sum(row["state_bytes"] + row["output_bytes"] for row in rows)


def _tell(call: Invocation, what: str, rows: list[Json], *, is_dry_run: bool) -> int:
    if call.is_json:
        zones = [row["archive_zoneid"] for row in rows]
        call.screen.json({"archives": zones, "bytes": _bytes(rows), "dry_run": is_dry_run})
        return 0
    if is_dry_run and rows:
        shown = [(row["archive_zoneid"], date(row["archived_at_ms"]), size(_bytes([row])),
                  row["preview"]) for row in rows[:SHOWN_MAX]]  # fmt: skip
        call.screen.table(("ZONE", "ARCHIVED", "SIZE", "PREVIEW"), shown, right=("SIZE",))
    left = f"; {len(rows) - SHOWN_MAX} not shown" if is_dry_run and len(rows) > SHOWN_MAX else ""
    told = f"{several(len(rows), 'archive')} {what}" if rows else "no archive is meant"
    call.screen.line(told + (f", {size(_bytes(rows))}" if rows else "") + left)
    return 0
