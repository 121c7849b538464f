"""`zoned archive`, `restore`, `fork` and `delete`: one call each, safe to repeat."""

import os

from srv.cli.asking import can_ask, is_agreed
from srv.cli.backend import Json, connected, place_of
from srv.cli.options import Invocation
from srv.cli.screen import harmless
from srv.cli.words import several
from srv.errors import ZonedError


def archive(call: Invocation) -> int:
    """`zoned archive <defId>`. Nothing to archive is no failure."""
    (definition_id,) = call.arguments
    params: Json = {"definition_id": definition_id}
    with connected(call, is_reading=False) as backend:
        session_id = call.text("session_id")
        if session_id is None:
            # Named, so that a repeat after a lost answer cannot archive the session that came next.
            session_id = backend.object("agent:session:read", params)["session_id"]
        if session_id:
            params["session_id"] = session_id
        done = backend.object("agent:session:archive", params)
    if call.is_json:
        call.screen.json(done)
    else:
        zone = done["archive_zoneid"]
        call.screen.line(
            f"{definition_id} is archived as {zone}" if zone else f"{definition_id} has nothing yet"
        )
    return 0


def restore(call: Invocation) -> int:
    """`zoned restore <zone>`."""
    (zone,) = call.arguments
    with connected(call, is_reading=False) as backend:
        done = backend.object("agent:session:restore", {"archive_zoneid": zone})
    if call.is_json:
        call.screen.json(done)
    else:
        before = f"; what was current is {done['archived']}" if done["archived"] else ""
        call.screen.line(f"{zone} is the current session again{before}")
    return 0


def fork(call: Invocation) -> int:
    """`zoned fork <defId|zone> <to>`."""
    place, to = call.arguments
    params: Json = {**place_of(place), "to_definition_id": to, "new_session_id": _new_id()}
    if "archive_first" in call.flags:
        params["archive_first"] = True
    with connected(call, is_reading=False) as backend:
        done = backend.object("agent:session:fork", params)
    if call.is_json:
        call.screen.json(done)
    else:
        call.screen.line(f"{to} has a copy of {place}: session {done['session_id']}")
    return 0


def delete(call: Invocation) -> int:
    """`zoned delete <zone>`. Asks first."""
    (zone,) = call.arguments
    params = {"archive_zoneid": zone}
    with connected(call, is_reading=False) as backend:
        if "yes" not in call.flags:
            can_ask(call, "delete")
            found = backend.object("agent:session:read_archive", params)
            lines = several(found["output_lines"], "line")
            if not is_agreed(call, f"delete {harmless(zone)} ({lines} of output) for good?"):
                call.screen.warn("nothing is deleted")
                return 1
        done = backend.object("agent:session:delete_archive", params)
        # Repeated after a lost answer, it finds its own work done.
        is_deleted = done["deleted"] or backend.repeats > 0
    if call.is_json:
        call.screen.json({"deleted": is_deleted})
    elif is_deleted:
        call.screen.line(f"{zone} is deleted")
    if not is_deleted and not call.is_json:
        hint = "zoned archives <defId> lists them"
        raise ZonedError("NOT_FOUND", f"there is no archive {zone}", hint=hint)
    return 0 if is_deleted else 1


def _new_id() -> str:
    """A random UUID, without the import of `uuid`."""
    value = bytearray(os.urandom(16))
    value[6] = value[6] & 0x0F | 0x40
    value[8] = value[8] & 0x3F | 0x80
    text = value.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
