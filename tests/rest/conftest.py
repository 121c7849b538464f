"""One daemon with a workspace for a module of tests."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rest.tools import Rest
from tests.support.daemon import Daemon, serving

_numbers = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the daemon's data folder, its log and the workspace are."""
    return tmp_path_factory.mktemp("rest")


@pytest.fixture(scope="module")
def workspace(folder: Path) -> Path:
    """The folder of all repos."""
    made = folder / "workspace"
    made.mkdir()
    return made


@pytest.fixture(scope="module")
def daemon(folder: Path, workspace: Path) -> Iterator[Daemon]:
    """A daemon that must end well, and have logged nothing of a fault of ours."""
    config = {"sessions_max": 10_000, "event_heartbeat_s": 1}
    environ = {"AGENT_WORKSPACE_ROOT": str(workspace)}
    with serving(folder / "data", config=config, environ=environ) as daemon:
        yield daemon
        assert daemon.process.poll() is None, daemon.log
        assert daemon.end() == 0
        assert [each for each in daemon.events() if each["level"] == "error"] == []


@pytest.fixture(scope="module")
def rest(daemon: Daemon) -> Rest:
    """A client of it."""
    return Rest(daemon)


@pytest.fixture
def repo(rest: Rest, workspace: Path) -> str:
    """The id of a repo of this test's own."""
    place = workspace / f"repo-{next(_numbers)}"
    place.mkdir()
    return rest.repo(place)


@pytest.fixture
def session(rest: Rest, repo: str) -> str:
    """The id of a session of this test's own."""
    return rest.session(repo)
