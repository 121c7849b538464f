"""All that a user could tell apart in a store, for comparing one with another."""

import asyncio
from pathlib import Path
from typing import Any

from filestore import FileStore
from filestore.check import check
from filestore.records import Records
from filestore.sessions import Sessions

Contents = dict[str, Any]


async def contents_of(store: FileStore) -> Contents:
    """Zones, files with bytes, times, meta and lines, sessions with ids, previews and records, and
    repos. No versions, which are of a store alone."""
    zones: Contents = {}
    for info in (await store.zones(limit=1000)).zones:
        files = await store.files(info.name) or []
        zones[info.name] = {
            "meta": info.meta,
            "files": {
                each.name: (
                    await store.read(info.name, each.name), each.lines, each.created_ms,
                    each.modified_ms, each.meta,
                )
                for each in files
            },
        }  # fmt: skip
    records = Records(store)
    found: Contents = {
        "zones": zones,
        "sessions": {},
        "journals": {
            each.id: (each, await records.records(each.id, limit=100_000))
            for each in await records.recent(100_000)
        },
        "repos": await records.list_repos(),
    }
    async with Sessions(store) as sessions:
        for agent in await sessions.list_agents():
            current = await sessions.read_state(agent.definition_id)
            found["sessions"][agent.definition_id] = (
                current.session_id,
                agent.preview,
                await sessions.list_archives(agent.definition_id),
            )
    return found


def contents(folder: Path) -> Contents:
    """The same of a folder that nobody has open; a deep check of it must be clean."""

    async def look() -> Contents:
        async with await FileStore.open(folder) as store:
            report = await check(store, deep=True)
            assert report.is_clean, report.problems
            return await contents_of(store)

    return asyncio.run(look())
