"""`zoned replay`: sessions, files and stdin, on a terminal and in a pipe, and written back."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from filestore.replay import replay, replay_bytes
from tests.cli.tools import Zoned, finish, interrupt, on_terminal
from tests.replay.golden_streams import FOLDER, STREAMS, read_stream
from tests.replay.streams import turn, turns

LINES = turns(3)
DATA = b"\n".join(LINES) + b"\n"


def plain(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*[mK]", "", shown)


@pytest.mark.parametrize("name", STREAMS)
def test_json_of_a_file_is_the_snapshot(alone: Zoned, name: str) -> None:
    found = alone.ok("replay", str(FOLDER / f"{name}.ndjson"), "--json")
    assert found.out == replay_bytes([read_stream(name)]).snapshot() + b"\n"
    assert not alone.folder.exists(), "a file needs no store"


def test_json_of_stdin_and_of_a_session_is_the_snapshot(zoned: Zoned) -> None:
    wanted = replay(LINES).snapshot() + b"\n"
    assert zoned.ok("replay", "-", "--json", stdin=DATA).out == wanted
    zoned.ok("append", "ada", stdin=DATA)
    assert zoned.ok("replay", "ada", "--json").out == wanted
    zone = zoned.json("archive", "ada")["archive_zoneid"]
    assert zoned.ok("replay", zone, "--json").out == wanted


def test_transcript_in_a_pipe_is_plain(zoned: Zoned) -> None:
    zoned.ok("append", "ada", stdin=DATA)
    shown = zoned.ok("replay", "ada").text
    assert "\x1b" not in shown
    assert re.search(r"\d\d:\d\d:\d\d  ✓ Bash  ls 1  250 ms\n", shown)
    assert shown.count("user\n          Question ") == 3


def test_from_line_begins_in_the_middle(zoned: Zoned, tmp_path: Path) -> None:
    zoned.ok("append", "ada", stdin=DATA)
    file = tmp_path / "stream.ndjson"
    file.write_bytes(b"\n" + DATA)
    for place in ("ada", str(file)):
        found = json.loads(zoned.ok("replay", place, "--json", "--from-line", "8").out)
        assert [node["id"] for node in found["nodes"]] == ["u2", "t2", "n2:0"]
        assert found["highWaterMark"] == 12


def test_torn_file_and_named_provider(alone: Zoned) -> None:
    found = json.loads(alone.ok("replay", "-", "--json", stdin=DATA + b'{"ty').out)
    assert found["replayed"]["torn"]
    named = alone.ok("replay", "-", "--json", "--provider", "generic", stdin=DATA)
    assert json.loads(named.out)["replayed"]["provider"] == "generic"
    wrong = alone("replay", "-", "--provider", "cobol", stdin=DATA)
    assert wrong.code == 2
    assert "must be claude or codex" in wrong.err


def test_what_is_not_there_is_told(zoned: Zoned, tmp_path: Path) -> None:
    nobody = zoned("replay", "nobody")
    assert nobody.code == 1
    assert nobody.err == "zoned: nobody has no stream (zoned agents lists those that have one)\n"
    archive = zoned("replay", "agent:a:archive:7")
    assert archive.code == 1
    assert zoned("replay", "agent:a:current").code == 2
    gone = zoned("replay", str(tmp_path / "gone.jsonl"))
    assert gone.code == 1
    assert "gone.jsonl: No such file" in gone.err
    for more in ((), ("-f",)):
        folder = zoned("replay", str(tmp_path), *more)
        assert (folder.code, folder.err) == (1, f"zoned: {tmp_path}: Is a directory\n")
    unwritten = zoned("replay", "nobody", "--write")
    assert unwritten.code == 1
    assert "zoned agents" in unwritten.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x.jsonl", "--write"), "--write takes an agent"),
        (("ada", "--force"), "--force goes with --write"),
        (("ada", "--write", "--follow"), "--write does not go with --follow"),
        (("ada", "--write", "--from-line", "1"), "--write does not go with --from-line"),
        (("agent:a:archive:1", "-f"), "does not change"),
        (("",), "no session and no file"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    alone: Zoned, words: tuple[str, ...], said: str
) -> None:
    answer = alone("replay", *words)
    assert answer.code == 2
    assert said in answer.err


def test_write_rebuilds_once_and_keeps_the_old_one(zoned: Zoned) -> None:
    zoned.ok("append", "ada", stdin=DATA)
    zoned.ok("write-state", "ada", stdin=b"{ no JSON")
    before = zoned.json("show", "ada")
    shown = zoned.ok("replay", "ada", "--write").text
    (kept,) = [row["archive_zoneid"] for row in zoned.json("archives", "ada")]
    assert shown == (
        "ada: the snapshot was unparsable; rebuilt: 9 nodes of 12 lines\n"
        f"  the old one is kept as {kept}\n"
    )
    assert zoned.ok("show", kept).out == b"{ no JSON"
    after = zoned.json("show", "ada")
    assert after["session_id"] == before["session_id"]
    assert json.loads(after["content"])["highWaterMark"] == 12
    again = zoned.ok("replay", "ada", "--write").text
    assert again == "ada: the snapshot needs no rebuilding; nothing was written\n"


def test_write_leaves_a_good_snapshot_alone_unless_forced(zoned: Zoned) -> None:
    zoned.ok("append", "ada", stdin=DATA)
    good = b'{"highWaterMark": 12, "nodes": []}'
    zoned.ok("write-state", "ada", stdin=good)
    assert not zoned.json("replay", "ada", "--write")["written"]
    assert zoned.ok("show", "ada").out == good
    done = zoned.json("replay", "ada", "--write", "--force", "--provider", "claude")
    assert done["written"]
    assert zoned.ok("show", done["kept"]).out == good
    assert zoned("replay", "nobody", "--write").code == 1


def test_terminal_shows_it_in_colour_wrapped_and_harmless(zoned: Zoned) -> None:
    evil = {"type": "user", "message": {"content": "\x1b]0;evil\x07 " + "漢字 " * 40}}
    zoned.ok("append", "ada", stdin=DATA + json.dumps(evil).encode() + b"\n")
    code, shown = on_terminal(zoned.words("replay", "ada"), columns=60, settings={"PAGER": "cat"})
    assert code == 0
    assert "\x1b]0;" not in shown
    assert "\\x1b]0;evil\\x07" in shown
    assert "\x1b[32m✓\x1b[0m \x1b[1mBash\x1b[0m  ls 1  \x1b[2m250 ms\x1b[0m" in shown
    lines = plain(shown).splitlines()
    assert lines[0] == "ada · claude · 13 lines"
    assert max(len(line) + line.count("漢") + line.count("字") for line in lines) <= 60


def test_terminal_is_told_what_was_passed_over(alone: Zoned, tmp_path: Path) -> None:
    file = tmp_path / "broken.jsonl"
    file.write_bytes(LINES[0] + b"\n\n{no\ntext\n" + b"{\n" * 6 + b'{"torn')
    _, shown = on_terminal(alone.words("replay", str(file)), settings={"PAGER": "cat"})
    assert plain(shown).splitlines()[-1] == (
        "9 lines skipped, no JSON: 1, 3, 4, 5, 6, … · the last line is torn"
    )
    assert "skipped" not in alone.ok("replay", str(file)).text


def test_pager_is_for_what_is_longer_than_the_screen(alone: Zoned, tmp_path: Path) -> None:
    pager = f"sed s/^/PAGED/ | tee {tmp_path / 'paged'}"
    few, many = tmp_path / "few.jsonl", tmp_path / "many.jsonl"
    few.write_bytes(DATA)
    many.write_bytes(b"\n".join(turns(40)))
    _, shown = on_terminal(alone.words("replay", str(few)), settings={"PAGER": pager})
    assert "PAGED" not in shown
    code, shown = on_terminal(alone.words("replay", str(many)), settings={"PAGER": pager})
    assert code == 0
    assert shown.count("PAGED") == len((tmp_path / "paged").read_text().splitlines()) > 200
    code, shown = on_terminal(alone.words("replay", str(many)), settings={"PAGER": "true"})
    assert (code, plain(shown)) == (0, ""), "quitting the pager is no failure"
    for name, term in (("", "xterm"), (pager, "dumb")):
        _, shown = on_terminal(
            alone.words("replay", str(many)), settings={"PAGER": name, "TERM": term}
        )
        assert "PAGED" not in shown
        assert "Question 39" in shown


def test_short_work_shows_no_progress(alone: Zoned, tmp_path: Path) -> None:
    file = tmp_path / "small.jsonl"
    file.write_bytes(DATA)
    _, shown = on_terminal(alone.words("replay", str(file)), settings={"PAGER": "cat"})
    assert "[#" not in shown


# -- live


def lines_of(process: subprocess.Popen[bytes], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().decode() for _ in range(count)]


def ids_of(process: subprocess.Popen[bytes], count: int) -> list[str]:
    return [json.loads(line)["id"] for line in lines_of(process, count)]


def test_follow_shows_lines_as_they_are_acknowledged(alone: Zoned) -> None:
    with alone.serving():
        alone.ok("append", "ada", stdin=b"\n".join(turn(0)))
        reader = alone.start("replay", "ada", "--follow", "--json")
        assert ids_of(reader, 3) == ["u0", "t0", "n0:0"]
        for line, key in zip(turn(1), ("u1", "t1", "t1", "n1:0"), strict=True):
            alone.ok("append", "ada", stdin=line)
            assert ids_of(reader, 1) == [key]
        zone = alone.json("archive", "ada")["archive_zoneid"]
        alone.ok("append", "ada", stdin=turn(2)[0])
        assert ids_of(reader, 1) == ["u2"]
        done = interrupt(reader)
        assert (done.code, done.out) == (130, b"")
        assert f"archived as {zone}; what follows is new" in done.err


def test_follow_in_a_pipe_tells_a_tool_when_it_is_called_and_when_it_ends(alone: Zoned) -> None:
    with alone.serving():
        first, call, result, answer = turn(0)
        alone.ok("append", "ada", stdin=first)
        reader = alone.start("replay", "ada", "-f")
        assert "user" in lines_of(reader, 3)[1]
        alone.ok("append", "ada", stdin=call)
        assert "… Bash  ls 0" in lines_of(reader, 2)[1]
        alone.ok("append", "ada", stdin=result)
        assert "✓ Bash  ls 0  250 ms" in lines_of(reader, 1)[0]
        alone.ok("append", "ada", stdin=answer)
        assert "Answer 0" in lines_of(reader, 3)[2]
        interrupt(reader)


def test_follow_of_a_session_needs_a_daemon(alone: Zoned) -> None:
    answer = alone("replay", "ada", "-f")
    assert answer.code == 1
    assert "needs a running daemon" in answer.err


def test_follow_of_a_file_goes_on_as_it_grows(alone: Zoned, tmp_path: Path) -> None:
    file = tmp_path / "live.jsonl"
    file.write_bytes(b"\n".join(turn(0)) + b"\n")
    reader = alone.start("replay", str(file), "-f", "--json")
    assert ids_of(reader, 3) == ["u0", "t0", "n0:0"]
    half, rest = turn(1)[0][:20], turn(1)[0][20:]
    for part in (half, rest, b"\n"):
        with file.open("ab") as writer:
            writer.write(part)
    assert ids_of(reader, 1) == ["u1"]
    interrupt(reader)


def test_follow_of_stdin_shows_lines_as_they_come_and_ends(alone: Zoned) -> None:
    reader = alone.start("replay", "-", "-f", "--json")
    assert reader.stdin is not None
    for line, key in zip(turn(0), ("u0", "t0", "t0", "n0:0"), strict=True):
        reader.stdin.write(line + b"\n")
        reader.stdin.flush()
        assert ids_of(reader, 1) == [key]
    assert finish(reader).code == 0


def test_follow_of_a_pipe_ends_with_it_and_of_a_file_begins_where_told(
    alone: Zoned, tmp_path: Path
) -> None:
    pipe, file = tmp_path / "pipe", tmp_path / "live.jsonl"
    os.mkfifo(pipe)
    file.write_bytes(DATA)
    reader = alone.start("replay", str(pipe), "-f", "--json", "--from-line", "9")
    with pipe.open("wb") as writer:
        writer.write(DATA)
    # The call of the turn's tool stands before: its end is shown alone.
    assert ids_of(reader, 2) == ["t2", "n2:0"]
    assert finish(reader).code == 0
    reader = alone.start("replay", str(file), "-f", "--json", "--from-line", "8")
    assert ids_of(reader, 3) == ["u2", "t2", "n2:0"]
    interrupt(reader)


# -- after a crash


def test_kill_in_the_middle_of_a_turn_is_recovered(alone: Zoned) -> None:
    """The pane saved after the first turn; the daemon is killed in the second, while lines come.
    The next read says how many lines the snapshot lacks; replay shows those that were acknowledged.
    """
    with alone.serving() as daemon:
        alone.ok("append", "ada", stdin=b"\n".join(turn(0)))
        alone.ok("write-state", "ada", stdin=b'{"highWaterMark": 4, "nodes": [{}, {}, {}]}')
        follower = alone.start("tail", "ada", "-f", "-n", "4")
        lines_of(follower, 4)  # from here on it is told of what comes
        writer = alone.start("append", "ada")
        assert writer.stdin is not None
        for line in turn(1)[:3]:
            writer.stdin.write(line + b"\n")
            writer.stdin.flush()
            assert lines_of(follower, 1) == [line.decode() + "\n"], "told when it is committed"
        daemon.kill()
        daemon.wait()
        writer.kill()
        writer.communicate()
        follower.communicate()
    with alone.serving():
        state = alone.json("show", "ada")
        assert (state["output_lines"], state["recovered"]) == (7, 3)
        found = json.loads(alone.ok("replay", "ada", "--json").out)
        assert found == json.loads(replay(turn(0) + turn(1)[:3]).snapshot())
        assert alone("recover", "--dry-run").code == 3
        assert alone("recover").code == 3
        assert alone.json("show", "ada")["recovered"] == 0
        assert alone("recover").code == 0
