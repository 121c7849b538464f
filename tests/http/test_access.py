"""Who gets in: Host, Origin and token, by every way a token can come; and plain HTTP."""

import contextlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.daemon import KEY, Closed, Daemon, Reply, read_all, serving, upgrade


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("http") / "data"
    config = {"header_timeout_s": 1, "allowed_hosts": ["box.example"],
              "allowed_origins": ["https://pane.example"]}  # fmt: skip
    with serving(folder, config=config) as daemon:
        yield daemon
        assert daemon.end() == 0
        assert daemon.token not in daemon.log
        assert [each for each in daemon.events() if each["level"] == "error"] == []


def refused(daemon: Daemon, **headers: str) -> int:
    """The status with which an upgrade is refused."""
    return _status(daemon, daemon.http(upgrade(daemon, **headers)))


def all_refused(daemon: Daemon, status: int, requests: Sequence[str | bytes]) -> None:
    """Each is refused so; at the same time, for each refusal takes its time."""
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(daemon.open()) for _ in requests]
        for sock, request in zip(socks, requests, strict=True):
            sock.sendall(request.encode("latin-1") if isinstance(request, str) else request)
        for sock, request in zip(socks, requests, strict=True):
            assert _status(daemon, Reply(read_all(sock))) == status, request


def _status(daemon: Daemon, reply: Reply) -> int:
    assert daemon.token.encode() not in reply.data
    assert reply.status != 101
    assert len(reply.body) < 200
    return reply.status


# -- tokens


def test_token_is_taken_as_bearer_subprotocol_or_cookie(daemon: Daemon) -> None:
    token = daemon.token
    ways: list[Any] = [
        {"Authorization": f"Bearer {token}"},
        {"Authorization": f"bearer  {token}"},
        {"Authorization": "", "Sec_WebSocket_Protocol": f"zoned, zoned.token.{token}"},
        {"Authorization": "", "Sec_WebSocket_Protocol": f"zoned.token.{token}"},
        {"Authorization": "", "Cookie": f"other=1; zoned-{daemon.port}={token}"},
    ]
    for headers in ways:
        with daemon.client(**headers) as client:
            assert client.is_alive()
    with daemon.client(**ways[2]) as client:
        assert "Sec-WebSocket-Protocol: zoned\r\n" in client.head + "\r\n"
        assert token not in client.head


def test_right_token_is_not_delayed_and_wrong_ones_are(daemon: Daemon) -> None:
    started = time.monotonic()
    for _ in range(10):
        daemon.client().sock.close()
    assert time.monotonic() - started < 1.0
    started = time.monotonic()
    assert refused(daemon, Authorization="") == 401
    assert time.monotonic() - started > 0.1


def wrong_tokens(token: str) -> list[dict[str, str]]:
    bearer = [
        "", "Bearer", "Bearer ", f"Basic {token}", token, f"Bearer {token[:-1]}",
        f"Bearer {token}x", f"Bearer {token.swapcase()}", f"Bearer {token} {token}",
        "Bearer \xe9\xff", "Bearer ''", f"Bearer \xa0{token}",
    ]  # fmt: skip
    ways = [{"Authorization": each} for each in bearer]
    ways += [
        {"Authorization": "", "Sec_WebSocket_Protocol": "zoned.token."},
        {"Authorization": "", "Sec_WebSocket_Protocol": "zoned"},
        {"Authorization": "", "Sec_WebSocket_Protocol": f"ZONED.TOKEN.{token}"},
        {"Authorization": "", "Cookie": f"zoned={token}"},
        {"Authorization": "", "Cookie": f"zoned-1={token}"},
        {"Authorization": "", "X_Token": token},
    ]
    return ways


def test_wrong_token_is_refused_without_a_word_why(daemon: Daemon) -> None:
    all_refused(daemon, 401, [upgrade(daemon, **each) for each in wrong_tokens(daemon.token)])
    for target in ("/", "/metrics", "/zoned.js", "/nothing", "/health/", "/health?x", "//health",
                   "/?token=", "/?token=wrong", f"/?x=1&token={daemon.token}",
                   f"/metrics?token={daemon.token}", "/%68ealth"):  # fmt: skip
        reply = daemon.get(target, token=False)
        assert reply.status == 401, target
        assert reply.body == b"unauthorized\n"


def test_login_sets_a_cookie_and_takes_the_token_out_of_the_address(daemon: Daemon) -> None:
    reply = daemon.get(f"/?token={daemon.token}", token=False)
    assert reply.status == 303
    assert reply.headers["location"] == "/"
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Path=/" in cookie
    name = cookie.partition(";")[0]
    assert name == f"zoned-{daemon.port}={daemon.token}"
    assert daemon.get("/metrics", token=False, Cookie=name).status == 200


# -- host and origin

