"""`zoned usage` and `zoned prune`, with a daemon and without."""

import pytest

from tests.cli.tools import Zoned, on_terminal


def fill(zoned: Zoned, agent: str, count: int) -> list[str]:
    """Archives of rising size, oldest first."""
    zones = []
    for number in range(count):
        zoned.ok("append", agent, stdin=b"x" * 100 * (number + 1) + b"\n")
        zones.append(zoned.json("archive", agent)["archive_zoneid"])
    return zones


def left(zoned: Zoned, agent: str) -> list[str]:
    return [row["archive_zoneid"] for row in zoned.json("archives", agent)][::-1]


def test_prune_deletes_by_rule_and_only_that(zoned: Zoned) -> None:
    ada, bob = fill(zoned, "ada", 4), fill(zoned, "bob", 2)
    zoned.ok("append", "ada", stdin=b"current\n")
    told = zoned.json("prune", "--keep", "1", "--dry-run")
    assert told == {"archives": [*ada[:3], bob[0]], "bytes": 101 + 201 + 301 + 101, "dry_run": True}
    assert (left(zoned, "ada"), left(zoned, "bob")) == (ada, bob)
    assert zoned("prune", "--keep", "1").code == 2, "there is nobody to ask"
    done = zoned.json("prune", "--keep", "1", "--larger-than", "200B", "--agent", "ada", "--yes")
    assert done == {"archives": ada[1:3], "bytes": 201 + 301, "dry_run": False}
    assert (left(zoned, "ada"), left(zoned, "bob")) == ([ada[0], ada[3]], bob)
    shown = zoned.ok("prune", "--older-than", "30d", "--yes").text
    assert shown == "no archive is meant\n"
    assert zoned.ok("prune", "--older-than", "0h", "--yes").text.startswith("4 archives deleted, ")
    assert zoned.ok("tail", "ada").out == b"current\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "prune needs --older-than, --keep or --larger-than"),
        (["--agent", "ada"], "prune needs"),
        (["--older-than", "30"], "--older-than must be like 12h, 30d or 8w, not '30'"),
        (["--older-than", "-1d"], "--older-than must be like"),
        (["--older-than", "30m"], "--older-than must be like"),
        (["--older-than", "9999999d"], "--older-than must be like"),
        (["--older-than", "٣d"], "--older-than must be like"),
        (["--larger-than", "10"], "--larger-than must be like 10MiB, not '10'"),
        (["--larger-than", "1e3B"], "--larger-than must be like"),
        (["--keep", "-1"], "--keep must be a whole number"),
        (["--keep", "1", "--agent", "a/b", "--yes"], "defId must be"),
    ],
)
def test_rule_that_is_none_deletes_nothing(alone: Zoned, words: list[str], told: str) -> None:
    answer = alone("prune", *words)
    assert answer.code == 2
    assert told in answer.err


def test_prune_on_a_terminal_asks_and_shows_harmless_previews(alone: Zoned) -> None:
    message = b'{"type":"user","message":{"content":"\\u001b]0;x\\u0007 \\u202e hi"}}\n'
    alone.ok("append", "ada", stdin=message)
    zone = alone.json("archive", "ada")["archive_zoneid"]
    code, shown = on_terminal(alone.words("prune", "--keep", "0", "-n"), settings={"NO_COLOR": "1"})
    assert code == 0
    assert zone in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    code, shown = on_terminal(alone.words("prune", "--keep", "0"), b"n\n")
    assert code == 1
    assert "delete 1 archive, " in shown
    assert "nothing is deleted" in shown
    assert left(alone, "ada") == [zone]
    code, shown = on_terminal(alone.words("prune", "--keep", "0"), b"y\n")
    assert code == 0
    assert left(alone, "ada") == []


def test_usage_is_told_with_the_largest_first(zoned: Zoned) -> None:
    assert zoned.json("usage")["agents"] == []
    fill(zoned, "ada", 1)
    fill(zoned, "bob", 3)
    zoned.ok("append", "ada", stdin=b"x\n")
    found = zoned.json("usage")
    assert found["disk_bytes"] > 0
    bob, ada = found["agents"]
    # Of each archive a beginning and an end, of the current session a beginning.
    assert (bob["records"], ada["records"]) == (6, 3)
    recorded = bob["record_bytes"] + ada["record_bytes"]
    assert recorded > 9 * 50
    assert found["total_bytes"] == 101 + 2 + 101 + 201 + 301 + recorded
    assert (bob["definition_id"], bob["archives"], bob["archived_bytes"]) == ("bob", 3, 603)
    assert ada["current_bytes"] == 2
    assert ada["recent_bytes"] == ada["archived_bytes"] == 101
    head, *rows, total = zoned.ok("usage").text.splitlines()
    assert head.split() == [
        "AGENT", "SIZE", "CURRENT", "RECORDS", "ARCHIVES", "LINES", "7", "DAYS", "OLDEST"
    ]  # fmt: skip
    assert [row.split()[0] for row in rows] == ["bob", "ada"]
    assert total.startswith("2 agents, 4 archives, 1.3 KiB; packed on the disk: ")
    assert [row["definition_id"] for row in zoned.json("usage", "-n", "1")["agents"]] == ["bob"]
    zoned.ok("session", "create", "--id", "task", "--agent", "ada")
    *_, others, total = zoned.ok("usage").text.splitlines()
    assert others.startswith("1 agent without files: 1 record, ")
    assert total.startswith("3 agents, 4 archives, ")
