"""What a message of a client is owed: one answer, or those of a batch in one array.

Answers of a batch are kept as they will be sent until the last of them is there. Together they are
as large as a message may be, and no larger.
"""

from srv.rpc import protocol


class Exchange:
    """A single request: in which format it is answered, and its share of the daemon's budget."""

    __slots__ = ("_holders", "cost_bytes", "is_binary")

    def __init__(self, is_binary: bool, cost_bytes: int, count: int = 1) -> None:
        self.is_binary = is_binary
        self.cost_bytes = cost_bytes
        self._holders = count

    def let_go(self) -> int:
        """One of its requests needs no share any more. Returns the bytes to be given back."""
        self._holders -= 1
        return 0 if self._holders else self.cost_bytes


class Batch(Exchange):
    """The requests of one array."""

    __slots__ = ("_bytes_max", "_left", "_replies", "_size")

    def __init__(self, is_binary: bool, cost_bytes: int, count: int, bytes_max: int) -> None:
        super().__init__(is_binary, cost_bytes, count)
        self._left = count
        self._replies: list[bytes | None] = [None] * count
        self._size = 0
        self._bytes_max = bytes_max

    @property
    def is_whole(self) -> bool:
        """True when nothing more is to come."""
        return not self._left

    def put(self, place: int, reply: dict[str, object] | None) -> None:
        """Take in what is answered to the request at `place`; None: nobody waits for it.

        If it cannot be encoded nothing is changed, and something else may be answered.
        """
        part = b"" if reply is None else self._encoded(reply)
        if self._replies[place] is None:
            self._left -= 1
        self._size += len(part)
        self._replies[place] = part

    def _encoded(self, reply: dict[str, object]) -> bytes:
        part = protocol.encode(reply, is_binary=self.is_binary)
        if self._size + len(part) > self._bytes_max and "result" in reply:
            short = protocol.left_out(reply, self._bytes_max)
            part = protocol.encode(short, is_binary=self.is_binary)
        return part

    def payload(self) -> bytes:
        """The answer to all; empty if nobody waits for any."""
        replies = list(filter(None, self._replies))
        return protocol.join(replies, is_binary=self.is_binary) if replies else b""
