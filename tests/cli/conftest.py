"""Commands on a folder of their own: nobody serves it (`alone`), or each way in turn (`zoned`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.tools import Zoned


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Zoned]:
    """No daemon runs unless the test starts one."""
    zoned = Zoned(tmp_path / "data")
    yield zoned
    zoned.end_all()


@pytest.fixture(params=["daemon", "alone"])
def zoned(request: pytest.FixtureRequest, alone: Zoned) -> Iterator[Zoned]:
    """Once with a daemon, once without: no test may see a difference."""
    if request.param == "alone":
        yield alone
    else:
        with alone.serving():
            yield alone
