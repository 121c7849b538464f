"""What a store should hold, answer and announce, worked out beside it.

`Ledger` wraps the plain-dict `Model` of tests.support.child_model and adds what that does not know:
the answer of each operation, the changes it announces, and a mark for every content that ever had a
version. A mark stays with its content through moves and reopening; equal marks must have equal
versions for ever, and new ones higher versions than all before.

An operation may carry `guard`, the model's word for `if_version`: "current", "wrong" or "absent".
"""

import itertools
import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from blake3 import blake3

from tests.support.child_model import Model, Op, Refused, is_blank, lines_of, unpack


class Mark(NamedTuple):
    """One content of one file. `birth` stays the same until the file is deleted."""

    content: int
    birth: int


@dataclass(frozen=True, slots=True)
class Announced:
    """A change as the feed should tell it. `mark` is of the file's content, or the zone's own."""

    kind: str
    zone: str
    name: str | None = None
    offset: int | None = None
    size: int | None = None
    source: str | None = None
    mark: Mark | int | None = None


@dataclass(slots=True)
class Step:
    """What one operation should answer: a plain value, or the values of some fields of a record."""

    changes: list[Announced]
    answer: Any = None
    fields: dict[str, Any] = field(default_factory=dict)


class Ledger:
    """`apply` moves it on, or raises Refused and changes nothing."""

    def __init__(self) -> None:
        self.model = Model()
        self.files: dict[tuple[str, str], Mark] = {}
        self.zones: dict[str, int] = {}
        self._numbers = itertools.count(1)

    def fork(self) -> "Ledger":
        other = Ledger()
        other.model, other._numbers = self.model.copy(), self._numbers
        other.files, other.zones = dict(self.files), dict(self.zones)
        return other

    def apply(self, op: Op) -> list[Step]:
        """One step, or one for each operation of a transaction."""
        if op["op"] == "tidy":
            return []
        if op["op"] != "transact":
            step: Step = getattr(self, "_" + op["op"])(op)
            return [step]
        trial = self.fork()
        steps = [step for inner in op["ops"] for step in trial.apply(inner)]
        if op["fails"]:
            raise Refused("UnitFailedError")
        self.model, self.files, self.zones = trial.model, trial.files, trial.zones
        return steps

    def data(self, zone: str, name: str) -> bytes | None:
        state = self.model.zones.get(zone)
        file = state.files.get(name) if state else None
        return file.data if file else None

    # -- files

    def _write(self, op: Op) -> Step:
        zone, name = op["zone"], op["name"]
        before, data = self.data(zone, name), unpack(op["data"])
        guard = op.get("guard")
        if guard == "wrong" or (guard == "absent" and before is not None):
            raise Refused("VersionConflictError")
        self.model.apply(op)
        fields = {"zone": zone, "name": name, "size": len(data), "lines": len(lines_of(data))}
        if before == data:
            return Step([], fields=fields | {"unchanged": True})
        change = Announced("write", zone, name, 0, len(data), mark=self._touch(zone, name))
        fields |= {"unchanged": False, "digest": blake3(data).hexdigest()}
        return Step([change], fields=fields)

    def _append(self, op: Op) -> Step:
        zone, name = op["zone"], op["name"]
        before, data = self.data(zone, name), unpack(op["data"])
        offset = len(before or b"")
        self.model.apply(op)
        fields = {"offset": offset, "size": offset + len(data)}
        if before is not None and not data:
            return Step([], fields=fields)
        mark = self._touch(zone, name)
        return Step([Announced("append", zone, name, offset, len(data), mark=mark)], fields=fields)

    def _append_lines(self, op: Op) -> Step:
        zone, name = op["zone"], op["name"]
        before = self.data(zone, name)
        self.model.apply(op)
        after = self.data(zone, name)
        offset, first = len(before or b""), len(lines_of(before or b""))
        fields = {"offset": offset, "first_line": first, "lines": 0, "bytes_written": 0}
        if before == after:
            return Step([], fields=fields)
        assert after is not None
        kept = [line for text in op["lines"] for line in unpack(text).split(b"\n")]
        kept = [line for line in kept if not is_blank(line)]
        written = sum(len(line) + 1 for line in kept)
        # The line break that closes a torn line belongs to the change, not to the caller's lines.
        fields |= {"offset": len(after) - written, "lines": len(kept), "bytes_written": written}
        mark, size = self._touch(zone, name), len(after) - offset
        return Step([Announced("append", zone, name, offset, size, mark=mark)], fields=fields)

    def _set_meta(self, op: Op) -> Step:
        zone, name = op["zone"], op["name"]
        before = self._meta(zone, name)
        self.model.apply(op)
        after = self._meta(zone, name)
        if before == after:
            return Step([], answer=json.loads(after))
        mark: Mark | int
        if name is None:
            mark = self.zones[zone] = next(self._numbers)
        else:
            mark = self.files[zone, name]
        return Step([Announced("meta", zone, name, mark=mark)], answer=json.loads(after))

    def _delete_file(self, op: Op) -> Step:
        zone, name = op["zone"], op["name"]
        self.model.apply(op)
        existed = self.files.pop((zone, name), None) is not None
        return Step([Announced("delete", zone, name)] if existed else [], answer=existed)

    # -- zones

    def _delete_zone(self, op: Op) -> Step:
        zone = op["zone"]
        self.model.apply(op)
        existed = self.zones.pop(zone, None) is not None
        self.files = {key: mark for key, mark in self.files.items() if key[0] != zone}
        return Step([Announced("delete_zone", zone)] if existed else [], answer=existed)

    def _move_zone(self, op: Op) -> Step:
        old, new = op["old"], op["new"]
        self.model.apply(op)
        del self.zones[old]
        self.zones[new] = next(self._numbers)
        self.files = {
            (new if zone == old else zone, name): mark for (zone, name), mark in self.files.items()
        }
        return Step([Announced("move_zone", new, source=old, mark=self.zones[new])])

    def _copy_zone(self, op: Op) -> Step:
        old, new = op["old"], op["new"]
        self.model.apply(op)
        self.zones[new] = next(self._numbers)
        for name in self.model.zones[new].files:
            self._touch(new, name)
        return Step([Announced("copy_zone", new, source=old, mark=self.zones[new])])

    # -- parts

    def _touch(self, zone: str, name: str) -> Mark:
        number = next(self._numbers)
        self.zones.setdefault(zone, number)
        old = self.files.get((zone, name))
        mark = self.files[zone, name] = Mark(number, old.birth if old else number)
        return mark

    def _meta(self, zone: str, name: str | None) -> str:
        """As JSON, because to Python true, 1 and 1.0 are equal."""
        state = self.model.zones.get(zone)
        if state is None or (name is not None and name not in state.files):
            return "{}"
        return json.dumps(state.meta if name is None else state.files[name].meta, sort_keys=True)
