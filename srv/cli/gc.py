"""`zoned gc`: finish what waits in the background, and make the database file as small as it can
be."""

from srv.cli.backend import connected
from srv.cli.options import Invocation
from srv.cli.replay import operate
from srv.cli.words import several, size


def gc(call: Invocation) -> int:
    """`zoned gc`. May be asked for again and again."""
    with connected(call, is_reading=False) as backend:
        done = operate(backend, "srv:gc", {})
    if call.is_json:
        call.screen.json(done)
        return 0
    before, after = done["bytes_before"], done["bytes_after"]
    freed = f"{size(before - after)} given back" if before > after else "nothing to give back"
    call.screen.line(f"{freed}: the database has {size(after)}")
    if done["waiting"]:
        waiting = several(done["waiting"], "chunk")
        call.screen.line(f"  {waiting} or more stay until a long read has ended")
    return 0
