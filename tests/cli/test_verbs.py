"""Every verb that works on sessions, with a daemon and without: the same answers."""

import base64
import json
import re
from pathlib import Path

import pytest

from filestore import FileStore
from filestore.sessions import Sessions
from tests.cli.tools import SNAPSHOT, Zoned

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def test_agents_of_an_empty_folder_are_an_empty_answer(zoned: Zoned) -> None:
    assert zoned.ok("agents").out == b""
    assert zoned.json("agents") == []
    assert zoned.json("archives", "ada") == []


def test_agents_are_listed_with_what_they_have(zoned: Zoned) -> None:
    zoned.fill()
    zoned.ok("write-state", "bob", stdin=SNAPSHOT)
    rows = zoned.json("agents")
    assert [row["definition_id"] for row in rows] == ["ada", "bob"]
    assert rows[0] | {"modts": None} == {
        "definition_id": "ada",
        "has_state": False,
        "modts": None,
        "preview": "",
        "node_count": 0,
        "archives": 1,
        "output_lines": 1,
    }
    head, ada, bob = zoned.ok("agents").text.splitlines()
    assert head.split() == ["AGENT", "SAVED", "NODES", "LINES", "ARCHIVES", "PREVIEW"]
    assert ada.split() == ["ada", "-", "0", "1", "1"]
    assert re.fullmatch(r"bob    \d{4}-\d\d-\d\d \d\d:\d\d:\d\d +1 +0 +0  Fix the build", bob)
    assert len(zoned.json("agents", "-n", "1")) == 1


async def test_lists_longer_than_a_page_are_shown_whole(alone: Zoned) -> None:
    async with await FileStore.open(alone.folder) as store, Sessions(store) as sessions:
        for number in range(203):
            await sessions.append_output(f"agent-{number:03}", ["hello"])
        for number in range(103):
            await sessions.append_output("ada", [f"{number}"])
            await sessions.archive("ada")
    ids = [row["definition_id"] for row in alone.json("agents")]
    assert ids == ["ada", *(f"agent-{number:03}" for number in range(203))]
    times = [row["archived_at_ms"] for row in alone.json("archives", "ada")]
    assert times == sorted(set(times), reverse=True)
    assert len(times) == 103
    assert len(alone.json("archives", "ada", "--limit", "101")) == 101


def test_archives_are_listed_newest_first_with_their_zones(zoned: Zoned) -> None:
    zone = zoned.fill()
    newer = zoned.json("archive", "ada")["archive_zoneid"]
    rows = zoned.json("archives", "ada")
    assert [row["archive_zoneid"] for row in rows] == [newer, zone]
    assert rows[1]["preview"] == "Fix the build"
    shown = zoned.ok("archives", "ada").text
    assert shown.splitlines()[0].split()[:2] == ["ZONE", "ARCHIVED"]
    assert zone in shown
    assert "Fix the build" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_show_into_a_pipe_gives_the_very_bytes(zoned: Zoned) -> None:
    for content in (SNAPSHOT, b"", b"\x1b[31m\xff\x00 no JSON", b"x" * 300_000):
        zoned.ok("write-state", "ada", stdin=content)
        assert zoned.ok("show", "ada").out == content
    zone = zoned.json("archive", "ada")["archive_zoneid"]
    assert zoned.ok("show", zone).out == b"x" * 300_000


def test_show_in_json_is_the_answer_of_the_method(zoned: Zoned) -> None:
    zoned.ok("write-state", "ada", stdin=SNAPSHOT)
    found = zoned.json("show", "ada")
    assert found["content"] == SNAPSHOT.decode()
    assert {"modts", "version", "session_id", "output_bytes", "output_lines"} < found.keys()
    zoned.ok("write-state", "ada", stdin=b"\xff")
    assert base64.b64decode(zoned.json("show", "ada")["content"]["base64"]) == b"\xff"


