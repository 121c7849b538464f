"""What a method is, and who may call it. The methods themselves: methods.py and its neighbours.

How a method is started, and in which order, is connection.py's business; `lane` is what it has to
know for that:

    now      answered at once, without waiting for anything
    read     looks; its answer may be large
    append   queues its write before it returns, so calls in order are writes in order
    write    prepares first; whatever follows for the same agent waits for it
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from srv.errors import ZonedError
from srv.rpc.params import Spec, check

if TYPE_CHECKING:
    from srv.rpc.service import Service

Lane = Literal["now", "read", "append", "write"]
Json = object


class Caller(Protocol):
    """Who calls: what a method may ask of the connection."""

    @property
    def service(self) -> "Service": ...

    def subscribe(self, definition_id: str, since: int | None) -> tuple[int, int]:
        """Begin to notify of an agent's changes. Returns the subscription's number, and the
        position after which they are told.
        """

    def unsubscribe(self, subscription: int) -> None:
        """End that. NOT_FOUND if there is no such subscription."""


class Method(NamedTuple):
    """One method. `run` gets the caller and the checked parameters by name; `shape`, if there is
    one, makes the answer of what its awaitable gave. `agents` tells which agents it changes.
    `is_operators`: only for who runs the daemon, so not over TCP, whatever token is shown.
    """

    spec: Spec
    run: Callable[..., object]
    lane: Lane = "read"
    shape: Callable[..., Json] | None = None
    agents: Callable[[Mapping[str, object]], set[str]] = lambda _: set()
    is_operators: bool = False

    def checked(self, params: Mapping[str, object], peer: str) -> dict[str, object]:
        """The parameters for `run`, if who calls by this way, `unix` or `tcp`, may call it."""
        if self.is_operators and peer != "unix":
            hint = "call it over the daemon's unix socket"
            raise ZonedError("UNAUTHORIZED", "this is for who runs the daemon", hint=hint)
        return check(params, self.spec)
