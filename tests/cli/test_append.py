"""`zoned append`: every line once and in order, whatever happens to the daemon meanwhile."""

import os
import signal
import subprocess

import pytest

from tests.cli.tools import Zoned, finish, interrupt


def test_lines_are_counted_and_blank_ones_dropped(zoned: Zoned) -> None:
    assert zoned.ok("append", "ada", stdin=b"one\n\n  \ntwo").text == (
        "ada: 2 lines appended, 2 in all\n"
    )
    assert zoned.ok("append", "ada", stdin=b"three\n").text == "ada: 1 line appended, 3 in all\n"
    assert zoned.ok("append", "ada", stdin=b"").text == "ada: 0 lines appended\n"
    assert zoned.ok("append", "ada", stdin=b"\n\n").text == "ada: 0 lines appended\n"
    assert zoned.ok("tail", "ada").out == b"one\ntwo\nthree\n"
    done = zoned.json("append", "ada", stdin=b"four\n")
    assert done.pop("session_id") == zoned.json("show", "ada")["session_id"]
    assert done == {"lines": 1, "bytes_written": 5, "first_line": 3, "total_lines": 4}


def test_large_input_of_any_bytes_comes_back_as_it_was(zoned: Zoned) -> None:
    lines = [b"%d \xff\xc3\xa4\x00" % number + b"x" * (number % 97) for number in range(30_000)]
    long = b"y" * (3 << 20)
    zoned.ok("append", "ada", stdin=b"\n".join([*lines, long]))
    assert zoned.ok("tail", "ada", "-n", "99999").out == b"\n".join([*lines, long, b""])


def test_line_over_the_limit_is_refused_and_what_was_before_it_is_kept(zoned: Zoned) -> None:
    answer = zoned("append", "ada", stdin=b"kept\n" + b"x" * (9 << 20))
    assert answer.code == 1
    assert "over the limit of 8 MiB" in answer.err
    assert "1 line are on disk" not in answer.err
    assert zoned.ok("tail", "ada").out == b"kept\n"


def test_session_that_is_not_current_is_left_alone(zoned: Zoned) -> None:
    zoned.ok("append", "ada", stdin=b"one\n")
    answer = zoned("append", "ada", "--session-id", "another", stdin=b"two\n")
    assert answer.code == 1
    assert zoned.ok("tail", "ada").out == b"one\n"


def send(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()


def follow(zoned: Zoned) -> subprocess.Popen[bytes]:
    """A command that prints the lines of ada as they come, and those that are there already."""
    return zoned.start("tail", "ada", "-f", "-n", "1000", stdin=subprocess.DEVNULL)


def line_of(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def test_lines_are_on_disk_while_more_are_awaited(alone: Zoned) -> None:
    with alone.serving():
        reader = follow(alone)
        writer = alone.start("append", "ada")
        send(writer, b"first\n")
        assert line_of(reader) == b"first\n"
        send(writer, b"second\n")
        assert line_of(reader) == b"second\n"
        assert finish(writer).code == 0
        assert interrupt(reader).code == 130


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_daemon_that_ends_and_comes_back_costs_no_line(alone: Zoned, number: int) -> None:
    with alone.serving() as daemon:
        reader = follow(alone)
        writer = alone.start("append", "ada")
        send(writer, b"one\n")
        assert line_of(reader) == b"one\n"
        daemon.send_signal(number)
        daemon.wait()
        gone = finish(reader)
    assert gone.code == 1
    assert gone.err.startswith("zoned: the daemon ")
    with alone.serving():
        send(writer, b"two\nthree\n")
        done = finish(writer)
        assert (done.code, done.text) == (0, "ada: 3 lines appended, 3 in all\n")
        assert alone.ok("tail", "ada").out == b"one\ntwo\nthree\n"


def test_daemon_that_ends_for_good_is_replaced_by_the_command_itself(alone: Zoned) -> None:
    with alone.serving() as daemon:
        reader = follow(alone)
        writer = alone.start("append", "ada")
        send(writer, b"one\n")
        assert line_of(reader) == b"one\n"
        daemon.kill()
        daemon.wait()
        finish(reader)
    send(writer, b"two\n")
    assert finish(writer).text == "ada: 2 lines appended, 2 in all\n"
    assert alone.ok("tail", "ada").out == b"one\ntwo\n"


def test_two_writers_at_once_lose_no_line(alone: Zoned) -> None:
    with alone.serving():
        writers = [alone.start("append", "ada") for _ in range(2)]
        for number in range(200):
            for name, writer in zip("ab", writers, strict=True):
                send(writer, f"{name}{number}\n".encode())
        assert [finish(writer).code for writer in writers] == [0, 0]
        lines = alone.ok("tail", "ada", "-n", "1000").text.split()
    for name in "ab":
        assert [line for line in lines if line[0] == name] == [f"{name}{n}" for n in range(200)]


def test_equal_lines_of_two_writers_are_two_lines(alone: Zoned) -> None:
    with alone.serving():
        writers = [alone.start("append", "ada") for _ in range(3)]
        for _ in range(50):
            for writer in writers:
                send(writer, b"same\n")
        assert [finish(writer).code for writer in writers] == [0, 0, 0]
        assert alone.ok("tail", "ada", "-n", "1000").text.count("same\n") == 150


def test_idle_writer_without_a_daemon_keeps_nobody_out(alone: Zoned) -> None:
    writer = alone.start("append", "ada")
    send(writer, b"one\n")
    with alone.serving():
        reader = follow(alone)
        assert line_of(reader) == b"one\n"
        send(writer, b"two\n")
        assert line_of(reader) == b"two\n"
        assert finish(writer).text == "ada: 2 lines appended, 2 in all\n"
        interrupt(reader)


def test_session_archived_meanwhile_ends_the_command_and_nothing_lands_in_the_next(
    alone: Zoned,
) -> None:
    with alone.serving():
        reader = follow(alone)
        writer = alone.start("append", "ada")
        send(writer, b"one\n")
        assert line_of(reader) == b"one\n"
        zone = alone.json("archive", "ada")["archive_zoneid"]
        send(writer, b"two\n")
        done = finish(writer)
        assert (done.code, done.out) == (1, b"")
        assert "1 line is on disk, the rest is not" in done.err
        assert alone.ok("tail", zone).out == b"one\n"
        assert alone.ok("tail", "ada").out == b""
        interrupt(reader)


def test_interrupt_is_no_traceback_and_says_what_is_safe(alone: Zoned) -> None:
    with alone.serving():
        reader = follow(alone)
        writer = alone.start("append", "ada")
        send(writer, b"one\ntwo\n")
        assert (line_of(reader), line_of(reader)) == (b"one\n", b"two\n")
        done = interrupt(writer)
        assert (done.code, done.out) == (130, b"")
        assert done.err in ("zoned: 2 lines are on disk, the rest is not\n", "")
        interrupt(reader)


def test_interrupted_without_a_daemon_leaves_the_folder_free(alone: Zoned) -> None:
    writer = alone.start("append", "ada")
    send(writer, b"one\n" * 3)
    while not (alone.folder / "zoned.db-wal").exists() and writer.poll() is None:
        os.sched_yield()
    assert interrupt(writer).code == 130
    assert alone.ok("append", "ada", stdin=b"next\n").text.startswith("ada: 1 line appended")
