"""The daemon's life: lock and open, listen, say ready, and, when told to stop, finish what was
accepted and close.

Nothing depends on a clean end: killed at any moment, nothing acknowledged is lost. A socket file
that a dead daemon left is taken away, because the folder's lock proves that it is dead.
"""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from filestore import FileStore
from filestore.files import FOLDER_MODE, make_private_folder
from filestore.sessions import Sessions
from migrations import ProgressLog, migrate
from srv.backups import Schedule
from srv.config import Config, socket_path
from srv.errors import EXIT_INTERRUPTED, ZonedError
from srv.http.access import Access
from srv.http.app import log as http_log
from srv.http.app import make_app
from srv.http.front import Doors, Front
from srv.http.mcp import Door
from srv.http.rest.rest import Rest
from srv.idle import end_idle, tell_interrupted
from srv.notify import READY, STOPPING, notify
from srv.rpc.connection import Shared
from srv.rpc.service import Service, store_limits
from srv.token import TOKEN_NAME, load_token
from srv.upgrade import upgrade

LOCK_WAIT_MS = 10_000
"""How long to wait for a command that holds the folder; another daemon is not waited for."""
OWN_FILES = 64
"""Kept of the files that may be open for the store, its readers and what is refused."""
SWEEP_S = 2.0
BACKLOG = 1024
CLOSE_S = 2.0
"""Kept of the time to stop for closing the store."""

log = logging.getLogger("zoned.daemon")


class Ready(NamedTuple):
    """Where the daemon listens."""

    url: str
    rpc: str
    socket: str | None
    token_file: str
    data_dir: str
    pid: int
    token: str


async def run(
    config: Config,
    on_ready: Callable[[Ready], None],
    drops: Callable[[], int],
    progress: Callable[[str, int, int], None],
) -> None:
    """Serve until SIGTERM or SIGINT. Raises StoreError or ZonedError if it cannot start.

    `drops` tells how many log lines were lost; `progress` is told how far the migrations are.
    """
    stop = _stop_at_signals()
    config = _within_file_limit(config)
    path = socket_path(config)
    store = await FileStore.open(
        config.data_dir,
        sync=config.sync,
        kind="daemon",
        socket=str(path or ""),
        lock_wait_ms=LOCK_WAIT_MS,
        limits=store_limits(config),
        upgrade=upgrade if config.migrate else None,
    )
    async with store, Sessions(store) as sessions:
        if store.folder_was_tightened:
            log.warning("the data folder was open to others; its mode is now 0700")
        if config.migrate:
            await _migrate(store, config.data_dir, stop, progress)
        if stop.is_set():
            return
        token = load_token(config.data_dir)
        with contextlib.ExitStack() as sockets:
            tcp = sockets.enter_context(_listen_tcp(config))
            unix = sockets.enter_context(_listen_unix(path)) if path is not None else None
            ready = _ready(config, tcp, path, token)
            service = Service(
                store, sessions, config, url=ready.url, drops=drops, progress=ProgressLog()
            )
            await tell_interrupted(service.records)
            await _serve(service, Access(config, token, tcp.getsockname()[1]), tcp, unix,
                         lambda: on_ready(ready), stop)  # fmt: skip
        if path is not None:
            path.unlink(missing_ok=True)


