"""One daemon for all tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.daemon import Daemon


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of the module."""
    return tmp_path_factory.mktemp("mcp") / "data"


@pytest.fixture(scope="module")
def daemon(folder: Path) -> Iterator[Daemon]:
    """A daemon on it."""
    with Daemon(folder) as started:
        yield started
