"""`set_meta`: a shallow merge of JSON into a file's or a zone's meta; null deletes a key."""

import pytest

from filestore import (
    FileStore,
    InvalidArgumentError,
    Limits,
    NotFoundError,
    TooLargeError,
    Transaction,
)
from filestore.model import Json
from tests.conftest import StoreOpener
from tests.contract.tools import take

EVERYTHING: dict[str, Json] = {
    "null inside": [None, {"x": None}],
    "true": True,
    "false": False,
    "int": 5,
    "negative": -5,
    "large": 2**53,
    "float": 1.5,
    "text": "äöü \U0001f600 \0 \n",
    "empty": "",
    "list": [1, "two", [3.5, []]],
    "object": {"a": {"b": {}}},
    "": "the empty key",
}


@pytest.fixture(params=["f", None], ids=["file", "zone"])
def name(request: pytest.FixtureRequest) -> str | None:
    """Whose meta: a file's, or its zone's."""
    found: str | None = request.param
    return found


@pytest.fixture
async def made(store: FileStore) -> FileStore:
    await store.append("z", "f", b"content")
    return store


async def meta_of(store: FileStore, name: str | None) -> dict[str, Json]:
    info = await (store.zone("z") if name is None else store.stat("z", name))
    assert info is not None
    return dict(info.meta)


async def test_set_meta_merges_and_returns_all(made: FileStore, name: str | None) -> None:
    assert await made.set_meta("z", name, {"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert await made.set_meta("z", name, {"b": 3, "c": 4}) == {"a": 1, "b": 3, "c": 4}
    assert await meta_of(made, name) == {"a": 1, "b": 3, "c": 4}


async def test_set_meta_with_null_deletes_the_key(made: FileStore, name: str | None) -> None:
    await made.set_meta("z", name, {"a": 1, "b": 2})
    assert await made.set_meta("z", name, {"a": None, "missing": None}) == {"b": 2}
    assert await meta_of(made, name) == {"b": 2}


async def test_set_meta_is_shallow(made: FileStore, name: str | None) -> None:
    await made.set_meta("z", name, {"a": {"x": 1, "y": 2}})
    assert await made.set_meta("z", name, {"a": {"z": None}}) == {"a": {"z": None}}


async def test_set_meta_keeps_every_kind_of_value(
    open_store: StoreOpener, made: FileStore, name: str | None
) -> None:
    assert await made.set_meta("z", name, EVERYTHING) == EVERYTHING
    await made.close()
    store = await open_store()
    found = await meta_of(store, name)
    assert found == EVERYTHING
    assert found["true"] is True
    assert type(found["int"]) is int


@pytest.mark.parametrize(
    ("old", "new"),
    [(1, True), (0, False), (True, 1), (1, 1.0), ([1], [True]), ({"a": 0}, {"a": False})],
    ids=repr,
)
async def test_set_meta_to_value_python_finds_equal_stores_the_new_one(
    made: FileStore, name: str | None, old: Json, new: Json
) -> None:
    """1, 1.0 and true are equal in Python, but three different values in JSON."""
    await made.set_meta("z", name, {"k": old})
    assert repr(await made.set_meta("z", name, {"k": new})) == repr({"k": new})
    assert repr(await meta_of(made, name)) == repr({"k": new})


async def test_set_meta_of_nothing_new_changes_nothing(made: FileStore, name: str | None) -> None:
    await made.set_meta("z", name, {"a": [1, {"b": 2}], "c": "d"})
    position, changes = made.position, made.changes()
    zone = await made.zone("z")
    nothing_new: list[dict[str, Json]] = [
        {},
        {"a": [1, {"b": 2}]},
        {"missing": None},
        {"c": "d", "x": None},
    ]
    for same in nothing_new:
        assert await made.set_meta("z", name, same) == {"a": [1, {"b": 2}], "c": "d"}
    assert made.position == position
    assert await made.zone("z") == zone
    marker = await made.append("z", "marker", b"x")
    assert (await anext(changes)).version == marker.version


async def test_set_meta_of_file_keeps_its_content_and_version(made: FileStore) -> None:
    before = await made.stat("z", "f")
    await made.set_meta("z", "f", {"a": 1})
    after = await made.stat("z", "f")
    assert before is not None
    assert after is not None
    assert (after.version, after.size, after.lines) == (before.version, before.size, before.lines)
    assert await made.read("z", "f") == b"content"
    written = await made.write("z", "f", b"state", if_version=before.version)
    await made.set_meta("z", "f", {"a": 2})
    after = await made.stat("z", "f")
    assert after is not None
    assert (after.version, after.digest) == (written.version, written.digest)


async def test_set_meta_change_of_file_carries_its_content_version(made: FileStore) -> None:
    info = await made.stat("z", "f")
    assert info is not None
    changes = made.changes()
    await made.set_meta("z", "f", {"a": 1})
    (change,) = await take(changes, 1)
    assert (change.kind, change.zone, change.name) == ("meta", "z", "f")
    assert change.version == info.version
    assert change.position > info.version
    assert change.position == made.position


async def test_set_meta_change_of_zone_carries_its_new_version(made: FileStore) -> None:
    changes = made.changes()
    await made.set_meta("z", None, {"a": 1})
    zone = await made.zone("z")
    assert zone is not None
    (change,) = await take(changes, 1)
    assert (change.kind, change.zone, change.name) == ("meta", "z", None)
    assert change.version == zone.version == change.position


async def test_set_meta_of_file_with_unsealed_tail_keeps_the_tail(made: FileStore) -> None:
    await made.append("z", "f", b" more")
    await made.set_meta("z", "f", {"a": 1})
    await made.append("z", "f", b" and more")
    assert await made.read("z", "f") == b"content more and more"


@pytest.mark.parametrize("name", [None, "f"])
async def test_set_meta_of_missing_raises(store: FileStore, name: str | None) -> None:
    with pytest.raises(NotFoundError) as caught:
        await store.set_meta("z", name, {"a": 1})
    assert (caught.value.zone, caught.value.name) == ("z", name)
    assert await store.zone("z") is None


async def test_set_meta_of_missing_file_in_zone_raises(made: FileStore) -> None:
    with pytest.raises(NotFoundError):
        await made.set_meta("z", "other", {"a": 1})


def deep(levels: int) -> Json:
    value: Json = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        b"bytes",
        {1, 2},
        object(),
        {1: "number as key"},
        {None: "null as key"},
        [{"inner": {"x": b"deep"}}],
        "half \ud800",
        {"\udc00": 1},
        2**64,
        -(2**63) - 1,
        deep(100_000),
        1 + 2j,
        float("nan"),
        float("inf"),
        [-float("inf")],
    ],
    ids=lambda value: f"{type(value).__name__} {ascii(value)[:20]}" if value.__class__ is not list
    else "list",
)  # fmt: skip
async def test_set_meta_of_what_is_not_json_raises_and_changes_nothing(
    made: FileStore, name: str | None, value: object
) -> None:
    await made.set_meta("z", name, {"kept": 1})
    with pytest.raises(InvalidArgumentError):
        await made.set_meta("z", name, {"good": 1, "bad": value})  # type: ignore[dict-item]  # on purpose
    assert await meta_of(made, name) == {"kept": 1}


