"""Every error the store raises, in one tree.

    StoreError                     operation, zone, name, hint
    ├── NotFoundError              the zone or file does not exist
    ├── AlreadyExistsError         the target of a move or copy exists
    ├── InvalidArgumentError       the caller's input breaks a rule
    │   ├── InvalidNameError       a zone or file name
    │   ├── InvalidDefinitionIdError   not the id of an agent definition
    │   ├── InvalidZoneError       not the zone of an archived session
    │   ├── InvalidFieldError      a field of a document; carries its path
    │   │   ├── RejectedError          of what an agent submits: carries value and rule
    │   │   └── SecretRefusedError     it looks like a key or token
    │   └── TooLargeError          over a named limit
    │       └── TurnLimitError         the session has had all its turns
    ├── VersionConflictError       compare-and-set lost; carries what is current
    ├── ConflictError              what the session is does not allow it: it is final, or busy
    ├── LimitReachedError          there are as many as there may be; carries the limit
    ├── ForbiddenError             outside of what callers may reach
    ├── BusyError                  the write queue is full; carries retry_after_ms
    │   └── LockedError            another process writes this folder; carries its pid
    ├── CorruptionError            stored bytes fail their checksum; carries offset
    └── BackendError               the database or the disk below it
        ├── StorageFullError       nothing was applied; works again when space returns
        ├── CommitUnknownError     the commit failed in a way that hides its outcome
        ├── ReadOnlyError          this store does not take writes; says why
        ├── ClosedError            the store is closed
        └── FormatError            this folder cannot be opened as it is
            ├── NewerFormatError           written by a newer release
            ├── ForeignDatabaseError       not a database of ours
            └── NetworkFileSystemError     WAL is unsafe there

Corruption is never folded into anything else. `hint` is the next thing to do, as a sentence or a
command.
"""

from typing import ClassVar, TypedDict, Unpack


class Place(TypedDict, total=False):
    """Where an error happened, and what to do next."""

    operation: str
    zone: str | None
    name: str | None
    hint: str


class StoreError(Exception):
    """Base of all errors of the store. `str()` gives message, place and hint in one line."""

    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, **place: Unpack[Place]) -> None:
        super().__init__(message)
        self.message = message
        self.operation = place.get("operation", "")
        self.zone = place.get("zone")
        self.name = place.get("name")
        self.hint = place.get("hint") or self.default_hint

    def __str__(self) -> str:
        place = "/".join(ascii(part) for part in (self.zone, self.name) if part is not None)
        head = f"{self.operation}: " if self.operation else ""
        where = f" [{place}]" if place else ""
        tail = f" ({self.hint})" if self.hint else ""
        return f"{head}{self.message}{where}{tail}"


class NotFoundError(StoreError):
    """The zone or file does not exist."""


class AlreadyExistsError(StoreError):
    """The target of a move or copy exists; nothing was changed."""


class InvalidArgumentError(StoreError):
    """The caller's input breaks a rule; nothing was changed."""


class InvalidNameError(InvalidArgumentError):
    """A zone or file name breaks the naming rules; the message shows it escaped."""


class InvalidDefinitionIdError(InvalidArgumentError):
    """Not the id of an agent definition; the message shows the rule and the value."""


class InvalidZoneError(InvalidArgumentError):
    """Not the zone of an archived session; the message shows the rule and the value."""


class InvalidFieldError(InvalidArgumentError):
    """A field of a document breaks a rule. `field` is its path, as `content[0].text`."""

    def __init__(self, message: str, *, field: str = "", **place: Unpack[Place]) -> None:
        super().__init__(message, **place)
        self.field = field


class RejectedError(InvalidFieldError):
    """A field of what an agent hands in breaks its schema; `expected` is the rule, in short."""

    def __init__(self, message: str, *, field: str, value: object, expected: str) -> None:
        super().__init__(message, field=field)
        self.value = value
        self.expected = expected

    @property
    def details(self) -> dict[str, object]:
        """What the caller is told of it."""
        return {
            "field": self.field,
            "value": self.value,
            "expected": self.expected,
            "message": self.message,
        }


class SecretRefusedError(InvalidFieldError):
    """A field looks like a key or token, which is never stored; the message does not show it."""

    default_hint = "keep secrets in the environment, and store the name of the variable"


