"""`zoned status`: whether a daemon runs on the data folder, how it does, and what lies there."""

import os
from pathlib import Path

from srv.cli import folder
from srv.cli.backend import Json, load_config
from srv.cli.options import Invocation
from srv.cli.screen import GREEN, RED, Screen, harmless
from srv.cli.words import duration, several, size
from srv.errors import EXIT_FOUND, ZonedError


def status(call: Invocation) -> int:
    """`zoned status`. 0: a daemon runs and is well; 3: none runs, or something is wrong."""
    data_dir = load_config(call).data_dir
    folder.prepare(data_dir, call.screen)
    found = ask(data_dir)
    disk = os.statvfs(data_dir)
    found |= {
        "data_dir": str(data_dir),
        "disk_bytes": folder.disk_bytes(data_dir),
        "free_bytes": disk.f_bavail * disk.f_frsize,
    }
    if call.is_json:
        call.screen.json(found)
    else:
        _show(call.screen, found)
    return 0 if found["running"] and found["health"]["ok"] else EXIT_FOUND


def ask(data_dir: Path) -> Json:
    """What the daemon says of itself, or why nobody does."""
    holder = folder.read_holder(data_dir)
    if socket := holder.daemon_socket:
        from srv.client.blocking import BlockingClient

        try:
            with BlockingClient(socket) as client:
                info, health = client.call("srv:info", {}), client.call("srv:health", {})
        except ZonedError as error:
            if error.data.get("daemon") != "absent":
                wrong = {"ok": False, "trouble": error.message}
                return {"running": True, "pid": holder.pid, "socket": socket, "health": wrong}
        else:
            assert isinstance(info, dict)
            assert isinstance(health, dict)
            return {"running": True, "socket": socket, **info, "health": health}
    if holder.kind == "daemon" and folder.is_locked(data_dir):
        # It has no socket, or does not listen yet; all that is known is that it has the lock.
        return {"running": True, "pid": holder.pid, "socket": "", "health": {"ok": True}}
    return {"running": False}


def _show(screen: Screen, found: Json) -> None:
    health = found.get("health", {})
    if not found["running"]:
        screen.line(screen.style("not running", RED) + ": start it with zoned serve")
    elif health["ok"]:
        screen.line(screen.style("running", GREEN) + " and well")
    else:
        why = harmless(str(health.get("trouble", "it does not say why")))
        screen.line(screen.style("running, in trouble", RED) + f": {why}")
    facts = [
        ("pid", str(found.get("pid", ""))),
        ("up for", duration(found["uptime_ms"] // 1000) if "uptime_ms" in found else ""),
        ("version", str(found.get("version", ""))),
        ("socket", found.get("socket", "")),
        ("url", str(found.get("url", ""))),
        ("sync", str(found.get("sync", ""))),
        ("counts", ", ".join(several(n, name[:-1]) for name, n in found.get("counts", {}).items())),
        ("data", found["data_dir"]),
        ("on disk", f"{size(found['disk_bytes'])}; {size(found['free_bytes'])} free"),
    ]
    for name, fact in facts:
        if fact:
            screen.line(f"  {name.ljust(8)}  {harmless(fact)}")
