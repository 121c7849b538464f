"""Every method of the table with anything at all: it is answered, by no fault of ours, in bounded
memory. Whoever adds a method has it tested here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srv.config import Config
from srv.rpc.methods import Method
from srv.rpc.table import all_methods
from tests.support.daemon import BINARY, CLOSE, TEXT, Client, Daemon, frame

METHODS = all_methods(Config(data_dir=Path("unused")))
NAMES = sorted({name for method in METHODS.values() for name in method.spec.fields})
GROWTH_BYTES_MAX = 200 << 20
KINDS_ALLOWED = {
    "PARSE_ERROR", "INVALID_REQUEST", "UNKNOWN_METHOD", "INVALID_PARAMS", "INVALID_DEFINITION_ID",
    "INVALID_ZONE", "NOT_FOUND", "VERSION_CONFLICT", "TOO_LARGE", "ALREADY_EXISTS", "UNAUTHORIZED",
}  # fmt: skip
# A daemon serves all examples of a test: what is wrong shows in each of them.
LIVE = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

RIGHT = st.sampled_from(
    ["ada", "bob", "agent:ada:archive:1", "", "x", "a\nb", True, False, 0, 1, 2, ["x", "y"],
     {"base64": "/w=="}, "claude", (1 << 63) - 1]
)  # fmt: skip
LEAVES = (
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False)
    | st.text(max_size=20) | RIGHT
)  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | LEAVES,
        "id": st.integers(0, 9) | VALUES,
        "method": st.sampled_from(sorted(METHODS)) | VALUES,
        "params": st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), VALUES, max_size=4)
        | VALUES,
    },
)


@st.composite
def params_of(draw: st.DrawFn, method: Method) -> dict[str, Any]:
    """Params of the right names, most of them: what must be given is there, and often right."""
    found = {}
    for name in method.spec.fields:
        if draw(st.integers(0, 9)) < (9 if name in method.spec.required else 4):
            found[name] = draw(RIGHT if draw(st.booleans()) else VALUES)
    return found


@pytest.fixture(scope="module")
def operators(daemon: Daemon) -> Iterator[tuple[Client, Client]]:
    """Who runs the daemon, in JSON and MessagePack, with something to work on. In the end memory
    is looked at.
    """
    with (
        daemon.client(is_unix=True) as client,
        daemon.client(is_unix=True, is_binary=True) as other,
    ):
        for agent in ("ada", "ada", "bob"):
            client.call("agent:session:append_output", definition_id=agent, line="x")
            client.call("agent:session:write_state", definition_id=agent, content="{}")
            if agent == "ada":
                client.call("agent:session:archive", definition_id=agent)
        daemon.reset_peak()
        before = daemon.peak_bytes
        yield client, other
        assert daemon.peak_bytes - before < GROWTH_BYTES_MAX


def assert_sane(answer: Any) -> None:
    for each in answer if isinstance(answer, list) else [answer]:
        assert ("result" in each) != ("error" in each)
        if "error" in each:
            assert each["error"]["data"]["kind"] in KINDS_ALLOWED, each
            assert each["error"]["message"].isprintable()


@pytest.mark.parametrize("name", sorted(METHODS))
@LIVE
@given(data=st.data(), is_binary=st.booleans())
def test_method_is_answered_whatever_its_params(
    operators: tuple[Client, Client], name: str, data: st.DataObject, is_binary: bool
) -> None:
    params = data.draw(params_of(METHODS[name]))
    operator = operators[is_binary]
    operator.send(Client.request(name, 1, params))
    answer = operator.answer()
    assert_sane(answer)
    # JSON has no infinity: then the message itself cannot be read.
    is_unread = "error" in answer and answer["error"]["data"]["kind"] == "PARSE_ERROR"
    assert answer["id"] == (None if is_unread else 1)


@settings(LIVE, max_examples=300)
@given(value=VALUES | REQUESTS | st.lists(REQUESTS, max_size=4), is_binary=st.booleans())
def test_random_requests_are_answered_or_were_notifications(
    pane: Client, value: Any, is_binary: bool
) -> None:
    pane.is_binary = is_binary
    pane.send(value)
    pane.send({"jsonrpc": "2.0", "id": "the end", "method": "srv:health"})
    while True:
        answer = pane.answer()
        if isinstance(answer, dict) and answer["id"] == "the end":
            break
        assert_sane(answer)
    # Reads may be answered after it: none may be left for the next example.
    pane.send([])
    while (answer := pane.answer()) and (
        isinstance(answer, list)
        or "error" not in answer
        or "batch" not in answer["error"]["message"]
    ):
        assert_sane(answer)


@settings(LIVE, max_examples=300)
@given(
    payload=st.binary(max_size=200) | st.text(max_size=50).map(str.encode), is_binary=st.booleans()
)
def test_random_messages_are_answered(pane: Client, payload: bytes, is_binary: bool) -> None:
    pane.is_binary = is_binary
    pane.send_frame(BINARY if is_binary else TEXT, payload)
    assert_sane(pane.answer())
    assert pane.is_alive()


@settings(LIVE, max_examples=100)
@given(data=st.binary(min_size=1, max_size=300))
def test_random_bytes_after_the_upgrade_never_hurt_others(
    daemon: Daemon, pane: Client, data: bytes
) -> None:
    with daemon.client() as client:
        client.sock.sendall(data + frame(CLOSE, b""))
        client.sock.shutdown(1)
        closed = client.closed()
        assert closed.code in (None, 1000, 1002, 1009)
    assert pane.is_alive()
