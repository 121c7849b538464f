"""The store: named zones of files, durable, on one database.

Usable alone: no network, no command line. Errors are here at once; all else is imported when it is
first asked for, because a command that only talks to a daemon needs the errors and nothing more.
"""

from typing import TYPE_CHECKING

from filestore.errors import (
    AlreadyExistsError,
    BackendError,
    BusyError,
    ClosedError,
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    ForbiddenError,
    ForeignDatabaseError,
    FormatError,
    InvalidArgumentError,
    InvalidDefinitionIdError,
    InvalidFieldError,
    InvalidNameError,
    InvalidZoneError,
    LimitReachedError,
    LockedError,
    NetworkFileSystemError,
    NewerFormatError,
    NotFoundError,
    ReadOnlyError,
    RejectedError,
    SecretRefusedError,
    StorageFullError,
    StoreError,
    TooLargeError,
    TurnLimitError,
    VersionConflictError,
)

if TYPE_CHECKING:
    from filestore.chunking import Prepared
    from filestore.model import (
        Appended,
        Change,
        FileInfo,
        Limits,
        LinePage,
        LinesAppended,
        ZoneInfo,
        ZonePage,
    )
    from filestore.reading import ReadTransaction
    from filestore.store import FileStore
    from filestore.transaction import Transaction

__all__ = [
    "AlreadyExistsError",
    "Appended",
    "BackendError",
    "BusyError",
    "Change",
    "ClosedError",
    "CommitUnknownError",
    "ConflictError",
    "CorruptionError",
    "FileInfo",
    "FileStore",
    "ForbiddenError",
    "ForeignDatabaseError",
    "FormatError",
    "InvalidArgumentError",
    "InvalidDefinitionIdError",
    "InvalidFieldError",
    "InvalidNameError",
    "InvalidZoneError",
    "LimitReachedError",
    "Limits",
    "LinePage",
    "LinesAppended",
    "LockedError",
    "NetworkFileSystemError",
    "NewerFormatError",
    "NotFoundError",
    "Prepared",
    "ReadOnlyError",
    "ReadTransaction",
    "RejectedError",
    "SecretRefusedError",
    "StorageFullError",
    "StoreError",
    "TooLargeError",
    "Transaction",
    "TurnLimitError",
    "VersionConflictError",
    "ZoneInfo",
    "ZonePage",
]

_HOMES = {
    "FileStore": "filestore.store",
    "Prepared": "filestore.chunking",
    "ReadTransaction": "filestore.reading",
    "Transaction": "filestore.transaction",
    **dict.fromkeys(
        (
            "Appended",
            "Change",
            "FileInfo",
            "Limits",
            "LinePage",
            "LinesAppended",
            "ZoneInfo",
            "ZonePage",
        ),
        "filestore.model",
    ),
}

# Type checkers take the names above; were they to see this, any misspelt name would pass.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        found = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return found
