"""Export and import: nothing is lost on the way, and nothing bad gets in."""

import asyncio
import io
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgpack
import orjson
import pytest
import zstandard
from blake3 import blake3

from filestore import (
    AlreadyExistsError,
    CorruptionError,
    FileStore,
    InvalidArgumentError,
    Limits,
    NewerFormatError,
    NotFoundError,
    StoreError,
)
from filestore.check import check
from filestore.records import NewSession, Records
from filestore.records.transcripts import Transcripts
from filestore.sessions import Sessions
from filestore.sessions.exporting import export_session
from filestore.sessions.importing import import_session
from filestore.sessions.portable import (
    FileHead,
    Part,
    RecordPart,
    SessionHead,
    Writer,
    read,
)
from tests.contract.tools import noise
from tests.support.contents import contents_of
from tests.support.processes import END_S_MAX, ROOT

STATE = b'{"nodes": [{"type": "user_message", "message": "Fix it"}], "highWaterMark": 2}'
FRAME = struct.Struct("<BBII")
HEAD = SessionHead("ada", "id-1", None, 1, "Fix it", 1, 1, 2, True, 1, {})


@pytest.fixture
async def source(tmp_path: Path) -> AsyncIterator[FileStore]:
    """A store with sessions of all kinds, one of them with more than a few MiB."""
    async with await FileStore.open(tmp_path / "source", limits=Limits(seal_bytes=65536)) as store:
        async with Sessions(store) as sessions:
            for number in range(6):
                await sessions.append_output("ada", [noise(400_000, number).hex().encode()])
            await sessions.write_state("ada", STATE)
            await store.set_meta("agent:ada:current", None, {"zone": [1, None, "ä"]})
            await store.set_meta("agent:ada:current", "output", {"file": {"x": 1.5}})
            await sessions.archive("ada")
            await sessions.append_output("ada", [b"one", b"two \xff"])
            await sessions.write_state("ada", STATE)
            await store.append("agent:ada:current", "extra", b"torn")
        yield store


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[FileStore]:
    """An empty store; whatever a test did to it, it must be clean, with nothing half there."""
    store = await FileStore.open(tmp_path / "target")
    async with store:
        yield store
        await store.tidy()
        assert (await check(store, deep=True)).problems == []
        assert not await store.read_unit(lambda tx: tx.fetch("SELECT 1 FROM building"))


async def archive_of(store: FileStore, agent: str) -> str:
    async with Sessions(store) as sessions:
        (row,) = await sessions.list_archives(agent)
        return row.archive_zoneid


async def test_sessions_come_over_as_they_were(
    source: FileStore, target: FileStore, tmp_path: Path
) -> None:
    archive = await archive_of(source, "ada")
    for place, name in (("ada", "current"), (archive, "archive")):
        done = await export_session(source, place, tmp_path / name)
        assert done.zone == (archive if name == "archive" else "agent:ada:current")
        assert done.size == (tmp_path / name).stat().st_size
        brought = await import_session(target, tmp_path / name)
        assert (brought.zone, brought.session_id) == (done.zone, done.session_id)
        assert (brought.files, brought.bytes, brought.is_present) == (done.files, done.bytes, False)
    assert await contents_of(target) == await contents_of(source)


async def record_all(store: FileStore, workspace: Path) -> None:
    """Records of all kinds: of `ada`'s current session, which has files, and of one that has none,
    about a repo.
    """
    records, transcripts = Records(store), Transcripts(store)
    (workspace / "code").mkdir(parents=True)
    repo = await records.add_repo("code", "Code", workspace)
    async with Sessions(store) as sessions:
        ada = (await sessions.read_state("ada")).session_id
    await records.create(NewSession("rest", "work", agent_name="ada", repo_id=repo.id))
    for name in (ada, "work"):
        await transcripts.start(name, {"agentSlug": "ada", "title": "T", "context": CONTEXT})
        await transcripts.append(name, {**SAID, "role": "user"})
        await records.update(name, phase="planning", metadata={"big": 10**30}, error="no")
        await records.prompt(name, "do it")
        for part in range(700):
            await records.add_message(
                name, "agent", f"{part} ", partial=part < 699, message_id="answer"
            )
        await records.add_record(name, "checkpoint", {"name": "c", "state": {"x_id": "r"}}, ref="c")
        await records.add_record(name, "observation", {"outcomes": [{"id": "pr"}]})
    await records.finish("work", "failed", note={"ms": 1}, summary="no", reason="tried")


