"""The store: named zones of files, durable, on one database.

Usable alone: no network, no command line.
"""

from filestore.chunking import Prepared
from filestore.errors import (
    AlreadyExistsError,
    BackendError,
    BusyError,
    ClosedError,
    CommitUnknownError,
    CorruptionError,
    ForeignDatabaseError,
    FormatError,
    InvalidArgumentError,
    InvalidDefinitionIdError,
    InvalidNameError,
    InvalidZoneError,
    LockedError,
    NetworkFileSystemError,
    NewerFormatError,
    NotFoundError,
    ReadOnlyError,
    StorageFullError,
    StoreError,
    TooLargeError,
    VersionConflictError,
)
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
    "CorruptionError",
    "FileInfo",
    "FileStore",
    "ForeignDatabaseError",
    "FormatError",
    "InvalidArgumentError",
    "InvalidDefinitionIdError",
    "InvalidNameError",
    "InvalidZoneError",
    "Limits",
    "LinePage",
    "LinesAppended",
    "LockedError",
    "NetworkFileSystemError",
    "NewerFormatError",
    "NotFoundError",
    "Prepared",
    "ReadOnlyError",
    "StorageFullError",
    "StoreError",
    "TooLargeError",
    "Transaction",
    "VersionConflictError",
    "ZoneInfo",
    "ZonePage",
]
