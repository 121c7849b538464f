"""A journal of which records are lost, made whole again: what stands in the place of the lost ones,
and the row that all of it folds to. Pure.

Records keep their seqs, since callers go on from those. In the place of a lost one stands a `note`
that says so; where it was a chunk of an answer, or may have been one, a chunk that says so. What
the lost ones had made of the row is stated again at the end, if the row itself is known. See
docs/specs/0006-backup-and-repair.md.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from filestore.journal.bodies import dump
from filestore.journal.fold import fold, opened
from filestore.journal.model import AFTER_THE_END, JournalRow, Record, RecordKind

LOST: dict[str, Any] = {"reason": "lost"}
"""The body of a note in the place of a record."""
LOST_CHUNK = "\n[lost]\n"
"""The text in the place of a chunk."""
REBUILT, RESTORED = "rebuilt", "restored"
STATED = tuple(
    name
    for name in JournalRow._fields
    if name not in ("id", "session_id", "origin", "created_ms", "updated_ms", "records")
)

Guess = tuple[RecordKind, dict[str, Any], str | None]
"""Kind, body and ref of a record."""
Stored = tuple[Record, bytes]
"""A record, and its body as it is stored."""


class Mending:
    """One journal. `known`: its row, if that was found. `new_id`: the session's id and definition,
    if neither its row nor its first record was found.
    """

    def __init__(
        self,
        journal_id: int,
        known: JournalRow | None,
        seqs: Sequence[int],
        load: Callable[[int], Stored],
        new_id: tuple[str, str],
    ) -> None:
        self._id = journal_id
        self.known = known
        self._seqs = seqs
        self._there = frozenset(seqs)
        self._load = load
        self._new_id = new_id
        self.row: JournalRow | None = None
        """The fold of what was given out so far; whole once `records` is at its end."""
        self.count = max(known.records if known else 0, seqs[-1] + 1 if seqs else 0)
        """How many records the journal had, as far as anything tells."""
        self._guessed: dict[int, Guess] = {}
        self.lost = self.count - len(seqs)
        """How many of them are not there."""

        self.is_named = known is not None or 0 in self._there
        """True if anything tells whose journal it is."""

    @property
    def session_id(self) -> str:
        """Whose journal it is."""
        if self.known is not None:
            return self.known.session_id
        return str(self._load(0)[0].body["id"]) if self.is_named else self._new_id[0]

    def lost_stretches(self) -> list[tuple[int, int]]:
        """The first and the last of each row of lost records."""
        edges = [-1, *self._seqs, self.count]
        return [(a + 1, b - 1) for a, b in pairwise(edges) if b - a > 1]

    def records(self) -> Iterator[Stored]:
        """All records, in order, what stands for lost ones among them."""
        self._guessed = self._guess()
        expected = 0
        for seq in (*self._seqs, self.count):
            for missing in range(expected, seq):
                yield self._take(_stored(self._instead(missing)))
            if seq < self.count:
                yield self._take(self._load(seq))
            expected = seq + 1
        if self.known is None:
            return
        if self.lost and self.row is not None and self.known.records >= self.count:
            yield self._take(_stored(self._stated(self.known, self.row)))
        assert self.row is not None, "there is a first record, if only one in its place"
        updated_ms = max(self.row.updated_ms, self.known.updated_ms)
        self.row = self.row._replace(updated_ms=updated_ms)

    def _take(self, stored: Stored) -> Stored:
        record, _ = stored
        self.row = opened(self._id, record) if self.row is None else fold(self.row, record)
        return stored

    def _instead(self, seq: int) -> Record:
        """What stands in the place of a lost record."""
        if self.row is None:
            return self._opening()
        at_ms = self.row.updated_ms
        kind, body, ref = self._guessed.get(seq, ("note", LOST, None))
        return Record(seq, at_ms, kind, body, ref)

    def _guess(self) -> dict[int, Guess]:
        """What lost records must have been, by those that are there: a chunk of an answer whose
        others are, or that an ended session went on. Each goes as near to what tells of it as it
        can.
        """
        found: dict[int, Guess] = {}
        free = [list(stretch) for stretch in self.lost_stretches()]

        def place(after: int, before: int, guess: Guess) -> None:
            for each in reversed(free):
                if after < each[1] < before and each[0] <= each[1]:
                    found[each[1]] = guess
                    each[1] -= 1  # others may have been lost there, too
                    return

        parts: dict[str, tuple[int, int, bool]] = {}
        ended: int | None = None
        for seq in self._seqs if free else ():
            record = self._load(seq)[0]
            if ended is not None and _needs_active(record):
                place(ended, seq, ("open", {"reason": RESTORED}, None))
            ended = seq if record.kind == "end" else ended if _may_follow(record) else None
            if record.kind != "message":
                continue
            name, before = record.body["id"], parts.get(record.body["id"], (0, -1, False))
            part = record.body.get("part", int("is_chunk" in record.body))
            if part > before[1] + 1:
                place(before[0], seq, _chunk(name, before[1] + 1, part - before[1] - 1))
            parts[name] = (seq, part, bool(record.body.get("partial")))
        for name, (seq, part, is_partial) in parts.items():
            if is_partial and seq + 1 not in self._there and seq + 1 < self.count:
                found.setdefault(seq + 1, _chunk(name, part + 1, 1))
        found.pop(0, None)  # there is only one thing that can be
        return found

    def _opening(self) -> Record:
        """The first record, by what the row tells."""
        row = self.known
        if row is None:
            session_id, definition_id = self._new_id
            found = {"id": session_id, "definition_id": definition_id, "origin": "rest"}
            first = self._load(self._seqs[0])[0]
            return Record(0, first.at_ms, "open", found | {"reason": REBUILT})
        body: dict[str, Any] = {
            "id": row.session_id,
            "definition_id": row.definition_id,
            "origin": row.origin,
            "agent_name": row.agent_name,
            "purpose": row.purpose,
            "title": row.title,
            "repo_id": row.repo_id,
            "context": row.context,
        }
        given = {name: value for name, value in body.items() if value is not None}
        return Record(0, row.created_ms, "open", given | {"reason": REBUILT})

    def _stated(self, known: JournalRow, row: JournalRow) -> Record:
        """The row as it was. What it says of records that are lost does not hold any more."""
        stated = {name: getattr(known, name) for name in STATED}
        if known.transcript_seq not in self._there:
            stated["transcript_seq"] = None
        if known.asked != row.asked:
            stated |= {"is_busy": 0, "asked": None}
        if known.answering != row.answering:
            stated["answering"] = None
        return Record(row.records, known.updated_ms, "meta", {"stated": stated, "reason": REBUILT})


def _needs_active(record: Record) -> bool:
    """True if a session that has ended would not have taken this record."""
    return record.kind not in AFTER_THE_END and not _may_follow(record)


def _may_follow(record: Record) -> bool:
    is_given_away = record.kind == "meta" and "definition_id" in record.body
    return record.kind == "observation" or is_given_away


def _chunk(name: str, part: int, count: int) -> Guess:
    content = {"type": "text", "text": LOST_CHUNK}
    body: dict[str, Any] = {"id": name, "role": "agent", "content": content, "partial": True}
    body |= {"is_chunk": True, "part": part} if part else {}
    return "message", body | {"stands_for": count}, name


def _stored(record: Record) -> Stored:
    return record, dump(record.body)
