"""`repair`: of a damaged store everything that is not damaged is saved, nothing is altered, nothing
deleted comes back, and every loss is told. The damaged store stays as it is."""

import itertools
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from filestore import (
    AlreadyExistsError,
    BusyError,
    FileStore,
    InvalidArgumentError,
    Limits,
    NotFoundError,
)
from filestore.engine.pages import LEAF, MAP_TREE, Pages, roots_of
from filestore.journal.mending import LOST_CHUNK
from filestore.records import NewSession, Record, Records
from filestore.records.transcripts import Transcripts
from filestore.repair import FOUND_ZONE, Repaired, repair
from filestore.sessions import Sessions
from tests.contract.tools import noise, query, run_sql
from tests.support.contents import Contents, contents_of
from tests.support.processes import END_S_MAX, ROOT

PAGE = 4096
STREAM = [b'{"number": %d, "noise": "%s"}' % (n, noise(40, n).hex().encode()) for n in range(3000)]
STATE = b'{"nodes": [{"type": "user_message", "message": "Fix it"}], "highWaterMark": 3000}'
LARGE = b', "more": "%s"}' % noise(30_000).hex().encode()


PARTS = [b"one ", b"two ", b"three"]
PROMPTS = 150


async def fill_records(store: FileStore, workspace: Path) -> None:
    """Sessions of the other surfaces, with all kinds of records; one of them was deleted."""
    records = Records(store)
    (workspace / "code").mkdir(parents=True, exist_ok=True)
    repo = await records.add_repo("code", "Code", workspace)
    metadata = {"big": 10**30, "deep": {"a": [None]}}
    await records.create(NewSession("rest", "work", repo_id=repo.id, metadata=metadata))
    for number in range(PROMPTS):
        asked = await records.prompt("work", f"{number}: {noise(40, number).hex()}")
        assert asked.seq >= 0
        for part in PARTS:
            await records.add_message(
                "work", "agent", part.decode(), partial=part != PARTS[-1], message_id=f"m{number}"
            )
    await records.create(NewSession("cli", "forgotten", purpose="secret"))
    await records.finish("forgotten", "completed")
    assert await records.cleanup(1 << 50) == ["forgotten"]
    await records.create(NewSession("cli", "task", agent_name="ada", purpose="to try", context=[1]))
    await records.update("task", phase="planning", metadata={"k": "v"}, error="went wrong")
    await records.add_record(
        "task", "checkpoint", {"name": "c", "state": {"ticket_id": 7}}, ref="c"
    )
    await records.finish("task", "failed", summary="no", note={"ms": 3})
    await records.create(NewSession("mcp", "ent"))
    await records.add_record("ent", "observation", {"started_ms": 5, "outcomes": [{"id": "pr1"}]})
    transcripts = Transcripts(store)
    await transcripts.start("talk", {"agentSlug": "ada", "context": CONTEXT})
    for role in ("user", "assistant") * 3:
        await transcripts.append("talk", row(role))


CONTEXT = {"workingDir": "/", "fsScopeTier": "read"}


def row(role: str) -> dict[str, object]:
    return {
        "role": role,
        "content": [{"type": "text", "text": "said"}],
        "timestamp": "2026-01-01T00:00:00Z",
    }


async def fill(folder: Path) -> None:
    """Sessions and other zones; values, sealed streams, tails; things that were deleted."""
    async with await FileStore.open(folder, limits=Limits(seal_bytes=16384)) as store:
        await fill_records(store, folder.parent)
        async with Sessions(store) as sessions:
            for agent in ("ada", "bob"):
                await sessions.append_output(agent, STREAM)
                await sessions.write_state(agent, STATE)
                await sessions.archive(agent)
                await sessions.append_output(agent, STREAM[:500])
                await sessions.write_state(agent, STATE[:-1] + LARGE)
            await sessions.append_output("eve", STREAM[:100])
            gone = await sessions.archive("eve")
            assert gone is not None
            await sessions.delete_archive(gone.archive_zoneid)
        for number in range(60):
            await store.write(f"zone {number}", "value", noise(3_000, number))
        await store.set_meta("zone 7", None, {"kind": "other"})
        await store.set_meta("zone 7", "value", {"a": [1, None, "b"]})
        await store.write("secret", "gone", noise(100_000, 99))
        await store.delete_zone("secret")
        await store.tidy()
        await store.append("zone 7", "tail", b"not sealed\n" * 20)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import asyncio

    folder = tmp_path_factory.mktemp("repair") / "data"
    asyncio.run(fill(folder))
    return folder


