"""REST and the records below it: calls against a bare handler on the same server, lists of few and
of very many sessions, and clean-up.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from urllib.parse import quote

from bench.measure import Context, Row, Target, compare, in_turn, median_us
from bench.rpc import Running, _server
from filestore import FileStore
from filestore.engine.driver import Connection
from filestore.journal import writing as journal
from filestore.records import Filter, NewSession, Records
from filestore.records.lists import ROWS_MAX
from filestore.records.repos import Repo, add_repo
from filestore.transaction import Transaction

PAGE = 20
FEW = 1000
REPOS = 10
AGENTS = 7
BATCH = 500
COLUMNS = ("session_id, definition_id, status, phase, origin, created_ms, updated_ms, agent_name, "
           "repo_id")  # fmt: skip


# -- calls


@contextmanager
def bare_daemon(folder: Path, workspace: Path) -> Iterator[Running]:
    """A daemon with the bare handler, and room for all the sessions that are begun."""
    settings = {"workspace_root": str(workspace.resolve()), "sessions_max": 1_000_000, "port": 0}
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    (folder / "zoned.toml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "bench.bare", "serve", "--data-dir", str(folder)]
    with _server(command) as (line, pid, ready_s):
        yield Running(json.loads(line)["socket"], pid, ready_s)


Request = tuple[str, str, str]


async def load(
    at: Running, clients: int, seconds: float, requests: list[Request], *, is_once: bool = False
) -> dict[str, float]:
    """Have clients ask from another process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.rest_load", stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    asked = {"path": at.socket, "clients": clients, "seconds": seconds, "requests": requests,
             "is_once": is_once}  # fmt: skip
    out, _ = await process.communicate(json.dumps(asked).encode())
    found: dict[str, float] = json.loads(out)
    return found


async def rest_calls(context: Context) -> list[Row]:
    """Create, prompt and list, at one client and at 64, against the bare handler. No bound."""
    folder, workspace = context.fresh("calls"), context.fresh("workspace")
    seconds = context.pick(1, 5, 10) / 10
    rounds = context.rounds
    prompts = context.pick(20, 600, 4000)
    async with await FileStore.open(folder) as store:
        repo = await Records(store).add_repo(".", None, workspace)
        made = await _fill(store, (prompts + 64) * 2 * (rounds + 1), [repo])
    left = iter(made)
    body = json.dumps({"repoId": repo.id, "agent": "coder"})
    rows = []
    with bare_daemon(folder, workspace) as at:
        for clients in (1, 64):
            for name, asked in (
                ("create", ("POST", "/api/sessions", body)),
                ("prompt", None),
                ("list", ("GET", f"/api/sessions?limit={PAGE}", "")),
            ):

                async def ours(asked: Request | None = asked, clients: int = clients) -> float:
                    if asked is not None:
                        return (await load(at, clients, seconds, [asked]))["rate"]
                    text = json.dumps({"text": "Why does the checkout fail?"})
                    each_once: list[Request] = [
                        ("POST", f"/api/sessions/{quote(next(left))}/prompt", text)
                        for _ in range(prompts)
                    ]
                    return (await load(at, clients, seconds, each_once, is_once=True))["rate"]

                async def baseline(
                    method: str = "GET" if name == "list" else "POST", clients: int = clients
                ) -> float:
                    sent = "" if method == "GET" else body
                    return (await load(at, clients, seconds, [(method, "/bare", sent)]))["rate"]

                pairs = await in_turn(ours, baseline, rounds)
                rows.append(compare(f"rest_{name}_{clients}", pairs, "/s", None))
    context.drop(folder)
    return rows


# -- lists


async def _fill(store: FileStore, count: int, repos: list[Repo]) -> list[str]:
    """Sessions of all statuses, repos and agents, in turn. Their ids."""
    made = [f"session-{number}" for number in range(count)]

    async def unit(tx: Transaction, numbers: range) -> None:
        for number in numbers:
            about = {"agent_name": f"agent-{number % AGENTS}",
                     "repo_id": repos[number % len(repos)].id}  # fmt: skip
            row = await journal.begin(tx.rows, made[number], made[number], "rest", about)
            # Nine of ten have ended, in a store that has seen some use; not where they are asked.
            if len(repos) > 1 and number % 11:
                await journal.end(tx.rows, row, ("completed", "failed", "abandoned")[number % 3])

    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        await store.transact(partial(unit, numbers=numbers))
    return made


async def _add_repos(tx: Transaction, repos: list[Repo]) -> None:
    for repo in repos:
        await add_repo(tx.rows, repo)


async def sessions_store(context: Context, count: int) -> Path:
    """A store of so many sessions, made once."""

    async def make(folder: Path) -> None:
        async with await FileStore.open(folder) as store:
            repos = [Repo(f"repo-{number}", f"/{number}", "x", 1) for number in range(REPOS)]
            await store.transact(partial(_add_repos, repos=repos))
            await _fill(store, count, repos)

    return await context.shared(f"sessions-{count}", make)


