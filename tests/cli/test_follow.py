"""`zoned tail -f`: what is appended, once and in order, through archives and restores."""

import json
import signal
import subprocess

from srv.client.blocking import BlockingClient
from tests.cli.tools import Zoned, finish, interrupt


def lines_of(process: subprocess.Popen[bytes], count: int) -> list[bytes]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def test_follow_without_a_daemon_says_that_it_needs_one(alone: Zoned) -> None:
    answer = alone("tail", "ada", "-f")
    assert answer.code == 1
    assert answer.err == ("zoned: following needs a running daemon (start one with: zoned serve)\n")


def test_follow_of_an_archive_is_refused(alone: Zoned) -> None:
    answer = alone("tail", "agent:ada:archive:1", "-f")
    assert answer.code == 2
    assert "does not change" in answer.err


def test_lines_are_printed_as_they_come_small_and_large(alone: Zoned) -> None:
    with alone.serving():
        alone.ok("append", "ada", stdin=b"one\ntwo\nthree\n")
        reader = alone.start("tail", "-fn2", "ada")
        assert lines_of(reader, 2) == [b"two\n", b"three\n"]
        alone.ok("append", "ada", stdin=b"\xff \x1b[1m\n")
        assert lines_of(reader, 1) == [b"\xff \x1b[1m\n"]
        many = [b"%d %s\n" % (number, b"x" * 50) for number in range(25_000)]
        alone.ok("append", "ada", stdin=b"".join(many))
        assert lines_of(reader, 25_000) == many
        done = interrupt(reader)
        assert (done.code, done.out, done.err) == (130, b"", "")


def test_archive_and_restore_are_told_and_followed(alone: Zoned) -> None:
    with alone.serving():
        alone.ok("append", "ada", stdin=b"one\n")
        reader = alone.start("tail", "-f", "ada")
        assert lines_of(reader, 1) == [b"one\n"]
        zone = alone.json("archive", "ada")["archive_zoneid"]
        alone.ok("append", "ada", stdin=b"new\n")
        assert lines_of(reader, 1) == [b"new\n"]
        alone.ok("archive", "ada")
        alone.ok("restore", zone)
        alone.ok("append", "ada", stdin=b"again\n")
        assert lines_of(reader, 1) == [b"again\n"]
        done = interrupt(reader)
        assert f"archived as {zone}; what follows is new" in done.err
        assert f"{zone} is the current session again" in done.err


def test_lines_of_a_follower_that_was_stopped_come_once_and_in_order(alone: Zoned) -> None:
    """It gets a gap in their place, and reads them again."""
    alone.folder.mkdir(mode=0o700, exist_ok=True)
    (alone.folder / "zoned.toml").write_text("subscriber_events_max = 2\n")
    with alone.serving():
        alone.ok("append", "ada", stdin=b"first\n")
        readers = [alone.start("tail", "-f", "ada"), alone.start("tail", "-f", "ada", "--json")]
        assert lines_of(readers[0], 1) == [b"first\n"]
        assert json.loads(lines_of(readers[1], 1)[0])["lines"] == ["first"]
        for reader in readers:
            reader.send_signal(signal.SIGSTOP)
        many = [b"%d %s\n" % (number, b"x" * 50_000) for number in range(40)]
        # One append each, or they would be told without their bytes.
        with BlockingClient(str(alone.folder / "zoned.sock")) as writer:
            for line in many:
                params = {"definition_id": "ada", "line": line.decode()}
                writer.call("agent:session:append_output", params)
        for reader in readers:
            reader.send_signal(signal.SIGCONT)
        assert lines_of(readers[0], 40) == many
        alone.ok("append", "ada", stdin=b"last\n")
        assert lines_of(readers[0], 1) == [b"last\n"]
        kinds: list[dict[str, object]] = []
        while not kinds or kinds[-1].get("data") != "last\n":
            kinds.append(json.loads(lines_of(readers[1], 1)[0]))
        assert "gap" in [each["kind"] for each in kinds]
        for reader in readers:
            interrupt(reader)