CONTEXT = {"workingDir": "/", "fsScopeTier": "read"}
SAID = {"content": [{"type": "text", "text": "said"}], "timestamp": "2026-01-01T00:00:00Z"}


async def test_records_come_over_with_and_without_files(
    source: FileStore, target: FileStore, tmp_path: Path
) -> None:
    await record_all(source, tmp_path / "code")
    archive = await archive_of(source, "ada")
    for place in ("ada", archive, "work"):
        done = await export_session(source, place, tmp_path / place)
        brought = await import_session(target, tmp_path / place)
        assert (brought.zone, brought.session_id) == (done.zone, done.session_id)
        assert brought.records == done.records
        assert await import_session(target, tmp_path / place) == brought._replace(is_present=True)
    assert (done.zone, done.files, done.records) == ("journal:work", 0, 711)
    assert await contents_of(target) == await contents_of(source)
    # A copy beside the original, in the same store: a session of its own, of the same repo.
    copy = await import_session(target, tmp_path / "work", definition_id="bob")
    assert copy.session_id != "work"
    records = Records(target)
    before, after = await records.get("work"), await records.get(copy.session_id)
    assert after == before._replace(id=copy.session_id, definition_id="bob")
    assert await records.messages(copy.session_id) == [
        each._replace(session_id=copy.session_id) for each in await records.messages("work")
    ]
    # It goes on, there and here: a repeat finds it as long as it begins with the same records.
    goes_on = await import_session(target, tmp_path / "ada")
    await records.update(goes_on.session_id, phase="executing")
    assert (await import_session(target, tmp_path / "ada")).is_present
    await Records(source).update(goes_on.session_id, phase="validating")
    await export_session(source, "ada", tmp_path / "later")
    with pytest.raises(AlreadyExistsError, match="with other content"):
        await import_session(target, tmp_path / "later")


async def test_path_of_a_repo_that_is_another_ones_here_is_left_to_it(
    source: FileStore, target: FileStore, tmp_path: Path
) -> None:
    await record_all(source, tmp_path / "code")
    own = await Records(target).add_repo("code", "Mine", tmp_path / "code")
    await export_session(source, "work", tmp_path / "file")
    await import_session(target, tmp_path / "file")
    (theirs,) = await Records(source).list_repos()
    assert await Records(target).list_repos() == [
        theirs._replace(path=f"/imported/{theirs.id}"), own
    ]  # fmt: skip


async def test_repeat_finds_it_and_changes_nothing(
    source: FileStore, target: FileStore, tmp_path: Path
) -> None:
    await export_session(source, "ada", tmp_path / "file")
    first = await import_session(target, tmp_path / "file")
    position = target.position
    assert await import_session(target, tmp_path / "file") == first._replace(is_present=True)
    async with Sessions(target) as sessions:
        await sessions.archive("ada")
        assert (await import_session(target, tmp_path / "file")).zone == await archive_of(
            target, "ada"
        )
        await sessions.restore(await archive_of(target, "ada"))
        assert target.position > position
        await sessions.append_output("ada", [b"more"])
    with pytest.raises(AlreadyExistsError, match="with other content"):
        await import_session(target, tmp_path / "file")


async def test_copy_for_another_agent_gets_an_id_of_its_own(
    source: FileStore, tmp_path: Path
) -> None:
    await export_session(source, "ada", tmp_path / "file")
    first = await import_session(source, tmp_path / "file", definition_id="bob")
    assert first.zone == "agent:bob:current"
    again = await import_session(source, tmp_path / "file", definition_id="bob")
    assert again == first._replace(is_present=True)
    async with Sessions(source) as sessions:
        ada, bob = [await sessions.read_state(each) for each in ("ada", "bob")]
    assert ada.content == bob.content
    assert ada.session_id != bob.session_id == first.session_id


