"""Operations as plain values, what they do to a plain dict, and how a store carries them out.

An `Op` is JSON, so it can be sent to a child process, kept in a script, and printed by a failing
test. `Model` is the contract in its simplest form: zones are dicts of files, files are bytes. It
shares no code with the store.
"""

import base64
import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from filestore import FileStore, StoreError, Transaction
from filestore.check import check

T = TypeVar("T")
Op: TypeAlias = dict[str, Any]

WHITE_SPACE = frozenset(
    map(chr, [*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029])
) | {"\u202f", "\u205f", "\u3000"}


class UnitFailedError(Exception):
    """Raised by a unit of work on purpose."""


def pack(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def unpack(data: str) -> bytes:
    return base64.b64decode(data)


# -- making operations


def write(zone: str, name: str, data: bytes) -> Op:
    return {"op": "write", "zone": zone, "name": name, "data": pack(data)}


def append(zone: str, name: str, data: bytes) -> Op:
    return {"op": "append", "zone": zone, "name": name, "data": pack(data)}


def append_lines(zone: str, name: str, lines: Iterable[bytes]) -> Op:
    return {"op": "append_lines", "zone": zone, "name": name, "lines": [pack(x) for x in lines]}


def set_meta(zone: str, name: str | None, changes: dict[str, Any]) -> Op:
    return {"op": "set_meta", "zone": zone, "name": name, "changes": changes}


def delete_file(zone: str, name: str) -> Op:
    return {"op": "delete_file", "zone": zone, "name": name}


def delete_zone(zone: str) -> Op:
    return {"op": "delete_zone", "zone": zone}


def move_zone(old: str, new: str) -> Op:
    return {"op": "move_zone", "old": old, "new": new}


def copy_zone(old: str, new: str) -> Op:
    return {"op": "copy_zone", "old": old, "new": new}


def transact(ops: Iterable[Op], *, fails: bool = False) -> Op:
    """All of `ops` as one unit; if it `fails`, it raises after the last of them."""
    return {"op": "transact", "ops": list(ops), "fails": fails}


def tidy() -> Op:
    return {"op": "tidy"}


# -- the model


def is_blank(line: bytes) -> bool:
    try:
        return all(char in WHITE_SPACE for char in line.decode())
    except UnicodeDecodeError:
        return False


def lines_of(data: bytes) -> list[bytes]:
    return [line for line in data.split(b"\n") if not is_blank(line)]


@dataclass(slots=True)
class FileState:
    data: bytes = b""
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ZoneState:
    files: dict[str, FileState] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)


class Refused(Exception):
    """The model's word for an error of the store; `args[0]` is the name of the class expected."""


class Model:
    """What a store should hold. `apply` changes it, or raises Refused and changes nothing."""

    def __init__(self, zones: dict[str, ZoneState] | None = None) -> None:
        self.zones = zones if zones is not None else {}

    def copy(self) -> "Model":
        return Model(copy.deepcopy(self.zones))

    def after(self, ops: Iterable[Op]) -> "Model":
        found = self.copy()
        for op in ops:
            found.apply(op)
        return found

    def part(self, prefix: str) -> "Model":
        """Only the zones whose names start with `prefix`."""
        return Model({name: zone for name, zone in self.zones.items() if name.startswith(prefix)})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.zones == other.zones

    __hash__ = None  # type: ignore[assignment]  # it changes, as a dict does

    def __repr__(self) -> str:
        return "Model(" + "; ".join(self.describe()) + ")"

    def describe(self) -> list[str]:
        return [
            f"{zone}/{name}: {len(file.data)} bytes "
            f"{file.data[:12]!r}…{file.data[-12:]!r} {file.meta}"
            for zone, state in sorted(self.zones.items())
            for name, file in sorted(state.files.items())
        ]

    def apply(self, op: Op) -> None:
        if op["op"] == "transact":
            trial = self.copy()
            for inner in op["ops"]:
                trial.apply(inner)
            if op["fails"]:
                raise Refused("UnitFailedError")
            self.zones = trial.zones
        elif op["op"] != "tidy":
            getattr(self, "_" + op["op"])(op)

    def _file(self, op: Op) -> FileState:
        return self.zones.setdefault(op["zone"], ZoneState()).files.setdefault(
            op["name"], FileState()
        )

    def _write(self, op: Op) -> None:
        self._file(op).data = unpack(op["data"])

    def _append(self, op: Op) -> None:
        self._file(op).data += unpack(op["data"])

    def _append_lines(self, op: Op) -> None:
        kept = [line for text in op["lines"] for line in lines_of(unpack(text))]
        if kept:
            file = self._file(op)
            if file.data and not file.data.endswith(b"\n"):
                file.data += b"\n"
            file.data += b"".join(line + b"\n" for line in kept)

    def _set_meta(self, op: Op) -> None:
        zone = self.zones.get(op["zone"])
        name = op["name"]
        if zone is None or (name is not None and name not in zone.files):
            raise Refused("NotFoundError")
        meta = zone.meta if name is None else zone.files[name].meta
        for key, value in op["changes"].items():
            if value is None:
                meta.pop(key, None)
            else:
                meta[key] = value

    def _delete_file(self, op: Op) -> None:
        if op["zone"] in self.zones:
            self.zones[op["zone"]].files.pop(op["name"], None)

    def _delete_zone(self, op: Op) -> None:
        self.zones.pop(op["zone"], None)

    def _source(self, op: Op) -> ZoneState:
        if op["old"] not in self.zones:
            raise Refused("NotFoundError")
        if op["new"] in self.zones:
            raise Refused("AlreadyExistsError")
        return self.zones[op["old"]]

    def _move_zone(self, op: Op) -> None:
        self.zones[op["new"]] = self._source(op)
        del self.zones[op["old"]]

    def _copy_zone(self, op: Op) -> None:
        self.zones[op["new"]] = copy.deepcopy(self._source(op))


