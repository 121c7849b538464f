"""`zoned check`, with a daemon and without: what it finds, what it says to run, how it exits."""

import pytest

from srv.client.blocking import BlockingClient
from srv.errors import ZonedError
from tests.cli.tools import SNAPSHOT, Zoned, on_terminal
from tests.contract.tools import run_sql

DAMAGE_CHUNKS = "UPDATE chunk_data SET data = zeroblob(length(data))"


def test_clean_store_is_0_and_counted(zoned: Zoned) -> None:
    zoned.fill()
    assert zoned.ok("check").text == (
        "2 zones, 3 files, 1 chunk, 106 B: all well; --deep also reads every byte\n"
    )
    assert zoned.ok("check", "--deep").text == "2 zones, 3 files, 1 chunk, 106 B: all well\n"
    found = zoned.json("check", "--deep")
    assert found == {
        "zones": 2, "files": 3, "chunks": 1, "bytes": 106, "deep": True, "problems": [],
        "is_cut": False,
    }  # fmt: skip


def test_damaged_bytes_are_found_by_deep_with_place_and_command(alone: Zoned) -> None:
    zone = alone.fill()
    alone.ok("write-state", "ada", stdin=SNAPSHOT + b" ")
    run_sql(alone.folder / "zoned.db", DAMAGE_CHUNKS)
    assert alone("check").code == 0
    with alone.serving():
        answer = alone("check", "--deep")
        by_daemon = alone("check", "--deep", "--json").json
    assert (answer.code, answer.err) == (3, "")
    archived, current, last = (answer.text.splitlines()[i] for i in (0, 2, 4))
    assert archived.startswith(f"{zone}/output.state.json at offset 0: ")
    assert current.startswith("agent:ada:current/output.state.json at offset 0: ")
    assert "  zoned replay ada --write rebuilds it from the stream\n" in answer.text
    assert "  zoned repair <new folder> " in answer.text
    assert last.endswith(": 2 problems")
    first = by_daemon["problems"][0]
    assert (first["zone"], first["name"], first["offset"]) == (zone, "output.state.json", 0)


def test_damaged_row_is_found_by_the_quick_form(alone: Zoned) -> None:
    alone.fill()
    run_sql(alone.folder / "zoned.db", "UPDATE session SET preview = 'other'")
    answer = alone("check")
    assert answer.code == 3
    assert "fails its check" in answer.text


def test_store_that_cannot_be_opened_is_a_problem_found(alone: Zoned) -> None:
    alone.fill()
    run_sql(alone.folder / "zoned.db", "UPDATE log SET data = zeroblob(3)")
    answer = alone("check")
    assert (answer.code, answer.err) == (3, "")
    assert "row " in answer.text
    assert "  zoned repair <new folder> " in answer.text
    assert alone("check", "--json").json["problems"][0]["hint"]


def test_what_is_no_store_is_a_failure_and_untouched(alone: Zoned) -> None:
    assert "there is no store" in alone("check").err
    (alone.folder / "zoned.db").write_bytes(b"something else" * 100)
    answer = alone("check")
    assert answer.code == 1
    assert "not an SQLite database" in answer.err
    assert (alone.folder / "zoned.db").read_bytes() == b"something else" * 100


def test_check_writes_nothing(alone: Zoned) -> None:
    alone.fill()
    before = {path.name: path.read_bytes() for path in alone.folder.iterdir()}
    alone.ok("check", "--deep")
    assert {path.name: path.read_bytes() for path in alone.folder.iterdir()} == before


def test_hostile_names_do_no_harm_on_a_terminal(alone: Zoned) -> None:
    alone.fill()
    name = "char(27) || ']0;x'"
    run_sql(alone.folder / "zoned.db", f"UPDATE zone SET name = {name} WHERE name LIKE '%t'")
    code, shown = on_terminal(alone.words("check"))
    assert code == 3
    assert "\x1b]" not in shown


@pytest.mark.parametrize("method", ["srv:check"])
def test_methods_answer_over_the_unix_socket(alone: Zoned, method: str) -> None:
    with alone.serving():
        alone.fill()
        with BlockingClient(alone.folder / "zoned.sock") as client:
            found = client.call(method, {"deep": True})
            assert isinstance(found, dict)
            assert (found["problems"], found["zones"]) == ([], 2)
            with pytest.raises(ZonedError, match="deep must be true or false"):
                client.call(method, {"deep": 1})
