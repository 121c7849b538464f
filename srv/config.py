"""The settings of daemon and commands: their names, rules and defaults, and where each came from.

Flags win over `ZONED_*` in the environment, which wins over `AGENT_*` there, which wins over
`zoned.toml` in the data folder, which wins over the defaults. Every value given is checked, also
one that a stronger source overrules: a mistake waits for nobody. Unknown names are errors, and each
error is one line that says what to do.

Nothing here writes, and nothing is kept between calls: `load` is given flags and environment. Every
command imports this module, so it imports little; what only some need is imported where it is used.
"""

import os
import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from srv.settings import (
    DAY_S,
    GIB,
    KIB,
    MIB,
    ConfigError,
    Kind,
    NumberKind,
    Setting,
    absolute,
    checked,
    fits_socket,
    path_text,
    size_text,
    wrong,
)

FILE_NAME = "zoned.toml"
FILE_BYTES_MAX = 1 << 20
SOCKET_NAME = "zoned.sock"
WORKSPACE_VARIABLE = "AGENT_WORKSPACE_ROOT"
IDLE_VARIABLE = "AGENT_SESSION_IDLE_TIMEOUT"


def _known(kind: Kind, about: str, *choices: str) -> dict[str, Setting]:
    return {"setting": Setting(kind, about, choices=choices)}


def _number(kind: NumberKind, about: str, least: int, most: int) -> dict[str, Setting]:
    return {"setting": Setting(kind, about, least, most)}


@dataclass(frozen=True, slots=True)
class Config:
    """All settings. Made by `load`, which checks them; a test may make one with any values."""

    data_dir: Path = field(metadata=_known("folder", "where the data lies"))
    host: str = field(
        default="127.0.0.1", metadata=_known("host", "the loopback address to listen on")
    )
    port: int = field(
        default=7717, metadata=_number("count", "the TCP port; 0 takes any free one", 0, 65535)
    )
    socket: str = field(
        default="",
        metadata=_known("socket", "path of the unix socket; empty: automatic; none: no socket"),
    )
    sync: Literal["full", "normal"] = field(
        default="full",
        metadata=_known("choice", "full: survives power loss; normal: a crash", "full", "normal"),
    )
    migrate: bool = field(
        default=True,
        metadata=_known("boolean", "bring older data in at start, and older formats up"),
    )
    allowed_hosts: tuple[str, ...] = field(
        default=(), metadata=_known("host names", "further names accepted in the Host header")
    )
    allowed_origins: tuple[str, ...] = field(
        default=(), metadata=_known("origins", "further origins whose pages may connect")
    )
    log_level: Literal["debug", "info", "warning", "error"] = field(
        default="info",
        metadata=_known("choice", "the least that is logged", "debug", "info", "warning", "error"),
    )
    # The upper bounds of state and line are what the store takes in one write and one append.
    message_bytes_max: int = field(
        default=64 * MIB, metadata=_number("size", "one RPC message", KIB, 256 * MIB)
    )
    state_bytes_max: int = field(
        default=48 * MIB, metadata=_number("size", "the state of one session", 1, 256 * MIB)
    )
    line_bytes_max: int = field(
        default=8 * MIB, metadata=_number("size", "one line of output", 1, 64 * MIB)
    )
    lines_per_append_max: int = field(
        default=10_000, metadata=_number("count", "lines in one append", 1, 1_000_000)
    )
    connections_max: int = field(
        default=1024, metadata=_number("count", "connections at one time", 1, 65536)
    )
    requests_in_flight_max: int = field(
        default=256, metadata=_number("count", "unanswered requests per connection", 1, 65536)
    )
    batch_max: int = field(default=100, metadata=_number("count", "calls in one batch", 1, 10_000))
    subscriptions_max: int = field(
        default=256, metadata=_number("count", "subscriptions per connection", 1, 65536)
    )
    subscriber_events_max: int = field(
        default=1000,
        metadata=_number("count", "waiting events per subscriber, then a gap", 1, 1_000_000),
    )
    queue_bytes_max: int = field(
        default=128 * MIB, metadata=_number("size", "all waiting writes", KIB, 16 * GIB)
    )
    held_bytes_max: int = field(
        default=256 * MIB,
        metadata=_number("size", "all requests held by the daemon", KIB, 64 * GIB),
    )
    ballast_bytes: int = field(
        default=16 * MIB,
        metadata=_number("size", "space kept for the day the disk is full; 0: none", 0, GIB),
    )
    low_space_bytes: int = field(
        default=512 * MIB,
        metadata=_number("size", "warn when the disk has less free; 0: never", 0, 1024 * GIB),
    )
    turns_max: int = field(
        default=50,
        metadata=_number("count", "messages of the user in one transcript", 1, 1_000_000),
    )
    mcp_sessions_max: int = field(
        default=256, metadata=_number("count", "MCP sessions over HTTP at one time", 1, 10_000)
    )
    mcp_idle: int = field(
        default=1800,
        metadata=_number(
            "duration", "an MCP session ends after so long without use", 1, 366 * DAY_S
        ),
    )
    http_body_bytes_max: int = field(
        default=8 * MIB, metadata=_number("size", "the body of one HTTP request", KIB, 64 * MIB)
    )
    workspace_root: str = field(
        default="", metadata=_known("place", "the folder of all repos; empty: there are none")
    )
    sessions_max: int = field(
        default=5,
        metadata=_number("count", "active sessions that have a repo", 1, 1_000_000),
    )
    idle_timeout: int = field(
        default=30 * 60,
        metadata=_number(
            "duration", "time after which such a session ends if idle; 0: never", 0, 366 * DAY_S
        ),
    )
    event_heartbeat_s: int = field(
        default=15,
        metadata=_number("count", "seconds between signs of life in a stream of events", 1, 3600),
    )
    backup_every: int = field(
        default=0,
        metadata=_number("duration", "time between backups by the daemon; 0: none", 0, 366 * DAY_S),
    )
    backup_keep: int = field(
        default=7, metadata=_number("count", "how many of those backups are kept", 1, 1000)
    )
    backup_dir: str = field(
        default="", metadata=_known("place", "their folder; empty: backups in the data folder")
    )
    header_timeout_s: int = field(
        default=10, metadata=_number("count", "seconds a client has to send its headers", 1, 3600)
    )
    stop_timeout_s: int = field(
        default=10, metadata=_number("count", "seconds to finish what was accepted", 1, 3600)
    )