def test_show_of_a_session_without_snapshot_says_so(zoned: Zoned) -> None:
    zoned.ok("append", "ada", stdin=b"hello\n")
    answer = zoned("show", "ada")
    assert (answer.code, answer.out) == (0, b"")
    assert answer.err == "zoned: ada has no snapshot; its stream has 1 line, 6 B\n"


def test_show_of_an_agent_without_session_fails(zoned: Zoned) -> None:
    answer = zoned("show", "nobody")
    assert (answer.code, answer.out) == (1, b"")
    assert answer.err == "zoned: nobody has no session (zoned agents lists those that have one)\n"


def test_tail_gives_the_last_lines_as_they_are(zoned: Zoned) -> None:
    lines = [b"line %d \x1b[1m" % number for number in range(20)] + [b"\xff\xfe"]
    zoned.ok("append", "ada", stdin=b"\n".join(lines))
    assert zoned.ok("tail", "ada").out.split(b"\n") == [*lines[-10:], b""]
    assert zoned.ok("tail", "ada", "-n2").out == b"\n".join(lines[-2:]) + b"\n"
    assert zoned.ok("tail", "ada", "--lines=0").out == b""
    assert zoned.ok("tail", "ada", "-n", "1000").out.split(b"\n") == [*lines, b""]
    found = zoned.json("tail", "ada", "-n", "1")
    assert found == {
        "lines": [{"base64": "//4="}],
        "first_line": 20,
        "total_lines": 21,
        "next_line": 21,
    }


def test_tail_of_more_lines_than_a_page_has_gives_them_all(zoned: Zoned) -> None:
    text = b"".join(b"%d\n" % number for number in range(25_000))
    zoned.ok("append", "ada", stdin=text)
    assert zoned.ok("tail", "ada", "-n", "30000").out == text
    assert zoned.ok("tail", "ada", "-n", "15000").out == text[text.index(b"10000\n") :]
    found = zoned.json("tail", "ada", "-n", "24000")
    assert (found["first_line"], len(found["lines"]), found["next_line"]) == (1000, 24000, 25000)


def test_tail_of_an_archive_reads_its_stream(zoned: Zoned) -> None:
    zone = zoned.fill()
    assert zoned.ok("tail", zone).out == b'{"n": 1}\n{"n": 2}\n'
    assert zoned.ok("tail", "nobody").out == b""


