"""The raw side: SQLite through the same driver library as ours, WAL, synchronous=FULL, all else as it comes."""

import time
from collections.abc import Sequence
from pathlib import Path

from filestore.engine.driver import Connection


class Raw:
    """A database with one table for lines and one for whole values."""

    def __init__(self, path: Path) -> None:
        self._connection = Connection(str(path), isolation_level=None)
        run = self._connection.execute
        run("PRAGMA journal_mode = WAL").fetchone()
        run("PRAGMA synchronous = FULL")
        run("CREATE TABLE line (id INTEGER PRIMARY KEY, data BLOB NOT NULL)")
        run("CREATE TABLE state (id INTEGER PRIMARY KEY, data BLOB NOT NULL)")
        run("INSERT INTO state VALUES (1, x'')")

    def insert_each(self, lines: Sequence[bytes]) -> float:
        """One INSERT and commit per line. Seconds."""
        started = time.perf_counter()
        for line in lines:
            self._connection.execute("INSERT INTO line (data) VALUES (?)", (line,))
        return time.perf_counter() - started

    def replace_each(self, values: Sequence[bytes]) -> float:
        """One UPDATE and commit per value. Seconds."""
        started = time.perf_counter()
        for value in values:
            self._connection.execute("UPDATE state SET data = ? WHERE id = 1", (value,))
        return time.perf_counter() - started

    def close(self) -> None:
        """Checkpoint and close."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._connection.close()
