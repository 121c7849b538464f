"""`zoned recover`, with a daemon and without: what it says, what it does, how it exits."""

import json

from filestore import FileStore
from filestore.sessions import Sessions
from srv.cli.recover import PAGE
from tests.cli.tools import Zoned, on_terminal
from tests.replay.streams import turns

DATA = b"\n".join(turns(2)) + b"\n"


def damaged(zoned: Zoned) -> None:
    """One agent without a snapshot, one with a broken one, one that is well."""
    for name in ("ada", "bob", "eve"):
        zoned.ok("append", name, stdin=DATA)
    zoned.ok("write-state", "bob", stdin=b"{ no JSON")
    zoned.ok("write-state", "eve", stdin=b'{"highWaterMark": 8, "nodes": []}')


def test_clean_store_is_0(zoned: Zoned) -> None:
    assert zoned.ok("recover").text == "0 sessions, all well\n"
    zoned.ok("write-state", "ada", stdin=b"{}")
    assert zoned.ok("recover").text == "1 session, all well\n"
    assert zoned.json("recover") == {"checked": 1, "found": [], "dry_run": False}


def test_dry_run_tells_and_changes_nothing(zoned: Zoned) -> None:
    damaged(zoned)
    answer = zoned("recover", "--dry-run")
    assert (answer.code, answer.err) == (3, "")
    assert answer.text == (
        "agent:ada:current: the snapshot is missing; the stream has 8 lines\n"
        "  would be rebuilt\n"
        "agent:bob:current: the snapshot is unparsable; the stream has 8 lines\n"
        "  would be rebuilt\n"
        "3 sessions, 2 with something to recover\n"
    )
    assert zoned.ok("show", "bob").out == b"{ no JSON"
    assert zoned("recover", "-n").code == 3


def test_recover_mends_says_so_and_is_clean_the_next_time(zoned: Zoned) -> None:
    damaged(zoned)
    answer = zoned("recover")
    (kept,) = [row["archive_zoneid"] for row in zoned.json("archives", "bob")]
    assert answer.code == 3
    assert f"  rebuilt; the old one is kept as {kept}\n" in answer.text
    assert answer.text.endswith("3 sessions, 2 with something to recover, 2 rebuilt\n")
    assert zoned.ok("show", kept).out == b"{ no JSON"
    assert json.loads(zoned.ok("show", "ada").out)["highWaterMark"] == 8
    assert zoned.ok("recover").text == "4 sessions, all well\n"


def test_json_tells_each_finding(zoned: Zoned) -> None:
    damaged(zoned)
    answer = zoned("recover", "--json")
    assert answer.code == 3
    ada, bob = answer.json["found"]
    assert ada | {"session_id": ""} == {
        "zone": "agent:ada:current",
        "session_id": "",
        "lines": 8,
        "torn": False,
        "trouble": "missing",
        "done": "rebuilt",
    }
    assert bob["kept"].startswith("agent:bob:archive:")


async def test_more_sessions_than_a_page_are_all_looked_at(alone: Zoned) -> None:
    async with await FileStore.open(alone.folder) as store, Sessions(store) as sessions:
        for number in range(2 * PAGE + 7):
            await sessions.append_output(f"a{number}", DATA)
    answer = alone("recover", "--json")
    assert answer.json["checked"] == len(answer.json["found"]) == 2 * PAGE + 7


def test_terminal_is_told_in_colour(alone: Zoned) -> None:
    damaged(alone)
    code, shown = on_terminal(alone.words("recover"))
    assert code == 3
    assert "\x1b[32mrebuilt\x1b[0m" in shown


def test_folder_of_a_daemon_that_was_killed_is_recovered_without_it(alone: Zoned) -> None:
    with alone.serving() as daemon:
        damaged(alone)
        daemon.kill()
        daemon.wait()
    assert (alone.folder / "zoned.sock").exists()
    assert alone("recover").code == 3
    assert alone.ok("recover").text == "4 sessions, all well\n"
