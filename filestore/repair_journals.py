"""The part of a repair that brings journals over: records, the rows they fold to, what they can be
found by, tallies and repos. What is lost is told; see docs/specs/0006-backup-and-repair.md.
"""

from collections.abc import Iterator
from typing import Protocol

from filestore.check import Progress
from filestore.journal import rows
from filestore.journal.fold import related_ids
from filestore.journal.mending import Mending, Stored
from filestore.journal.model import JournalRow
from filestore.journal.writing import FEED_PREFIX
from filestore.records.records import definition_of
from filestore.records.repos import Repo, add_repo
from filestore.salvage import Salvage
from filestore.sessions.rows import ARCHIVED
from filestore.store import FileStore
from filestore.transaction import Transaction

BATCH_RECORDS = 200
BATCH_BYTES = 4 << 20
STRETCHES_TOLD_MAX = 3
FOUND_ID = "repair-found-"
"""What sessions are called of which records are left and nothing tells whose they are."""
LOST_PATH = "/repair:lost/"
"""Where repos are said to be whose rows are lost: nowhere, so that nothing can be done there."""


class Lose(Protocol):
    """Tell of a loss: zone, name, what, and where what is left is."""

    def __call__(self, zone: str, name: str, what: str, saved_as: str = "") -> None: ...


class SavedJournals:
    """The journals of one repair. `rows`: those that were saved, by session id."""

    def __init__(self, store: FileStore, salvage: Salvage, lose: Lose, progress: Progress) -> None:
        self.rows: dict[str, JournalRow] = {}
        self.records = 0
        self._store = store
        self._salvage = salvage
        self._lose = lose
        self._progress = progress

    async def save(self) -> None:
        """Bring all over, into a store that has none."""
        ids = self._salvage.journal_ids
        for number, journal_id in enumerate(ids):
            self._progress("journals saved", number, len(ids))
            await self._save_one(journal_id)
        await self._save_repos()

    def whose(self, definition_id: str, archived_ms: int | None) -> JournalRow | None:
        """The journal of a session whose own row is lost, if there is no doubt about it."""
        claimed = {row.session_id for row in self._salvage.sessions.values()}
        free = [
            row for row in self.rows.values()
            if row.definition_id == definition_id and row.session_id not in claimed
        ]  # fmt: skip
        if archived_ms is not None:
            found = [row for row in free if row.ended_ms == archived_ms and row.reason == ARCHIVED]
        elif any(flaw.table in ("journal", "record") for flaw in self._salvage.flaws):
            found = []  # it may have been one that is lost itself
        else:
            found = [row for row in free if not row.is_final]
        return found[0] if len(found) == 1 else None

    async def _save_one(self, journal_id: int) -> None:
        salvage = self._salvage
        found_id = f"{FOUND_ID}{journal_id}"
        mending = Mending(
            journal_id,
            salvage.journals.get(journal_id),
            salvage.seqs(journal_id),
            lambda seq: salvage.record(journal_id, seq),
            (found_id, definition_of(found_id)),
        )
        session_id = mending.session_id
        if session_id in self.rows:
            left = mending.count - mending.lost
            self._lose(FEED_PREFIX + session_id, "", f"another journal of it, of {left} records")
            return
        for batch in _batches(mending.records()):

            async def unit(tx: Transaction, batch: list[Stored] = batch) -> None:
                for record, data in batch:
                    await rows.insert_record(tx.rows, journal_id, record, data)
                    await rows.relate(tx.rows, journal_id, related_ids(session_id, record))

            await self._store.transact(unit)
            self.records += len(batch)
        row = mending.row
        assert row is not None, "nothing is a journal without a row and without a record"
        await self._store.transact(lambda tx: rows.insert(tx.rows, row))
        self.rows[session_id] = row
        self._tell(mending)

    def _tell(self, mending: Mending) -> None:
        name = FEED_PREFIX + mending.session_id
        left = mending.count - mending.lost
        if not mending.is_named:
            self._lose("", "", f"whose journal it is that has {left} records left", name)
        elif mending.known is None:
            self._lose(name, "", f"its row: made again of its records up to {mending.count - 1}")
        if mending.lost:
            self._lose(name, "", f"{mending.lost} of {mending.count} records: {_shown(mending)}")

    async def _save_repos(self) -> None:
        repos: dict[str, Repo] = {}
        for repo in self._salvage.repos.values():
            if all(repo.path != each.path for each in repos.values()):
                repos[repo.id] = repo
        for row in self.rows.values():
            if row.repo_id is not None and row.repo_id not in repos:
                lost = Repo(row.repo_id, LOST_PATH + row.repo_id, row.repo_id, row.created_ms)
                repos[lost.id] = lost
                self._lose("", "", f"the path and the name of repo {lost.id}", lost.path)

        async def unit(tx: Transaction) -> None:
            for repo in repos.values():
                await add_repo(tx.rows, repo)

        await self._store.transact(unit)


def _batches(records: Iterator[Stored]) -> Iterator[list[Stored]]:
    batch: list[Stored] = []
    size = 0
    for stored in records:
        batch.append(stored)
        size += len(stored[1])
        if len(batch) == BATCH_RECORDS or size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _shown(mending: Mending) -> str:
    stretches = mending.lost_stretches()
    shown = [str(a) if a == b else f"{a} to {b}" for a, b in stretches[:STRETCHES_TOLD_MAX]]
    more = len(stretches) - len(shown)
    return ", ".join(shown) + (f" and {more} more stretches" if more else "")
