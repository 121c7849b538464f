"""`zoned service`: the unit by which systemd runs the daemon."""

import os
import re
import sys
from pathlib import Path

from srv.cli.backend import load_config
from srv.cli.options import Invocation
from srv.config import Config

_UNIT = """\
[Unit]
Description=zoned, which remembers what AI agents said and did

[Service]
Type=notify
NotifyAccess=main
ExecStart=COMMAND
Restart=on-failure
RestartSec=1
# A wrong setting is not mended by starting again.
RestartPreventExitStatus=2
# Older data may be brought in first; it says when it is ready.
TimeoutStartSec=infinity
TimeoutStopSec=STOP_S
LimitNOFILE=65536
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target"""
STOP_MORE_S = 5
"""Given beyond the time that the daemon takes for itself."""


def service(call: Invocation) -> int:
    """`zoned service`. Prints, and changes nothing."""
    config = load_config(call)
    unit = _UNIT.replace("COMMAND", _command(config)).replace(
        "STOP_S", str(config.stop_timeout_s + STOP_MORE_S)
    )
    if call.is_json:
        call.screen.json({"unit": unit})
    else:
        call.screen.line(unit)
    return 0


def _command(config: Config) -> str:
    beside = Path(sys.executable).with_name("zoned")
    words = [str(beside)] if os.access(beside, os.X_OK) else [sys.executable, "-m", "srv.cli.main"]
    return " ".join(map(_quoted, [*words, "serve", "--data-dir", str(config.data_dir)]))


def _quoted(word: str) -> str:
    """A word as systemd reads it: what it would take for its own is escaped."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    shown = re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\x{ord(found[0]):02x}", plain)
    return shown if re.fullmatch(r"[\w@%+=:,./-]+", shown) else f'"{shown}"'
