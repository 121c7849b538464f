"""Older tables brought up to this release when a store is opened."""

from pathlib import Path

from filestore.engine.database import check_header
from filestore.engine.schema import FORMAT_VERSION
from filestore.store import DATABASE_NAME


def upgrade(data_dir: Path) -> None:
    """For `FileStore.open`, which calls it with the folder's lock held. Usually nothing to do."""
    path = data_dir / DATABASE_NAME
    if path.exists() and check_header(path) < FORMAT_VERSION:
        from migrations import up  # late: commands start fast, and this is once in a release

        up(data_dir)
