"""What a setting may be: kinds of values, their rules in words, and how a value that was given
becomes one that is used.

Every value given is checked, and what is wrong is told in one printable line that says what to do.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SOCKET_PATH_BYTES_MAX = 107
"""The kernel's limit on the path of a unix socket."""
LIST_ITEMS_MAX = 64

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
DAY_S = 24 * 3600
_UNITS = {"": 1, "b": 1, "kib": KIB, "mib": MIB, "gib": GIB}
# Eighteen digits are more than any limit, and few enough for `int` to take without complaint.
_COUNT = re.compile(r"-?[0-9]{1,18}")
_SIZE = re.compile(r"(-?[0-9]{1,18}) ?(|B|KiB|MiB|GiB)", re.IGNORECASE)
_DURATION = re.compile(r"([0-9]{1,12}) ?(|s|m|h|d)", re.IGNORECASE)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": DAY_S}
_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_ITEMS = {
    "host names": re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?"),
    "origins": re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9_.\[\]:-]+"),
}

Kind = Literal["folder", "place", "host", "socket", "choice", "boolean", "host names", "origins"]
NumberKind = Literal["count", "size", "duration"]


class ConfigError(Exception):
    """The configuration cannot be used. One printable line, which says what to do."""

    def __init__(self, text: str) -> None:
        # Paths and values come from outside: no line break and no terminal code gets through.
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in text))


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of a field of `Config`: its `metadata["setting"]`."""

    kind: Kind | NumberKind
    about: str
    least: int = 0
    most: int = 0
    choices: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """What a value must be, to be read after "must be"."""
        match self.kind:
            case "count":
                return f"a whole number from {self.least} to {self.most}"
            case "size":
                low, high = size_text(self.least), size_text(self.most)
                return f'a size from {low} to {high}, as bytes or like "64 MiB"'
            case "duration":
                high = duration_text(self.most)
                return f'a time up to {high}, as seconds or like "12h" (units s, m, h, d)'
            case "choice":
                return "one of " + ", ".join(self.choices)
            case "boolean":
                return "true or false"
            case "host":
                return "a loopback address (127.0.0.1, ::1 or localhost): only loopback is served"
            case "socket":
                return f'"none", or a path of at most {SOCKET_PATH_BYTES_MAX} bytes'
            case "folder" | "place":
                return "the path of a folder"
            case "host names":
                return f'at most {LIST_ITEMS_MAX} host names without port, like "box.example"'
            case "origins":
                return f'at most {LIST_ITEMS_MAX} origins, like "http://box.example:8080"'


def size_text(size: int) -> str:
    """`67108864` as `64 MiB`; a size that is no whole number of units stays in bytes."""
    for unit, unit_bytes in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size and size % unit_bytes == 0:
            return f"{size // unit_bytes} {unit}"
    return f"{size} B"


def duration_text(seconds: int) -> str:
    """`86400` as `1d`; a time that is no whole number of units stays in seconds."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{seconds // _SECONDS[unit]}{unit}"
    return f"{seconds}s"


def checked(
    setting: Setting, name: str, value: object, source: str, file_folder: Path | None
) -> object:
    """The value as its field holds it. `file_folder` is given for a value from the file there.

    Only outside the file may a number, a boolean or a list be text: TOML can say what it means.
    """
    may_be_text = file_folder is None
    match setting.kind:
        case "count" | "size" | "duration":
            number = _as_number(value, setting.kind, may_be_text)
            is_right = number is not None and setting.least <= number <= setting.most
            found: object = number if is_right else None
        case "boolean":
            found = _as_boolean(value, may_be_text)
        case "choice":
            found = value if value in setting.choices else None
        case "host":
            found = value if isinstance(value, str) and _is_loopback(value) else None
        case "socket":
            found = _as_socket(value, source, file_folder)
        case "place":
            found = _as_path(name, value, source, file_folder)
        case "host names" | "origins":
            return _as_list(setting, name, value, source, may_be_text)
        case "folder":
            raise AssertionError("the data folder is found before all else")
    if found is None:
        raise wrong(setting, name, value, source)
    return found


def _as_number(value: object, kind: NumberKind, may_be_text: bool) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    if kind == "size":
        found = _SIZE.fullmatch(value.strip())
        return int(found[1]) * _UNITS[found[2].lower()] if found else None
    if kind == "duration":
        found = _DURATION.fullmatch(value.strip())
        return int(found[1]) * _SECONDS[found[2].lower()] if found else None
    return int(value) if may_be_text and _COUNT.fullmatch(value.strip()) else None


def _as_boolean(value: object, may_be_text: bool) -> bool | None:
    if isinstance(value, bool):
        return value
    is_text = may_be_text and isinstance(value, str)
    return _BOOLEANS.get(str(value).strip().lower()) if is_text else None


def _is_loopback(host: str) -> bool:
    if host in ("127.0.0.1", "localhost"):
        return True
    import ipaddress

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    # An address with a scope, or an IPv4 address in IPv6 clothes, is not what sockets bind to.
    is_plain = isinstance(address, ipaddress.IPv4Address) or int(address) == 1
    return address.is_loopback and is_plain and "%" not in host


def _as_socket(value: object, source: str, file_folder: Path | None) -> str | None:
    if value == "none":
        return "none"
    path = _as_path("socket", value, source, file_folder)
    return path if path is None or fits_socket(Path(path)) else None


def _as_path(name: str, value: object, source: str, file_folder: Path | None) -> str | None:
    text = path_text(value)
    if not text:
        return text
    # From the file it means the same in whatever folder a command runs, so not the current one.
    return str(file_folder / text if file_folder else absolute(text, name, source))


def absolute(path: str, name: str, source: str) -> Path:
    try:
        return Path(path).absolute()
    except OSError as error:
        raise ConfigError(
            f"{name} ({source}) is relative to a current folder that is gone: "
            "give an absolute path, or change to another folder"
        ) from error


def path_text(value: object) -> str | None:
    text = str(value) if isinstance(value, str | Path) else None
    return None if text is None or "\0" in text else text


def fits_socket(path: Path) -> bool:
    return len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX


def _as_list(
    setting: Setting, name: str, value: object, source: str, may_be_text: bool
) -> tuple[str, ...]:
    pattern = _ITEMS[setting.kind]
    if may_be_text and isinstance(value, str):
        value = [item.strip() for item in value.split(",")] if value.strip() else []
    if not isinstance(value, list | tuple) or len(value) > LIST_ITEMS_MAX:
        raise wrong(setting, name, value, source)
    items: dict[str, None] = {}
    for item in value:
        # Browsers send both in lower case, so they are compared in lower case.
        if not isinstance(item, str) or not pattern.fullmatch(item.lower()):
            raise wrong(setting, name, item, source)
        items[item.lower()] = None
    return tuple(items)


def wrong(setting: Setting, name: str, value: object, source: str) -> ConfigError:
    """The error about one value."""
    where = f" ({source})" if source else ""
    return ConfigError(f"{name}{where} must be {setting.rule}; it is {_shown(value)}")


def _shown(value: object) -> str:
    """The value for a message: never long, and safe for what `repr` cannot take, deep or huge."""
    match value:
        case str():
            return repr(value if len(value) <= 60 else value[:60] + "…")
        case bool():
            return str(value).lower()
        case int() if value.bit_length() > 64:
            return "a far larger number"
        case int() | float():
            return str(value)
        case list() | tuple():
            return f"a list of {len(value)}"
        case dict():
            return "a table"
        case _:
            return f"a {type(value).__name__}"
