"""`zoned replay`: a stream as people read it, as a snapshot, live, or written back to the store."""

from typing import TYPE_CHECKING

from srv.cli import pager, streams
from srv.cli.backend import Backend, Json, connected, place_of
from srv.cli.options import Invocation, UsageError
from srv.cli.progress import waiting
from srv.cli.screen import DIM, harmless
from srv.cli.streams import Source
from srv.cli.transcript import Transcript
from srv.cli.words import several
from srv.errors import ZonedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filestore.replay import Replay

BROKEN_SHOWN = 5
"""So many lines that are no JSON are named, as --from-line counts them."""
LONG_S = 3600.0
"""How long an operators' call may take: it may fold a whole stream, or all of them."""


def replay(call: Invocation) -> int:
    """`zoned replay <defId|zone|file|->`."""
    (word,) = call.arguments
    if not word:
        raise UsageError("an empty name is no session and no file", "replay")
    source = streams.source_of(word)
    _check_flags(call, source)
    streams.provider_of(call)
    if call.flags.get("write"):
        return _write(call, source.place)
    if call.flags.get("follow"):
        from srv.cli.replay_follow import follow

        return follow(call, source)
    folded = streams.fold(call, source)
    if not call.is_json:
        pager.show(call.screen, _lines(call, source, folded))
    elif call.screen.is_terminal:
        import orjson

        call.screen.json(orjson.loads(folded.snapshot()))
    else:
        call.screen.write(folded.snapshot())
        call.screen.write(b"\n")
    return 0


def _check_flags(call: Invocation, source: Source) -> None:
    flags = call.flags
    if flags.get("force") and not flags.get("write"):
        raise UsageError("--force goes with --write", "replay")
    if flags.get("write"):
        streams.refuse_file(source, "--write")
        for other in ("follow", "from_line"):
            if other in flags:
                raise UsageError(f"--write does not go with --{other.replace('_', '-')}", "replay")
    if flags.get("follow") and source.kind == "session" and ":" in source.place:
        raise UsageError("an archive does not change: --follow takes a definition id", "replay")


def _lines(call: Invocation, source: Source, folded: "Replay") -> "Iterator[str]":
    """The transcript; for people with a word about the stream before and after."""
    screen = call.screen
    if screen.is_terminal:
        name = "stdin" if source.place == "-" else harmless(source.place)
        yield screen.style(f"{name} · {folded.provider} · {several(folded.lines, 'line')}", DIM)
        yield ""
    nodes = folded.nodes()
    if not nodes:
        yield screen.style(f"nothing to show of {several(folded.lines, 'line')}", DIM)
    yield from Transcript(screen).lines(nodes)
    if screen.is_terminal and (facts := _flaws(folded)):
        yield ""
        yield screen.style(facts, DIM)


def _flaws(folded: "Replay") -> str:
    skipped = f"{several(folded.skipped, 'line')} skipped" if folded.skipped else ""
    broken = [str(each.line) for each in folded.skipped_lines if each.reason == "no JSON"]
    if broken:
        more = ["…"] if len(broken) > BROKEN_SHOWN else []
        skipped += f", no JSON: {', '.join(broken[:BROKEN_SHOWN] + more)}"
    torn = "the last line is torn" if folded.is_torn else ""
    return " · ".join(fact for fact in (skipped, torn) if fact)


def operate(backend: Backend, method: str, params: Json) -> Json:
    """Call an operators' method, which may take long: by the daemon if there is one."""
    if socket := backend.daemon_socket:
        from srv.client.blocking import BlockingClient

        try:
            with BlockingClient(socket) as client:
                answer = client.call(method, params, timeout_s=LONG_S)
        except ZonedError as error:
            if error.data.get("daemon") != "absent":
                raise
            # It died without cleaning up: its socket is still there, but the folder is free.
        else:
            assert isinstance(answer, dict), method
            return answer
    return backend.object(method, params)


def _write(call: Invocation, place: str) -> int:
    params: Json = {**place_of(place), "force": bool(call.flags.get("force"))}
    if "provider" in call.flags:
        params["provider"] = call.flags["provider"]
    with connected(call, is_reading=False) as backend, waiting(call.screen, f"rebuilding {place}"):
        done = operate(backend, "srv:replay_write", params)
    if call.is_json:
        call.screen.json(done)
        return 0
    lines, trouble = several(done["lines"], "line"), done["trouble"]
    if not done["written"]:
        what = "has no lines to rebuild it from" if not done["lines"] else "needs no rebuilding"
        call.screen.line(f"{place}: the snapshot {what}; nothing was written")
        return 0
    why = f"was {trouble}" if trouble else "was as it should be"
    nodes = several(done["node_count"], "node")
    call.screen.line(f"{place}: the snapshot {why}; rebuilt: {nodes} of {lines}")
    if done["kept"]:
        call.screen.line(f"  the old one is kept as {done['kept']}")
    return 0