async def test_taken_places_are_gone_round(
    source: FileStore, target: FileStore, tmp_path: Path
) -> None:
    """A current session becomes an archive beside one that goes on, an archive takes the next
    time."""
    archive = await archive_of(source, "ada")
    await export_session(source, "ada", tmp_path / "current")
    await export_session(source, archive, tmp_path / "archive")
    async with Sessions(target) as sessions:
        await sessions.append_output("ada", [b"goes on"])
        current = await import_session(target, tmp_path / "current")
        info = await source.stat("agent:ada:current", "extra")
        assert info is not None
        assert current.zone == f"agent:ada:archive:{info.modified_ms}"
        await target.write(archive, "other", b"in the way")
        moved = await import_session(target, tmp_path / "archive")
        assert int(moved.zone.rpartition(":")[2]) == int(archive.rpartition(":")[2]) + 1
        assert len(await sessions.list_archives("ada")) == 2


async def test_export_beside_a_writer_is_one_moment(source: FileStore, tmp_path: Path) -> None:
    """The stream grows, the snapshot is replaced, the session is archived meanwhile."""
    async with Sessions(source) as sessions:
        is_done = False

        async def work() -> None:
            number = 0
            while not is_done:
                number += 1
                await sessions.append_output("ada", [b'{"n": %d}' % number])
                await sessions.write_state("ada", b'{"nodes": [], "n": %d}' % number)
                if number % 40 == 0:
                    await sessions.archive("ada")

        async with asyncio.TaskGroup() as group:
            group.create_task(work())
            for number in range(10):
                try:
                    await export_session(source, "ada", tmp_path / str(number))
                except NotFoundError:
                    continue  # in the moment between an archive and the next line
            is_done = True
    seen = 0
    for number in range(10):
        if (tmp_path / str(number)).exists():
            seen += 1
            with (tmp_path / str(number)).open("rb") as stream:
                assert len(list(read(stream))) > 3
    assert seen > 3