SETTINGS: Mapping[str, Setting] = {each.name: each.metadata["setting"] for each in fields(Config)}
"""What is known of each setting, by name, in the order to show them."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checked configuration, and for each setting in words where its value came from."""

    config: Config
    sources: Mapping[str, str]


def load(flags: Mapping[str, object], environ: Mapping[str, str]) -> Loaded:
    """The configuration from flags (only those given, by setting), environment and file.

    Raises ConfigError. Reads `zoned.toml` if there is one; makes nothing, also not the folder.
    """
    assert flags.keys() <= SETTINGS.keys(), "a flag is named after its setting"
    data_dir, data_dir_source = _data_dir(flags, environ)
    file = data_dir / FILE_NAME
    values: dict[str, Any] = {"data_dir": data_dir}  # `checked` makes each of its field's type.
    sources = dict.fromkeys(SETTINGS, "default") | {"data_dir": data_dir_source}
    for name, value in _read_file(file).items():
        values[name] = checked(SETTINGS[name], name, value, str(file), data_dir)
        sources[name] = str(file)
    for name, (variable, found) in _read_other_environment(environ).items():
        sources[name] = f"environment {variable}"
        values[name] = found
    for name, text in _read_environment(environ).items():
        sources[name] = f"environment {_variable(name)}"
        values[name] = checked(SETTINGS[name], name, text, sources[name], None)
    for name, value in flags.items():
        if name != "data_dir":
            sources[name] = _flag_source(name, value)
            values[name] = checked(SETTINGS[name], name, value, sources[name], None)
    config = Config(**values)
    for larger in ("queue_bytes_max", "held_bytes_max"):
        _check_order(config, sources, "message_bytes_max", larger)
    return Loaded(config, sources)


def limits(config: Config) -> dict[str, int]:
    """The limits by name, as `srv:info` shows them."""
    return {name: getattr(config, name) for name in SETTINGS if name.endswith("_max")}


