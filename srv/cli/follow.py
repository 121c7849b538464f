"""Following an agent's stream as the daemon tells of it: `zoned tail -f` and `zoned replay -f`.

A notification carries the lines themselves when they are few. Whatever does not join what was shown
last (many lines, a gap, a second writer) is read again from the first line not shown, so each line
is shown once and in order. A session that ends is told; the next one follows.

What is read again is the current session's, which may be another than the one that is told of: it
has been archived, and that will be told next. So whatever was read counts only if the agent's
newest archive is the one that was told last; what is missing then is read from the archive.
"""

from abc import ABC, abstractmethod
from typing import NoReturn

from srv.cli.backend import Backend, Json
from srv.cli.options import Invocation
from srv.cli.tail import no_daemon, pages, read_from, write_lines
from srv.client.blocking import BlockingClient
from srv.errors import ZonedError


class Follower(ABC):
    """What of an agent's stream was shown, and how to go on."""

    def __init__(self, backend: Backend, definition_id: str) -> None:
        self._backend = backend
        self._id = definition_id
        self._next = 0
        """The first line that is not shown yet."""
        self._newest_ms = 0
        """When the newest archive that was told of was made; 0: there is none."""

    @abstractmethod
    def begin(self) -> None:
        """Show what is there already, and set `_next`."""

    @abstractmethod
    def show(self, lines: list[str | bytes]) -> None:
        """Show the lines that come next."""

    @abstractmethod
    def change_over(self, why: str) -> None:
        """What comes next is another session's."""

    def restored(self) -> None:
        """Another session goes on. What it has is shown from its beginning."""
        self.catch_up()

    def run(self) -> NoReturn:
        """Go on until interrupted, or until the daemon ends."""
        socket = self._backend.daemon_socket
        if not socket:
            raise no_daemon()
        # Changes come on a connection of their own, subscribed before the lines are read: what is
        # appended in between is announced, and found to be shown already.
        with BlockingClient(socket) as client:
            client.call("agent:session:subscribe", {"definition_id": self._id})
            self._newest_ms = self._newest()
            self.begin()
            for change in client.notifications():
                self.take(change)
        raise AssertionError("notifications end by an error")

    def take(self, change: Json) -> None:
        """Show what a change brings."""
        match change.get("kind"):
            case "output":
                self._output(change)
            case "archived":
                self._archived(str(change.get("archive_zoneid")))
            case "restored":
                self.change_over(f"{change.get('archive_zoneid')} is the current session again")
                self._newest_ms = self._newest(self._newest_ms)
                self._next = 0
                self.restored()
            case "deleted":
                if ":archive:" not in str(change.get("archive_zoneid")):
                    self.change_over("the session was deleted; what follows is new")
                    self._next = 0
                self._newest_ms = self._newest(self._newest_ms)
            case "gap":
                self._gap()

    def catch_up(self) -> None:
        """Show what the current session has, if it is still the one that is followed."""
        while True:
            page = read_from(self._backend, self._id, self._next)
            if self._newest() != self._newest_ms:
                return
            self._show_page(page)
            if not page["lines"] or self._next >= page["total_lines"]:
                return

    def _archived(self, zone: str) -> None:
        archived_ms = int(zone.rpartition(":")[2])
        if archived_ms <= self._newest_ms:
            return  # what a gap has told already
        self._show_rest(zone)
        self.change_over(f"archived as {zone}; what follows is new")
        self._next, self._newest_ms = 0, archived_ms

    def _gap(self) -> None:
        newest_ms = self._newest()
        if newest_ms != self._newest_ms:
            self.change_over(
                "too much happened to tell it all; what is not shown is in the archives"
            )
            self._next, self._newest_ms = 0, newest_ms
        self.catch_up()

    def _output(self, change: Json) -> None:
        first, lines, data = change.get("first_line"), change.get("lines"), change.get("data")
        if first == self._next and data is not None:
            raw: bytes = data.encode() if isinstance(data, str) else data
            found: list[str | bytes] = [*raw.split(b"\n")]
            if found.pop() == b"" and len(found) == lines:
                self.show(found)
                self._next += lines
                return
        if not (isinstance(first, int) and isinstance(lines, int)) or first + lines > self._next:
            self.catch_up()

    def _show_rest(self, zone: str) -> None:
        """Show what was not shown of a session before it was archived."""
        try:
            while (page := read_from(self._backend, zone, self._next))["lines"]:
                self._show_page(page)
        except ZonedError as error:
            if error.kind != "NOT_FOUND":  # restored or deleted by now
                raise

    def _show_page(self, page: Json) -> None:
        self.show(page["lines"])
        self._next = page["next_line"]

    def _newest(self, up_to_ms: int | None = None) -> int:
        """When the newest archive was made, of all or of those up to a time; 0: there is none."""
        before = {} if up_to_ms is None else {"before": up_to_ms + 1}
        params = {"definition_id": self._id, "limit": 1, **before}
        rows = self._backend.rows("agent:session:list_archives", params)
        return int(rows[0]["archived_at_ms"]) if rows else 0


class TailFollower(Follower):
    """Prints the lines; in JSON the pages it begins with and then the changes as they come."""

    def __init__(self, call: Invocation, backend: Backend, count: int) -> None:
        (definition_id,) = call.arguments
        super().__init__(backend, definition_id)
        self._screen = call.screen
        self._is_json = call.is_json
        self._count = count

    def begin(self) -> None:
        for page in pages(self._backend, self._id, self._count):
            if self._is_json:
                self._screen.json(page)
            else:
                self.show(page["lines"])
            self._next = page["next_line"]
        self._screen.flush()

    def take(self, change: Json) -> None:
        if self._is_json:
            self._screen.json(change)
        else:
            super().take(change)
        self._screen.flush()

    def show(self, lines: list[str | bytes]) -> None:
        write_lines(self._screen, lines)

    def change_over(self, why: str) -> None:
        self._screen.flush()
        self._screen.warn(why)

    def restored(self) -> None:
        # What it has already is no news.
        self._next = read_from(self._backend, self._id, 0)["total_lines"]
