"""`zoned config`: every setting, its value and where it came from. Looks, and makes nothing."""

import os
from pathlib import Path

from srv.cli.options import Invocation
from srv.config import SETTINGS, load, socket_path
from srv.settings import duration_text, size_text


def config(call: Invocation) -> int:
    """`zoned config`."""
    flags = {name: value for name, value in call.flags.items() if name == "data_dir"}
    loaded = load(flags, os.environ)
    values = {name: getattr(loaded.config, name) for name in SETTINGS}
    if call.is_json:
        path = socket_path(loaded.config)
        call.screen.json(
            {
                name: {"value": _plain(value), "source": loaded.sources[name]}
                for name, value in values.items()
            }
            | {"socket_path": {"value": str(path) if path else None, "source": "computed"}}
        )
        return 0
    rows = [(name, _shown(name, value), loaded.sources[name]) for name, value in values.items()]
    call.screen.table(("SETTING", "VALUE", "FROM"), rows)
    return 0


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _shown(name: str, value: object) -> str:
    if SETTINGS[name].kind == "size" and isinstance(value, int):
        return size_text(value)
    if SETTINGS[name].kind == "duration" and isinstance(value, int):
        return duration_text(value)
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) or "automatic"
