"""`python -m bench.bare serve …`: the daemon with one call more, `/bare`, which reads what it is
sent and answers a constant. What REST adds to that is what REST costs.
"""

import sys
from collections.abc import Callable
from functools import partial

from aiohttp import web

from srv import daemon
from srv.cli.main import main

ANSWER = b'{"answer":"%b"}' % (b"x" * 380)
"""About as long as a session."""


async def _bare(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(body=ANSWER, content_type="application/json")


def _with_bare(make: Callable[..., web.Application], *parts: object) -> web.Application:
    app = make(*parts)
    app.router.add_route("*", "/bare", _bare)
    return app


if __name__ == "__main__":
    vars(daemon)["make_app"] = partial(_with_bare, vars(daemon)["make_app"])
    sys.exit(main())
