"""`zoned token rotate`: a new token, at once also for the daemon that runs."""

from srv.cli.backend import connected
from srv.cli.options import Invocation, UsageError
from srv.cli.replay import operate
from srv.cli.screen import harmless


def token(call: Invocation) -> int:
    """`zoned token rotate`. The token itself is never shown."""
    (action,) = call.arguments
    if action != "rotate":
        raise UsageError(f"there is no {action!a}: give rotate", "token")
    with connected(call, is_reading=False) as backend:
        done = operate(backend, "srv:rotate_token", {})
    if call.is_json:
        call.screen.json(done)
    else:
        call.screen.line(f"the token is another now: {harmless(done['token_file'])}")
    return 0
