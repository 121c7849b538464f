"""`zoned write-state`: save a snapshot, byte for byte."""

import os

from srv.cli.backend import Json, connected
from srv.cli.options import Invocation
from srv.cli.screen import standard_input
from srv.cli.words import size
from srv.config import SETTINGS
from srv.errors import ZonedError

SMALL_BYTES_MAX = 1 << 20
"""Up to this size nobody need be asked for the limit."""


def write_state(call: Invocation) -> int:
    """`zoned write-state <defId> [file|-]`. Durable when it returns."""
    definition_id, *files = call.arguments
    content = _read(call, files[0] if files else "-")
    params: Json = {"definition_id": definition_id, "content": content}
    for name in ("if_version", "session_id"):
        if name in call.flags:
            params[name] = call.flags[name]
    with connected(call, is_reading=False) as backend:
        if len(content) > SMALL_BYTES_MAX:
            _check(content, backend.object("srv:info", {})["limits"]["state_bytes_max"])
        done = backend.object("agent:session:write_state", params)
    if call.is_json:
        call.screen.json(done)
    else:
        what = "is unchanged:" if done["unchanged"] else "saved:"
        told = f"{size(len(content))}, version {done['version']}"
        call.screen.line(f"{definition_id} {what} {told}")
    return 0


def _read(call: Invocation, file: str) -> bytes:
    """The whole content, or as much of it as is too much for any daemon."""
    bytes_max = SETTINGS["state_bytes_max"].most
    if file != "-":
        with open(file, "rb") as stream:
            return stream.read(bytes_max + 1)
    if os.isatty(0):
        call.screen.warn("reading the snapshot from the terminal; Ctrl-D ends it")
    return standard_input().read(bytes_max + 1)


def _check(content: bytes, bytes_max: int) -> None:
    """Refuse before it is sent: a message that is far too large ends the connection."""
    if len(content) > bytes_max:
        message = f"the snapshot is over the limit of {size(bytes_max)}"
        hint = "the limit is the setting state_bytes_max: zoned config"
        raise ZonedError("TOO_LARGE", message, limit=bytes_max, hint=hint)