@pytest.fixture
def damaged(original: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    shutil.copytree(original, tmp_path / "data")
    return tmp_path / "data"


async def what_is_in(folder: Path, *, read_only: bool = False) -> Contents:
    async with await FileStore.open(folder, read_only=read_only) as store:
        return await contents_of(store)


async def repaired(damaged: Path) -> tuple[Repaired, Contents]:
    """Repair into a folder beside. Proves that the damaged store was not touched."""
    before = {path.name: path.read_bytes() for path in damaged.iterdir() if path.is_file()}
    target = damaged.parent / "saved"
    done = await repair(damaged, target)
    assert {p.name: p.read_bytes() for p in damaged.iterdir() if p.is_file()} == before
    assert sorted(path.name for path in damaged.parent.iterdir()) == ["data", "saved"]
    return done, await what_is_in(target)


def change(path: Path, edit: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    edit(data)
    path.write_bytes(data)


def wipe(path: Path, *pages: int) -> None:
    def edit(data: bytearray) -> None:
        for number in pages:
            data[(number - 1) * PAGE : number * PAGE] = bytes(PAGE)

    change(path, edit)


async def test_store_that_is_well_is_saved_as_it_is(original: Path, damaged: Path) -> None:
    done, found = await repaired(damaged)
    assert done.losses == []
    assert found == await what_is_in(original, read_only=True)


async def test_page_1_and_the_rows_of_chunks_are_not_needed(original: Path, damaged: Path) -> None:
    """The tables lie where they do in every store, and chunks are known by what they hold. What
    was deleted stays deleted."""
    path = damaged / "zoned.db"
    with path.open("rb") as file:
        root = roots_of(Pages(file))["chunk"]
    wipe(path, 1, root)
    done, found = await repaired(damaged)
    assert done.losses == []
    assert found == await what_is_in(original, read_only=True)


@pytest.mark.parametrize("claim", [lambda rows: 0, lambda rows: rows - 1, lambda rows: rows + 1])
async def test_pages_that_claim_a_wrong_number_of_rows_are_read_whole(
    original: Path, damaged: Path, claim: Callable[[int], int]
) -> None:
    """Nobody misses a row of the file table; one row more is one that was deleted."""
    path = damaged / "zoned.db"
    with path.open("rb") as file:
        pages = Pages(file)
        roots = roots_of(pages).values()
        leaves = {n for n in range(2, pages.count + 1) if pages.page(n)[0] == LEAF}
        leaves = {n for n in leaves if n in roots or pages.mapped(n)[0] == MAP_TREE}

    def edit(data: bytearray) -> None:
        for number in leaves:
            at = (number - 1) * PAGE + 3
            rows = int.from_bytes(data[at : at + 2], "big")
            data[at : at + 2] = max(claim(rows), 0).to_bytes(2, "big")

    change(path, edit)
    done, found = await repaired(damaged)
    assert done.losses == []
    assert found == await what_is_in(original, read_only=True)


async def test_page_whose_number_of_rows_is_unknown_is_told(damaged: Path) -> None:
    """Its free space is damaged too, so nothing tells which of two numbers is right."""
    path = damaged / "zoned.db"
    with path.open("rb") as file:
        pages = Pages(file)
        root = roots_of(pages)["zone"]
        number = next(
            n for n in range(2, pages.count + 1) if n == root or pages.mapped(n)[1] == root
        )

    def edit(data: bytearray) -> None:
        at = (number - 1) * PAGE
        data[at + 4] -= 1
        data[at + 7] += 1

    change(path, edit)
    done, _ = await repaired(damaged)
    assert f"zones in page {number}: the rows of page {number} do not fill it" in {
        loss.what for loss in done.losses
    }


async def test_write_ahead_log_is_part_of_it(damaged: Path) -> None:
    child = (
        "import asyncio, os, sys\nfrom filestore import FileStore\n"
        "async def main():\n"
        "    store = await FileStore.open(sys.argv[1])\n"
        "    await store.write('later', 'file', b'in the log')\n"
        "    os._exit(0)\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", child, str(damaged)], cwd=ROOT, check=True)
    done, found = await repaired(damaged)
    assert done.losses == []
    assert found["zones"]["later"]["files"]["file"][0] == b"in the log"


async def test_log_row_beyond_recognition_costs_its_appends_only(
    original: Path, damaged: Path
) -> None:
    wanted = await what_is_in(original, read_only=True)
    rows = query(damaged / "zoned.db", "SELECT seq FROM log WHERE length(data) > 100")
    run_sql(damaged / "zoned.db", f"UPDATE log SET data = zeroblob(70) WHERE seq = {rows[-1][0]}")
    done, found = await repaired(damaged)
    (loss,) = done.losses
    assert "appends of unknown files, 70 bytes in all" in loss.what
    del wanted["zones"]["zone 7"]["files"]["tail"], found["zones"]["zone 7"]["files"]["tail"]
    assert found == wanted


async def test_stream_with_a_hole_is_kept_beside_and_its_session_ends(
    original: Path, damaged: Path
) -> None:
    wanted = (await what_is_in(original, read_only=True))["zones"]["agent:ada:current"]
    ((chunk_id,),) = query(
        damaged / "zoned.db",
        "SELECT id FROM chunk WHERE refs = 4 * 65537 AND size > 8000 ORDER BY id LIMIT 1",
    )
    run_sql(
        damaged / "zoned.db",
        f"UPDATE chunk_data SET data = zeroblob(length(data)) WHERE id = {chunk_id}",
    )
    done, found = await repaired(damaged)
    assert "agent:ada:current" not in found["zones"]
    names = [name for name in found["zones"] if name.startswith("agent:ada:archive:")]
    assert len(names) == 2
    for name in names:
        files = found["zones"][name]["files"]
        assert set(files) == {"output.state.json", "output.damaged"}
        data, *_, meta = files["output.damaged"]
        ((start, length),) = meta["repair:holes"]
        whole = b"\n".join(STREAM) + b"\n"
        whole = whole if len(data) > 200_000 else whole[: len(wanted["files"]["output"][0])]
        assert data == whole[:start] + b"\n" + whole[start + length :]
    told = {(loss.zone, loss.name) for loss in done.losses}
    assert ("agent:ada:current", "output") in told
    assert ("agent:ada:current", "") in told
    archives = found["sessions"]["ada"][2]
    assert [row.preview for row in archives] == ["Fix it", "Fix it"]
    assert (
        found["zones"]["zone 7"] == (await what_is_in(original, read_only=True))["zones"]["zone 7"]
    )


async def test_many_holes_are_few_words(damaged: Path) -> None:
    """Every other chunk of a stream; holes that touch are one."""
    ids = query(damaged / "zoned.db", "SELECT id FROM chunk WHERE size > 15000 ORDER BY id")
    for (chunk_id,) in ids[::2]:
        run_sql(
            damaged / "zoned.db",
            f"UPDATE chunk_data SET data = zeroblob(length(data)) WHERE id = {chunk_id}",
        )
    done, found = await repaired(damaged)
    told = [loss for loss in done.losses if loss.zone.startswith("agent:") and loss.name]
    assert told
    assert any(loss.what.endswith(" more places") for loss in told)
    assert max(len(loss.what) for loss in told) < 200
    for zone in found["zones"].values():
        for _, _, _, _, meta in zone["files"].values():
            holes = meta.get("repair:holes", [])
            assert all(sum(a) < b[0] for a, b in itertools.pairwise(holes))


def pages_of(path: Path, table: str) -> list[int]:
    """All pages of a table's tree, its root first."""
    with path.open("rb") as file:
        pages = Pages(file)
        found = [roots_of(pages)[table]]
        for above in found:
            found += [n for n in range(2, pages.count + 1) if pages.mapped(n) == (MAP_TREE, above)]
    return found


def numbers(path: Path, sql: str) -> list[int]:
    """The first column of what a query finds."""
    return [int(str(found[0])) for found in query(path, sql)]


@pytest.mark.parametrize("table", ["related", "tally", "agent", "format_step"])
async def test_what_can_be_made_again_is_no_loss(original: Path, damaged: Path, table: str) -> None:
    wipe(damaged / "zoned.db", *pages_of(damaged / "zoned.db", table))
    done, found = await repaired(damaged)
    assert done.losses == []
    assert found == await what_is_in(original, read_only=True)
    assert (done.journals, done.records) == (len(found["journals"]), records_in(found))


def records_in(found: Contents) -> int:
    return sum(len(records) for _, records in found["journals"].values())


async def test_rows_of_journals_are_made_again_of_their_records(
    original: Path, damaged: Path
) -> None:
    wanted = await what_is_in(original, read_only=True)
    wipe(damaged / "zoned.db", *pages_of(damaged / "zoned.db", "journal"))
    done, found = await repaired(damaged)
    assert found["journals"].keys() == wanted["journals"].keys()
    for session_id, (info, records) in wanted["journals"].items():
        again, there = found["journals"][session_id]
        assert again._replace(updated_ms=info.updated_ms) == info
        assert there == records
    assert {found[part] == wanted[part] for part in ("zones", "sessions", "repos")} == {True}
    told = [loss.what for loss in done.losses if loss.zone == "journal:work"]
    assert told == [f"its row: made again of its records up to {4 * PROMPTS}"]
    assert any(loss.what.startswith("journals in page") for loss in done.losses)


async def test_journals_without_records_keep_what_their_rows_say(
    original: Path, damaged: Path
) -> None:
    wanted = await what_is_in(original, read_only=True)
    wipe(damaged / "zoned.db", *pages_of(damaged / "zoned.db", "record"))
    done, found = await repaired(damaged)
    assert found["journals"].keys() == wanted["journals"].keys()
    for session_id, (info, records) in wanted["journals"].items():
        again, there = found["journals"][session_id]
        assert again._replace(records=len(records)) == info
        assert len(there) == len(records) + 1
        assert {record.body.get("reason") for record in there} <= {"lost", "rebuilt"}
        assert f"journal:{session_id}" in {loss.zone for loss in done.losses}
    assert found["sessions"] == wanted["sessions"]
    told = [loss.what for loss in done.losses if loss.zone == "journal:talk"]
    assert told == ["8 of 8 records: 0 to 7"]
    # Its start is lost, so it can be started again.
    async with await FileStore.open(damaged.parent / "saved") as store:
        with pytest.raises(NotFoundError, match="no transcript"):
            await Transcripts(store).load("talk")


async def test_records_that_are_lost_leave_a_word_in_their_place(
    original: Path, damaged: Path
) -> None:
    """The others keep their numbers, and answers say where they have a hole."""
    wanted = await what_is_in(original, read_only=True)
    path = damaged / "zoned.db"
    first, _, last = numbers(path, "SELECT id FROM record WHERE ref = 'm70' ORDER BY id")
    other, *_ = numbers(path, "SELECT id FROM record WHERE ref = 'm90' ORDER BY id")
    ids = [first + 1, last + 1, other]
    run_sql(path, f"UPDATE record SET at_ms = 1 WHERE id IN {tuple(ids)}")
    done, found = await repaired(damaged)
    told = [loss.what for loss in done.losses if loss.zone == "journal:work"]
    seqs = [number & 0xFFFFFF for number in ids]
    assert told == [f"3 of {4 * PROMPTS + 1} records: {seqs[0]}, {seqs[1]}, {seqs[2]}"]
    info, records = wanted["journals"]["work"]
    again, there = found["journals"]["work"]
    assert again._replace(records=len(records)) == info
    assert [a.seq for a, b in zip(there, records, strict=False) if a != b] == seqs
    async with await FileStore.open(damaged.parent / "saved") as store:
        messages = await Records(store).messages("work")
        texts = {each.id: each.content["text"] for each in messages}
        assert texts["m70"] == "one \n[lost]\nthree"
        assert texts["m71"] == "one two three"
        assert texts["m90"] == "\n[lost]\ntwo three"
        assert len(messages) == 2 * PROMPTS - 1
        await Records(store).prompt("work", "goes on")


async def test_records_of_nobody_are_a_session_of_their_own(damaged: Path) -> None:
    path = damaged / "zoned.db"
    (number,) = numbers(path, "SELECT id FROM journal WHERE session_id = 'task'")
    (kinds,) = numbers(path, "SELECT records FROM journal WHERE session_id = 'task'")
    run_sql(path, f"UPDATE journal SET records = 1 WHERE id = {number}")
    run_sql(path, f"UPDATE record SET at_ms = 1 WHERE id = {number << 24}")
    done, found = await repaired(damaged)
    info, records = found["journals"][f"repair-found-{number}"]
    assert (info.status, info.phase, info.error_count, len(records)) == (
        "error",
        "failed",
        1,
        kinds,
    )
    (loss,) = [loss for loss in done.losses if loss.saved_as]
    assert loss.saved_as == f"journal:repair-found-{number}"
    assert loss.what == f"whose journal it is that has {kinds - 1} records left"
    assert "task" not in found["journals"]


async def test_sessions_without_their_rows_find_their_journals(
    original: Path, damaged: Path
) -> None:
    wanted = await what_is_in(original, read_only=True)
    wipe(damaged / "zoned.db", *pages_of(damaged / "zoned.db", "session"))
    done, found = await repaired(damaged)
    assert found == wanted
    told = {loss.zone: loss.what for loss in done.losses if loss.zone}
    assert told == {
        zone: "the session's row: made of its journal and its files"
        for zone in wanted["zones"] if zone.startswith("agent:")
    }  # fmt: skip


async def test_session_without_a_journal_begins_a_new_one(original: Path, damaged: Path) -> None:
    path = damaged / "zoned.db"
    wanted = await what_is_in(original, read_only=True)
    session_id = wanted["sessions"]["ada"][0]
    (number,) = numbers(path, f"SELECT id FROM journal WHERE session_id = '{session_id}'")
    run_sql(path, f"DELETE FROM journal WHERE id = {number}")
    run_sql(path, f"DELETE FROM record WHERE id >> 24 = {number}")
    done, found = await repaired(damaged)
    assert [loss[:3] for loss in done.losses] == [
        ("agent:ada:current", "", "the session's journal: it begins a new one")
    ]
    _, records = found["journals"][session_id]
    assert [record.body.get("reason") for record in records] == ["rebuilt"]
    assert found["sessions"] == wanted["sessions"]


async def test_lost_repo_keeps_its_sessions(original: Path, damaged: Path) -> None:
    wanted = await what_is_in(original, read_only=True)
    wipe(damaged / "zoned.db", *pages_of(damaged / "zoned.db", "repo"))
    done, found = await repaired(damaged)
    assert found["journals"] == wanted["journals"]
    (repo,) = wanted["repos"]
    assert [(each.id, each.path) for each in found["repos"]] == [
        (repo.id, f"/repair:lost/{repo.id}")
    ]
    assert (f"the path and the name of repo {repo.id}", f"/repair:lost/{repo.id}") in {
        loss[2:] for loss in done.losses
    }


async def test_files_whose_names_are_lost_are_found(original: Path, damaged: Path) -> None:
    path = damaged / "zoned.db"
    with path.open("rb") as file:
        wipe(path, roots_of(Pages(file))["file"])
    # All pages of the file table: the root leads to the others, which are known by the map.
    with path.open("rb") as file:
        pages = Pages(file)
        root = 5
        below = [n for n in range(2, pages.count + 1) if pages.mapped(n) == (5, root)]
    wipe(path, *below)
    done, found = await repaired(damaged)
    wanted = await what_is_in(original, read_only=True)
    values = {data for data, *_ in found["zones"][FOUND_ZONE]["files"].values()}
    for zone in wanted["zones"].values():
        for name, (data, *_) in zone["files"].items():
            if name != "tail" or data in values:
                assert data in values
    assert any(loss.what.startswith("files in page") for loss in done.losses)
    assert found["sessions"].keys() == wanted["sessions"].keys()


def never_wrong(wanted: Contents, found: Contents, done: Repaired, place: str) -> int:
    """Every file is as it was, or told; nothing has other bytes. Returns how many are whole."""
    told = {(loss.zone, loss.name) for loss in done.losses}
    is_general = ("", "") in told
    data_found = {data for zone in found["zones"].values() for data, *_ in zone["files"].values()}
    whole = 0
    for zone, group in wanted["zones"].items():
        for name, (data, *_) in group["files"].items():
            there = found["zones"].get(zone, {"files": {}})["files"].get(name)
            if there is not None:
                # Nothing tells which streams lost rows had appends of: those end too early.
                is_short = is_general and data.startswith(there[0])
                assert there[0] == data or is_short, f"{place}: {zone}/{name} is altered"
                whole += there[0] == data
            else:
                is_told = (zone, name) in told or (zone, "") in told or is_general
                assert is_told or data in data_found, f"{place}: {zone}/{name} is gone untold"
    deleted = found["zones"].keys() - wanted["zones"].keys()
    assert not any(zone == "secret" or "eve" in zone for zone in deleted), place
    return whole + journals_never_wrong(wanted, found, done, place)


def journals_never_wrong(wanted: Contents, found: Contents, done: Repaired, place: str) -> int:
    """Every session is as it was, or told; every record that is there is at its place."""
    told = {loss.zone for loss in done.losses}
    whole = 0
    for session_id, (info, records) in wanted["journals"].items():
        is_told = f"journal:{session_id}" in told or "" in told or info.zone in told
        there = found["journals"].get(session_id)
        if there == (info, records):
            whole += 1
        else:
            assert is_told, f"{place}: the journal of {session_id} is other than it was untold"
        for before, now in zip(records, there[1] if there else [], strict=False):
            assert now == before or is_in_place_of_lost(now), f"{place}: {session_id}: {now}"
    assert "forgotten" not in found["journals"], place
    assert "secret" not in repr(found["journals"]), place
    return whole


def is_in_place_of_lost(record: Record) -> bool:
    """True if a record is one that repair has made, and says so."""
    body = record.body
    if record.kind == "message":
        return bool(body["content"]["text"] == LOST_CHUNK)
    # A session whose own row or records are lost may be begun, or ended, anew.
    return body.get("reason") in ("lost", "rebuilt", "archived")


def _wipe_some(count: int, rng: random.Random, data: bytearray) -> None:
    for _ in range(count):
        at = rng.randrange(len(data) // PAGE) * PAGE
        data[at : at + PAGE] = bytes(PAGE)


def _flip_some(count: int, rng: random.Random, data: bytearray) -> None:
    for _ in range(count):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _flip_heads(count: int, rng: random.Random, data: bytearray) -> None:
    for _ in range(count):
        data[rng.randrange(len(data) // PAGE) * PAGE + rng.randrange(24)] ^= 1 << rng.randrange(8)


def _cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def _noise(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data))
    data[at : at + 20_000] = rng.randbytes(len(data[at : at + 20_000]))


DAMAGES: dict[str, Callable[[random.Random, bytearray], None]] = {
    "page wiped": partial(_wipe_some, 1),
    "pages wiped": partial(_wipe_some, 12),
    "bytes flipped": partial(_flip_some, 5),
    "page heads flipped": partial(_flip_heads, 8),
    "cut short": _cut,
    "noise": _noise,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DAMAGES)
async def test_random_damage_is_saved_around(original: Path, tmp_path: Path, kind: str) -> None:
    wanted = await what_is_in(original, read_only=True)
    total = sum(len(zone["files"]) for zone in wanted["zones"].values())
    total += len(wanted["journals"])
    kept = []
    for seed in range(6):
        folder = tmp_path / str(seed)
        shutil.copytree(original, folder / "data")
        change(
            folder / "data" / "zoned.db", partial(DAMAGES[kind], random.Random(f"{kind} {seed}"))
        )
        done, found = await repaired(folder / "data")
        kept.append(never_wrong(wanted, found, done, f"{kind}, seed {seed}"))
        shutil.rmtree(folder)
    print(f"{kind}: {kept} of {total} files and sessions whole")
    assert kind == "cut short" or max(kept) > total // 2


async def test_wrong_bytes_are_noticed(original: Path) -> None:
    """The control: a store with other bytes fails the look."""
    wanted = await what_is_in(original, read_only=True)
    found = await what_is_in(original, read_only=True)
    data, *rest = found["zones"]["zone 3"]["files"]["value"]
    found["zones"]["zone 3"]["files"]["value"] = (data[:-1], *rest)
    with pytest.raises(AssertionError, match="is altered"):
        never_wrong(wanted, found, Repaired(), "control")
    del found["zones"]["zone 3"]
    with pytest.raises(AssertionError, match="gone untold"):
        never_wrong(wanted, found, Repaired(), "control")


async def test_store_in_use_and_target_that_exists_are_refused(damaged: Path) -> None:
    async with await FileStore.open(damaged):
        with pytest.raises(BusyError, match="is in use"):
            await repair(damaged, damaged.parent / "saved")
    (damaged.parent / "there").mkdir()
    with pytest.raises(AlreadyExistsError):
        await repair(damaged, damaged.parent / "there")
    with pytest.raises(InvalidArgumentError):
        await repair(damaged, damaged / "saved")
    with pytest.raises(NotFoundError):
        await repair(damaged.parent / "there", damaged.parent / "saved")
    assert sorted(path.name for path in damaged.parent.iterdir()) == ["data", "there"]


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from filestore.repair import repair
left = int(sys.argv[3])
def hit(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(repair(Path(sys.argv[1]), Path(sys.argv[2]), progress=hit))
"""


@pytest.mark.parametrize("number", [1, 3, 20, 90])
async def test_killed_repair_leaves_no_folder_and_can_be_repeated(
    original: Path, damaged: Path, number: int
) -> None:
    target = damaged.parent / "saved"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(damaged), str(target), str(number)],
        cwd=ROOT, timeout=END_S_MAX, check=False,
    )  # fmt: skip
    assert killed.returncode == -9
    assert not target.exists()
    _, found = await repaired(damaged)
    assert found == await what_is_in(original, read_only=True)
