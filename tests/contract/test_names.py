"""Names of zones and files: which are taken, and how the others are refused by every operation."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from filestore import FileStore, InvalidArgumentError, InvalidNameError, Transaction

BAD = [
    "",
    "\0",
    "a\0b",
    "a\nb",
    "a\rb",
    "\t",
    "\x1b[31m",
    "\x7f",
    "\x85",
    "\ud800",
    "a\udfff",
    "a\u202eb",
    "\u200b",
    "\u2028",
    "\u00a0",
    "\u3000",
    "\ufeff",
    "\ue000",
    "\uffff",
    "\U0010ffff",
]
GOOD = [
    "a",
    " ",
    " a ",
    ".",
    "..",
    "../../etc/passwd",
    "a/b/c",
    "/",
    "\\",
    "%s{}$'\"`;--",
    "a*?[]",
    "ä",
    "a\u0308",
    "日本語",
    "\U0001f600",
    "CON",
    "zoned.db",
]

Call = Callable[[FileStore, str], Awaitable[object]]


async def first(pieces: AsyncIterator[bytes]) -> object:
    return await anext(pieces)


ZONE_CALLS: dict[str, Call] = {
    "write": lambda store, zone: store.write(zone, "f", b"x"),
    "append": lambda store, zone: store.append(zone, "f", b"x"),
    "append_lines": lambda store, zone: store.append_lines(zone, "f", ["x"]),
    "append_lines of none": lambda store, zone: store.append_lines(zone, "f", []),
    "read": lambda store, zone: store.read(zone, "f"),
    "open_read": lambda store, zone: first(aiter(store.open_read(zone, "f"))),
    "read_lines": lambda store, zone: store.read_lines(zone, "f", 0, 1),
    "digest": lambda store, zone: store.digest(zone, "f"),
    "stat": lambda store, zone: store.stat(zone, "f"),
    "files": lambda store, zone: store.files(zone),
    "zone": lambda store, zone: store.zone(zone),
    "set_meta of file": lambda store, zone: store.set_meta(zone, "f", {"a": 1}),
    "set_meta of zone": lambda store, zone: store.set_meta(zone, None, {"a": 1}),
    "delete_file": lambda store, zone: store.delete_file(zone, "f"),
    "delete_zone": lambda store, zone: store.delete_zone(zone),
    "move_zone from": lambda store, zone: store.move_zone(zone, "new"),
    "move_zone to": lambda store, zone: store.move_zone("z", zone),
    "copy_zone from": lambda store, zone: store.copy_zone(zone, "new"),
    "copy_zone to": lambda store, zone: store.copy_zone("z", zone),
}
FILE_CALLS: dict[str, Call] = {
    "write": lambda store, name: store.write("z", name, b"x"),
    "append": lambda store, name: store.append("z", name, b"x"),
    "append_lines": lambda store, name: store.append_lines("z", name, ["x"]),
    "append_lines of none": lambda store, name: store.append_lines("z", name, []),
    "read": lambda store, name: store.read("z", name),
    "open_read": lambda store, name: first(aiter(store.open_read("z", name))),
    "read_lines": lambda store, name: store.read_lines("z", name, 0, 1),
    "digest": lambda store, name: store.digest("z", name),
    "stat": lambda store, name: store.stat("z", name),
    "set_meta": lambda store, name: store.set_meta("z", name, {"a": 1}),
    "delete_file": lambda store, name: store.delete_file("z", name),
}


async def assert_refused(store: FileStore, call: Call, value: str) -> None:
    await store.append("z", "f", b"there")
    position = store.position
    with pytest.raises(InvalidNameError) as caught:
        await call(store, value)
    shown = str(caught.value)
    assert isinstance(caught.value, InvalidArgumentError)
    assert ascii(value)[1:-1][:40] in shown
    assert shown.replace("…", "").isascii(), "escaped: safe on any terminal, in any log"
    assert shown.isprintable()
    assert store.position == position, "nothing was changed"
    assert len((await store.zones()).zones) == 1


@pytest.mark.parametrize("operation", ZONE_CALLS)
async def test_zone_name_that_is_bad_is_refused_by_every_operation(
    store: FileStore, operation: str
) -> None:
    for value in (*BAD, "x" * 257):
        await assert_refused(store, ZONE_CALLS[operation], value)


@pytest.mark.parametrize("operation", FILE_CALLS)
async def test_file_name_that_is_bad_is_refused_by_every_operation(
    store: FileStore, operation: str
) -> None:
    for value in (*BAD, "x" * 129):
        await assert_refused(store, FILE_CALLS[operation], value)


@pytest.mark.parametrize(
    "value", [*GOOD, "x" * 256, "\U0001f600" * 256], ids=lambda v: ascii(v)[:20]
)
async def test_zone_name_that_is_good_is_taken_as_it_is(store: FileStore, value: str) -> None:
    await store.write(value, "f", b"x")
    zone = await store.zone(value)
    assert zone is not None
    assert zone.name == value
    assert [found.name for found in (await store.zones(value)).zones] == [value]
    await store.move_zone(value, "plain")
    await store.copy_zone("plain", value)
    assert await store.read(value, "f") == b"x"
    assert await store.delete_zone(value)


@pytest.mark.parametrize(
    "value", [*GOOD, "x" * 128, "\U0001f600" * 128], ids=lambda v: ascii(v)[:20]
)
async def test_file_name_that_is_good_is_taken_as_it_is(store: FileStore, value: str) -> None:
    await store.append("z", value, b"line\n")
    await store.set_meta("z", value, {"a": 1})
    infos = await store.files("z")
    assert infos is not None
    assert [info.name for info in infos] == [value]
    assert await store.read("z", value) == b"line\n"
    assert await store.delete_file("z", value)


async def test_names_that_look_alike_are_different(store: FileStore) -> None:
    """No folding of case, no normal forms: a name is its code points."""
    names = ["a", "A", "ä", "a\u0308", "a ", " a", "\u212b", "\u00c5"]
    for name in names:
        await store.write(name, name, name.encode())
    assert len((await store.zones()).zones) == len(names)
    for name in names:
        assert await store.read(name, name) == name.encode()


@pytest.mark.parametrize("value", [None, 5, b"bytes", ["z"], ("z",)], ids=repr)
async def test_name_that_is_no_text_is_refused(store: FileStore, value: object) -> None:
    """Anything else than a good name is an InvalidNameError, and nothing is stored under it."""
    calls = [*ZONE_CALLS.values()]
    if value is not None:
        calls += FILE_CALLS.values()
    else:
        calls += [call for operation, call in FILE_CALLS.items() if operation != "set_meta"]
    await store.append("z", "f", b"there")
    position = store.position
    for call in calls:
        with pytest.raises(InvalidNameError):
            await call(store, value)  # type: ignore[arg-type]  # wrong on purpose
    assert store.position == position


async def test_name_that_is_long_is_shown_shortened(store: FileStore) -> None:
    with pytest.raises(InvalidNameError) as caught:
        await store.stat("y" * 100_000, "f")
    assert "y" * 50 in str(caught.value)
    assert len(str(caught.value)) < 300


async def test_name_that_is_bad_inside_unit_undoes_the_unit(store: FileStore) -> None:
    async def unit(tx: Transaction) -> None:
        await tx.write("z", "f", b"x")
        await tx.write("z", "bad\n", b"x")

    with pytest.raises(InvalidNameError):
        await store.transact(unit)
    assert await store.zone("z") is None
