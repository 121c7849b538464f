"""One daemon for a module of tests, and a client."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.tools import Zoned
from tests.support.daemon import Client, Daemon, serving


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """It must live through everything, end well, and log nothing of a fault of ours."""
    folder = tmp_path_factory.mktemp("input")
    # In a folder of its own: what a text is taken for as a path must not lie in the sources.
    with serving(folder / "data", prepare=lambda: os.chdir(folder)) as daemon:
        yield daemon
        assert daemon.process.poll() is None, daemon.log
        assert daemon.end() == 0
        assert daemon.token not in daemon.log
        assert [each for each in daemon.events() if each["level"] == "error"] == []


@pytest.fixture
def pane(daemon: Daemon) -> Iterator[Client]:
    """A client of the usual sort."""
    with daemon.client() as client:
        yield client


@pytest.fixture
def alone(tmp_path: Path) -> Zoned:
    """Commands on a folder that nobody serves."""
    return Zoned(tmp_path / "data")