EVIL_HOSTS = [
    "", "evil.example", "127.0.0.1", "localhost", "127.0.0.1:1", "127.0.0.1:PORT.evil.example",
    "evil.example:PORT", "127.0.0.1.evil.example:PORT", "localhost.evil.example:PORT",
    "localhost:PORT@evil.example", "evil@127.0.0.1:PORT", "127.0.0.1:PORT:PORT", "2130706433:PORT",
    "0.0.0.0:PORT", "127.1:PORT", "[::]:PORT", "[::ffff:127.0.0.1]:PORT", "127.0.0.2:PORT",
    "localhost.:PORT", "box.example.evil.example", "evil.box.example", "box.example:PORT:1",
    "127.0.0.1:PORT, evil.example", "127.0.0.1:0PORT", "127.0.0.1:+PORT", "LOCALHOST\u0130:PORT",
]  # fmt: skip
GOOD_HOSTS = ["127.0.0.1:PORT", "localhost:PORT", "LocalHost:PORT", "[::1]:PORT", "box.example",
              "BOX.example:80"]  # fmt: skip
EVIL_ORIGINS = [
    "null", "http://evil.example", "https://127.0.0.1:PORT", "http://127.0.0.1", "file://",
    "http://127.0.0.1:1", "http://127.0.0.1:PORT.evil.example", "http://127.0.0.1:PORT/",
    "http://evil.example#http://127.0.0.1:PORT", "http://localhost", "http://127.0.0.1:PORT0",
    "https://pane.example.evil.example", "http://pane.example", "https://pane.example:8443",
    "http://xlocalhost:PORT", "http://127.0.0.1:PORT http://evil.example", "ws://127.0.0.1:PORT",
]  # fmt: skip
GOOD_ORIGINS = ["http://127.0.0.1:PORT", "http://localhost:PORT", "http://[::1]:PORT",
                "https://pane.example", "HTTP://LOCALHOST:PORT"]  # fmt: skip


def with_port(text: str, daemon: Daemon) -> str:
    return text.replace("PORT", str(daemon.port))


@pytest.mark.parametrize("target", ["/health", "/metrics", "/rpc", "/"])
def test_evil_host_is_refused_on_every_route(daemon: Daemon, target: str) -> None:
    hosts = EVIL_HOSTS if target == "/rpc" else EVIL_HOSTS[:4]
    requests = []
    for host in hosts:
        named = with_port(host, daemon).encode("utf-8").decode("latin-1")
        if target == "/rpc":
            requests.append(upgrade(daemon, Host=named))
        else:
            lines = [f"GET {target} HTTP/1.1", f"Authorization: Bearer {daemon.token}"]
            lines += [f"Host: {named}"] if named else []
            requests.append("\r\n".join([*lines, "", ""]))
    all_refused(daemon, 403, requests)


def test_good_host_and_origin_are_taken(daemon: Daemon) -> None:
    for host in GOOD_HOSTS:
        with daemon.client(Host=with_port(host, daemon)) as client:
            assert client.is_alive()
    for origin in GOOD_ORIGINS:
        with daemon.client(Origin=with_port(origin, daemon)) as client:
            assert client.is_alive()


def test_evil_origin_is_refused_with_the_right_token(daemon: Daemon) -> None:
    origins = [with_port(origin, daemon) for origin in EVIL_ORIGINS]
    all_refused(daemon, 403, [upgrade(daemon, Origin=origin) for origin in origins])
    requests = [
        head(daemon, f"Origin: {origin}").replace("GET /health", f"{method} {target}")
        for origin in origins[:4]
        for method, target in (("GET", "/health"), ("GET", "/metrics"), ("GET", "/"),
                               ("GET", "/zoned.js"), ("POST", "/"), ("GET", "/nothing"))
    ]  # fmt: skip
    all_refused(daemon, 403, requests)


def test_unix_socket_needs_neither_token_nor_host(daemon: Daemon) -> None:
    with daemon.client(is_unix=True, Authorization="", Host="whatever") as client:
        assert client.is_alive()
    reply = daemon.http("GET /health HTTP/1.1\r\nHost: x\r\n\r\n", is_unix=True)
    assert reply.status == 200


# -- heads


def head(daemon: Daemon, *lines: str) -> str:
    return "\r\n".join([
        "GET /health HTTP/1.1", f"Host: 127.0.0.1:{daemon.port}",
        f"Authorization: Bearer {daemon.token}", *lines, "", "",
    ])  # fmt: skip


def test_head_that_never_ends_is_cut_off(daemon: Daemon) -> None:
    """header_timeout_s is 1 here; others are served meanwhile."""
    with daemon.open() as slow, daemon.open() as silent, daemon.open(is_unix=True) as other:
        slow.sendall(b"GET /health HTTP/1.1\r\nX: ")
        assert daemon.get("/health").status == 200
        assert [read_all(each) for each in (slow, silent, other)] == [b"", b"", b""]


def test_head_byte_by_byte_is_read(daemon: Daemon) -> None:
    with daemon.open() as sock:
        for each in head(daemon).encode():
            sock.sendall(bytes([each]))
        assert b" 200 OK" in read_all(sock)


