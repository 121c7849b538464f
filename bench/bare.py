"""`python -m bench.bare serve …`: the daemon with one call more, `/bare`, which reads what it is
sent and answers a constant. What REST adds to that is what REST costs.
"""

import sys
from functools import partial

from aiohttp import web

from srv import daemon
from srv.cli.main import main

ANSWER = b'{"answer":"%b"}' % (b"x" * 380)
"""About as long as a session."""


async def _bare(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(body=ANSWER, content_type="application/json")


def _make_app(make: "partial[web.Application]", *parts: object) -> web.Application:
    app: web.Application = make(*parts)
    app.router.add_route("*", "/bare", _bare)
    return app


if __name__ == "__main__":
    daemon.make_app = partial(_make_app, daemon.make_app)  # type: ignore[assignment]  # the same
    sys.exit(main())
