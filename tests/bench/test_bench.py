"""Every benchmark runs at the smallest scale and reports what it found. Speeds are not judged."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from bench.__main__ import BENCHMARKS, DATA_FOLDER, main
from bench.agents import PROVIDERS

ROWS = {
    "writers_64": ["writers_64"],
    "writers_64_asyncio": ["writers_64_asyncio"],
    "writers_1": ["writers_1"],
    "snapshot_time": ["snapshot_time"],
    "snapshot_bytes": ["snapshot_bytes"],
    "snapshot_equal": ["snapshot_equal"],
    "write_amplification": ["write_amplification", "write_amplification_paced"],
    "append_flat": ["append_flat"],
    "stream_size": ["stream_size"],
    "stream_read": ["stream_read", "stream_read_memory"],
    "move_zone": ["move_zone"],
    "copy_zone": ["copy_zone", "copy_zone_raw"],
    "zone_pages": ["zone_pages"],
    "store_open": ["store_open"],
    "archive_pages": ["archive_pages"],
    "archive_list": ["archive_list"],
    "archive_time": ["archive_time"],
    "save_growth": ["save_growth_equal", "save_growth_node"],
    "migrate_blocks": ["migrate_blocks", "migrate_blocks_memory"],
    "migrate_stream": ["migrate_stream_memory"],
    "migrate_nothing": ["migrate_nothing"],
    "rpc_info": ["rpc_info_1", "rpc_info_8", "rpc_info_64"],
    "rpc_append": ["rpc_append_1", "rpc_append_64", "rpc_append_512", "rpc_append_64_p99"],
    "rpc_read": ["rpc_read_64k"],
    "rpc_memory": ["rpc_memory"],
    "serve_ready": ["serve_ready"],
    "cli_start": ["cli_agents", "cli_agents_daemon"],
    "hooks": [
        f"{name}{by}"
        for by in ("", "_daemon")
        for name in (
            "hook_pre_delegate",
            "hook_subagent_stop",
            "session_should_resume",
            "session_update",
        )
    ],
    "replay_fold": [f"replay_{provider}" for provider in PROVIDERS],
    "replay_scan": ["replay_scan", "replay_scan_speed", "replay_scan_plain"],
    "replay_memory": ["replay_memory"],
    "transcript_export": ["session_export", "transcript_export", "transcript_check"],
    "mcp_calls": ["mcp_submit", "mcp_query", "mcp_submit_64", "mcp_query_64"],
    "rest_calls": [
        f"rest_{call}_{clients}" for clients in (1, 64) for call in ("create", "prompt", "list")
    ],
    "rest_pages": [
        f"rest_page_{wanted}" for wanted in ("all", "status", "statuses", "repo", "agent", "both")
    ],
    "rest_list": ["rest_list_1000"],
    "rest_cleanup": ["rest_cleanup"],
    "follow_latency": ["follow_latency"],
}
"""Which rows each benchmark prints."""
SHOWN_ONLY = {
    "writers_64_asyncio",
    "write_amplification_paced",
    "copy_zone_raw",
    "rpc_append_1",
    "session_export",
    "transcript_export",
    "transcript_check",
    *(f"rest_{call}_{clients}" for clients in (1, 64) for call in ("create", "prompt", "list")),
    "rest_cleanup",
}
"""Rows without a target."""
ZERO = {"snapshot_equal", "save_growth_equal"}
"""Rows whose figure is to be nothing at all."""


class Run(NamedTuple):
    """What one run of one benchmark left."""

    name: str
    table: list[str]
    document: dict[str, Any]
    leftover: list[Path]


@pytest.fixture(params=list(BENCHMARKS))
def run(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    name: str = request.param
    json, folder = tmp_path / "figures.json", tmp_path / "data"
    arguments = [name, "--scale", "tiny", "--json", str(json), "--dir", str(folder)]
    assert main(arguments) == 0
    table = capsys.readouterr().out.splitlines()
    return Run(name, table, orjson.loads(json.read_bytes()), list(folder.iterdir()))


@pytest.mark.slow
def test_benchmark_at_tiny_scale_reports_each_of_its_rows_once(run: Run) -> None:
    """One run serves all these checks: they differ in what they look at, not in what is done."""
    wanted = ROWS[run.name]
    heading, *lines, footer = run.table
    assert heading.split()[:3] == ["name", "ours", "baseline"]
    assert [line.split()[0] for line in lines] == wanted
    assert footer.startswith("scale tiny; python ")
    rows = run.document["rows"]
    assert [row["name"] for row in rows] == wanted
    for row in rows:
        assert (row["target"] is None) == (row["name"] in SHOWN_ONLY)
        assert (row["verdict"] in ("pass", "MISS")) == (row["target"] is not None)
        assert all(figure > 0 for figure in row["figures"]) or row["name"] in ZERO
    assert run.document["scale"] == "tiny"
    assert run.document["environment"]["cores"] >= 1
    assert run.leftover == []


def test_every_benchmark_has_its_rows_listed_and_no_row_has_two_owners() -> None:
    assert ROWS.keys() == BENCHMARKS.keys()
    owners = Counter(row for rows in ROWS.values() for row in rows)
    assert set(owners.values()) == {1}


def test_list_names_all_benchmarks_and_runs_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert capsys.readouterr().out.split() == list(BENCHMARKS)


def test_unknown_name_is_refused_by_name_before_anything_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    with pytest.raises(SystemExit) as ended:
        main(["move_zone", "writers_65", "--dir", str(folder)])
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert "no such benchmark: writers_65" in shown.err
    assert shown.out == ""
    assert not folder.exists()


def test_data_folder_by_default_is_made_below_the_current_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["snapshot_bytes", "--scale", "tiny"]) == 0
    assert (tmp_path / DATA_FOLDER).is_dir()
    assert list((tmp_path / DATA_FOLDER).iterdir()) == []
