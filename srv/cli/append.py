"""`zoned append`: lines from stdin into a stream, each exactly once.

What has come is sent as one batch, and nothing more is read until it is on disk: a fast writer
waits in its pipe, a slow one has each line saved as it comes. Every batch says how many lines the
stream has before it (`at_line`) and in which session, so it can be repeated when the answer was
lost. Lines of another writer in between only move the place; a session that was archived meanwhile
ends the command, for its lines do not belong into the next one.
"""

import os
import select
import time

from srv.cli.backend import Backend, Json, connected
from srv.cli.options import Invocation
from srv.cli.screen import Screen
from srv.cli.words import several, size
from srv.errors import ZonedError

BATCH_BYTES = 1 << 20
IDLE_S = 0.1
PROGRESS_S = 0.1
PROGRESS_AFTER_S = 0.5
BAR_COLUMNS = 30


def append(call: Invocation) -> int:
    """`zoned append <defId>`. When it returns, all lines are durable."""
    (definition_id,) = call.arguments
    with connected(call, is_reading=False) as backend:
        stream = _Stream(backend, definition_id, call.text("session_id"))
        progress = _Progress(call.screen, definition_id)
        try:
            _copy(stream, progress, _limits(backend))
        except (KeyboardInterrupt, ZonedError):
            if stream.lines:
                are = "is" if stream.lines == 1 else "are"
                call.screen.warn(f"{several(stream.lines, 'line')} {are} on disk, the rest is not")
            raise
        finally:
            call.screen.end_progress()
        done = stream.answer()
    if call.is_json:
        call.screen.json(done)
    else:
        where = f", {done['total_lines']} in all" if done["lines"] else ""
        call.screen.line(f"{definition_id}: {several(done['lines'], 'line')} appended{where}")
    return 0


def _limits(backend: Backend) -> tuple[int, int]:
    """Lines in one append and bytes of one line, as whoever answers has them set."""
    limits: Json = backend.object("srv:info", {})["limits"]
    return limits["lines_per_append_max"], limits["line_bytes_max"]


def _copy(stream: "_Stream", progress: "_Progress", limits: tuple[int, int]) -> None:
    lines_max, line_max = limits
    if os.isatty(0):
        progress.screen.warn("reading lines from the terminal; Ctrl-D ends them")
    rest = b""
    while data := _read(stream.backend):
        whole, line_break, tail = data.rpartition(b"\n")
        if line_break:
            lines = (rest + whole).split(b"\n")
            for start in range(0, len(lines), lines_max):
                stream.append(lines[start : start + lines_max])
            rest = tail
        else:
            rest += data
            if len(rest) > line_max:
                message = f"a line is over the limit of {size(line_max)}"
                raise ZonedError("TOO_LARGE", message, limit=line_max)
        progress.show(stream.lines, len(data))
    if rest:
        stream.append([rest])


def _read(backend: Backend) -> bytes:
    """What has come. Nobody else is kept out of the folder while nothing comes."""
    if not select.select([0], [], [], IDLE_S)[0]:
        backend.rest()
    return os.read(0, BATCH_BYTES)


class _Stream:
    """The end of a stream, and what was added to it."""

    def __init__(self, backend: Backend, definition_id: str, session_id: str | None) -> None:
        self.lines = 0
        self._bytes = 0
        self.backend = backend
        self._id = definition_id
        found = self._read()
        self._session_id = session_id or found["session_id"]
        self._at_line: int = found["output_lines"]
        self._first_line: int | None = None

    def append(self, lines: list[bytes]) -> None:
        """Append lines. Durable on return."""
        while True:
            repeats = self.backend.repeats
            try:
                done = self._send(lines)
            except ZonedError as error:
                self._go_behind(error)
                continue
            self._at_line = done["first_line"] + done["lines"]
            # The first time these lines were sent, equal ones that stand there are another's.
            if not done["duplicate"] or self.backend.repeats > repeats:
                break
        if self._first_line is None and done["lines"]:
            self._first_line = done["first_line"]
        self.lines += done["lines"]
        self._bytes += done["bytes_written"]
        if not self._session_id and done["lines"]:
            self._session_id = self._read()["session_id"]

    def _send(self, lines: list[bytes]) -> Json:
        params: Json = {"definition_id": self._id, "lines": lines, "at_line": self._at_line}
        # Before the first line there is no session to name; `at_line` guards that one alone.
        if self._session_id:
            params["session_id"] = self._session_id
        return self.backend.object("agent:session:append_output", params)

    def _go_behind(self, conflict: ZonedError) -> None:
        """Another writer was faster. Nothing of the refused lines stands where they should, so they
        may be tried again behind the others'; unless the session itself has changed.
        """
        current, session_id = (conflict.data.get(key) for key in ("current_lines", "session_id"))
        is_same = bool(session_id) and self._session_id in ("", session_id)
        is_moved = isinstance(current, int) and current != self._at_line
        if conflict.kind != "VERSION_CONFLICT" or not (is_same and is_moved):
            raise conflict
        assert isinstance(current, int)
        self._session_id, self._at_line = str(session_id), current

    def answer(self) -> Json:
        """All of it as one answer."""
        return {
            "lines": self.lines,
            "bytes_written": self._bytes,
            "first_line": self._at_line if self._first_line is None else self._first_line,
            "total_lines": self._at_line,
            "session_id": self._session_id,
        }

    def _read(self) -> Json:
        return self.backend.object("agent:session:read", {"definition_id": self._id})


class _Progress:
    """A line on stderr, for people who feed in much. A bar where the end is known: from a file."""

    def __init__(self, screen: Screen, definition_id: str) -> None:
        self.screen = screen
        self._id = definition_id
        self._bytes = 0
        self._size = os.fstat(0).st_size
        self._next = time.monotonic() + PROGRESS_AFTER_S

    def show(self, lines: int, more_bytes: int) -> None:
        self._bytes += more_bytes
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + PROGRESS_S
        done = f"{self._id}: {several(lines, 'line')}, {size(self._bytes)}"
        if self._size >= self._bytes:
            filled = BAR_COLUMNS * self._bytes // self._size
            done = f"[{'#' * filled}{'.' * (BAR_COLUMNS - filled)}] {done}"
        self.screen.progress(done)
