"""The table of errors, what is counted, and the log: without a daemon."""

import importlib
import json
import logging
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

import filestore
from filestore import errors as store
from srv import errors
from srv.config import Config
from srv.errors import KINDS, ZonedError, told
from srv.logs import LINE_BYTES_MAX, _Human, _Json
from srv.metrics import LATENCY_BOUNDS_S, Metrics, Sample
from srv.rpc.table import all_methods
from srv.settings import ConfigError
from tests.support.processes import ROOT

SPEC = ROOT / "docs" / "specs" / "0003-rpc.md"


# -- errors


def subclasses(root: type[store.StoreError]) -> Iterator[type[store.StoreError]]:
    yield root
    for each in root.__subclasses__():
        yield from subclasses(each)


def test_every_error_of_the_store_has_a_kind() -> None:
    for module in pkgutil.walk_packages(filestore.__path__, "filestore."):
        importlib.import_module(module.name)
    found = set(subclasses(store.StoreError))
    assert len(found) > 15
    public = {each for each in found if each.__module__ == store.__name__}
    assert public == errors._STORE_KINDS.keys()
    for each in found:
        error = each.__new__(each)
        Exception.__init__(error, "what")
        error.message, error.operation, error.zone, error.name, error.hint = (
            "what",
            "",
            None,
            None,
            "",
        )
        for name in ("offset", "retry_after_ms"):
            setattr(error, name, None if name == "offset" else 0)
        known = told(error)
        assert known is not None, each
        assert known.kind in KINDS, each


def test_every_method_is_in_the_spec_and_those_that_write_for_operators_are_theirs() -> None:
    text = SPEC.read_text(encoding="utf-8")
    for name, method in all_methods(Config(data_dir=ROOT)).items():
        assert f"| `{name}`" in text or f"/ `{name}`" in text, name
        is_theirs = name.startswith(("srv:", "session:"))
        is_theirs = is_theirs and name not in ("srv:info", "srv:health")
        assert method.is_operators == is_theirs, name


def test_params_of_every_method_are_those_of_the_spec() -> None:
    """`?` marks what may be left out. Whoever needs one of several says so with "or"."""
    table = all_methods(Config(data_dir=ROOT))
    text = SPEC.read_text(encoding="utf-8")
    found = re.findall(r"^\| `([a-z_:]+)` \|(.*?)\| ", text, re.MULTILINE)
    shown = {name: cell for name, cell in found if name in table}
    for name, cell in shown.items():
        spec = table[name].spec
        told = dict(re.findall(r"`([a-z_]+)(\??)`", cell))
        assert set(told) == set(spec.fields), name
        always = {param for param, mark in told.items() if not mark}
        assert always >= set(spec.required), name
        assert always == set(spec.required) or " or " in cell, name
    assert shown.keys() == table.keys()


def test_every_kind_is_in_the_spec_with_its_code() -> None:
    if not SPEC.exists():
        pytest.skip("the spec is not written yet")
    text = SPEC.read_text(encoding="utf-8").replace("\u2212", "-")
    for name, kind in KINDS.items():
        assert name in text, name
        assert str(kind.code) in text, name


def test_codes_are_those_of_the_protocol() -> None:
    assert KINDS["PARSE_ERROR"].code == -32700
    assert KINDS["INVALID_REQUEST"].code == -32600
    assert KINDS["UNKNOWN_METHOD"].code == -32601
    assert {KINDS[name].code for name in KINDS if name.startswith("INVALID_P")} == {-32602}
    assert all(kind.exit_code in (1, 2) for kind in KINDS.values())


def test_what_an_error_carries_is_told() -> None:
    conflict = told(store.VersionConflictError("no", current_version=3, session_id="s",
                                               current_lines=0))  # fmt: skip
    assert conflict is not None
    assert (
        conflict.data.items()
        >= {"current_version": 3, "session_id": "s", "current_lines": 0}.items()
    )
    busy = told(store.BusyError("wait", retry_after_ms=50))
    assert busy is not None
    assert busy.data["retry_after_ms"] == 50
    locked = told(store.LockedError("no", pid=5, kind="daemon", socket="", hint="stop it"))
    assert locked is not None
    assert locked.data == {"kind": "BUSY", "hint": "stop it"}
    full = told(store.StorageFullError("full", operation="append"))
    assert full is not None
    assert full.message == "full", "the method tells the operation"
    assert full.hint.startswith("free some")
    assert str(full) == f"full ({full.hint})"


