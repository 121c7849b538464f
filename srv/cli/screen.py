"""Where a command answers: stdout and stderr, and what may be written on a terminal.

What comes from a session may hold anything. Shown on a terminal it is made harmless: control
characters, escapes and what turns the direction of writing are shown as `\\x1b`. Into a pipe or a
file bytes go as they are. Colour is for terminals only, and never where NO_COLOR is set.
"""

import io
import os
import re
import sys
from collections.abc import Mapping, Sequence

WIDTH = 80
BUFFER_BYTES = 64 << 10
PREVIEW_COLUMNS_MIN = 12

BOLD, DIM, RED, GREEN = "1", "2", "31", "32"

# Control characters but for the tab; what is invisible, breaks lines or reverses the writing.
_HARMFUL = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def harmless(text: str) -> str:
    """Text for a terminal: one line, and nothing in it that a terminal obeys."""
    return _HARMFUL.sub(lambda found: ascii(found[0])[1:-1], text)


def text_of(data: str | bytes) -> str:
    """Stored bytes as text; what is no UTF-8 in them is shown as `\\xff`."""
    return data if isinstance(data, str) else data.decode(errors="backslashreplace")


def columns(text: str) -> int:
    """How many columns a terminal takes for this harmless text."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(
        0 if category(char) in ("Mn", "Me", "Cf") else 2 if east_asian_width(char) in "WF" else 1
        for char in text
    )


def cut(text: str, width: int) -> str:
    """The text within so many columns, ending in … if something was cut."""
    if columns(text) <= width:
        return text
    if text.isascii():
        return text[: max(width - 1, 0)] + "…"
    kept, used = "", 1
    for char in text:
        used += columns(char)
        if used > width:
            break
        kept += char
    return kept + "…"


class Screen:
    """The streams of one command. Answers are buffered: `flush` before waiting, and at the end."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        # A buffer of our own: with PYTHONUNBUFFERED set, sys.stdout.buffer may write half.
        self.out = open(1, "wb", buffering=BUFFER_BYTES, closefd=False)  # noqa: SIM115 - stays open
        self.is_terminal = os.isatty(1)
        self.is_error_terminal = os.isatty(2)
        is_plain = bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        self.is_coloured = self.is_terminal and not is_plain
        self._environ = environ
        self.width = WIDTH
        self.measure()
        self.encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        self._has_progress = False

    def measure(self) -> None:
        """Find out how wide a terminal is: its user may have changed that."""
        if self.is_terminal:
            self.width = _width(self._environ)

    def write(self, data: bytes) -> None:
        """Bytes as they are."""
        self.out.write(data)

    def line(self, text: str = "") -> None:
        """A line of our own. What a session holds must have gone through `harmless`."""
        self.out.write(f"{text}\n".encode(self.encoding, "backslashreplace"))

    def flush(self) -> None:
        """Let the reader have what was written so far."""
        self.out.flush()

    def json(self, value: object) -> None:
        """An answer for a script: one line, or on a terminal indented and harmless."""
        from json import dumps

        if self.is_terminal:
            for line in dumps(value, ensure_ascii=False, indent=2, default=_base64).split("\n"):
                self.line(harmless(line))
        else:
            text = dumps(value, ensure_ascii=False, separators=(",", ":"), default=_base64)
            self.write(text.encode() + b"\n")

    def style(self, text: str, code: str) -> str:
        """The text in a colour, where there is one."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.is_coloured and text else text

    def warn(self, text: str) -> None:
        """One line on stderr."""
        self.end_progress()
        say(text)

    def progress(self, text: str) -> None:
        """What has been done so far, on one line of stderr that is written over."""
        if self.is_error_terminal:
            self._has_progress = True
            say_raw(f"\r{cut(text, WIDTH - 1)}\x1b[K")

    def end_progress(self) -> None:
        """Take that line away."""
        if self._has_progress:
            self._has_progress = False
            say_raw("\r\x1b[K")

    def table(
        self, titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()
    ) -> None:
        """Aligned columns; those titled in `right` are numbers. The last column is cut to fit, or
        gets a line of its own where the others leave it none. Names, the first column, are never
        cut: on a terminal one that leaves the others no room stands on a line above them.
        """
        lines = [list(titles), *([harmless(cell) for cell in row] for row in rows)]
        widths = [max(columns(line[index]) for line in lines) for index in range(len(titles) - 1)]
        room = self.width - sum(widths[1:]) - 2 * len(widths) - PREVIEW_COLUMNS_MIN
        if self.is_terminal and widths[0] > room:
            fitting = [columns(line[0]) for line in lines if columns(line[0]) <= room]
            widths[0] = max(fitting, default=0)
        left = self.width - sum(widths) - 2 * len(widths)
        is_stacked = left < PREVIEW_COLUMNS_MIN
        for number, (*cells, last) in enumerate(lines):
            if columns(cells[0]) > widths[0]:
                self.line(cells[0])
                cells[0] = ""
            shown = "  ".join(
                _padded(cell, width, title in right)
                for cell, width, title in zip(cells, widths, titles, strict=False)
            )
            if not is_stacked:
                shown = f"{shown}  {cut(last, left)}".rstrip()
            self.line(self.style(shown.rstrip(), BOLD) if number == 0 else shown.rstrip())
            if is_stacked and number and last:
                self.line("    " + cut(last, self.width - 4))


def say(text: str) -> None:
    """One line of ours on stderr, whatever is in it."""
    say_raw(f"zoned: {harmless(text)}\n")


def say_raw(text: str) -> None:
    """Write to stderr; one that is closed is no reason to fail."""
    try:
        os.write(2, text.encode(errors="backslashreplace"))
    except OSError:
        return


def _padded(cell: str, width: int, is_right: bool) -> str:
    blank = " " * (width - columns(cell))
    return blank + cell if is_right else cell + blank


def _width(environ: Mapping[str, str]) -> int:
    given = environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and len(given) < 5:
        return max(int(given), PREVIEW_COLUMNS_MIN)
    try:
        found = os.get_terminal_size(1).columns
    except OSError:
        return WIDTH
    return max(found, PREVIEW_COLUMNS_MIN) if found else WIDTH


def _base64(value: object) -> dict[str, str]:
    from base64 import b64encode

    if isinstance(value, bytes):
        return {"base64": b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} has no JSON form")


def standard_input() -> io.BufferedReader:
    """Stdin as bytes."""
    return open(0, "rb", closefd=False)
