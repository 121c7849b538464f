"""One public write operation in a process of its own, to be killed in the middle of it.

    python -m tests.crash.operation DATA_DIR OPERATION

It opens the store, carries the operation out, says `done` on stdout, closes, and says `closed`. The
clock stands still and ids are counted, so that two runs differ in nothing but where they died.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from filestore import FileStore
from filestore.backup import back_up
from filestore.records import NewSession, Records
from filestore.records.transcripts import Transcripts
from filestore.sessions import Sessions
from filestore.sessions.exporting import export_session
from filestore.sessions.importing import import_session
from migrations import migrate
from tests.migrations.child import lower_bounds
from tests.support.child import SMALL, open_store
from tests.support.clock import FakeClock

LINES = tuple(f'{{"line": {number}, "text": "{number * number}"}}' for number in range(400))
ARCHIVE = "agent:a:archive:1700000000000"
BACKUP, EXPORTED = "backup", "exported"
TALK = {"agentSlug": "ada", "context": {"workingDir": "/", "fsScopeTier": "read"}}
SAID = {
    "id": "said",
    "role": "assistant",
    "content": [{"type": "text", "text": "said " * 400}],
    "timestamp": "2026-01-01T00:00:00Z",
}


def ids(first: int) -> Callable[[], str]:
    numbers = iter(range(first, 2 * first))
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012d}"


async def prepare(data_dir: Path) -> None:
    """A store with something for every operation; nothing in it is sealed or released yet."""
    async with (
        await FileStore.open(data_dir, clock=FakeClock()) as store,
        Sessions(store, new_id=ids(100)) as sessions,
    ):
        await store.write("work", "state", bytes(range(256)) * 120)
        await store.append_lines("work", "stream", LINES)
        await store.write("large", "state", os.urandom(60_000))
        await sessions.append_output("a", LINES[:50])
        await sessions.archive("a")
        await sessions.append_output("a", LINES[50:200])
        await sessions.write_state("a", '{"nodes": []}' + " " * 9_000)
        await export_session(store, "a", data_dir.parent / EXPORTED)
        records = Records(store, new_id=ids(300))
        await records.create(NewSession("rest", "work", agent_name="ada", metadata={"a": 1}))
        await records.prompt("work", "do it " * 500)
        await Transcripts(store).start("talk", TALK)
        await Transcripts(store).append("talk", {**SAID, "id": "before", "role": "user"})


async def _import(store: FileStore, _: Sessions) -> None:
    await import_session(store, store.data_dir.parent / EXPORTED, definition_id="i")


async def _create(store: FileStore, _: Sessions) -> None:
    await Records(store).create(NewSession("cli", "new", purpose="to try", context={"k": [1, 2]}))


async def _answer(store: FileStore, _: Sessions) -> None:
    await Records(store).add_message("work", "agent", "it is done " * 500, message_id="answer")


async def _finish(store: FileStore, _: Sessions) -> None:
    say, note = {"type": "text", "text": "it failed"}, {"duration_ms": 3}
    records = Records(store, new_id=ids(400))
    await records.finish("work", "failed", error="no", say=say, note=note, summary="it failed")


async def _transcript(store: FileStore, _: Sessions) -> None:
    await Transcripts(store).append("talk", SAID)


async def _write(store: FileStore, _: Sessions) -> None:
    await store.write("work", "state", bytes(range(255, -1, -1)) * 100)


async def _append(store: FileStore, _: Sessions) -> None:
    await store.append_lines("work", "stream", LINES[:100])


async def _archive(_: FileStore, sessions: Sessions) -> None:
    await sessions.archive("a")


async def _restore(_: FileStore, sessions: Sessions) -> None:
    await sessions.restore(ARCHIVE)


async def _fork(_: FileStore, sessions: Sessions) -> None:
    await sessions.fork("a", "f")


async def _delete(_: FileStore, sessions: Sessions) -> None:
    await sessions.delete_archive(ARCHIVE)


async def _seal(store: FileStore, _: Sessions) -> None:
    await store.tidy()


async def _release(store: FileStore, _: Sessions) -> None:
    await store.delete_zone("large")
    await store.tidy()


async def _migrate(store: FileStore, _: Sessions) -> None:
    await migrate(store, store.data_dir)


async def _backup(store: FileStore, _: Sessions) -> None:
    await back_up(store, store.data_dir.parent / BACKUP)


OPERATIONS: dict[str, Callable[[FileStore, Sessions], Awaitable[None]]] = {
    "write": _write,
    "append": _append,
    "archive": _archive,
    "restore": _restore,
    "fork": _fork,
    "delete": _delete,
    "seal": _seal,
    "release": _release,
    "migrate": _migrate,
    "backup": _backup,
    "import": _import,
    "create": _create,
    "answer": _answer,
    "finish": _finish,
    "transcript": _transcript,
}


async def main(data_dir: Path, name: str) -> None:
    lower_bounds()
    options = SMALL if name in ("seal", "release", "migrate") else {"limits": {}}
    store = await open_store(data_dir, options, clock=FakeClock())
    async with store, Sessions(store, new_id=ids(200)) as sessions:
        await OPERATIONS[name](store, sessions)
        os.write(1, b"done\n")
    os.write(1, b"closed\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
