"""`zoned session export`: the conversation of a session as a workflow, in a file.

The store is opened beside whoever writes it: an export changes nothing, and may be larger than any
message. The file appears whole, or not at all; a crash leaves a folder beside it, which the next
export to the same place clears. Law: docs/specs/0009-transcripts-and-export.md.
"""

import hashlib
import os
from pathlib import Path

from srv.cli import folder
from srv.cli.backend import Json, load_config
from srv.cli.options import Invocation, UsageError
from srv.cli.screen import harmless, say
from srv.errors import EXIT_USAGE, ZonedError, told

SUFFIX = ".relavium.yaml"
NAME_BYTES_MAX = 255
FILE_MODE = 0o600


def export(call: Invocation) -> int:
    """`zoned session export <id>`. Whatever is refused is exit code 2, with nothing touched."""
    (session_id,) = call.arguments
    given = call.text("out")
    file = Path(os.path.abspath(given if given is not None else default_name(session_id)))
    is_replacing = "force" in call.flags
    try:
        _refuse(file, is_replacing)
        found = _document(call, session_id)
        data = found["content"].encode()
        _place(load_config(call).data_dir, file, data, is_replacing)
    except Exception as error:
        refused = told(error)
        if refused is None or refused.kind not in ("NOT_FOUND", "ALREADY_EXISTS", "INVALID_PARAMS"):
            raise
        say(str(refused))
        return EXIT_USAGE
    if call.is_json:
        digest = hashlib.sha256(data).hexdigest()
        call.screen.json(
            {
                "type": "session:exported",
                "sessionId": session_id,
                "workflowId": found["workflow_id"],
                "path": str(file),
                "bytes": len(data),
                "sha256": digest,
            }
        )
    else:
        shown = harmless(given if given is not None else file.name)
        call.screen.line(f"Exported session: {harmless(session_id)} to {shown}")
    return 0


def default_name(session_id: str) -> str:
    """The name of the file, another for each id: `/` is written as in addresses."""
    name = session_id.replace("%", "%25").replace("/", "%2F") + SUFFIX
    if len(os.fsencode(name)) > NAME_BYTES_MAX:
        raise UsageError("the id is too long for a file's name: give --out", "session export")
    return name


def _refuse(file: Path, is_replacing: bool) -> None:
    """Before anything is read: what stands there stays."""
    if file.is_dir():
        raise ZonedError("INVALID_PARAMS", f"{str(file)!a} is a folder", hint="give a file's name")
    if os.path.lexists(file) and not is_replacing:
        hint = "give another --out, or --force to replace it"
        raise ZonedError("ALREADY_EXISTS", f"{str(file)!a} exists", hint=hint)


def _document(call: Invocation, session_id: str) -> Json:
    from srv.cli.local import LocalStore

    config = load_config(call)
    if config.data_dir.exists():
        folder.prepare(config.data_dir, call.screen)
    store = LocalStore(config, call.screen, is_read_only=True)
    try:
        return store.answer("session:export", {"session_id": session_id})
    finally:
        store.close()


def _place(data_dir: Path, file: Path, data: bytes, is_replacing: bool) -> None:
    """Write beside, sync, give it its name, sync the folder."""
    from filestore.backup import own_folder, place_file, refuse_target
    from filestore.files import sync_folder, translated_os_errors

    name = hashlib.sha256(os.fsencode(file.name)).hexdigest()[:16]
    with translated_os_errors("export"):
        _make_folder(file.parent)
        refuse_target(data_dir, file, is_replacing=is_replacing)
    with translated_os_errors("export"), own_folder(file.parent / f".{name}.zoned-new") as _:
        made = file.parent / f".{name}.zoned-new" / "workflow"
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        place_file(made, file, is_replacing)
        sync_folder(file.parent)


def _make_folder(path: Path) -> None:
    """Make it and those above it, so that a power cut takes none of their names."""
    from filestore.files import sync_folder

    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        sync_folder(each.parent)
