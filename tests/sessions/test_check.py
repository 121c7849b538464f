"""Damage to what is known of sessions: the check tells of it, and nobody reads it unawares."""

from pathlib import Path

import pytest

from filestore import CorruptionError
from filestore.check import check
from filestore.engine.schema import row_check
from tests.conftest import StoreOpener
from tests.contract.tools import run_sql
from tests.sessions.conftest import OpenSessions
from tests.sessions.tools import snapshot

Statement = str | tuple[str, tuple[object, ...]]


def agent_row(name: str, archives: int) -> Statement:
    """A row that is sound in itself."""
    return (
        "INSERT OR REPLACE INTO agent VALUES (?, ?, ?)",
        (name, archives, row_check(name, archives)),
    )


DAMAGE: list[tuple[str, list[Statement], str]] = [
    ("preview", ["UPDATE session SET preview = 'x' WHERE archived_ms > 0"], "fails its check"),
    ("session id", ["UPDATE session SET session_id = 'x' WHERE archived_ms > 0"], "fails its"),
    ("count", ["UPDATE agent SET archives = 7"], "fails its check"),
    ("wrong count", [agent_row("a", 7)], "agent 'a' counts 7 archives, not 1"),
    ("agent without session", [agent_row("ghost", 0)], "agent 'ghost' has no session"),
    ("agent missing", ["DELETE FROM agent"], "agent 'a' is missing"),
    ("row of archive missing", ["DELETE FROM session WHERE archived_ms > 0"], "counts 1 archives"),
    ("zone missing", ["UPDATE session SET zone_id = 999 WHERE archived_ms > 0"], "lost its zone"),
]


@pytest.fixture
async def at_rest(open_store: StoreOpener, on: OpenSessions, database: Path) -> Path:
    """The database of a closed store with a current session and an archive."""
    store = await open_store()
    sessions = on(store)
    await sessions.write_state("a", snapshot("hello"))
    await sessions.archive("a")
    await sessions.append_output("a", "line")
    await store.close()
    return database


async def test_check_of_sessions_at_rest_is_clean(open_store: StoreOpener, at_rest: Path) -> None:
    assert (await check(await open_store(), deep=True)).is_clean


@pytest.mark.parametrize(("what", "statements", "told"), DAMAGE, ids=lambda v: str(v)[:25])
async def test_check_tells_of_damaged_session(
    open_store: StoreOpener, at_rest: Path, what: str, statements: list[Statement], told: str
) -> None:
    open_store.is_checked = False
    run_sql(at_rest, *statements)
    report = await check(await open_store())
    assert any(told in str(problem) for problem in report.problems), (what, report.problems)


async def test_damaged_session_row_is_refused(
    open_store: StoreOpener, on: OpenSessions, at_rest: Path
) -> None:
    open_store.is_checked = False
    run_sql(at_rest, "UPDATE session SET preview = 'forged'")
    sessions = on(await open_store())
    with pytest.raises(CorruptionError):
        await sessions.read_state("a")
    with pytest.raises(CorruptionError):
        await sessions.list_archives("a")
    with pytest.raises(CorruptionError):
        await sessions.archive("a")


async def test_damaged_agent_row_is_refused(
    open_store: StoreOpener, on: OpenSessions, at_rest: Path
) -> None:
    open_store.is_checked = False
    run_sql(at_rest, "UPDATE agent SET archives = 7")
    sessions = on(await open_store())
    with pytest.raises(CorruptionError):
        await sessions.list_agents()
    with pytest.raises(CorruptionError):
        await sessions.archive("a")
    assert (await sessions.read_output("a")).lines == [b"line"], "the stream is still there"


async def test_damaged_row_of_one_agent_leaves_the_others(
    open_store: StoreOpener, on: OpenSessions, at_rest: Path
) -> None:
    open_store.is_checked = False
    run_sql(at_rest, "UPDATE session SET preview = 'forged'")
    sessions = on(await open_store())
    await sessions.append_output("b", "line")
    assert await sessions.archive("b") is not None