def socket_path(config: Config, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where the unix socket lies, or None if there is to be none.

    A data folder whose path is too long for a socket has it in a runtime folder; whoever listens
    there makes that folder, 0700, and checks that it is the user's own. Daemon and commands must
    agree however the data folder is spelled, so the automatic path goes by its real path.
    """
    if config.socket == "none":
        return None
    if config.socket:
        if not fits_socket(Path(config.socket)):
            raise wrong(SETTINGS["socket"], "socket", config.socket, "")
        return Path(config.socket)
    folder = os.path.realpath(config.data_dir)
    path = Path(folder, SOCKET_NAME)
    return path if fits_socket(path) else _runtime_socket(folder, environ)


def _runtime_socket(folder: str, environ: Mapping[str, str]) -> Path:
    import hashlib

    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16] + ".sock"
    if runtime := _base_folder(environ, "XDG_RUNTIME_DIR"):
        path = runtime / "zoned" / name
        if fits_socket(path):
            return path
    return Path(f"/tmp/zoned-{os.getuid()}", name)


def _data_dir(flags: Mapping[str, object], environ: Mapping[str, str]) -> tuple[Path, str]:
    if "data_dir" in flags:
        source = "flag --data-dir"
        return _folder(flags["data_dir"], source), source
    # Set but empty counts as not set, as for the XDG variables.
    if given := environ.get("ZONED_DATA_DIR"):
        source = "environment ZONED_DATA_DIR"
        return _folder(given, source), source
    return _user_data_folder(environ) / "zoned", "default"


def _folder(value: object, source: str) -> Path:
    text = path_text(value)
    if not text:
        raise wrong(SETTINGS["data_dir"], "data_dir", value, source)
    return absolute(text, "data_dir", source)


def _user_data_folder(environ: Mapping[str, str]) -> Path:
    is_mac = sys.platform == "darwin"
    if not is_mac and (given := _base_folder(environ, "XDG_DATA_HOME")):
        return given
    if home := _base_folder(environ, "HOME"):
        return home / ("Library/Application Support" if is_mac else ".local/share")
    raise ConfigError("no data folder: HOME is not set; give --data-dir or set ZONED_DATA_DIR")


def _base_folder(environ: Mapping[str, str], name: str) -> Path | None:
    """The folder in this variable. A relative one is ignored, as the XDG specification asks."""
    path = environ.get(name, "")
    return Path(path) if os.path.isabs(path) else None


def _read_file(file: Path) -> dict[str, object]:
    """The settings in the file; none if there is no file. Their values are not yet checked."""
    content = _content(file)
    if content is None:
        return {}
    import tomllib

    try:
        table: dict[str, object] = tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8 (byte {error.start}): save it as UTF-8") from error
    except ValueError as error:
        # Not only TOMLDecodeError: a number of thousands of digits is a plain ValueError.
        raise ConfigError(f"{file} is not valid TOML: {error}; mend it") from error
    except RecursionError as error:
        raise ConfigError(f"{file} is nested too deeply: settings stand at its top") from error
    for group, inner in list(table.items()):
        is_group = any(name.startswith(f"{group}_") for name in SETTINGS)
        if isinstance(inner, dict) and is_group:
            # `backup.every` is another way to write `backup_every`.
            del table[group]
            table |= {f"{group}_{name}": value for name, value in inner.items()}
    if "data_dir" in table:
        raise ConfigError(
            f"data_dir cannot be set in {file}, which lies in that folder: "
            "give --data-dir or set ZONED_DATA_DIR"
        )
    if unknown := table.keys() - SETTINGS.keys():
        known = (name for name in SETTINGS if name != "data_dir")
        raise _unknown(unknown, f" in {file}", known)
    return table


def _content(file: Path) -> bytes | None:
    try:
        with open(file, "rb", opener=_open_nowait) as stream:
            is_file = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            content = stream.read(FILE_BYTES_MAX + 1) if is_file else b""
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise ConfigError(
            f"the data folder {file.parent} is not a folder: choose another with --data-dir"
        ) from error
    except IsADirectoryError:
        is_file, content = False, b""
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}; make it readable") from error
    if not is_file:
        raise ConfigError(f"{file} is not a regular file: remove it, or put a file there")
    if len(content) > FILE_BYTES_MAX:
        raise ConfigError(f"{file} is over {size_text(FILE_BYTES_MAX)}: make it smaller")
    return content


def _open_nowait(path: str, flags: int) -> int:
    """Like the usual opener, but a pipe in the place of the file does not hold us for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


def _read_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings in the environment but for the data folder, as texts not yet checked."""
    names = {_variable(name): name for name in SETTINGS}
    given = [variable for variable in environ if variable.startswith("ZONED_")]
    if unknown := set(given) - names.keys():
        raise _unknown(unknown, " in the environment", names)
    return {
        names[variable]: environ[variable] for variable in given if variable != "ZONED_DATA_DIR"
    }


def _read_other_environment(environ: Mapping[str, str]) -> dict[str, tuple[str, object]]:
    """The settings in variables that orchestrators set for all their programs, not for us alone:
    for each the variable and the value, checked. One that is empty counts as not set.
    """
    found: dict[str, tuple[str, object]] = {}
    if root := environ.get(WORKSPACE_VARIABLE):
        source = f"environment {WORKSPACE_VARIABLE}"
        place = checked(SETTINGS["workspace_root"], "workspace_root", root, source, None)
        found["workspace_root"] = WORKSPACE_VARIABLE, place
    if minutes := environ.get(IDLE_VARIABLE):
        rule = Setting("count", "", 0, SETTINGS["idle_timeout"].most // 60)
        name = "idle_timeout in minutes"
        count = checked(rule, name, minutes, f"environment {IDLE_VARIABLE}", None)
        assert isinstance(count, int)
        found["idle_timeout"] = IDLE_VARIABLE, count * 60
    return found


def _variable(name: str) -> str:
    return "ZONED_" + name.upper()


def _flag_source(name: str, value: object) -> str:
    prefix = "no-" if value is False else ""
    return f"flag --{prefix}{name.replace('_', '-')}"


def _check_order(config: Config, sources: Mapping[str, str], smaller: str, larger: str) -> None:
    """What must hold a whole message is no smaller than one, or it would wait for ever."""
    low, high = getattr(config, smaller), getattr(config, larger)
    if low > high:
        raise ConfigError(
            f"{smaller} ({sources[smaller]}: {size_text(low)}) must not be over "
            f"{larger} ({sources[larger]}: {size_text(high)}): lower the first or raise the second"
        )


def _unknown(unknown: Iterable[str], where: str, known: Iterable[str]) -> ConfigError:
    shown = ", ".join(name if len(name) <= 60 else name[:60] + "…" for name in sorted(unknown)[:5])
    return ConfigError(
        f"unknown setting{where}: {shown}; remove or rename it; known are {', '.join(known)}"
    )