async def _migrate(
    store: FileStore,
    data_dir: Path,
    stop: asyncio.Event,
    progress: Callable[[str, int, int], None],
) -> None:
    """Bring older data in. Told to stop, it is left where it is: the next start goes on."""
    async with asyncio.TaskGroup() as group:
        work = group.create_task(migrate(store, data_dir, progress=progress))
        stopping = group.create_task(stop.wait())
        await asyncio.wait((work, stopping), return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        stopping.cancel()


async def _serve(
    service: Service,
    access: Access,
    tcp: socket.socket,
    unix: socket.socket | None,
    on_ready: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    loop = asyncio.get_running_loop()
    door, rest = Door(service), Rest(service)
    runner = web.AppRunner(
        make_app(service, access, door, rest),
        access_log=None,
        logger=http_log,
        auto_decompress=False,
        shutdown_timeout=CLOSE_S / 2,
    )
    await runner.setup()
    assert runner.server is not None
    async with asyncio.TaskGroup() as group:
        shared = Shared(service, group)
        doors = Doors(shared, access, runner.server, os.getuid())
        service.on_token = partial(_change_token, access, shared, door, rest)
        servers = [await loop.create_server(lambda: Front(doors), sock=tcp, backlog=BACKLOG)]
        if unix is not None:
            servers.append(
                await loop.create_unix_server(lambda: Front(doors), sock=unix, backlog=BACKLOG)
            )
        tasks = [
            group.create_task(_sweep(doors)),
            group.create_task(door.run()),
            group.create_task(Schedule(service.store, service.config, service.tell).run()),
            group.create_task(end_idle(service.records, service.config.idle_timeout)),
        ]
        # What is made by now stays: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        log.info("ready")
        on_ready()
        notify(READY)
        await stop.wait()
        log.info("stopping")
        notify(STOPPING)
        for server in servers:
            server.close()
        service.is_stopping = True
        service.sessions.stop_replays()
        service.watchers.stop()
        await _drain(shared, doors, service.config.stop_timeout_s - CLOSE_S)
        for task in tasks:
            task.cancel()
    await runner.cleanup()
    log.info("stopped")


def _change_token(access: Access, shared: Shared, door: Door, rest: Rest, token: str) -> None:
    """Let nobody in by the old token, and those who came by it out."""
    access.change_token(token)
    log.info("the token is another now")
    for connection in list(shared.connections):
        if connection.peer == "tcp":
            connection.drain("the token is another now")
    door.cut()
    rest.cut()


async def _drain(shared: Shared, doors: Doors, seconds: float) -> None:
    """Finish what was accepted; whoever takes longer than `seconds` to hear of it is cut off."""
    for front in list(doors.waiting):
        front.abort()
    for connection in list(shared.connections):
        connection.drain("the daemon is stopping")
    try:
        async with asyncio.timeout(max(seconds, 0.1)):
            await shared.wait_empty()
    except TimeoutError:
        log.warning("cut off clients at the end", extra={"count": len(shared.connections)})
        for connection in list(shared.connections):
            connection.abort()


async def _sweep(doors: Doors) -> None:
    """Everything about time, for all connections, every few seconds; and a word in the log when
    writes are not taken any more, or again, or may soon not be.
    """
    loop = asyncio.get_running_loop()
    told: dict[str, object] = {}
    while True:
        told = _tell(doors.shared.service.health(), told)
        await asyncio.sleep(SWEEP_S)
        now = loop.time()
        doors.sweep(now)
        for connection in list(doors.shared.connections):
            connection.sweep(now)


def _tell(health: dict[str, object], told: dict[str, object]) -> dict[str, object]:
    """Log what has changed of the health since it was last told."""
    trouble = health.get("trouble")
    if trouble is not None and trouble != told.get("trouble"):
        log.error("writes are refused: %s", trouble)
    elif trouble is None and "trouble" in told:
        log.warning("writes are taken again")
    if "warning" in health and "warning" not in told:
        log.warning("%s; delete old sessions (zoned prune) or make room", health["warning"])
    return health


def _stop_at_signals() -> asyncio.Event:
    """Set at the first SIGTERM or SIGINT. A second SIGINT ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        if stop.is_set():
            os._exit(EXIT_INTERRUPTED)
        stop.set()

    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, interrupted)
    return stop


def _within_file_limit(config: Config) -> Config:
    """Allow as many open files as the system lets us, each connection is one; if that is not
    enough, fewer connections: else they would take what the store needs.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # some systems name a limit they refuse
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    wanted = config.connections_max + OWN_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return config
    connections_max = max(soft - OWN_FILES, 1)
    log.warning(
        "only %d files may be open (ulimit -n), so connections_max is %d", soft, connections_max
    )
    return replace(config, connections_max=connections_max)


def _listen_tcp(config: Config) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        return socket.create_server((config.host, config.port), family=family, backlog=BACKLOG)
    except OSError as error:
        # Not strerror: the socket module writes the address once more behind it.
        why = os.strerror(error.errno) if error.errno else error
        message = f"cannot listen on {config.host} port {config.port}: {why}"
        hint = "choose another with --port; 0 takes any free one"
        raise ZonedError("UNAVAILABLE", message, hint=hint) from error


def _listen_unix(path: Path) -> socket.socket:
    """A listening socket, 0600 whatever the umask, in place of one that nobody answers at."""
    server = socket.socket(socket.AF_UNIX)
    try:
        _own_folder(path.parent)
        _remove_stale(path)
        before = os.umask(0o177)
        try:
            server.bind(str(path))
        finally:
            os.umask(before)
        server.listen(BACKLOG)
    except OSError as error:
        server.close()
        message = f"cannot listen on {str(path)!a}: {error.strerror or error}"
        hint = "choose another with --socket, or none with --socket none"
        raise ZonedError("UNAVAILABLE", message, hint=hint) from error
    except BaseException:
        server.close()
        raise
    return server


def _own_folder(folder: Path) -> None:
    """Make the socket's folder if it is missing; one that another user could change is refused."""
    if not folder.exists():
        make_private_folder(folder)
    found = folder.stat()
    is_shared = bool(found.st_mode & 0o022) and not found.st_mode & stat.S_ISVTX
    # Nor by a link of theirs, which they could let point elsewhere.
    owners = {found.st_uid, folder.lstat().st_uid}
    if not owners <= {os.getuid(), 0} or is_shared:
        message = f"others may change the folder of the socket, {str(folder)!a}"
        hint = f"give it to this user with mode {FOLDER_MODE:o}, or choose another with --socket"
        raise ZonedError("UNAVAILABLE", message, hint=hint)


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        message = f"{str(path)!a} is in the way of the socket, and is not a socket"
        raise ZonedError("UNAVAILABLE", message, hint="remove it, or choose another with --socket")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink()
            return
    message = f"another process listens on {str(path)!a}"
    raise ZonedError("UNAVAILABLE", message, hint="stop it, or choose another with --socket")


def _ready(config: Config, tcp: socket.socket, path: Path | None, token: str) -> Ready:
    host, port = tcp.getsockname()[:2]
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return Ready(
        f"http://{place}/",
        f"ws://{place}/rpc",
        str(path) if path is not None else None,
        str(config.data_dir / TOKEN_NAME),
        str(config.data_dir),
        os.getpid(),
        token,
    )
