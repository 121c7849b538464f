"""`zoned replay --follow`: a stream that grows, shown as it does.

On a terminal what is still going on (a tool that runs, a text that grows) stands at the bottom and
is drawn again as it changes; once it is over it moves up and stays. Into a pipe a node is printed
when it is over, a tool also when it is called. With --json each node is one line, again and again
as it changes.

A session is followed by the daemon's subscription, a file by looking whether it has grown, stdin by
reading it.
"""

import copy
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from srv.cli import pager, streams
from srv.cli.backend import Backend, connected
from srv.cli.follow import Follower
from srv.cli.options import Invocation
from srv.cli.streams import Source
from srv.cli.transcript import Node, Transcript

if TYPE_CHECKING:
    from filestore.replay import Replay

POLL_S = 0.05
OPEN_ROWS_MAX = 12
"""So much of what is going on is drawn: what has left the screen cannot be drawn again."""


def follow(call: Invocation, source: Source) -> int:
    """Show the stream and go on until interrupted; stdin, and any pipe, also ends by itself."""
    if source.kind == "session":
        with connected(call, is_reading=True) as backend:
            _SessionFollower(call, backend, source.place).run()
    live = Live(call, streams.new_replay(call))
    if source.place == "-" or not os.path.isfile(source.place):
        return _follow_pipe(call, live, source.place)
    _follow_file(call, live, source.place)
    raise AssertionError("a file is followed until interrupted")


class Live:
    """A fold and what is shown of it."""

    def __init__(self, call: Invocation, replay: "Replay") -> None:
        self.replay = replay
        self._screen = call.screen
        self._is_json = call.is_json
        self._transcript = Transcript(call.screen)
        self._shown: dict[str, int] = {}
        """The hash of what was printed of a node: what looks the same is not printed again."""
        self._open: dict[str, Node] = {}
        self._rows = 0
        """Rows at the bottom that are to be drawn again."""

    def show(self) -> None:
        """Show what has changed since the last time."""
        changed = self.replay.take_changed()
        if not changed:
            return
        self._screen.measure()
        if self._is_json:
            for node in changed:
                self._screen.json(node)
        elif self._screen.is_coloured:
            self._draw(changed)
        else:
            self._print(changed)
        self._screen.flush()

    def _draw(self, changed: Iterable[Node]) -> None:
        if self._rows:
            self._screen.write(b"\x1b[%dA\r\x1b[J" % self._rows)
        for node in changed:
            if self.replay.is_open(dict(node)):
                self._open[str(node["id"])] = node
            else:
                self._open.pop(str(node["id"]), None)
                self._put(node)
        # What is open may close by another's beginning, without a change of its own.
        for key, node in list(self._open.items()):
            if not self.replay.is_open(dict(node)):
                del self._open[key]
                self._put(node)
        # It goes on from what stands above, but what it draws is not there to stay.
        drawing = copy.copy(self._transcript)
        lines = [line for node in self._open.values() for line in drawing.node(node)]
        lines = lines[-min(OPEN_ROWS_MAX, pager.rows() - 1) :]
        for line in lines:
            self._screen.line(line)
        self._rows = len(lines)

    def _print(self, changed: Iterable[Node]) -> None:
        for node in changed:
            is_open = self.replay.is_open(dict(node))
            if not is_open or node["type"] == "tool":
                self._put(node)
            if is_open:
                self._open[str(node["id"])] = node
            else:
                self._open.pop(str(node["id"]), None)
        for key, node in list(self._open.items()):
            if not self.replay.is_open(dict(node)):
                del self._open[key]
                self._put(node)

    def _put(self, node: Node) -> None:
        look = hash("\n".join(Transcript(self._screen).node(node)))
        key = str(node["id"])
        if self._shown.get(key) != look:
            self._shown[key] = look
            for line in self._transcript.node(node):
                self._screen.line(line)

    def end(self) -> None:
        """Print what is still open: nothing more comes."""
        if not self._is_json and not self._screen.is_coloured:
            for key in list(self._open):
                self._put(self._open.pop(key))
        self._screen.flush()


def _follow_pipe(call: Invocation, live: Live, path: str) -> int:
    skip = streams.new_skip(call)
    for piece, _, _ in streams.read_pieces(path):
        live.replay.feed_bytes(skip.rest_of(piece))
        live.show()
    live.replay.finish()
    live.show()
    live.end()
    return 0


def _follow_file(call: Invocation, live: Live, path: str) -> None:
    skip = streams.new_skip(call)
    with open(path, "rb", buffering=0) as file:
        while True:
            data = file.read(streams.PIECE_BYTES)
            if not data:
                if os.fstat(file.fileno()).st_size < file.tell():
                    call.screen.flush()
                    call.screen.warn(f"{path} was cut; what follows is read from its beginning")
                    file.seek(0)
                    live.replay.forget_open()
                    skip.forget_open()
                    continue
                time.sleep(POLL_S)
                continue
            live.replay.feed_bytes(skip.rest_of(data))
            live.show()


class _SessionFollower(Follower):
    """Folds the lines and draws what they show."""

    def __init__(self, call: Invocation, backend: Backend, definition_id: str) -> None:
        super().__init__(backend, definition_id)
        self._call = call
        self._live = Live(call, streams.new_replay(call))

    def begin(self) -> None:
        self._next = self._call.count("from_line") or 0
        self.catch_up()

    def show(self, lines: list[str | bytes]) -> None:
        self._live.replay.feed_lines(
            [line if isinstance(line, bytes) else line.encode() for line in lines]
        )
        self._live.show()

    def change_over(self, why: str) -> None:
        from filestore.replay import Replay

        self._live.end()
        self._call.screen.warn(why)
        self._live = Live(self._call, Replay(streams.provider_of(self._call)))