@pytest.mark.parametrize("key", [5, None, b"k", "half \ud800"], ids=ascii)
async def test_set_meta_with_key_that_is_no_text_raises(
    made: FileStore, name: str | None, key: object
) -> None:
    with pytest.raises(InvalidArgumentError):
        await made.set_meta("z", name, {key: 1})  # type: ignore[dict-item]  # wrong on purpose
    assert await meta_of(made, name) == {}


async def test_set_meta_over_limit_raises_and_changes_nothing(open_store: StoreOpener) -> None:
    """The limit is on the whole meta as JSON, not on one call's changes."""
    store = await open_store(limits=Limits(meta_bytes_max=40))
    await store.append("z", "f", b"x")
    assert len('{"a":"' + "x" * 32 + '"}') == 40
    await store.set_meta("z", "f", {"a": "x" * 32})
    for changes in ({"a": "x" * 33}, {"b": 1}):
        with pytest.raises(TooLargeError) as caught:
            await store.set_meta("z", "f", changes)
        assert caught.value.limit == 40
    assert await meta_of(store, "f") == {"a": "x" * 32}
    await store.set_meta("z", "f", {"a": None, "b": 1})
    assert await meta_of(store, "f") == {"b": 1}


async def test_set_meta_result_is_the_caller_s_own(made: FileStore, name: str | None) -> None:
    """Changing what was handed in or given back changes nothing in the store."""
    inner: list[Json] = [1]
    result = await made.set_meta("z", name, {"a": inner})
    inner.append(2)
    assert isinstance(result, dict)
    result["b"] = 1
    assert await meta_of(made, name) == {"a": [1]}


async def test_set_meta_in_unit_is_seen_there_and_undone_with_it(
    made: FileStore, name: str | None
) -> None:
    await made.set_meta("z", name, {"a": 1})

    async def unit(tx: Transaction) -> None:
        assert await tx.set_meta("z", name, {"a": 2, "b": 3}) == {"a": 2, "b": 3}
        info = await (tx.zone("z") if name is None else tx.stat("z", name))
        assert info is not None
        assert info.meta == {"a": 2, "b": 3}
        raise LookupError

    with pytest.raises(LookupError):
        await made.transact(unit)
    assert await meta_of(made, name) == {"a": 1}
