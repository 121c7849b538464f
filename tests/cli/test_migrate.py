"""`zoned migrate`, with a daemon and without, and what a start of the daemon does by itself."""

import json
import re
from pathlib import Path

import pytest

from filestore.engine.schema import STEPS
from tests.cli.tools import Zoned, left_on_terminal, on_terminal
from tests.contract.tools import footprint
from tests.support.old_folder import OldFolder, bytes_of
from tests.support.processes import END_S_MAX

IMPORT, BLOCKS, PROMOTE = (
    "import_legacy_v1",
    "migrate_block_zones_v1",
    "migrate_promote_template_sessions_v1",
)


def old_layout(folder: Path, *, is_damaged: bool = False) -> dict[str, bytes]:
    """Two blocks of one agent, and the session of a template. Returns the bytes of the files."""
    with OldFolder(folder) as old:
        for number in range(2):
            old.block(f"block-{number}", agent="ada")
            old.session(f"block-{number}", f"hello {number}", modified=2_000 + number)
        old.definition("template", is_seeded=1, name="Template")
        old.session("agent:template:current", "for a template")
        if is_damaged:
            old.row("block-0", "lost", 500_000, 1, 2, "{}", "{}")
    folder.chmod(0o700)  # or every first command would say that it has done so
    return bytes_of(folder)


def previews(zoned: Zoned) -> dict[str, str]:
    return {row["definition_id"]: row["preview"] for row in zoned.json("agents")}


ALL = {"ada": "hello 1", "template-promote-v1-template": "for a template"}


def test_start_of_the_daemon_brings_old_conversations_in(alone: Zoned) -> None:
    before = old_layout(alone.folder)
    with alone.serving():
        assert previews(alone) == ALL
        rows = alone.json("archives", "ada")
        assert [row["preview"] for row in rows] == ["hello 1", "hello 0"]
        assert alone.ok("tail", "ada").out == b'{"n":1}\n'
        # A second run has nothing to do, and says so.
        assert alone.ok("migrate").text.count("nothing to do") >= 2
    assert bytes_of(alone.folder) == before


def test_start_without_migration_leaves_them(alone: Zoned) -> None:
    old_layout(alone.folder)
    with alone.serving("--no-migrate"):
        assert previews(alone) == {}
        assert alone.ok("migrate").text.startswith(f"{IMPORT}: ")
        assert previews(alone) == ALL


def test_by_hand_tells_what_it_did_and_dry_run_does_not_do_it(alone: Zoned) -> None:
    before = old_layout(alone.folder)
    alone.folder.chmod(0o755)  # nor is that put right
    dry = alone.json("migrate", "--dry-run")
    assert bytes_of(alone.folder) == before
    assert {path.name for path in alone.folder.iterdir()} == set(before), "not even a lock is made"
    assert alone.folder.stat().st_mode & 0o777 == 0o755
    alone.folder.chmod(0o700)
    done = alone.json("migrate")
    assert dry == done
    assert list(done) == [IMPORT, BLOCKS, PROMOTE]
    assert done[BLOCKS]["archives_written"] == 2
    assert done[BLOCKS]["current_zones_seeded"] == 1
    assert done[PROMOTE]["templates_promoted"] == 1
    assert previews(alone) == ALL
    assert bytes_of(alone.folder) == before


def test_dry_run_of_an_older_format_leaves_it_as_it_is(alone: Zoned) -> None:
    alone.ok("write-state", "eve", stdin=b"{}")
    alone.ok("migrate", "down")
    old_layout(alone.folder)
    before = footprint(alone.folder)
    assert alone.json("migrate", "--dry-run")[BLOCKS]["archives_written"] == 2
    assert footprint(alone.folder) == before
    missing = Zoned(alone.folder / "missing")
    assert missing.ok("migrate", "--dry-run").text.count("nothing to do") == 3
    assert not missing.folder.exists()


def test_dry_run_after_a_daemon_was_killed_writes_nothing(alone: Zoned) -> None:
    with alone.serving() as daemon:
        alone.ok("write-state", "eve", stdin=b"{}")
        daemon.kill()
        daemon.wait()
        old_layout(alone.folder)
        before = footprint(alone.folder)
        assert alone.json("migrate", "--dry-run")[BLOCKS]["archives_written"] == 2
        assert footprint(alone.folder) == before


