"""The raw side: SQLite through the same driver as ours, WAL, synchronous=FULL, else as it comes."""

import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import zstandard
from blake3 import blake3

from filestore.chunking import CODEC_ZSTD
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


class RawChunks:
    """A database with one table that holds the chunks of a store, in the order they were made.

    For a store of one stream that is the order of the stream. `store` must be closed.
    """

    def __init__(self, path: Path, store: Path) -> None:
        self._connection = Connection(str(path), isolation_level=None, uri=True)
        run = self._connection.execute
        run("PRAGMA journal_mode = WAL").fetchone()
        # Immutable: the store is only looked at, and nothing is left beside it.
        run("ATTACH ? AS store", (f"file:{quote(str(store))}?immutable=1",))
        run(
            "CREATE TABLE chunk AS SELECT c.id, c.codec, c.size, c.hash, d.data "
            "FROM store.chunk c JOIN store.chunk_data d USING (id) ORDER BY c.id"
        )
        run("DETACH store")
        run("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def read_all(self) -> int:
        """Fetch, decompress and verify every chunk. Returns the number of plain bytes."""
        unpack = zstandard.ZstdDecompressor().decompress
        total = 0
        rows = self._connection.execute("SELECT codec, size, hash, data FROM chunk ORDER BY rowid")
        for codec, size, digest, data in rows:
            plain = unpack(data, max_output_size=size) if codec == CODEC_ZSTD else data
            if blake3(plain).digest() != digest:
                raise ValueError("the chunk does not match its hash")
            total += size
        return total

    def close(self) -> None:
        """Close; everything is checkpointed."""
        self._connection.close()


class RawArchives:
    """The rows that a list of archives shows, in one table with a covering index."""

    def __init__(self, path: Path, store: Path) -> None:
        self._connection = Connection(str(path), isolation_level=None, uri=True)
        run = self._connection.execute
        run("PRAGMA journal_mode = WAL").fetchone()
        run("ATTACH ? AS store", (f"file:{quote(str(store))}?immutable=1",))
        columns = (
            "definition_id, archived_ms, preview, node_count, session_id, started_ms, "
            "state_bytes, output_bytes, output_lines"
        )
        run(f"CREATE TABLE archive AS SELECT {columns} FROM store.session")
        run(f"CREATE INDEX covering ON archive ({columns})")
        run("DETACH store")
        run("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._query = (
            f"SELECT {columns} FROM archive WHERE definition_id = ? AND archived_ms < ? "
            "ORDER BY archived_ms DESC LIMIT ?"
        )

    def list_all(self, page: int, wanted: int) -> None:
        """Fetch `wanted` rows of the one agent, page by page, newest first."""
        seen, before = 0, 1 << 62
        while seen < wanted:
            rows = self._connection.execute(self._query, ("ada", before, page)).fetchall()
            seen += len(rows)
            before = rows[-1][1]

    def close(self) -> None:
        """Close."""
        self._connection.close()
