"""Plain HTTP: REST, health, metrics, the browser's module, and the page that takes the token.

Who may ask was decided before (front.py); only `/health` needs no token. No answer may be framed,
sniffed or read by another origin.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from importlib.resources import files

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from filestore.files import free_bytes
from srv.http.access import LOGIN_TARGET, Access
from srv.http.mcp import PATH, Door
from srv.http.rest.rest import Rest
from srv.metrics import Sample
from srv.rpc.service import Service

HEADERS = {
    "Server": "zoned",  # else a browser hears which libraries there are
    "Content-Security-Policy": "default-src 'self'; connect-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
BODY_BYTES_MAX = 1 << 20

log = logging.getLogger("zoned.http")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_SERVICE = web.AppKey("service", Service)


def make_app(service: Service, access: Access, door: Door, rest: Rest) -> web.Application:
    """The HTTP side of the port."""

    log.addFilter(_as_info)
    app = web.Application(middlewares=[_finish], client_max_size=BODY_BYTES_MAX)
    app.on_response_prepare.append(_prepare)
    app[_SERVICE] = service
    app.router.add_get("/health", _health)
    app.router.add_get("/metrics", _metrics)
    app.router.add_get("/zoned.js", _module)
    app.router.add_get("/", lambda request: _page(request, access))
    for method in ("GET", "POST", "DELETE"):
        app.router.add_route(method, PATH, door.handle)
    rest.join(app)
    return app


def _as_info(record: logging.LogRecord) -> bool:
    """A client that breaks the rules of HTTP is no fault of ours; what it sent is not logged."""
    if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
        record.levelno, record.levelname = logging.INFO, "INFO"
        record.msg, record.args = "closed a connection that broke the rules of HTTP", ()
        record.exc_info = None
    return log.isEnabledFor(record.levelno)


@web.middleware
async def _finish(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer what is not there in our own words."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        response = web.Response(status=error.status, text=f"{error.reason.lower()}\n")
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
    return response


async def _prepare(_: web.Request, response: web.StreamResponse) -> None:
    """What is streamed is sent before its handler returns, so this happens before."""
    response.headers.update(HEADERS)
    response.force_close()


async def _page(request: web.Request, access: Access) -> web.StreamResponse:
    if request.path_qs.startswith(LOGIN_TARGET):
        # The token leaves the address bar at once; the cookie is for our own pages only.
        token = request.path_qs.removeprefix(LOGIN_TARGET)
        response = web.Response(status=303, headers={"Location": "/"})
        response.set_cookie(access.cookie, token, httponly=True, samesite="Strict", path="/")
        return response
    return _file("index.html", "text/html")


async def _module(_: web.Request) -> web.StreamResponse:
    return _file("zoned.js", "text/javascript")


async def _health(request: web.Request) -> web.StreamResponse:
    health = request.app[_SERVICE].health()
    return web.json_response(health, status=200 if health["ok"] else 503)


async def _metrics(request: web.Request) -> web.StreamResponse:
    service = request.app[_SERVICE]
    return web.Response(
        text=service.metrics.text(store_samples(service)),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


def store_samples(service: Service) -> Iterator[Sample]:
    """What the store counts, for Prometheus."""
    stats = service.store.stats
    yield Sample("zoned_writes_total", "counter", "Units of work committed.", stats.units)
    yield Sample("zoned_commits_total", "counter", "Group commits.", stats.commits)
    yield Sample("zoned_batch_units", "gauge", "Units in the last group commit.", stats.batch_units)
    yield Sample("zoned_queue_units", "gauge", "Writes that wait.", stats.queue_units)
    yield Sample("zoned_queue_bytes", "gauge", "Bytes of writes that wait.", stats.queue_bytes)
    yield Sample("zoned_wal_bytes", "gauge", "Size of the write-ahead log.", stats.wal_bytes)
    yield Sample("zoned_log_bytes", "gauge", "Appends not sealed yet.", stats.log_bytes)
    yield Sample(
        "zoned_logs_dropped_total", "counter", "Log lines that were lost.", service.drops()
    )
    free = free_bytes(service.store.data_dir)
    yield Sample("zoned_disk_free_bytes", "gauge", "Space left on the disk.", free)
    is_ok = float(service.store.trouble is None)
    yield Sample("zoned_healthy", "gauge", "1 while writes are taken.", is_ok)


def _file(name: str, kind: str) -> web.Response:
    body = files("srv.http").joinpath("static", name).read_bytes()
    return web.Response(body=body, content_type=kind, charset="utf-8")
