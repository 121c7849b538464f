"""Migrations: from the old layout, and from one format of our own tables to the next.

`migrate` runs what is due for users' data on an open store; `up`, `down` and `status` are about the
tables, of a store that is not open. See docs/specs/0005-migrations.md.
"""

from migrations.format import StepStatus, down, status, up
from migrations.progress import ProgressLog
from migrations.run import Progress
from migrations.runner import (
    forget_markers,
    import_legacy_v1,
    migrate,
    migrate_block_zones_v1,
    migrate_promote_template_sessions_v1,
    pending,
    try_out,
)
from migrations.stats import Failure, Stats

__all__ = [
    "Failure",
    "Progress",
    "ProgressLog",
    "Stats",
    "StepStatus",
    "down",
    "forget_markers",
    "import_legacy_v1",
    "migrate",
    "migrate_block_zones_v1",
    "migrate_promote_template_sessions_v1",
    "pending",
    "status",
    "try_out",
    "up",
]
