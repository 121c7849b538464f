"""What goes wrong, as the outside is told: one table of kinds, for RPC codes and exit codes alike.

Every error of the store has its kind here (a test walks them all). Whatever is not in the table is
a bug of ours: INTERNAL, logged with an id, never explained to the outside.
"""

from collections.abc import Mapping
from typing import NamedTuple

from filestore import errors as store
from srv.settings import ConfigError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_FOUND = 3
EXIT_INTERRUPTED = 130


class Kind(NamedTuple):
    """A kind of error: its JSON-RPC code, and the exit code of a command that meets it."""

    code: int
    exit_code: int = EXIT_FAILED


KINDS: Mapping[str, Kind] = {
    "PARSE_ERROR": Kind(-32700),
    "INVALID_REQUEST": Kind(-32600),
    "UNKNOWN_METHOD": Kind(-32601),
    "INVALID_PARAMS": Kind(-32602, EXIT_USAGE),
    "INVALID_DEFINITION_ID": Kind(-32602, EXIT_USAGE),
    "INVALID_ZONE": Kind(-32602, EXIT_USAGE),
    "SECRET_REFUSED": Kind(-32602, EXIT_USAGE),
    "INTERNAL": Kind(-32603),
    "NOT_FOUND": Kind(-32001),
    "VERSION_CONFLICT": Kind(-32002),
    "TOO_LARGE": Kind(-32003),
    "STORAGE_FULL": Kind(-32004),
    "BUSY": Kind(-32005),
    "CORRUPT": Kind(-32006),
    "UNAUTHORIZED": Kind(-32007),
    "READ_ONLY": Kind(-32008),
    "ALREADY_EXISTS": Kind(-32009),
    "UNAVAILABLE": Kind(-32010),
    "COMMIT_UNKNOWN": Kind(-32011),
    "CONFLICT": Kind(-32012),
    "LIMIT_REACHED": Kind(-32013),
    "FORBIDDEN": Kind(-32014),
    "TURN_LIMIT": Kind(-32015),
}

_STORE_KINDS: Mapping[type[store.StoreError], str] = {
    store.StoreError: "UNAVAILABLE",
    store.NotFoundError: "NOT_FOUND",
    store.AlreadyExistsError: "ALREADY_EXISTS",
    store.InvalidArgumentError: "INVALID_PARAMS",
    store.InvalidNameError: "INVALID_PARAMS",
    store.InvalidDefinitionIdError: "INVALID_DEFINITION_ID",
    store.InvalidZoneError: "INVALID_ZONE",
    store.InvalidFieldError: "INVALID_PARAMS",
    store.RejectedError: "INVALID_PARAMS",
    store.SecretRefusedError: "SECRET_REFUSED",
    store.TooLargeError: "TOO_LARGE",
    store.TurnLimitError: "TURN_LIMIT",
    store.VersionConflictError: "VERSION_CONFLICT",
    store.ConflictError: "CONFLICT",
    store.LimitReachedError: "LIMIT_REACHED",
    store.ForbiddenError: "FORBIDDEN",
    store.BusyError: "BUSY",
    store.LockedError: "BUSY",
    store.CorruptionError: "CORRUPT",
    store.BackendError: "UNAVAILABLE",
    store.StorageFullError: "STORAGE_FULL",
    store.CommitUnknownError: "COMMIT_UNKNOWN",
    store.ReadOnlyError: "READ_ONLY",
    store.ClosedError: "UNAVAILABLE",
    store.FormatError: "UNAVAILABLE",
    store.NewerFormatError: "UNAVAILABLE",
    store.ForeignDatabaseError: "UNAVAILABLE",
    store.NetworkFileSystemError: "UNAVAILABLE",
}
# What an error carries besides its message, and so does the `data` of an RPC error.
_CARRIED = (
    "current_version", "current_lines", "session_id", "limit", "retry_after_ms", "offset", "status",
    "field",
)  # fmt: skip


class ZonedError(Exception):
    """An error with its kind, for daemon, clients and commands. `data` goes with it over RPC.

    `message` says what is wrong, in words; `hint`, if there is one, what to do about it.
    """

    def __init__(self, kind: str, message: str, **data: object) -> None:
        super().__init__(message)
        assert kind in KINDS, kind
        self.kind = kind
        self.message = message
        self.data = {"kind": kind, **data}
        if not self.hint:
            self.data.pop("hint", None)

    @property
    def hint(self) -> str:
        """What to do about it; may be empty."""
        return str(self.data.get("hint", ""))

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


def told(error: Exception) -> ZonedError | None:
    """The error as the outside is told; None for a bug of ours."""
    match error:
        case ZonedError():
            return error
        case store.StoreError():
            return _of_store(error)
        case ConfigError():
            return ZonedError("INVALID_PARAMS", str(error))
        case MemoryError():
            hint = "try again a little later, or with less at a time"
            return ZonedError("UNAVAILABLE", "out of memory", hint=hint)
    return None


def _of_store(error: store.StoreError) -> ZonedError:
    # By the nearest class that is known: the engines have some of their own.
    kind = next(_STORE_KINDS[each] for each in type(error).__mro__ if each in _STORE_KINDS)
    # The store's own message may begin with the kind already, or with the operation, which the
    # method or the command tells; its hint travels apart.
    message = str(error).removesuffix(f" ({error.hint})").removeprefix(f"{kind}: ")
    message = message.removeprefix(f"{error.operation}: ")
    carried = {key: getattr(error, key, None) for key in _CARRIED}
    data = {key: value for key, value in carried.items() if value is not None}
    if isinstance(error, store.LockedError):
        del data["retry_after_ms"]
    return ZonedError(kind, message, hint=error.hint, **data)
