"""Logs: one line per event on stderr, for people on a terminal, as JSON otherwise.

Logging never holds the daemon up and never fails it: a line that cannot be written now is dropped
and counted. No event carries content of sessions, or the token.
"""

import json
import logging
import os
import select
import sys
import time
from collections.abc import Callable

LINE_BYTES_MAX = 4096
"""What a pipe takes in one piece once it says that it has room."""
CHARS_MAX = 2000
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COLOURS = {"WARNING": "33", "ERROR": "31", "CRITICAL": "31"}


def start(
    level: str,
    *,
    is_terminal: bool,
    is_coloured: bool,
    dropped: Callable[[], None],
    make_room: Callable[[], None] = lambda: None,
) -> None:
    """Send the log of this process to stderr. `dropped` is told of each lost line; `make_room` is
    called before each, to take away what else stands on a terminal.
    """
    handler = _Stderr(dropped, make_room)
    handler.setFormatter(_Human(is_coloured) if is_terminal else _Json())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)


class _Stderr(logging.Handler):
    def __init__(self, dropped: Callable[[], None], make_room: Callable[[], None]) -> None:
        super().__init__()
        self._dropped = dropped
        self._make_room = make_room

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record).encode(errors="backslashreplace")
            if len(line) >= LINE_BYTES_MAX:
                line = line[: LINE_BYTES_MAX - 4] + "…".encode()
            descriptor = sys.stderr.fileno()
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            ready = poll.poll(0)
            if not ready or not ready[0][1] & select.POLLOUT:
                raise BlockingIOError
            self._make_room()
            os.write(descriptor, line + b"\n")
        except Exception:  # there is nobody left to tell but the counter
            self._dropped()


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {
            "time": _iso(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_extras(record),
        }
        if record.exc_info:
            # The end of a traceback is what tells; the line must stay whole to be valid JSON.
            event["traceback"] = self.formatException(record.exc_info)
        for chars_max in (CHARS_MAX, CHARS_MAX // 4, CHARS_MAX // 32):
            line = json.dumps({key: _short(each, chars_max) for key, each in event.items()})
            if len(line) < LINE_BYTES_MAX:
                return line
        return json.dumps({key: event[key] for key in ("time", "level", "logger")})


class _Human(logging.Formatter):
    def __init__(self, is_coloured: bool) -> None:
        super().__init__()
        self._is_coloured = is_coloured

    def format(self, record: logging.LogRecord) -> str:
        more = "".join(f" {key}={value}" for key, value in _extras(record).items())
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = f"{moment} {record.levelname.lower():7} {record.getMessage()}{more}"
        colour = _COLOURS.get(record.levelname)
        if self._is_coloured and colour:
            line = f"\x1b[{colour}m{line}\x1b[0m"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _short(value: object, chars_max: int) -> object:
    """A value to be written as JSON; of a long text both ends, which tell most."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    half = chars_max // 2
    return text if len(text) <= chars_max else f"{text[:half]} … {text[-half:]}"


def _extras(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _iso(seconds: float) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{moment}.{int(seconds * 1000) % 1000:03d}Z"