def test_write_state_takes_a_file_or_stdin_and_guards(zoned: Zoned, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_bytes(SNAPSHOT)
    shown = zoned.ok("write-state", "ada", str(file)).text
    version = zoned.json("show", "ada")["version"]
    assert shown == f"ada saved: {len(SNAPSHOT)} B, version {version}\n"
    assert zoned.ok("write-state", "ada", "-", stdin=SNAPSHOT).text.startswith("ada is unchanged:")
    lost = zoned("write-state", "ada", "--if-version", "1", stdin=b"{}")
    assert lost.code == 1
    assert lost.err.startswith("zoned: ")
    assert zoned.json("write-state", "ada", "--if-version", str(version), stdin=b"{}")["version"]
    other = zoned("write-state", "ada", "--session-id", "another", stdin=b"[]")
    assert other.code == 1
    assert zoned.ok("show", "ada").out == b"{}"


def test_write_state_over_the_limit_is_refused(zoned: Zoned) -> None:
    answer = zoned("write-state", "ada", stdin=b"x" * ((48 << 20) + 1))
    assert answer.code == 1
    assert answer.err.startswith("zoned: the snapshot is over the limit of 48 MiB (")
    assert zoned.json("agents") == []


def test_write_state_of_a_file_that_is_not_there_names_it(zoned: Zoned, tmp_path: Path) -> None:
    answer = zoned("write-state", "ada", str(tmp_path / "gone"))
    assert (answer.code, answer.err) == (
        1,
        f"zoned: {tmp_path / 'gone'}: No such file or directory\n",
    )


def test_archive_restore_and_fork_work_on_each_other(zoned: Zoned) -> None:
    zone = zoned.fill()
    done = zoned.json("restore", zone)
    assert done["archived"].startswith("agent:ada:archive:")
    assert zoned.ok("show", "ada").out == SNAPSHOT
    assert UUID.fullmatch(zoned.json("fork", "ada", "bob")["session_id"])
    assert zoned.ok("show", "bob").out == SNAPSHOT
    refused = zoned("fork", "ada", "bob")
    assert refused.code == 1
    assert zoned.json("fork", done["archived"], "bob", "--archive-first")["session_id"]
    assert zoned.ok("tail", "bob").out == b'{"n": 3}\n'
    shown = zoned.ok("archive", "bob").text
    assert re.fullmatch(r"bob is archived as agent:bob:archive:\d+\n", shown)
    assert zoned.ok("archive", "bob").text == "bob has nothing yet\n"
    assert zoned.json("archive", "bob") == {"archive_zoneid": "", "archived_at_ms": 0}


def test_archive_with_a_session_that_is_not_current_changes_nothing(zoned: Zoned) -> None:
    zoned.fill()
    answer = zoned("archive", "ada", "--session-id", "another")
    assert answer.code == 1
    assert zoned.json("agents")[0]["archives"] == 1


def test_delete_without_a_terminal_needs_yes(zoned: Zoned) -> None:
    zone = zoned.fill()
    refused = zoned("delete", zone, stdin=b"y\n")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert len(zoned.json("archives", "ada")) == 1
    assert zoned.ok("delete", zone, "--yes").text == f"{zone} is deleted\n"
    assert zoned.json("archives", "ada") == []
    again = zoned("delete", zone, "-y")
    assert (again.code, again.out) == (1, b"")
    assert f"there is no archive {zone}" in again.err
    again = zoned("delete", zone, "-y", "--json")
    assert (again.code, again.json) == (1, {"deleted": False})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["show", "a b"], "zoned: defId must be 1 to 128 of"),
        (["archives", "ä"], "zoned: defId must be"),
        (["append", "../x"], "zoned: defId must be"),
        (["show", "agent:ada:current"], "zoned: zone must be agent:<definition id>:archive:<ms>"),
        (["restore", "ada"], "zoned: zone must be"),
        (["delete", "agent:ada:archive:007", "--yes"], "zoned: zone must be"),
    ],
)
def test_names_that_cannot_be_are_a_bad_invocation(
    zoned: Zoned, words: list[str], told: str
) -> None:
    answer = zoned(*words)
    assert (answer.code, answer.out) == (2, b"")
    assert answer.err.startswith(told)
    assert answer.err.count("\n") == 1


def test_archives_that_are_not_there_fail(zoned: Zoned) -> None:
    for verb in ("show", "tail", "restore"):
        answer = zoned(verb, "agent:ada:archive:7")
        assert (answer.code, answer.out) == (1, b"")
        assert answer.err.startswith("zoned: ")
        assert answer.err.count("\n") == 1


def test_errors_are_told_in_the_same_words_with_and_without_a_daemon(alone: Zoned) -> None:
    calls = (["show", "a b"], ["show", "agent:ada:archive:7"], ["restore", "agent:x:archive:1"],
             ["write-state", "ada", "--if-version", "77"])  # fmt: skip
    without = [alone(*words) for words in calls]
    with alone.serving():
        assert [alone(*words) for words in calls] == without
    assert all(answer.code for answer in without)


def test_json_of_every_verb_is_json(zoned: Zoned) -> None:
    zone = zoned.fill()
    for words in (["agents"], ["archives", "ada"], ["show", zone], ["tail", "ada"], ["config"],
                  ["completion", "bash"], ["append", "ada"], ["archive", "ada"], ["help"],
                  ["help", "append"]):  # fmt: skip
        out = zoned.ok(*words, "--json").out
        json.loads(out)
        assert out.count(b"\n") == 1
