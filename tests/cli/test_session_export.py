"""`zoned session export`: byte for byte, whole or not at all, and nothing touched where refused."""

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from filestore import FileStore
from filestore.records import NewSession, Records
from filestore.records.transcripts import Transcripts
from filestore.times import parse
from tests.cli.tools import Answer, Zoned
from tests.support.clock import FakeClock
from tests.support.processes import COMMAND, ROOT, environment
from tests.transcript.golden_exports import FOLDER, read_export

GOLDEN = ("split_tool_loop", "merged_user_rows", "interrupted_in_the_middle", "hostile_text",
          "strings_like_other_types", "empty_session", "with_agent_snapshot")  # fmt: skip
CONTEXT = {"workingDir": "/src", "fsScopeTier": "project"}


def export(zoned: Zoned, *words: str, cwd: Path) -> Answer:
    """Run it in a folder of its own."""
    done = subprocess.run(
        zoned.words("session", "export", *words), cwd=cwd, capture_output=True, check=False,
        env=environment(PYTHONPATH=str(ROOT)),
    )  # fmt: skip
    return Answer(done.returncode, done.stdout, done.stderr.decode())


async def keep(folder: Path, fields: dict[str, Any]) -> str:
    """A transcript that a golden file writes down, in a store. Returns its session's id."""
    clock = FakeClock(parse(fields["createdAt"]))
    start = {"agentSlug": fields["agentSlug"], "context": CONTEXT}
    given = {"title": fields["title"], "agentSnapshot": fields["agentSnapshot"]}
    start |= {name: value for name, value in given.items() if value is not None}
    async with await FileStore.open(folder, clock=clock) as store:
        transcripts = Transcripts(store)
        session_id = str(fields["sessionId"])
        await transcripts.start(session_id, start)
        clock.now_ms = parse(fields["updatedAt"])
        for row in sorted(fields["messages"], key=lambda row: row["sequenceNumber"]):
            await transcripts.append(session_id, row)
    return session_id


@pytest.mark.parametrize("shape", GOLDEN)
async def test_export_is_the_golden_file(tmp_path: Path, shape: str) -> None:
    zoned = Zoned(tmp_path / "data")
    session_id = await keep(zoned.folder, json.loads((FOLDER / f"{shape}.json").read_bytes()))
    answer = export(zoned, session_id, cwd=tmp_path)
    file = f"{session_id}.relavium.yaml"
    assert answer == Answer(0, f"Exported session: {session_id} to {file}\n".encode(), "")
    wanted = read_export(shape)
    if shape == "empty_session":
        # Nothing happened after its start: it was last updated then.
        fields = json.loads((FOLDER / f"{shape}.json").read_bytes())
        old, new = (f'updatedAt: "{fields[name]}"' for name in ("updatedAt", "createdAt"))
        wanted = wanted.replace(old.encode(), new.encode())
    assert (tmp_path / file).read_bytes() == wanted


@pytest.fixture
def filled(zoned: Zoned) -> Zoned:
    """A session `s` of the command line, that a pane has written to."""
    zoned.ok("session", "create", "--id", "s", "--agent", "Code Helper")
    zoned.ok("append", "s", stdin=b"x\n")
    return zoned


def test_second_export_is_equal_and_nothing_has_changed(filled: Zoned, tmp_path: Path) -> None:
    before = filled.ok("session", "get", "s").out
    place = tmp_path / "a" / "b" / "one.yaml"
    told = export(filled, "s", "--out", str(place), "--json", cwd=tmp_path)
    assert (told.code, told.err) == (0, "")
    data = place.read_bytes()
    assert told.json == {
        "type": "session:exported", "sessionId": "s", "workflowId": "exported-session",
        "path": str(place), "bytes": len(data), "sha256": sha256(data).hexdigest(),
    }  # fmt: skip
    assert yaml.safe_load(data)["workflow"]["metadata"]["relaviumExport"]["agentSlug"] == (
        "code-helper"
    )
    assert place.stat().st_mode & 0o777 == 0o600
    assert export(filled, "s", "--out", "two.yaml", cwd=tmp_path).code == 0
    assert (tmp_path / "two.yaml").read_bytes() == data
    assert filled.ok("session", "get", "s").out == before
    assert [each.name for each in place.parent.iterdir()] == ["one.yaml"]
    filled.ok("session", "finalize", "s", "completed")
    assert export(filled, "s", "--out", "two.yaml", "--force", cwd=tmp_path).code == 0
    assert (tmp_path / "two.yaml").read_bytes() != data


