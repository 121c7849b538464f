"""The operators' methods that look after the store itself. Each is a command of the same name.

Those that only read can also be called on a store that is opened beside the daemon, which is what
the commands do: then nobody waits for them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from filestore.sessions.names import STATE, parse_session
from srv.rpc.methods import PLACE, Caller, Json, Method, place_of
from srv.rpc.params import Spec, boolean, text, wrong

if TYPE_CHECKING:
    from filestore.check import Problem

# What they call is imported when they are called: small commands must not wait for it.

SALVAGE = "zoned repair <new folder> saves all that can be saved; or: zoned restore-backup <file>"


def methods() -> Mapping[str, Method]:
    """The methods by name."""
    export = Spec({**PLACE, "file": path, "force": boolean}, ("file",), tuple(PLACE))
    import_ = Spec({"file": path, "definition_id": text}, ("file",))
    backup = Spec({"file": path, "force": boolean}, ("file",))
    return {
        "srv:check": Method(Spec({"deep": boolean}), _check, is_operators=True),
        "srv:backup": Method(backup, _backup, is_operators=True),
        "srv:export": Method(export, _export, is_operators=True),
        # No agents: which it is stands in the file, and its one transaction decides for itself.
        "srv:import": Method(import_, _import, "write", is_operators=True),
        # No agents: nothing that anybody could read changes.
        "srv:gc": Method(Spec({}), _gc, "write", is_operators=True),
    }


def path(name: str, value: object) -> Path:
    """An absolute path: who calls may be in another folder than who answers."""
    found = Path(text(name, value))
    if not found.is_absolute() or "\0" in str(found):
        raise wrong(name, f"{name} must be an absolute path")
    return found


async def _check(caller: Caller, deep: bool = False) -> Json:
    from filestore.check import check

    service = caller.service
    report = await check(service.store, deep=deep, progress=service.tell)
    return {
        "zones": report.zones,
        "files": report.files,
        "chunks": report.chunks,
        "bytes": report.bytes,
        "deep": deep,
        "problems": [_problem(each) for each in report.problems],
        "is_cut": report.is_cut,
    }


async def _backup(caller: Caller, file: Path, force: bool = False) -> Json:
    from filestore.backup import back_up_to_file

    service = caller.service
    size = await back_up_to_file(service.store, file, is_replacing=force, progress=service.tell)
    return {"file": str(file), "bytes": size}


async def _gc(caller: Caller) -> Json:
    from filestore.shrinking import shrink

    return (await shrink(caller.service.store))._asdict()


async def _export(
    caller: Caller,
    file: Path,
    definition_id: str | None = None,
    archive_zoneid: str | None = None,
    force: bool = False,
) -> Json:
    from filestore.sessions.exporting import export_session

    service, place = caller.service, place_of(definition_id, archive_zoneid)
    done = await export_session(
        service.store, place, file, is_replacing=force, progress=service.tell
    )
    return done._asdict()


async def _import(caller: Caller, file: Path, definition_id: str | None = None) -> Json:
    from filestore.sessions.importing import import_session

    service = caller.service
    done = await import_session(
        service.store, file, definition_id=definition_id, progress=service.tell
    )
    return done._asdict()


def _problem(problem: "Problem") -> Json:
    """What is not known is left out."""
    row = {
        "message": problem.message,
        "zone": problem.zone,
        "name": problem.name,
        "offset": problem.offset,
        "hint": _remedy(problem),
    }
    return {key: value for key, value in row.items() if value is not None}


def _remedy(problem: "Problem") -> str:
    """The command to run."""
    session = parse_session(problem.zone) if problem.zone and problem.name == STATE else None
    if session is not None and session[1] is None:
        return f"zoned replay {session[0]} --write rebuilds it from the stream"
    return SALVAGE