def test_lines_just_before_an_archive_are_printed_however_late_they_are_read(alone: Zoned) -> None:
    """Those too large to be told are read again, when another session is current already."""
    with alone.serving():
        alone.ok("append", "ada", stdin=b"first\n")
        reader = alone.start("tail", "-f", "ada")
        assert lines_of(reader, 1) == [b"first\n"]
        reader.send_signal(signal.SIGSTOP)
        large = b"x" * 100_000 + b"\n"
        alone.ok("append", "ada", stdin=large)
        alone.ok("archive", "ada")
        alone.ok("append", "ada", stdin=b"one\ntwo\nthree\n")
        reader.send_signal(signal.SIGCONT)
        assert lines_of(reader, 4) == [large, b"one\n", b"two\n", b"three\n"]
        interrupt(reader)


def test_replay_shows_lines_just_before_an_archive_as_well(alone: Zoned) -> None:
    def said(text: str) -> bytes:
        return json.dumps({"type": "user", "message": {"role": "user", "content": text}}).encode()

    with alone.serving():
        alone.ok("append", "ada", stdin=said("first") + b"\n")
        reader = alone.start("replay", "ada", "-f", "--json")
        assert json.loads(lines_of(reader, 1)[0])["message"] == "first"
        reader.send_signal(signal.SIGSTOP)
        alone.ok("append", "ada", stdin=said("x" * 100_000) + b"\n")
        alone.ok("archive", "ada")
        alone.ok("append", "ada", stdin=said("next") + b"\n")
        reader.send_signal(signal.SIGCONT)
        shown = [json.loads(line)["message"] for line in lines_of(reader, 2)]
        assert shown == ["x" * 100_000, "next"]
        interrupt(reader)


def test_deletion_of_the_session_is_told_and_the_next_one_followed(alone: Zoned) -> None:
    with alone.serving():
        alone.ok("session", "create", "--id", "ada")
        alone.ok("append", "ada", stdin=b"first\n")
        reader = alone.start("tail", "-f", "ada")
        assert lines_of(reader, 1) == [b"first\n"]
        alone.ok("session", "cleanup", "--hours", "0", "--force")
        alone.ok("append", "ada", stdin=b"next\n")
        assert lines_of(reader, 1) == [b"next\n"]
        assert "the session was deleted" in interrupt(reader).err


def test_gap_over_an_archive_is_told_and_the_new_session_followed(alone: Zoned) -> None:
    alone.folder.mkdir(mode=0o700, exist_ok=True)
    (alone.folder / "zoned.toml").write_text("subscriber_events_max = 1\n")
    with alone.serving():
        alone.ok("append", "ada", stdin=b"first\n")
        reader = alone.start("tail", "-f", "ada")
        assert lines_of(reader, 1) == [b"first\n"]
        reader.send_signal(signal.SIGSTOP)
        with BlockingClient(str(alone.folder / "zoned.sock")) as writer:
            for number in range(40):
                params = {"definition_id": "ada", "line": f"{number} " + "x" * 50_000}
                writer.call("agent:session:append_output", params)
        alone.ok("archive", "ada")
        alone.ok("append", "ada", stdin=b"new\n")
        reader.send_signal(signal.SIGCONT)
        while lines_of(reader, 1) != [b"new\n"]:
            pass
        alone.ok("append", "ada", stdin=b"more\n")
        assert lines_of(reader, 1) == [b"more\n"]
        assert "what is not shown is in the archives" in interrupt(reader).err


def test_follow_in_json_prints_the_answer_and_then_each_change(alone: Zoned) -> None:
    with alone.serving():
        alone.ok("append", "ada", stdin=b"one\n")
        reader = alone.start("tail", "-f", "ada", "--json")
        (first,) = lines_of(reader, 1)
        assert json.loads(first)["lines"] == ["one"]
        alone.ok("append", "ada", stdin=b"two\n")
        (second,) = lines_of(reader, 1)
        change = json.loads(second)
        assert (change["kind"], change["first_line"], change["lines"]) == ("output", 1, 1)
        interrupt(reader)


def test_follow_ends_with_the_daemon_and_says_so(alone: Zoned) -> None:
    with alone.serving() as daemon:
        alone.ok("append", "ada", stdin=b"one\n")
        reader = alone.start("tail", "-f", "ada")
        lines_of(reader, 1)
        daemon.terminate()
        done = finish(reader)
        assert done.code == 1
        assert done.err.startswith("zoned: the daemon hung up")
        daemon.wait()