def test_what_is_refused_is_2_and_nothing_is_touched(filled: Zoned, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    (here / "there.yaml").write_text("mine")
    (here / "folder").mkdir()
    (here / "dangling").symlink_to("nowhere")
    (here / "into").symlink_to("folder")
    store = str(filled.folder / "zoned.db")
    for words, told in (
        (["nobody"], "there is no session 'nobody'"),
        (["nobody", "--out", "new/folder/x.yaml"], "there is no session 'nobody'"),
        (["s", "--out", "there.yaml"], "exists (give another --out, or --force to replace it)"),
        (["s", "--out", "dangling"], "exists"),
        (["s", "--out", "folder"], "is a folder"),
        (["s", "--out", "folder", "--force"], "is a folder"),
        (["s", "--out", "into", "--force"], "is a folder"),
        (["s", "--out", store, "--force"], "among those of the store itself"),
        (["x" * 250], "the id is too long for a file's name: give --out"),
        ([], "session export needs <id>"),
    ):
        answer = export(filled, *words, cwd=here)
        assert (answer.code, answer.out, answer.err.count("\n")) == (2, b"", 1), answer
        assert told in answer.err
    assert sorted(each.name for each in here.iterdir()) == [
        "dangling", "folder", "into", "there.yaml",
    ]  # fmt: skip
    assert (here / "there.yaml").read_text() == "mine"
    assert not list((here / "folder").iterdir())
    filled.ok("check", "--deep")
    assert export(filled, "s", "--out", "there.yaml/x", cwd=here).code == 2


def test_link_is_replaced_and_not_followed(filled: Zoned, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "link").symlink_to("mine")
    assert export(filled, "s", "--out", "link", "--force", cwd=tmp_path).code == 0
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "link").is_symlink()


async def test_any_id_has_a_file_of_its_own(alone: Zoned, tmp_path: Path) -> None:
    ids = {
        "a/b": "a%2Fb",
        "a%2Fb": "a%252Fb",
        "../up": "..%2Fup",
        "-x": "-x",
        ".": ".",
        "é ü": "é ü",
    }
    async with await FileStore.open(alone.folder) as store:
        for each in ids:
            await Records(store).create(NewSession("rest", each))
    here = tmp_path / "here"
    here.mkdir()
    for each, name in ids.items():
        done = subprocess.run(
            [*COMMAND, "session", "export", "--", each], cwd=here, check=False,
            capture_output=True,
            env=environment(PYTHONPATH=str(ROOT), ZONED_DATA_DIR=str(alone.folder)),
        )  # fmt: skip
        assert done.returncode == 0, done
        assert (here / f"{name}.relavium.yaml").exists()
    assert len(list(here.iterdir())) == len(ids)


def test_missing_store_is_not_made(tmp_path: Path) -> None:
    answer = export(Zoned(tmp_path / "data"), "s", cwd=tmp_path)
    assert (answer.code, answer.out) == (2, b"")
    assert not list(tmp_path.iterdir())


# Kills the process itself at the nth of the calls that an export makes after it has read.
KILL = """
import os, signal, sys
calls = 0
def stop(name, real):
    def call(*args, **more):
        global calls
        calls += 1
        if calls == int(sys.argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **more)
    setattr(os, name, call)
from srv.cli import session_export
document = session_export._document
def armed(*args):
    found = document(*args)
    for name in ("mkdir", "open", "fsync", "link", "replace", "unlink", "rmdir"):
        stop(name, getattr(os, name))
    return found
session_export._document = armed
from srv.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "replaced"])
def test_killed_export_leaves_the_old_or_the_whole(
    alone: Zoned, tmp_path: Path, is_there: bool
) -> None:
    """At each step in turn, until one is not reached; after it an export works as ever."""
    alone.ok("session", "create", "--id", "s")
    export(alone, "s", "--out", "wanted", cwd=tmp_path)
    whole = (tmp_path / "wanted").read_bytes()
    found = []
    for step in range(1, 60):
        here = tmp_path / f"step{step}"
        file = here / "below" / "x.yaml"
        if is_there:
            file.parent.mkdir(parents=True)
            file.write_bytes(b"old")
        words = ["session", "export", "s", "--out", str(file), "--data-dir", str(alone.folder)]
        words += ["--force"] * is_there
        code = subprocess.run(
            [sys.executable, "-c", KILL, str(step), *words], cwd=ROOT, env=environment(),
            capture_output=True, check=False,
        ).returncode  # fmt: skip
        found.append(file.read_bytes() if file.exists() else None)
        assert found[-1] in (whole, b"old" if is_there else None)
        if code == 0:
            break
        assert code == -9
        if step % 6 == 0:
            assert export(alone, *words[2:5], "--force", cwd=tmp_path).code == 0
            assert [each.name for each in file.parent.iterdir()] == ["x.yaml"]
            assert file.read_bytes() == whole
    assert len(found) > 6
    assert found[0] == (b"old" if is_there else None)
    assert found[-2:] == [whole, whole], "killed when all was done, and left alone"