class TooLargeError(InvalidArgumentError):
    """Over a named limit; nothing was changed."""

    def __init__(self, message: str, *, limit: int, **place: Unpack[Place]) -> None:
        super().__init__(message, **place)
        self.limit = limit


class TurnLimitError(TooLargeError):
    """The session has had as many messages of the user as it may have; nothing was changed."""

    default_hint = "start a new session"


class VersionConflictError(StoreError):
    """The caller's version, session or line is not the present one any more; nothing was changed.

    `current_version` is 0 when the file does not exist; `session_id` is empty where it plays no
    part, or when there is no session; `current_lines`, how many lines the session's stream has, is
    None where it plays no part.
    """

    default_hint = "read the file again and repeat with its version"

    def __init__(
        self,
        message: str,
        *,
        current_version: int,
        session_id: str = "",
        current_lines: int | None = None,
        **place: Unpack[Place],
    ) -> None:
        super().__init__(message, **place)
        self.current_version = current_version
        self.session_id = session_id
        self.current_lines = current_lines


class ConflictError(StoreError):
    """What the session is does not allow it: it has ended, or waits for an answer. Nothing changed.

    `status` is the session's.
    """

    def __init__(self, message: str, *, status: str, **place: Unpack[Place]) -> None:
        super().__init__(message, **place)
        self.status = status


class LimitReachedError(StoreError):
    """There are as many as there may be; nothing was changed. Try again after `retry_after_ms`."""

    def __init__(
        self, message: str, *, limit: int, retry_after_ms: int, **place: Unpack[Place]
    ) -> None:
        super().__init__(message, **place)
        self.limit = limit
        self.retry_after_ms = retry_after_ms


class ForbiddenError(StoreError):
    """Outside of what callers may reach; nothing was changed."""


class BusyError(StoreError):
    """The queue of waiting writes is full; nothing changed. Try again after `retry_after_ms`."""

    default_hint = "slow down, or try again a little later"

    def __init__(self, message: str, *, retry_after_ms: int = 0, **place: Unpack[Place]) -> None:
        super().__init__(message, **place)
        self.retry_after_ms = retry_after_ms


class LockedError(BusyError):
    """Another process writes this data folder. `pid` is 0 when it could not be learned."""

    def __init__(self, message: str, *, pid: int, kind: str, socket: str, hint: str = "") -> None:
        super().__init__(message, operation="open", hint=hint)
        self.pid = pid
        self.kind = kind
        self.socket = socket


class CorruptionError(StoreError):
    """Stored bytes fail their checksum. `offset` is where in the file, None if not tied to one."""

    default_hint = "`zoned check --deep` tells all that is damaged, `zoned repair` saves the rest"

    def __init__(self, message: str, *, offset: int | None = None, **place: Unpack[Place]) -> None:
        super().__init__(message, **place)
        self.offset = offset

    def __str__(self) -> str:
        at = "" if self.offset is None else f" at offset {self.offset}"
        return super().__str__().replace(self.message, self.message + at, 1)


class BackendError(StoreError):
    """The database or the disk below it failed."""


class StorageFullError(BackendError):
    """The disk is full. Nothing was applied; writes work again soon after space returns."""

    default_hint = "free some disk space; the store resumes by itself"


class CommitUnknownError(BackendError):
    """The commit failed with an I/O error: it may or may not be found applied later."""

    default_hint = "read back what you wrote, or repeat it with its if_version guard"


class ReadOnlyError(BackendError):
    """This store does not take writes; the message says why."""


class ClosedError(BackendError):
    """The store is closed, or is closing."""


class FormatError(BackendError):
    """This data folder cannot be opened as it is; nothing in it was changed."""


class NewerFormatError(FormatError):
    """The database was written by a newer release."""

    default_hint = "upgrade zoned, or point it at another data folder"


class ForeignDatabaseError(FormatError):
    """The database file is not one of ours."""

    default_hint = "give another one; if it was a store, `zoned repair` saves what is left of it"


class NetworkFileSystemError(FormatError):
    """The data folder lies on a network file system, where the database could be destroyed."""

    default_hint = "choose a data folder on a local disk"
