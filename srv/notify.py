"""Telling the service manager how it goes: systemd's protocol, a datagram to $NOTIFY_SOCKET."""

import logging
import os
import socket
from collections.abc import Mapping

log = logging.getLogger("zoned.daemon")

READY = "READY=1"
STOPPING = "STOPPING=1"


def notify(state: str, environ: Mapping[str, str] = os.environ) -> None:
    """Tell it, if there is one. Never waits, and never fails: serving goes on without it."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # a name without a file
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto(state.encode(), address)
    except OSError as error:
        log.warning("cannot tell the service manager: %s", error.strerror or error)