def test_failed_items_are_named_and_exit_with_3(alone: Zoned) -> None:
    old_layout(alone.folder, is_damaged=True)
    answer = alone("migrate")
    assert answer.code == 3
    assert ", 1 definition imported, 1 failure\n" in answer.text
    wanted = "  failed filestore.db/block-0/lost: its size says 500000 bytes, its parts have 0\n"
    assert wanted in answer.text
    assert previews(alone) == ALL
    again = alone("migrate", "--retry-failed", "--json")
    assert again.code == 3
    (failed,) = json.loads(again.out)[IMPORT]["failed"]
    assert failed["name"] == "lost"


def test_progress_is_a_bar_that_makes_room_for_the_answer(alone: Zoned) -> None:
    with OldFolder(alone.folder) as old:
        for number in range(1500):
            old.block(f"block-{number}", agent="ada")
            old.session(f"block-{number}", f"hello {number}")
    code, shown = on_terminal(alone.words("migrate"))
    assert code == 0
    assert "[#" in shown
    before, _, _ = shown.partition(f"{IMPORT}: ")
    assert before.endswith("\r\x1b[K")


def test_progress_at_the_start_of_a_daemon_is_a_bar_that_makes_room_for_the_log(
    alone: Zoned,
) -> None:
    with OldFolder(alone.folder) as old:
        for number in range(1500):
            old.block(f"block-{number}", agent="ada")
            old.session(f"block-{number}", f"hello {number}")
    alone.folder.chmod(0o700)
    words = alone.words("serve", "--port", "0")
    with left_on_terminal(words, 8, {}, alone.folder.parent) as (process, shown):
        process.terminate()
        assert process.wait(END_S_MAX) == 0
    assert "[#" in shown
    lines = shown.split("\n")
    (done,) = [line for line in lines if f"{IMPORT}: done" in line]
    assert re.search(r"\r\x1b\[K\d\d:\d\d:\d\d info    import_legacy_v1: done", done)
    assert "zoned is ready" in shown


def test_only_one_migration_is_run_if_asked(alone: Zoned) -> None:
    old_layout(alone.folder)
    assert list(alone.json("migrate", "--only", IMPORT)) == [IMPORT]
    assert previews(alone).keys() == {"template"}


def test_tables_go_down_and_up_and_keep_the_data(alone: Zoned) -> None:
    alone.ok("write-state", "ada", stdin=b"{}")
    assert alone.ok("migrate", "down").text == f"1 step taken back\n  {STEPS[-1]}\n"
    assert (
        alone.ok("migrate", "status").text.splitlines()[-1] == f"{len(STEPS)}  missing  {STEPS[-1]}"
    )
    refused = alone("agents")
    assert refused.code == 1
    assert "zoned migrate up" in refused.err
    assert alone.ok("migrate", "up").text == f"1 step applied\n  {STEPS[-1]}\n"
    assert alone.ok("show", "ada").out == b"{}"
    alone.ok("migrate", "down", "--to", "1")
    # A write brings the tables up by itself, as a start of the daemon does.
    alone.ok("append", "ada", stdin=b"line\n")
    assert all(step["is_applied"] for step in alone.json("migrate", "status"))


def test_tables_of_a_running_daemon_are_left_alone(alone: Zoned) -> None:
    with alone.serving():
        answer = alone("migrate", "down")
    assert answer.code == 1
    assert "is being written by process" in answer.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sideways"], "there is no 'sideways'"),
        (["up", "--dry-run"], "--dry-run is for the migration of data"),
        (["--only", "nothing"], "no migration 'nothing'"),
        (["down", "--to", "9"], "there is no format 9"),
        (["up", "--to", "2"], "--to goes with down"),
        (["--to", "2"], "--to goes with down"),
    ],
)
def test_what_cannot_be_meant_is_told(alone: Zoned, words: list[str], told: str) -> None:
    alone.ok("write-state", "ada", stdin=b"{}")
    answer = alone("migrate", *words)
    assert answer.code == 2
    assert told in answer.err
    assert answer.err.count("\n") == 1


def test_tables_of_no_store_are_told_and_none_is_made(alone: Zoned) -> None:
    for action in ("up", "down"):
        answer = alone("migrate", action)
        assert (answer.code, answer.err.count("\n")) == (1, 1)
        assert "there is no store in" in answer.err
    assert not (alone.folder / "zoned.lock").exists()
