"""`zoned recover`: all sessions of the store, and what a crash left of them."""

from collections.abc import Iterator

from srv.cli.backend import Backend, Json, connected
from srv.cli.options import Invocation
from srv.cli.progress import Bar
from srv.cli.replay import operate
from srv.cli.screen import GREEN, RED, Screen, harmless
from srv.cli.words import several
from srv.errors import EXIT_FOUND

PAGE = 20
"""Sessions in one call: so often the bar moves."""


def recover(call: Invocation) -> int:
    """`zoned recover [--dry-run]`. 0: all was well; 3: something was found."""
    is_dry_run = bool(call.flags.get("dry_run"))
    checked, found = 0, []
    with connected(call, is_reading=is_dry_run) as backend:
        for page in _pages(call.screen, backend, is_dry_run):
            checked += page["checked"]
            found += page["found"]
            if not call.is_json:
                for finding in page["found"]:
                    _show(call.screen, finding, is_dry_run)
    if call.is_json:
        call.screen.json({"checked": checked, "found": found, "dry_run": is_dry_run})
    else:
        call.screen.line(_summary(checked, found))
    return EXIT_FOUND if found else 0


def _pages(screen: Screen, backend: Backend, is_dry_run: bool) -> Iterator[Json]:
    params: Json = {"dry_run": is_dry_run, "limit": PAGE}
    bar, done = Bar(screen), 0
    try:
        while True:
            page = operate(backend, "srv:recover", params)
            done += page["checked"]
            bar.tell(done, max(page["total"], done), f"{done} of {page['total']} sessions")
            bar_is_in_the_way = bool(page["found"])
            if bar_is_in_the_way:
                bar.end()
            yield page
            if "next" not in page:
                return
            params["after"] = page["next"]
    finally:
        bar.end()


def _show(screen: Screen, finding: Json, is_dry_run: bool) -> None:
    facts = []
    trouble = finding.get("trouble", "")
    if trouble == "behind":
        lines = several(finding["uncovered"], "line")
        facts.append(f"the snapshot does not cover {lines} of {finding['lines']}")
    elif trouble:
        has = several(finding["lines"], "line")
        facts.append(f"the snapshot is {trouble}; the stream has {has}")
    if finding["torn"]:
        facts.append("the stream ends in the middle of a line")
    screen.line(f"{harmless(finding['zone'])}: {'; '.join(facts) or 'cannot be read'}")
    match finding.get("done"):
        case "rebuilt":
            kept = f"; the old one is kept as {finding['kept']}" if "kept" in finding else ""
            screen.line(f"  {screen.style('rebuilt', GREEN)}{kept}")
        case "failed":
            screen.line(f"  {screen.style('failed', RED)}: {harmless(finding.get('error', ''))}")
        case _ if trouble and is_dry_run:
            screen.line("  would be rebuilt")


def _summary(checked: int, found: list[Json]) -> str:
    rebuilt = sum(each.get("done") == "rebuilt" for each in found)
    failed = sum(each.get("done") == "failed" for each in found)
    facts = [several(checked, "session"), f"{len(found)} with something to recover"]
    facts += [f"{rebuilt} rebuilt"] if rebuilt else []
    facts += [f"{failed} failed"] if failed else []
    return ", ".join(facts) if found else f"{several(checked, 'session')}, all well"
