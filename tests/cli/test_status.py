"""`zoned status` and `zoned config`."""

import os

from srv.config import SETTINGS
from tests.cli.tools import Zoned


def test_status_of_a_daemon_that_is_well(alone: Zoned) -> None:
    with alone.serving() as daemon:
        found = alone.json("status")
        assert found["running"] is True
        assert found["health"]["ok"] is True
        assert found["pid"] == daemon.pid
        assert found["socket"] == os.path.realpath(alone.folder / "zoned.sock")
        assert found["data_dir"] == str(alone.folder)
        assert found["disk_bytes"] > 0
        assert {"uptime_ms", "version", "sync", "counts", "free_bytes"} < found.keys()
        shown = alone.ok("status").text
    assert shown.startswith("running and well\n")
    for word in (str(daemon.pid), str(alone.folder / "zoned.sock"), "full", "on disk"):
        assert word in shown


def test_status_without_a_daemon_is_3_and_says_so(alone: Zoned) -> None:
    answer = alone("status")
    assert (answer.code, answer.err) == (3, "")
    assert answer.text.startswith("not running: start it with zoned serve\n")
    answer = alone("status", "--json")
    assert (answer.code, answer.json["running"]) == (3, False)
    assert not (alone.folder / "zoned.db").exists()


def test_config_shows_every_setting_and_its_source(alone: Zoned) -> None:
    alone.folder.mkdir(mode=0o700)
    (alone.folder / "zoned.toml").write_text('sync = "normal"\n')
    answer = alone("config", "--json", ZONED_PORT="0")
    assert list(answer.json) == [*SETTINGS, "socket_path"]
    assert answer.json["sync"] == {"value": "normal", "source": str(alone.folder / "zoned.toml")}
    assert answer.json["port"] == {"value": 0, "source": "environment ZONED_PORT"}
    assert answer.json["data_dir"] == {"value": str(alone.folder), "source": "flag --data-dir"}
    shown = alone.ok("config").text
    assert len(shown.splitlines()) >= len(SETTINGS) + 1
    assert "64 MiB" in shown


def test_config_makes_nothing(alone: Zoned) -> None:
    alone.ok("config")
    assert not alone.folder.exists()
