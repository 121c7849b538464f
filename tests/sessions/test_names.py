"""Names: whatever is not the id of a definition or the zone of an archive is refused on every path
that takes one, before anything is touched."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filestore import (
    FileStore,
    InvalidArgumentError,
    InvalidDefinitionIdError,
    InvalidZoneError,
    StoreError,
)
from filestore.sessions import Sessions
from filestore.sessions.names import ARCHIVED_MS_MAX, check_definition_id, parse_archive, zone_of
from tests.sessions.tools import (
    HOSTILE_IDS,
    HOSTILE_IDS_WITHOUT_COLON,
    HOSTILE_ZONES,
    HOSTILE_ZONES_OF_ARCHIVES,
    all_zones,
    everything,
    snapshot,
)

Call = Callable[[Sessions, Any], object]

BY_ID: dict[str, Call] = {
    "read_state": lambda sessions, value: sessions.read_state(value),
    "write_state": lambda sessions, value: sessions.write_state(value, b"{}"),
    "append_output": lambda sessions, value: sessions.append_output(value, "line"),
    "append_output nothing": lambda sessions, value: sessions.append_output(value, ""),
    "archive": lambda sessions, value: sessions.archive(value),
    "list_archives": lambda sessions, value: sessions.list_archives(value),
    "fork to": lambda sessions, value: sessions.fork("a", value),
    "fork to, archiving": lambda sessions, value: sessions.fork("a", value, archive_first=True),
    "subscribe": lambda sessions, value: sessions.subscribe(value),
    "list_agents": lambda sessions, value: sessions.list_agents(after=value),
}
BY_ZONE: dict[str, Call] = {
    "read_archive": lambda sessions, value: sessions.read_archive(value),
    "restore": lambda sessions, value: sessions.restore(value),
    "delete_archive": lambda sessions, value: sessions.delete_archive(value),
}
BY_EITHER: dict[str, Call] = {
    "fork": lambda sessions, value: sessions.fork(value, "b"),
    "read_output": lambda sessions, value: sessions.read_output(value),
}
NOT_CALLED_WITH_NAMES = {"close", "stop_replays"}


async def run(call: Call, sessions: Sessions, value: object) -> object:
    """Do it; `subscribe` refuses at the call, the others when they are awaited."""
    done = call(sessions, value)
    return await done if isinstance(done, Awaitable) else done


async def refused(
    sessions: Sessions, call: Call, value: object, error: type[StoreError], text: str
) -> None:
    with pytest.raises(error) as caught:
        await run(call, sessions, value)
    assert str(caught.value).startswith(text), str(caught.value)
    assert str(caught.value).isascii() or str(caught.value).endswith("…")
    assert str(caught.value).isprintable()


@pytest.fixture
async def filled(sessions: Sessions) -> Sessions:
    """Sessions in which a wrong name could do harm."""
    for definition_id in ("a", "b", "agent"):
        await sessions.append_output(definition_id, "line")
        await sessions.write_state(definition_id, snapshot("hello"))
        await sessions.archive(definition_id)
    await sessions.append_output("a", "line")
    return sessions


def test_table_of_calls_holds_every_method() -> None:
    named = {name.split(" ")[0] for table in (BY_ID, BY_ZONE, BY_EITHER) for name in table}
    named = {name.rstrip(",") for name in named}
    public = {
        name
        for name, _ in inspect.getmembers(Sessions, inspect.isfunction)
        if not name.startswith("_")
    }
    assert named == public - NOT_CALLED_WITH_NAMES


@pytest.mark.parametrize("name", BY_ID)
async def test_hostile_definition_id_is_refused_and_nothing_touched(
    store: FileStore, filled: Sessions, name: str
) -> None:
    before = await everything(store)
    for value in HOSTILE_IDS:
        if name == "list_agents" and value == "":
            continue  # the start of the list
        await refused(
            filled, BY_ID[name], value, InvalidDefinitionIdError, "INVALID_DEFINITION_ID: "
        )
    assert await everything(store) == before


@pytest.mark.parametrize("name", BY_ZONE)
async def test_hostile_zone_is_refused_and_nothing_touched(
    store: FileStore, filled: Sessions, name: str
) -> None:
    before = await everything(store)
    for value in HOSTILE_ZONES_OF_ARCHIVES:
        await refused(filled, BY_ZONE[name], value, InvalidZoneError, "INVALID_ZONE: ")
    assert await everything(store) == before


@pytest.mark.parametrize("name", BY_EITHER)
async def test_hostile_place_is_refused_by_what_it_looks_like(
    store: FileStore, filled: Sessions, name: str
) -> None:
    before = await everything(store)
    for zone in HOSTILE_ZONES:
        await refused(filled, BY_EITHER[name], zone, InvalidZoneError, "INVALID_ZONE: ")
    for value in HOSTILE_IDS_WITHOUT_COLON:
        await refused(
            filled, BY_EITHER[name], value, InvalidDefinitionIdError, "INVALID_DEFINITION_ID: "
        )
    assert await everything(store) == before


@pytest.mark.parametrize(
    "value",
    ["a", "A", "0", "007", "_", "-", "--", "a-b_C9", "x" * 128, "current", "archive", "agent"],
)
async def test_plain_definition_id_is_taken(sessions: Sessions, value: str) -> None:
    assert (await sessions.append_output(value, "line")).lines == 1
    archived = await sessions.archive(value)
    assert archived is not None
    assert parse_archive(archived.archive_zoneid) == (value, archived.archived_at_ms)
    assert (await sessions.read_archive(archived.archive_zoneid)).output_lines == 1


def test_error_of_definition_id_tells_the_rule_and_the_escaped_value() -> None:
    with pytest.raises(InvalidDefinitionIdError) as caught:
        check_definition_id("é\n\ud800")
    assert str(caught.value) == (
        "INVALID_DEFINITION_ID: must be 1 to 128 of A-Z a-z 0-9 _ -, not '\\xe9\\n\\ud800'"
    )


def test_error_of_long_value_is_cut() -> None:
    with pytest.raises(InvalidDefinitionIdError) as caught:
        check_definition_id("é" * 1_000_000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("ms", [0, 1, 9, 10, 1_700_000_000_000, ARCHIVED_MS_MAX])
def test_plain_decimal_of_archive_is_taken(ms: int) -> None:
    assert parse_archive(f"agent:x-1:archive:{ms}") == ("x-1", ms)
    assert zone_of(f"agent:x-1:archive:{ms}") == f"agent:x-1:archive:{ms}"


def test_place_without_colon_is_the_current_session() -> None:
    assert zone_of("x-1") == "agent:x-1:current"


async def test_similar_definition_ids_do_not_meet(sessions: Sessions) -> None:
    """Equal but for case, prefix or what a pattern would take for a wild card."""
    names = ("a", "A", "aa", "a_", "a-", "_", "a_b", "axb")
    for name in names:
        await sessions.append_output(name, f"line of {name}")
        await sessions.archive(name)
        await sessions.append_output(name, f"next of {name}")
    for name in names:
        (row,) = await sessions.list_archives(name)
        page = await sessions.read_output(row.archive_zoneid)
        assert page.lines == [f"line of {name}".encode()]
        assert (await sessions.read_output(name)).lines == [f"next of {name}".encode()]
    assert [row.definition_id for row in await sessions.list_agents()] == sorted(names)


async def test_wrong_text_is_refused_as_an_argument(store: FileStore, sessions: Sessions) -> None:
    """What is neither text nor bytes, or text that has no bytes, is the caller's mistake."""
    wrong: list[Any] = ["\ud800", None, 7, ["x", None], [7]]
    for value in wrong:
        with pytest.raises(InvalidArgumentError):
            await sessions.append_output("a", value)
    for value in (*wrong[:3], ["x"]):
        with pytest.raises(InvalidArgumentError):
            await sessions.write_state("a", value)
    assert await all_zones(store) == []