async def test_damaged_session_is_not_exported(source: FileStore, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    await source.tidy()
    await source.close()
    shutil.copytree(tmp_path / "source", folder)
    path = folder / "zoned.db"
    data = bytearray(path.read_bytes())
    at = data.index(b'Fix it"}], "high')
    data[at] ^= 1
    path.write_bytes(data)
    async with await FileStore.open(folder, read_only=True) as store:
        with pytest.raises(CorruptionError):
            await export_session(store, "ada", tmp_path / "file")
    assert not (tmp_path / "file").exists()
    assert not (tmp_path / ".file.zoned-new").exists()


# -- what is refused


def written(*files: tuple[FileHead, bytes], head: SessionHead = HEAD) -> bytes:
    stream = io.BytesIO()
    writer = Writer(stream)
    writer.session(head)
    for file, data in files:
        writer.file(file)
        writer.data(data)
        writer.end_file()
    writer.end()
    return stream.getvalue()


def frames(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """Kind, codec, plain size and stored bytes of each frame."""
    at, found = 16, []
    while at < len(data):
        kind, codec, stored, plain = FRAME.unpack_from(data, at)
        found.append((kind, codec, plain, data[at + FRAME.size : at + FRAME.size + stored]))
        at += FRAME.size + stored
    return found


def joined(parts: list[tuple[int, int, int, bytes]], version: int = 1) -> bytes:
    """A file with these frames, its last hash made right again."""
    data = b"zoned session\n" + struct.pack("<H", version)
    for kind, codec, plain, stored in parts:
        if kind == 5:
            stored = blake3(data).digest()
        data += FRAME.pack(kind, codec, len(stored), plain) + stored
    return data


OUTPUT = FileHead("output", 1, 2, {})
GOOD = written((OUTPUT, b"hello\n" * 100), (FileHead("output.state.json", 1, 2, {}), STATE))
PARTS = frames(GOOD)


def head_with(index: int, **fields: object) -> bytes:
    """The good file, with other fields in one of its heads, and all hashes right."""
    kind, codec, _, stored = PARTS[index]
    packed = msgpack.packb({**msgpack.unpackb(stored), **fields})
    return joined([*PARTS[:index], (kind, codec, len(packed), packed), *PARTS[index + 1 :]])


def bomb() -> bytes:
    packed = zstandard.ZstdCompressor().compress(bytes(1 << 20))
    return joined([*PARTS[:2], (3, 1, 1 << 20, packed), *PARTS[3:]])


OPEN = {"id": "id-1", "definition_id": "ada", "origin": "cli"}
TALK = {"id": "m", "role": "user", "content": {"type": "text", "text": "x"}}


def recorded(*parts: tuple[str, object], ref: str | None = None) -> bytes:
    """A file with these records."""
    stream = io.BytesIO()
    writer = Writer(stream)
    writer.session(HEAD)
    for kind, body in parts:
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        writer.record(RecordPart(1, kind, ref, data))
    writer.end()
    return stream.getvalue()


BAD_RECORDS: dict[str, bytes] = {
    "another session": recorded(("open", OPEN | {"id": "other"})),
    "another agent": recorded(("open", OPEN | {"definition_id": "eve"})),
    "path for an agent": recorded(("open", OPEN | {"definition_id": "../x"})),
    "no beginning": recorded(("note", {})),
    "unknown origin": recorded(("open", OPEN | {"origin": "moon"})),
    "unknown kind": recorded(("open", OPEN), ("virus", {})),
    "no JSON": recorded(("open", OPEN), ("note", b"{")),
    "no object": recorded(("open", OPEN), ("note", b"[]")),
    "other spelling": recorded(("open", OPEN), ("note", b'{"a": 1}')),
    "too deep": recorded(("open", OPEN), ("note", b'{"a":' + b"[" * 900 + b"]" * 900 + b"}")),
    "message without role": recorded(("open", OPEN), ("message", {"id": "m", "content": {}})),
    "message not found": recorded(("open", OPEN), ("message", TALK)),
    "text that is none": recorded(
        ("open", OPEN), ("message", TALK | {"content": {"type": "text", "text": 7}}), ref="m"
    ),
    "row of no transcript": recorded(
        ("open", OPEN), ("message", TALK | {"content": [{"type": "text"}], "number": 1}), ref="m"
    ),
    "negative part": recorded(("open", OPEN), ("message", TALK | {"part": -1}), ref="m"),
    "unknown phase": recorded(("open", OPEN), ("phase", {"from": "", "to": "asleep"})),
    "end that is none": recorded(("open", OPEN), ("end", {"status": "active", "phase": "failed"})),
    "metadata": recorded(("open", OPEN), ("meta", {"metadata": 5})),
    "title": recorded(("open", OPEN | {"title": 5})),
    "transcript": recorded(("open", OPEN), ("meta", {"transcript": {}})),
    "another row": recorded(("open", OPEN), ("meta", {"stated": {"id": 1}})),
    "half an end": recorded(("open", OPEN), ("meta", {"stated": {"status": "completed"}})),
    "start of nothing": recorded(("open", OPEN), ("meta", {"stated": {"transcript_seq": 0}})),
    "repo of nothing": recorded(("open", OPEN | {"repo_id": "r"})),
    "large": recorded(("open", OPEN | {"purpose": "x" * 300_000})),
}


@pytest.mark.parametrize("name", BAD_RECORDS)
async def test_records_that_no_session_could_have_are_refused(
    target: FileStore, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").write_bytes(BAD_RECORDS[name])
    position = target.position
    with pytest.raises(CorruptionError, match="refused"):
        await import_session(target, tmp_path / "file")
    assert target.position == position
    (tmp_path / "file").write_bytes(recorded(("open", OPEN), ("note", {}), ref="n"))
    assert (await import_session(target, tmp_path / "file")).records == 2


HOSTILE: dict[str, tuple[bytes, type[StoreError], str]] = {
    "empty": (b"", CorruptionError, "it is no exported session"),
    "a zip": (b"PK\x03\x04" + bytes(100), CorruptionError, "it is no exported session"),
    "newer": (joined(PARTS, 3), NewerFormatError, "format 3"),
    "no format": (joined(PARTS, 0), CorruptionError, "no format"),
    "no head": (joined(PARTS[1:]), CorruptionError, "does not begin with a session"),
    "two heads": (joined([PARTS[0], *PARTS]), CorruptionError, "no head"),
    "no end": (joined(PARTS[:-1]), CorruptionError, "cut off"),
    "file without end": (joined([*PARTS[:3], *PARTS[4:]]), CorruptionError, "has no end"),
    "more behind": (GOOD + b"x", CorruptionError, "behind its end"),
    "twice": (joined([*PARTS[:4], *PARTS[1:]]), CorruptionError, "two files named"),
    "path": (head_with(1, name="../../etc/passwd"), CorruptionError, "not portable"),
    "absolute": (head_with(1, name="/etc/passwd"), CorruptionError, "not portable"),
    "backslash": (head_with(1, name="..\\x"), CorruptionError, "not portable"),
    "dots": (head_with(1, name=".."), CorruptionError, "not portable"),
    "control": (head_with(1, name="a\x1b[2J"), CorruptionError, "invalid file name"),
    "nul": (head_with(1, name="a\0b"), CorruptionError, "invalid file name"),
    "no name": (head_with(1, name=7), CorruptionError, "no short text"),
    "more fields": (head_with(1, link="/etc"), CorruptionError, "other fields"),
    "agent": (head_with(0, definition_id="../x"), CorruptionError, "must be 1 to 128"),
    "session": (head_with(0, session_id=""), CorruptionError, "session id"),
    "long preview": (head_with(0, preview="x" * 5000), CorruptionError, "no short text"),
    "negative": (head_with(0, archived_ms=-1), CorruptionError, "negative"),
    "huge": (head_with(0, archived_ms=1 << 63), CorruptionError, "no number"),
    "boolean": (head_with(0, node_count=True), CorruptionError, "no number"),
    "meta": (head_with(0, meta=b"[1]"), CorruptionError, "no object"),
    "deep meta": (head_with(0, meta=b'{"a":' + b"[" * 5000), CorruptionError, "no JSON"),
    "size": (head_with(3, size=5), CorruptionError, "does not match its hash"),
    "hash": (head_with(3, digest=bytes(32)), CorruptionError, "does not match its hash"),
    "bomb": (bomb(), CorruptionError, "a piece claims 1048576 bytes"),
    "large": (
        joined([*PARTS[:2], (3, 0, 1 << 31, b"x"), *PARTS[3:]]),
        CorruptionError,
        "a piece claims",
    ),
    "codec": (
        joined([*PARTS[:2], (3, 9, 600, PARTS[2][3] * 20), *PARTS[3:]]),
        CorruptionError,
        "another size",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_file_is_refused_and_nothing_is_imported(
    target: FileStore, tmp_path: Path, name: str
) -> None:
    data, kind, told = HOSTILE[name]
    (tmp_path / "file").write_bytes(data)
    position = target.position
    with pytest.raises(kind, match=told):
        await import_session(target, tmp_path / "file")
    assert target.position == position
    (tmp_path / "file").write_bytes(GOOD)
    assert (await import_session(target, tmp_path / "file")).files == 2


def refused(data: bytes) -> bool:
    try:
        parts: list[Part] = list(read(io.BytesIO(data)))
    except (CorruptionError, NewerFormatError):
        return True
    return not parts


@pytest.mark.parametrize(
    "change",
    [
        lambda data, at: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :],
        lambda data, at: data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :],
        lambda data, at: data[:at],
        lambda data, at: data[:at] + data[at + 1 :],
        lambda data, at: data[:at] + b"\0" + data[at:],
    ],
    ids=["low bit", "high bit", "cut", "byte less", "byte more"],
)
def test_every_change_of_a_byte_is_noticed(change: Callable[[bytes, int], bytes]) -> None:
    assert not refused(GOOD)
    assert [at for at in range(len(GOOD)) if not refused(change(GOOD, at))] == []


def test_random_bytes_never_raise_anything_else() -> None:
    rng = random.Random("portable")
    for _ in range(3000):
        data = bytearray(GOOD)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        assert refused(bytes(data)) or bytes(data) == GOOD
        kind = bytes([rng.randrange(7), rng.randrange(3)])
        assert refused(GOOD[:16] + kind + rng.randbytes(rng.randrange(60)))


async def test_what_is_no_plain_file_is_refused(target: FileStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InvalidArgumentError, match="not a plain file"):
        await import_session(target, tmp_path / "fifo")
    with pytest.raises(InvalidArgumentError, match="not a plain file"):
        await import_session(target, tmp_path)
    with pytest.raises(NotFoundError):
        await import_session(target, tmp_path / "missing")


async def test_import_that_fails_late_leaves_nothing(
    source: FileStore, target: FileStore, tmp_path: Path
) -> None:
    """The bytes are stored, then the one transaction fails: they are released."""
    head = SessionHead("ada", "id-1", None, 1, "", 0, 0, None, False, 1, {"x": "y" * 70_000})
    large = [FileHead("output", 1, 2, {}), noise(900_000)]
    stream = io.BytesIO()
    writer = Writer(stream)
    writer.session(head)
    writer.file(FileHead("output", 1, 2, {}))
    for _ in range(7):
        assert isinstance(large[1], bytes)
        writer.data(large[1])
    writer.end_file()
    writer.end()
    (tmp_path / "file").write_bytes(stream.getvalue())
    with pytest.raises(InvalidArgumentError, match="bytes of meta"):
        await import_session(target, tmp_path / "file")
    assert (await target.zones()).zones == []
    await target.tidy()
    assert await target.read_unit(lambda tx: tx.fetch("SELECT count(*) FROM chunk")) == [(0,)]


async def test_many_small_files_are_imported_in_bounded_memory(
    target: FileStore, tmp_path: Path
) -> None:
    """Each might wait in memory; together, a file of little more than nothing would fill it."""
    size, count = 1 << 20, 48
    with (tmp_path / "file").open("wb") as stream:
        writer = Writer(stream)
        writer.session(HEAD)
        for number in range(count):
            writer.file(FileHead(f"file {number}", 1, 2, {}))
            writer.data(noise(size // 128, number) * 128)
            writer.end_file()
        writer.end()
    assert (tmp_path / "file").stat().st_size < size * count // 64
    tracemalloc.start()
    try:
        done = await import_session(target, tmp_path / "file")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (done.files, done.bytes) == (count, size * count)
    assert peak < size * count // 2


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from filestore import FileStore
from filestore.sessions.importing import import_session

left = int(sys.argv[3])

def hit(name):
    global left
    left -= name == "commit.after"
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with await FileStore.open(sys.argv[1], failpoint=hit) as store:
        await import_session(store, Path(sys.argv[2]))

asyncio.run(main())
"""


@pytest.mark.slow
async def test_import_killed_at_any_commit_is_there_whole_or_not_at_all(
    source: FileStore, tmp_path: Path
) -> None:
    archive = await archive_of(source, "ada")
    await export_session(source, archive, tmp_path / "file")
    wanted = (await contents_of(source))["zones"][archive]
    seen = set()
    for number in range(1, 100, 2):
        folder = tmp_path / f"target-{number}"
        killed = subprocess.run(
            [sys.executable, "-c", KILLED, str(folder), str(tmp_path / "file"), str(number)],
            cwd=ROOT, timeout=END_S_MAX, check=False,
        )  # fmt: skip
        async with await FileStore.open(folder) as store:
            zones = (await contents_of(store))["zones"]
            assert zones in ({}, {archive: wanted}), number
            seen.add(bool(zones))
            done = await import_session(store, tmp_path / "file")
            assert done.is_present == bool(zones)
            await store.tidy()
            assert (await check(store, deep=True)).is_clean
            assert not await store.read_unit(lambda tx: tx.fetch("SELECT 1 FROM building"))
        if killed.returncode == 0:
            break
        assert killed.returncode == -signal.SIGKILL
    assert seen == {False, True}
    assert number > 6