# -- the store


async def apply(target: FileStore | Transaction, op: Op) -> Any:
    """Carry out one operation on a store, or inside a transaction."""
    kind = op["op"]
    if kind == "transact":
        assert isinstance(target, FileStore)
        return await _transact(target, op)
    if kind == "tidy":
        assert isinstance(target, FileStore)
        return await target.tidy()
    if kind in ("write", "append"):
        call: Callable[..., Any] = getattr(target, kind)
        return await call(op["zone"], op["name"], unpack(op["data"]))
    if kind == "append_lines":
        return await target.append_lines(op["zone"], op["name"], [unpack(x) for x in op["lines"]])
    if kind == "set_meta":
        return await target.set_meta(op["zone"], op["name"], op["changes"])
    if kind == "delete_file":
        return await target.delete_file(op["zone"], op["name"])
    if kind == "delete_zone":
        return await target.delete_zone(op["zone"])
    assert kind in ("move_zone", "copy_zone"), op
    moves = {"move_zone": target.move_zone, "copy_zone": target.copy_zone}
    return await moves[kind](op["old"], op["new"])


async def _transact(store: FileStore, op: Op) -> list[Any]:
    async def unit(tx: Transaction) -> list[Any]:
        done = [await apply(tx, inner) for inner in op["ops"]]
        if op["fails"]:
            raise UnitFailedError
        return done

    return await store.transact(unit)


async def dump(store: FileStore) -> Model:
    """Everything in the store, through its public interface; lines must agree with bytes."""
    found = Model()
    after: str | None = None
    while True:
        page = await store.zones(after=after, limit=7)
        for zone in page.zones:
            found.zones[zone.name] = ZoneState(await _files(store, zone.name), dict(zone.meta))
        after = page.after
        if after is None:
            return found


async def _files(store: FileStore, zone: str) -> dict[str, FileState]:
    infos = await store.files(zone)
    assert infos is not None
    files: dict[str, FileState] = {}
    for info in infos:
        data = await store.read(zone, info.name)
        assert len(data) == info.size, (zone, info)
        lines = await store.read_lines(zone, info.name, 0, 1_000_000)
        assert lines.lines == lines_of(data), (zone, info)
        assert lines.total == info.lines == len(lines.lines), (zone, info)
        files[info.name] = FileState(data, dict(info.meta))
    return files


async def assert_clean(store: FileStore) -> None:
    """The deep check finds nothing."""
    report = await check(store, deep=True)
    assert report.is_clean, [str(problem) for problem in report.problems[:10]]


async def assert_works(store: FileStore) -> None:
    """The store takes a write, does its background work, and is whole afterwards."""
    await store.write("after", "one", b"still here")
    await store.append("after", "two", b"x" * 10_000)
    await store.tidy()
    assert await store.read("after", "one") == b"still here"
    await assert_clean(store)


def matches(state: Model, before: Model, pending: Sequence[Op]) -> bool:
    """True if `state` is `before`, or `before` with the first pending operation wholly done."""
    if state == before:
        return True
    if not pending:
        return False
    try:
        return state == before.after(pending[:1])
    except Refused:
        return False


async def outcome(work: Any) -> str:
    """`ok`, or the name of the error class."""
    try:
        await work
    except (StoreError, UnitFailedError) as error:
        return type(error).__name__
    return "ok"