@pytest.mark.parametrize("value", ["\ud800", "", "x" * 1_000_000, "a\x00b", 7, b"x"])
async def test_wrong_new_session_id_is_refused_or_kept_as_it_is(
    sessions: Sessions, value: Any
) -> None:
    """The one other name that a caller chooses: never an error that is not the store's."""
    await sessions.append_output("a", "line")
    try:
        made = await sessions.fork("a", "b", new_session_id=value)
    except InvalidArgumentError:
        assert (await sessions.read_state("b")).session_id == ""
        return
    assert isinstance(made, str)
    assert (await sessions.read_state("b")).session_id == made


hostile_text = st.one_of(
    st.text(max_size=140),
    st.text(st.sampled_from("agent:chivecur09 +-_\n\x00٣é\ud800"), max_size=40),
    st.builds("agent:{}:archive:{}".format, st.text(max_size=5), st.text("0179+ x:\n", max_size=6)),
)


def id_is_good(value: str) -> bool:
    allowed = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
    return 1 <= len(value) <= 128 and set(value) <= allowed


def zone_is_good(value: str) -> bool:
    parts = value.split(":")
    if len(parts) != 4 or parts[0] != "agent" or parts[2] != "archive" or not id_is_good(parts[1]):
        return False
    digits = parts[3]
    is_decimal = digits != "" and set(digits) <= set("0123456789")
    return is_decimal and str(int(digits)) == digits and int(digits) <= ARCHIVED_MS_MAX


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(value=hostile_text)
async def test_any_text_names_a_session_or_is_refused_untouched(
    store: FileStore, filled: Sessions, value: str
) -> None:
    """The rules written a second time, over all methods. A bad value leaves no trace, so one store
    serves all examples."""
    before = await everything(store)
    is_id, is_zone = id_is_good(value), zone_is_good(value)
    if not is_id:
        for name in BY_ID.keys() - {"list_agents"}:
            await refused(
                filled, BY_ID[name], value, InvalidDefinitionIdError, "INVALID_DEFINITION_ID: "
            )
    if not is_zone:
        for call in BY_ZONE.values():
            await refused(filled, call, value, InvalidZoneError, "INVALID_ZONE: ")
    if not is_id and not is_zone:
        for call in BY_EITHER.values():
            kind = InvalidZoneError if ":" in value else InvalidDefinitionIdError
            await refused(filled, call, value, kind, "INVALID_")
    assert await everything(store) == before
