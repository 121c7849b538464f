"""`zoned repair`: what it says, how it exits, and the way from a damaged store to a good one."""

from tests.cli.tools import SNAPSHOT, Zoned
from tests.contract.tools import run_sql


def test_damaged_store_is_saved_and_put_in_place(alone: Zoned) -> None:
    zone = alone.fill()
    saved = alone.folder.parent / "saved"
    run_sql(alone.folder / "zoned.db", "UPDATE log SET data = zeroblob(70) WHERE seq > 10")
    assert alone("agents").code == 1
    answer = alone("repair", str(saved))
    assert (answer.code, answer.err) == (3, "")
    lines = answer.text.splitlines()
    assert lines[0].split() == ["ZONE", "FILE", "WHAT", "IS", "LEFT", "LOST"]
    assert "appends of unknown files, 70 bytes in all" in answer.text
    assert lines[-1].startswith(f"saved in {saved}: 2 zones, 3 files, ")
    assert lines[-1].split("; ")[0].endswith("2 sessions with 3 records")
    alone.ok("restore-backup", str(saved / "zoned.db"), "--yes")
    assert alone.ok("check", "--deep").code == 0
    assert alone.ok("show", zone).out == SNAPSHOT
    assert alone.ok("append", "ada", stdin=b"on\n").code == 0


def test_nothing_lost_is_0_and_json_tells_counts(alone: Zoned) -> None:
    alone.fill()
    done = alone.json("repair", str(alone.folder.parent / "saved"))
    assert done == {
        "zones": 2, "files": 3, "bytes": 106, "journals": 2, "records": 3, "losses": [],
    }  # fmt: skip
    again = alone("repair", str(alone.folder.parent / "saved"))
    assert again.code == 1
    assert "give the path of a folder that is not there yet" in again.err


def test_store_in_use_and_no_store_are_refused(alone: Zoned) -> None:
    saved = str(alone.folder.parent / "saved")
    assert "there is no store" in alone("repair", saved).err
    with alone.serving():
        alone.fill()
        answer = alone("repair", saved)
    assert answer.code == 1
    assert "is in use" in answer.err
