"""`zones`: pages in name order over a prefix, forward and back, whatever changes meanwhile."""

import itertools

import pytest

from filestore import FileStore, InvalidArgumentError, Limits, Transaction
from tests.conftest import StoreOpener

NAMES = [
    "a", "a b", "a/1", "a/10", "a/2", "a/\U0001f600", "a/\uffe6", "a0", "aa", "b", "b/x", "B",
    "é", "z", "\U0001f600",
]  # fmt: skip


async def fill(store: FileStore, names: list[str]) -> None:
    async def unit(tx: Transaction) -> None:
        for name in names:
            await tx.append(name, "f", b"")

    await store.transact(unit)


async def pages(
    store: FileStore, prefix: str, limit: int, *, reverse: bool = False
) -> list[list[str]]:
    """All pages, each as the names on it."""
    found: list[list[str]] = []
    after: str | None = None
    for _ in range(1000):
        page = await store.zones(prefix, after=after, limit=limit, reverse=reverse)
        found.append([zone.name for zone in page.zones])
        after = page.after
        if after is None:
            return found
    raise AssertionError("the pages never end")


async def test_zones_of_empty_store_is_one_empty_page(store: FileStore) -> None:
    page = await store.zones()
    assert (page.zones, page.after) == ([], None)
    page = await store.zones("x", reverse=True)
    assert (page.zones, page.after) == ([], None)


async def test_zones_without_prefix_are_all_in_code_point_order(store: FileStore) -> None:
    await fill(store, NAMES)
    page = await store.zones()
    assert [zone.name for zone in page.zones] == sorted(NAMES)
    assert page.after is None


async def test_zones_are_full_infos(store: FileStore) -> None:
    await fill(store, ["a", "b"])
    await store.set_meta("b", None, {"k": [1]})
    page = await store.zones()
    assert page.zones == [await store.zone("a"), await store.zone("b")]
    assert page.zones[1].meta == {"k": [1]}


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/1", "B", "é", "\U0001f600", "nothing"])
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
async def test_zones_in_pages_give_each_match_once_in_order(
    store: FileStore, prefix: str, limit: int, reverse: bool
) -> None:
    await fill(store, NAMES)
    wanted = sorted((name for name in NAMES if name.startswith(prefix)), reverse=reverse)
    found = await pages(store, prefix, limit, reverse=reverse)
    assert list(itertools.chain(*found)) == wanted
    assert all(len(page) == limit for page in found[:-1])
    assert wanted == [] or found[-1] != [], "no empty page at the end"


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
async def test_zones_after_any_name_gives_what_is_beyond_it(
    store: FileStore, reverse: bool
) -> None:
    """Also a name that is not there, outside the prefix, or no name at all."""
    await fill(store, NAMES)
    for after in [*NAMES, "", "a/", "a/15", "A", "zz", "\U0010ffff", "~"]:
        for prefix in ("", "a", "a/", "b"):
            page = await store.zones(prefix, after=after, limit=100, reverse=reverse)
            beyond = [name for name in NAMES if (name < after if reverse else name > after)]
            wanted = sorted((n for n in beyond if n.startswith(prefix)), reverse=reverse)
            assert [zone.name for zone in page.zones] == wanted, (prefix, after)


async def test_zones_between_pages_sees_what_was_made_and_deleted(store: FileStore) -> None:
    await fill(store, ["a", "c", "e", "g"])
    first = await store.zones(limit=2)
    assert [zone.name for zone in first.zones] == ["a", "c"]
    await store.delete_zone("c")
    await store.delete_zone("e")
    await fill(store, ["b", "d", "f"])
    second = await store.zones(after=first.after, limit=10)
    assert [zone.name for zone in second.zones] == ["d", "f", "g"]


@pytest.mark.parametrize("limit", [0, -1, -1000])
async def test_zones_with_limit_below_one_raises(store: FileStore, limit: int) -> None:
    with pytest.raises(InvalidArgumentError):
        await store.zones(limit=limit)


async def test_zones_over_limit_of_store_gives_a_page_of_that_many(
    open_store: StoreOpener,
) -> None:
    store = await open_store(limits=Limits(page_rows_max=4))
    await fill(store, NAMES)
    assert await pages(store, "", 1 << 70) == [
        sorted(NAMES)[start : start + 4] for start in range(0, len(NAMES), 4)
    ]


async def test_zones_with_exactly_limit_matches_has_no_next_page(store: FileStore) -> None:
    await fill(store, ["a", "b", "c"])
    page = await store.zones(limit=3)
    assert len(page.zones) == 3
    assert page.after is None
    page = await store.zones(limit=2)
    assert page.after == "b"


@pytest.mark.parametrize("prefix", ["%", "_", "a%", "'", "\0", "a\0", "\n", "*", "x" * 5000])
async def test_zones_with_odd_prefix_takes_it_literally(store: FileStore, prefix: str) -> None:
    await fill(store, ["a", "a%b", "a_b", "abc", "%x", "'q", "*"])
    page = await store.zones(prefix)
    names = ["a", "a%b", "a_b", "abc", "%x", "'q", "*"]
    assert [zone.name for zone in page.zones] == sorted(n for n in names if n.startswith(prefix))


@pytest.mark.parametrize(("prefix", "after"), [("a\ud800", None), ("", "a\ud800")])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
async def test_zones_with_lone_surrogate_raises_ours(
    store: FileStore, prefix: str, after: str | None, reverse: bool
) -> None:
    """It comes from outside (JSON can carry it), so it must not end in an error of the driver."""
    with pytest.raises(InvalidArgumentError):
        await store.zones(prefix, after=after, reverse=reverse)


async def test_zones_of_many_pages_are_all_there(store: FileStore) -> None:
    names = [f"agent-{number:05}" for number in range(2500)]
    await fill(store, names)
    found = await pages(store, "agent-", 1000)
    assert [len(page) for page in found] == [1000, 1000, 500]
    assert list(itertools.chain(*found)) == names
    found = await pages(store, "agent-", 999, reverse=True)
    assert list(itertools.chain(*found)) == names[::-1]