async def rest_pages(context: Context) -> list[Row]:
    """A page of 20 out of very many sessions, against out of 1000, by every kind of filter."""
    many, count = context.pick(2000, 20_000, 100_000), context.pick(10, 200, 400)
    filters = {
        "all": (Filter(), 2.0),
        "status": (Filter(("active",)), 2.0),
        "statuses": (Filter(("active", "error")), 2.0),
        "repo": (Filter(repo_id="repo-3"), 10.0),
        "agent": (Filter(agent_name="agent-3"), 10.0),
        "both": (Filter(("completed",), "repo-3", "agent-3"), 10.0),
    }
    rows = []
    async with (
        await FileStore.open(await sessions_store(context, many)) as many_side,
        await FileStore.open(await sessions_store(context, FEW)) as few_side,
    ):
        for name, (wanted, bound) in filters.items():

            async def measure(store: FileStore, wanted: Filter = wanted) -> float:
                records = Records(store)
                return await median_us(lambda _: records.page(wanted, limit=PAGE), count)

            pairs = await in_turn(
                partial(measure, many_side), partial(measure, few_side), context.rounds
            )
            note = f"{many} sessions against {FEW}"
            rows.append(compare(f"rest_page_{name}", pairs, "µs", Target("≤", bound), note))
    return rows


class RawSessions:
    """The rows that a list of sessions shows, in one table with a covering index."""

    def __init__(self, path: Path, store: Path) -> None:
        self._connection = Connection(str(path), isolation_level=None, uri=True)
        run = self._connection.execute
        run("PRAGMA journal_mode = WAL").fetchone()
        run("PRAGMA synchronous = FULL")
        run("ATTACH ? AS store", (f"file:{quote(str(store))}?immutable=1",))
        run(f"CREATE TABLE sessions AS SELECT id, {COLUMNS}, more FROM store.journal")
        run(f"CREATE INDEX covering ON sessions (id, {COLUMNS}, more)")
        run("DETACH store")
        run("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def list_all(self, page: int, wanted: int) -> None:
        """Fetch `wanted` rows page by page, newest first."""
        seen, before = 0, 1 << 62
        sql = f"SELECT id, {COLUMNS}, more FROM sessions WHERE id < ? ORDER BY id DESC LIMIT ?"
        while seen < wanted:
            rows = self._connection.execute(sql, (before, page)).fetchall()
            seen += len(rows)
            before = rows[-1][0]

    def delete(self, count: int) -> float:
        """Delete so many rows in one transaction. Seconds; they are put back after."""
        run = self._connection.execute
        rows = run("SELECT * FROM sessions LIMIT ?", (count,)).fetchall()
        started = time.perf_counter()
        run("BEGIN IMMEDIATE")
        for row in rows:
            run("DELETE FROM sessions WHERE id = ?", (row[0],))
        run("COMMIT")
        taken = time.perf_counter() - started
        run("BEGIN IMMEDIATE")
        for row in rows:
            run(f"INSERT INTO sessions VALUES ({', '.join('?' * len(row))})", row)
        run("COMMIT")
        return taken

    def close(self) -> None:
        """Close."""
        self._connection.close()


async def rest_list(context: Context) -> list[Row]:
    """All of 1000 sessions in pages of 100, against the same pages from a raw covering index."""
    folder = await sessions_store(context, FEW)
    raw_folder = context.fresh("rest_list")
    raw = RawSessions(raw_folder / "raw.db", folder / "zoned.db")
    async with await FileStore.open(folder) as store:
        records = Records(store)

        async def list_all(_: int) -> None:
            for offset in range(0, FEW, ROWS_MAX):
                await records.page(Filter(), limit=ROWS_MAX, offset=offset)

        async def ours() -> float:
            return await median_us(list_all, 10)

        async def baseline() -> float:
            found = []
            for _ in range(10):
                started = time.perf_counter()
                raw.list_all(ROWS_MAX, FEW)
                found.append(time.perf_counter() - started)
            return median(found) * 1e6

        pairs = await in_turn(ours, baseline, context.rounds)
    raw.close()
    context.drop(raw_folder)
    return [compare("rest_list_1000", pairs, "µs", Target("≤", 5), f"{FEW} sessions")]


async def cleanup(context: Context) -> list[Row]:
    """Deleting old sessions with all that belongs to them, against deleting as many raw rows in one
    transaction. No bound.
    """
    count = context.pick(100, FEW, FEW)
    folder = await sessions_store(context, FEW)
    fresh = context.fresh("cleanup")
    raw = RawSessions(fresh / "raw.db", folder / "zoned.db")
    async with await FileStore.open(fresh / "ours") as store:
        records = Records(store)

        async def ours() -> float:
            async with asyncio.TaskGroup() as group:
                for number in range(count):
                    group.create_task(records.create(NewSession("cli", f"old-{number}")))
            started = time.perf_counter()
            gone = await records.cleanup(1 << 60)
            taken = time.perf_counter() - started
            assert len(gone) == count
            return taken * 1e3

        async def baseline() -> float:
            return raw.delete(count) * 1e3

        pairs = await in_turn(ours, baseline, context.rounds)
    raw.close()
    context.drop(fresh)
    return [compare("rest_cleanup", pairs, "ms", None, f"{count} sessions")]