def test_what_is_not_ours_is_not_told() -> None:
    assert told(ValueError("secret")) is None
    assert told(KeyError("x")) is None
    config = told(ConfigError("wrong"))
    assert config is not None
    assert config.kind == "INVALID_PARAMS"
    memory = told(MemoryError())
    assert memory is not None
    assert memory.kind == "UNAVAILABLE"
    with pytest.raises(AssertionError):
        ZonedError("NO_SUCH_KIND", "x")


# -- metrics

NAMES = st.sampled_from(["", "srv:info", "agent:session:read"])


@given(calls=st.lists(st.tuples(NAMES, st.floats(0, 5), st.none() | st.sampled_from([*KINDS]))))
def test_metrics_are_read_by_prometheus(calls: list[tuple[str, float, str | None]]) -> None:
    metrics = Metrics()
    for method, seconds, kind in calls:
        metrics.answered(method, seconds, kind)
    text = metrics.text([Sample("zoned_more", "gauge", "More.", 1.5)])
    families = {each.name: each for each in text_string_to_metric_families(text)}
    assert families["zoned_more"].samples[0].value == 1.5
    assert families["zoned_requests"].samples[0].value == len(calls)
    errors = sum(each.value for each in families["zoned_errors"].samples)
    assert errors == sum(kind is not None for _, _, kind in calls)
    samples = families["zoned_request_seconds"].samples
    assert sum(s.value for s in samples if s.name.endswith("_count")) == len(calls)
    for method in {method for method, _, _ in calls}:
        mine = [s for s in samples if s.labels["method"] == method and s.name.endswith("_bucket")]
        assert [s.labels["le"] for s in mine] == [*map(str, LATENCY_BOUNDS_S), "+Inf"]
        for sample, bound in zip(mine, LATENCY_BOUNDS_S, strict=False):
            assert sample.value == sum(
                seconds_ <= bound for name, seconds_, _ in calls if name == method
            )


# -- the log


@given(event=st.text(max_size=3000), extra=st.text(max_size=3000))
def test_log_line_is_one_line_of_valid_json(event: str, extra: str) -> None:
    record = logging.makeLogRecord({"msg": "%s", "args": (event,), "more": extra, "count": 5,
                                    "levelname": "INFO", "thing": object()})  # fmt: skip
    line = _Json().format(record)
    assert "\n" not in line
    assert len(line.encode()) < LINE_BYTES_MAX
    found = json.loads(line)
    assert found["level"] == "info"
    if len(event) + len(extra) < 200:
        assert found["event"] == event
        assert found["more"] == extra
        assert found["count"] == 5


def test_log_of_a_long_traceback_is_valid_json_with_its_end() -> None:
    try:
        raise ValueError("é" * 5000 + " the end")
    except ValueError:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": sys.exc_info()})
    found = json.loads(_Json().format(record))
    assert found["traceback"].endswith("the end")


def test_log_for_people_is_coloured_only_if_wanted() -> None:
    record = logging.makeLogRecord({"msg": "hot", "levelname": "WARNING", "peer": "tcp"})
    assert _Human(False).format(record).endswith("warning hot peer=tcp")
    assert _Human(True).format(record).startswith("\x1b[33m")


LOGGER = """
import logging, os, sys
from srv import logs
lost = []
logs.start("info", is_terminal=False, is_coloured=False, dropped=lambda: lost.append(1))
for number in range(int(sys.argv[1])):
    logging.getLogger("x").info("line", extra={"number": number})
logging.getLogger("x").debug("not at this level")
os.write(1, str(len(lost)).encode())
"""


def test_log_into_a_pipe_that_nobody_reads_is_dropped_and_counted() -> None:
    read_end, write_end = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", LOGGER, "5000"], cwd=ROOT, stderr=write_end,
            stdout=subprocess.PIPE, timeout=20, check=True,
        )  # fmt: skip
        os.close(write_end)
        with os.fdopen(read_end, "rb") as pipe:
            events = [json.loads(line) for line in pipe.read().splitlines()]
    except BaseException:
        os.close(read_end)
        raise
    assert len(events) + int(done.stdout) == 5000
    assert [each["number"] for each in events] == list(range(len(events)))
    assert int(done.stdout) > 0


@pytest.mark.parametrize("how", ["closed pipe", "full device"])
def test_log_that_cannot_be_written_is_dropped(tmp_path: Path, how: str) -> None:
    if how == "full device":
        stderr = os.open("/dev/full", os.O_WRONLY)
    else:
        read_end, stderr = os.pipe()
        os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "-c", LOGGER, "10"], cwd=ROOT, stderr=stderr,
            stdout=subprocess.PIPE, timeout=20, check=True,
        )  # fmt: skip
    finally:
        os.close(stderr)
    assert done.stdout == b"10"