BAD_UPGRADES: list[tuple[dict[str, str], int]] = [
    ({"Sec_WebSocket_Version": "8"}, 426),
    ({"Sec_WebSocket_Version": ""}, 426),
    ({"Sec_WebSocket_Key": ""}, 400),
    ({"Sec_WebSocket_Key": "short"}, 400),
    ({"Sec_WebSocket_Key": KEY + "x"}, 400),
    ({"Connection": "keep-alive"}, 400),
    ({"Connection": ""}, 400),
]


def test_upgrade_that_is_none_is_refused(daemon: Daemon) -> None:
    for headers, status in BAD_UPGRADES:
        assert refused(daemon, **headers) == status, headers
    wrong = upgrade(daemon)
    assert daemon.http(wrong.replace("GET", "POST")).status == 400
    assert daemon.http(wrong.replace("/rpc", "/other")).status == 400
    assert daemon.get("/rpc").status == 404
    with contextlib.suppress(Closed), daemon.client(Connection="keep-alive, Upgrade") as client:
        assert client.is_alive()


def test_answer_to_the_key_is_that_of_the_standard(daemon: Daemon) -> None:
    with daemon.client() as client:
        assert "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in client.head


# -- plain HTTP


def test_health_needs_no_token_and_is_json(daemon: Daemon) -> None:
    reply = daemon.get("/health", token=False)
    assert (reply.status, reply.json()) == (200, {"ok": True})
    assert reply.headers["connection"] == "close"


def test_every_answer_has_the_headers_that_browsers_need(daemon: Daemon) -> None:
    for target in ("/health", "/metrics", "/nothing", f"/?token={daemon.token}"):
        headers = daemon.get(target).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert not any(name.startswith("access-control") for name in headers)


def test_methods_and_paths_that_are_not_there(daemon: Daemon) -> None:
    assert daemon.get("/health", method="HEAD").body == b""
    assert daemon.get("/health", method="HEAD").status == 200
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        wanted = 400 if method == "TRACE" else 405
        assert daemon.get("/health", method=method).status == wanted, method
    for target in ("/nothing", "/../etc/passwd", "/%2e%2e%2fetc", "/%00", "/rpc/", "/zoned.js/x"):
        reply = daemon.get(target)
        assert reply.status in (400, 404), target
        assert b"Traceback" not in reply.data


def test_second_request_on_a_connection_is_never_served(daemon: Daemon) -> None:
    """Only the first one is judged, so only the first one may be answered."""
    first = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n\r\n"
    second = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n\r\n"
    for request in (
        first + second,
        first.replace("\r\n\r\n", "\r\nConnection: keep-alive\r\n\r\n") + second,
        first.replace("GET", "POST").replace("\r\n\r\n", "\r\nContent-Length: 0\r\n\r\n") + second,
        first.replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n")
        + "0\r\n\r\n"
        + second,
        first + upgrade(daemon, Authorization=""),
        first.replace("\r\n\r\n", "\r\nExpect: 200-ok\r\n\r\n") + second,
        first.replace("GET", "POST").replace("\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n")
        + "zz\r\n"
        + second,
    ):
        data = daemon.http(request).data
        assert len(re.findall(rb"^HTTP/1\.[01] ", data, re.MULTILINE)) == 1, data
        assert b"zoned_commits_total" not in data


def test_metrics_are_what_prometheus_reads(daemon: Daemon) -> None:
    with daemon.client() as client:
        client.call("agent:session:append_output", definition_id="m", line="x")
        client.send({"jsonrpc": "2.0", "id": 1, "method": 'evil"\n} 1'})
        client.receive()
        reply = daemon.get("/metrics")
    families = {
        family.name: family for family in text_string_to_metric_families(reply.body.decode())
    }
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name in ("zoned_writes", "zoned_commits", "zoned_batch_units", "zoned_queue_units",
                 "zoned_wal_bytes", "zoned_subscriptions", "zoned_errors", "zoned_request_seconds",
                 "zoned_connections", "zoned_healthy", "zoned_logs_dropped"):  # fmt: skip
        assert name in families, name
        assert families[name].documentation
    errors = {s.labels["kind"]: s.value for s in families["zoned_errors"].samples}
    assert errors["UNKNOWN_METHOD"] >= 1
    appended = [s for s in families["zoned_request_seconds"].samples
                if s.labels.get("method") == "agent:session:append_output"]  # fmt: skip
    counts = [s.value for s in appended if s.name.endswith("_bucket")]
    assert counts == sorted(counts)
    assert counts[-1] >= 1
    assert re.search(r'le="\+Inf"', reply.body.decode())


def test_refusals_are_logged_without_what_was_offered(daemon: Daemon) -> None:
    secret = "wrong-secret-" + "x" * 30
    refused(daemon, Authorization=f"Bearer {secret}")
    refused(daemon, Origin=f"http://{secret}")
    daemon.get(f"/?token={secret}", token=False)
    events = [each for each in daemon.events() if each["event"] == "refused a request"]
    assert len(events) >= 3
    assert secret not in daemon.log
    assert json.dumps(events[-1])
