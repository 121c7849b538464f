"""`zoned export` and `zoned import`, with a daemon and without, from store to store."""

from pathlib import Path

import pytest

from srv.client.blocking import BlockingClient
from srv.errors import ZonedError
from tests.cli.tools import SNAPSHOT, Zoned


def test_session_goes_from_store_to_store(zoned: Zoned, tmp_path: Path) -> None:
    zone = zoned.fill()
    file, other = tmp_path / "ada.session", Zoned(tmp_path / "other")
    told = zoned.ok("export", zone, str(file)).text
    assert told == f"{file}: {zone}, 2 records, 2 files, 97 B in {file.stat().st_size} B\n"
    assert file.stat().st_mode & 0o777 == 0o600
    done = other.json("import", str(file))
    assert (done["zone"], done["files"], done["is_present"]) == (zone, 2, False)
    assert other.ok("show", zone).out == SNAPSHOT
    assert other.json("archives", "ada") == zoned.json("archives", "ada")
    assert other.ok("import", str(file)).text == f"{zone} is here already; nothing is changed\n"
    assert zoned.ok("import", str(file)).text == f"{zone} is here already; nothing is changed\n"
    copied = zoned.ok("import", str(file), "--as", "bob").text
    assert copied.startswith(f"{zone.replace('ada', 'bob')}: 2 records, 2 files, 97 B, session ")
    assert zoned.ok("check", "--deep").code == 0


def test_what_cannot_be_done_is_told_in_one_line(zoned: Zoned, tmp_path: Path) -> None:
    zoned.fill()
    file = tmp_path / "ada.session"
    zoned.ok("export", "ada", str(file))
    for words, code, told in (
        (["export", "ada", str(file)], 1, "exists (give another name, or --force"),
        (["export", "nobody", str(tmp_path / "x")], 1, "no such session"),
        (["export", "a b", str(tmp_path / "x")], 2, "defId must be 1 to 128"),
        (["export", "ada", str(zoned.folder / "x")], 2, "not go among those of the store"),
        (["import", str(tmp_path / "x")], 1, "there is no file"),
        (["import", str(file), "--as", "a b"], 2, "must be 1 to 128"),
    ):
        answer = zoned(*words)
        assert (answer.code, answer.out, answer.err.count("\n")) == (code, b"", 1), words
        assert told in answer.err
    zoned.ok("export", "ada", str(file), "--force")
    data = file.read_bytes()
    file.write_bytes(data.replace(b'"n": 3', b'"n": 4'))
    answer = zoned("import", str(file), "--as", "eve")
    assert answer.code == 1
    assert "the file is refused: the file 'output' does not match its hash" in answer.err
    assert [row["definition_id"] for row in zoned.json("agents")] == ["ada"]


def test_methods_are_for_the_unix_socket_and_absolute_paths(alone: Zoned, tmp_path: Path) -> None:
    file = str(tmp_path / "file")
    with alone.serving():
        alone.fill()
        with BlockingClient(alone.folder / "zoned.sock") as client:
            assert isinstance(
                client.call("srv:export", {"definition_id": "ada", "file": file}), dict
            )
            found = client.call("srv:import", {"file": file, "definition_id": "bob"})
            assert isinstance(found, dict)
            assert found["zone"] == "agent:bob:current"
            for wrong in ({}, {"file": "x"}, {"file": file, "as": "x"}):
                with pytest.raises(ZonedError) as caught:
                    client.call("srv:import", wrong)
                assert caught.value.kind == "INVALID_PARAMS"
