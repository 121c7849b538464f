"""Step 2, `migrate_promote_template_sessions_v1`: sessions of templates go to definitions of their
own.

The invariant is that a seeded definition (a template) owns no session zone. It is looked at every
time; there is no marker. Where it is broken, a copy of the template with a fixed id takes over all
its zones and instances, in one transaction for each template, so a retry meets the template as it
was, or nothing to do.
"""

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import orjson

from filestore import StoreError, Transaction
from filestore.sessions.names import check_definition_id, current_zone
from migrations.backups import ensure_backup
from migrations.run import Run, fail
from migrations.stats import Failure, Stats
from migrations.steps.move_zones import move_zone_to
from migrations.steps.parts import FATAL
from migrations.steps.records import (
    DEFINITIONS,
    INSTANCES,
    NoRecordError,
    Record,
    names_after,
    read_page,
    read_record,
)
from migrations.steps.templates import find_templates, note_templates, templates_with_sessions

NAME = "migrate_promote_template_sessions_v1"
VERSION = 1
COUNTS = ("templates_scanned", "templates_promoted", "archives_moved", "instances_repointed")
TARGET_PREFIX = "template-promote-v1-"
COPIED = (
    "icon",
    "provider",
    "description",
    "shell",
    "provider_flags",
    "restart_on_crash",
    "idle_timeout_minutes",
    "agent_type",
    "environment",
)
EMPTY = ("slug", "working_directory", "agent_bus_id", "accounts", "branch_label")


class Moved(NamedTuple):
    """What promoting one template did."""

    archives: int
    instances: int


async def promote_templates(run: Run, stats: Stats, _: Iterable[Failure] | None) -> None:
    """Promote the sessions of all templates that have any."""
    templates = await run.store.view(templates_with_sessions)
    if templates:
        await _promote_all(run, stats, templates)
    if not (await run.store.view(find_templates)).is_noted:
        await run.transact(note_templates)


async def _promote_all(run: Run, stats: Stats, templates: dict[str, Record]) -> None:
    stats.count("templates_scanned", len(templates))
    try:
        await ensure_backup(run, NAME, VERSION)
    except (StoreError, OSError) as error:
        # Without one nothing of the users' is moved.
        fail(stats, Failure("backup", "", "", str(error)))
        return
    instances = await _instances_of(run, set(templates))
    for number, (template_id, record) in enumerate(sorted(templates.items()), 1):
        await _promote(run, stats, template_id, record, instances.get(template_id, []))
        run.progress(NAME, number, len(templates))


async def _instances_of(run: Run, template_ids: set[str]) -> dict[str, list[Record]]:
    """The instances of each template; each with its name in the store as `id`."""
    found: dict[str, list[Record]] = {template_id: [] for template_id in template_ids}
    after = ""
    while names := await run.store.view(partial(names_after, zone=INSTANCES, after=after)):
        after = names[-1]
        page = await run.store.view(partial(read_page, zone=INSTANCES, names=names))
        for name, record in page:
            if not isinstance(record, Exception) and record.get("definition_id") in template_ids:
                found[record["definition_id"]].append({**record, "id": name})
    return found


async def _promote(
    run: Run, stats: Stats, template_id: str, record: Record, instances: list[Record]
) -> None:
    try:
        target = TARGET_PREFIX + check_definition_id(template_id)
        check_definition_id(target)
        unit = partial(
            promote, template_id=template_id, target=target, template=record, instances=instances
        )
        moved = await run.transact(unit)
    except FATAL:
        raise
    except (StoreError, NoRecordError) as error:
        fail(stats, Failure(DEFINITIONS, template_id, "", str(error)))
        return
    run.hit("template.committed")
    stats.count("templates_promoted")
    stats.count("archives_moved", moved.archives)
    stats.count("instances_repointed", moved.instances)


async def promote(
    tx: Transaction, template_id: str, target: str, template: Record, instances: list[Record]
) -> Moved:
    """Give all that a template owns to its copy."""
    if await tx.stat(DEFINITIONS, target) is None:
        copy = copy_of(template_id, target, template, instances, tx.rows.now_ms())
        await tx.write(DEFINITIONS, target, orjson.dumps(copy))
    moved = 0
    # Archives first: what a current session pushes aside takes a time that none of them has.
    for zone in await _archive_zones(tx, template_id):
        moved += await move_zone_to(tx, zone, target)
    if await tx.zone_row(current_zone(template_id)) is not None:
        await move_zone_to(tx, current_zone(template_id), target)
    repointed = 0
    for instance in instances:
        repointed += await _repoint(tx, instance["id"], template_id, target)
    return Moved(moved, repointed)


def copy_of(
    template_id: str, target: str, template: Record, instances: list[Record], now_ms: int
) -> Record:
    """The definition that takes over from a template."""
    return (
        {"id": target, "name": _name(template, instances)}
        | {key: template[key] for key in COPIED if key in template}
        | dict.fromkeys(EMPTY, "")
        | {"auto_start": 0, "is_seeded": 0, "user_hidden": 0, "parent_id": template_id}
        | {"created_at": now_ms, "updated_at": now_ms}
    )


def _name(template: Record, instances: list[Record]) -> str:
    """The name of the most recently started instance that has one and is not hidden."""
    named = [
        instance
        for instance in instances
        if str(instance.get("instance_name") or "").strip() and not instance.get("display_hidden")
    ]
    if not named:
        return str(template.get("name") or "")
    newest = max(
        named,
        key=lambda one: (_time(one, "started_at"), _time(one, "created_at"), str(one["id"])),
    )
    return str(newest["instance_name"])


def _time(record: Record, key: str) -> float:
    value = record.get(key)
    return value if isinstance(value, int | float) else 0


async def _archive_zones(tx: Transaction, template_id: str) -> list[str]:
    found: list[str] = []
    after: str | None = None
    while True:
        page = await tx.zones(f"agent:{template_id}:archive:", after=after, limit=1000)
        found += [zone.name for zone in page.zones]
        after = page.after
        if after is None:
            return found


async def _repoint(tx: Transaction, name: str, template_id: str, target: str) -> bool:
    record = await read_record(tx, INSTANCES, name)
    if record.get("definition_id") != template_id:
        return False
    await tx.write(INSTANCES, name, orjson.dumps(record | {"definition_id": target}))
    return True
