"""The browser's module: its logic in node against the daemon, and how the daemon serves it."""

import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.client.daemon import Daemon
from tests.support.processes import ROOT, environment

STATIC = ROOT / "srv" / "http" / "static"
SCRIPT = Path(__file__).with_name("zoned.test.mjs")
NODE_S_MAX = 100.0


def node_with_websocket() -> list[str]:
    """The command of a node that has a WebSocket, by itself or by a flag; or skip."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    for flags in ([], ["--experimental-websocket"]):
        probe = ["node", *flags, "-e", "process.exit(typeof WebSocket === 'function' ? 0 : 1)"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return ["node", *flags]
    pytest.skip("this node has no WebSocket")


def fetch(daemon: Daemon, path: str) -> tuple[str, bytes]:
    """Content type and body of a file that the daemon serves."""
    headers = {"Authorization": f"Bearer {daemon.token}"}
    request = urllib.request.Request(daemon.url.rstrip("/") + path, headers=headers)
    with urllib.request.urlopen(request, timeout=20) as response:
        return response.headers["Content-Type"], response.read()


@pytest.mark.slow
def test_module_in_node_does_what_it_says(daemon: Daemon, tmp_path: Path) -> None:
    command = node_with_websocket()
    # As it is served; and under a name by which every node knows that it is a module.
    module = tmp_path / "zoned.mjs"
    module.write_bytes(fetch(daemon, "/zoned.js")[1])
    done = subprocess.run(
        [*command, "--test", str(SCRIPT)],
        env=environment(
            URL=daemon.url,
            TOKEN=daemon.token,
            MODULE=module.as_uri(),
            # The flag must reach the processes in which node runs its tests.
            NODE_OPTIONS=" ".join(command[1:]),
        ),
        capture_output=True,
        text=True,
        timeout=NODE_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_daemon_serves_module_and_page_as_they_are(daemon: Daemon) -> None:
    assert fetch(daemon, "/zoned.js") == (
        "text/javascript; charset=utf-8",
        (STATIC / "zoned.js").read_bytes(),
    )
    assert fetch(daemon, "/") == (
        "text/html; charset=utf-8",
        (STATIC / "index.html").read_bytes(),
    )


def test_page_and_module_obey_the_content_security_policy() -> None:
    """`default-src 'self'`: nothing inline, nothing from elsewhere."""
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    for banned in ("<style", " style=", "<script>", "onclick", "http:", "https:", "data:"):
        assert banned not in page
    module = (STATIC / "zoned.js").read_text(encoding="utf-8")
    for banned in ("eval(", "new Function", "http://", "https://", "innerHTML", "localStorage"):
        assert banned not in module
